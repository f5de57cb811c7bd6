"""Renumbers the token ids of another model: padding, beginning, end and unknown come first, as in `tokens`.

Models and decoding rely on the ids of these four tokens, so an imported vocabulary is renumbered. This only permutes
the rows of its tables. If one imported token has two roles (GPT-2 begins and ends with <|endoftext|>; T5 begins with
padding), the first role keeps the token, and the second gets a copy of its row that is never generated ("silent": its
logit is -1e4). A role without a token is a silent row of zeros.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

#: The order in which the roles take tokens: generated tokens before those that are only read.
FIRST = (EOS, PAD, UNKNOWN, BOS)
#: The logit of tokens that are never generated.
SILENT = -1e4


@dataclasses.dataclass(frozen=True)
class Numbering:
    """For each of our ids, `theirs` is the imported id or None, and `silent` says whether it is never generated."""

    theirs: tuple[int | None, ...]
    silent: tuple[bool, ...]

    @classmethod
    def of(cls, size: int, parts: Mapping[int, int | None], last: Sequence[int | None] = ()) -> Numbering:
        """The numbering of `size` imported tokens. `parts` maps our four special ids to imported ids; `last` are the
        ids to put last, with None for a row without an imported token.

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
        """Imported id -> our id, without the silent copies."""
        return {token: place for place, token in enumerate(self.theirs) if token is not None and not self.silent[place]}

    def rows(self, table: Float[np.ndarray, "V *D"]) -> Float[np.ndarray, "W *D"]:
        """An imported table in our order, with zeros for missing tokens. Raises ValueError for a wrong length."""
        size = 1 + max((token for token in self.theirs if token is not None), default=-1)
        if len(table) != size:
            raise ValueError(f"{len(table)} rows where vocab_size in config.json is {size}")
        taken = table[[0 if token is None else token for token in self.theirs]]
        taken[[token is None for token in self.theirs]] = 0
        return taken

    def bias(self, bias: Float[np.ndarray, "V"] | None = None) -> Float[np.ndarray, "W"]:
        """The imported logit bias (None: zeros) in our order, with -1e4 for silent tokens."""
        found = np.zeros(len(self), np.float32) if bias is None else self.rows(bias)
        return np.where(self.silent, np.float32(SILENT), found)
