"""TFDS builder `ui_translate/{fr,de,es}-en`."""

from attention_research.data import ui_strings
from attention_research.data.by_hash import split_of
from attention_research.data.package_pairs import PackagePairs


class UiTranslate(PackagePairs):
    """Interface strings in two languages, split by component; the key of an example is component.keys."""

    source = ui_strings

    def pairs(self, folder, language):
        for component, keys, foreign, text in ui_strings.read_pairs(folder, language):
            yield split_of(component), ".".join((component, *keys)), foreign, text
