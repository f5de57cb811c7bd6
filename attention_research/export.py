"""Writes a trained model as one safetensors file, and loads such a file.

The file holds each parameter and statistic under its dotted name, floats as float32. Its metadata, as text, are:
`config` (config.json); `git_revision` and `fingerprint` of the sources that trained the model; `step` (for averaged
checkpoints, `averaged` lists all steps; `checkpoint` says how the checkpoint was chosen); `seed`; and `tokenizer`, the
fingerprint of the vocabulary ("none" for data without a vocabulary, such as images). Any safetensors reader can read
the file; `load` rebuilds the model. Next to the file stands a model card, `FILE.card.md`: what the model is, its data,
its scores and how to load it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from safetensors.numpy import save_file

from attention_research.config import Config, ConfigError, build, build_experiment
from attention_research.data import from_run
from attention_research.errors import RunError
from attention_research.layers.structure import Structure, abstract
from attention_research.training.evaluation import Trained

_METADATA = ("config", "git_revision", "fingerprint", "step", "averaged", "seed", "tokenizer")


#: The value of `tokenizer` for data without a vocabulary.
WITHOUT_VOCABULARY = "none"


@dataclasses.dataclass(frozen=True)
class Exported:
    """A model that was loaded from a file.

    Inside a traced function, `structure.merge(parameters, statistics)` is the module. `tokenizer` is the vocabulary if
    its file is next to the model file, else None. `metadata` is the metadata of the file.
    """

    config: Config
    structure: Structure
    parameters: dict[str, jax.Array]
    statistics: dict[str, jax.Array]
    tokenizer: Any
    metadata: Mapping[str, str]


def export(
    workdir: Path,
    path: Path,
    *,
    seed: int | None = None,
    average: int | None = None,
    checkpoint: str | int | None = None,
    tokenizer: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Writes a checkpoint of a workdir to `path`. With several replicas, it is the one of `seed` (None: the first).

    `average` and `checkpoint` choose the checkpoint, as for `Trained`. `tokenizer` also copies the SentencePiece model
    next to the file. Returns one line of text per file. Raises ConfigError and RunError.
    """
    trained = Trained(workdir, report, average=average, checkpoint=checkpoint)
    seeds = trained.trainer.seeds
    if seed is not None and seed not in seeds:
        raise ConfigError(f"--seed={seed}: {workdir} has {', '.join(map(str, seeds))}")
    if seed is not None and seeds.count(seed) > 1:
        raise ConfigError(f"--seed={seed}: {seeds.count(seed)} replicas of {workdir} have it; without --seed the first "
                          "replica is exported")  # fmt: skip
    seed = seeds[0] if seed is None else seed
    vocabulary: Any = getattr(trained.data, "tokenizer", None)
    if tokenizer and getattr(vocabulary, "path", None) is None:
        raise ConfigError(f"--tokenizer: the data of {workdir} have no vocabulary file; export without --tokenizer")
    parameters, statistics = trained.model(seeds.index(seed))
    arrays = {name: _plain(x) for name, x in {**parameters, **statistics}.items()}
    try:
        environment = json.loads((workdir / "environment.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        environment = {}
    values = (
        trained.config.to_json(), environment.get("git_revision", "unknown"), environment.get("fingerprint", "unknown"),
        str(trained.step), ",".join(map(str, trained.averaged)), str(seed),
        getattr(vocabulary, "fingerprint", WITHOUT_VOCABULARY),
    )  # fmt: skip
    metadata = {**dict(zip(_METADATA, values, strict=True)), "checkpoint": trained.selection.name}
    metadata["tokenizer_section"] = json.dumps(from_run.section_of(trained.config.resolved["data"], workdir))
    _write(path, lambda place: save_file(arrays, place, metadata))
    count = sum(parameters[name].size for name in parameters)
    lines = [f"{path} · {count:,} parameters in {len(parameters)} arrays · {trained.selection}, seed {seed}"]
    card = _card(path.name, trained, environment, metadata, count)
    _write(path.with_suffix(".card.md"), lambda place: place.write_text(card, encoding="utf-8"))
    lines.append(f"{path.with_suffix('.card.md')} · model card")
    if tokenizer:
        beside = vocabulary_of(path)
        _write(beside, lambda place: shutil.copyfile(vocabulary.path, place))
        lines.append(f"{beside} · {vocabulary.size:,} pieces · fingerprint {values[-1]}")
    return lines


def _card(name: str, trained: Trained, environment: Mapping[str, Any], metadata: Mapping[str, str], count: int) -> str:
    """The model card: what the model is, its data, its scores and how to load it, as Markdown."""
    resolved = trained.config.resolved
    data = resolved["data"].get("name") or resolved["data"]["kind"]
    found = _evaluation(trained, int(metadata["seed"]))
    scored = found.get("step") == trained.step and found.get("averaged", [trained.step]) == trained.averaged
    facts = {
        "model": f"{resolved['model']['kind']}, {count:,} parameters",
        "task": resolved["task"]["kind"],
        "data": f"{data} (licences of the data sets: docs/data_licences.md of the repository)",
        "config": f"{trained.config.spec or 'given by a program'}, hash {trained.config.hash}",
        "checkpoint": f"{trained.selection}, seed {metadata['seed']}",
        "trained with": "; ".join(_process(one) for one in (*environment.get("earlier", ()), environment)),
        "vocabulary": f"fingerprint {metadata['tokenizer']}",
    }
    skipped = ("step", "seed", "sentences", "tokens", "seconds")
    scores = {one: value for one, value in found.items() if isinstance(value, float) and one not in skipped}
    lines = [f"# {name.removesuffix('.safetensors')}", "", "| | |", "| --- | --- |"]
    lines += [f"| {title} | {text} |" for title, text in facts.items()]
    lines += ["", "## Scores", ""]
    command = f"attention-research evaluate --workdir=... {_chosen(trained)}"
    if scores and not scored:
        of = "a mean of checkpoints" if len(found.get("averaged", ())) > 1 else f"step {found.get('step', '?')}"
        lines.append(
            f"Not evaluated: evaluation.json of the run has the scores of {of}. `{command}`, then export again."
        )
    elif scores:
        of = f"{found.get('sentences', '?')} examples of {found.get('split', '?')}, step {found.get('step', '?')}"
        signatures = [f"`{value}`" for one, value in found.items() if "signature" in one]
        lines += [f"{of}{' (' + ', '.join(signatures) + ')' if signatures else ''}:", ""]
        lines += [f"- {one.replace('_', ' ')}: {value:.4g}" for one, value in scores.items()]
    else:
        lines.append(f"Not evaluated: `{command}`, then export again.")
    lines += ["", "## Load", "", "```python", "from attention_research.export import load", ""]
    lines += [f'model = load("{name}")', "# Inside a function that JAX traces:"]
    lines += ["module = model.structure.merge(model.parameters, model.statistics)", "```", ""]
    return "\n".join(lines)


def _process(environment: Mapping[str, Any]) -> str:
    """A process that trained the model. A continued run has several."""
    return f"git revision {environment.get('git_revision', 'unknown')}, {environment.get('date', 'date unknown')}"


def _evaluation(trained: Trained, seed: int) -> dict[str, Any]:
    """The evaluation.json of a run with the scores of this seed, of any checkpoint; {} without one."""
    try:
        found = json.loads((trained.workdir / "evaluation.json").read_text(encoding="utf-8"))
        return found | found.get("replicas", [{}])[trained.trainer.seeds.index(seed)]
    except (OSError, ValueError, IndexError):
        return {}


def _chosen(trained: Trained) -> str:
    """The option that chooses the checkpoints of `trained`."""
    return f"--average={len(trained.averaged)}" if len(trained.averaged) > 1 else f"--checkpoint={trained.step}"


def vocabulary_of(path: Path) -> Path:
    """The path of the SentencePiece model that belongs to an exported file."""
    return path.with_suffix(".spm")


def load(path: Path | str) -> Exported:
    """Loads a model from a file that `export` wrote.

    Raises ConfigError for other files, if the arrays do not fit the model of the config, and if the vocabulary next to
    the file is not the one that the model was trained with.
    """
    path = Path(path)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, safetensors.SafetensorError) as error:
        raise ConfigError(f"{path}: not a safetensors file ({' '.join(str(error).split())})") from None
    absent = [name for name in _METADATA if name not in metadata]
    if absent:
        raise ConfigError(f"{path}: not written by attention-research export (its metadata have no {absent[0]})")
    config = Config.from_json(metadata["config"]).completed()
    parts = build_experiment(config)
    structure, *wanted = abstract(lambda rngs: parts.model(rngs=rngs))
    _check(path, arrays, {**wanted[0], **wanted[1]})
    parameters, statistics = ({n: jnp.asarray(arrays[n], x.dtype) for n, x in part.items()} for part in wanted)
    return Exported(config, structure, parameters, statistics, _tokenizer(path, config, metadata), metadata)


def _check(path: Path, arrays: Mapping[str, np.ndarray], wanted: Mapping[str, Any]) -> None:
    shapes = {name: tuple(x.shape) for name, x in arrays.items()}
    for name in sorted(shapes.keys() | wanted.keys()):
        if name not in shapes:
            raise ConfigError(f"{path}: {name} of its config's model is missing")
        if name not in wanted:
            raise ConfigError(f"{path}: {name} is not in its config's model")
        if shapes[name] != tuple(wanted[name].shape):
            raise ConfigError(f"{path}: {name} is {shapes[name]}, in its config's model {tuple(wanted[name].shape)}")


def _tokenizer(path: Path, config: Config, metadata: Mapping[str, str]) -> Any:
    beside = vocabulary_of(path)
    if not beside.exists() or metadata["tokenizer"] == WITHOUT_VOCABULARY:
        return None
    section = json.loads(metadata.get("tokenizer_section", "null")) or config.resolved["data"]["tokenizer"]
    try:
        tokenizer = build(section, "tokenizer", "config.data.tokenizer")().load(beside)
    except RuntimeError:
        raise ConfigError(f"{beside}: not a SentencePiece model") from None
    if tokenizer.fingerprint != metadata["tokenizer"]:
        raise ConfigError(f"{beside}: vocabulary {tokenizer.fingerprint}; {path} needs {metadata['tokenizer']}")
    return tokenizer


def _plain(array: jax.Array) -> np.ndarray:
    """The array on the host, with floats as float32, which represents all narrower floats exactly."""
    array = np.asarray(jax.device_get(array))
    return np.ascontiguousarray(array.astype(np.float32) if jnp.issubdtype(array.dtype, jnp.floating) else array)


def _write(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes to a temporary file and renames it, so that readers see either the whole file or no file."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.replace(path)
    except (OSError, safetensors.SafetensorError) as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise RunError(f"{path}: not written: {getattr(error, 'strerror', None) or error}") from None
