"""Muon, Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon): orthogonalised momentum for hidden matrices.

    M_t = momentum M_{t-1} + (1 - momentum) G_t        N_t = momentum M'_t + (1 - momentum) G'_t
    X_0 = N_t / ||N_t||_F        X_{i+1} = a X_i + (b X_i X_i^T + c (X_i X_i^T)^2) X_i        i < 5
    W_t = W_{t-1} - rate (s X_5 + weight_decay W_{t-1})

(a, b, c) = (3.4445, -4.7750, 2.0315). Five Newton-Schulz steps move all singular values of N_t to between about 0.7 and
1.2. A prime denotes optax's bias correction, which divides M_t by 1 - momentum^(t+1) and G_t by 1 - momentum^t. Without
Nesterov momentum, N_t is M_t. For a matrix [n m], s is 0.2 sqrt(max(n, m)) (Liu et al. 2025, arXiv 2502.16982,
equation 4), with which an update has the root mean square of AdamW's, or sqrt(max(1, m / n)), as in Jordan's code.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import jax
import optax
from optax import contrib

from attention_research.signatures import NonNegativeFloat, PositiveFloat, Rate
from attention_research.training.optimizers import decayed

#: The last two axes of a kernel are its matrix. The axes before them, of layers and experts, are separate matrices.
MATRIX = contrib.MuonDimensionNumbers(reduction_axis=-2, output_axis=-1)
_MATRICES = re.compile(r"\.((input|state)_)?kernel$")
_OTHERS = re.compile(
    r"(^|\.)(vocabulary|stem|\w*convolution\w*|\w*separable\w*)\.|^(head|output)\.|blocks\.\d+\.(first|second)\.kernel$"
    r"|(^|\.)positions\.kernel$|^features\..*\.gate\.(spatial\.)?kernel$"
)


def hidden(name: str) -> bool:
    """Whether a parameter is a hidden matrix: a kernel of neither the vocabulary, a head for classes nor a convolution.
    Conditional positions and the spatial gates of image features are convolutions, too.

    >>> hidden("decoder.stack.segments.0.self_attention.query.kernel"), hidden("features.convolutions.0.kernel")
    (True, False)
    >>> hidden("network.blocks.0.first.kernel")  # of a temporal convolutional network
    False
    """
    return bool(_MATRICES.search(name)) and not _OTHERS.search(name)


class Muon:
    """Muon for hidden matrices, each layer and expert separately, and AdamW for all other parameters.

    `momentum` is the decay rate of the average of the gradients, with Nesterov's look-ahead if `nesterov`. `scaling` is
    the factor s: rms, or width as in Jordan's code, whose learning rate is then about 0.02. AdamW has the learning rate
    times `adam_rate`, decay rates `b1` and `b2`, and decays tables. `weight_decay` is the factor of the decay of both.
    The defaults are those of Liu et al. 2025.
    """

    def __init__(
        self,
        *,
        momentum: Rate = 0.95,
        nesterov: bool = True,
        scaling: Literal["rms", "width"] = "rms",
        weight_decay: NonNegativeFloat = 0.1,
        adam_rate: PositiveFloat = 1.0,
        b1: Rate = 0.9,
        b2: Rate = 0.95,
        epsilon: PositiveFloat = 1e-8,
    ):
        self.momentum, self.nesterov, self.scaling, self.weight_decay = momentum, nesterov, scaling, weight_decay
        self.adam_rate, self.b1, self.b2, self.epsilon = adam_rate, b1, b2, epsilon

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        muon = optax.chain(
            contrib.scale_by_muon(
                beta=self.momentum, eps=self.epsilon, nesterov=self.nesterov, weight_dimension_numbers=_matrices
            ),
            optax.stateless(lambda updates, _: {name: self._scaled(x) for name, x in updates.items()}),
            optax.add_decayed_weights(self.weight_decay),
            optax.scale_by_learning_rate(schedule),
        )
        adamw = optax.adamw(
            lambda count: self.adam_rate * schedule(count),
            self.b1,
            self.b2,
            self.epsilon,
            weight_decay=self.weight_decay,
            mask=decayed,
        )
        return optax.partition({"muon": muon, "adamw": adamw}, _labels)

    def _scaled(self, update: Any) -> Any:
        """The update times s; empty nodes, which stand for the parameters of AdamW, as they are."""
        if not isinstance(update, jax.Array):
            return update
        n, m = update.shape[-2:]
        return update * (0.2 * math.sqrt(max(n, m)) if self.scaling == "rms" else math.sqrt(max(1.0, m / n)))


def _labels(parameters: dict[str, Any]) -> dict[str, str]:
    return {name: "muon" if hidden(name) else "adamw" for name in parameters}


def _matrices(parameters: dict[str, Any]) -> dict[str, Any]:
    """MATRIX for each array. `partition` puts empty nodes in place of the parameters of AdamW."""
    return {name: MATRIX if hidden(name) else x for name, x in parameters.items()}
