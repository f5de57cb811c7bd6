"""The size of a clone: the number of files, their bytes, and the size of recorded pictures."""

import subprocess

import pytest

from attention_research.analysis.picture_file import MOST_BYTES

#: A clone without its history has fewer files and fewer bytes than this.
FILES, BYTES = 2_200, 24_000_000


def test_pictures_are_small(root):
    pictures = [path for folder in ("experiments", "docs") for path in (root / folder).rglob("*.png")]
    assert {str(path.relative_to(root)) for path in pictures if path.stat().st_size > MOST_BYTES} == set()
    assert len(pictures) > 50


def test_a_clone_is_small(root):
    if not (root / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=root, capture_output=True, text=True, check=True).stdout
    files = [root / name for name in listed.split("\0") if name and (root / name).exists()]
    assert len(files) < FILES and sum(path.stat().st_size for path in files) <= BYTES
