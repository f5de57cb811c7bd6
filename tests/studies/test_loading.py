"""Studies are found by name, in a file or in a folder of their own, and their relative imports work at every depth."""

import re
import subprocess
import sys

import pytest

from attention_research.errors import ConfigError
from attention_research.studies import find_studies, load_study
from attention_research.studies.references import dereference, module_of, reference
from attention_research.studies.sources import Sources

STUDY = '''"""Title."""
from attention_research.studies import Row, Scale, Study, measure
{imports}

def measured(*, seed):
    return {{"value": {value}}}

STUDY = Study(rows=(Row("one", "one"),), scales={{"cpu": Scale()}}, stages=(measure(measured),), claims={claims!r})
'''
IMPORTS = "from .near import NEAR\nfrom ..shared import SHARED\nfrom ...other.table import FAR, masked\n"
VALUE = "masked(NEAR) + SHARED + FAR"


@pytest.fixture
def experiments(tmp_path):
    """One study in a file, one in a folder, and a third that both import; a file of plain functions at each level."""
    files = {
        "paper/flat.py": STUDY.format(
            imports="from .shared import SHARED\nfrom ..other.table import FAR", value="SHARED + FAR", claims="c.csv"
        ),
        "paper/deep/study.py": STUDY.format(imports=IMPORTS, value=VALUE, claims="../c.csv"),
        "paper/deep/near.py": '"""Beside the study."""\nNEAR = 1\n',
        "paper/shared.py": '"""Of the whole paper."""\nfrom . import constants\nSHARED = constants.TEN\n',
        "paper/constants.py": "TEN, ELEVEN = 10, 11\n",
        "other/table.py": STUDY.format(
            imports="FAR = 100\n\n\ndef masked(value):\n    return -value\n", value="FAR", claims="c.csv"
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_study_stands_in_a_file_or_in_a_folder_of_its_own(experiments):
    assert find_studies(experiments) == dict.fromkeys(("other/table", "paper/deep", "paper/flat"), "Title.")
    flat, deep = load_study("paper/flat", experiments), load_study("paper/deep", experiments)
    assert (flat.name, deep.name, deep.slug) == ("paper/flat", "paper/deep", "paper-deep")
    records = [study.record("cpu").relative_to(experiments).as_posix() for study in (flat, deep)]
    assert records == ["paper/results/flat/cpu", "paper/results/deep/cpu"]
    assert {study.file(study.claims).resolve() for study in (flat, deep)} == {(experiments / "paper/c.csv").resolve()}
    assert load_study("paper/deep/study", experiments).name == "paper/deep"  # the file's own path names it too


def test_an_unknown_study_is_one_line(experiments):
    for name, near in {
        "paper/deap": "paper/deep",
        "../paper/flat": "paper/flat",
        "paper/deep/near": "paper/deep",
    }.items():
        line = f"study {name!r}: no such study under {experiments}/; did you mean {near}?"
        with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
            load_study(name, experiments)


@pytest.mark.parametrize(("name", "value"), [("paper/flat", 110), ("paper/deep", 109)])
def test_relative_imports_work_at_every_depth_and_in_a_fresh_process(experiments, tmp_path, name, value):
    function = load_study(name, experiments).stages[0].function
    assert function(seed=0) == {"value": value}
    where = reference(function)
    assert where.endswith(".py:measured") and dereference(where)(seed=0) == {"value": value}
    program = f"from attention_research.studies.references import dereference; print(dereference({where!r})(seed=0))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == f"{{'value': {value}}}\n"


def test_folders_with_any_name_do_not_meet(tmp_path):
    """`a-b`, `a b` and `a.b` are no identifiers, and a file of the same name stands in each."""
    folders = [tmp_path / one for one in ("a-b", "a b", "a.b", "a_b")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        (folder / "near.py").write_text(f"NUMBER = {number}\n")
        (folder / "my-study.v2.py").write_text("from .near import NUMBER\n")
    assert [module_of(folder / "my-study.v2.py").NUMBER for folder in folders] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("file", "before", "after", "changes"),
    [
        ("paper/deep/near.py", "1", "2", True),
        ("paper/shared.py", "constants.TEN", "constants.ELEVEN", True),
        ("paper/constants.py", "10, 11", "20, 11", True),
        ("other/table.py", "FAR = 100", "FAR = 200", True),
        ("other/table.py", "return -value", "return value", True),
        ("other/table.py", '"one", "one"', '"one", "two"', False),  # a row's name measures nothing
        ("paper/deep/study.py", '"one", "one"', '"one", "two"', False),
        ("paper/flat.py", "SHARED + FAR", "SHARED", False),
    ],
)
def test_the_sources_of_a_measurement_are_followed_through_relative_imports(experiments, file, before, after, changes):
    where = f"{experiments / 'paper/deep/study.py'}:measured"
    first, text = Sources().of(where), (experiments / file).read_text()
    assert before in text
    (experiments / file).write_text(text.replace(before, after))
    assert (Sources().of(where) != first) is changes


def test_the_sources_of_a_folder_are_not_those_of_a_file_of_its_name(experiments):
    """`from . import near` in paper/deep/study.py means paper/deep/near.py, whatever stands in paper/deep.py."""
    study = experiments / "paper/deep/study.py"
    study.write_text("from . import near\n\n\ndef measured(*, seed):\n    return near.NEAR\n")
    (experiments / "paper/deep.py").write_text("near = 3\n")
    first = Sources().of(f"{study}:measured")
    (experiments / "paper/deep/near.py").write_text("NEAR = 2\n")
    assert Sources().of(f"{study}:measured") != first


def test_planning_a_study_imports_no_jax(experiments, root):
    program = (
        "import sys; from pathlib import Path; from attention_research.studies import load_study; "
        "from attention_research.studies.trials import plan; "
        f"study = load_study('paper/deep', Path({str(experiments)!r})); "
        "assert len(plan(study, 'cpu', study.rows_at('cpu'), None, '')) == 2; sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=root).returncode == 0
