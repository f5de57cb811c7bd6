"""Probes the states of a language model for their position, layer by layer, Haviv et al. 2022 (arXiv 2203.16634),
section 5.

The probe is a network with one hidden ReLU layer that predicts the position of a state as one of T classes. It is
trained by Adam on states of training text. Its error is the mean distance between the predicted and the true position
on held-out text. In rows of T tokens, random guessing has an expected error of (T^2 - 1) / (3 T), and always predicting
the middle position has T / 4 (for an even T). The latter is smaller, and a probe of states without position information
learns it. States of padding are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from attention_research.analysis.teacher_forced import untrained
from attention_research.models.decoder_only import TransformerDecoder
from attention_research.models.sequences import positions, sequence, shift_right
from attention_research.tokens import PAD
from attention_research.training.evaluation import Trained
from attention_research.training.fitting import adam, descend


class Probe(NamedTuple):
    """The settings of the probes. The paper uses Adam with rate 0.002 and 10,000 updates."""

    hidden_width: int = 128
    steps: int = 1000
    batch_size: int = 512
    learning_rate: float = 0.002


def layer_states(model: TransformerDecoder, batch: Mapping[str, Array]) -> Float[Array, "M B T D"]:
    """The input of the first layer and the states after each of the L layers, M = L + 1."""
    target = sequence(batch, "target")
    x, places = model.vocabulary.target(shift_right(target)), positions(target)
    _, aux = model.decoder(x, places, None)
    return jnp.concatenate([model.decoder.positions(x, places)[None], *(part["hidden"] for part in aux.values())])


class States(NamedTuple):
    """The states of all layers on some rows, and which of the positions are tokens."""

    states: Float[np.ndarray, "M N T D"]
    real: Bool[np.ndarray, "N T"]


def errors(seen: States, held_out: States, probe: Probe, key: Key[Array, ""]) -> Float[np.ndarray, "M"]:
    """The mean distance for the states of each layer. Each layer has its own probe; all are trained together by
    `vmap`."""
    layers, _, length, width = seen.states.shape
    tokens = jnp.asarray(np.flatnonzero(seen.real))
    shapes = {"hidden": (width, probe.hidden_width), "output": (probe.hidden_width, length)}

    def scores(weights: Any, states: Array) -> Array:
        for name in shapes:
            states = states @ weights[name] + weights[f"{name}_bias"]
            states = jax.nn.relu(states) if name == "hidden" else states
        return states

    def start(key: Array) -> dict[str, Array]:
        draws = zip(shapes.items(), jax.random.split(key, len(shapes)), strict=True)
        drawn = {name: jax.random.normal(draw, shape) * shape[0] ** -0.5 for (name, shape), draw in draws}
        return drawn | {f"{name}_bias": jnp.zeros(shape[1]) for name, shape in shapes.items()}

    def trained(key: Array, states: Array) -> dict[str, Array]:
        flat = states.reshape(-1, width)
        scale = jnp.maximum(jnp.std(flat[tokens]), 1e-6)  # the scale of the states differs between layers
        flat = flat / scale

        def loss(weights: Any, key: Array) -> Array:
            chosen = tokens[jax.random.randint(key, (probe.batch_size,), 0, len(tokens))]
            logits = scores(weights, flat[chosen])
            right = jnp.take_along_axis(logits, (chosen % length)[:, None], axis=-1)[:, 0]
            return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - right)

        first, rest = jax.random.split(key)
        weights, _ = descend(loss, start(first), jax.random.split(rest, probe.steps), adam(probe.learning_rate))
        return {**weights, "hidden": weights["hidden"] / scale}

    def distance(weights: Any, states: Array) -> Array:
        named = jnp.argmax(scores(weights, states), axis=-1)
        return jnp.mean(jnp.abs(named - jnp.arange(length)[None]), where=held_out.real)

    run = lambda key, seen, held_out: distance(trained(key, seen), held_out)
    return np.asarray(jax.jit(jax.vmap(run))(jax.random.split(key, layers), seen.states, held_out.states))


def guesses(real: Bool[np.ndarray, "N T"]) -> dict[str, float]:
    """The errors of guessing one of T positions ("blind") and of the best constant ("middle") at the given positions.

    >>> guesses(np.ones((1, 4), bool))
    {'blind': 1.25, 'middle': 1.0}
    """
    places = np.arange(real.shape[1])
    by_guess = np.average(np.abs(places[:, None] - places), axis=0, weights=real.sum(axis=0))
    return {"blind": float(by_guess.mean()), "middle": float(by_guess.min())}


def measure_probe(*, workdir: Path, seed: int, **settings: Any) -> dict[str, Any]:
    """Calls `of_run` for a trained run."""
    return of_run(Trained(workdir), seed, **settings)


def of_run(
    trained: Trained,
    seed: int,
    *,
    probed: int = 256,
    examples: int | None = 128,
    split: str = "test",
    **settings: Any,
) -> dict[str, Any]:
    """The errors of a run by layer, beginning with the embeddings.

    "errors" and "errors_untrained" are lists for the trained and the untrained model. "first", "best" and "last" are
    values of the former, and "best_untrained" is the best value of the latter. "blind" and "middle" are the `guesses`.
    The probes are trained on `probed` rows of training text and tested on `examples` rows of text of `split`.
    """
    probe = Probe(**{name: value for name, value in settings.items() if name in Probe._fields})
    read = jax.jit(lambda arrays, batch: layer_states(trained.trainer.structure.merge(*arrays), batch))
    texts = [
        list(trained.data.evaluation_batches(name, 32, examples=count))
        for name, count in (("train", probed), (split, examples))
    ]
    length = max(batch["target"].shape[1] for batches in texts for _, batch in batches)

    def states(arrays: Any, batches: list[tuple[np.ndarray, Any]]) -> States:
        found = [np.asarray(read(arrays, batch))[:, ids >= 0] for ids, batch in batches]
        real = [np.asarray(batch["target"])[ids >= 0] != PAD for ids, batch in batches]
        return States(_joined(found, length, 2), _joined(real, length, 1))

    found = {}
    for name, arrays in (("errors", trained.model()), ("errors_untrained", untrained(trained))):
        seen, held_out = (states(arrays, batches) for batches in texts)
        found[name] = [float(x) for x in errors(seen, held_out, probe, jax.random.key(seed))]
    ours = found["errors"]
    return {
        **found,
        "first": ours[0],
        "best": min(ours),
        "last": ours[-1],
        "best_untrained": min(found["errors_untrained"]),
        **guesses(held_out.real),
    }


def _joined(batches: list[np.ndarray], length: int, axis: int) -> np.ndarray:
    """Concatenates the rows of all batches, which are along axis - 1, after padding `axis` with zeros to `length`."""
    ends = lambda rows: [(0, length - rows.shape[axis] if one == axis else 0) for one in range(rows.ndim)]
    return np.concatenate([np.pad(rows, ends(rows)) for rows in batches], axis=axis - 1)
