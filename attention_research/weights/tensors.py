"""Reads the tensors of a checkpoint folder, from safetensors only, and converts them to our arrays."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import safetensors

from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.errors import ConfigError

ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
#: Formats that can run code when they are read.
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
#: The data types of parameters.
FLOATS = ("F64", "F32", "F16", "BF16")
Change = Callable[[np.ndarray], np.ndarray]


def read(folder: CheckpointFolder) -> dict[str, np.ndarray]:
    """Name -> float32 array of model.safetensors, or of the files that its index names.

    Raises ConfigError for a folder without these files. Pickled weights are never read.
    """
    if folder.has(INDEX):
        files = sorted(set(_shards(folder)))
    elif folder.has(ONE):
        files = [ONE]
    else:
        pickled = next((name for name in PICKLED if folder.has(name)), None)
        why = f"{pickled} is a pickle, which may run code" if pickled else f"no {ONE} there"
        raise ConfigError(f"{folder.path}: {why}; save the model as safetensors (save_pretrained does)")
    found: dict[str, np.ndarray] = {}
    for name in files:
        try:
            with safetensors.safe_open(folder.path / name, framework="flax") as file:  # NumPy has no bfloat16
                found |= {_renamed(key): _array(file, key) for key in file.keys()}
        except (OSError, safetensors.SafetensorError) as error:
            raise ConfigError(f"{folder.path / name}: no safetensors file ({' '.join(str(error).split())})") from None
    return found


def _shards(folder: CheckpointFolder) -> Iterable[str]:
    """The files that the index names."""
    map_ = folder.json(INDEX)["weight_map"]
    if not isinstance(map_, dict) or not all(isinstance(name, str) for name in map_.values()):
        raise folder.wrong(INDEX, "weight_map: expected the name of a file for each tensor")
    for name in map_.values():
        if not folder.has(name):
            raise folder.wrong(INDEX, f"weight_map names {name}, which is not in the folder")
        yield name


def _array(file: Any, key: str) -> np.ndarray:
    """A floating-point tensor as float32; other tensors unchanged, which our arrays never use."""
    if file.get_slice(key).get_dtype() in FLOATS:
        return np.asarray(file.get_tensor(key), np.float32)
    return np.asarray(file.get_tensor(key))


def _renamed(name: str) -> str:
    """The current name of a norm's gain or bias; the first BERT checkpoints have the names of TensorFlow."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def refuse_others(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray], copies: Mapping[str, str]) -> None:
    """Raises ConfigError if a tensor of `copies` (name -> the tensor that ours has in its place) is in the file and
    differs, because Transformers uses it."""
    for name, first in copies.items():
        if {name, first} <= tensors.keys() and not np.array_equal(tensors[name], tensors[first]):
            raise ConfigError(f"{folder.path}: tensor {name} differs from {first}; ours has one for both")


#: Names of masks and positions that some checkpoints store.
COMPUTED = re.compile(r"(^|\.)(attn\.bias|attn\.masked_bias|position_ids)$")


@dataclasses.dataclass(frozen=True)
class Entry:
    """Our array `ours` is `change` of the tensor `theirs`. {} stands for the layer: all layers are stacked."""

    ours: str
    theirs: str
    change: Change = lambda x: x


def transposed(x: np.ndarray) -> np.ndarray:
    """A PyTorch kernel [out in] as [in out].

    >>> transposed(np.ones((3, 2))).shape
    (2, 3)
    """
    return x.T


def dense(ours: str, theirs: str, *, bias: bool = True) -> list[Entry]:
    """The entries of a PyTorch linear layer.

    >>> [entry.theirs for entry in dense("output", "classifier.1")]
    ['classifier.1.weight', 'classifier.1.bias']
    """
    kernel = Entry(f"{ours}.kernel", f"{theirs}.weight", transposed)
    return [kernel, Entry(f"{ours}.bias", f"{theirs}.bias")] if bias else [kernel]


