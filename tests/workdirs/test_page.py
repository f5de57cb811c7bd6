"""`report`: the page of a hand-written run, and a study's page drawn again."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from attention_research.cli import main
from attention_research.config import load
from attention_research.studies.run import run_study
from attention_research.workdirs import figures
from attention_research.workdirs.page import page as drawn
from attention_research.workdirs.reading import Run
from attention_research.workdirs.reading import saved_config as read_config


class Reader(HTMLParser):
    """The page as a browser sees it: tables as rows of texts, alternative texts of images, and network requests."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.headers, self.alts, self.asks, self.languages, self.text = [], 0, [], [], set(), ""
        self.in_cell = False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True
            self.headers += tag == "th" and "scope" in given
            self.languages |= {given.get("lang")} - {None}
        if tag == "img":
            self.alts.append(given.get("alt"))
        self.asks += [given[name] for name in ("src", "href") if name in given]
        self.asks += [tag] if tag == "iframe" or (tag == "script" and "src" in given) else []
        if tag == "svg":
            self.alts.append(given.get("aria-label"))

    def handle_data(self, data):
        self.text += data
        if self.in_cell:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag):
        self.in_cell = self.in_cell and tag not in ("td", "th")


@pytest.fixture(scope="module")
def run(make_run, evaluation, tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("page") / "first run", 6, seeds=(0, 1), evaluation=evaluation)


@pytest.fixture(scope="module")
def page(run):
    output = run.parent / "pages" / "page.html"
    assert main(["report", str(run), f"--output={output}"]) == 0
    return Reader(output.read_text())


def test_the_page_has_numbers_samples_settings_and_their_sources(page):
    rows = {row[0]: row[1:] for row in page.rows}
    assert rows["test BLEU"] == ["12.50"] and rows["training loss"] == ["7.500"]
    assert rows["1"] == ["<b>un</b>", "one", "two"] and page.languages == {"en", "fr"}
    assert rows["training.steps"] == ["6"] and rows["model.width"] == ["32"]
    assert "0123abc" in page.text and "flax 0.12.8" in page.text and "nrefs:1|tok:13a" in page.text
    assert "finished: step 6 of 6" in page.text


def test_a_page_recommends_only_commands_that_the_run_supports(make_run, root, tmp_path):
    run = make_run(tmp_path / "run", 6)
    assert f"generate --workdir={run} --input=-" in drawn(Run.read(run))
    classifies = load(root / "configs/images/residual.py:smoke")
    (run / "config.json").write_text(classifies.to_json())
    assert "attention-research generate" not in drawn(Run.read(run))


def test_a_section_given_by_its_kind_counts_as_a_given_setting(make_run, tmp_path):
    run = make_run(tmp_path / "run", 6, overrides=[("model.positions", "learned")])
    assert ["model.positions.kind", "learned"] in Reader(drawn(Run.read(run)).partition("</details>")[0]).rows


def test_scores_of_an_earlier_step_name_it(make_run, evaluation, tmp_path):
    html = drawn(Run.read(make_run(tmp_path / "run", 6, evaluation={**evaluation, "step": 4})))
    assert {row[0]: row[1:] for row in Reader(html).rows}["evaluated step"] == ["4"]


def test_the_command_can_be_typed_again(page, run):
    assert "attention-research train '--config=x <y>' '--workdir=runs/first run'" in page.text
    assert f"attention-research evaluate --workdir='{run}'" in page.text


def test_the_page_needs_no_network_and_pictures_have_texts(page):
    assert page.asks and all(re.match("data:(image/png;base64,|,$)", ask) for ask in page.asks)
    assert page.alts[0].startswith("Loss by step: ") and "training, seed 1 11 to 6" in page.alts[0]
    assert "validation, seed 0 " in page.alts[0] and "to 0.6" in page.alts[1]
    assert page.headers > 20


def test_every_curve_names_run_config_seeds_and_step(page, run):
    line = f"first run, {read_config(run).spec}, seeds 0, 1, step 6 of 6"
    assert page.text.count(line) == len(page.alts) == 3


