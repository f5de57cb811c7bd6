"""Small models with unusual settings, the texts that they read, and what the tests compare."""

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.config import build_model
from attention_research.layers.structure import abstract, initializer
from attention_research.registry import CAUSAL
from attention_research.tokens import BOS, PAD
from tests.models.facts import QUICKLY
from tests.models.unusual_settings import of_case

V, MOST = 7, 17
#: The lengths of the prompts of a batch, and of what follows each of them.
PROMPTS, T = (7, 1, 5), 10
#: The row that is also computed without the others and without padding.
ALONE = 2


def constructor(kind, name, family=CAUSAL, **sections):
    """The constructor of a small model with the attention of a case."""
    sizes, attention = of_case(name, family)
    place = {"self_attention": attention} if family == CAUSAL else {"decoder": {"cross_attention": attention}}
    section = {
        "kind": kind, **sizes, "num_layers": 3, **place, "positions": {"kind": "none"},
        "feed_forward": {"hidden_width": 5}, **sections,
    }  # fmt: skip
    return build_model(section, max_length=MOST, vocabulary_size=V)


def built(*case, **sections):
    """(merge, parameters) of a small model (`constructor`) at random parameters."""
    make = constructor(*case, **sections)
    structure, shapes, statistics = abstract(lambda rngs: make(rngs=rngs))
    if statistics:
        statistics = jax.jit(initializer(lambda rngs: make(rngs=rngs)))(jax.random.key(2))[1]
    rng = np.random.default_rng(1)
    drawn = lambda shape: rng.standard_normal(shape) * (shape[-1] ** -0.5 if shape else 1)
    value = lambda name, x: jnp.asarray(drawn(x.shape) + name.endswith("scale"), x.dtype)
    parameters = {name: value(name, x) for name, x in sorted(shapes.items())}
    return lambda parameters: structure.merge(parameters, statistics), parameters


def texts():
    """(prompts with padding, what follows them)."""
    rng = np.random.default_rng(0)
    prompts, rest = rng.integers(1, V, (len(PROMPTS), max(PROMPTS))), rng.integers(1, V, (len(PROMPTS), T))
    for row, length in enumerate(PROMPTS):
        prompts[row, length:] = PAD
    return jnp.asarray(prompts, jnp.int32), jnp.asarray(rest, jnp.int32)


def shifted(tokens):
    """The tokens that a model reads before it predicts these."""
    return jnp.roll(tokens, 1, 1).at[:, 0].set(BOS)


def stepped(model, cache, tokens):
    """log p of all tokens at each position of a text, decoded one by one."""

    def step(carry, token):
        cache, before = carry
        cache, log_p, _ = model.step(cache, before)
        return (cache, token), log_p

    first = (cache, jnp.full(len(tokens), BOS, jnp.int32))
    return jax.lax.scan(step, first, tokens.T)[1].swapaxes(0, 1)


def run(function, *arguments):
    """The results of a function as NumPy arrays."""
    return jax.tree.map(np.asarray, jax.jit(function, compiler_options=QUICKLY)(*arguments))


def assert_close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=5e-5)
