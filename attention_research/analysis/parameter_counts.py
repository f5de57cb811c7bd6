"""Counts weight matrices and tables without biases, as papers on recurrent translation models count parameters."""

from __future__ import annotations

from attention_research.config import Config, build_experiment
from attention_research.layers.structure import abstract


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every parameter of the model of a config. Allocates nothing."""
    parts = build_experiment(config)
    return {name: tuple(x.shape) for name, x in abstract(lambda rngs: parts.model(rngs=rngs))[1].items()}


def weights_without_biases(config: Config) -> dict[str, int]:
    """{"weights_without_biases": the number of parameters whose name does not end in "bias"}.

    >>> from attention_research.config.files import load
    >>> weights_without_biases(load("translation/transformer:cpu"))["weights_without_biases"] > 1_000_000
    True
    """
    count = 0
    for name, shape in shapes(config).items():
        size = 1
        for axis in shape:
            size *= axis
        count += 0 if name.endswith("bias") else size
    return {"weights_without_biases": count}
