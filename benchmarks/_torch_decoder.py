"""The causal language model of `benchmarks/train.py`, written in the usual way in PyTorch, with our weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    """Pre-norm self-attention and a feed-forward layer, each with a residual connection."""

    def __init__(self, parameters: dict[str, Any], layer: int, heads: int):
        super().__init__()
        array = lambda name: torch.from_numpy(parameters[f"decoder.stack.segments.0.{name}"][layer].copy())

        def linear(name: str) -> nn.Linear:
            kernel = array(f"{name}.kernel")
            made = nn.Linear(*kernel.shape)
            made.weight.data, made.bias.data = kernel.T.contiguous(), array(f"{name}.bias")
            return made

        def norm(name: str) -> nn.LayerNorm:
            made = nn.LayerNorm(len(array(f"{name}.scale")), eps=1e-6)
            made.weight.data, made.bias.data = array(f"{name}.scale"), array(f"{name}.bias")
            return made

        self.heads = heads
        self.norm, self.norm_2 = norm("norm"), norm("norm_2")
        self.query, self.key, self.value, self.output = (
            linear(f"self_attention.{name}") for name in ("query", "key", "value", "output")
        )
        self.hidden, self.last = linear("feed_forward.hidden"), linear("feed_forward.output")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        split = (p(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.query, self.key, self.value))
        context = functional.scaled_dot_product_attention(*split, is_causal=True)
        x = x + self.output(context.transpose(1, 2).flatten(2))
        return x + self.last(functional.relu(self.hidden(self.norm_2(x))))


class Decoder(nn.Module):
    """Tied embedding scaled by sqrt(width), sinusoids, layers and a final norm. Returns the mean loss of tokens
    [B T]."""

    def __init__(self, parameters: dict[str, Any], *, layers: int, heads: int, length: int):
        super().__init__()
        self.table = nn.Parameter(torch.from_numpy(parameters["vocabulary.table"].copy()))
        self.width = self.table.shape[1]
        self.layers = nn.ModuleList(Layer(parameters, layer, heads) for layer in range(layers))
        self.norm = nn.LayerNorm(self.width, eps=1e-6)
        self.register_buffer("positions", torch.from_numpy(sinusoids(length, self.width)))

    def forward(self, target: torch.Tensor) -> torch.Tensor:
        before = functional.pad(target[:, :-1], (1, 0), value=1)
        x = functional.embedding(before, self.table) * self.width**0.5 + self.positions
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x) @ self.table.T
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def sinusoids(length: int, width: int) -> np.ndarray:
    """The sinusoids [T D] of Vaswani et al. 2017, section 3.5."""
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, width).astype(np.float32)


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only, as in our code."""
    parameters = list(model.parameters())
    decayed, others = [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-4)
