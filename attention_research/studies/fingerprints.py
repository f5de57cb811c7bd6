"""The `program` of a trial: a dictionary of short hashes of the parts that it runs. Its fingerprint is a hash of this.

    {"jax": "0.10.2", ..., "platform": "cpu", "sources": "4e033cf248a5",
     "config": "bf0014350a04", "data": "...", "start": "...", "train": "...", "evaluate": "...", "decode": "..."}

A trial that trains has the hashes of its lowered programs (`training.programs`), of its data (`data.checksum`), of the
sources that score it and of its config. A fine-tuning has the same parts under its name (``topics.train``). A
measurement has the hash of the sources that its function reaches (``measure.FUNCTION``, `studies.sources`). "sources"
is a hash of all sources that could matter: if it and the versions of libraries are equal, all other parts are equal
too, and nothing needs to be lowered.

Lowering takes seconds. The hashes of lowered programs are cached in the user's cache folder, by config (without the
seeds), sources and versions.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention_research import config as configs
from attention_research import registry
from attention_research.config.identity import EXECUTION_LEAVES
from attention_research.config.record import flat
from attention_research.studies import finetuning
from attention_research.studies.sources import Sources
from attention_research.studies.study import digest
from attention_research.training.environment import fingerprint
from attention_research.training.workdir import write_text

if TYPE_CHECKING:  # it imports NumPy
    from attention_research.data.protocol import Data

#: Lowered programs depend on the versions of these. Programs of different versions of JAX are not comparable.
LIBRARIES = ("jax", "jaxlib", "flax", "optax")
#: The prefix of a part that could not be hashed, followed by the reason.
UNKNOWN = "not "
#: The parts of a program that are not compared one by one.
ABOUT = (*LIBRARIES, "platform", "sources")
#: Environment variables that change lowered programs.
_FLAGS = ("JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_THREEFRY_PARTITIONABLE", "JAX_DEFAULT_PRNG_IMPL")
#: The function that computes floors.
_FLOORS = "attention_research.tasks.floors:floors_of"
Stages = Sequence[Mapping[str, Any]]
Given = Mapping[str, Any] | None


@functools.cache
def versions() -> dict[str, str]:
    """The installed versions of `LIBRARIES`."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}


def line(program: Mapping[str, Any]) -> str:
    """The fingerprint of a program: a hash (12 hex digits) of its parts, without "sources"."""
    return digest({name: value for name, value in program.items() if name != "sources"})


def trains(stages: Stages) -> bool:
    """Whether a trial has a training stage."""
    return any(stage["kind"] == "train" for stage in stages)


def sources_of(stages: Stages, package: str | None = None, sources: Sources | None = None) -> str:
    """The hash of all sources that could matter to a trial. `package` is the package's hash, if it is known already."""
    own = measurements(stages, sources)
    if trains(stages):
        own["package"] = fingerprint() if package is None else package
    return digest(own)


def measurements(stages: Stages, sources: Sources | None = None) -> dict[str, str]:
    """Part -> hash of the sources, for each stage that measures."""
    sources, trained = sources or Sources(), trains(stages)
    found = {
        f"measure.{stage['function'].rpartition(':')[2]}": sources.of(
            stage["function"], stage["settings"], trained=trained
        )
        for stage in stages
        if stage["kind"] == "measure"
    }
    if any(stage["kind"] == "floors" for stage in stages):
        found["measure.floors"] = sources.of_scoring(_FLOORS)
    return found


class Lowering:
    """A request for the lowered programs of a config, and the key under which their hashes are cached."""

    def __init__(self, config: configs.Config, *, evaluated: bool, platform: str, package: str | None = None):
        self.given, self.evaluated, self.platform = config.given, evaluated, platform
        leaves = {
            path: value
            for path, value in flat(config.resolved).items()
            if not path.startswith((*EXECUTION_LEAVES, "training.seed", "training.data_seed"))
        }
        flags = {name: os.environ[name] for name in _FLAGS if name in os.environ}
        self.key = digest([leaves, evaluated, package or fingerprint(), versions(), platform, flags], 20)

    def kept(self) -> dict[str, str] | None:
        """The cached hashes, or None."""
        return _read(self.key)

    def run(self) -> dict[str, str]:
        """Lowers the programs in this process, which imports JAX, and caches their hashes."""
        import jax

        from attention_research.training.programs import program_hashes

        try:
            found = program_hashes(configs.resolve(dict(self.given)), evaluated=self.evaluated)
        except Exception as error:  # training will report a config that cannot be built
            return {"train": unknown("lowered", error)}
        jax.clear_caches()  # the traced programs are not run here
        return _keep(self.key, found)


