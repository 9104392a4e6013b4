"""Sentences of pages, settings and messages are short enough to be read once."""

from __future__ import annotations

import ast
import re
from itertools import chain
from pathlib import Path

import pytest
from sentences import long_parts, long_sentences

from unglow.cli import COMMANDS, main
from unglow.pages.app.settings_form import form

SRC = Path(__file__).resolve().parents[3] / "src" / "unglow"
_JOINED = re.compile(r'"\s*\+[^+"\n]*\+\s*"')
_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')


def texts_of_page(path):
    """Return the strings of a script or table; a value between two is a word of one sentence."""
    text = _JOINED.sub(" value ", path.read_text("utf-8"))
    return [found[1] or found[2] or "" for found in _TEXT.finditer(text)]


def texts_of_module(path):
    """Return the strings of a module but for those that document it; a value in one is a word."""
    skipped, texts = set(), []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(ast.walk(node))
            parts = (p.value if isinstance(p, ast.Constant) else "value" for p in node.values)
            texts.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            texts.append(node.value)
    return texts


PAGES = [p for p in SRC.rglob("*.js") if not {"vendor", "uplot"} & {*p.parts}]
PAGES.append(SRC / "core" / "reasons.toml")


@pytest.mark.parametrize("read", [texts_of_page, texts_of_module])
def test_no_sentence_has_more_than_25_words(read):
    paths = PAGES if read is texts_of_page else [*SRC.rglob("*.py")]
    found = {str(p.relative_to(SRC)): [*chain(*map(long_parts, read(p)))] for p in paths}
    assert len(found) > 30
    assert {path: sentences for path, sentences in found.items() if sentences} == {}


@pytest.mark.parametrize("key", form({}), ids=lambda key: key["name"])
def test_what_the_app_says_of_a_setting_has_no_long_sentence(key):
    assert long_sentences(key["about"]) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_terminal_says_of_a_command_has_no_long_sentence(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "10000")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    _, _, said = capsys.readouterr().out.partition("\n")
    assert long_sentences(said) == []


def test_long_sentences_are_found():
    assert long_sentences("word " * 26)
    assert long_sentences("word " * 20 + "word\n    " + "word " * 20, wrapped=True)
    assert not long_sentences("word " * 24 + "`" + "word " * 30 + "`. " + "word. " * 40)
    assert long_parts("word " * 26 + "; no")
    assert not long_parts("word " * 20 + "; " + "word " * 20)
