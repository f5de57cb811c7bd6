"""The notebooks of docs/: all cells run, and the first notebook prints what is stored in it."""

from __future__ import annotations

import json
import re

import pytest

NOTEBOOKS = ("lookup_to_transformer", "train_and_look_inside", "your_own_attention")
STEPS = (
    "A hard lookup table",
    "The soft lookup",
    "One query, any score",
    "The dot product",
    "The scaled dot product",
    "Many queries",
    "Keys and values by projection",
    "Self-attention without parameters",
    "Self-attention with queries, keys and values",
    "Masked",
    "Multi-head",
    "Cross-attention",
)
#: The seconds that one notebook may take, on a machine with other processes.
LIMIT = 1200
#: Notebook -> (text, the shorter text that the test executes).
SHORTER = {"your_own_attention": [('"training.steps": 400', '"training.steps": 60')]}


@pytest.fixture(scope="module")
def notebooks(root):
    """Name -> cells."""
    return {name: json.loads((root / f"docs/{name}.ipynb").read_text(encoding="utf-8"))["cells"] for name in NOTEBOOKS}


def text_of(cell) -> str:
    return "".join(cell["source"])


def printed(cells) -> list[str]:
    """The text that each code cell prints, without pictures. How a kernel divides it into outputs varies."""
    found = []
    for cell in cells:
        outputs = [(output, output.get("data", {})) for output in cell.get("outputs", ())]
        texts = [output.get("text", data.get("text/plain", "")) for output, data in outputs if "image/png" not in data]
        if texts:
            found.append("".join("".join(text) for text in texts))
    return found


def executed(root, name, folder, shorter=()):
    """The cells of a notebook, executed in an empty folder. `shorter` replaces parts of their text."""
    nbformat = pytest.importorskip("nbformat", reason="myst-nb is not installed (the extra `docs`)")
    nbclient = pytest.importorskip("nbclient", reason="myst-nb is not installed (the extra `docs`)")
    notebook = nbformat.read(root / f"docs/{name}.ipynb", as_version=4)
    for old, new in shorter:
        (cell,) = (cell for cell in notebook.cells if old in cell["source"])
        cell["source"] = cell["source"].replace(old, new)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=LIMIT, resources=resources).execute()  # raises the error of a cell
    return notebook.cells


@pytest.mark.slow
def test_the_first_notebook_prints_what_is_stored(root, notebooks, tmp_path):
    """The model at its end is trained, so its score may differ by machine; an assertion in its cell bounds it."""
    stored, new = printed(notebooks[NOTEBOOKS[0]]), printed(executed(root, NOTEBOOKS[0], tmp_path))
    assert len(stored) > 30 and new[:-1] == stored[:-1]
    assert re.fullmatch(r"(9[5-9]|100)\.\d% of the words are right\n", new[-1])


@pytest.mark.long
@pytest.mark.data
@pytest.mark.parametrize("name", NOTEBOOKS[1:])
def test_a_notebook_runs(name, root, tmp_path):
    """The assertions of the second notebook need its whole training. The third notebook has none about quality."""
    cells = executed(root, name, tmp_path, SHORTER.get(name, ()))
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", ()))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_stored_outputs_are_whole_and_small(name, notebooks, root):
    """A code host shows the stored outputs: without errors, with pictures, and without paths of a machine."""
    outputs = [output for cell in notebooks[name] for output in cell.get("outputs", ())]
    assert not any(output["output_type"] == "error" for output in outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert all(cell["execution_count"] for cell in notebooks[name] if cell["cell_type"] == "code")
    whole = (root / f"docs/{name}.ipynb").read_text(encoding="utf-8")
    assert len(whole) < 200_000 and "/tmp/" not in whole and "/home/" not in whole and "/root/" not in whole


def test_each_step_has_a_heading_an_entry_in_the_table_an_equation_and_code(notebooks):
    cells = notebooks[NOTEBOOKS[0]]
    headings = [re.match(r"## \d+\. (.+)", text_of(cell)) for cell in cells]
    starts = [number for number, heading in enumerate(headings) if heading]
    assert tuple(headings[number][1] for number in starts) == STEPS
    for step, (start, stop) in enumerate(zip(starts, [*starts[1:], len(cells)], strict=True), 1):
        assert f"\n| {step} |" in text_of(cells[0])
        section = cells[start:stop]
        assert any("$$" in text_of(cell) for cell in section) and any(cell["cell_type"] == "code" for cell in section)


def test_the_notebooks_lead_to_each_other(notebooks):
    for name, following in zip(NOTEBOOKS, NOTEBOOKS[1:], strict=False):
        assert f"]({following}.ipynb)" in text_of(notebooks[name][-1])
