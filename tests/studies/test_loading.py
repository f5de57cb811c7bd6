"""Studies are found by name, in a file or in their own folder. Their relative imports work at every depth."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attention_research import bundled
from attention_research.errors import ConfigError
from attention_research.studies import Row, Scale, extend, find_studies, load_study, run_study
from attention_research.studies.loading import dereference, module_of, reference
from attention_research.studies.results import published
from attention_research.studies.sources import ABOVE, Sources, _Reach
from attention_research.studies.trials import plan
from attention_research.studies.verdicts import claims_of
from attention_research.workdirs.page import report

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
def papers(tmp_path):
    """One study in a file, one in a folder, a third that both import, and a file of plain functions at each level."""
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
        **dict.fromkeys(("paper/c.csv", "other/c.csv"), "id,claim,study\n"),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_study_stands_in_a_file_or_in_a_folder_of_its_own(papers):
    assert find_studies(papers) == dict.fromkeys(("other/table", "paper/deep", "paper/flat"), "Title.")
    flat, deep = load_study("paper/flat", papers), load_study("paper/deep", papers)
    assert (flat.name, deep.name, deep.slug) == ("paper/flat", "paper/deep", "paper-deep")
    records = [study.record("cpu").relative_to(papers).as_posix() for study in (flat, deep)]
    assert records == ["paper/results/flat/cpu", "paper/results/deep/cpu"]
    assert {study.file(study.claims).resolve() for study in (flat, deep)} == {(papers / "paper/c.csv").resolve()}
    assert load_study("paper/deep/study", papers).name == "paper/deep"  # the file's own path is a valid name too


UNKNOWN = {"paper/deap": "paper/deep", "../paper/flat": "paper/flat", "paper/deep/near": "paper/deep",
           "papers/flat.py": "paper/flat"}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_study_is_one_line(papers, name):
    with pytest.raises(ConfigError, match=f"^study {name!r}: no such study; did you mean {UNKNOWN[name]}\\?$"):
        load_study(name, papers)


@pytest.mark.parametrize("name", ["a" * 300, f"{'a' * 300}/b.py", f"{'a' * 300}.py"], ids=["name", "folder", "file"])
def test_a_name_that_is_too_long_for_a_file_is_no_study(papers, name):
    with pytest.raises(ConfigError, match=f"^study '{name}': no such study; attention-research list studies prints"):
        load_study(name, papers)


@pytest.mark.parametrize("setting", ["claims", "published"])
def test_a_missing_csv_file_is_one_line_before_any_trial(papers, setting):
    file = papers / "paper/flat.py"
    file.write_text(file.read_text().replace("claims='c.csv'", f"{setting}='d.csv'"))
    with pytest.raises(
        ConfigError, match=rf"flat\.py: {setting}='d\.csv': there is no such file beside the study file$"
    ):
        load_study("paper/flat", papers)


def test_an_unlike_name_points_to_the_list_of_studies(papers):
    line = "study 'zzz': no such study; attention-research list studies prints their names"
    with pytest.raises(ConfigError, match=f"^{line}$"):
        load_study("zzz", papers)


@pytest.mark.parametrize("folder", ["root", "tmp_path"])
def test_a_packaged_study_has_a_name_and_in_its_repository_a_path(folder, request, monkeypatch):
    monkeypatch.chdir(request.getfixturevalue(folder))
    for name in ("ablation/attention", "experiments/ablation/attention.py"):
        study = load_study(name)
        assert (study.name, study.argument, study.own) == ("ablation/attention", "ablation/attention", False)
        assert study.record("cpu") == bundled.folder("experiments") / "ablation/results/attention/cpu"
    function = load_study("ablation/length").stages[0].function
    assert function.__module__ == "attention_research.experiments.ablation.length"
    assert dereference(reference(function)).__qualname__ == function.__qualname__


def test_a_file_of_ones_own_is_a_study_in_any_folder(papers, monkeypatch):
    monkeypatch.chdir(papers / "paper")
    for given, name in (("flat.py", "flat"), ("deep/study.py", "deep/study"), ("../other/table.py", "other/table")):
        study = load_study(given)
        assert (study.name, study.argument, study.own) == (name, given, True)
        assert study.stages[0].function(seed=0)["value"]
    monkeypatch.chdir(papers)
    deep = load_study("paper/deep/study.py")
    assert deep.name == "paper/deep" and deep.record("cpu") == Path("paper/results/deep/cpu")
    assert load_study("paper/flat.py").record("cpu") == Path("paper/results/flat/cpu")


def test_a_file_of_ones_own_that_fails_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    none = "mine.py: a study file defines STUDY = Study(...)"
    wrong = {
        "x = (": "mine.py:1: '(' was never closed",
        "\nSTUDY = 1 / 0": "mine.py:2: ZeroDivisionError: division by zero",
        "import sys\nsys.exit(3)": "mine.py:2: ends the program (SystemExit: 3)",
        "x = 1": none,
        "STUDY = 3": none,
    }
    for text, line in wrong.items():
        Path("mine.py").write_text(text)
        with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
            load_study("mine.py")
    with pytest.raises(ConfigError, match="^study 'mime.py': no such study; did you mean mine.py\\?$"):
        load_study("mime.py")


EXTENDED = """'''Mine.'''
from attention_research.experiments.ablation.rows import ROWS
from attention_research.studies import Row, extend, load_study

