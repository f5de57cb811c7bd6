"""A feed-forward inside another layer, which returns only an array."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Array, Float

from attention_research.errors import ConfigError


def nested_output(
    feed_forward: Callable[..., tuple[Array, dict]], x: Float[Array, "*rest D"], *, setting: str, layer: str
) -> Float[Array, "*rest D"]:
    """The output of a feed-forward, for a layer that does not pass on its aux.

    Raises ConfigError if the feed-forward returns losses or metrics, as expert layers do. The message names the
    `setting` of the feed-forward and the `layer` around it, in the plural.

    >>> print(nested_output(lambda x: (2 * x, {}), jnp.array([1.5]), setting="feed_forward", layer="slots"))
    [3.]
    """
    output, aux = feed_forward(x)
    if aux:
        raise ConfigError(f"{setting}: {layer} do not pass on its {', '.join(aux)}; use one without them")
    return output
