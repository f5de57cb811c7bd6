"""The Sphinx extension of the site. It adds recorded results and the API reference to the pages of the repository.

- The front page shows the README of the repository above the outline of the documentation (`front_page`).
- The page of `experiments/<paper>/README.md` also shows the recorded pictures, tables and verdicts of the paper.
- `api` adds a page for each package and module, `docstrings` converts their docstrings, and `usage` says where each
  function and class is used. `sources` shows source files, `navigation` their sidebar.
- `reference` adds pages of all commands and settings, and `studies` one of all recorded tables.
- `claims` marks the verdicts of `docs/claims.md`; `docs/claims.csv` of the site has the claims as data.
- `line_breaks` lets long names in code continue on the next line, and `math` renders equations.
- A link to a folder leads to the README of the folder, and an arXiv number is a link to its paper.
- A notebook has a link to download it, and `notebook_output` joins the pieces of its printed output.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

from attention_research.studies.claims_page import claims_of_the_lectures

from . import api, claims
from .docstrings import ARXIV
from .front_page import README, front_page
from .reference import write_reference
from .usage import linked_catalogue

LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)\)")
#: Code, links and math of a page, which stay unchanged, or an arXiv number.
KEPT_OR_ARXIV = re.compile(rf"```.*?```|`[^`]*`|\[[^\]]*\]\([^)]*\)|\$\$.*?\$\$|{ARXIV.pattern}", re.DOTALL)
PARTS = (
    "api", "claims", "docstrings", "line_breaks", "math", "navigation", "notebook_output", "sources", "studies", "usage"
)  # fmt: skip


#: The table of contents of docs/studies.md.
PAPERS = "```{toctree}\n:maxdepth: 1\n:glob:\n../experiments/*/README\n```\n"


def setup(app: Sphinx) -> dict[str, bool]:
    for part in PARTS:
        app.setup_extension(f"{__package__}.{part}")
    app.connect("builder-inited", lambda app: write_reference(Path(app.srcdir, "docs/api")))
    app.connect("source-read", complete)
    app.connect("build-finished", front_door)
    return {"parallel_read_safe": True}


def front_door(app: Sphinx, failure: Exception | None) -> None:
    """Writes docs/claims.csv, the notebooks, and a root page that redirects to the front page docs/index.html."""
    recorded_claims = claims_of_the_lectures(Path(app.srcdir))
    with open(Path(app.outdir, "docs/claims.csv"), "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(recorded_claims[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(recorded_claims)
    for notebook in Path(app.srcdir, "docs").glob("*.ipynb"):
        shutil.copy(notebook, Path(app.outdir, "docs"))
    page = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">'
    Path(app.outdir, "index.html").write_text(f'{page}<a href="docs/index.html">{app.config.project}</a>\n')


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds recorded results to a page, and completes its links. Of a notebook, only the text cells are changed."""
    folder, text = Path(app.srcdir, page).parent, source[0]
    if Path(app.srcdir, f"{page}.ipynb").is_file():
        source[0] = completed_notebook(text, folder, Path(page).name)
        return
    if page.startswith("experiments/") and page.endswith("/README"):
        text += recorded(folder)
    if page == app.config.root_doc:
        app.env.note_dependency(README)
        text = front_page(Path(app.srcdir), "docs", text)
    if page == "docs/api":
        text = api.linked(text)
    if page == "docs/studies":
        text = text.replace(PAPERS, papers(Path(app.srcdir)))
    if page == "docs/catalogue":
        text = linked_catalogue(text)
    if page == claims.PAGE:
        text = claims.marked(text)
    if page == "CONTRIBUTING":
        text = text.replace(f"]({README})", f"]({app.config.root_doc}.md)")  # the front page shows the README
    source[0] = _links(text, folder)


def completed_notebook(text: str, folder: Path, name: str) -> str:
    """The notebook with completed links, and a link to its file, which `front_door` copies, below its first cell."""
    notebook = json.loads(text)
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "markdown":
            cell["source"] = _links("".join(cell["source"]), folder)
            if number == 0:
                cell["source"] += f'\n\n<a href="{name}.ipynb" download>Download this notebook</a>'
    return json.dumps(notebook)


def _links(text: str, folder: Path) -> str:
    return LINK.sub(lambda link: f"]({_readme(folder, link['path'])})", linked(text))


def linked(text: str) -> str:
    """Turns the arXiv numbers of a page into links.

    >>> linked("Vaswani et al. (arXiv 1706.03762), `arXiv 1706.03762`")
    'Vaswani et al. ([arXiv 1706.03762](https://arxiv.org/abs/1706.03762)), `arXiv 1706.03762`'
    """
    link = lambda number: f"[arXiv {number}](https://arxiv.org/abs/{number})"
    return KEPT_OR_ARXIV.sub(lambda found: link(found["number"]) if found["number"] else found[0], text)


def _readme(folder: Path, path: str) -> str:
    return f"{path.rstrip('/')}/README.md" if (folder / path / "README.md").exists() else path


def papers(root: Path) -> str:
    """A list of the pages of all papers, and a table of contents in which a paper has its authors and year only."""
    lines, tree = [], []
    for page in sorted((root / "experiments").glob("*/README.md")):
        title, path = (
            page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# "),
            f"../{page.relative_to(root)}",
        )
        lines.append(f"- [{title}]({path})")
        tree.append(f"{short_title(title)} <{path}>")
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *tree, "```", ""])


def short_title(title: str) -> str:
    """The authors and the year of a paper.

    >>> short_title('Wang et al. 2020: Linformer'), short_title("Ablations")
    ('Wang et al. 2020', 'Ablations')
    """
    return re.sub(r"(?<=\b\d{4})\W.*", "", title)


def recorded(paper: Path) -> str:
    """The section with the pictures and links to the tables and verdicts of a paper's results."""
    parts, pages = [], []
    for table in sorted(paper.glob("results/*/*/table.md")):
        where = table.parent.relative_to(paper)
        pages.append(f"{table.parent.parent.name} at {table.parent.name} <{table.relative_to(paper)}>")
        parts += [f"### {paper.name}/{table.parent.parent.name} at {table.parent.name}"]
        parts += [f"![{_words(one)}]({where}/figures/{one.name})" for one in sorted(table.parent.glob("figures/*.png"))]
        parts += [f"[the table and its verdicts]({where}/{table.name})"]
    if not parts:
        return ""
    tree = ["```{toctree}", ":hidden:", "", *pages, "```"]
    return "\n\n## Recorded\n\n" + "\n\n".join(parts) + "\n\n" + "\n".join(tree) + "\n"


def _words(picture: Path) -> str:
    return picture.stem.replace("_", " ").capitalize()
