"""Your own pictures with captions: a folder of pictures, a caption file (`data.picture_folder`), and batches.

The batches have the form of `data.captions`.
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
from attention_research.signatures import Child, Positive


class CaptionFolder(CaptionTexts):
    """The pictures of `folder` that the file `captions` (.tsv or .jsonl) names. The file is in the folder, or at the
    given path.

    `validation` and `test` are caption files for these splits. Without them, the pictures of `captions` are split by a
    hash of their names. `NamedPictureTexts` explains the lengths. `train_examples` selects that many pictures of a
    fixed permutation of the training split. `normalization` "words" converts to lower case and separates punctuation
    from words, also in the references.
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
        """As `NamedPictureTexts.prepare`. Raises `ConfigError` if the folder or one of its files is missing."""
        check_folder(self._choice.name, self._choice.files())
        super().prepare(progress)
        return self

    def take(self, kept: Kept, report: Callable[[str], None]) -> None:
        """As `NamedPictureTexts.take`. Uses the folder that the run began with if it exists, otherwise the configured
        one."""
        place = kept.learned["place"]
        if Path(place["name"]).is_dir():
            self._choice = dataclasses.replace(self._choice, **place)
            self._images.use(self._choice)
        super().take(kept, report)

    def learned(self) -> dict[str, Any]:
        """The paths of the pictures and captions, and the token counts of the captions, as in `FileData`."""
        place = {name: getattr(self._choice, name) for name in ("name", "captions", "validation", "test")}
        return {"place": place, "target_counts": self.target_counts().tolist()}
