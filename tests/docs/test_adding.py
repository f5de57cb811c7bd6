"""docs/adding_a_variant.md is carried out in a copy of the repository: files, changes, output of commands."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attention_research.config import load
from tests.tiers import slow_are

PAGE = "docs/adding_a_variant.md"
LAYER, TEST = "attention_research/layers/residuals/layer_scale.py", "tests/layers/test_layer_scale.py"
BLOCK = re.compile(r"^\*\*`(?P<file>[^`]+)`\*\*|^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*(?:\n> .*)*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
#: The programs that the page names, run with this Python.
PROGRAMS = """
attention-research() { "$PYTHON" -m attention_research "$@"; }
pytest() { "$PYTHON" -m pytest "$@"; }
pip() { "$PYTHON" -m pip --disable-pip-version-check "$@"; }
python() { "$PYTHON" "$@"; }
"""
PRINTS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def walk(
    page: str, folder: Path, runs: Callable[[str], bool] = lambda command: True, package: Path | None = None
) -> list[str]:
    """Carries out a page in a folder, from top to bottom. Returns the commands that were run.

    The package that the commands use is in `package`, or in the folder itself.

    Raises AssertionError at the first change that does not apply and at the first output that differs.
    """
    file, done = None, []
    for block in BLOCK.finditer(page):
        language, text = block["language"], block["text"]
        if block["file"]:
            file = folder / block["file"]
        elif language == "console":
            commands = COMMAND.findall(text)
            assert commands, f"a console block without a command: {text}"
            for command, prints in commands:
                command = command.replace("\n> ", "\n")
                if runs(command):
                    expect(command, prints, folder, package)
                    done.append(command)
        else:
            assert file is not None, f"a block of {language} without a file: {text}"
            {"python": write, "toml": write, "text": write, "diff": change}[language](file, text)
            file = None
    return done


def write(file: Path, text: str) -> None:
    assert not file.exists(), f"{file} exists already"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def change(file: Path, diff: str) -> None:
    """Applies a diff without line numbers. Its old text must occur exactly once."""
    lines = diff.splitlines(keepends=True)
    before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1 and before != after, f"{file} has {text.count(before)} times:\n{before}"
    file.write_text(text.replace(before, after), encoding="utf-8")


def shell(command: str, folder: Path, package: Path | None = None) -> tuple[int, str]:
    """(exit status, output) of a command in a folder, which uses the package there or in `package`."""
    surroundings = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(package or folder),
        "JAX_PLATFORMS": "cpu",
    }
    surroundings.pop("COLUMNS", None)  # pytest-xdist sets it; in a pipe, lists are not wrapped
    ran = subprocess.run(
        ["bash", "-c", PROGRAMS + command], cwd=folder, env=surroundings, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    return ran.returncode, ran.stdout


def expect(command: str, prints: str, folder: Path, package: Path | None = None) -> None:
    status, printed = shell(command, folder, package)
    fails = re.search("^error: ", prints, re.MULTILINE) is not None
    assert status == (2 if fails else 0), f"{command}: exit status {status}\n{printed}"
    same = doctest.OutputChecker().check_output(prints, printed, PRINTS)
    assert same, f"$ {command}\nThe page says:\n{prints}\nIt prints:\n{printed}"


def formatted(files: list[str], folder: Path) -> None:
    """Checks these files with Ruff."""
    for check in ("check", "format --check"):
        status, printed = shell(f'"$PYTHON" -m ruff {check} {" ".join(files)}', folder)
        assert status == 0, printed


def there(page: str, *folders: Path) -> None:
    """Checks that each file named in the prose is in one of the folders."""
    for name in re.findall(r"`((?:attention_research|tests|docs)/[^`\n]+)`", BLOCK.sub("", page)):
        assert any((folder / name).exists() for folder in folders), name


def trains(command: str) -> bool:
    """Whether a command trains, which takes long."""
    return command.startswith(("pytest", "attention-research reproduce")) and "--render" not in command


@pytest.fixture(scope="module")
def page(root):
    return (root / PAGE).read_text(encoding="utf-8")


@pytest.fixture
def copy(root, tmp_path):
    """The parts of the repository that the page needs, in a temporary folder."""
    folder = tmp_path / "repository"
    for part in ("attention_research", "configs", "experiments/vaswani2017", "tests"):
        shutil.copytree(root / part, folder / part)
    shutil.copy(root / "experiments" / "claims.csv", folder / "experiments")
    shutil.copy(root / "pyproject.toml", folder)
    return folder


@pytest.mark.slow
def test_files_changes_and_counts_are_what_the_page_says(page, copy):
    assert len(walk(page, copy, lambda command: not trains(command))) == 9


@pytest.mark.long
@pytest.mark.data
def test_training_output_is_what_the_page_says(page, copy):
    assert len(walk(page, copy, trains)) == 4


#: Mistakes in the page's layer that its own test must find.
MISTAKES = {
    "scaled stream": ("stream + self.scale[...].astype(y.dtype) * y", "self.scale[...].astype(y.dtype) * stream + y"),
    "no residual": ("return stream + ", "return "),
    "another start": ("initial, jnp.float32", "1.0, jnp.float32"),
    "one scale for all channels": ("(width,)", "(1,)"),
}


@pytest.mark.slow
def test_the_oracle_finds_a_wrong_layer(page, copy):
    """For each mistake a wrong layer and its test beside the right ones, in one run of pytest."""
    walk(page, copy, lambda command: False)
    layer, test = ((copy / path).read_text(encoding="utf-8") for path in (LAYER, TEST))
    name = Path(LAYER).stem
    for number, (right, wrong) in enumerate(MISTAKES.values()):
        assert layer.count(right) == 1 and test.count(f"residuals.{name} import") == 1
        (copy / LAYER).with_stem(f"wrong_{number}").write_text(layer.replace(right, wrong), encoding="utf-8")
        of_wrong = test.replace(f"residuals.{name} import", f"residuals.wrong_{number} import")
        (copy / TEST).with_stem(f"test_wrong_{number}").write_text(of_wrong, encoding="utf-8")
    status, printed = shell("pytest tests/layers/test_wrong_*.py", copy)
    found = set(re.findall(r"^tests/layers/test_wrong_(\d)\.py:\d+: AssertionError$", printed, re.MULTILINE))
    assert status == 1 and found == set(map(str, range(len(MISTAKES)))), printed


def test_added_files_are_formatted_and_named_files_exist(page, copy, root):
    walk(page, copy, lambda command: False)
    added = re.findall(r"^\*\*`([^`.][^`]+)`\*\*\n\n```python", page, re.MULTILINE)
    formatted(added, copy)
    there(page, copy, root)
    prose = BLOCK.sub("", page)
    sources = "".join(path.read_text(encoding="utf-8") for path in (copy / "attention_research").rglob("*.py"))
    names = re.findall(r"`([A-Za-z_]+)`", "".join(line for line in prose.splitlines() if line.startswith("| ")))
    assert len(names) > 9 and [name for name in names if not re.search(rf"\b{name}\b", sources)] == []
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert (root / "docs" / target).exists(), target
    assert f"]({PAGE})" in (root / "README.md").read_text(encoding="utf-8")


TOY = """
**`a/one.txt`**, which has two lines:

