"""The RNNsearch of `benchmarks/recurrent.py` in PyTorch, with a loop over the target and our weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

PAD, BOS = 0, 1


class RNNsearch(nn.Module):
    """Bidirectional GRU, additive attention on s_{i-1}, maxout readout. Returns the mean loss for [B S] and [B T]."""

    def __init__(self, parameters: dict[str, Any]):
        super().__init__()
        array = lambda name: torch.from_numpy(np.array(parameters[name], order="C"))

        def linear(name: str) -> nn.Linear:
            kernel = array(f"{name}.kernel")
            made = nn.Linear(*kernel.shape, bias=f"{name}.bias" in parameters)
            made.weight.data = kernel.T.contiguous()
            if made.bias is not None:
                made.bias.data = array(f"{name}.bias")
            return made

        def gates(name: str) -> list[torch.Tensor]:
            second = torch.zeros_like(array(f"{name}.input_bias"))
            second[-len(parameters[f"{name}.state_bias"]) :] = array(f"{name}.state_bias")
            kernels = (array(f"{name}.{part}").T.contiguous() for part in ("input_kernel", "state_kernel"))
            return [*kernels, array(f"{name}.input_bias"), second]

        width = len(parameters["encoder.forward.0.state_bias"])
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.cell = nn.GRUCell(3 * width, width)
        theirs = [*gates("encoder.forward.0"), *gates("encoder.backward.0"), *gates("decoder.layers.cells.0")]
        for parameter, value in zip([*self.encoder.parameters(), *self.cell.parameters()], theirs, strict=True):
            parameter.data = value
        vocabulary = ("source_table", "target_table", "output_kernel", "output_bias")
        self.source, self.target, self.output, self.output_bias = (
            nn.Parameter(array(f"vocabulary.{name}")) for name in vocabulary
        )
        score = ("query_weight", "key_weight", "v")
        self.query, self.key, self.v = (nn.Parameter(array(f"decoder.alignment.score.{name}")) for name in score)
        self.first = linear("decoder.start_state.linear.0.0")
        self.from_state, self.from_input, self.from_context = (
            linear(f"decoder.from_{name}") for name in ("state", "input", "context")
        )

    def encode(self, source: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(hidden states, their projections, padding, s_0)."""
        padding, x = source == PAD, functional.embedding(source, self.source)
        if bool(padding.any()):
            lengths = (~padding).sum(1)
            x = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            hidden, final = self.encoder(x)
            hidden, _ = nn.utils.rnn.pad_packed_sequence(hidden, batch_first=True, total_length=source.shape[1])
        else:
            hidden, final = self.encoder(x)
        return hidden, hidden @ self.key.T, padding, torch.tanh(self.first(final[1]))

    def look(self, state: torch.Tensor, memory: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The context c_i."""
        hidden, keys, padding = memory
        scores = torch.tanh((state @ self.query.T)[:, None] + keys) @ self.v
        weights = scores.masked_fill(padding, -torch.inf).softmax(-1)
        return torch.bmm(weights[:, None], hidden)[:, 0]

    def logits(self, x: torch.Tensor, before: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """The logits: maxout, followed by the output layer."""
        both = self.from_state(before) + self.from_input(x) + self.from_context(context)
        return both.unflatten(-1, (-1, 2)).amax(-1) @ self.output + self.output_bias

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        *memory, state = self.encode(source)
        x = functional.embedding(functional.pad(target[:, :-1], (1, 0), value=BOS), self.target)
        states, contexts = [], []
        for step in range(x.shape[1]):
            context = self.look(state, memory)
            states.append(state)
            contexts.append(context)
            state = self.cell(torch.cat([x[:, step], context], dim=-1), state)
        logits = self.logits(x, torch.stack(states, 1), torch.stack(contexts, 1))
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)

    @torch.no_grad()
    def greedy(self, source: torch.Tensor, length: int) -> torch.Tensor:
        """Decodes `length` tokens [B T], without stopping at the end of sentence."""
        *memory, state = self.encode(source)
        tokens, found = torch.full((len(source),), BOS), []
        for _ in range(length):
            x, context = functional.embedding(tokens, self.target), self.look(state, memory)
            tokens = self.logits(x, state, context).argmax(-1)
            found.append(tokens)
            state = self.cell(torch.cat([x, context], dim=-1), state)
        return torch.stack(found, 1)
