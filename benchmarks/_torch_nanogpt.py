"""nanoGPT's model of characters, optimizer and learning rates in PyTorch, with our weights.

They are written from the description of the program. The sizes are those of the arrays. With `draw`, the model draws
its own weights from the same distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

STACK = "decoder.stack.segments.0."


class CharacterModel(nn.Module):
    """Pre-norm layers without biases between a table, which is also the output layer, and learned positions."""

    def __init__(self, parameters: Mapping[str, Any], *, heads: int, draw: bool = False):
        super().__init__()
        self.heads = heads
        self.layers = len(parameters[f"{STACK}norm.scale"])
        for name, array in parameters.items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(torch.from_numpy(np.array(array))))
        if draw:
            for name, parameter in self.named_parameters():
                last = name.endswith("output/kernel")
                if parameter.ndim > 1 and not name.endswith("scale"):
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.layers) if last else 0.02)

    def of(self, name: str, layer: int | None = None) -> torch.Tensor:
        """A parameter, or the part of it that belongs to a layer."""
        if layer is None:
            return self.get_parameter(name.replace(".", "/"))
        return self.get_parameter((STACK + name).replace(".", "/"))[layer]

    def forward(self, read: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The sum of -log p over the targets [B T] that are not 0, given the tokens [B T] before them."""
        table, norm = self.of("vocabulary.table"), lambda x, scale: functional.layer_norm(x, scale.shape, scale)
        x = functional.embedding(read, table) + self.of("decoder.positions.table")[: read.shape[1]]
        for layer in range(self.layers):
            y = norm(x, self.of("norm.scale", layer))
            q, k, v = (
                (y @ self.of(f"self_attention.{name}.kernel", layer)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + y @ self.of("self_attention.output.kernel", layer)
            y = functional.gelu(norm(x, self.of("norm_2.scale", layer)) @ self.of("feed_forward.hidden.kernel", layer))
            x = x + y @ self.of("feed_forward.output.kernel", layer)
        logits = norm(x, self.of("decoder.final_norm.scale")) @ table.T
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0, reduction="sum")


class Loop:
    """The model with its optimizer. `step` makes an update and returns the loss before it."""

    def __init__(self, parameters: Mapping[str, Any], training: Mapping[str, Any], *, heads: int, draw: bool = False):
        self.model = CharacterModel(parameters, heads=heads, draw=draw)
        self.training, self.count = training, 0
        settings = training["optimizer"]
        scale = lambda name: name.endswith("scale")
        groups = [
            {"params": [p for n, p in self.model.named_parameters() if not scale(n)],
             "weight_decay": settings["weight_decay"]},
            {"params": [p for n, p in self.model.named_parameters() if scale(n)], "weight_decay": 0.0},
        ]  # fmt: skip
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(settings["b1"], settings["b2"]))

    def rate(self) -> float:
        """The learning rate of the next update: it grows by 1 / (w + 1) of the peak for w updates, then a cosine."""
        peak, warm = self.training["learning_rate"], self.training["schedule"]["warmup_steps"]
        if self.count < warm:
            return peak * (self.count + 1) / (warm + 1)
        done = (self.count - warm) / (self.training["steps"] - warm)
        low = peak * self.training["schedule"]["final"]
        return low + (peak - low) * (1 + math.cos(math.pi * done)) / 2

    def loss(self, batch: Mapping[str, np.ndarray]) -> tuple[torch.Tensor, int]:
        """(the summed loss of a batch of `data.windows`, the number of targets)."""
        read = np.concatenate([batch["target_before"][:, None], batch["target"][:, :-1]], axis=1)
        target = torch.from_numpy(batch["target"]).long()
        return self.model(torch.from_numpy(read).long(), target), int((batch["target"] != 0).sum())

    def step(self, batch: Mapping[str, np.ndarray]) -> float:
        """An update."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        total, count = self.loss(batch)
        self.optimizer.zero_grad()
        mean = total / count
        mean.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.training["clip_norm"])
        self.optimizer.step()
        self.count += 1
        return float(mean.detach())

    def evaluated(self, batches: Any) -> float:
        """The mean loss over all targets of some batches."""
        with torch.no_grad():
            found = [self.loss(batch) for batch in batches]
        return float(sum(total for total, _ in found)) / sum(count for _, count in found)
