"""The Sphinx configuration of the site, which `make docs` builds in build/docs.

The sources are the pages of the repository in their own folders, so that links work on the site as in the repository.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from site_extension.sources import linkcode_resolve  # noqa: E402, F401

project = "attention_research"
copyright = "the authors, Apache-2.0"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.linkcode", "site_extension"]
root_doc = "docs/index"
include_patterns = ["docs/**", "experiments/**/*.md", "benchmarks/README.md", "CHANGELOG.md", "CONTRIBUTING.md"]

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_labels = False
html_math_renderer = "mathml"
# Pages with study tables may begin at any heading level. A type such as `bytes` may have the name of an attribute.
suppress_warnings = ["myst.header", "ref.python"]

# Notebooks are executed when they have changed. The cache is in the folder of the site.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 1200
nb_execution_in_temp = True
nb_output_stderr = "remove"
nb_ipywidgets_js = {}

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
add_module_names = False
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = "Attention research"
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["site.css"]
