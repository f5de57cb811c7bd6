"""A hand-made attention with everything awkward in its tokens, and small models with known parameters."""

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.analysis.attention import Attention, AttentionMap
from attention_research.config import build, resolve
from attention_research.layers.structure import abstract

AWKWARD = ("</script><script>window.broken = 1</script>", "<b>", '"quoted"', "&amp;", "$x$", "·ment", "</s>")


def softmax(scores):
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


@pytest.fixture(scope="session")
def awkward():
    """Cross-attention [2 3 5 7] and decoder self-attention [2 3 5 5], causal, float32."""
    rng = np.random.default_rng(0)
    written = ("The", "agree", *AWKWARD[:2], "</s>")
    cross = softmax(2 * rng.standard_normal((2, 3, 5, 7))).astype(np.float32)
    scores = np.where(np.tri(5, dtype=bool), rng.standard_normal((2, 3, 5, 5)), -np.inf)
    own = softmax(scores).astype(np.float32)
    read = ("<s>", *written[:-1])
    maps = (
        AttentionMap("cross-attention", "tokens written", "source tokens", written, AWKWARD, cross),
        AttentionMap("decoder self-attention", "tokens written", "tokens read before", written, read, own),
    )
    return Attention("costs $5 </script> & $6", "it <costs> $7", maps, {"run": "first & last", "step": "1,000"})


def built(**model):
    """(structure, (parameters, statistics)) of a small model; `model` entries replace or add to its section.

    The parameters are NumPy's, so that nothing is compiled for them.
    """
    section = {
        "kind": "transformer",
        "width": 12,
        "num_heads": 3,
        "num_layers": 2,
        "feed_forward": {"hidden_width": 17},
    }
    config = resolve(
        {
            "max_length": 13,
            "vocabulary_size": 29,
            "data": {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en"},
            "model": {**section, **model},
            "training": {"steps": 5, "batch_size": 4, "learning_rate": 1.0},
        }
    )
    constructor = build(config.resolved["model"], "model")
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    rng = np.random.default_rng(1)
    value = lambda x: rng.standard_normal(x.shape) * x.shape[-1] ** -0.5
    parameters = {name: jnp.asarray(value(x) + name.endswith("scale"), x.dtype) for name, x in sorted(shapes.items())}
    return structure, (parameters, {})


@pytest.fixture(scope="session")
def small():
    """built(**model section)."""
    return built
