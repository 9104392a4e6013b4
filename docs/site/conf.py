"""How Sphinx makes the documentation site: `make docs` writes it to build/docs.

The pages are the Markdown files of the repository where they are, so that links between them are
the same here and on GitHub. docs/site/index.md is the front page and has the list at the side.
Nothing is fetched from other hosts.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.parsers.rst import Directive

from unglow.cli import COMMANDS, MODES, main

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "unglow"
author = project_copyright = "The unglow developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/site/index"
include_patterns = ["README.md", "docs/*.md", "docs/*/*.md", "config/README.md"]
# Pages for developers are read in the repository.
exclude_patterns = [
    *(".*", "build", "demo", "mutants", "src", "tests"),
    *(f"docs/{name}.md" for name in ("architecture", "design-choices", "evidence")),
    *("docs/promises.md", "docs/telemetry.md"),
]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "unglow"
html_extra_path = ["extra"]
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_js_files = ["pages.js"]
html_show_sphinx = html_copy_source = False
highlight_language = "text"
# The reference of Python: docstrings as they are, `names` in them as links where there is a target.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
default_role = "py:obj"
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"


class CommandHelp(Directive):
    """``.. command-help::``: a section for each command with the text of its ``--help``."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        os.environ.update(COLUMNS="88", NO_COLOR="1")
        return [self._section(name) for name in (*COMMANDS, *map(" ".join, MODES))]

    @staticmethod
    def _section(name: str) -> nodes.Node:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([*name.split(), "--help"])
        title = nodes.title(text=f"unglow {name}")
        text = nodes.literal_block(text=printed.getvalue(), language="text")
        key = "unglow-" + name.replace(" --", "-")
        return nodes.section("", title, text, ids=[key], names=[key])


def drop_links_of_developers(_app: Sphinx, name: str, source: list[str]) -> None:
    """Drop the row of README.md that leads to pages which the site does not have."""
    if name == "README":
        source[0] = re.sub(r"(?m)^\| Code \|.*\n", "", source[0])


def setup(app: Sphinx) -> None:
    """Give the directive its name, and the README its links."""
    app.add_directive("command-help", CommandHelp)
    app.connect("source-read", drop_links_of_developers)
