"""A .deb through apt-get: fetched, checked, reused, read. Every failure is one line."""

import hashlib
import os
import shutil
import subprocess

import pytest
from handmade_deb import deb, downloaded

from attention_research.data.debian_package import DebianPackage, files
from attention_research.data.registry_package import fetch
from attention_research.errors import RunError

MEMBERS = {"usr/share/one.txt": b"Au commencement", "usr/share/two.bin": bytes(range(251)), "usr/lib/three": b""}
EVERYTHING = lambda path: True


@pytest.fixture
def apt(tmp_path, monkeypatch, data_home):
    """apt-get is a script that records its call and copies the content of its archive, as the real one writes it."""
    folder = tmp_path / "archive"
    folder.mkdir()
    content = deb(MEMBERS)
    (folder / "handmade_1.0-2_all.deb").write_bytes(content)
    script = folder / "apt-get"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\n'
        f'test "$3" = handmade=1.0-2 && cp {folder}/handmade_1.0-2_all.deb . && exit 0\n'
        "echo 'W: unsandboxed' >&2\necho \"E: Version '1.1' for 'handmade' was not found\" >&2\nexit 100\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return DebianPackage("handmade", "1.0-2", hashlib.sha256(content).hexdigest(), len(content)), folder / "calls"


def test_fetched_once_and_read(apt, data_home):
    package, calls = apt
    reports = []
    path = fetch(package, reports.append)
    assert path == data_home / "downloads" / "handmade-1.0-2.deb" and dict(files(path, EVERYTHING)) == MEMBERS
    assert fetch(package, reports.append) == path
    assert reports == ["fetching handmade=1.0-2 (0 MB) from Debian's archive"]
    assert calls.read_text() == "download --quiet handmade=1.0-2\n" and list(path.parent.iterdir()) == [path]


def test_wrong_checksum_is_one_line_and_leaves_nothing(apt, data_home):
    package, _ = apt
    wrong = DebianPackage("handmade", "1.0-2", "0" * 64, package.size)
    with pytest.raises(RunError) as caught:
        fetch(wrong)
    line = str(caught.value)
    assert "\n" not in line and line.startswith("wrong checksum of handmade=1.0-2 from Debian's archive: expected")
    assert package.sha256[:16] in line and str(wrong.path) in line and not list((data_home / "downloads").iterdir())


def test_an_unknown_package_is_one_line(apt):
    unknown = DebianPackage("handmade", "1.1", "0" * 64, 1)
    with pytest.raises(RunError) as caught:
        fetch(unknown)
    reason = "cannot fetch handmade=1.1 from Debian's archive: Version '1.1' for 'handmade' was not found; "
    assert str(
        caught.value
    ) == f"{reason}run `apt-get update` as root, or put the .deb of packages.debian.org at " + str(unknown.path)


def test_a_machine_without_apt_is_told_where_to_put_the_file(data_home, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    package = DebianPackage("handmade", "1.0-2", "0" * 64, 1)
    with pytest.raises(RunError, match=f"this machine has no apt-get; .* at {package.path}$"):
        fetch(package)


@pytest.mark.parametrize("packing", ["xz", "gz", "bz2", ""])
def test_every_compression_that_python_reads(data_home, packing):
    """Odd members are padded, folders and links are not files, and only the requested files are read."""
    path = downloaded(MEMBERS, packing).path
    assert list(files(path, EVERYTHING)) == list(MEMBERS.items())
    assert dict(files(path, lambda name: name.endswith(".txt"))) == {"usr/share/one.txt": b"Au commencement"}


def test_a_file_that_is_not_a_deb_is_one_line(tmp_path):
    page = tmp_path / "page.deb"
    page.write_bytes(b"<html>not found</html>")
    with pytest.raises(RunError, match=r"page\.deb is no \.deb$"):
        list(files(page, EVERYTHING))
    page.write_bytes(deb(MEMBERS).split(b"data.tar")[0])
    with pytest.raises(RunError, match=r"page\.deb has no data\.tar$"):
        list(files(page, EVERYTHING))
    page.write_bytes(deb(MEMBERS, "").replace(b"data.tar   ", b"data.tar.zz")[:500].replace(b"usr", b"\x28\xb5\x2f"))
    with pytest.raises(RunError, match=r"cannot read data\.tar\.zz in .*page\.deb: "):
        list(files(page, EVERYTHING))


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb is not installed")
@pytest.mark.parametrize("packing", ["xz", "gzip", "none"])
def test_packages_made_by_dpkg_are_read(tmp_path, packing):
    root = tmp_path / "root"
    for path, content in MEMBERS.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN" / "control").write_text(
        "Package: handmade\nVersion: 1.0-2\nArchitecture: all\nMaintainer: nobody <no@bo.dy>\nDescription: none\n"
    )
    made = tmp_path / "made.deb"
    subprocess.run(["dpkg-deb", f"-Z{packing}", "--root-owner-group", "--build", root, made], check=True, stdout=-3)
    assert dict(files(made, EVERYTHING)) == MEMBERS