def test_pictures_of_a_run_have_the_same_line_below(run, tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr("attention_research.workdirs.figures.save", lambda figure, path, line: saved.append(line))
    drawn = figures.draw(Run.read(run), tmp_path)
    line = f"first run, {read_config(run).spec}, seeds 0, 1, step 6 of 6"
    assert saved == [f"{line}; points: validation", line] and len(drawn) == 2


def test_further_evaluations_have_curves_and_a_table(make_run, evaluation, tmp_path):
    further = {"b": {"bleu": 3.25, "signature": "x", "split": "validation"}}
    folder = make_run(tmp_path / "run", 6, evaluation={**evaluation, "evaluations": further})
    with (folder / "metrics.jsonl").open("a") as file:
        for step, bleu in ((2, 1.0), (4, 5.0), (6, 3.0)):
            file.write(json.dumps({"step": step, "split": "validation", "seed": 0, "b.bleu": bleu}) + "\n")
    assert main(["report", str(folder)]) == 0
    page = Reader((folder / "report.html").read_text())
    assert {row[0]: row[1:] for row in page.rows}["b.bleu"] == ["validation", "3.250"]
    assert "b: BLEU by step: validation 1 to 3" in page.alts


def test_every_replica_has_its_scores(make_run, evaluation, tmp_path):
    each = [{"bleu": bleu, "seed": 5 + i, "replica": i} for i, bleu in enumerate((10.0, 12.0, 17.0))]
    html = drawn(Run.read(make_run(tmp_path / "run", 6, evaluation={**evaluation, **each[0], "replicas": each})))
    rows = Reader(html).rows
    assert ["test BLEU", "13.00 ± 3.6"] in rows
    assert [["replica", "seed", "test bleu"], ["0", "5", "10.00"], ["1", "6", "12.00"], ["2", "7", "17.00"]] == [
        row for row in rows if len(row) == 3 and row[0] in ("replica", "0", "1", "2")
    ]


def test_the_page_of_a_continued_run_names_its_processes_and_damaged_files(make_run, tmp_path):
    earlier = [
        {"date": "2026-11-20", "git_revision": "abc"},
        {"date": "2026-11-21", "git_revision": "d", "from_step": 2},
    ]
    run = make_run(tmp_path / "run", 6, environment={"from_step": 4, "earlier": earlier})
    (run / "evaluation.json").write_text("{")
    text = Reader(drawn(Run.read(run))).text
    assert "from step 0, 2026-11-20, abc; from step 2, 2026-11-21, d" in text
    assert "evaluation.json is damaged" in text


def test_a_run_that_has_not_begun_has_a_page(make_run, tmp_path, capsys):
    run = make_run(tmp_path / "run", 0)
    (run / "metrics.jsonl").unlink()
    (run / "environment.json").unlink()
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out == f"page {run}/report.html\n"
    assert "stopped: step 0 of 6" in Reader((run / "report.html").read_text()).text


@pytest.mark.slow
def test_a_study_is_drawn_again(root, tmp_path, monkeypatch):
    """Renders the recorded study.

    The page is the same again, even if only the folder's name tells that it is a study.
    """
    monkeypatch.chdir(root)
    folder = tmp_path / "vaswani2017-table1-cpu"
    before = Path(run_study("vaswani2017/table1", scale="cpu", render=True, workdir=folder)["report"]).read_text()
    (folder / "trials").mkdir()
    for gone in ("report.html", "summary.json"):
        (folder / gone).unlink()
        assert main(["report", str(folder), f"--output={tmp_path / 'copy.html'}"]) == 0
        assert (tmp_path / "copy.html").read_text() == (folder / "report.html").read_text() == before


def test_the_page_of_the_current_folder_has_its_name(make_run, tmp_path, monkeypatch, capsys):
    run = make_run(tmp_path / "first", 6)
    monkeypatch.chdir(run)
    assert main(["report", "."]) == 0
    assert f"<h1>first · {read_config(run).spec}</h1>" in (run / "report.html").read_text()


def test_a_study_without_trials_is_a_study(tmp_path, monkeypatch, capsys):
    """As `reproduce --render` leaves it: drawn from the record."""
    (tmp_path / "summary.json").write_text(json.dumps({"study": "vaswani2017/table1", "scale": "cpu", "rows": []}))
    asked = []
    monkeypatch.setattr(
        "attention_research.workdirs.page.run_study",
        lambda name, **given: asked.append((name, given["scale"])) or {"report": str(tmp_path / "report.html")},
    )
    assert main(["report", str(tmp_path)]) == 0 and asked == [("vaswani2017/table1", "cpu")]
    assert main(["status", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == [str(tmp_path), "finished", "no", "trials"]
    assert main(["evaluate", f"--workdir={tmp_path}"]) == 2
    assert capsys.readouterr().err == f"error: --workdir={tmp_path}: a study's folder without trials, not a run\n"


def test_the_page_of_a_sweep_has_its_command(tmp_path, capsys):
    (tmp_path / "trials").mkdir()
    (tmp_path / "summary.json").write_text(json.dumps({"study": "sweep", "scale": "sweep"}))
    assert main(["report", str(tmp_path)]) == 2 and "a sweep; rerun its command" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_stands_in_a_browser(run, page, browse):
    """Fails on errors and on requests other than the file and inline data. Folded tables open from the keyboard."""
    tab = browse(run.parent / "pages" / "page.html")
    widths = [image.bounding_box()["width"] for image in tab.locator("svg").all()]
    assert len(widths) >= 2 and min(widths) > 100
    setting = tab.locator("details").last.locator("th", has_text="model.width").first
    assert not setting.is_visible()
    tab.locator("summary").last.press("Enter")
    assert setting.is_visible()


@pytest.mark.slow
def test_curves_answer_to_the_pointer_and_the_arrow_keys(run, tmp_path, browse):
    """The steps and values are those of metrics.jsonl."""
    assert main(["report", str(run), f"--output={tmp_path / 'page.html'}"]) == 0
    opened = browse(tmp_path / "page.html")
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["loss"] for line in logged if line["split"] == "train" and line["seed"] == 1}
    figure = opened.locator("[data-chart]").first
    box = figure.locator("svg").bounding_box()
    opened.mouse.move(box["x"] + box["width"] - 20, box["y"] + 50)
    assert figure.locator("output").inner_text().startswith("step 6: ")
    assert f"training, seed 1 {losses[6]:.4g}" in figure.locator("output").inner_text()
    figure.focus()
    opened.keyboard.press("ArrowLeft")
    assert f"training, seed 1 {losses[5]:.4g}" in figure.locator("output").inner_text()
