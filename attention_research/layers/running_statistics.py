"""Running statistics: arrays that training updates without a gradient (batch norm's moments, a REINFORCE baseline).

A module holds them as `RunningStatistic` variables and never mutates them. In training it returns their new values,
the *updates*, under "updates" in its aux: a dictionary from attribute names to values, which each parent module nests
under the child's name. The train step checks that the names of the updates equal the names of the statistics, and
stores the updates in the train state. In evaluation (calls without a key) there are no updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from attention_research.layers.structure import RunningStatistic, path_name

__all__ = ["UPDATES", "RunningStatistic", "flat_updates", "nested"]

#: The key of the updates in an aux dictionary.
UPDATES = "updates"


def nested(**children: Mapping[str, Any]) -> dict[str, Any]:
    """The dictionary {child: its updates}, without children that have no updates.

    >>> nested(stem={"mean": 1.0}, head={})
    {'stem': {'mean': 1.0}}
    """
    return {name: updates for name, updates in children.items() if updates}


def flat_updates(updates: Mapping[str, Any]) -> dict[str, Any]:
    """Flattens nested updates to the dotted names that the train state uses.

    >>> flat_updates({"stem": {"norm": {"mean": 1.0}}})
    {'stem.norm.mean': 1.0}
    """
    return {path_name(path): value for path, value in jax.tree_util.tree_flatten_with_path(updates)[0]}
