"""Where what a command prints goes: a pipe that is closed, a full disk, a locale without the characters."""

import io
import os
import sys

from attention_research.cli import main


def test_a_reader_that_is_gone_is_no_traceback(monkeypatch, capsys, root):
    """`attention-research list studies | head -1`"""
    monkeypatch.chdir(root)
    reading, writing = os.pipe()
    os.close(reading)
    with io.TextIOWrapper(os.fdopen(writing, "wb")) as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert main(["list", "studies"]) == 1
    assert capsys.readouterr().err == ""


def test_a_full_disk_behind_standard_output_is_one_line(monkeypatch, capsys, root):
    monkeypatch.chdir(root)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["list", "studies"]) == 1
    assert capsys.readouterr().err == "error: standard output: No space left on device\n"


def test_output_is_utf8_whatever_the_locale(monkeypatch, root):
    monkeypatch.chdir(root)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["list", "studies"]) == 0
    assert "," in stream.buffer.getvalue().decode("utf-8")
