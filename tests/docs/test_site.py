"""The site: the extension's treatment of pages and docstrings. The whole site builds without a warning (long)."""

import doctest
import importlib
import importlib.util
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

docutils = pytest.importorskip("docutils.core")
pages = pytest.importorskip("site_extension.pages")
docstrings = pytest.importorskip("site_extension.docstrings")
math = pytest.importorskip("site_extension.math")
notebook_output = pytest.importorskip("site_extension.notebook_output")

EXAMPLES = sorted(one.stem for one in (ROOT / "docs/site_extension").glob("*.py") if "\n    >>> " in one.read_text())
DOCSTRING = """A *sum* of `a_b` and |x|, x*y*z and of ``(one,
two)``s too.

- an item of x_1 * y
  and its end (arXiv
  1706.03762)

    code * here

>>> 1 + 1
2"""


def test_a_docstring_is_read_as_it_was_meant():
    lines = DOCSTRING.split("\n")
    docstrings.as_rst(lines)
    written = docutils.publish_string("\n".join(lines), writer="pseudoxml", settings_overrides={"halt_level": 2})
    text = " ".join(written.decode().split())
    for part in (
        "A <emphasis> sum of <literal> a_b and |x|, x*y*z and of <literal> (one, two) s too.",
        "<list_item> <paragraph> an item of x_1 * y and its end ( <reference",
        'refuri="https://arxiv.org/abs/1706.03762"> arXiv 1706.03762',
        '<literal_block xml:space="preserve"> code * here',
        '<doctest_block xml:space="preserve"> >>> 1 + 1 2',
    ):
        assert part in text


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one == "configs")) for one in EXAMPLES])
def test_the_examples_of_the_extension(name):
    result = doctest.testmod(importlib.import_module(f"site_extension.{name}"))
    assert result.attempted and not result.failed


def test_arxiv_numbers_of_a_page_are_links_except_in_code():
    link = "[arXiv 1706.03762](https://arxiv.org/abs/1706.03762)"
    assert pages.linked(f"of arXiv 1706.03762, {link}, `arXiv 1706.03762`") == f"of {link}, {link}, `arXiv 1706.03762`"
    code = "```python\n# arXiv 1706.03762\n```"
    assert pages.linked(code) == code


def test_a_notebook_gets_a_download_and_links_in_its_text_alone():
    cells = [
        {
            "cell_type": "markdown",
            "source": ["# Title\n", "of arXiv 1706.03762, [a folder](../experiments/vaswani2017)"],
        },
        {"cell_type": "code", "source": ["x[0](arXiv 1706.03762)"]},
    ]
    text, code = json.loads(pages.completed_notebook(json.dumps({"cells": cells}), ROOT / "docs", "mine"))["cells"]
    assert "[arXiv 1706.03762](https://arxiv.org/abs/1706.03762)" in text["source"]
    assert "(../experiments/vaswani2017/README.md)" in text["source"] and 'href="mine.ipynb" download' in text["source"]
    assert code == cells[1]


def test_every_equation_of_the_pages_becomes_mathml():
    equations = []
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    for notebook in (ROOT / "docs").glob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        pages += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    for page in pages:
        text = re.sub(r"```.*?```|`[^`]*`", "", page, flags=re.DOTALL)
        equations += re.findall(r"\$\$(.+?)\$\$", text, flags=re.DOTALL)
    assert len(equations) > 9
    for equation in equations:
        element = math.mathml(equation, "block")
        assert element.startswith("<math") and "<mi>" in element and "\\" not in element
    with pytest.raises(ValueError, match="is not converted"):
        math.mathml(r"\nosuchcommand x", "inline")


def test_printed_output_that_arrives_in_pieces_is_one_block():
    from docutils import nodes

    block = lambda text, *classes: nodes.literal_block(text, text, classes=["output", *classes])
    cell = nodes.container("", block("Att", "stream"), block("ention\n", "stream"), block("[1]"), block("x", "stream"))
    notebook_output.join(cell)
    assert [one.astext() for one in cell] == ["Attention\n", "[1]", "x"] and "stream" in cell[0]["classes"]


def test_a_paper_s_page_shows_every_picture_and_page_that_is_recorded():
    paper = ROOT / "experiments/narang2021"
    page = pages.recorded(paper)
    for file in (*paper.glob("results/*/*/figures/*.png"), *paper.glob("results/*/*/*.md")):
        assert f"({file.relative_to(paper)})" in page


def test_the_page_of_studies_lists_every_paper():
    assert pages.PAPERS in (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    listed = pages.papers(ROOT)
    for paper in (ROOT / "experiments").glob("*/README.md"):
        assert listed.count(f"../experiments/{paper.parent.name}/README.md") == 2


def test_no_line_of_a_page_is_a_comment():
    """MyST drops a line that begins with a percent sign."""
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for place in ("docs", "experiments")
             for page in (ROOT / place).rglob("*.md")}  # fmt: skip
    code = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
    assert len(texts) > 50 and code.sub("", "```\n% a\n```\n") == "\n"
    assert [name for name, text in texts.items() if re.search(r"^\s*%", code.sub("", text), re.MULTILINE)] == []


@pytest.mark.long
def test_the_site_builds_without_a_warning(tmp_path):
    """In the plain theme: Furo renders the whole navigation on each page, which takes ten times as long as the rest."""
    assert importlib.util.find_spec(runpy.run_path(str(ROOT / "docs/conf.py"))["html_theme"])
    # `test_notebooks` executes the notebooks; here their stored outputs are shown.
    fast = ("-D", "html_theme=basic", "-D", "nb_execution_mode=off")
    command = (sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", *fast, "-c", "docs")
    done = subprocess.run((*command, ".", str(tmp_path / "site")), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    front = (tmp_path / "site/docs/index.html").read_text(encoding="utf-8")
    # Sphinx numbers the pictures of one name.
    assert re.search(r"word_error_rate\d*\.png", front) and "Your way through these pages" in front
    assert 'href="../experiments/bahdanau2015/README.html"' in front and 'href="studies.html#' in front
    notebook = (tmp_path / "site/docs/lookup_to_transformer.html").read_text(encoding="utf-8")
    assert 'href="lookup_to_transformer.ipynb"' in notebook and "the black cat" in notebook
    assert (tmp_path / "site/docs/lookup_to_transformer.ipynb").is_file()
    api = (tmp_path / "site/docs/api/kernels.html").read_text(encoding="utf-8")
    assert 'href="kernels.masks.html#attention_research.kernels.masks.causal_mask"' in api and len(api) < 300_000
    masks = (tmp_path / "site/docs/api/kernels.masks.html").read_text(encoding="utf-8")
    assert 'href="../../source/attention_research/kernels/masks.py.html#line-' in masks
    catalogue = (tmp_path / "site/docs/catalogue.html").read_text(encoding="utf-8")
    kernel = "kernels.scores.cosine.cosine_scores"
    assert (
        'id="cosine_scores"' in catalogue and f"api/kernels.scores.cosine.html#attention_research.{kernel}" in catalogue
    )
    assert not [*(tmp_path / "site").glob("_downloads/*/*.py")]
    commands = (tmp_path / "site/docs/api/commands.html").read_text(encoding="utf-8")
    settings = (tmp_path / "site/docs/api/settings_attention.html").read_text(encoding="utf-8")
    assert "--ignore-records" in commands and 'id="relative"' in settings and "max_distance" in settings
    assert "<p>Whether the linear projections have biases.</p>" in settings