```python
first
second
```

**`a/one.txt`**

```diff
 first
+between
```

```console
$ cat a/one.txt \\
>     | tail -n 2
between
...
$ echo error: no; exit 2
error: no
```
"""


def test_pages_are_carried_out_and_stale_pages_are_found(tmp_path):
    commands = walk(TOY, tmp_path / "right")
    assert len(commands) == 2 and (tmp_path / "right/a/one.txt").read_text() == "first\nbetween\nsecond\n"
    stale = {
        "another output": ("\nbetween\n...", "\namong\n..."),
        "another end": ("exit 2", "exit 0"),
        "a change of missing text": (" first\n+", " fifth\n+"),
        "a block without a file": ("**`a/one.txt`**\n\n```diff", "```diff"),
    }
    for number, (old, new) in enumerate(stale.values()):
        assert TOY.count(old) == 1
        with pytest.raises(AssertionError):
            walk(TOY.replace(old, new), tmp_path / str(number))


#: Page -> the commands that it runs, and the files that it adds or changes.
PAGES = {
    "adding_a_data_set": (9, 3), "adding_a_study": (5, 3), "adding_a_metric": (3, 3), "using_from_python": (7, 6),
    "language_models": (11, 3), "configs": (12, 2), "checkpoints": (11, 2), "speed_and_memory": (3, 1),
}  # fmt: skip
#: Those that are slow and not long.
SLOW = ("adding_a_metric", "configs", "speed_and_memory")
FILE = r"^\*\*`([^`.][^`]+)`\*\*$"


@pytest.mark.data
@pytest.mark.parametrize("name", slow_are(SLOW, [*PAGES]))
def test_a_page_does_what_it_says(name, copy, root, tmp_path, monkeypatch):
    if name == "adding_a_data_set":
        monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    page = (root / f"docs/{name}.md").read_text(encoding="utf-8")
    assert len(walk(page, copy)) == PAGES[name][0]


@pytest.mark.parametrize("name", PAGES)
def test_files_added_by_a_page_are_formatted_and_named_files_exist(name, copy, root):
    page = (root / f"docs/{name}.md").read_text(encoding="utf-8")
    walk(page, copy, lambda command: False)
    files = re.findall(FILE, page, re.MULTILINE)
    assert len(files) == PAGES[name][1]
    formatted([file for file in files if file.endswith(".py") and not (root / file).exists()], copy)
    there(page, copy, root)
    assert f"({name}.md)" in (root / "docs/index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["configs", "speed_and_memory", "coming_from"])
def test_each_override_in_a_table_is_valid(name, root):
    """Packaged kinds and settings, and the types of their values, on the config of a small translator."""
    page = (root / f"docs/{name}.md").read_text(encoding="utf-8")
    table = "\n".join(line for line in page.splitlines() if line.startswith("| "))
    codes = [code for code in re.findall("`([^`]+)`", table) if code.startswith("--config.")]
    assert len(codes) > 5
    for code in codes:
        given = [word.removeprefix("--config.").split("=", 1) for word in shlex.split(code)]
        load("translation/transformer:smoke", [(path, value) for path, value in given])
