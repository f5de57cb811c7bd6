"""The wheel: it is built, installed into a folder of its own, and used for an hour's first steps from an empty folder.

Every command runs in a process whose `attention_research` is the installed one; the repository is not the current
folder and, as the installed package comes first on the path, no part of it is imported.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFIG = '''"""A config of my own: half as wide."""
from attention_research.config import config_file

VARIANTS = {"narrow": "the smoke variant, half as wide"}


def get_config(variant):
    config = config_file("translation/transformer").get_config("smoke")
    config.model.width //= 2
    config.training.steps = 3
    config.vocabulary_size = 300
    config.data.update(name="generated_translation/monotone", source_language="source", target_language="target")
    return config
'''
STUDY = '''"""The layers of the paper and mine."""
from attention_research.experiments.vaswani2017.layers import KINDS
from attention_research.studies import Row, extend, load_study, measure

from .helpers import CHAIN


def measured(**settings):
    return {"chain": CHAIN, "kinds": len(KINDS)}


STUDY = extend(
    load_study("vaswani2017/table1"), rows=[Row("mine", "my layer", stages=(measure(measured),))], figures=()
)
'''


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory) -> Path:
    """Built from a copy of the sources, with nothing from the network."""
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
    """The package, and of the folders beside it the Python and CSV files; no recorded result."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"attention_research/{path.relative_to(root).as_posix()}"
        for folder in ("configs", "experiments", "benchmarks")
        for path in (root / folder).rglob("*")
        if path.suffix in (".py", ".csv") and "results" not in path.relative_to(root).parts[:-1]
    }
    wanted |= {path.relative_to(root).as_posix() for path in (root / "attention_research").rglob("*.py")}
    assert {name for name in names if ".dist-info/" not in name} == wanted and len(wanted) > 900


@pytest.fixture(scope="module")
def run(installed, tmp_path_factory):
    """Runs a command from a folder that holds what earlier ones wrote, and at first nothing."""
    here = tmp_path_factory.mktemp("here")
    environment = {**os.environ, "PYTHONPATH": str(installed), "ATTENTION_RESEARCH_DATA": str(here / "data")}

    def command(*words: str, status: int = 0) -> str:
        """What it prints; of one that fails the line on standard error."""
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
        "print(attention_research.__file__, rows.__file__, config.__file__, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=run.here, env=run.environment,
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert all(Path(line).is_relative_to(run.installed) for line in done.stdout.splitlines())


def test_a_newcomers_hour(run):
    assert "ablation/attention" in run("list", "studies") and "narrow" not in run("list", "variants")
    assert "translation/transformer:smoke" in run("list", "variants") and "bible_translate" in run("list", "datasets")
    claims = {one["id"]: one["verdict"] for one in json.loads(run("list", "claims", "--json"))}
    assert len(claims) > 100 and set(claims.values()) == {"not recorded yet"}
    counted = json.loads(run("inspect", "--config=translation/transformer:smoke", "--json"))
    assert counted["config"]["model"]["width"] == 32

    (run.here / "narrow.py").write_text(CONFIG)
    run("train", "--config=narrow.py:narrow", "--workdir=runs/narrow")
    run("evaluate", "--workdir=runs/narrow")
    assert "bleu" in json.loads((run.here / "runs/narrow/evaluation.json").read_text())
    assert json.loads((run.here / "runs/narrow/config.json").read_text())["resolved"]["model"]["width"] == 16
    run("report", "runs/narrow")
    assert (run.here / "runs/narrow/report.html").exists()

    assert "self-attention" in run("reproduce", "vaswani2017/table1", "--scale=smoke", "--rows=attention_core")
    (run.here / "mine").mkdir()
    (run.here / "mine/layers.py").write_text(STUDY)
    (run.here / "mine/helpers.py").write_text("CHAIN = 3\n")
    said = run("reproduce", "mine/layers.py", "--scale=smoke", "--rows=mine", "--record")
    assert "| my layer" in said and "O(n^2 d)" in said  # beside the paper's own cells
    for table in ("runs/mine-layers-smoke", "mine/results/layers/smoke"):
        assert re.search(r"\| my layer +\|.* 3 \|.* 1 \|", (run.here / table / "table.md").read_text())
    (run.here / "runs/mine-layers-smoke/report.html").unlink()
    run("report", "runs/mine-layers-smoke")
    assert "reproduce mine/layers.py" in (run.here / "runs/mine-layers-smoke/report.html").read_text()
    assert not list(run.installed.rglob("results"))


WRONG = {
    ("reproduce", "ablation/atention"): "did you mean ablation/attention?",
    ("reproduce", "mine.py"): "study 'mine.py': no such study",
    ("inspect", "--config=translation/transfomer:smoke"): "did you mean translation/transformer?",
    ("inspect", "--config=translation/transformer:smoek"): "did you mean smoke?",
    ("bench", "atention"): "did you mean attention?",
    ("bench", "scaling"): "run it in a checkout of the repository",
    ("list", "claim"): "did you mean claims?",
    ("reproduce", "ablation/attention", "--record"): "comes with the installed package",
    ("record", "ablation/attention", "--scale=smoke"): "comes with the installed package",
}


@pytest.mark.parametrize("words", WRONG, ids=[" ".join(words) for words in WRONG])
def test_a_wrong_name_is_one_line_that_names_the_nearest(run, words):
    assert WRONG[words] in run(*words, status=2)
