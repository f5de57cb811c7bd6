"""Your own pictures with captions: a folder, a file that says what is on them (`data.picture_folder`), and batches.

The batches are those of `data.captions`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

from attention_research.data.captions import CaptionTexts
from attention_research.data.kept import Kept
from attention_research.data.names import caption_file, check_folder
from attention_research.data.picture_folder import FolderPictures, PictureFolder
from attention_research.registry import Child, Positive


class CaptionFolder(CaptionTexts):
    """The pictures of `folder`, named in the file `captions` (.tsv or .jsonl), which lies in the folder or where its
    path says.

    `validation` and `test` are such files for these splits; without them the pictures of `captions` are split by a hash
    of their names. Lengths are those of `NamedPictureTexts`. `train_examples` takes that many pictures of a fixed
    permutation of the training split. `normalization` "words" lowers the case and takes punctuation off the words, in
    references too.
    """

    def __init__(
        self,
        *,
        folder: str,
        captions: str = "captions.tsv",
        validation: str | None = None,
        test: str | None = None,
        side: Positive,
        channels: Positive,
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
        normalization: Literal["words", "none"] = "words",
        train_examples: Positive | None = None,
    ):
        self.vocabulary_size = vocabulary_size
        place = Path(folder).absolute()
        paths = [None if file is None else caption_file(place, file) for file in (captions, validation, test)]
        choice = PictureFolder(str(place), paths[0] or captions, paths[1], paths[2], normalization, train_examples)
        super().__init__(folder, choice, FolderPictures(choice, side, channels), side, channels, max_length, tokenizer)

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """As `NamedPictureTexts.prepare`. Raises `ConfigError` where the folder or a file of it is missing."""
        check_folder(self._choice.name, self._choice.files())
        super().prepare(progress)
        return self

    def take(self, kept: Kept, report: Callable[[str], None]) -> None:
        """As `NamedPictureTexts.take`; the folder is looked for where it was when the run began, then as configured."""
        place = kept.learned["place"]
        if Path(place["name"]).is_dir():
            self._choice = dataclasses.replace(self._choice, **place)
            self._images.use(self._choice)
        super().take(kept, report)

    def learned(self) -> dict[str, Any]:
        """Where the pictures and their captions lie; the counts of the captions' tokens, as `FileData` has them."""
        place = {name: getattr(self._choice, name) for name in ("name", "captions", "validation", "test")}
        return {"place": place, "target_counts": self.target_counts().tolist()}
