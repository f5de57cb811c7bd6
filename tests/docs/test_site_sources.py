"""A link to a file of the repository leads to a page that shows it. Unlisted pages share a sidebar."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

pytest.importorskip("myst_parser")
from site_extension import navigation  # noqa: E402

CONF = """
extensions = ["myst_parser", "site_extension.sources", "site_adopted"]
html_theme = "basic"
"""
ADOPTED = """
from site_extension.api import adopt
setup = lambda app: app.connect("doctree-read", adopt) and None
"""
PAGE = """# Page

[code](code/a.py), [again](code/a.py), [table](code/t.csv), [picture](code/p.bin)

```{eval-rst}
Some *text*.
```
"""


@pytest.mark.slow
def test_a_source_file_is_a_page_with_numbered_lines(tmp_path):
    from sphinx.application import Sphinx

    (tmp_path / "code").mkdir()
    (tmp_path / "code/a.py").write_text("x = 1\n\n\ndef f():\n    return '<b>'\n")
    (tmp_path / "code/t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "code/p.bin").write_text("data")
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "site_adopted.py").write_text(ADOPTED)
    (tmp_path / "index.md").write_text(PAGE)
    sys.path.insert(0, str(tmp_path))
    try:
        app = Sphinx(tmp_path, tmp_path, tmp_path / "out", tmp_path / "trees", "html", status=None, warningiserror=True)
        app.build()
    finally:
        sys.path.remove(str(tmp_path))
    page = (tmp_path / "out/index.html").read_text()
    assert page.count('href="source/code/a.py.html"') == 2 and 'href="source/code/t.csv.html"' in page
    assert re.search(r'href="_downloads/\w+/p.bin"', page) and not [*(tmp_path / "out/_downloads").glob("*/a.py")]
    source = (tmp_path / "out/source/code/a.py.html").read_text()
    assert 'id="line-4"' in source and 'class="k">def' in source and "&lt;b&gt;" in source
    tree = app.env.get_doctree("index")
    assert all(node.document is tree for node in tree.findall())


def test_the_sidebar_of_another_folder_has_links_from_there():
    text = '<a href="#">Kernels</a> <a href="../index.html">x</a> <a href="https://arxiv.org">y</a>'
    moved = navigation.relative(text, "docs/api/kernels", "source/attention_research")
    assert re.findall('href="([^"]+)"', moved) == [
        "../../docs/api/kernels.html", "../../docs/index.html", "https://arxiv.org"
    ]  # fmt: skip
    assert navigation.relative(text, "docs/api/kernels", "docs/api").startswith('<a href="kernels.html">')
    assert navigation.listed("docs/index") is None
