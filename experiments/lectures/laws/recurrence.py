"""Laws of recurrent networks and of autoregressive models (Sutskever et al. 2014, section 2)."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from attention_research.config import build_model
from attention_research.layers.recurrent.scan import run
from attention_research.layers.structure import Structure, abstract
from attention_research.registry import lookup
from attention_research.tokens import BOS

from .attention import draw
from .law import Found, Law, gap, largest

B, T, D, V = 2, 5, 6, 6
CELLS = ("vanilla", "gru", "lstm")
RECURRENT = {"kind": "recurrent", "width": D, "num_layers": 1, "decoder": {"kind": "luong"}}
TRANSFORMER = {"kind": "transformer", "width": D, "num_heads": 2, "num_layers": 1, "dropout_rate": 0.0,
               "feed_forward": {"hidden_width": 7}}  # fmt: skip
#: Coefficients of central differences of the sixth order, at 1, 2 and 3 steps on either side, and the step size.
STENCIL, STEP = (45 / 60, -9 / 60, 1 / 60), 0.01
Random = np.random.Generator


def constructor_of(section: dict[str, Any], length: int = 4) -> Any:
    """Returns the constructor of the model for a vocabulary of six tokens."""
    return build_model(section, max_length=length, vocabulary_size=V)


def model(random: Random, section: dict[str, Any]) -> tuple[Structure, dict[str, Any]]:
    """Returns (structure, random parameters in float64). The embeddings are in float64 too."""
    constructor = constructor_of(section)

    def make(rngs: nnx.Rngs) -> Any:
        made = constructor(rngs=rngs)
        for part in (made, made.vocabulary):
            if hasattr(part, "dtype"):
                part.dtype = "float64"
        return made

    structure, shapes, _ = abstract(make)
    return structure, {name: 0.5 * draw(random, *x.shape) for name, x in shapes.items()}


def ahead_and_behind(function: Any, x: Any) -> tuple[float, float]:
    """Returns the largest derivative of an output by a later input, and the smallest value, over steps, of the largest
    derivative by the step's own input and the input before it."""
    jacobian = np.asarray(jax.jacobian(lambda x: function(x)[0])(x))[:, :, 0]  # [T D T I]
    of = lambda pairs: [largest(jacobian[t, :, u]) for t, u in pairs]
    times = range(x.shape[1])
    ahead, behind = (
        ((t, u) for t in times for u in times if u > t),
        ((t, u) for t in times for u in times if 0 <= t - u < 2),
    )
    return max(of(ahead)), min(of(behind))


def cell(random: Random, kind: str) -> Any:
    """Builds a cell of the registry with random parameters."""
    made = lookup("recurrent_cell", kind)(width=D, input_width=D, rngs=nnx.Rngs(0))
    return jax.tree.map(lambda x: 0.7 * draw(random, *x.shape), made)


def over(one: Any, x: Any, *, reverse: bool = False) -> Any:
    """Returns the states of a cell over a sequence."""
    return run(one, x, one.initial(x.shape[0], x.dtype), reverse=reverse)[0]


def blind(random: Random) -> Found:
    """The derivative of each state by later inputs is 0; that by earlier inputs is not."""
    zero, other = {}, {}
    for kind in CELLS:
        one, x = cell(random, kind), draw(random, 1, 4, D)
        zero[kind], other[f"{kind}, inputs before"] = ahead_and_behind(lambda x, one=one: over(one, x), x)
    return Found(zero, other)


def both_directions(random: Random) -> Found:
    """With a second cell that reads from the end, every state depends on all inputs. With one direction it does not."""
    one, other, x = cell(random, "gru"), cell(random, "gru"), draw(random, 1, 4, D)
    both = lambda x: jnp.concatenate([over(one, x), over(other, x, reverse=True)], axis=-1)
    ahead = ahead_and_behind(lambda x: over(one, x), x)[0]
    after, before = ahead_and_behind(both, x)
    return Found({"one direction, inputs after": ahead}, {"both, inputs after": after, "both, inputs before": before})


def backprop(random: Random) -> Found:
    """The gradient of a language model's log-likelihood, through time, equals finite differences along random
    directions."""
    structure, parameters = model(random, {"kind": "recurrent_language_model", "width": D, "num_layers": 2})
    batch = {"target": jnp.asarray(random.integers(4, V, (B, 4)), jnp.int32)}

    def value(parameters: Any) -> Any:
        return jnp.sum(structure.merge(parameters).log_likelihood(batch)[0]["log_likelihood"])

    zero = {}
    gradient, evaluate = jax.jit(jax.grad(value))(parameters), jax.jit(value)
    for number in range(3):
        direction = {name: draw(random, *x.shape) for name, x in parameters.items()}
        length = float(np.sqrt(sum(np.square(x).sum() for x in direction.values())))
        direction = {name: x / length for name, x in direction.items()}
        moved = lambda steps, along=direction: evaluate(
            {name: x + steps * STEP * along[name] for name, x in parameters.items()}
        )
        difference = sum(weight * (moved(k) - moved(-k)) for k, weight in enumerate(STENCIL, 1)) / STEP
        exact = sum(jnp.vdot(gradient[name], along) for name, along in direction.items())
        norm = float(np.sqrt(sum(np.square(x).sum() for x in gradient.values())))
        zero[f"direction {number + 1}, of the gradient's norm"] = abs(float(difference - exact)) / norm
    return Found(zero)


