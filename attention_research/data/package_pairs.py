"""Base class of TFDS builders of sentence pairs from a registry package, with the features of `wmt14_translate`.

The sets are written as array_record, so that neither building nor reading needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import tensorflow_datasets as tfds


class PackagePairs(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]  # TFDS's own
    """The configs {fr,de,es}-en. A subclass sets `source`, the module that reads the package, and defines `pairs`."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=f"{language}-en", description=f"{language} and en, pair by pair")
        for language in ("fr", "de", "es")
    ]
    source: ModuleType

    def pairs(self, language: str) -> Iterator[tuple[str, str, str, str]]:
        """(split, key, sentence in `language`, sentence in English) of the package, downloaded if needed."""
        raise NotImplementedError

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.Translation(languages=tuple(self.builder_config.name.split("-")))
        return tfds.core.DatasetInfo(builder=self, description=self.source.__doc__, features=features)

    def _split_generators(self, dl_manager):
        language, english = self.builder_config.name.split("-")
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for split, key, foreign, text in self.pairs(language):
            splits[split].append((key, {language: foreign, english: text}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
