"""Tensors of a file that `torch.save` wrote before PyTorch 1.6 (no zip file), read without PyTorch and running nothing.

Such a file is four pickles (a magic number, the version of the format, the machine's sizes, the saved object, in which
a tensor names its storage), the list of storages as a fifth, and then of each storage its number of elements, int64,
and its elements. A pickle may name any function of Python to be called: here every name is refused but those in
`ALLOWED`, which build a dictionary and note what a tensor is.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from attention_research.errors import ConfigError

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001


class Storage(NamedTuple):
    """Elements in a row that tensors look at: its name in the file, type and length."""

    key: str
    type: str
    length: int


class Tensor(NamedTuple):
    """A view of a storage, in elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _tensor(storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *rest: Any) -> Tensor:
    del rest  # whether it wants a gradient, and hooks
    return Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _parameter(data: Tensor, *rest: Any) -> Tensor:
    del rest
    return data


#: Storages by their name in a pickle -> their elements.
ELEMENTS = {
    f"{name}Storage": np.dtype(element).newbyteorder("<")
    for name, element in {
        "Float": np.float32, "Double": np.float64, "Half": np.float16, "Long": np.int64, "Int": np.int32,
        "Byte": np.uint8,
    }.items()
}  # fmt: skip
#: What a pickle may name -> what stands in its place here. Nothing of it has state that a pickle could change.
ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    **{("torch", name): name for name in ELEMENTS},
}


class _Reader(pickle.Unpickler):
    """Refuses every name that is not in `ALLOWED`, and notes storages."""

    def __init__(self, file: BinaryIO):
        super().__init__(file)
        self.storages: dict[str, Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"names {module}.{name}, which no file of tensors needs")
        return ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> Storage:
        match pid:
            case ("storage", str() as kind, str() as key, _, int() as length, None) if kind in ELEMENTS and length >= 0:
                return self.storages.setdefault(key, Storage(key, kind, length))
        raise pickle.UnpicklingError("names something that is no storage")


def read(path: Path) -> dict[str, np.ndarray]:
    """Name -> array of a saved dictionary of tensors, a state dict.

    Raises ConfigError, one line, for a file of another kind, a cut one, and one whose pickle names anything else.
    """
    try:
        with open(path, "rb") as file:
            return _read(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except Exception as error:  # a pickle of another kind fails anywhere in the standard library's reader
        raise ConfigError(f"{path}: no file of tensors as torch.save wrote them: {error}") from None


def _read(file: BinaryIO) -> dict[str, np.ndarray]:
    reader = _Reader(file)
    if (_Reader(file).load(), _Reader(file).load()) != (MAGIC, VERSION):
        raise ValueError("another format")
    if not _Reader(file).load()["little_endian"]:
        raise ValueError("of a big-endian machine")
    saved = reader.load()
    storages = {}
    for key in _Reader(file).load():
        elements, length = ELEMENTS[reader.storages[key].type], reader.storages[key].length
        data = file.read(8 + length * elements.itemsize)
        if len(data) < 8 + length * elements.itemsize or int.from_bytes(data[:8], "little") != length:
            raise ValueError(f"storage {key} is cut short")
        storages[key] = np.frombuffer(data, elements, offset=8)
    return {_text(name): _viewed(tensor, storages) for name, tensor in saved.items()}


def _viewed(tensor: Any, storages: Mapping[str, np.ndarray]) -> np.ndarray:
    """A copy of what a tensor looks at. Raises ValueError where it leaves its storage."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"a {type(tensor).__name__} stands where a tensor was expected")
    elements = storages[tensor.storage.key]
    furthest = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True))
    inside = 0 in tensor.shape or furthest < len(elements)
    if not inside or min(tensor.offset, 0, *tensor.shape, *tensor.strides) < 0:
        raise ValueError(f"a tensor of shape {tensor.shape} leaves its storage of {len(elements)} elements")
    steps = tuple(step * elements.itemsize for step in tensor.strides)
    return np.lib.stride_tricks.as_strided(elements[tensor.offset :], tensor.shape, steps).copy()


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"a tensor is called {name!r}")
    return name
