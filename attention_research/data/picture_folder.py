"""A folder of pictures with a caption file: the captions and the split of each picture.

captions.tsv      picture, a tab, one caption; a picture with several captions has several lines
captions.jsonl    {"file_name": "dog.png", "captions": ["a dog", "a black dog"]}, or one caption as "caption" or "text"

Names of pictures are relative to the folder. If the first line of a .tsv file is a header (file_name, caption), it is
skipped. Without separate files for validation and test, the pictures are split by the MD5 of their names: a twentieth
each, and at least one picture each.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import itertools
import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.data.by_hash import split_of
from attention_research.data.labelled import words_apart
from attention_research.data.lines import read_content, read_lines
from attention_research.data.named_pictures import Pictures
from attention_research.data.pictures import read_picture
from attention_research.data.prepared import chosen
from attention_research.errors import ConfigError

SPLITS = ("train", "validation", "test")
#: The names of the pictures' column in a header, and of their key in JSON.
PICTURE = ("file_name", "filename", "file", "image", "picture")
CAPTION = ("captions", "caption", "text")

#: The suffixes of picture files.
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")

#: JSON writes a character beyond U+FFFF as two surrogates; one alone is no text.
_HALF = re.compile("[\ud800-\udfff]")

#: picture -> its captions; a caption without text is left out
Captions = dict[str, list[str]]


@dataclasses.dataclass(frozen=True)
class PictureFolder:
    """The input of `prepared.prepare`: the captions of all pictures of a folder, concatenated.

    `captions` is the caption file of all splits; if `validation` and `test` name other files, it is that of training.
    """

    name: str
    captions: str
    validation: str | None
    test: str | None
    normalization: str
    train_examples: int | None = None

    def prepare(self, report: Callable[[str], None]) -> None:
        """Nothing has to be built."""

    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def files(self) -> dict[str, str]:
        """Setting -> the caption file that it names."""
        named = {"captions": self.captions, "validation": self.validation, "test": self.test}
        return {setting: file for setting, file in named.items() if file is not None}

    def stamp(self) -> str:
        """A string that changes with a caption file or a picture. Raises `ConfigError` if one is missing."""
        return hashlib.sha256(repr([(_times(self), self.stamp_of(split)) for split in SPLITS]).encode()).hexdigest()

    def stamp_of(self, split: str) -> str:
        """A string that changes with a picture of a split. Raises `ConfigError` if one is missing."""
        return hashlib.sha256(repr([self._stat(split, picture) for picture in self.of(split)]).encode()).hexdigest()

    def _stat(self, split: str, picture: str) -> tuple[str, int, int]:
        path = self.path(picture)
        try:
            stat = path.stat()
        except OSError:
            there = [str(one.relative_to(self.name)) for one in Path(self.name).rglob("*") if one.suffix in SUFFIXES]
            near = difflib.get_close_matches(picture, there, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(
                f"config.data.captions: {self.file(split)} names {picture}, which is not in {self.name}{hint}"
            ) from None
        return (str(path), stat.st_size, stat.st_mtime_ns)

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The captions of a split, normalised, and the same number of empty texts."""
        normalized = words_apart if self.normalization == "words" else lambda text: " ".join(text.split())
        texts = [normalized(caption) for captions in self.of(split).values() for caption in captions]
        return texts, [""] * len(texts)

    def pictures(self, split: str) -> np.ndarray:
        """[captions] the number of the picture of each caption."""
        counts = [len(captions) for captions in self.of(split).values()]
        return np.repeat(np.arange(len(counts)), counts)

    def marks(self, split: str) -> list[str]:
        """The SHA-256 of each picture of a split, which is part of the digest of the split."""
        return [sha256 for _, sha256 in self.contents(split)[1:]]

    def contents(self, split: str) -> list[tuple[str, str]]:
        """The path and the SHA-256 of the caption file and of each picture of a split."""
        paths = [self.file(split), *(str(self.path(picture)) for picture in self.of(split))]
        return [(path, hashlib.sha256(read_content(path)).hexdigest()) for path in paths]

    def left_out(self) -> dict[str, dict[str, int]]:
        """Reason -> the number of captions and pictures left out."""
        splits, found = _read(self, _times(self))
        named = {Path(picture) for pictures in splits.values() for picture in pictures}
        there = [path for path in Path(self.name).rglob("*") if path.suffix.lower() in SUFFIXES]
        without = sum(path.relative_to(self.name) not in named for path in there)
        counts = {**found, **({"pictures without a caption": without} if without else {})}
        return {"the folder": counts} if counts else {}

    def file(self, split: str) -> str:
        """The caption file of a split."""
        return {"validation": self.validation, "test": self.test}.get(split) or self.captions

    def of(self, split: str) -> Captions:
        """The pictures of a split with their captions, in the order of the token arrays."""
        pictures = _read(self, _times(self))[0][split]
        names = list(pictures)
        return {names[place]: pictures[names[place]] for place in chosen(split, len(names), self.train_examples)}

    def path(self, picture: str) -> Path:
        """The path of a picture."""
        return Path(self.name) / picture