def norm(ours: str, theirs: str) -> list[Entry]:
    """The entries of a layer norm with gain and bias.

    >>> [(entry.ours, entry.theirs) for entry in norm("norm", "LayerNorm")]
    [('norm.scale', 'LayerNorm.weight'), ('norm.bias', 'LayerNorm.bias')]
    """
    return [Entry(f"{ours}.scale", f"{theirs}.weight"), Entry(f"{ours}.bias", f"{theirs}.bias")]


def converted(
    folder: CheckpointFolder, tensors: Mapping[str, np.ndarray], entries: Iterable[Entry], layers: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Our name -> array. `layers` maps the beginning of our names to the number of layers of the stack.

    Raises ConfigError for a missing tensor, and for one with a wrong shape or type.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> temporary = TemporaryDirectory()
    >>> path = Path(temporary.name, "config.json")
    >>> size = path.write_text('{"model_type": "bert"}')
    >>> tensors = {f"layer.{i}.weight": np.full((3, 2), i, np.float32) for i in range(2)}
    >>> entry = Entry("stack.kernel", "layer.{}.weight", transposed)
    >>> converted(CheckpointFolder(path.parent), tensors, [entry], {"stack": 2})["stack.kernel"].shape
    (2, 2, 3)
    """

    def of(entry: Entry, name: str) -> np.ndarray:
        if name not in tensors:
            raise ConfigError(f"{folder.path}: no tensor {name}; is this a checkpoint of a {folder.type} model?")
        tensor = tensors[name]
        if tensor.dtype != np.float32:
            raise ConfigError(f"{folder.path}: tensor {name} is of {tensor.dtype}; expected floats of 16 to 64 bits")
        try:
            return entry.change(tensor)
        except (ValueError, IndexError, TypeError) as error:
            shape = tuple(tensor.shape)
            raise ConfigError(
                f"{folder.path}: tensor {name} has the shape {shape}, which does not fit ({error})"
            ) from None

    def whole(entry: Entry) -> Any:
        if "{}" not in entry.theirs:
            return of(entry, entry.theirs)
        count = next(number for start, number in layers.items() if entry.ours.startswith(start))
        of_layers = [of(entry, entry.theirs.format(layer)) for layer in range(count)]
        for layer, one in enumerate(of_layers):
            if one.shape != of_layers[0].shape:
                name, first = entry.theirs.format(layer), of_layers[0].shape
                raise ConfigError(f"{folder.path}: tensor {name} gives the shape {one.shape}, that of layer 0 {first}")
        return np.stack(of_layers)

    return {entry.ours: whole(entry) for entry in entries}


class Tensors(Mapping[str, np.ndarray]):
    """Tensors by name. `were_read` has the names of those that were read."""

    def __init__(self, tensors: Mapping[str, np.ndarray]):
        self._tensors = tensors
        self.were_read: set[str] = set()

    def __getitem__(self, name: str) -> np.ndarray:
        found = self._tensors[name]
        self.were_read.add(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def left(
    folder: CheckpointFolder, tensors: Tensors, entries: Iterable[Entry], layers: Mapping[str, int]
) -> tuple[str, ...]:
    """The tensors that were not read, except for masks and positions that are computed here.

    Raises ConfigError for the tensor of a layer beyond the last one, and for an adapter that is not merged: without
    them, the model would be another one.
    """
    for entry in entries:
        if "{}" in entry.theirs:
            count = next(number for start, number in layers.items() if entry.ours.startswith(start))
            if (beyond := entry.theirs.format(count)) in tensors:
                which = f"of layer {count + 1}; config.json has {count} layers"
                raise ConfigError(f"{folder.path}: tensor {beyond} is {which}")
    found = sorted(name for name in tensors.keys() - tensors.were_read if not COMPUTED.search(name))
    adapter = next((name for name in found if "lora_" in name), None)
    if adapter is not None:
        raise ConfigError(f"{folder.path}: tensor {adapter} is part of an adapter; merge it into the weights first")
    return tuple(found)
