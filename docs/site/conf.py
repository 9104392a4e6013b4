"""How Sphinx makes the documentation site: `make docs` writes it to build/docs.

The pages are the Markdown files of the repository where they are, so that links between them are
the same here and on GitHub. README.md is the home page. Nothing is fetched from other hosts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent

project = "unglow"
author = project_copyright = "The unglow developers"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/*/*.md", "*/README.md", "profiles/*/README.md"]
exclude_patterns = [".*", "docs/site", "build", "demo", "mutants", "src", "tests"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "unglow"
html_extra_path = ["extra"]
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_sphinx = html_copy_source = False
highlight_language = "text"


def add_contents(_app: Sphinx, name: str, source: list[str]) -> None:
    """Append the table of contents of the whole site to the home page."""
    if name == root_doc:
        source[0] += (HERE / "contents.md").read_text()


def setup(app: Sphinx) -> None:
    """Have the contents added as the home page is read."""
    app.connect("source-read", add_contents)
