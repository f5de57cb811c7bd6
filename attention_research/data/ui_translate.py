"""TFDS builder `ui_translate/{fr,de,es}-en`: the same features as `wmt14_translate`, from one registry package.

Written as array_record, so that neither building nor reading needs TensorFlow.
"""

import tensorflow_datasets as tfds

from attention_research.data import interface
from attention_research.data.registry_package import fetch


class UiTranslate(tfds.core.GeneratorBasedBuilder):
    """Interface strings in two languages, split by component; the key of an example is component.keys."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=f"{language}-en", description=f"{language} and en, string by string")
        for language in ("fr", "de", "es")
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        languages = tuple(self.builder_config.name.split("-"))
        features = tfds.features.Translation(languages=languages)
        return tfds.core.DatasetInfo(builder=self, description=interface.__doc__, features=features)

    def _split_generators(self, dl_manager):
        language, english = self.builder_config.name.split("-")
        splits = {"train": [], "validation": [], "test": []}
        for component, keys, foreign, text in interface.read_pairs(fetch(interface.PACKAGE), language):
            key = ".".join((component, *keys))
            splits[interface.split_of(component)].append((key, {language: foreign, english: text}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
