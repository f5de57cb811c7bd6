"""The token sequences of a split in two flat arrays, which are written once and opened as memory maps."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class TokenArray(Sequence):
    """Sequences of different lengths: sequence i is flat[offsets[i]:offsets[i+1]].

    >>> tokens = TokenArray.join([[4, 5, 2], [6, 2]])
    >>> len(tokens), tokens[1].tolist(), tokens.lengths.tolist()
    (2, [6, 2], [3, 2])
    """

    def __init__(self, flat: np.ndarray, offsets: np.ndarray):
        self.flat, self.offsets = flat, offsets

    @classmethod
    def join(cls, sequences: Iterable[Sequence[int] | np.ndarray]) -> "TokenArray":
        """From lists of token ids."""
        chunks = [np.asarray(sequence, np.int32) for sequence in sequences]
        offsets = np.cumsum([0, *(len(chunk) for chunk in chunks)], dtype=np.int64)
        return cls(np.concatenate([np.zeros(0, np.int32), *chunks]), offsets)

    @classmethod
    def unpadded(cls, batches: Iterable[np.ndarray]) -> "TokenArray":
        """From arrays [B T] whose rows are padded with 0; rows without tokens are left out."""
        flat, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for rows in batches:
            real = rows != 0
            flat.append(rows[real])
            lengths.append(real.sum(axis=1)[real.any(axis=1)])
        return cls(np.concatenate(flat), np.concatenate([[0], np.cumsum(np.concatenate(lengths))]))

    @classmethod
    def load(cls, path: Path) -> "TokenArray":
        """From the files that `save` wrote."""
        return cls(np.load(f"{path}.ids.npy", mmap_mode="r"), np.load(f"{path}.offsets.npy"))

    def save(self, path: Path) -> None:
        """Writes `path`.ids.npy and `path`.offsets.npy."""
        np.save(f"{path}.ids.npy", self.flat)
        np.save(f"{path}.offsets.npy", self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:  # type: ignore[override]  # no slices
        return self.flat[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each sequence."""
        return np.diff(self.offsets)


class BySplit(Mapping):
    """Split -> the result of `make`, computed on first access."""

    def __init__(self, splits: Sequence[str], make: Callable[[str], Any]):
        self._splits, self._make, self._made = tuple(splits), make, dict[str, Any]()

    def __getitem__(self, split: str) -> Any:
        if split not in self._splits:
            raise KeyError(split)
        if split not in self._made:
            self._made[split] = self._make(split)
        return self._made[split]

    def __contains__(self, split: object) -> bool:
        return split in self._splits

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)
