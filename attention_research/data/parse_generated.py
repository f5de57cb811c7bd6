"""TFDS builder `parse_generated/{en,short}`: generated sentences (`en`) and their linearised trees (`tree`).

The features are those of `wmt14_translate`, so that parsing is translation from `en` to `tree` (Vinyals et al. 2015).
The set is written as array_record, so that neither building nor reading needs TensorFlow.
"""

import tensorflow_datasets as tfds

from attention_research.data import grammar
from attention_research.data.by_hash import split_of
from attention_research.data.trees import linearised, sentence

#: The largest number of symbols of a short tree; with the end of sentence, 32 tokens.
SHORT = 31


class ParseGenerated(tfds.core.GeneratorBasedBuilder):
    """Sentences of a small grammar with their trees; the key of an example is its number. `short`: part of `en`."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="en", description="English-like words, Penn labels"),
        tfds.core.BuilderConfig(name="short", description=f"those whose trees have at most {SHORT} symbols"),
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.Translation(languages=("en", "tree"))
        return tfds.core.DatasetInfo(builder=self, description=grammar.__doc__, features=features)

    def _split_generators(self, dl_manager):
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for number, tree in enumerate(grammar.trees()):
            words, symbols = sentence(tree), linearised(tree)
            if self.builder_config.name == "short" and len(symbols.split()) > SHORT:
                continue
            splits[split_of(words)].append((number, {"en": words, "tree": symbols}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
