"""Time and peak memory of efficient and exact attention by sequence length on a CPU, compared with `blockwise`.

    python -m benchmarks.scaling [--json] [--lengths=1024,2048,4096,8192,16384] [--rounds=3] [--names=performer,...]
    python -m benchmarks.scaling --names=... --replace=benchmarks/results/scaling-....json   # measure these again
    python -m benchmarks.scaling --draw=benchmarks/results/scaling-....json --figure=docs/figures/scaling.png

The benchmark takes about twenty minutes on 2 cores. The mechanisms are those of the catalogue, with the sizes of their
papers (SIZES) and one batch element with 8 heads of width 64. Times are interleaved (see `_interleaved`), for forward
and forward+backward. Memory is the highest resident size in forward+backward minus that of inputs and program, in a
fresh process for each mechanism and length. Exponents are least-squares slopes of the logarithms, from length 2,048 on.
The crossing is the length from which on forward+backward is faster than that of `blockwise`, interpolated
logarithmically.
"""

from __future__ import annotations

import argparse
import json as json_module
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attention_research import bundled
from attention_research.errors import ConfigError

from ._interleaved import (
    KEEP_PAGES,
    RETURN_PAGES,
    interleaved,
    log,
    made,
    peak_of,
    present,
    serves,
    versions,
    worker,
)

