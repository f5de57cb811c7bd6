"""Trains a small decoder-only model on multi-query associative recall (`data.recall`), for tests of attention kinds.

    accuracy({"kind": "standard"})                       # the share of right answers, about 1; guessing gives 0.25
    accuracy({"kind": "my_kind", "rank": 5}, steps=500, positions="none")

Two layers of attention without feed-forwards, as in Arora et al. 2023: 24 tokens, 4 pairs, a vocabulary of 32. Standard
attention learns it in 150 steps.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from attention_research.config import build_model
from attention_research.data.recall import recalled
from attention_research.layers.structure import split
from attention_research.tasks.answers import Answers

#: Pairs of a row -> its length.
LENGTHS = {4: 24, 2: 12}
PAIRS, WORDS, ROWS, EVALUATED = 4, 32, 32, 256
#: The accuracy of always answering with one of the row's values.
CHANCE = 1 / PAIRS
#: Compilation and steps together take half the time that they take with all of XLA's optimisations, or with none.
OPTIMIZED = {"xla_backend_optimization_level": 1, "xla_llvm_disable_expensive_passes": True}


def accuracy(
    self_attention: Mapping[str, Any],
    *,
    steps: int = 300,
    learning_rate: float = 5e-3,
    positions: str = "learned",
    seed: int = 0,
    pairs: int = PAIRS,
    **model: Any,
) -> float:
    """The share of right answers on new rows after `steps` steps of Adam, each on 32 new rows.

    `self_attention` is the section of the config, and `model` has further settings of `transformer_decoder`.
    """
    section = {
        "kind": "transformer_decoder", "width": 64, "num_heads": 2, "num_layers": 2, "dropout_rate": 0.0,
        "self_attention": dict(self_attention), "positions": {"kind": positions}, "vocabulary": {"kind": "untied"},
        "feed_forward": {"kind": "dense", "hidden_width": 1},
        "decoder": {"steps": (("norm", "self_attention", "residual"),)},
    } | model  # fmt: skip
    length = LENGTHS[pairs]
    structure, parameters, statistics = split(
        build_model(section, max_length=length, vocabulary_size=WORDS)(rngs=nnx.Rngs(seed))
    )
    texts = recalled(
        np.random.default_rng(seed), steps * ROWS + EVALUATED, length=length, pairs=pairs, vocabulary_size=WORDS,
        power=0.01, random_fillers=False,
    )  # fmt: skip
    held_out = {name: jnp.asarray(array[:EVALUATED]) for name, array in texts.items()}
    batches = {name: jnp.asarray(array[EVALUATED:].reshape(steps, ROWS, length)) for name, array in texts.items()}
    task = Answers()
    warm_up = steps // 10

    def schedule(step):
        """A linear warm-up over a tenth of the steps, then a linear decay to 0."""
        step = jnp.float32(step)
        return learning_rate * jnp.minimum(step / warm_up, (steps - step) / (steps - warm_up))

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule, b2=0.98))

    def loss(parameters, batch, key):
        total, sums = task.loss(structure.merge(parameters, statistics), batch, key)
        return total / task.count(batch), sums["correct"] / task.count(batch)

    def trained(parameters, batches, held_out):
        def step(carry, given):
            (parameters, state), (batch, key) = carry, given
            gradient, _ = jax.grad(loss, has_aux=True)(parameters, batch, key)
            with jax.numpy_dtype_promotion("standard"):  # optax mixes floats and its integer count
                updates, state = optimizer.update(gradient, state, parameters)
            return (optax.apply_updates(parameters, updates), state), None

        keys = jax.random.split(jax.random.key(seed), steps)
        (parameters, _), _ = jax.lax.scan(step, (parameters, optimizer.init(parameters)), (batches, keys))
        return loss(parameters, held_out, None)[1]

    return float(jax.jit(trained, compiler_options=OPTIMIZED)(parameters, batches, held_out))
