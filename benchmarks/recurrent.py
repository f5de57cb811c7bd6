"""Compares GRU, LSTM and RNNsearch on a CPU with PyTorch, interleaved in one run.

    python -m benchmarks.recurrent [--json] [--rounds=7] [--batch=64] [--length=50] [--width=256]
                                 [--peers=eager,compiled]

The first part has one layer with one direction in float32, without padding. The forms are our cells with
`layers.recurrent.scan.run` and with a plain `jax.lax.scan`, and `torch.nn.GRU` and `torch.nn.LSTM`, eager and compiled
(if a C++ compiler is available). The passes are forward, and forward and backward with the gradients of the input and
all weights. All forms have the same weights, and the run fails if their outputs or gradients differ by more than 1e-4.
The benchmark also measures the seconds until the end of the first forward and backward pass (fresh processes without a
compilation cache), and the time of our program by kind of instruction.

The second part is RNNsearch (Bahdanau et al. 2015) with GRU cells of this width, 8,000 words and Adam: a whole training
step, and greedy decoding of `length` words. It is compared with the same model in eager PyTorch with a loop over the
target (`_torch_rnnsearch.py`). The run fails if the first losses differ by more than 1e-3, or if more than one in a
thousand words differs.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable
from typing import Any

from ._interleaved import (
    KEEP_PAGES,
    has,
    interleaved,
    log,
    made,
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
CELLS = {"gru": "GRU", "lstm": "LSTM"}
OURS = ("ours", "plain scan")
THEIRS = ("torch eager", "torch compiled")
PEERS = ("eager", "compiled")
PASSES = ("forward", "forward+backward")
#: The targets: our time relative to that of eager PyTorch, forward and backward.
AT_MOST = {"gru": 0.95, "lstm": 1.1}
#: The target for a training step of RNNsearch, relative to PyTorch.
STEP_AT_MOST = 0.7
#: The number of calls in one sample.
CALLS = 5


def inputs(batch: int, length: int, width: int) -> tuple[Any, Any]:
    """The input x [B T D], and the weights [B T D] of the outputs in the loss."""
    import numpy as np

    random = np.random.default_rng(0)
    return tuple(random.standard_normal((2, batch, length, width)).astype(np.float32))


def parameters(kind: str, width: int) -> dict[str, Any]:
    """The structure of our cell and its parameters by name, from a fixed generator, so that PyTorch uses the same."""
    import jax
    import numpy as np
    from flax import nnx

    from attention_research.layers.structure import split
    from attention_research.registry import lookup

    structure, shapes, _ = split(
        jax.eval_shape(lambda: lookup("recurrent_cell", kind)(width=width, input_width=width, rngs=nnx.Rngs(0)))
    )
    random = np.random.default_rng(1)
    draw = lambda shape: (random.standard_normal(shape) * width**-0.5).astype(np.float32)
    return {"structure": structure, "values": {name: draw(array.shape) for name, array in shapes.items()}}


def our_calls(form: str, kind: str, sizes: tuple[int, int, int]) -> dict[str, Callable[[], dict[str, Any]]]:
    """Pass -> a call that waits for its results and returns them by name. Its attribute `program` is a function that
    returns the compiled program. It is compiled at the first call, as in PyTorch."""
    import jax

    from attention_research.layers.recurrent.scan import run

    x, weight = inputs(*sizes)
    given = parameters(kind, sizes[2])

    def outputs(values: dict[str, Any], x: Any) -> Any:
        cell = given["structure"].merge(values)
        state = cell.initial(len(x), x.dtype)
        if form == "ours":
            return run(cell, x, state)[0]

        def step(state: dict[str, Any], x: Any) -> tuple[dict[str, Any], Any]:
            state = cell(x, state)
            return state, state["hidden"]

        return jax.lax.scan(step, state, x.swapaxes(0, 1))[1].swapaxes(0, 1)

    def loss(values: dict[str, Any], x: Any) -> tuple[Any, Any]:
        out = outputs(values, x)
        return (out * weight).sum(), out

    x, values = jax.device_put((x, given["values"]))
    program = lambda f: functools.cache(lambda: jax.jit(f).lower(values, x).compile())
    forward, both = program(outputs), program(jax.grad(loss, (0, 1), has_aux=True))

    def once() -> dict[str, Any]:
        return {"outputs": jax.block_until_ready(forward()(values, x))}

    def with_gradients() -> dict[str, Any]:
        (of_values, of_x), out = jax.block_until_ready(both()(values, x))
        return {"outputs": out, "x": of_x, **of_values}

    once.program, with_gradients.program = forward, both
    return {"forward": once, "forward+backward": with_gradients}


def torch_calls(form: str, kind: str, sizes: tuple[int, int, int]) -> dict[str, Callable[[], dict[str, Any]]]:
    """The calls of `our_calls` in PyTorch."""
    import numpy as np
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_flush_denormal(True)
    width, values = sizes[2], parameters(kind, sizes[2])["values"]
    module = getattr(torch.nn, CELLS[kind])(width, width, batch_first=True)
    first, second = values.get("bias", values.get("input_bias")), np.zeros(len(module.bias_hh_l0), np.float32)
    if kind == "gru":
        second[2 * width :] = values["state_bias"]
    theirs = (values["input_kernel"].T, values["state_kernel"].T, first, second)
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), theirs, strict=True):
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(value)))
    x, weight = map(torch.from_numpy, inputs(*sizes))
    x.requires_grad_()
    run = torch.compile(module) if form == "torch compiled" else module

    def once() -> dict[str, Any]:
        with torch.no_grad():
            return {"outputs": run(x)[0]}

    def with_gradients() -> dict[str, Any]:
        module.zero_grad()
        x.grad = None
        out = run(x)[0]
        (out * weight).sum().backward()
        W, U, b, c = (parameter.grad for parameter in module.parameters())
        found = {"outputs": out.detach(), "x": x.grad, "input_kernel": W.T, "state_kernel": U.T}
        return {**found, **({"input_bias": b, "state_bias": c[2 * width :]} if kind == "gru" else {"bias": b})}

    return {"forward": once, "forward+backward": with_gradients}


def theirs(peers: tuple[str, ...]) -> list[str]:
    """The requested forms of PyTorch that this machine can run."""
    return [form for form in THEIRS if form.removeprefix("torch ") in peers and runs_torch(form)]


def calls_of(form: str, kind: str, sizes: tuple[int, int, int]) -> dict[str, Callable[[], dict[str, Any]]]:
    return (our_calls if form in OURS else torch_calls)(form, kind, sizes)


def time_worker(kind: str, batch: int, length: int, width: int, rounds: int, *peers: str) -> dict[str, Any]:
    """The times of each pass by form, and the largest difference between any result and ours."""
    import numpy as np

    calls = {form: calls_of(form, kind, (batch, length, width)) for form in (*OURS, *theirs(peers))}
    ours = calls["ours"]["forward+backward"]()
    difference = 0.0
    for form in calls:
        for name, found in calls[form]["forward+backward"]().items():
            scale = max(1.0, float(np.abs(ours[name]).max()))
            difference = max(difference, float(np.abs(np.asarray(found) - np.asarray(ours[name])).max()) / scale)
    if difference > 1e-4:
        raise SystemExit(f"{kind}: these are not the same network: results differ by {difference:.1e}")
    repeated = lambda call: lambda: [call() for _ in range(CALLS)]
    times = {which: interleaved({form: repeated(calls[form][which]) for form in calls}, rounds) for which in PASSES}
    for row in times.values():  # convert to the time of one call
        for of_form in row.values():
            if isinstance(of_form, dict):
                of_form.update({name: round(of_form[name] / CALLS, 3) for name in ("median_ms", "low_ms", "high_ms")})
    return {"times": times, "largest_difference": difference}


def rnnsearch_worker(batch: int, length: int, width: int, rounds: int) -> dict[str, Any]:
    """The times of a training step and of decoding by form, the first losses, and decoded words per second."""
    from ._rnnsearch import our_calls, torch_calls

    began = time.perf_counter()
    ours, parameters = our_calls(batch, length, width)
    losses = {"ours": ours["step"]()}
    first = {"ours": round(time.perf_counter() - began, 2)}
    calls = {"ours": ours}
    if has("torch"):
        calls["torch eager"] = torch_calls(parameters, batch, length)
        losses["torch eager"] = calls["torch eager"]["step"]()
        mine, other = (calls[form]["greedy"]()[:, : length - 1] for form in calls)  # ours ends with a forced end
        equal = float((mine == other).mean())
        if max(losses.values()) - min(losses.values()) > 1e-3 or equal < 0.999:
            raise SystemExit(f"these are not the same model: first losses {losses}, {equal:.4f} of the words equal")
    times = {what: interleaved({form: calls[form][what] for form in calls}, rounds) for what in ("step", "greedy")}
    rates = {form: round(1e3 * batch * length / times["greedy"][form]["median_ms"]) for form in calls}
    return {"times": times, "first_loss": losses, "first_step_seconds": first, "words_per_second": rates}


def first_worker(form: str, kind: str, batch: int, length: int, width: int) -> dict[str, Any]:
    """The seconds from the weights to the end of the first forward and backward pass, without imports."""
    import jax

    from attention_research.layers.recurrent.scan import run

    assert jax and run
    if form in THEIRS:
        import torch

        assert torch
    parameters(kind, width)
    began = time.perf_counter()
    calls_of(form, kind, (batch, length, width))["forward+backward"]()
    return {"seconds": round(time.perf_counter() - began, 2)}


def program_worker(kind: str, batch: int, length: int, width: int) -> dict[str, Any]:
    """The milliseconds by kind of instruction in forward and backward."""
    from ._where import milliseconds

    call = our_calls("ours", kind, (batch, length, width))["forward+backward"]
    return {"milliseconds": milliseconds(call.program().as_text(), call)}


def measure(
    batch: int = 64, length: int = 50, width: int = 256, rounds: int = 7, peers: tuple[str, ...] = PEERS
) -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    sizes = tuple(map(str, (batch, length, width)))
    times: dict[str, Any] = {}
    first: dict[str, Any] = {}
    programs: dict[str, Any] = {}
    differences: dict[str, float] = {}
    targets = []
    for kind, most in AT_MOST.items():
        log(f"{kind}: {rounds} interleaved rounds of {', '.join([*OURS, *theirs(peers)])}")
        done = worker(MODULE, KEEP_PAGES, "time", kind, *sizes, str(rounds), *peers)
        times[kind], differences[kind] = done["times"], done["largest_difference"]
        log(f"{kind}: first calls, and where the time goes")
        first[kind] = {
            form: worker(MODULE, KEEP_PAGES, "first", form, kind, *sizes)["seconds"]
            for form in ("ours", *theirs(peers))
        }
        programs[kind] = worker(MODULE, KEEP_PAGES, "program", kind, *sizes)
        both = times[kind]["forward+backward"]
        if "torch eager" in both:
            ratio = both["ours"]["median_ms"] / both["torch eager"]["median_ms"]
            targets.append(target(f"{kind}, forward+backward: ours / torch eager", ratio, at_most=most))
    log(f"RNNsearch: {rounds} interleaved rounds of a training step and of greedy decoding")
    rnnsearch = worker(MODULE, KEEP_PAGES, "rnnsearch", *sizes, str(rounds))
    step = rnnsearch["times"]["step"]
    if "torch eager" in step:
        ratio = step["ours"]["median_ms"] / step["torch eager"]["median_ms"]
        targets.append(target("RNNsearch, training step: ours / torch eager", ratio, at_most=STEP_AT_MOST))
    return {
        "benchmark": "recurrent",
        "shape": {"batch": batch, "length": length, "width": width, "layers": 1, "dtype": "float32"},
        **made(),
        "versions": versions("jax", "jaxlib", "torch"),
        "times": times,
        "largest_difference": differences,
        "first_call_seconds": first,
        "programs": programs,
        "rnnsearch": rnnsearch,
        "targets": targets,
    }


def show(document: dict[str, Any]) -> None:
    """Prints the tables."""
    for kind, passes in document["times"].items():
        for which, times in passes.items():
            print_times(f"{kind} {'f+b' if '+' in which else 'forward'}", times)
        first = ", ".join(f"{form} {seconds:.1f} s" for form, seconds in document["first_call_seconds"][kind].items())
        print(f"  {kind + ' first call':17s} {first}")
        parts = document["programs"][kind]["milliseconds"]
        print(f"  {kind + ' f+b is':17s} " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in parts.items()))
    for what, times in document["rnnsearch"]["times"].items():
        print_times(f"RNNsearch {what}", times)
    rates = document["rnnsearch"]["words_per_second"]
    print("  words per second  " + ", ".join(f"{form} {rate:,}" for form, rate in rates.items()))
    print_targets(document["targets"])


def main(
    json: bool = False,
    batch: int = 64,
    length: int = 50,
    width: int = 256,
    rounds: int = 7,
    peers: tuple[str, ...] = PEERS,
) -> None:
    """Measures and prints tables, or with `json` one JSON document."""
    present(measure(batch, length, width, rounds, peers), json, show)


WORKERS = {"time": time_worker, "first": first_worker, "program": program_worker, "rnnsearch": rnnsearch_worker}

if __name__ == "__main__" and not serves(WORKERS):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    for name, default in (("batch", 64), ("length", 50), ("width", 256), ("rounds", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--peers", type=some_of(PEERS), default=PEERS, help="comma-separated, for the GRU and LSTM")
    given = parser.parse_args()
    main(given.json, given.batch, given.length, given.width, given.rounds, given.peers)
