"""The check of settings that count layers of a stack."""

from __future__ import annotations

from attention_research.errors import ConfigError


def expect_layer(setting: str, layer: int, num_layers: int) -> None:
    """Raises ConfigError, which names the setting, if the stack has fewer layers than `layer`.

    >>> expect_layer("layout.layer", 7, 3)
    Traceback (most recent call last):
    attention_research.errors.ConfigError: layout.layer: expected at most 3, the number of layers, got 7
    """
    if layer > num_layers:
        raise ConfigError(f"{setting}: expected at most {num_layers}, the number of layers, got {layer}")
