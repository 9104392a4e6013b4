"""How Sphinx makes the documentation site: `make docs` writes it to build/docs.

The pages are the Markdown files of the repository where they are, so that links between them are
the same here and on GitHub. docs/site/index.md is the front page and has the list at the side.
Nothing is fetched from other hosts.
"""

from __future__ import annotations

project = "unglow"
author = project_copyright = "The unglow developers"
extensions = ["myst_parser"]
root_doc = "docs/site/index"
include_patterns = ["*.md", "docs/*.md", "docs/*/*.md", "*/README.md", "profiles/*/README.md"]
exclude_patterns = [".*", "build", "demo", "mutants", "src", "tests"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "unglow"
html_extra_path = ["extra"]
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_js_files = ["pages.js"]
html_show_sphinx = html_copy_source = False
highlight_language = "text"