STUDY = extend(load_study("ablation/attention"), rows=[Row("mine", "mine", {**ROWS[0].overrides, "model.width": 64})])
"""


def test_rows_are_added_to_a_packaged_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = load_study("ablation/attention")
    Path("mine.py").write_text(EXTENDED)
    study = load_study("mine.py")
    assert [row.id for row in study.rows] == [*(row.id for row in base.rows), "mine"]
    assert (study.name, study.title, study.slug) == ("mine", "Mine.", "mine")
    printed = load_study("vaswani2017/table3")
    assert published(extend(printed)) == published(printed) != {}
    assert plan(study, "smoke", list(base.rows_at("smoke"))[:2], 1, "") == plan(
        base, "smoke", list(base.rows_at("smoke"))[:2], 1, ""
    )
    assert claims_of(base) and not claims_of(study)
    with pytest.raises(ConfigError, match="the row id 'mine' is used twice"):
        extend(study, [Row("mine", "again")])
    more = extend(base, scales={"tiny": Scale(seeds=1)}, notes=["One."], title="Other.")
    assert more.scales.keys() == {*base.scales, "tiny"} and more.notes[-1] == "One." and more.title == "Other."


OWN = """'Mine.'
from attention_research.studies import Row, extend, load_study
STUDY = extend(load_study("fake/table"), rows=[Row("mine", "mine", settings={"value": 9.0})])
"""


@pytest.mark.slow
def test_a_users_study_reuses_the_records_of_its_base(fake, ran, in_process, tmp_path, monkeypatch):
    """The results are in runs/ and, if requested, in the folder of the study. The page shows the command."""
    run_study("fake/table", scale="quick", seeds=1, record=True)
    assert ran() == ["1.0 0", "2.0 0"]
    there = tmp_path / "there"
    there.mkdir()
    (there / "own.py").write_text(OWN)
    summary = run_study("there/own.py", scale="quick", seeds=1, record=True)
    assert ran() == ["1.0 0", "2.0 0", "9.0 0"] and summary["study"] == "there/own"
    assert "| mine" in Path("runs/there-own-quick/table.md").read_text()
    assert "| mine" in (there / "results/own/quick/table.md").read_text()
    assert "reproduce there/own.py --scale=quick" in Path("runs/there-own-quick/report.html").read_text()
    monkeypatch.chdir(there)
    page = Path("../runs/there-own-quick")
    assert report(page) == page / "report.html"  # from another folder


@pytest.mark.parametrize(("name", "value"), [("paper/flat", 110), ("paper/deep", 109)])
def test_relative_imports_work_at_every_depth_and_in_a_fresh_process(papers, tmp_path, name, value):
    function = load_study(name, papers).stages[0].function
    assert function(seed=0) == {"value": value}
    where = reference(function)
    assert where.endswith(".py:measured") and dereference(where)(seed=0) == {"value": value}
    program = f"from attention_research.studies.loading import dereference; print(dereference({where!r})(seed=0))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == f"{{'value': {value}}}\n"


def test_folders_with_similar_names_are_separate(tmp_path):
    """`a-b`, `a b` and `a.b` are not identifiers. Each folder has a file of the same name."""
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
        ("other/table.py", '"one", "one"', '"one", "two"', False),  # a row's name does not affect the measurement
        ("paper/deep/study.py", '"one", "one"', '"one", "two"', False),
        ("paper/flat.py", "SHARED + FAR", "SHARED", False),
    ],
)
def test_the_sources_of_a_measurement_are_followed_through_relative_imports(papers, file, before, after, changes):
    where = f"{papers / 'paper/deep/study.py'}:measured"
    first, text = Sources().of(where), (papers / file).read_text()
    assert before in text
    (papers / file).write_text(text.replace(before, after))
    assert (Sources().of(where) != first) is changes


def test_the_sources_of_a_folder_are_not_those_of_a_file_of_its_name(papers):
    """`from . import near` in paper/deep/study.py means paper/deep/near.py, whatever paper/deep.py contains."""
    study = papers / "paper/deep/study.py"
    study.write_text("from . import near\n\n\ndef measured(*, seed):\n    return near.NEAR\n")
    (papers / "paper/deep.py").write_text("near = 3\n")
    first = Sources().of(f"{study}:measured")
    (papers / "paper/deep/near.py").write_text("NEAR = 2\n")
    assert Sources().of(f"{study}:measured") != first


def test_the_sources_of_a_packaged_study_are_followed_through_its_name(tmp_path):
    """An import by the package's name reads the same file, and the same parts of it, as a relative import."""
    here = bundled.folder("experiments") / "lectures"
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("from attention_research.experiments.haviv2022.nopos import masked\ndef measured(): return masked\n")
    other.write_text("def measured(): return None\n")
    reach, relative = _Reach(ABOVE), _Reach(ABOVE)
    reach.definitions(one, {"measured"})
    relative.imports(ast.parse("from ..haviv2022.nopos import masked").body[0], here / "x.py")
    assert relative.texts and relative.texts < reach.texts and len(reach.texts) == len(relative.texts) + 1
    assert Sources().of(f"{one}:measured") != Sources().of(f"{other}:measured")


def test_planning_a_study_imports_no_jax(papers, root):
    program = (
        "import sys; from pathlib import Path; from attention_research.studies import load_study; "
        "from attention_research.studies.trials import plan; "
        f"study = load_study('paper/deep', Path({str(papers)!r})); "
        "assert len(plan(study, 'cpu', study.rows_at('cpu'), None, '')) == 2; sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=root).returncode == 0
