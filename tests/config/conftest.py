"""A small package that uses every feature of the schema, so that these tests do not depend on the real variants."""

from __future__ import annotations

import sys

import pytest

from attention_research import registry

SOURCE = '''
from typing import Literal
from toy_config import base
from toy_config.base import Attention
from attention_research.signatures import Child, NonNegative, NonNegativeFloat, Positive, PositiveFloat, Rate
import a_module_that_is_not_installed_and_never_imported


class Experiment:
    def __init__(self, *, max_length: Positive, vocabulary_size: Positive = 100, model: Child["model"],
                 training: Child["training"], parallel: Child["parallel"]): ...

class Model:
    def __init__(
        self, *, vocabulary_size: Positive, max_length: Positive, width: Positive, num_heads: Positive,
        head_width: Positive | None = None, dropout_rate: Rate = 0.1, dtype: Literal["float32", "bfloat16"] = "float32",
        self_attention: Child["attention"] = "standard", norm: Child["norm"] = "layer_norm",
        adapter: Child["norm"] | None = None, encoder: Child["encoder"], decoder: Child["decoder"], rngs,
    ): ...

class Encoder:
    def __init__(self, *, width: Positive, dropout_rate: Rate, self_attention: Child["encoder_attention"],
                 block: Child["block"], depth: Positive = 2, rngs): ...

class Decoder:
    def __init__(self, *, width: Positive, self_attention: Child["causal_attention"],
                 cross_attention: Child["cross_attention", "self_attention"], rngs): ...

class Block:
    def __init__(self, *, self_attention: Child["encoder_attention"], adapter: Child["norm"] | None,
                 parts: tuple[Child["norm"], ...] = ("layer_norm", "scale"), rngs): ...

class Standard(Attention):
    """Its base's settings."""

class Linformer:
    def __init__(self, *, width: Positive, num_heads: Positive, head_width: Positive | None, max_length: Positive,
                 rank: Positive, sharing: Literal["none", "headwise"] = "headwise", rngs): ...

class Relative:
    def __init__(self, *, width: Positive, num_heads: Positive, distance: NonNegative = 16, inner: Child["norm"],
                 rngs): ...

class LayerNorm:
    def __init__(self, *, width: Positive, epsilon: PositiveFloat = 1e-6, rngs): ...

class Scale:
    def __init__(self, *, rate: NonNegativeFloat = 1, rngs): ...

class Training:
    def __init__(
        self, *, steps: Positive, batch_size: Positive = 8, learning_rate: PositiveFloat = 1.0, warm: bool = False,
        seed: NonNegative = 0, log_every: Positive = 10, note: str = "", tag: str | None = None,
        betas: tuple[float, float] = (0.9, 0.98), lengths: tuple[Positive, ...] = (), names: tuple[str, ...] = ("a",),
        shift: int = -1, replicas: Positive = 1,
    ): ...

class Parallel:
    def __init__(self, *, strategy: Literal["jit", "pmap"] = "jit"): ...
'''
BASE = """
class Attention:
    def __init__(
        self, *, width: "Positive", num_heads: Positive, head_width: Positive | None, scaled: bool = True, rngs
    ): ...
"""
LINFORMER_REASON = "it mixes all positions"


def families(module: str) -> dict[str, dict[str, str]]:
    there = lambda **kinds: {kind: f"{module}:{name}" for kind, name in kinds.items()}
    attention = there(standard="Standard", linformer="Linformer", relative="Relative")
    only = lambda *kinds: {kind: attention[kind] for kind in kinds}
    return {
        "experiment": there(experiment="Experiment"),
        "model": there(transformer="Model"),
        "encoder": there(transformer="Encoder"),
        "decoder": there(transformer="Decoder"),
        "block": there(block="Block"),
        "attention": attention,
        "encoder_attention": attention,
        "causal_attention": only("standard", "relative"),
        "cross_attention": only("standard", "linformer"),
        "norm": there(layer_norm="LayerNorm", scale="Scale"),
        "training": there(standard="Training"),
        "parallel": there(mesh="Parallel"),
    }


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Writes the families of a package into a folder. Returns the config that most tests start from."""
    package = tmp_path / "toy_config"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('reading a schema imported the package')")
    (package / "toy.py").write_text(SOURCE)
    (package / "base.py").write_text(BASE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "FAMILIES", families("toy_config.toy"))
    monkeypatch.setattr(registry, "REFUSED", {("causal_attention", "linformer"): LINFORMER_REASON})
    yield {"max_length": 16, "model": {"width": 8, "num_heads": 2}, "training": {"steps": 5}}
    for name in [name for name in sys.modules if name.split(".")[0] == "toy_config"]:  # a test may have imported it
        del sys.modules[name]
