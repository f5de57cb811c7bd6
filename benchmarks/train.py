"""Compares a training step of a causal language model on a CPU with PyTorch, interleaved in one run.

    python -m benchmarks.train [--json] [--rounds=5] [--layers=6] [--batch=16]
                             [--forms=unrolled,scan,remat,eager,compiled]

The model has 6 layers of width 256, 4 heads, hidden width 1024, pre-norm, and a tied embedding of 8,000 tokens. The
batch is 16 x 256 tokens in float32, with AdamW and without dropout. The forms are our `transformer_decoder` with
unrolled layers, with scanned layers, and with scanned layers and remat, and the same model in PyTorch, eager and
compiled (if a C++ compiler is available). All start from the same weights, and the run fails if their first losses
differ by more than 1e-3. The benchmark also measures:

- the seconds until the end of the first step with an empty and a warm compilation cache (fresh processes);
- the time of a step by kind of instruction, and the rate of its matrix products compared with that of the feed-forward
  product alone;
- the memory of a step: the temporaries of our compiled program (XLA keeps them between steps), and for PyTorch the
  increase of the resident size during a step;
- the cost of a step with the malloc settings of the program (`attention_research.allocator`) and without them.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any

from ._interleaved import (
    KEEP_PAGES,
    PLAIN_MALLOC,
    RETURN_PAGES,
    interleaved,
    log,
    made,
    peak_of,
    present,
    print_targets,
    print_times,
    runs_torch,
    serves,
    some_of,
    target,
    versions,
    worker,
)

MODULE = __spec__.name
WIDTH, HEADS, HIDDEN, VOCABULARY, LENGTH = 256, 4, 1024, 8000, 256
OURS = {"unrolled": {"unroll": True}, "scan": {}, "scan, remat": {"remat": True}}
THEIRS = ("torch eager", "torch compiled")
#: The names of the forms on the command line.
FORMS = dict(zip(("unrolled", "scan", "remat", "eager", "compiled"), (*OURS, *THEIRS), strict=True))


def tokens(batch: int) -> Any:
    """Token ids [B T]."""
    import numpy as np

    return np.random.default_rng(0).integers(4, VOCABULARY, (batch, LENGTH)).astype(np.int32)


def trainer(form: str, layers: int, batch: int) -> Any:
    """Our model, built from a config like every experiment."""
    from attention_research.config import resolve
    from attention_research.training.trainer import Trainer

    batching = {"kind": "packed"}
    data = {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en", "batching": batching}
    model = {
        "kind": "transformer_decoder",
        "width": WIDTH,
        "num_heads": HEADS,
        "num_layers": layers,
        "dropout_rate": 0.0,
        "feed_forward": {"kind": "dense", "hidden_width": HIDDEN},
        "decoder": OURS[form],
    }
    training = {
        "steps": 1000,
        "batch_size": batch,
        "learning_rate": 1e-4,
        "optimizer": {"kind": "adamw", "weight_decay": 0.01},
        "schedule": {"kind": "constant"},
    }
    sizes = {"max_length": LENGTH, "vocabulary_size": VOCABULARY, "task": {"label_smoothing": 0.0}}
    return Trainer(resolve({**sizes, "data": data, "model": model, "training": training}))


def our_step(form: str, layers: int, batch: int) -> tuple[Callable[[], float], dict[str, Any]]:
    """(a function that performs an update, waits for it and returns its loss; the initial parameters)."""
    import jax

    execution = trainer(form, layers, batch).execution
    held = {"state": execution.start()}
    first = jax.device_get(held["state"]["parameters"])
    placed = execution.place({"target": tokens(batch)})

    def step() -> float:
        held["state"], metrics = execution.step(held["state"], placed)
        jax.block_until_ready(held["state"])
        return float(metrics["loss"])

    return step, first


def torch_step(form: str, parameters: dict[str, Any], layers: int, batch: int) -> Callable[[], float]:
    """A function that performs an update in PyTorch and returns its loss."""
    import torch

    from ._torch_decoder import Decoder, adamw

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_flush_denormal(True)
    model = Decoder(parameters, layers=layers, heads=HEADS, length=LENGTH)
    optimizer = adamw(model)
    run = torch.compile(model) if form == "torch compiled" else model
    words = torch.from_numpy(tokens(batch)).long()

    def step() -> float:
        optimizer.zero_grad()
        loss = run(words)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def time_worker(layers: int, batch: int, rounds: int, *forms: str) -> dict[str, Any]:
    """The times of a step by form, and the first loss of each form."""
    calls, parameters = {}, None
    for form in forms:  # our forms come first
        if form in OURS:
            calls[form], parameters = our_step(form, layers, batch)
        else:
            calls[form] = torch_step(form, parameters, layers, batch)
    losses = {form: call() for form, call in calls.items()}
    if max(losses.values()) - min(losses.values()) > 1e-3:
        raise SystemExit(f"these are not the same model: first losses {losses}")
    return {"step": interleaved(calls, rounds), "first_loss": losses}


def first_worker(form: str, layers: int, batch: int) -> dict[str, Any]:
    """The seconds from a config to the end of the first step, without imports."""
    import jax

    from attention_research.training.environment import keep_compiled_programs
    from attention_research.training.trainer import Trainer

    assert jax and Trainer
    keep_compiled_programs()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    began = time.perf_counter()
    our_step(form, layers, batch)[0]()
    return {"seconds": round(time.perf_counter() - began, 2)}


def memory_worker(layers: int, batch: int) -> dict[str, Any]:
    """The peak resident bytes of a step in eager PyTorch, minus those of weights, moments and inputs."""
    step = torch_step("torch eager", our_step("scan", layers, batch)[1], layers, batch)
    step()
    return {"peak_bytes": peak_of(step)}


def program_worker(form: str, layers: int, batch: int) -> dict[str, Any]:
    """The bytes of temporaries, milliseconds by kind of instruction, and GFLOP/s of all products and of one alone."""
    import jax
    import jax.numpy as jnp

    from attention_research.training.inspection import inspect

    from ._where import milliseconds

    run = trainer(form, layers, batch)
    held = {"state": run.execution.start()}
    placed = run.execution.place({"target": tokens(batch)})
    program = run.execution.step.lower(held["state"], placed).compile()

    def step() -> None:
        held["state"], _ = run.execution.step(held["state"], placed)
        jax.block_until_ready(held["state"])

    time_in = milliseconds(program.as_text(), step)
    product = jax.jit(jnp.dot)
    rows, kernel = jnp.ones((batch * LENGTH, WIDTH)), jnp.ones((WIDTH, HIDDEN))
    alone = interleaved({"product": lambda: [product(rows, kernel) for _ in range(20)][-1].block_until_ready()}, 5)
    flops = inspect(run.config)["flops"]
    return {
        "temporary_bytes": program.memory_analysis().temp_size_in_bytes,
        "milliseconds": time_in,
        "step_gflop": round(flops / 1e9, 1),
        "products_gflops": round(flops / 1e6 / time_in["products"], 1),
        "one_product_gflops": round(20 * 2 * batch * LENGTH * WIDTH * HIDDEN / 1e6 / alone["product"]["low_ms"], 1),
    }


def allocator_worker(form: str, layers: int, batch: int, steps: int) -> dict[str, Any]:
    """The cost of a step after two warm-up steps: milliseconds of wall clock, user and system time, and page faults.

    Also returns the peak resident bytes of the whole process.
    """
    step, _ = our_step(form, layers, batch)
    for _ in range(2):
        step()
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    for _ in range(steps):
        step()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall_ms": round(1e3 * wall / steps, 1),
        "user_ms": round(1e3 * (after.ru_utime - before.ru_utime) / steps, 1),
        "system_ms": round(1e3 * (after.ru_stime - before.ru_stime) / steps, 1),
        "page_faults": round((after.ru_minflt - before.ru_minflt) / steps),
        "peak_bytes": after.ru_maxrss * 1024,
    }


def _median_row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The measurement with the median wall-clock time; of two in the middle, the shorter one."""
    return sorted(rows, key=lambda row: row["wall_ms"])[(len(rows) - 1) // 2]


def measure(
    layers: int = 6, rounds: int = 5, batch: int = 16, forms: tuple[str, ...] = (*OURS, *THEIRS)
) -> dict[str, Any]:
    """Runs the benchmark for the forms that this machine can run, and returns a JSON document."""
    forms = tuple(form for form in (*OURS, *THEIRS) if form in forms and (form in OURS or runs_torch(form)))
    ours, sizes = [form for form in forms if form in OURS], (str(layers), str(batch))
    log(f"{rounds} interleaved rounds of {', '.join(forms)}")
    times = worker(MODULE, KEEP_PAGES, "time", *sizes, str(rounds), *forms)
    first: dict[str, dict[str, float]] = {}
    for form in ours:
        log(f"first step, {form}: with an empty cache and with a warm one")
        with tempfile.TemporaryDirectory() as folder:
            settings = {**KEEP_PAGES, "JAX_COMPILATION_CACHE_DIR": folder}
            first[form] = {
                name: worker(MODULE, settings, "first", form, *sizes)["seconds"] for name in ("cold", "warm")
            }
    log("a step with the program's settings of malloc and without them, in turn")
    mallocs = {"kept pages": KEEP_PAGES, "plain malloc": PLAIN_MALLOC}
    took: dict[str, list[dict[str, Any]]] = {name: [] for name in mallocs}
    for _ in range(min(rounds, 3)):
        for name, settings in mallocs.items():
            took[name].append(worker(MODULE, settings, "allocator", "scan", *sizes, "5"))
    log("the compiled programs, and memory")
    programs = {form: worker(MODULE, KEEP_PAGES, "program", form, *sizes) for form in ours}
    memory = {form: row["temporary_bytes"] for form, row in programs.items()}
    if "torch eager" in forms:
        memory["torch eager"] = worker(MODULE, RETURN_PAGES, "memory", *sizes)["peak_bytes"]
    median = {form: row["median_ms"] for form, row in times["step"].items() if isinstance(row, dict)}
    targets = []
    for form in ours:
        if "torch eager" in median:
            targets.append(target(f"step: {form} / torch eager", median[form] / median["torch eager"], at_most=1.0))
    return {
        "benchmark": "train",
        "shape": {
            "layers": layers, "width": WIDTH, "heads": HEADS, "hidden_width": HIDDEN, "vocabulary": VOCABULARY,
            "batch": batch, "length": LENGTH, "dtype": "float32", "optimizer": "adamw",
        },
        **made(),
        "versions": versions("jax", "jaxlib", "torch"),
        "times": times,
        "first_step_seconds": first,
        "allocator": {name: _median_row(rows) for name, rows in took.items()},
        "programs": programs,
        "memory": memory,
        "targets": targets,
    }  # fmt: skip


def show(document: dict[str, Any]) -> None:
    """Prints the tables."""
    print_times("step", document["times"]["step"])
    for form, seconds in document["first_step_seconds"].items():
        print(f"  first step        {form:24s} {seconds['cold']:9.1f} s cold   {seconds['warm']:.1f} s warm")
    for name, row in document["allocator"].items():
        parts = f"{row['wall_ms']:.0f} ms, user {row['user_ms']:.0f}, system {row['system_ms']:.0f}"
        rest = f"{row['page_faults']:,} page faults; process {row['peak_bytes'] / 1e6:.0f} MB at most"
        print(f"  scan's step       {name:24s} {parts}, {rest}")
    for form, row in document["programs"].items():
        parts = ", ".join(f"{kind} {ms:.0f} ms" for kind, ms in row["milliseconds"].items())
        rates = f"{row['products_gflops']:.0f} GFLOP/s in products, {row['one_product_gflops']:.0f} in one alone"
        print(f"  where it goes     {form:24s} {parts}; {rates}")
    print(
        "  memory of a step  " + "   ".join(f"{form} {size / 1e6:.0f} MB" for form, size in document["memory"].items())
    )
    print_targets(document["targets"])


def main(
    json: bool = False, layers: int = 6, rounds: int = 5, batch: int = 16, forms: tuple[str, ...] = (*OURS, *THEIRS)
) -> None:
    """Measures and prints tables, or with `json` one JSON document."""
    present(measure(layers, rounds, batch, forms), json, show)


WORKERS = {
    "time": time_worker,
    "first": first_worker,
    "memory": memory_worker,
    "program": program_worker,
    "allocator": allocator_worker,
}

if __name__ == "__main__" and not serves(WORKERS):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16, help="sequences of 256 tokens per step")
    parser.add_argument(
        "--forms", type=some_of(FORMS), default=tuple(FORMS), help="comma-separated, with at least one of our forms"
    )
    given = parser.parse_args()
    if not any(FORMS[word] in OURS for word in given.forms):
        parser.error("--forms needs one of unrolled, scan and remat, because PyTorch starts from its weights")
    main(given.json, given.layers, given.rounds, given.batch, tuple(FORMS[word] for word in given.forms))
