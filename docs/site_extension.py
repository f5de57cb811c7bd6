"""The Sphinx extension of the site. It adds recorded results and the API reference to the pages of the repository.

- The page of `experiments/<paper>/README.md` also shows the recorded pictures, tables and verdicts of the paper.
- Each package in the list of `docs/api.md` has a page `docs/api/<package>.md` with the docstrings of all its modules.
  Docstrings are written in Markdown and converted to reStructuredText (`as_rst`).
- `site_reference` adds pages of all commands and settings.
- `docs/claims.csv` of the site has the claims of `docs/claims.md` as data.
- A link to a folder leads to the README of the folder, and an arXiv number is a link to its paper.
"""

from __future__ import annotations

import csv
import importlib
import pkgutil
import re
from pathlib import Path

from site_reference import write_reference
from sphinx.application import Sphinx

from attention_research.studies.claims_page import claims_of_the_lectures

PACKAGE = re.compile(
    r"^- \*\*(?P<title>.+)\*\* \(`(?P<package>attention_research\.(?P<name>\w+))`\): (?P<said>.+)$", re.MULTILINE
)
MODULES = re.compile(r"^<!-- modules of (?P<package>[\w.]+) -->$", re.MULTILINE)
LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)\)")
#: Code between backticks, also across lines.
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
ARXIV = re.compile(r"arXiv\s+(?P<number>\d{4}\.\d{4,5})")
#: Code, links and math of a page, which stay unchanged, or an arXiv number.
KEPT_OR_ARXIV = re.compile(rf"```.*?```|`[^`]*`|\[[^\]]*\]\([^)]*\)|\$\$.*?\$\$|{ARXIV.pattern}", re.DOTALL)
MARK = re.compile(r"[*](?! )|(?<=\S)[*]|[\\|_`]")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir, "docs")))
    app.connect("builder-inited", lambda app: write_reference(Path(app.srcdir, "docs/api")))
    app.connect("source-read", complete)
    app.connect("autodoc-process-docstring", lambda app, what, name, thing, options, lines: as_rst(lines))
    app.connect("autodoc-process-signature", lambda app, what, name, thing, options, *parts: readable(*parts))
    app.connect("build-finished", front_door)
    return {"parallel_read_safe": True}


def write_pages(docs: Path) -> None:
    """Writes the pages of the API that have changed."""
    (docs / "api").mkdir(exist_ok=True)
    for found in PACKAGE.finditer((docs / "api.md").read_text(encoding="utf-8")):
        text = f"# {found['title']}\n\n{found['said']}\n\n<!-- modules of {found['package']} -->\n"
        page = docs / "api" / f"{found['name']}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def front_door(app: Sphinx, failure: Exception | None) -> None:
    """Writes docs/claims.csv, and a root page that redirects to the front page docs/index.html."""
    claims = claims_of_the_lectures(Path(app.srcdir))
    with open(Path(app.outdir, "docs/claims.csv"), "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(claims[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(claims)
    page = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">'
    Path(app.outdir, "index.html").write_text(f'{page}<a href="docs/index.html">{app.config.project}</a>\n')


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds recorded results or the API reference to a page, and completes its links."""
    folder, text = Path(app.srcdir, page).parent, source[0]
    if page.startswith("experiments/") and page.endswith("/README"):
        text += recorded(folder)
    if found := MODULES.search(text):
        text += documented(found["package"])
    source[0] = LINK.sub(lambda link: f"]({_readme(folder, link['path'])})", linked(text))


def linked(text: str) -> str:
    """Turns the arXiv numbers of a page into links.

    >>> linked("Vaswani et al. (arXiv 1706.03762), `arXiv 1706.03762`")
    'Vaswani et al. ([arXiv 1706.03762](https://arxiv.org/abs/1706.03762)), `arXiv 1706.03762`'
    """
    link = lambda number: f"[arXiv {number}](https://arxiv.org/abs/{number})"
    return KEPT_OR_ARXIV.sub(lambda found: link(found["number"]) if found["number"] else found[0], text)


def _readme(folder: Path, path: str) -> str:
    return f"{path.rstrip('/')}/README.md" if (folder / path / "README.md").exists() else path


def recorded(paper: Path) -> str:
    """The section with the pictures and links to the tables and verdicts of a paper's results."""
    parts, pages = [], []
    for table in sorted(paper.glob("results/*/*/table.md")):
        where = table.parent.relative_to(paper)
        pages.append(str(table.relative_to(paper)))
        parts += [f"### {paper.name}/{table.parent.parent.name} at {table.parent.name}"]
        parts += [f"![{_words(one)}]({where}/figures/{one.name})" for one in sorted(table.parent.glob("figures/*.png"))]
        parts += [f"[the table and its verdicts]({where}/{table.name})"]
    if not parts:
        return ""
    tree = ["```{toctree}", ":hidden:", "", *pages, "```"]
    return "\n\n## Recorded\n\n" + "\n\n".join(parts) + "\n\n" + "\n".join(tree) + "\n"


def _words(picture: Path) -> str:
    return picture.stem.replace("_", " ").capitalize()


def documented(package: str) -> str:
    """One section for each module of a package."""
    sections = (
        f"## `{name.removeprefix('attention_research.')}`\n\n"
        f"```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n```"
        for name in modules(package)
    )  # fmt: skip
    return "\n\n" + "\n\n".join(sections) + "\n"


def modules(package: str) -> list[str]:
    """The names of all modules of a package, or the name itself if it is a single module."""
    root = importlib.import_module(package)
    if not hasattr(root, "__path__"):
        return [package]
    found = pkgutil.walk_packages(root.__path__, f"{package}.")
    return sorted(one.name for one in found if not one.ispkg and not one.name.endswith("__main__"))


def readable(signature: str | None, returned: str | None) -> tuple[str | None, str | None]:
    """The parts of a signature, with `Array` as the name of the array type, as in the sources."""
    return tuple(part and part.replace("jaxlib._jax.Array", "Array") for part in (signature, returned))


def as_rst(lines: list[str]) -> None:
    """Converts a docstring from Markdown (code in backticks, indented blocks, lists) to reStructuredText, in place."""
    if re.match(r"Alias for field number \d+", "".join(lines)):  # the default docstring of a NamedTuple field
        lines.clear()
    blocks = [block for block in re.split(r"\n(?:[ \t]*\n)+", "\n".join(lines).strip("\n")) if block]
    lines[:] = "\n\n".join(_block(block) for block in blocks).split("\n") + [""]


def _block(block: str) -> str:
    """Converts a paragraph, a list, a doctest or a block of code."""
    if block.lstrip().startswith(">>>"):
        return block
    if block.startswith("    "):
        return f"::\n\n{block}"
    parts = CODE.split(block)  # text, backticks, code, text, ...
    marked = [
        ARXIV.sub(r"`arXiv \g<number> <https://arxiv.org/abs/\g<number>>`__", MARK.sub(r"\\\g<0>", part))
        if place % 3 == 0
        else part
        for place, part in enumerate(parts)
    ]
    marked[1::3] = [""] * len(parts[1::3])
    marked[2::3] = [rf"\ ``{code}``\ " for code in parts[2::3]]  # the backslashes allow letters directly beside code
    return "".join(marked)
