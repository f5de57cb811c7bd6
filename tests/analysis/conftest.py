"""A hand-made attention with difficult characters in its tokens, and small Transformers."""

import numpy as np
import pytest
from small_transformer import small_transformer

from attention_research.analysis.attention import Attention, AttentionMap

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


@pytest.fixture(scope="session")
def small():
    """small_transformer(**model section)."""
    return small_transformer
