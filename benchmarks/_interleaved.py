"""How a benchmark measures: every form once a round, in one process; memory in a fresh process per form.

A round in which every form runs once slows all of them on a busy machine; rounds in which other processes took the
cores are dropped while three remain. Page faults dominate on a CPU under the default malloc. Processes that measure
time therefore keep their pages, as the program itself does (`attention_research.allocator`), and so does the peer in
the same process. Processes that measure memory give every large buffer back.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attention_research import allocator
from attention_research.bundled import PACKAGE
from attention_research.training.workdir import json_text

ROOT = PACKAGE.parent
#: How the program itself runs, by `attention_research.allocator`; glibc as it is; and glibc giving back all it can.
KEEP_PAGES = {allocator.VARIABLE: "1"}
PLAIN_MALLOC = {allocator.VARIABLE: "0"}
RETURN_PAGES = PLAIN_MALLOC | {
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_TOP_PAD_": "131072",
}
#: Seconds.
PAUSE = 0.3


def log(line: str) -> None:
    """Progress, on standard error."""
    print(line, file=sys.stderr, flush=True)


def has(package: str) -> bool:
    """Whether an optional peer is installed."""
    return find_spec(package) is not None


def runs_torch(form: str) -> bool:
    """Whether this machine can run a form of PyTorch, "torch eager" or "torch compiled", which needs a C++ compiler."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    return has("torch") and (form == "torch eager" or compiler is not None)


def versions(*packages: str) -> dict[str, str]:
    """Of those that are installed."""
    return {package: version(package) for package in packages if has(package)}


def made() -> dict[str, Any]:
    """Where a document comes from: revision, date, machine."""
    from attention_research.training.environment import describe

    described = describe()
    return {name: described[name] for name in ("git_revision", "date", "processor", "cores", "devices", "python")}


def worker(module: str, settings: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """The JSON that ``python -m module --worker ...`` prints, as a fresh process with these environment variables."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **settings, "PYTHONPATH": path}
    command = [sys.executable, "-m", module, "--worker", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def serves(workers: Mapping[str, Callable[..., dict[str, Any]]]) -> bool:
    """In a process that `worker` has started: runs the function that it named, prints its JSON, and returns True."""
    if sys.argv[1:2] != ["--worker"]:
        return False
    allocator.keep_pages()
    what, *rest = sys.argv[2:]
    print(json.dumps(workers[what](*(int(word) if word.isdigit() else word for word in rest))))
    return True


def interleaved(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """{form: {median_ms, low_ms, high_ms, samples}, "others_took": the largest share of the cores in a kept round}.

    Each call waits for its result; each is made once before the first round. Before each is a pause: the threads of a
    library that ran last (OpenMP's) hold their cores for some 0.2 s more, waiting for work.
    """
    for call in calls.values():
        call()
    samples: list[tuple[float, dict[str, float]]] = []
    for _ in range(rounds):
        machine, own = _busy()
        start, taken = time.perf_counter(), {}
        for form, call in calls.items():
            time.sleep(PAUSE)
            begin = time.perf_counter()
            call()
            taken[form] = 1e3 * (time.perf_counter() - begin)
        machine, own = (after - before for after, before in zip(_busy(), (machine, own), strict=True))
        share = (machine - own) / ((time.perf_counter() - start) * (os.cpu_count() or 1))
        samples.append((share, taken))
    samples.sort(key=lambda sample: sample[0])
    kept = [taken for index, (share, taken) in enumerate(samples) if share < 0.1 or index < min(3, rounds)]
    found: dict[str, Any] = {form: summary([taken[form] for taken in kept]) for form in calls}
    return {**found, "others_took": round(max(share for share, _ in samples[: len(kept)]), 3)}


def summary(milliseconds: list[float]) -> dict[str, float]:
    """Median and range."""
    return {
        "median_ms": round(statistics.median(milliseconds), 2),
        "low_ms": round(min(milliseconds), 2),
        "high_ms": round(max(milliseconds), 2),
        "samples": len(milliseconds),
    }


def some_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """The type of an argument that takes some of the known names, separated by commas."""

    def read(words: str) -> tuple[str, ...]:
        for word in words.split(","):
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return tuple(words.split(","))

    return read


def _busy() -> tuple[float, float]:
    """Seconds of processor time that the whole machine and this process have used."""
    ticks = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    machine = (sum(ticks[:3]) + sum(ticks[5:8])) / os.sysconf("SC_CLK_TCK")
    return machine, sum(os.times()[:2])


def peak_of(call: Callable[[], Any]) -> int:
    """How far one call raises the resident size of this process, in bytes."""
    before = _resident("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    except OSError:
        before = _resident("VmHWM")
    call()
    return max(_resident("VmHWM") - before, 0)


def _resident(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def target(what: str, ratio: float, *, at_least: float | None = None, at_most: float | None = None) -> dict[str, Any]:
    """A promise with the measured ratio and whether it is met."""
    bound = {"at_least": at_least} if at_least is not None else {"at_most": at_most}
    met = ratio >= at_least if at_least is not None else ratio <= at_most
    return {"what": what, "ratio": round(ratio, 4), **bound, "met": met}


def present(document: dict[str, Any], as_json: bool, body: Callable[[dict[str, Any]], None]) -> None:
    """The document as JSON and nothing else on standard output; or two lines on shape and machine, then `body`'s."""
    if as_json:
        print(json_text(document, indent=2))
        return
    print(f"{document['benchmark']}, " + ", ".join(f"{name} {value}" for name, value in document["shape"].items()))
    print(f"{document['cores']} cores, " + ", ".join(f"{k} {v}" for k, v in document["versions"].items()))
    body(document)


def print_times(name: str, times: Mapping[str, Any]) -> None:
    """One line a form."""
    for form, row in times.items():
        if isinstance(row, dict):
            spread = f"{row['low_ms']:.1f}-{row['high_ms']:.1f}"
            print(f"  {name:17s} {form:24s} {row['median_ms']:9.1f} ms   {spread} ({row['samples']} rounds)")


def print_targets(targets: list[dict[str, Any]]) -> None:
    """One line a target."""
    for row in targets:
        bound = f"at least {row['at_least']}" if "at_least" in row else f"at most {row['at_most']}"
        print(f"  {row['what']:48s} {row['ratio']:7.3f}   {bound}   {'met' if row['met'] else 'MISSED'}")
