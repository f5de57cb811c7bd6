"""Shared measurement code of the benchmarks: interleaved times in one process, peak memory in fresh processes.

In each round, every form runs once in the same process, so a busy machine slows down all forms equally. Rounds in which
other processes used the cores are dropped, as long as three rounds remain. With the default malloc, page faults
dominate the times on a CPU. Processes that measure time therefore keep their pages, as the program itself does
(`attention_research.allocator`); this also applies to the peer in the same process. Processes that measure memory
return every large buffer to the system.
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
#: The settings of malloc: those of the program (`attention_research.allocator`), the defaults of glibc, and glibc
#: returning as much memory as possible.
KEEP_PAGES = {allocator.VARIABLE: "1"}
PLAIN_MALLOC = {allocator.VARIABLE: "0"}
RETURN_PAGES = PLAIN_MALLOC | {
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_TOP_PAD_": "131072",
}
#: The pause before each call, in seconds.
PAUSE = 0.3


def log(line: str) -> None:
    """Prints a line of progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def has(package: str) -> bool:
    """Whether an optional peer is installed."""
    return find_spec(package) is not None


def runs_torch(form: str) -> bool:
    """Whether this machine can run the form "torch eager" or "torch compiled". The latter needs a C++ compiler."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    return has("torch") and (form == "torch eager" or compiler is not None)


def versions(*packages: str) -> dict[str, str]:
    """The versions of the packages that are installed."""
    return {package: version(package) for package in packages if has(package)}


def made() -> dict[str, Any]:
    """The origin of a document: revision, date and machine."""
    from attention_research.training.environment import describe

    described = describe()
    return {name: described[name] for name in ("git_revision", "date", "processor", "cores", "devices", "python")}


def worker(module: str, settings: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """Runs ``python -m module --worker ...`` in a fresh process with these environment variables and returns its
    JSON."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **settings, "PYTHONPATH": path}
    command = [sys.executable, "-m", module, "--worker", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def serves(workers: Mapping[str, Callable[..., dict[str, Any]]]) -> bool:
    """In a process started by `worker`, runs the named function, prints its JSON, and returns True. Else returns
    False."""
    if sys.argv[1:2] != ["--worker"]:
        return False
    allocator.keep_pages()
    what, *rest = sys.argv[2:]
    print(json.dumps(workers[what](*(int(word) if word.isdigit() else word for word in rest))))
    return True


def interleaved(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Times calls in interleaved rounds.

    Returns {form: {median_ms, low_ms, high_ms, samples}, "others_took"}, where the latter is the largest fraction of
    the cores that other processes used in a kept round. Each call must wait for its result. It runs once before the
    first round. There is a pause before each call, because the threads of the previous library (OpenMP) stay active for
    about 0.2 s while they wait for work.
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
    """The median, the range and the number of samples."""
    return {
        "median_ms": round(statistics.median(milliseconds), 2),
        "low_ms": round(min(milliseconds), 2),
        "high_ms": round(max(milliseconds), 2),
        "samples": len(milliseconds),
    }


def some_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """The argument type of a comma-separated list of some of the known names."""

    def read(words: str) -> tuple[str, ...]:
        for word in words.split(","):
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(known)}")
        return tuple(words.split(","))

    return read


def _busy() -> tuple[float, float]:
    """(processor seconds used by the whole machine, processor seconds used by this process)."""
    ticks = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    machine = (sum(ticks[:3]) + sum(ticks[5:8])) / os.sysconf("SC_CLK_TCK")
    return machine, sum(os.times()[:2])


def peak_of(call: Callable[[], Any]) -> int:
    """The increase of the resident size of this process during one call, in bytes."""
    before = _resident("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    except OSError:
        before = _resident("VmHWM")
    call()
    return max(_resident("VmHWM") - before, 0)


def _resident(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def target(what: str, ratio: float, *, at_least: float | None = None, at_most: float | None = None) -> dict[str, Any]:
    """A target with the measured ratio and whether it is met."""
    bound = {"at_least": at_least} if at_least is not None else {"at_most": at_most}
    met = ratio >= at_least if at_least is not None else ratio <= at_most
    return {"what": what, "ratio": round(ratio, 4), **bound, "met": met}


def present(document: dict[str, Any], as_json: bool, body: Callable[[dict[str, Any]], None]) -> None:
    """Prints the document as JSON, or two lines about shape and machine followed by the output of `body`."""
    if as_json:
        print(json_text(document, indent=2))
        return
    print(f"{document['benchmark']}, " + ", ".join(f"{name} {value}" for name, value in document["shape"].items()))
    print(f"{document['cores']} cores, " + ", ".join(f"{k} {v}" for k, v in document["versions"].items()))
    body(document)


def print_times(name: str, times: Mapping[str, Any]) -> None:
    """Prints one line for each form."""
    for form, row in times.items():
        if isinstance(row, dict):
            spread = f"{row['low_ms']:.1f}-{row['high_ms']:.1f}"
            print(f"  {name:17s} {form:24s} {row['median_ms']:9.1f} ms   {spread} ({row['samples']} rounds)")


def print_targets(targets: list[dict[str, Any]]) -> None:
    """Prints one line for each target."""
    for row in targets:
        bound = f"at least {row['at_least']}" if "at_least" in row else f"at most {row['at_most']}"
        print(f"  {row['what']:48s} {row['ratio']:7.3f}   {bound}   {'met' if row['met'] else 'MISSED'}")
