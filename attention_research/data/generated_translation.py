"""TFDS builder `generated_translation/{monotone,local,reversed}`, with the gold word alignment and its reader.

The features are `source` and `target`, as in `wmt14_translate`, and `alignment`: links i-j (source word - target word)
separated by spaces. The set is written as array_record, so that neither building nor reading needs TensorFlow.
"""

import tensorflow_datasets as tfds

from attention_research.data import reordering_grammar, sources
from attention_research.data.reordering_grammar import LONG, ORDERS, SHORT, Links

#: config -> (order, lengths, whether there are names)
CONFIGS = {order: (order, SHORT, False) for order in ORDERS}
CONFIGS |= {f"{order}_long": (order, LONG, False) for order in ORDERS} | {"local_names": ("local", SHORT, True)}


class GeneratedTranslation(tfds.core.GeneratorBasedBuilder):
    """Generated sentences, their translation in one of three orders, and its alignment; the key is a number."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(
            name=name,
            description=f"{order}, {shortest} to {longest} words{', with names' if names else ''}",
        )
        for name, (order, (shortest, longest), names) in CONFIGS.items()
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.Translation(languages=("source", "target", "alignment"))
        return tfds.core.DatasetInfo(builder=self, description=reordering_grammar.__doc__, features=features)

    def _split_generators(self, dl_manager):
        order, lengths, names = CONFIGS[self.builder_config.name]
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        made = reordering_grammar.sentences(order, lengths=lengths, names=names)
        for number, sentence in enumerate(made):
            sides = {"source": " ".join(sentence.source), "target": " ".join(sentence.target)}
            example = {**sides, "alignment": written(sentence.links)}
            splits[reordering_grammar.split_of(sentence.source)].append((number, example))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples


def written(links: Links) -> str:
    """The text form of links.

    >>> written(((0, 1), (2, 0)))
    '0-1 2-0'
    """
    return " ".join(f"{source}-{target}" for source, target in links)


def read(text: str) -> Links:
    """The links in a text that `written` made.

    >>> read("0-1 2-0")
    ((0, 1), (2, 0))
    """
    pairs = (link.split("-") for link in text.split())
    return tuple((int(source), int(target)) for source, target in pairs)


def gold(name: str, split: str) -> list[Links]:
    """The alignments of a split in the order of its sentences; the set must be prepared."""
    return [read(example["alignment"]) for example in sources.open_split(name, split)]
