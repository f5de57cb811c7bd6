"""Compares decoding with a cache on a CPU with `generate` of Hugging Face, with the same weights, interleaved in one
run.

    python -m benchmarks.decode [--json] [--rounds=5] [--length=128] [--layers=6]

The model is a Marian model (6+6 layers of width 256, 4 heads, hidden width 1024, 8,000 pieces, float32) with random
weights. Sources have 32 tokens. The searches are greedy and beam 4, for 1 and 32 sentences. The end of sentence is made
improbable, so that both programs decode `length` tokens. The run fails if the tokens of the greedy searches differ. The
times do not include compilation.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from ._interleaved import (
    KEEP_PAGES,
    interleaved,
    log,
    made,
    present,
    print_targets,
    print_times,
    serves,
    target,
    versions,
    worker,
)

MODULE = __spec__.name
WIDTH, HEADS, HIDDEN, VOCABULARY, SOURCE = 256, 4, 1024, 8000, 32
BATCHES = (1, 32)
#: The targets: our time relative to that of Hugging Face, by search and number of sentences.
TARGETS = {("greedy", 1): 1.1, ("greedy", 32): 1.4, ("beam 4", 1): 1.1, ("beam 4", 32): 0.9}
PAD, BOS, EOS = 0, 1, 2


def our_model(layers: int, length: int) -> tuple[Any, dict[str, Any]]:
    """(structure, random parameters) of our model. Its layers are unrolled, which suits a CPU."""
    import numpy as np

    from attention_research.config import build, resolve
    from attention_research.layers.structure import abstract

    model = {
        "kind": "transformer",
        "width": WIDTH,
        "num_heads": HEADS,
        "num_layers": layers,
        "feed_forward": {"kind": "dense", "hidden_width": HIDDEN, "activation": "swish"},
        "norm": {"kind": "layer_norm", "epsilon": 1e-5},
        "positions": {"kind": "sinusoidal_halves"},
        "vocabulary": {"kind": "shared_with_bias"},
        "encoder": {"unroll": True},
        "decoder": {"unroll": True},
    }
    data = {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en"}
    training = {"steps": 1, "batch_size": 1, "learning_rate": 1.0}
    sizes = {"max_length": max(length, SOURCE), "vocabulary_size": VOCABULARY}
    config = resolve({**sizes, "data": data, "model": model, "training": training})
    constructor = build(config.resolved["model"], "model")
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    random = np.random.default_rng(0)
    made = lambda x: (random.standard_normal(x.shape) * x.shape[-1] ** -0.5).astype(np.float32)
    parameters = {name: made(x) + name.endswith("scale") for name, x in shapes.items()}
    parameters["vocabulary.table"] *= 0.5
    parameters["vocabulary.bias"][[PAD, BOS, EOS]] = -1e4
    return structure, {name: x.astype(np.float32) for name, x in parameters.items()}


def names(layers: int) -> Any:
    """(our name, layer number or None, name in Hugging Face, whether transposed) of each array."""
    yield "vocabulary.table", None, "model.shared.weight", False
    yield "vocabulary.bias", None, "final_logits_bias", False
    parts = (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out"))
    both = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}
    for side, norms in both.items():
        for layer in range(layers):
            ours, theirs = f"{side}.stack.segments.0", f"model.{side}.layers.{layer}"
            dense = [(f"feed_forward.{name}", short) for name, short in (("hidden", "fc1"), ("output", "fc2"))]
            for attention, name in (("self_attention", "self_attn"), ("cross_attention", "encoder_attn")):
                dense += [(f"{attention}.{p}", f"{name}.{q}_proj") for p, q in parts if name in norms]
            for name, their in dense:
                yield f"{ours}.{name}.kernel", layer, f"{theirs}.{their}.weight", True
                yield f"{ours}.{name}.bias", layer, f"{theirs}.{their}.bias", False
            for norm, their in zip(("norm", "norm_2", "norm_3"), norms, strict=False):
                yield f"{ours}.{norm}.scale", layer, f"{theirs}.{their}_layer_norm.weight", False
                yield f"{ours}.{norm}.bias", layer, f"{theirs}.{their}_layer_norm.bias", False


def their_model(parameters: dict[str, Any], layers: int, length: int) -> Any:
    """The Marian model of Hugging Face with our weights."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = MarianMTModel(MarianConfig(
        vocab_size=VOCABULARY, pad_token_id=PAD, eos_token_id=EOS, bos_token_id=BOS, decoder_start_token_id=BOS,
        d_model=WIDTH, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=HIDDEN, decoder_ffn_dim=HIDDEN, activation_function="swish",
        scale_embedding=True, max_position_embeddings=max(length + 1, SOURCE), forced_eos_token_id=None,
    )).eval()  # fmt: skip
    state = model.state_dict()
    for ours, layer, theirs, transposed in names(layers):
        value = parameters[ours] if layer is None else parameters[ours][layer]
        value = torch.from_numpy((value.T if transposed else value).copy())
        state[theirs].copy_(value.reshape(state[theirs].shape))
    return model


