"""Loads a checkpoint folder into our modules, and writes it as a run at step 0, which every command accepts.

The result is an ordinary run: `analyze`, `evaluate`, `generate` and `export` read it, `train` continues it, and
`training.initial` starts other runs from it. Its environment.json lists the imported files with their hashes.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.config import Config, ConfigError, build, build_experiment, resolve
from attention_research.data import from_run
from attention_research.data.hugging_face import HuggingFaceTokenizer
from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.data.numbering import Numbering
from attention_research.layers.structure import Structure, abstract, initializer
from attention_research.training import claiming, environment, keeping, workdir
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.step import state_at_0
from attention_research.training.trainer import Trainer
from attention_research.weights import bert, gpt2, marian, t5, tensors, vit

TYPES: dict[str, ModuleType] = {"bert": bert, "gpt2": gpt2, "marian": marian, "t5": t5, "vit": vit}
#: The default training settings of a run that continues from an imported model.
TRAINING = {
    "steps": 1000,
    "batch_size": 16,
    "learning_rate": 0.0001,
    "optimizer": {"kind": "adam"},
    "schedule": {"kind": "linear", "warmup_steps": 100},
    "clip_norm": 1.0,
    "checkpoint_every": 500,
    "eval_every": 250,
    "log_every": 25,
}
Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Loaded:
    """An imported model. ``structure.merge(parameters, statistics)``, inside a traced function, is the module;
    `numbering` maps our token ids to the imported ones, and is empty for a model without tokens."""

    config: Config
    structure: Structure
    parameters: dict[str, jax.Array]
    numbering: Numbering
    statistics: dict[str, jax.Array] = dataclasses.field(default_factory=dict)
    unread: tuple[str, ...] = ()  # the folder's tensors that have no place in our model, such as a head

    def tokenizer(self) -> HuggingFaceTokenizer:
        """The vocabulary of the folder, in our ids."""
        folder = self.config.resolved["data"]["tokenizer"]["folder"]
        return HuggingFaceTokenizer(folder=folder, vocabulary_size=len(self.numbering)).fit(())

    def drawn(self, seed: int) -> dict[str, jax.Array]:
        """Randomly initialised parameters of the same model, as `train` draws them."""
        constructor = build(self.config.resolved["model"], "model")
        return jax.jit(initializer(lambda rngs: constructor(rngs=rngs)))(jax.random.key(seed))[0]


def load(path: Path | str, overrides: Iterable[tuple[str, str]] = ()) -> Loaded:
    """The model of a folder that `save_pretrained` wrote: BERT, GPT-2, Marian, T5 or ViT.

    Raises ConfigError, one line, if the folder is not a checkpoint, the weights are not safetensors, a setting needs
    equations that are not implemented here, or a tensor is missing, has another shape, belongs to a layer that
    config.json does not count, or is an adapter.

    The module of a folder, inside a traced function:

        loaded = load("checkpoints/bert-base-uncased")
        model = loaded.structure.merge(loaded.parameters, loaded.statistics)
    """
    folder = CheckpointFolder(path)
    module = TYPES[folder.type]
    for key, expected in module.EXPECTED.items():
        if (found := folder.config.get(key, expected)) != expected:
            raise ConfigError(f"{folder.path / 'config.json'}: {key} is {found!r}; ours has {expected!r}")
    theirs = tensors.Tensors(tensors.read(folder))
    with _fitting(folder):
        given = _given(folder, module, theirs)
    config = resolve(given, overrides, spec=str(path))
    parts = build_experiment(config)
    structure, wanted, _ = abstract(lambda rngs: parts.model(rngs=rngs))
    with _fitting(folder):
        entries, layers = module.entries(folder, theirs), module.layers(folder)
        arrays = tensors.converted(folder, theirs, entries, layers)
        unread = tensors.left(folder, theirs, entries, layers)
        arrays = vit.fitted(arrays, wanted) if module is vit else arrays
    for name in sorted(wanted.keys() | arrays.keys()):
        ours, given = (tuple(one[name].shape) if name in one else None for one in (wanted, arrays))
        if ours != given:
            raise ConfigError(f"{folder.path}: {name} is {ours} in our model and {given} of the folder's tensors")
    parameters = {name: jnp.asarray(arrays[name], x.dtype) for name, x in wanted.items()}
    return Loaded(config, structure, parameters, folder.numbering, unread=unread)


@contextmanager
def _fitting(folder: CheckpointFolder) -> Iterator[None]:
    """Turns errors caused by wrong values of config.json into one line."""
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{folder.path}: config.json and the tensors are not those of one model ({why})") from None


def import_folder(path: Path | str, into: Path, overrides: Iterable[tuple[str, str]], report: Report) -> Loaded:
    """Writes a run at step 0 into the folder `into`. Its data are a set of real text, or of images for a ViT, which
    `overrides` can change.

    Raises as `load`, and if the folder has a run of another config.
    """
    return written(load(path, overrides), into, str(path), _files(Path(path)), report)


def written(loaded: Loaded, into: Path, source: str, files: list[dict[str, str]], report: Report) -> Loaded:
    """Writes a loaded model, imported from `files` of `source`, as `import_folder` does. Data are prepared for their
    vocabulary; for a model without tokens they are prepared only when a command reads them."""
    with workdir.locked(into):
        claiming.claim(into, loaded.config)
        trainer = Trainer(loaded.config, alone=True)
        found: dict[str, Any] = {**environment.describe(), "imported": files}
        if len(loaded.numbering):
            found |= from_run.recorded(trainer.data.prepare(report).tokenizer)
            report(trainer.data.describe())
            keeping.keep(trainer.data, into, loaded.config, lambda line: None)
        workdir.write_json(into / "environment.json", found)
        state = trainer.execution.made(
            lambda seed, *arrays: state_at_0(seed, arrays[0], arrays[1], trainer.optimizer),
            jnp.int32(trainer.seeds[0]), loaded.parameters, loaded.statistics,
        )  # fmt: skip
        with Checkpoints(into, trainer.settings, report) as checkpoints:
            checkpoints.save(0, state)
    count = sum(array.size for array in loaded.parameters.values())
    if loaded.unread:
        rest = f" and {len(loaded.unread) - 3} more" if len(loaded.unread) > 3 else ""
        report(f"tensors of {source} without a place in this model: {', '.join(loaded.unread[:3])}{rest}")
    report(f"{into} · {count:,} parameters of {source}")
    return loaded


def _given(folder: CheckpointFolder, module: ModuleType, theirs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The config in the form of a config file."""
    model, length = module.model(folder, theirs)
    shared = {"task": {"kind": module.TASK}, "model": model, "training": TRAINING}
    if module is vit:
        scores = {"kind": "classification", "batch_size": 64}
        return {"kind": "images", **vit.images(folder), "data": module.data(theirs), **shared, "evaluation": scores}
    tokenizer = {"kind": "hugging_face", "folder": str(folder.path)}
    data = module.data(theirs)
    sentinels = {"sentinels": folder.sentinels} if data["kind"] == "text" else {}
    return {
        "max_length": length,
        "vocabulary_size": len(folder.numbering),
        "data": {**data, "tokenizer": tokenizer, **sentinels},
        **shared,
        "evaluation": {"kind": "perplexity", "split": "test", "examples": 256, "batch_size": 8},
    }


def _files(folder: Path) -> list[dict[str, str]]:
    """The name and the SHA-256 of each file that was read."""
    names = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".txt", ".spm"))
    return [{"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for path in names]
