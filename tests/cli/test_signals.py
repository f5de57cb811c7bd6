"""SIGTERM and Ctrl-C before a command has begun its work, in fresh processes."""

import os
import signal
import subprocess
import sys

import pytest

from attention_research.cli import main
from attention_research.cli.signals import handled

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
#: A library that catches all exceptions while it is imported, like JAX's plug-ins.
LIBRARY = "import os\ntry:\n    os.kill(os.getpid(), int(os.environ['SENT']))\nexcept BaseException:\n    pass\n"
PROGRAM = """
import sys
from attention_research.cli import main, program
program.dispatch = lambda words: __import__("swallowing") and print("went on")
sys.exit(main([]))
"""


@pytest.mark.parametrize("number", STATUS, ids=lambda number: number.name)
def test_a_signal_inside_an_import_that_catches_everything_ends_the_process(number, tmp_path, root):
    (tmp_path / "swallowing.py").write_text(LIBRARY)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{root}", "SENT": str(int(number))}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == STATUS[number] and done.stdout == ""
    assert done.stderr == f"{number.name}: stopped; rerun the same command to continue\n"


def test_the_handlers_are_there_before_anything_is_imported_and_go_with_the_command(root):
    """Of the package, only `cli`, `cli.signals`, `allocator` and the names of the neighbouring folders are imported."""
    code = "import sys, attention_research.cli; print(*sorted(m for m in sys.modules if m.startswith('attention_res')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    names = ("", ".allocator", ".benchmarks", ".bundled", ".cli", ".cli.signals", ".configs", ".experiments")
    assert done.stdout.split() == [f"attention_research{name}" for name in names]
    before = [signal.getsignal(number) for number in STATUS]
    assert main(["--help"]) == 0 and [signal.getsignal(number) for number in STATUS] == before
    with pytest.raises(KeyboardInterrupt), handled():
        os.kill(os.getpid(), signal.SIGINT)
