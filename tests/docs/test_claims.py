"""docs/claims.md is what the claims and the records say; no claim is without its command and its function."""

import csv

import pytest

from attention_research.studies.claims_page import (
    NOT_BUILT,
    NOT_RECORDED,
    claims_of_the_lectures,
    judgement,
    page,
    recorded,
)
from attention_research.studies.comparisons import NO_MARGIN
from attention_research.studies.study import find_studies, load_study
from attention_research.studies.verdicts import STATUSES, claims_of


@pytest.fixture(scope="module")
def claims(root):
    return {claim["id"]: claim for claim in claims_of_the_lectures(root)}


def test_the_page_is_up_to_date(root, request):
    text = page(root)
    if request.config.getoption("--rewrite-goldens"):
        (root / "docs/claims.md").write_text(text, encoding="utf-8")
    assert (root / "docs/claims.md").read_text(encoding="utf-8") == text


def test_every_claim_has_a_command_and_a_verdict(root, claims):
    lines = [line for line in page(root).splitlines() if line.count(" | ") == 4 and "`attention-research " in line]
    assert len(lines) == len(claims) == 204
    assert all(line.split(" | ")[-1].removesuffix(" |") in (*STATUSES, NOT_RECORDED, NOT_BUILT) for line in lines)


def test_claims_stand_once_and_every_study_reads_those_that_name_it(root):
    with open(root / "experiments/claims.csv", encoding="utf-8", newline="") as file:
        claims = list(csv.DictReader(file))
    assert len({claim["id"] for claim in claims}) == len(claims)
    for name in find_studies(root / "experiments"):
        study = load_study(name, root / "experiments")
        ids = [claim["id"] for claim in claims if study.claims and name in claim["study"].split(";")]
        assert ids == [claim["id"] for claim in claims_of(study)] and set(ids) == set(study.verdicts), name


def test_no_verdict_waits_for_a_margin(root):
    """An equality without a margin is not tested, whatever the numbers: claims.csv names one for each."""
    tables = {path.relative_to(root): path.read_text() for path in root.glob("experiments/*/results/*/*/table.md")}
    assert tables and not [path for path, text in tables.items() if NO_MARGIN in text]


def test_a_record_is_read_with_its_status_and_numbers(root, tmp_path):
    folder = tmp_path / "experiments/paper/results/table/cpu"
    folder.mkdir(parents=True)
    (folder / "table.md").write_text(
        "# paper/table\n\n| row |\n\n## paper/table · cpu: claims and verdicts\n\n"
        "### one: held\n\n> It is.\n\nMeasured: it.\n\n- a: 1\n- b | 2\n- c\n\n"
        "### two: did not hold\n\n> No.\n\nMeasured: that.\n\n- d\n"
    )
    found = recorded(tmp_path, "paper/table")
    assert found["one"].status == "held" and found["one"].cases == ("a: 1", "b | 2", "c")
    assert found["two"].cases == ("d",)
    claim = {"id": "one", "study": "paper/other;paper/table", "topic": "t", "claim": "It is.", "measurement": "it"}
    assert judgement(tmp_path, claim) == found["one"]
    assert judgement(tmp_path, {**claim, "id": "three"}).status == NOT_BUILT
    (tmp_path / "experiments/paper/other.py").write_text("")
    assert judgement(tmp_path, {**claim, "id": "three"}).status == NOT_RECORDED
    claim |= {"notes": "001"}
    (tmp_path / "experiments/claims.csv").write_text(",".join(claim) + "\n" + ",".join(claim.values()) + "\n")
    line = page(tmp_path).splitlines()[-1]
    assert line.startswith("| It is. | `attention-research reproduce paper/table --scale=cpu` | a: 1; b \\| 2 ([all](")
