"""docs/claims.md agrees with the claims and the records. Every claim has a command and a function."""

import csv
import re

import pytest

from attention_research.studies.claims_page import (
    NOT_BUILT,
    NOT_RECORDED,
    STRUCK,
    UNJUDGED,
    claims_of_the_lectures,
    judgement,
    page,
    recorded,
)
from attention_research.studies.comparisons import NO_MARGIN
from attention_research.studies.loading import find_studies, load_study
from attention_research.studies.verdicts import FAILED, HELD, STATUSES, claims_of

#: `a-claim`, `another`: its verdict.
QUOTED = re.compile(rf"(?P<claims>`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*): (?P<verdict>{'|'.join(map(re.escape, STATUSES))})")
VERDICT = re.compile(r"\bheld\b(?![- ]out)|did not hold|not tested")


@pytest.fixture(scope="module")
def claims(root):
    return {claim["id"]: claim for claim in claims_of_the_lectures(root)}


@pytest.fixture(scope="module")
def judgements(root):
    """Claim -> the judgement of the records, including claims that need only a paper."""
    with open(root / "experiments/claims.csv", encoding="utf-8", newline="") as file:
        return {claim["id"]: judgement(root, claim) for claim in csv.DictReader(file)}


def quoted(text):
    """(claim, verdict) pairs that a text quotes, and the rest of the text."""
    text = " ".join(text.split())
    found = [
        (claim, one["verdict"]) for one in QUOTED.finditer(text) for claim in re.findall("[a-z0-9-]+", one["claims"])
    ]
    return found, QUOTED.sub("", text)


def test_a_text_quotes_verdicts_with_their_claims():
    found, left = quoted("It helps (`a-1`,\n`b`: did not\nhold), `c`: held; held-out texts. It held.")
    assert found == [("a-1", "did not hold"), ("b", "did not hold"), ("c", "held")]
    assert VERDICT.findall(left) == ["held"]


def test_every_verdict_in_prose_is_the_recorded_one(root, judgements):
    """A README states a verdict only together with its claim (`QUOTED`), so that it is checked against new records."""
    readmes = [root / "README.md", *root.glob("experiments/*/README.md")]
    count = 0
    for path in (*readmes, *root.glob("docs/*.md")):
        found, left = quoted(path.read_text(encoding="utf-8"))
        now = {claim: judgements[claim].status if claim in judgements else "no such claim" for claim, _ in found}
        wrong = [(claim, said, now[claim]) for claim, said in found if said != now[claim]]
        assert not wrong, f"{path.relative_to(root)}: {wrong}"
        assert path not in readmes or not VERDICT.search(left), f"{path.relative_to(root)}: a verdict without its claim"
        count += len(found)
    assert count > 100


def test_the_findings_table_shows_judged_claims(root, judgements):
    text = (root / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| verdicts |\n") :].split("\n\n")[0].splitlines()[2:]
    assert table
    for line in table:
        found, _ = quoted(line.split(" | ")[-1])
        assert found, line
        for claim, _ in found:
            one = judgements[claim]
            assert one.status in (HELD, FAILED) and (one.competence is None or one.competence.met), claim


def test_the_page_is_up_to_date(root, request):
    text = page(root)
    if request.config.getoption("--rewrite-goldens"):
        (root / "docs/claims.md").write_text(text, encoding="utf-8")
    assert (root / "docs/claims.md").read_text(encoding="utf-8") == text


def test_every_claim_has_a_command_and_a_verdict(root, claims):
    lines = [line for line in page(root).splitlines() if line.count(" | ") == 5 and '<a id="' in line]
    assert len(lines) == len(claims) == 204
    assert all(line.split(" | ")[-1].removesuffix(" |") in (*STATUSES, *UNJUDGED) for line in lines)


def test_claims_are_unique_and_studies_read_those_that_name_them(root):
    with open(root / "experiments/claims.csv", encoding="utf-8", newline="") as file:
        claims = list(csv.DictReader(file))
    assert len({claim["id"] for claim in claims}) == len(claims)
    for name in find_studies(root / "experiments"):
        study = load_study(name, root / "experiments")
        mine = [claim for claim in claims if study.claims and name in claim["study"].split(";")]
        ids = [claim["id"] for claim in mine if not claim["struck"]]
        assert ids == [claim["id"] for claim in claims_of(study)] and set(ids) == set(study.verdicts), name


def test_a_verdict_for_which_nothing_is_trained_compares_no_seeds(root):
    """A claim of the kind exact or count is judged whatever its models have learned."""
    found = [(claim["id"], judgement(root, claim)) for claim in claims_of_the_lectures(root)]
    exact = [(name, one.cases) for name, one in found if one.learned is None]
    assert len(exact) > 50 and not [name for name, cases in exact if re.search(r" over \d+ seeds", " ".join(cases))]


def test_no_verdict_waits_for_a_margin(root):
    """An equality without a margin is never tested. claims.csv has a margin for each."""
    tables = {path.relative_to(root): path.read_text() for path in root.glob("experiments/*/results/*/*/table.md")}
    assert tables and not [path for path, text in tables.items() if NO_MARGIN in text]


def test_a_record_is_read_with_its_status_and_numbers(root, tmp_path):
    folder = tmp_path / "experiments/paper/results/table/cpu"
    folder.mkdir(parents=True)
    (folder / "table.md").write_text(
        "# paper/table\n\n| row |\n\n## paper/table · cpu: claims and verdicts\n\n"
        "### one: held\n\n> It is.\n\nMeasured: it.\n\n- a: 1\n- b | 2\n- c\n\n"
        "### two: did not hold\n\n> No.\n\nMeasured: that.\n\n- d\n"
        "### three: did not hold\n\n> No.\n\n| case | outcome | numbers |\n| --- | --- | --- |\n"
        "| a \\| b | ✓ holds | 1 |\n| c | not tested |   |\n\n- 1 of 2 cases holds, 1 is not tested\n"
    )
    found = recorded(tmp_path, "paper/table")
    assert found["one"].status == "held" and found["one"].cases == ("a: 1", "b | 2", "c")
    assert found["two"].cases == ("d",)
    assert found["three"].cases == ("1 of 2 cases holds, 1 is not tested", "a | b: 1")
    claim = {"id": "one", "study": "paper/other;paper/table", "topic": "t", "claim": "It is.", "measurement": "it"}
    assert judgement(tmp_path, claim) == found["one"]
    assert judgement(tmp_path, {**claim, "id": "four"}).status == NOT_BUILT
    (tmp_path / "experiments/paper/other.py").write_text("")
    assert judgement(tmp_path, {**claim, "id": "four"}).status == NOT_RECORDED
    struck = judgement(tmp_path, {**claim, "struck": "too few texts"})
    assert (struck.status, struck.cases, struck.competence) == (STRUCK, ("too few texts",), None)
    claim |= {"notes": "001"}
    (tmp_path / "experiments/claims.csv").write_text(",".join(claim) + "\n" + ",".join(claim.values()) + "\n")
    line = page(tmp_path).splitlines()[-1]
    name = '<a id="one"></a>[one](#one)'
    command = "`attention-research reproduce paper/table --scale=cpu`"
    assert line.startswith(f"| It is. {name} | 001 | {command} | a: 1; b \\| 2 ([all](")


def test_the_page_counts_the_claims_of_each_of_the_lecture_notes(root, claims):
    text = page(root)
    for number in ("000", "001", "002", "003", "004"):
        count = sum(number in claim["notes"] for claim in claims.values())
        assert f"\n| {number} | {count} | " in text
    assert all(f'<a id="{name}"></a>' in text for name in claims)