class FolderPictures(Pictures):
    """The pictures of a `PictureFolder`, with the interface of `Pictures`."""

    def _stamp(self, split: str) -> str:
        return self._set.stamp_of(split)

    def _open(self, split: str) -> tuple[Any, np.ndarray]:
        pictures = list(self._set.of(split))
        return _Files(self._set, pictures, self._channels), np.arange(len(pictures))


class _Files:
    """Number -> {"image": uint8 [Y X C]}."""

    def __init__(self, folder: PictureFolder, pictures: list[str], channels: int):
        self._folder, self._pictures, self._channels = folder, pictures, channels

    def __getitem__(self, number: int) -> dict[str, np.ndarray]:
        path = self._folder.path(self._pictures[number])
        return {"image": read_picture(path, self._channels, f"config.data.folder: {path}")}


def _times(folder: PictureFolder) -> tuple[Any, ...]:
    """The sizes and times of the caption files."""
    stats = {file: Path(file).stat() for file in folder.files().values() if Path(file).exists()}
    return tuple((file, stat.st_size, stat.st_mtime_ns) for file, stat in stats.items())


@functools.lru_cache(maxsize=4)
def _read(folder: PictureFolder, times: tuple[Any, ...]) -> tuple[dict[str, Captions], Counter[str]]:
    """(split -> its pictures, reason -> the number left out)."""
    left_out: Counter[str] = Counter()
    read = {setting: _captions(folder, setting, file, left_out) for setting, file in folder.files().items()}
    for one, other in itertools.combinations(read, 2):
        if both := sorted(read[one].keys() & read[other].keys()):
            named = both[0] if len(both) == 1 else f"{both[0]} and {len(both) - 1:,} more pictures"
            raise ConfigError(
                f"config.data.{other}: {folder.files()[other]} names {named} of config.data.{one}; a picture belongs "
                "to one split"
            )
    found = {split: read.get(split, {}) for split in SPLITS}
    rest = {name: captions for name, captions in read["captions"].items()}
    held_out = [split for split in SPLITS[1:] if split not in read]
    for name in list(rest):
        if (split := split_of(name)) in held_out:
            found[split][name] = rest.pop(name)
    by_hash = sorted(rest, key=lambda name: hashlib.md5(name.encode(), usedforsecurity=False).digest())
    for split in held_out:
        if not found[split] and len(by_hash) > 1:
            name = by_hash.pop()
            found[split][name] = rest.pop(name)
    found["train"] = rest
    for split, pictures in found.items():
        if not pictures:
            raise ConfigError(f"config.data.captions: {folder.captions}: no picture is left for {split}")
    return found, left_out


def _captions(folder: PictureFolder, setting: str, file: str, left_out: Counter[str]) -> Captions:
    """The pictures that a file names, in order. Raises `ConfigError` with the line number for a line without one."""
    name = f"config.data.{setting}: {file}"
    read = _json_lines if Path(file.removesuffix(".gz")).suffix in (".jsonl", ".json") else _tab_lines
    found: Captions = {}
    for number, picture, captions in read(read_lines(file, name), name):
        if number == 1 and picture.lower() in PICTURE and not folder.path(picture).exists():
            continue
        with_text = [caption for caption in captions if caption.strip()]
        left_out["captions without text"] += len(captions) - len(with_text)
        if not picture.strip():
            raise ConfigError(f"{name}: line {number} names no picture")
        found.setdefault(posixpath.normpath(picture), []).extend(with_text)
    if not left_out["captions without text"]:
        del left_out["captions without text"]
    return {picture: captions for picture, captions in found.items() if captions}


def _tab_lines(lines: list[str], name: str) -> Iterator[tuple[int, str, list[str]]]:
    for number, line in enumerate(lines, 1):
        picture, tab, caption = line.partition("\t")
        if line.strip() and not tab:
            raise ConfigError(f"{name}: line {number} has no tab: expected the picture's file, a tab, the caption")
        if line.strip():
            yield number, picture, [caption]


def _json_lines(lines: list[str], name: str) -> Iterator[tuple[int, str, list[str]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
            picture = next(said[key] for key in PICTURE if key in said)
            captions = next(said[key] for key in CAPTION if key in said)
        except (ValueError, TypeError, StopIteration):
            raise ConfigError(f'{name}: line {number}: expected {{"file_name": ..., "captions": [...]}}') from None
        captions = [captions] if isinstance(captions, str) else captions
        if not isinstance(captions, list) or not all(isinstance(text, str) for text in [picture, *captions]):
            raise ConfigError(f"{name}: line {number}: expected texts for the picture and its captions")
        if half := _HALF.search("".join([picture, *captions])):
            raise ConfigError(f"{name}: line {number} has half of a character, \\u{ord(half[0]):x}; write all of it")
        yield number, picture, captions