def lowerings(
    stages: Stages, given: Given, platform: str, package: str | None = None
) -> Iterator[tuple[str, Lowering]]:
    """Yields (prefix of part names, `Lowering`) for each run that a trial trains. `package` is that of `sources_of`."""
    for prefix, config, _ in finetuning.runs(stages, given or {}) if trains(stages) else ():
        evaluated = prefix != "" or _evaluates(stages)
        yield prefix, Lowering(config, evaluated=evaluated, platform=platform, package=package)


def contents(stages: Stages, given: Given, *, build: bool = False, sources: Sources | None = None) -> dict[str, str]:
    """Part -> hash of the config, of the data and of the scoring sources, for each run of a trial.

    Without `build`, data that are not prepared yet are left out.
    """
    found = descriptions(stages, given, sources)
    there = True
    for prefix, config, make in finetuning.runs(stages, given or {}) if trains(stages) else ():
        try:
            if not there:  # without the trial's own data there is no vocabulary
                continue
            data = make(_silent)
            there = build or data.is_here()
            if there:
                found[f"{prefix}data"] = _data(data, config.resolved)
        except Exception as error:
            there = build
            found |= {f"{prefix}data": unknown("read", error)} if build else {}
    return found


def descriptions(stages: Stages, given: Given, sources: Sources | None = None) -> dict[str, str]:
    """Part -> hash of the config and of the scoring sources, for each run of a trial."""
    found: dict[str, str] = {}
    for prefix, config, _ in finetuning.runs(stages, given or {}) if trains(stages) else ():
        found[f"{prefix}config"] = config.identity
        if prefix or _evaluates(stages):
            named = {f"score.{name}": section for name, section in config.resolved.get("evaluations", {}).items()}
            for name, section in {"score": config.resolved["evaluation"], **named}.items():
                where, whole = registry.FAMILIES["evaluation"][section["kind"]], section.get("near") is not None
                found[f"{prefix}{name}"] = (sources or Sources()).of_scoring(where, whole=whole)
    return found


def _evaluates(stages: Stages) -> bool:
    return any(stage["kind"] == "evaluate" for stage in stages)


def unknown(what: str, error: Exception) -> str:
    """The text in place of a hash that cannot be computed, so that the trial can still be recorded."""
    return f"{UNKNOWN}{what} ({type(error).__name__}: {' '.join(str(error).split())[:80]})"


def _silent(line: str) -> None:
    pass


def _data(data: Data, resolved: Mapping[str, Any]) -> str:
    from attention_research.data import checksum

    data.prepare(_silent)
    stamp, sizes = data.stamp(), [resolved["training"]["batch_size"], resolved["evaluation"]]
    key = digest([resolved["data"], sizes, stamp, fingerprint()], 20)
    if stamp is not None and (kept := _read(key)) is not None:
        return kept["data"]
    return _keep(key, {"data": checksum.of_config(data, resolved)})["data"]


def program_of(stages: Stages, given: Given) -> dict[str, str]:
    """The program of a trial that starts in this process, on its platform. Prepares the trial's data."""
    program = {**measurements(stages), "sources": sources_of(stages)}
    if not trains(stages):
        return program
    from attention_research.kernels.platforms import home_platform

    program |= {**versions(), "platform": home_platform(), **contents(stages, given, build=True)}
    for prefix, lowering in lowerings(stages, given, program["platform"]):
        hashes = lowering.kept() or lowering.run()
        program |= {f"{prefix}{name}": value for name, value in hashes.items()}
    return program


def _place(key: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "attention_research" / "programs" / f"{key}.json"


def _read(key: str) -> dict[str, str] | None:
    try:
        return json.loads(_place(key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _keep(key: str, found: dict[str, str]) -> dict[str, str]:
    """Writes to the cache and returns `found`. A failed write (full or read-only disk) is ignored."""
    try:
        _place(key).parent.mkdir(parents=True, exist_ok=True)
        write_text(_place(key), json.dumps(found, sort_keys=True) + "\n")
    except Exception:  # RunError of `write_text`, OSError
        pass
    return found
