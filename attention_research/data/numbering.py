"""Another model's token ids in our order: padding, beginning, end and unknown first, as `tokens` has them.

Models and decoding rely on these four, so that an imported vocabulary is renumbered: rows of its tables change places,
and nothing else. Where one of their tokens has two parts to play (GPT-2 ends and begins with <|endoftext|>, T5 begins
with padding), the first part is the token and the second a copy of its row that is never written ("silent": its logit
is -1e4). A part that nobody plays is a silent row of zeros.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

#: Who takes its token first: what is written before what is only read.
FIRST = (EOS, PAD, UNKNOWN, BOS)
#: The logit of what is never written.
SILENT = -1e4


@dataclasses.dataclass(frozen=True)
class Numbering:
    """`theirs` has for each of our ids theirs, or None; `silent` whether it is never written."""

    theirs: tuple[int | None, ...]
    silent: tuple[bool, ...]

    @classmethod
    def of(cls, size: int, parts: Mapping[int, int | None], last: Sequence[int | None] = ()) -> Numbering:
        """Of `size` tokens, given which of theirs plays each of our four parts; `last` are those that stand last, None
        for a row that none of theirs is.

        >>> Numbering.of(5, {EOS: 4, BOS: 4, PAD: None, UNKNOWN: 1}, last=[0]).theirs
        (None, 4, 4, 1, 2, 3, 0)
        """
        taken, silent = {token for token in last if token is not None}, {}
        for part in FIRST:
            token = parts.get(part)
            silent[part] = token is None or token in taken
            taken |= {token} if token is not None else set()
        rest = [token for token in range(size) if token not in taken]
        order = [*(parts.get(part) for part in sorted(silent)), *rest, *last]
        quiet = [*(silent[part] for part in sorted(silent)), *(False for _ in rest), *(one is None for one in last)]
        return cls(tuple(order), tuple(quiet))

    def __len__(self) -> int:
        return len(self.theirs)

    @cached_property
    def ours(self) -> dict[int, int]:
        """Their id -> ours, the one that is written."""
        return {token: place for place, token in enumerate(self.theirs) if token is not None and not self.silent[place]}

    def rows(self, table: Float[np.ndarray, "V *D"]) -> Float[np.ndarray, "W *D"]:
        """Their table in our order, with zeros for tokens that they lack. Raises ValueError for another length."""
        size = 1 + max((token for token in self.theirs if token is not None), default=-1)
        if len(table) != size:
            raise ValueError(f"{len(table)} rows where vocab_size in config.json is {size}")
        taken = table[[0 if token is None else token for token in self.theirs]]
        taken[[token is None for token in self.theirs]] = 0
        return taken

    def bias(self, bias: Float[np.ndarray, "V"] | None = None) -> Float[np.ndarray, "W"]:
        """Their bias on the logits (None: zeros) in our order, that of what is never written -1e4."""
        found = np.zeros(len(self), np.float32) if bias is None else self.rows(bias)
        return np.where(self.silent, np.float32(SILENT), found)
