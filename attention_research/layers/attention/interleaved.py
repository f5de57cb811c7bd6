"""Two kinds of self-attention in one stack: of every `interval` layers the last has another kind than those before it.

Hybrid models have three state layers to one attention (Qwen3-Next, Kimi Linear). With rotary attention and standard
attention without positions, it is the hybrid of Yang et al. 2025 (arXiv 2501.18795), as in Llama 4 and SmolLM3. With a
sliding window and full attention, it is the layout of Gemma 2 and Cohere 2.
"""

from __future__ import annotations

from flax import nnx

from attention_research.errors import ConfigError
from attention_research.layers.layouts.bounds import expect_layer
from attention_research.layers.layouts.by_layer import path_of, some_of
from attention_research.signatures import Child, Constructor, Positive


class InterleavedAttention(nnx.Module):
    """Layers `interval`, 2 * `interval`, ..., counted from 1, have the kind `last`; all others have the kind `first`.

    A kind whose layers depend on each other (`rwkv7`) counts only its own layers, also if it expects several. Raises
    ConfigError for two such kinds, for kinds that share parameters between layers, for fewer layers than `interval`,
    and in models whose layers are not a stack of such blocks.
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
        first, last, interval = (attention.settings[name] for name in ("first", "last", "interval"))
        for name, other in (("first", last), ("last", first)):
            target = attention.settings[name].target
            apart = hasattr(target, "by_layer") and hasattr(other.target, "by_layer")
            if apart or hasattr(target, "owned_by_stack"):
                raise ConfigError(f"{path_of(attention, name)}: {target.__name__} needs a stack of its own kind")
        expect_layer(path_of(attention, "interval"), interval, num_layers)
        groups, rest = divmod(num_layers, interval)
        counts = {"first": num_layers - groups, "last": groups}
        firsts, lasts = (_each(some_of(attention, name, count, num_layers)) for name, count in counts.items())
        found = []
        for _ in range(groups):
            found += [*firsts[: interval - 1], *lasts[:1]]
            firsts, lasts = firsts[interval - 1 :], lasts[1:]
        return [(one, 1) for one in [*found, *firsts[:rest]]]


def _each(groups: list[tuple[Constructor, int]]) -> list[Constructor]:
    """The self-attention of each layer."""
    return [one for one, count in groups for _ in range(count)]
