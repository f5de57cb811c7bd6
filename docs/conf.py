"""The site: `make docs` builds it into build/docs.

Its sources are the repository's own pages where they stand, so that every link works on the site as in the repository.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

project = "attention_research"
copyright = "the authors, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "site_extension", "site_math"]
root_doc = "docs/index"
include_patterns = ["docs/**", "experiments/**/*.md", "benchmarks/README.md", "CHANGELOG.md"]

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_labels = False
html_math_renderer = "mathml"
# A table of a study begins where it begins; a type named `bytes` may be called like an attribute somewhere.
suppress_warnings = ["myst.header", "ref.python"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
add_module_names = False
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = "Attention research"
html_show_sourcelink = False