MODULE = __spec__.name
LENGTHS = (1024, 2048, 4096, 8192, 16384)
FITTED_FROM = 2048
COMMON = {"B": 1, "N": 8, "K": 8, "H": 64, "Hv": 64, "D": 512}
BASELINE = "blockwise"
#: mechanism -> (axes, settings) at a length. All other settings are those of the catalogue.
SIZES: dict[str, Callable[[int], tuple[dict[str, int], dict[str, Any]]]] = {
    BASELINE: lambda T: ({}, {}),
    "causal": lambda T: ({}, {}),
    "reference": lambda T: ({}, {}),
    "linformer_headwise": lambda T: ({"R": 256}, {}),
    "linformer_convolution": lambda T: ({"W": T // 256}, {}),
    "linformer_mean_pooling": lambda T: ({}, {"rank": 256}),
    "sliding_window": lambda T: ({"G": 16}, {"window": 128, "block_size": 128}),
    "sliding_window_causal": lambda T: ({}, {"window": 256, "block_size": 256, "global_positions": 16}),
    "block_local": lambda T: ({}, {"block_size": 256}),
    "bigbird": lambda T: ({}, {"block_size": 64, "random_blocks": 3}),
    "performer": lambda T: ({"M": 256}, {}),
    "performer_causal": lambda T: ({"M": 256}, {"chunk_size": 128}),
    "linear_attention": lambda T: ({}, {}),
    "linear_attention_causal": lambda T: ({}, {"chunk_size": 128}),
    "lsh_attention": lambda T: ({"R": 4}, {"chunk_size": 64}),
    "sinkhorn": lambda T: ({"C": math.ceil(T / 128)}, {"block_size": 128, "iterations": 8}),
    "lightweight_convolution": lambda T: ({"N": 8, "W": 31}, {}),
    "dynamic_convolution": lambda T: ({"N": 8, "W": 31}, {}),
}
#: The longest length for a mechanism that stores all scores.
LONGEST = {"reference": 4096}
PASSES = ("forward", "forward+backward")


def calls(name: str, length: int) -> list[Callable[[], Any]]:
    """The compiled calls [forward, forward and backward] of a mechanism, which wait for their result."""
    import dataclasses

    import jax
    import jax.numpy as jnp

    from tests.catalogue import mechanisms

    (found,) = (mechanism for mechanism in mechanisms() if mechanism.name == name)
    axes, settings = SIZES[name](length)
    draw = {**found.draw}
    if "buckets" in found.inputs:  # a bucket holds as many positions as two chunks
        draw["buckets"] = lambda random, shape: random.integers(0, max(2, length // 128), shape)
    if "global_positions" in found.inputs:
        draw["global_positions"] = lambda random, shape: random.integers(0, length, shape)
    found = dataclasses.replace(found, settings={**found.settings, **settings}, draw=draw)
    arrays = jax.device_put(found.arrays({**COMMON, "T": length, "S": length, **axes}))
    floats = {name: arrays.pop(name) for name in found.floats()}

    def forward(floats, others):
        return found.call({**floats, **others})

    def loss(floats, others):
        return sum(jnp.sum(jnp.square(x)) for x in forward(floats, others))

    compiled = [jax.jit(call).lower(floats, arrays).compile() for call in (forward, jax.grad(loss))]
    return [lambda call=call: jax.block_until_ready(call(floats, arrays)) for call in compiled]


def time_worker(length: int, rounds: int, *names: str) -> dict[str, Any]:
    """{pass: {mechanism: {median_ms, low_ms, high_ms, samples}}} at one length."""
    compiled = {name: calls(name, length) for name in names}
    return {
        which: interleaved({name: both[number] for name, both in compiled.items()}, rounds)
        for number, which in enumerate(PASSES)
    }


def memory_worker(name: str, length: int) -> dict[str, Any]:
    """The peak resident bytes of one forward+backward, minus those of the inputs and the compiled program."""
    return {"peak_bytes": peak_of(calls(name, length)[1])}


def slope(lengths: list[int], values: list[float]) -> float:
    """The least-squares slope of log(values) against log(lengths)."""
    x, y = [math.log(length) for length in lengths], [math.log(value) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def crossing(lengths: list[int], ratios: list[float]) -> float | None:
    """The interpolated length from which on the ratio is below 1. The first length if it is always below 1, and None if
    it never is."""
    if ratios[-1] >= 1:
        return None
    last = max((number for number, ratio in enumerate(ratios) if ratio >= 1), default=None)
    if last is None:
        return float(lengths[0])
    low, high = math.log(ratios[last]), math.log(ratios[last + 1])
    share = low / (low - high)
    return math.exp(math.log(lengths[last]) * (1 - share) + math.log(lengths[last + 1]) * share)


def _series(table: Mapping[str, Mapping[str, float]], name: str, least: int = 0) -> tuple[list[int], list[float]]:
    pairs = [(int(T), row[name]) for T, row in table.items() if name in row and int(T) >= least]
    return [T for T, _ in pairs], [value for _, value in pairs]


def _medians(document: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The milliseconds of forward+backward by length and mechanism."""
    return {
        T: {name: row["median_ms"] for name, row in result[PASSES[1]].items() if isinstance(row, dict)}
        for T, result in document["times"].items()
    }


def fitted(document: dict[str, Any]) -> tuple[dict[str, dict[str, float]], dict[str, float | None]]:
    """(exponents of forward+backward time and memory, crossings with `blockwise`) by mechanism."""
    times = _medians(document)
    exponents, crossings = {}, {}
    for name in document["shape"]["mechanisms"]:
        of_time, of_memory = (_series(table, name, FITTED_FROM) for table in (times, document["memory"]))
        if len(of_time[0]) > 1 and len(of_memory[0]) > 1:
            exponents[name] = {"time": round(slope(*of_time), 3), "memory": round(slope(*of_memory), 3)}
        if name != BASELINE and BASELINE in document["shape"]["mechanisms"]:
            lengths, own = _series(times, name)
            ratios = [value / times[str(T)][BASELINE] for T, value in zip(lengths, own, strict=True)]
            crossings[name] = crossing(lengths, ratios)
    return exponents, crossings


def measure(
    lengths: tuple[int, ...] = LENGTHS, rounds: int = 3, names: tuple[str, ...] = tuple(SIZES)
) -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    document: dict[str, Any] = {
        "benchmark": "scaling",
        "shape": {**COMMON, "dtype": "float32", "lengths": list(lengths), "mechanisms": list(names)},
        **made(),
        "versions": versions("jax", "jaxlib"),
        "malloc": {"time": KEEP_PAGES, "memory": RETURN_PAGES},
        "settings": {name: list(SIZES[name](lengths[-1])) for name in names},
        "times": {},
        "memory": {},
    }
    for length in lengths:
        here = [name for name in names if length <= LONGEST.get(name, length)]
        log(f"T = {length}: {rounds} interleaved rounds of {', '.join(here)}")
        document["times"][str(length)] = worker(MODULE, KEEP_PAGES, "time", str(length), str(rounds), *here)
        if length >= FITTED_FROM:
            log(f"T = {length}: peak memory")
            document["memory"][str(length)] = {
                name: worker(MODULE, RETURN_PAGES, "memory", name, str(length))["peak_bytes"] for name in here
            }
    document["exponents"], document["crossings"] = fitted(document)
    return document


def replaced(recorded: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Replaces the numbers of the newly measured mechanisms in a recorded document.

    Their names, the date and the revision are added to "measured_anew".
    """
    names, known = document["shape"]["mechanisms"], recorded["shape"]["mechanisms"]
    known += [name for name in names if name not in known]
    for T, result in document["times"].items():
        for part in PASSES:
            recorded["times"][T][part] |= {name: result[part][name] for name in names if name in result[part]}
        recorded["memory"].setdefault(T, {}).update(document["memory"].get(T, {}))
    anew = {"mechanisms": names, **{key: document[key] for key in ("git_revision", "date")}}
    recorded["measured_anew"] = [*recorded.get("measured_anew", []), anew]
    recorded["exponents"], recorded["crossings"] = fitted(recorded)
    return recorded


#: The mechanisms that compute exact attention.
EXACT = (BASELINE, "causal", "reference")


def show(document: dict[str, Any]) -> None:
    """Prints a Markdown table: forward+backward milliseconds and megabytes at each length, exponents, crossing."""
    lengths = [str(T) for T in document["shape"]["lengths"]]
    print(f"\n| forward+backward, ms (MB) | {' | '.join(lengths)} | exponents | faster than {BASELINE} from |")
    print("| --- |" + " --- |" * (len(lengths) + 2))
    for name in document["shape"]["mechanisms"]:
        cells = []
        for T in lengths:
            row = document["times"][T][PASSES[1]].get(name)
            memory = document["memory"].get(T, {}).get(name)
            cells.append(f"{row['median_ms']:,.0f}" + (f" ({memory / 1e6:,.0f})" if memory else "") if row else "")
        powers = document["exponents"].get(name)
        at = document["crossings"].get(name)
        first = at is not None and at <= int(lengths[0])
        where = "" if name == BASELINE else "never here" if at is None else f"{'below ' if first else ''}{at:,.0f}"
        shown = f"{powers['time']:.2f}, {powers['memory']:.2f}" if powers else ""
        print(f"| {name} | {' | '.join(cells)} | {shown} | {where} |")


def draw(document: dict[str, Any], path: Path) -> None:
    """Draws time and memory by length, on logarithmic axes: exact attention in black, the others in colours."""
    from attention_research.analysis import picture_file
    from attention_research.studies.figure_style import COLOURS, canvas, legend, mark_plainly, styles_of

    times = _medians(document)
    megabytes = {T: {name: size / 1e6 for name, size in row.items()} for T, row in document["memory"].items()}
    names, lengths = document["shape"]["mechanisms"], document["shape"]["lengths"]
    figure, panels = canvas().subplots(1, 2, figsize=(10.5, 6.6))
    looks = {name: {**look, "linewidth": 1.3, "markersize": 5} for name, look in styles_of(names).items()}
    others = [name for name in names if name not in EXACT]
    for name in names:
        looks[name] |= {"color": COLOURS[0] if name in EXACT else COLOURS[1 + others.index(name) % (len(COLOURS) - 1)]}
        looks[name] |= {"linewidth": 2.5} if name in EXACT else {}
        if name in others[len(COLOURS) - 1 :]:  # the second line of a colour
            looks[name] |= {"markerfacecolor": "white"}
    for panel, table, title in zip(
        panels, (times, megabytes), ("milliseconds, forward and backward", "megabytes of peak memory"), strict=True
    ):
        for name in names:
            panel.plot(*_series(table, name), label=name.replace("_", " "), **looks[name])
        panel.set(xscale="log", yscale="log", xlabel="sequence length, tokens", ylabel=title)
        panel.set_xticks(lengths, [f"{T:,}" for T in lengths])
        mark_plainly(panel.yaxis, (1,))
        panel.minorticks_off()
    legend(figure)
    machine = f"{document['cores']} cores of {document['processor']}, {document['date'][:10]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    below = f"bench scaling, 8 heads of 64, float32, {machine}; medians of the rounds, black: exact attention"
    picture_file.save(figure, path, below=below, bbox_inches="tight")


def main(
    json: bool = False,
    lengths: tuple[int, ...] = LENGTHS,
    rounds: int = 3,
    names: tuple[str, ...] = tuple(SIZES),
    replace: Path | None = None,
) -> None:
    """Measures and prints a table, or with `json` one JSON document. `replace` is a recorded document to update."""
    if not bundled.in_checkout():
        raise ConfigError("bench scaling: its mechanisms are part of the tests; run it in a checkout of the repository")
    document = measure(lengths, rounds, names)
    if replace is not None:
        document = replaced(json_module.loads(replace.read_text("utf-8")), document)
        replace.write_text(json_module.dumps(document, indent=2) + "\n", "utf-8")
    present(document, json, show)


if __name__ == "__main__" and not serves({"time": time_worker, "memory": memory_worker}):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--names", default=",".join(SIZES), help="comma-separated mechanisms")
    parser.add_argument("--replace", type=Path, help="update these mechanisms in a recorded document")
    parser.add_argument("--draw", type=Path, help="draw a recorded document instead of measuring")
    parser.add_argument("--figure", type=Path, default=Path("scaling.png"))
    given = parser.parse_args()
    if given.draw:
        recorded = json_module.loads(given.draw.read_text("utf-8"))
        draw(recorded, given.figure)
        show(recorded)
    else:
        lengths, names = tuple(map(int, given.lengths.split(","))), tuple(given.names.split(","))
        main(given.json, lengths, given.rounds, names, given.replace)
