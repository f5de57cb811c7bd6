"""Two kinds of self-attention in one stack: of every `interval` layers the last has another kind than those before it.

Hybrid models have three state layers to one attention (Qwen3-Next, Kimi Linear). With rotary attention and standard
attention without positions, it is the hybrid of Yang et al. 2025 (arXiv 2501.18795), as in Llama 4 and SmolLM3. With a
sliding window and full attention, it is the layout of Gemma 2 and Cohere 2.
"""

from __future__ import annotations

from flax import nnx

from attention_research.errors import ConfigError
from attention_research.signatures import Child, Constructor, Positive


class InterleavedAttention(nnx.Module):
    """Layers `interval`, 2 * `interval`, ..., counted from 1, have the kind `last`; all others have the kind `first`.

    Raises ConfigError for kinds that share parameters between layers, and in models whose layers are not a stack of
    such blocks.
    """

    def __init__(
        self, *, first: Child["causal_attention"], last: Child["causal_attention"], interval: Positive = 4,
        rngs: nnx.Rngs,
    ):  # fmt: skip
        del rngs
        raise ConfigError("self_attention.kind: this model does not take interleaved layers")

    @classmethod
    def by_layer(cls, attention: Constructor, num_layers: int) -> list[tuple[Constructor, int]]:
        """Groups of interval - 1 layers of one kind and one of the other."""
        settings = attention.settings
        for name in ("first", "last"):
            target = settings[name].target
            if hasattr(target, "by_layer") or hasattr(target, "owned_by_stack"):
                raise ConfigError(f"self_attention.{name}: {target.__name__} needs a stack of its own kind")
        groups, rest = divmod(num_layers, settings["interval"])
        group = [(settings["first"], settings["interval"] - 1), (settings["last"], 1)]
        return [(one, count) for one, count in [*group * groups, (settings["first"], rest)] if count]
