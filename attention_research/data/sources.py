"""Random access to any TFDS translation set by name: dictionaries language -> text.

Our own sets are built on demand into the data folder. A set of TFDS is read if it has been prepared as array_record, in
the data folder or in that of TFDS (`$TFDS_DATA_DIR`). All access uses `tfds.builder`, so that `tfds.testing.mock_data`
can replace the data.
"""

import contextlib
import difflib
import functools
import hashlib
import importlib
import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from attention_research.data import storage
from attention_research.data.names import check_name, modules, own_sets
from attention_research.data.registry_package import fetch
from attention_research.errors import ConfigError, RunError

#: Sets that TFDS can prepare only with TensorFlow; reading them does not need it.
READ_ONLY = ("coco_captions",)
#: The splits that are assumed if TFDS does not know them before a set is prepared (under `mock_data`).
USUAL_SPLITS = ("train", "validation", "test")


@functools.cache
def _tfds() -> Any:
    """TFDS, with its translation builders registered, without output and without leftover files.

    For a set that is not prepared, a builder would look for its description in Google's bucket, which TFDS has switched
    off, and leave an empty temporary folder.
    """
    logging.getLogger("absl").setLevel(logging.ERROR)
    import tensorflow_datasets as tfds
    import tensorflow_datasets.text  # noqa: F401  registers c4 and other text sets
    import tensorflow_datasets.translate  # noqa: F401  registers wmt14_translate and others

    tfds.disable_progress_bar()
    tfds.core.DatasetInfo.initialize_from_bucket = lambda info: None
    return tfds


def _builder_of(name: str) -> str:
    return name.split(":")[0].split("/")[0]


def _module(builder: str) -> ModuleType:
    """The module of one of our builders, or of a builder of another package."""
    where = modules()[builder]
    try:
        return importlib.import_module(where)
    except ImportError as error:
        if where.startswith("attention_research."):
            raise
        raise ConfigError(f"the data set {builder}: its module {where} cannot be imported: {error}") from error


def labels(name: str) -> tuple[str, ...]:
    """The classes of a set of labelled texts, in the order of their numbers, from `LABELS` of its module.

    Raises `ConfigError`, which lists the sets with labels, for any other set.
    """
    check_name(name, kind="labelled")
    builder, of_module = _builder_of(name), lambda one: getattr(_module(one), "LABELS", {})
    found = of_module(builder).get(name.split(":")[0]) if builder in modules() else None
    if found is None:
        labelled = ", ".join(one for module in modules() for one in of_module(module))
        raise ConfigError(f"data.name: {name} has no labels; {labelled} have")
    return tuple(found)


def builder(name: str) -> Any:
    """The TFDS builder of a set. Raises `ConfigError` if the set or config does not exist."""
    check_name(name)
    tfds = _tfds()
    own = name.split(":")[0] in own_sets()
    if own:
        _module(_builder_of(name))  # registers it
    places = [str(storage.folder("tfds"))] if own else [str(storage.folder("tfds")), None]
    if _builder_of(name) in READ_ONLY:
        return _from_files(name, places)
    try:
        built = [tfds.builder(name, data_dir=place, file_format="array_record") for place in places]
    except tfds.core.registered.DatasetNotFoundError as error:
        raise ConfigError(f"data.name: TFDS has no set {name!r}") from error
    except ValueError as error:
        known = list(tfds.builder_cls(name.split("/")[0]).builder_configs)
        wanted = name.split("/")[-1].split(":")[0]
        if wanted in known:
            raise RunError(f"{name} is on this machine in another format; {_how_to_provide(name)}") from error
        nearest = difflib.get_close_matches(wanted, known, n=1, cutoff=0.0)
        hint = f"; did you mean {name.split('/')[0]}/{nearest[0]}?" if nearest else ""
        raise ConfigError(f"data.name: TFDS has no set {name!r}{hint}") from error
    return next((one for one in built if one.info.splits), built[0])


def _from_files(name: str, places: Sequence[str | None]) -> Any:
    """The TFDS reader of a set that is in one of the given folders."""
    tfds = _tfds()
    for place in places:
        with contextlib.suppress(tfds.core.registered.DatasetNotFoundError):
            return tfds.core.read_only_builder.builder_from_files(name, data_dir=place)
    raise RunError(f"{name} is not on this machine; {_how_to_provide(name)}")


def _how_to_provide(name: str) -> str:
    return (
        f"prepare it with TFDS as array_record (`tfds build {name} --file_format=array_record`) "
        f"under {storage.folder('tfds')} or in $TFDS_DATA_DIR"
    )


def prepare(name: str, report: Callable[[str], None] = lambda line: None) -> None:
    """Builds one of our own sets if it is missing. Does nothing for other sets, which must be prepared with TFDS."""
    if name.split(":")[0] not in own_sets():
        check_name(name)
        return
    with storage.locked(name):
        if builder(name).info.splits:
            return
        report(f"building {name}")
        package = getattr(_module(_builder_of(name)), "PACKAGE", None)  # a generated set has none
        if package:
            fetch(package, report)
        with storage.one_line(storage.folder("tfds")), contextlib.redirect_stdout(io.StringIO()):
            builder(name).download_and_prepare()


def prepare_dataset(name: str, report: Callable[[str], None]) -> dict[str, int]:
    """The command `data prepare NAME`: builds the set if it is missing, reports and returns split -> number of
    pairs."""
    prepare(name, report)
    counts = {split: len(open_split(name, split)) for split in split_names(name)}
    report(f"{name}: " + ", ".join(f"{split} {count:,}" for split, count in counts.items()))
    return counts


def split_names(name: str) -> tuple[str, ...]:
    """The splits of the set."""
    return tuple(builder(name).info.splits) or USUAL_SPLITS


def languages(name: str) -> tuple[str, ...]:
    """The languages of the set."""
    return tuple(sorted(builder(name).info.features))


def stamp(name: str) -> str | None:
    """A string that changes with a file of the prepared set; None if the set has no files (mock data)."""
    built = builder(name)
    files = sorted(path for path in Path(built.data_dir).glob("*") if path.is_file()) if built.info.splits else []
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr((str(built.data_dir), stats)).encode()).hexdigest() if files else None


class Texts(Sequence):
    """One split as random access: index -> {language: text}."""

    def __init__(self, source: Any):
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> dict[str, str]:  # type: ignore[override]  # no slices
        if not 0 <= index < len(self):
            raise IndexError(index)
        return {language: _text(value) for language, value in self._source[int(index)].items()}


def data_source(name: str, split: str, **options: Any) -> Any:
    """One split of a set as TFDS reads it: index -> {feature: value}. `options` are those of `as_data_source`.

    Raises `ConfigError` if the split or the set does not exist, and `RunError` if the set is not on this machine.
    """
    built = builder(name)
    available = tuple(built.info.splits)
    if available and split.split("[")[0] not in available:
        raise ConfigError(f"{name} has no split {split!r}; it has {', '.join(available)}")
    try:
        return built.as_data_source(split=split, **options)
    except (ValueError, KeyError, NotImplementedError, AssertionError, OSError) as error:
        raise RunError(f"{name} is not on this machine; {_how_to_provide(name)}") from error


def open_split(name: str, split: str) -> Texts:
    """One split of a set of texts; raises as `data_source`."""
    return Texts(data_source(name, split))


def _text(value: bytes | str) -> str:
    """TFDS gives bytes from files and str from `mock_data`; line breaks become spaces."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    return " ".join(text.split())
