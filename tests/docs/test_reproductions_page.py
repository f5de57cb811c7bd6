"""docs/reproductions.md agrees with the records, and README.md with the page."""

from attention_research.studies.reproductions import SCALE, studies
from attention_research.studies.reproductions_page import page, reproduced, sentence
from attention_research.studies.results import DIFFERS, published


def test_the_page_is_up_to_date(root, request):
    text = page(root / "experiments")
    if request.config.getoption("--rewrite-goldens"):
        (root / "docs/reproductions.md").write_text(text, encoding="utf-8")
    assert (root / "docs/reproductions.md").read_text(encoding="utf-8") == text


def test_the_readme_says_how_many_are_inside(root):
    said = sentence([cell for _, of in reproduced(root / "experiments").values() for cell in of])
    assert said in " ".join((root / "README.md").read_text(encoding="utf-8").split())


def test_a_study_at_the_papers_size_compares_what_it_prints(root):
    """It has the scale `paper`, names the compared columns, and each published row has a compared cell and a source."""
    for study in studies(root / "experiments"):
        assert SCALE in study.scales and study.compared, study.name
        assert {column.key for column in study.columns} >= set(study.compared), study.name
        printed = {row: cells for row, cells in published(study, SCALE).items() if DIFFERS in cells}
        assert printed.keys() <= {row.id for row in study.rows}, study.name
        for row, cells in printed.items():
            assert cells["source"] and set(cells) & set(study.compared.values()), (study.name, row)
