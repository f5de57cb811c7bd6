"""``mistakes FOLDER COMMANDS`` trains each [config, overrides] and prints [[exit status, standard error], ...]."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

from attention_research.cli import main


def told(folder: Path, config: str, overrides: list[str]) -> tuple[int, str]:
    """The exit status and the standard error of `train`, which leaves no folder."""
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        words = [f"--config.{one}" for one in overrides]
        status = main(["train", f"--config={config}", f"--workdir={folder / 'run'}", *words])
    assert not (folder / "run").exists()
    return status, errors.getvalue()


if __name__ == "__main__":
    folder, commands = map(json.loads, sys.argv[1:])
    print(json.dumps([told(Path(folder), config, overrides) for config, overrides in commands]))
