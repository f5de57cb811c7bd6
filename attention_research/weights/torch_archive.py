"""Reads tensors of files that `torch.save` wrote before PyTorch 1.6 (not zip files), without PyTorch or running code.

Such a file consists of five pickles, followed by the storages. The pickles are a magic number, the version of the
format, the sizes of the machine, the saved object (in which a tensor names its storage), and the list of storages. Each
storage is its number of elements, int64, and its elements. A pickle can name any Python function to be called. This
reader refuses every name that is not in `ALLOWED`; the allowed ones build a dictionary and describe tensors.
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
    """A flat array of elements that tensors view: its name in the file, type and length."""

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
    del rest  # requires_grad and hooks
    return Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _parameter(data: Tensor, *rest: Any) -> Tensor:
    del rest
    return data


#: Name of a storage type in a pickle -> the dtype of its elements.
ELEMENTS = {
    f"{name}Storage": np.dtype(element).newbyteorder("<")
    for name, element in {
        "Float": np.float32, "Double": np.float64, "Half": np.float16, "Long": np.int64, "Int": np.int32,
        "Byte": np.uint8,
    }.items()
}  # fmt: skip
#: A name that a pickle may use -> its replacement. No replacement has state that a pickle could change.
ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    **{("torch", name): name for name in ELEMENTS},
}


class _Reader(pickle.Unpickler):
    """An unpickler that refuses every name outside `ALLOWED`, and records storages."""

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
    """Name -> array of a saved state dict, a dictionary of tensors.

    Raises ConfigError, one line, if the file has another format, is truncated, or its pickle uses a refused name.
    """
    try:
        with open(path, "rb") as file:
            return _read(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except Exception as error:  # another pickle can raise any exception in the standard library
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
    """A copy of the elements of a tensor. Raises ValueError if it exceeds its storage."""
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