def free_of_length(random: Random) -> Found:
    """An RNN has the same number of parameters for 5, 50 and 500 tokens. The position table of a Transformer grows."""
    del random  # counted from shapes

    def count(section: dict[str, Any], length: int) -> int:
        constructor = constructor_of(section, length)
        return sum(x.size for x in abstract(lambda rngs: constructor(rngs=rngs))[1].values())

    recurrent = {"kind": "recurrent_language_model", "width": D}
    learned = {**TRANSFORMER, "kind": "transformer_decoder", "positions": {"kind": "learned"}}
    counts = {name: [count(section, length) for length in (5, 50, 500)]
              for name, section in (("recurrent", recurrent), ("transformer", learned))}  # fmt: skip
    said = {f"{name}, {length} tokens": float(number) for name, numbers in counts.items()
            for length, number in zip((5, 50, 500), numbers, strict=True)}  # fmt: skip
    grows = float(counts["transformer"][2] - counts["transformer"][0])
    return Found({"recurrent": float(np.ptp(counts["recurrent"]))}, {"learned positions": grows}, said)


def stepwise(module: Any, source: Any, target: Any) -> Any:
    """Computes log p [B T V] of every next token with `start` and `step`, fed with the target."""
    cache, previous, found = module.start(module.encode({"tokens": source})), jnp.full(len(target), BOS, jnp.int32), []
    for place in range(target.shape[1]):
        cache, log_p, _ = module.step(cache, previous)
        found.append(log_p)
        previous = target[:, place]
    return jnp.stack(found, axis=1)


def factorisation(random: Random) -> Found:
    """The log-probability of a string is the sum over its steps, and the probabilities of all strings of three tokens
    sum to 1."""
    strings = jnp.asarray(list(itertools.product(range(V), repeat=3)), jnp.int32)
    source = jnp.asarray(np.repeat(random.integers(4, V, (1, 4)), len(strings), axis=0), jnp.int32)
    zero = {}
    for name, section in (("recurrent", RECURRENT), ("transformer", TRANSFORMER)):
        structure, parameters = model(random, section)

        @jax.jit
        def run_model(parameters: Any, structure: Structure = structure) -> tuple[Any, Any]:
            module = structure.merge(parameters)
            steps = stepwise(module, source, strings)
            return module.log_likelihood({"source": source, "target": strings})[0]["log_likelihood"], steps

        scored, steps = run_model(parameters)
        by_steps = np.take_along_axis(np.asarray(steps), np.asarray(strings)[..., None], axis=-1)[..., 0].sum(axis=1)
        real = np.asarray(strings).min(axis=1) > 0  # a target's padding is hidden from a Transformer's decoder
        zero[f"{name}, scored - steps"] = gap(np.asarray(scored)[real].sum(axis=1), by_steps[real])
        zero[f"{name}, all strings - 1"] = abs(float(np.exp(by_steps).sum()) - 1)
    return Found(zero)


def feeds_itself(random: Random) -> Found:
    """If a generated text is scored in one pass, its tokens have the same probabilities as during generation."""
    source = jnp.asarray(random.integers(4, V, (B, 4)), jnp.int32)
    zero = {}
    for name, section in (("recurrent", RECURRENT), ("transformer", TRANSFORMER)):
        structure, parameters = model(random, section)

        @jax.jit
        def written(parameters: Any, structure: Structure = structure) -> tuple[Any, Any]:
            module = structure.merge(parameters)
            cache, previous = module.start(module.encode({"tokens": source})), jnp.full(B, BOS, jnp.int32)
            tokens, scores = [], []
            for _ in range(4):
                cache, log_p, _ = module.step(cache, previous)
                previous = (4 + jnp.argmax(log_p[:, 4:], axis=-1)).astype(jnp.int32)
                tokens.append(previous)
                scores.append(jnp.take_along_axis(log_p, previous[:, None], axis=-1)[:, 0])
            tokens = jnp.stack(tokens, axis=1)
            scored = module.log_likelihood({"source": source, "target": tokens})[0]["log_likelihood"]
            return jnp.stack(scores, axis=1), scored

        zero[name] = gap(*written(parameters))
    return Found(zero)


LAWS: dict[str, Law] = {
    "rnn-blind-to-later-steps": blind,
    "bidirectional-sees-later-steps": both_directions,
    "rnn-trained-by-backprop": backprop,
    "rnn-parameters-free-of-length": free_of_length,
    "conditional-lm-factorisation": factorisation,
    "decoder-feeds-its-own-output": feeds_itself,
}
