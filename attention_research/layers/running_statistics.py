"""Statistics that training replaces: batch norm's moments, a baseline of REINFORCE. Nothing is mutated.

A module holds them as `RunningStatistic`s and returns what stands in their place after this step, its *updates*, under
"updates" of its aux: a nested dictionary by the names of its attributes, which every module above nests further. The
train step checks that the two sets of names are equal and puts the updates into the state beside the parameters.
Without a key, in evaluation, there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from attention_research.layers.structure import RunningStatistic, path_name

__all__ = ["UPDATES", "RunningStatistic", "flat_updates", "nested"]

#: Under which an aux holds them.
UPDATES = "updates"


def nested(**children: Mapping[str, Any]) -> dict[str, Any]:
    """{child: its updates}, without the children that have none.

    >>> nested(stem={"mean": 1.0}, head={})
    {'stem': {'mean': 1.0}}
    """
    return {name: updates for name, updates in children.items() if updates}


def flat_updates(updates: Mapping[str, Any]) -> dict[str, Any]:
    """By the dotted names that the train state has.

    >>> flat_updates({"stem": {"norm": {"mean": 1.0}}})
    {'stem.norm.mean': 1.0}
    """
    return {path_name(path): value for path, value in jax.tree_util.tree_flatten_with_path(updates)[0]}
