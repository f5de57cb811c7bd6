"""Fixtures of the tests of studies.

They are the studies under experiments/, a study whose only stage calls plain Python functions in real workers, and
trials that run in this process.
"""

from pathlib import Path
from types import SimpleNamespace

import jax
import jaxtyping
import pytest

from attention_research import bundled
from attention_research.analysis import picture_file
from attention_research.studies import Study, attempts, fingerprints, load_study, worker
from attention_research.studies.runners import local

STUDY_FILE = '''"""A fake study with <b>markup</b> & more.

The second line of the docstring is not the title.
"""

import os
import signal
import time
from pathlib import Path

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed
from attention_research.studies.verdicts import compare, conclude
from attention_research.training import environment

environment.describe = lambda: {"git_revision": "0123abc", "backend": "none"}  # quicker than asking JAX


def count(log, *, value, seed, kill=0, fail="", **settings):
    """Logs that it ran, then measures, kills itself or fails as told."""
    with open(log, "a") as file:
        file.write(f"{value} {seed}\\n")
    runs = Path(log).read_text().splitlines().count(f"{value} {seed}")
    if runs <= kill:
        os.kill(os.getpid(), signal.SIGKILL)
    if fail:
        raise ValueError(fail)
    return {"value": value + 0.5 * seed, "runs": runs, "cores": len(os.sched_getaffinity(0))}


def asleep(*, value, seed, **settings):
    with open(os.environ["FAKE_LOG"], "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(60)


def measured(*, value, seed, **settings):
    return count(os.environ["FAKE_LOG"], value=value, seed=seed, **settings)


STUDY = Study(
    rows=(
        Row("one", "one | first", settings={"value": 1.0}),
        Row("two", "<i>two</i>", settings={"value": 2.0}),
        Row("late", "late", settings={"value": 3.0}, scales=("cpu",)),
        Row("killed", "killed", settings={"value": 4.0, "kill": 1}, scales=("deaths",)),
        Row("doomed", "doomed", settings={"value": 5.0, "kill": 9}, scales=("deaths",)),
        Row("broken", "broken", settings={"value": 6.0, "fail": "no <such> thing"}, scales=("deaths",)),
        Row("asleep", "asleep", settings={"value": 8.0}, scales=("sleep",), stages=(measure(asleep),)),
        Row("last", "last", settings={"value": 7.0}, scales=("deaths",)),
    ),
    scales={"quick": Scale(seeds=2, jobs=2), "cpu": Scale(seeds=2, jobs=2),
            "deaths": Scale(seeds=1, jobs=2),
            "sleep": Scale(seeds=1)},
    stages=(measure(measured),),
    columns=(Column("measure.value", "value", fixed(2), better="lower"),),
    published="published.csv",
    claims="claims.csv",
    competence=(),
    verdicts={"one-below-two": lambda results: conclude({"value": compare(results, "one", "two", "measure.value")})},
)
'''
CLAIMS = """"id","notes","topic","claim","study","measurement","kind"
"one-below-two","000","test","One is <below> two.","fake/table","the value","empirical"
"never-tested","000","test","Nobody looks.","fake/table","nothing","empirical"
"another","000","test","Not ours.","other/table","nothing","empirical"
"""


class Studies(dict[str, Study]):
    """Name -> study. A study is loaded at its first use."""

    def __init__(self, experiments: Path):
        super().__init__()
        self.experiments = experiments

    def __missing__(self, name: str) -> Study:
        return self.setdefault(name, load_study(name, self.experiments))


@pytest.fixture(scope="session")
def studies(root: Path) -> Studies:
    """The studies under experiments/ by name."""
    return Studies(root / "experiments")


@pytest.fixture(scope="module")
def study(request: pytest.FixtureRequest, studies: Studies) -> Study:
    """The study that the test file names as its STUDY."""
    return studies[request.module.STUDY]


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch):
    """Runs trials in this process, one after the other, instead of in processes that import everything again.

    test_smoke.py, test_study_reproduce.py and the tests of the runners start real processes.
    """

    def start(folder: Path, **_):
        with jax.numpy_dtype_promotion("standard"):
            status = worker.work(folder)
        return SimpleNamespace(returncode=status, poll=lambda: status)

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # measurements also pass NumPy arrays
    monkeypatch.setattr(local, "start", start)
    monkeypatch.setattr(worker, "keep_compiled_programs", lambda: None)  # the tests have their own cache
    monkeypatch.setattr(attempts.Attempt, "_watch", lambda self: None)
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def at_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run from the repository's root, wherever pytest was started."""
    monkeypatch.chdir(root)


@pytest.fixture(autouse=True)
def nothing_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers in this process use a fixed program (test_trial_programs.py lowers real ones)."""
    monkeypatch.setattr(fingerprints, "program_of", lambda stages, given: {"sources": "of a test", "train": "one"})


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Name of a saved picture -> the number of lines, areas, images and texts in each of its Axes."""
    pictures, save = {}, picture_file.save

    def counted(figure, path, **options):
        pictures[path.name] = [
            len([*axes.lines, *axes.collections, *axes.patches, *axes.images, *(t for t in axes.texts if t.get_text())])
            for axes in figure.axes
        ]
        save(figure, path, **options)

    monkeypatch.setattr(picture_file, "save", counted)
    return pictures


@pytest.fixture
def experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which studies are looked up by name in this process."""
    there, folder = bundled.folder, tmp_path / "experiments"
    monkeypatch.setattr(bundled, "folder", lambda name: folder if name == "experiments" else there(name))
    folder.mkdir()
    return folder


@pytest.fixture
def fake(experiments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `experiments` of a temporary repository, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("attention_research.training.environment.modified", lambda: [])  # for tests during development
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "ran.txt"))
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    folder = experiments / "fake"
    folder.mkdir()
    (folder / "table.py").write_text(STUDY_FILE)
    (folder / "claims.csv").write_text(CLAIMS)
    (folder / "published.csv").write_text("row,value\none,0.9\n")
    (folder / "notes.py").write_text('"""No study here."""\n')
    return folder.parent


@pytest.fixture
def ran(tmp_path: Path):
    """The log of the measuring function, with one line for each call."""
    path = tmp_path / "ran.txt"
    return lambda: sorted(path.read_text().splitlines()) if path.exists() else []