def calls(layers: int, batch: int, length: int, search: str) -> dict[str, Callable[[], Any]]:
    """Form -> a call that decodes and returns the tokens [B T] as a NumPy array, without the start token."""
    import jax
    import numpy as np
    import torch

    from attention_research.decoding import BeamSearch, Greedy

    structure, parameters = our_model(layers, length)
    source = np.random.default_rng(1).integers(4, VOCABULARY, (batch, SOURCE)).astype(np.int32)
    decode = Greedy(extra_length=length) if search == "greedy" else BeamSearch(beam_size=4, extra_length=length)
    run = jax.jit(lambda p, tokens: decode(structure.merge(p), {"tokens": tokens}, max_length=length).tokens[:, 0])
    held = jax.device_put(parameters)
    model, inputs = their_model(parameters, layers, length), torch.from_numpy(source).long()
    options = {"num_beams": 1 if search == "greedy" else 4, "do_sample": False, "min_new_tokens": length - 1}

    def theirs() -> Any:
        with torch.inference_mode():
            found = model.generate(inputs, max_new_tokens=length, **options)
        return found[:, 1:].numpy()

    return {"ours": lambda: np.asarray(run(held, source)), "generate": theirs}


def time_worker(layers: int, batch: int, length: int, search: str, rounds: int) -> dict[str, Any]:
    """The times of each form, and whether the tokens are equal."""
    both = calls(layers, batch, length, search)
    ours, theirs = (both[form]()[:, : length - 1] for form in ("ours", "generate"))  # ours ends with a forced end
    same = bool((ours == theirs).all())
    if search == "greedy" and not same:
        raise SystemExit(
            f"B={batch}: these are not the same model: {float((ours == theirs).mean()):.3f} of tokens equal"
        )
    return {**interleaved(both, rounds), "equal_tokens": same}


def measure(length: int = 128, rounds: int = 5, layers: int = 6) -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    times, targets = {}, []
    for search in ("greedy", "beam 4"):
        for batch in BATCHES:
            name = f"{search}, B={batch}"
            log(f"{name}: {rounds} interleaved rounds of {length} tokens")
            sizes = (str(layers), str(batch), str(length))
            times[name] = worker(MODULE, KEEP_PAGES, "time", *sizes, search, str(rounds))
            ratio = times[name]["ours"]["median_ms"] / times[name]["generate"]["median_ms"]
            targets.append(target(f"{name}: ours / generate", ratio, at_most=TARGETS[search, batch]))
    return {
        "benchmark": "decode",
        "shape": {
            "layers": layers, "width": WIDTH, "heads": HEADS, "hidden_width": HIDDEN, "vocabulary": VOCABULARY,
            "source": SOURCE, "length": length, "dtype": "float32",
        },
        **made(),
        "versions": versions("jax", "jaxlib", "torch", "transformers"),
        "times": times,
        "targets": targets,
    }  # fmt: skip


def show(document: dict[str, Any]) -> None:
    """Prints the tables."""
    for name, times in document["times"].items():
        print_times(name, times)
    print_targets(document["targets"])


def main(json: bool = False, length: int = 128, rounds: int = 5, layers: int = 6) -> None:
    """Measures and prints tables, or with `json` one JSON document."""
    present(measure(length, rounds, layers), json, show)


if __name__ == "__main__" and not serves({"time": time_worker}):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=6, help="number of layers of the encoder and of the decoder")
    given = parser.parse_args()
    main(given.json, given.length, given.rounds, given.layers)
