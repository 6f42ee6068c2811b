"""How Sphinx builds the site; `make docs` runs it after docs/make.py."""

from __future__ import annotations

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import bayeslaw

project = "bayeslaw"
author = "the bayeslaw developers"
version = release = bayeslaw.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "commands_head.md"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
default_role = "py:obj"  # a name in single backticks, as docstrings have them, links to what has that name
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_param = False  # types in words are no cross-references
napoleon_use_rtype = False
napoleon_use_ivar = True
# Napoleon takes what stands before a colon in a property's docstring for its type, and looks for `name` and `draws`.
suppress_warnings = ["ref.python"]
copyright = "the bayeslaw developers"  # noqa: A001
html_theme = "furo"
html_title = f"bayeslaw {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Tables in texts are shown as they are."""
    app.add_lexer("csv", TextLexer)
