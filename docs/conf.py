"""The documentation site: ``make docs`` builds it from the pages beside this file and from the docstrings."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cnnpool import __version__  # noqa: E402
from scripts.docs import site  # noqa: E402

project = "cnnpool"
author = copyright = "The cnnpool developers"
release = version = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb"]
exclude_patterns = ["generated/readme.md", "bench"]
root_doc = "index"

myst_heading_anchors = 3
nb_merge_streams = True
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300

autodoc_default_options = {"members": False}
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_preprocess_types = False
python_display_short_literal_types = True

html_theme = "furo"
html_title = f"cnnpool {release}"
html_static_path = ["site"]
html_css_files = ["wide.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "monokai"


def setup(app: Sphinx) -> None:
    """Write the pages that come from the code before any is read."""
    app.connect("builder-inited", lambda app: site.write(Path(app.srcdir)))
    app.connect("autodoc-process-signature", site.readable_signature)
    app.connect("autodoc-process-docstring", site.plain_bars)
    app.connect("source-read", site.adapt)
