"""Source files as highlighted pages of the site.

- A link in a page to a file of the repository whose ending is in `LEXERS` leads to `source/<path>.html`, not to a
  download.
- `sphinx.ext.linkcode` puts a link beside each function and class of the API; `linkcode_resolve` says which line of
  which page it leads to.

`sphinx.ext.viewcode` makes such pages of modules with documented objects only: not of studies, configs and tests.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms import SphinxTransform

#: The ending of a file that is shown as a page -> the language of its highlighting.
LEXERS = {".py": "python", ".toml": "toml", ".cfg": "ini", ".csv": "none", ".txt": "none"}


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(LinksToSources)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True}


def page_of(path: str) -> str:
    """The name of the page that shows a file, from the root of the site."""
    return f"source/{path}"


def linkcode_resolve(domain: str, described: dict[str, str]) -> str | None:
    """The link from a page in docs/api to the definition of an object."""
    if domain != "py" or not described["module"]:
        return None
    analyzer = ModuleAnalyzer.for_module(described["module"])
    path = Path(analyzer.srcname).relative_to(Path.cwd()).as_posix()
    _, line, _ = analyzer.find_tags().get(described["fullname"], ("", 1, 1))
    return f"../../{page_of(path)}.html#line-{line}"


class LinksToSources(SphinxTransform):
    """Turns links to the download of a source file into links to its page."""

    default_priority = 600

    def apply(self, **kwargs: Any) -> None:
        root = Path(self.env.srcdir)
        for link in [*self.document.findall(addnodes.download_reference)]:
            path = self.env.relfn2path(link["reftarget"], self.env.docname)[0]
            if Path(path).suffix in LEXERS and (root / path).is_file():
                target = os.path.relpath(f"{page_of(path)}.html", Path(self.env.docname).parent)
                children = [nodes.inline("", "", *one.children) for one in link.children]
                link.replace_self(nodes.reference("", "", *children, refuri=target, internal=True))
                self.env.metadata[self.env.docname].setdefault("sources", set()).add(path)


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of the linked files that have changed since they were written."""
    linked = {path for metadata in app.env.metadata.values() for path in metadata.get("sources", ())}
    for path in sorted(linked):
        file, name = Path(app.srcdir, path), page_of(path)
        written = Path(app.outdir, f"{name}.html")
        if written.exists() and written.stat().st_mtime > file.stat().st_mtime:
            continue
        code = app.builder.highlighter.highlight_block(
            file.read_text(encoding="utf-8"), LEXERS[file.suffix], linenos="inline", lineanchors="line"
        )
        title = html.escape(path).replace("/", "/<wbr>")
        body = f'<h1><code>{title}</code></h1>\n<div class="source-file">{code}</div>'
        yield name, {"title": path, "body": body}, "page.html"
