"""Lowers programs in a child process, so that the parent does not import JAX or take memory on an accelerator.

The child reads one JSON document on each line, {"key", "given", "evaluated", "platform"}, and prints one line
{"key", "parts"} for each. It skips programs for another platform than its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable

from attention_research.studies.fingerprints import Lowering
from attention_research.studies.orphans import die_with


def lowered(wanted: Iterable[Lowering], report: Callable[[str], None] = lambda line: None) -> dict[str, dict[str, str]]:
    """Key -> hashes by part, from the cache or by lowering. Programs of another platform are left out."""
    each = {one.key: one for one in wanted}
    found = {key: parts for key, one in each.items() if (parts := one.kept()) is not None}
    missing = [one for key, one in each.items() if key not in found]
    if missing:
        report(f"lowering the programs of {len(missing)} config{'s' if len(missing) > 1 else ''}")
        found |= _elsewhere(missing)
    return found


def _elsewhere(missing: list[Lowering]) -> dict[str, dict[str, str]]:
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-c", f"from attention_research.studies.lowering import main; main({os.getpid()})"]
    asked = "".join(
        json.dumps({"key": one.key, "given": one.given, "evaluated": one.evaluated, "platform": one.platform}) + "\n"
        for one in missing
    )
    done = subprocess.run(command, input=asked, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {one["key"]: one["parts"] for one in answers}


def main(parent: int) -> None:
    """Answers the requests on standard input. The process ends when the process `parent` ends."""
    die_with(parent)
    from attention_research import config as configs
    from attention_research.kernels.platforms import home_platform

    for line in sys.stdin:
        asked = json.loads(line)
        if asked["platform"] == home_platform():
            one = Lowering(configs.resolve(asked["given"]), evaluated=asked["evaluated"], platform=asked["platform"])
            print(json.dumps({"key": asked["key"], "parts": one.run()}), flush=True)
