"""mypy finds nothing in the package (its settings: pyproject.toml)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")


@pytest.mark.slow
def test_mypy_finds_nothing():
    """Only files that have changed since its last run are read again."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "attention_research" / "mypy"
    command = (sys.executable, "-m", "mypy", "--no-error-summary", f"--cache-dir={cache}")
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
