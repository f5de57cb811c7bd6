"""A package through npm: fetched, checked, reused, read. Every failure is one line."""

import hashlib
import io
import os
import tarfile

import pytest

from attention_research.data.npm_package import NpmPackage, files
from attention_research.data.registry_package import fetch
from attention_research.errors import RunError

MEMBERS = {"package/one.txt": b"In the beginning", "package/deep/two.bin": bytes(range(251)), "package/three": b""}


def archive() -> bytes:
    """The members as npm packs them, and a link."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in MEMBERS.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("package/link")
        link.type, link.linkname = tarfile.SYMTYPE, "one.txt"
        tar.addfile(link)
    return packed.getvalue()


@pytest.fixture
def npm(tmp_path, monkeypatch, data_home):
    """npm is a script that records its call and copies its archive to the destination."""
    folder = tmp_path / "registry"
    folder.mkdir()
    content = archive()
    (folder / "handmade-1.2.3.tgz").write_bytes(content)
    script = folder / "npm"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\n'
        f'test "$2" = handmade@1.2.3 && cp {folder}/handmade-1.2.3.tgz "${{4#*=}}" && exit 0\n'
        "echo 'npm error code ETARGET' >&2\necho 'npm error notarget No matching version' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return NpmPackage("handmade", "1.2.3", hashlib.sha256(content).hexdigest(), len(content)), folder / "calls"


def test_fetched_once_and_read(npm, data_home):
    package, calls = npm
    reports = []
    path = fetch(package, reports.append)
    assert path == data_home / "downloads" / "handmade-1.2.3.tgz" and dict(files(path, lambda _: True)) == MEMBERS
    assert dict(files(path, lambda name: name.endswith("txt"))) == {"package/one.txt": b"In the beginning"}
    assert fetch(package, reports.append) == path and len(calls.read_text().splitlines()) == 1
    assert calls.read_text().startswith("pack handmade@1.2.3 --ignore-scripts --pack-destination=")
    assert reports == ["fetching handmade@1.2.3 (0 MB) from the npm registry"] and list(path.parent.iterdir()) == [path]


def test_a_wrong_checksum_is_one_line_and_leaves_nothing(npm, data_home):
    package, _ = npm
    with pytest.raises(RunError) as caught:
        fetch(NpmPackage("handmade", "1.2.3", "0" * 64, package.size))
    line = str(caught.value)
    assert line.startswith("wrong checksum of handmade@1.2.3 from the npm registry: expected") and "\n" not in line
    assert not list((data_home / "downloads").iterdir())


def test_an_unknown_version_is_one_line(npm):
    with pytest.raises(RunError, match=r"^cannot fetch handmade@1\.3\.0 from the npm registry: npm error code ETARGET"):
        fetch(NpmPackage("handmade", "1.3.0", "0" * 64, 1))


def test_a_damaged_archive_is_one_line(tmp_path):
    (tmp_path / "cut.tgz").write_bytes(archive()[:100])
    with pytest.raises(RunError, match=r"^cannot read .*cut\.tgz"):
        list(files(tmp_path / "cut.tgz", lambda _: True))
