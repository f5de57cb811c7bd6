"""The data folder: files are never half written, and an unwritable folder is reported in one line."""

import builtins
import errno
import os

import pytest

from attention_research.data import storage
from attention_research.errors import RunError


def test_the_folder_follows_the_environment(data_home, monkeypatch, tmp_path):
    assert storage.folder("a", "b") == data_home / "a" / "b" and (data_home / "a" / "b").is_dir()
    monkeypatch.delenv("ATTENTION_RESEARCH_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert storage.folder() == tmp_path / "cache" / "attention_research"


def test_an_interrupted_write_leaves_the_old_file(data_home):
    path = storage.folder() / "file"
    with storage.written(path) as temporary:
        temporary.write_text("old")
    with pytest.raises(KeyboardInterrupt), storage.written(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and list(data_home.iterdir()) == [path]


def test_the_first_of_two_folders_stays(data_home):
    path = storage.folder() / "result"
    with storage.written(path) as slow:
        slow.mkdir()
        with storage.written(path) as quick:
            quick.mkdir()
            (quick / "who").write_text("quick")
    assert (path / "who").read_text() == "quick" and list(data_home.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "file"))
    with pytest.raises(RunError, match=r"^cannot write .*: Not a directory; .*ATTENTION_RESEARCH_DATA[^\n]*$"):
        storage.folder("downloads")


def test_the_content_hash_depends_on_line_borders():
    hashes = {storage.content_hash(1, *lines) for lines in ([["ab", "c"]], [["a", "bc"]], [["abc"]], [["ab"], ["c"]])}
    assert len(hashes) == 4 and storage.content_hash(1, ["ab"]) != storage.content_hash(2, ["ab"])


@pytest.fixture
def refused(monkeypatch):
    """A function that makes each write below the data folder fail with the number of an error."""

    def refuse(number):
        def opened(path, mode="r", *arguments, **named):
            if "w" in mode:
                raise OSError(number, os.strerror(number), str(path))
            return builtins.open(path, mode, *arguments, **named)

        def folder(*arguments, **named):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(storage, "open", opened, raising=False)
        monkeypatch.setattr(storage.tempfile, "mkdtemp", folder)

    return refuse


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_prepared_data_can_be_used_from_a_folder_that_may_only_be_read(number, data_home, refused):
    """Nothing is locked there, and the index of prepared data, which only saves time, is not written."""
    refused(number)
    with storage.locked("a/b"):
        pass
    with storage.unless_read_only(), storage.written(data_home / "index"):
        pass
    with pytest.raises(RunError, match=f"^cannot write {data_home}/tokens: {os.strerror(number)}; free space or set"):
        with storage.written(data_home / "tokens"):
            pass


def test_a_lock_on_a_full_disk_is_one_line(data_home, refused):
    refused(errno.ENOSPC)
    with pytest.raises(RunError, match=rf"^cannot write {data_home}/locks/a-b\.lock: No space left on device; free"):
        with storage.locked("a/b"):
            pass
    with pytest.raises(RunError, match=f"^cannot write {data_home}/index: No space left"):
        with storage.unless_read_only(), storage.written(data_home / "index"):
            pass
