"""The wheel is built and installed into its own folder. In an empty folder it does what docs/installation.md says.

Every command runs in a process that imports the installed `attention_research`. The repository is not the current
folder, and the installed package comes first on the path, so no part of the repository is imported.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from attention_research.training.environment import fingerprint
from tests.docs.test_adding import walk

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory) -> Path:
    """The wheel, built from a copy of the sources without network access."""
    pytest.importorskip("setuptools", minversion="77")
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("attention_research", "configs", "experiments", "benchmarks", "setup.cfg", "setup.py",
                 "pyproject.toml", "README.md", "LICENSE"):  # fmt: skip
        subprocess.run(["cp", "-r", root / name, source], check=True)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "-w", made, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = made.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The folder into which the wheel was installed."""
    target = tmp_path_factory.mktemp("installed")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--target",
        target,
        wheel,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return target


def test_what_the_wheel_carries(wheel, root):
    """The wheel contains the package, and the Python and CSV files of other folders without recorded results."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"attention_research/{path.relative_to(root).as_posix()}"
        for folder in ("configs", "experiments", "benchmarks")
        for path in (root / folder).rglob("*")
        if path.suffix in (".py", ".csv") and "results" not in path.relative_to(root).parts[:-1]
    }
    package = root / "attention_research"
    wanted |= {path.relative_to(root).as_posix() for path in (*package.rglob("*.py"), *package.rglob("*.jsonl"))}
    assert {name for name in names if ".dist-info/" not in name} == wanted and len(wanted) > 900


@pytest.fixture(scope="module")
def run(installed, tmp_path_factory):
    """Runs a command in a folder that is empty at first and keeps the output of earlier commands."""
    here = tmp_path_factory.mktemp("here")
    environment = {**os.environ, "PYTHONPATH": str(installed), "ATTENTION_RESEARCH_DATA": str(here / "data")}

    def command(*words: str, status: int = 0) -> str:
        """The standard output of the command, or its one line on standard error if it fails."""
        done = subprocess.run([sys.executable, "-m", "attention_research", *words], cwd=here, env=environment,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
        if status:
            assert done.stdout == "" and done.stderr.count("\n") == 1, (words, done.stderr)
        return done.stderr if status else done.stdout

    command.here, command.installed, command.environment = here, installed, environment
    return command


def test_the_installed_package_is_the_one_that_runs(run):
    program = (
        "import attention_research, attention_research.experiments.ablation.rows as rows, "
        "attention_research.configs.translation.transformer as config; "
        "print(attention_research.__file__, rows.__file__, config.__file__, sep='\\n'); "
        "from attention_research.training.environment import fingerprint, git_revision; "
        "print(fingerprint(), git_revision())"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=run.here, env=run.environment,
                          capture_output=True, text=True, check=True)  # fmt: skip
    *files, last = done.stdout.splitlines()
    assert len(files) == 3 and all(Path(line).is_relative_to(run.installed) for line in files)
    assert last == f"{fingerprint()} unknown"  # same program; the folder is outside the repository


def test_a_newcomers_hour(run, root, monkeypatch):
    """Follows the page about work outside the repository, in a folder that starts empty."""
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", run.environment["ATTENTION_RESEARCH_DATA"])
    page = (root / "docs/installation.md").read_text(encoding="utf-8")
    assert len(walk(page, run.here, package=run.installed)) == 11
    runs, files = run.here / "runs", ("narrow/evaluation.json", "narrow/report.html", "mine-layers-smoke/report.html")
    assert all((runs / name).exists() for name in files)
    assert json.loads((runs / "narrow/config.json").read_text())["resolved"]["model"]["width"] == 16
    for table in (runs / "mine-layers-smoke/table.md", run.here / "mine/results/layers/smoke/table.md"):
        text = table.read_text()
        assert re.search(r"\| my layer +\|.* 3 \|.* 1 \|", text) and "O(n^2 d)" in text  # next to the paper's cells
    assert "reproduce mine/layers.py" in (runs / "mine-layers-smoke/report.html").read_text()
    assert not list(run.installed.rglob("results"))


def test_claims_without_records_are_not_judged(run):
    """Nor are those that the studies have given up with a reason."""
    claims = {one["id"]: one["verdict"] for one in json.loads(run("list", "claims", "--json"))}
    assert len(claims) > 100 and set(claims.values()) == {"not recorded yet", "struck"}


WRONG = {
    ("reproduce", "ablation/atention"): "did you mean ablation/attention?",
    ("reproduce", "mine.py"): "study 'mine.py': no such study",
    ("inspect", "--config=translation/transfomer:smoke"): "did you mean translation/transformer?",
    ("inspect", "--config=translation/transformer:smoek"): "did you mean smoke?",
    ("bench", "atention"): "did you mean attention?",
    ("bench", "scaling"): "run it in a checkout of the repository",
    ("list", "claim"): "did you mean claims?",
    ("reproduce", "ablation/attention", "--record"): "comes with the installed package",
    ("record", "ablation/length", "--scale=smoke"): "comes with the installed package",
}


@pytest.mark.parametrize("words", WRONG, ids=[" ".join(words) for words in WRONG])
def test_a_wrong_name_is_one_line_that_names_the_nearest(run, words):
    assert WRONG[words] in run(*words, status=2)
