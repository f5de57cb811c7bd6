"""A hand-made attention with difficult characters in its tokens, and small Transformers."""

import dataclasses

import numpy as np
import pytest
from small_transformer import small_transformer

from attention_research.analysis.attention import OUTPUT, REFERENCE, Attention, AttentionMap, Layers, Pass

AWKWARD = ("</script><script>window.broken = 1</script>", "<b>", '"quoted"', "&amp;", "$x$", "·ment", "</s>")


def softmax(scores):
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def awkward_maps(seed, of):
    """Cross-attention [2 3 5 7] of layers 2 and 4 and decoder self-attention [2 3 5 5], causal, float32."""
    rng = np.random.default_rng(seed)
    tokens = ("The", "agree", *AWKWARD[:2], "</s>") if of == OUTPUT else ("A", "b", AWKWARD[4], "·c", "</s>")
    cross = softmax(2 * rng.standard_normal((2, 3, 5, 7))).astype(np.float32)
    scores = np.where(np.tri(5, dtype=bool), rng.standard_normal((2, 3, 5, 5)), -np.inf)
    own = softmax(scores).astype(np.float32)
    return (
        AttentionMap("cross-attention", f"{of} tokens", "source tokens", tokens, AWKWARD, cross, Layers((2, 4), 4)),
        AttentionMap(
            "decoder self-attention",
            f"{of} tokens",
            "tokens read before",
            tokens,
            ("<s>", *tokens[:-1]),
            own,
            Layers((1, 2), 2),
        ),
    )


@pytest.fixture(scope="session")
def awkward():
    """The decoder reads the model's own output, then the reference."""
    source = "costs $5 </script> & $6"
    passes = (
        Pass(OUTPUT, source, "it <costs> $7", awkward_maps(0, OUTPUT)),
        Pass(REFERENCE, source, "a <b> $x$", awkward_maps(1, REFERENCE)),
    )
    return Attention(passes, {"run": "first & last", "step": "1,000"})


@pytest.fixture(scope="session")
def signed(awkward):
    """The same tokens with weights of which some are negative, and the largest is."""
    first, *others = awkward.passes
    maps = tuple(dataclasses.replace(one, weights=one.weights - 2 * one.weights.max() * (one.weights > 0.3))
                 for one in first.maps)  # fmt: skip
    return dataclasses.replace(awkward, passes=(dataclasses.replace(first, maps=maps), *others))


@pytest.fixture(scope="session")
def small():
    """small_transformer(**model section)."""
    return small_transformer
