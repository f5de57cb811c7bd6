"""Attention with a state: additive rules, delta rules, normalized sums, and a state for each level of a tree."""

from __future__ import annotations

import functools
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax

from attention_research.kernels.state import (
    delta_attention,
    delta_step,
    log_linear_attention,
    log_linear_step,
    no_log_linear_state,
    no_normalized_state,
    normalized_attention,
    normalized_step,
    selective_scan,
    selective_step,
    state_attention,
    state_step,
)
from tests.catalogue.mechanism import Mechanism

_unit = lambda random, shape: _over_norm(random.standard_normal(shape))
_over_norm = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
_decay = lambda random, shape: -np.abs(random.standard_normal(shape)) / 2
_rarely = lambda random, shape: random.random(shape) < 0.2
_share = lambda random, shape: random.uniform(0.05, 0.95, shape)
_small = lambda random, shape: 0.3 * random.standard_normal(shape)
_positive = lambda random, shape: np.abs(random.standard_normal(shape)) + 0.1


def _over_positions(step, state, given, chunk_size):
    """(outputs, last state) of step(state, **given at a position), one position after the other."""
    del chunk_size
    along = {name: jnp.moveaxis(x, 1, 0) for name, x in given.items()}
    state, outputs = lax.scan(lambda state, now: step(state, **now), state, along)
    return jnp.moveaxis(outputs, 0, 1), state


def _one_by_one(step, *, initial_state=None, chunk_size, **given):
    query, value = given["query"], given["value"]
    state = jnp.zeros((len(query), *query.shape[2:], value.shape[-1])) if initial_state is None else initial_state
    return _over_positions(step, state, given, chunk_size)


@functools.wraps(normalized_attention)
def _normalized(**arguments):
    """The output alone. The state is relative to the largest scale, which has no gradient."""
    return normalized_attention(**arguments)[0]


def _normalized_one_by_one(*, chunk_size, floor=False, **given):
    (B, _, N, H), value_width = given["query"].shape, given["value"].shape[-1]
    state = no_normalized_state(B, N, H, value_width)
    return _over_positions(partial(normalized_step, floor=floor), state, given, chunk_size)[0]


@functools.wraps(log_linear_attention)
def _log_linear(**arguments):
    """(the output, the states of the blocks), without the number of positions."""
    output, state = log_linear_attention(**arguments)
    return output, state.slots


def _log_linear_one_by_one(*, chunk_size, **given):
    (B, _, N, H), L, Hv = given["query"].shape, given["level_weights"].shape[-1], given["value"].shape[-1]
    state = no_log_linear_state(B, N, L, H, Hv)
    output, state = _over_positions(log_linear_step, state, given, chunk_size)
    return output, state.slots


def _of_form(function, axes):
    """The function for a `log_decay` with these axes only."""

    @functools.wraps(function)
    def call(*, log_decay, **arguments):
        if log_decay.ndim != axes:
            raise ValueError(f"log_decay: expected {axes} axes")
        return function(log_decay=log_decay, **arguments)

    return call


def _selective_one_by_one(*, rate, chunk_size, **given):
    state = jnp.zeros((*given["value"].shape[::2], given["key"].shape[-1]))
    return _over_positions(partial(selective_step, rate=rate), state, given, chunk_size)


_BY_CHANNEL = {"log_decay": "B T N H"}
_STATE = partial(
    Mechanism,
    sizes={"Hv": 7},
    settings={"chunk_size": 4},
    permutable=("B", "N", "H", "Hv"),
    causal="T",
    blockwise=True,
)
_ADDITIVE = partial(
    _STATE,
    draw={"log_decay": _decay, "reset": _rarely, "read": _small, "write": _small},
    cached=partial(_one_by_one, state_step),
    oracle="state::chunks_and_steps_are_the_recurrence",
)
_DELTA = partial(
    _STATE,
    draw={"log_decay": _decay, "reset": _rarely, "key": _unit, "beta": _share},
    cached=partial(_one_by_one, delta_step),
    oracle="state::chunks_and_steps_are_the_recurrence",
)
_NORMALIZED = partial(
    _STATE,
    without="initial_state",
    outputs=("B T N Hv",),
    cached=_normalized_one_by_one,
    oracle="state::normalized_chunks_and_steps_are_the_quotients",
)

MECHANISMS = (
    _ADDITIVE(_of_form(state_attention, 3), "retention", without="read write initial_state"),
    _ADDITIVE(_of_form(state_attention, 4), "gated_linear_attention", _BY_CHANNEL, without="read write initial_state"),
    _ADDITIVE(
        _of_form(state_attention, 4),
        "generalized_delta_rule",
        _BY_CHANNEL,
        breaks=("empty",),  # the output of a row of padding is that of the given state
    ),
    Mechanism(
        selective_scan,
        without="initial_state",
        sizes={"C": 7},
        settings={"chunk_size": 4},
        draw={"step_size": _positive, "rate": _decay, "reset": _rarely},
        permutable=("B", "C", "H"),
        causal="T",
        cached=_selective_one_by_one,
        blockwise=True,
        oracle="selective_scan::chunks_and_steps_are_the_equation",
    ),
    _DELTA(delta_attention, "delta_rule", without="log_decay initial_state"),
    _DELTA(_of_form(delta_attention, 3), "gated_delta_rule", without="initial_state"),
    _DELTA(_of_form(delta_attention, 4), "kimi_delta_attention", _BY_CHANNEL, breaks=("empty",)),
    _STATE(
        _log_linear,
        "log_linear",
        sizes={"Hv": 7, "L": 13},
        without="initial_state",
        outputs=("B T N Hv", "B N L H Hv"),
        draw={"log_decay": _decay, "reset": _rarely},
        cached=_log_linear_one_by_one,
        oracle="log_linear::chunks_and_steps_are_the_definition",
    ),
    _NORMALIZED(
        _normalized,
        "mlstm",
        settings={"chunk_size": 4, "floor": True},
        draw={"log_decay": _decay, "reset": _rarely},
    ),
    _NORMALIZED(
        _normalized,
        "normalized_linear_attention",
        without="log_decay initial_state",
        draw={"reset": _rarely, "query": _positive, "key": _positive},
    ),
)
