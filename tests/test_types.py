"""mypy finds nothing in the package (its settings: pyproject.toml)."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")


def test_mypy_finds_nothing():
    command = (sys.executable, "-m", "mypy", "--no-error-summary")
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
