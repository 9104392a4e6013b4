"""Pages for users are short, in the list of the site, and name words and commands that exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from unglow.cli import COMMANDS, main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_WORDS = 20_000
# Pages to look something up in, or for developers; all others are read from begin to end.
REFERENCE = {
    "architecture.md",
    "commands.md",
    "design-choices.md",
    "evidence.md",
    "glossary.md",
    "promises.md",
    "reference.md",
    "result-files.md",
    "telemetry.md",
}
# Tables to look something up in (keys, columns, names of files, words of another program): their
# first lines.
TABLES = (
    "| pre-stain image |",
    "| key | default |",
    "| column | required |",
    "| column | needed |",
    "| there | here |",
)
MOST_PICTURE_KB = 250
WORDS = {
    "coming-from.md": """LocalCluster n_workers memory_limit threads_per_worker csize chunks chk
        KilledWorker get_optimal_chk MemoryError checkpoints dashboard_address localhost:8787
        performance_report span MemorySampler timeit Client.profile profile-interval
        transfer_incoming_log setup_cluster backend multiprocessing ipyparallel spawn fork
        forkserver OMP_NUM_THREADS
        VECLIB_MAXIMUM_THREADS OpenCV map_raster cluster.scale client.cancel""",
    "from-exo2micro.md": """run_batch n_workers samples dyes timeout_per_task seconds minutes
        subprocess memory_debug MemoryTracker force_run pad PEAK_FACTOR_PER_TASK SAMPLE DYE
        STAGE CREATED checkpoint_format parallel""",
}


def user_pages(project: Path) -> Iterator[Path]:
    """Yield the pages that users read."""
    yield from (page for page in (project / "docs").glob("*.md") if page.name not in REFERENCE)
    yield from (project / "profiles").rglob("README.md")
    yield project / "docs" / "site" / "index.md"
    yield project / "config" / "README.md"
    yield project / "README.md"


def count_words(page: Path) -> int:
    """Return how many words `wc -w` counts, without lists of pages and `TABLES`."""
    text = re.sub(r"```{toctree}.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    counted, in_table = 0, False
    for line in text.splitlines():
        in_table = line.startswith(TABLES) or (in_table and line.startswith("|"))
        counted += 0 if in_table else len(line.split())
    return counted


def options_of(command: str, printed: pytest.CaptureFixture[str]) -> set[str]:
    """Return the options that the help of a command of unglow lists."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", printed.readouterr().out))


def test_pages_for_users_hold_few_words(project):
    words = {str(page.relative_to(project)): count_words(page) for page in user_pages(project)}
    assert sum(words.values()) <= MOST_WORDS, words


def test_every_page_is_in_the_list_of_the_site(project):
    contents = (project / "docs" / "site" / "index.md").read_text()
    listed = set(re.findall(r"</(\S+)>$", contents, re.MULTILINE))
    pages = {f"docs/{page.stem}" for page in (project / "docs").glob("*.md")}
    assert pages <= listed
    assert all((project / f"{page}.md").is_file() for page in listed)


@pytest.mark.parametrize("page", WORDS)
def test_words_of_other_programs_are_found(project, page):
    text = (project / "docs" / page).read_text()
    assert [word for word in WORDS[page].split() if word not in text] == []


@pytest.mark.parametrize("page", [*WORDS, "commands.md", "running.md"])
def test_commands_and_options_exist(project, page, capsys):
    text = (project / "docs" / page).read_text().replace("\n", " ")
    found = re.findall(r"`unglow ([a-z]+)((?: [^`|]*)?)`", text)
    assert found
    for command, words in found:
        assert command in COMMANDS, command
        if command in ("run", "resume"):
            continue
        options = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", words))
        assert options <= options_of(command, capsys), (command, words)


def test_pictures_are_small_and_used(project):
    text = "".join(page.read_text() for page in (project / "docs").rglob("*.md"))
    text += (project / "README.md").read_text()
    for picture in (project / "docs" / "pictures").iterdir():
        assert f"pictures/{picture.name}" in text, picture
        assert picture.stat().st_size <= MOST_PICTURE_KB * 1000, picture


def test_no_line_begins_as_a_comment(project):
    """The site leaves out lines that begin with a percent sign."""
    pages = [*(project / "docs").rglob("*.md"), *user_pages(project), *project.glob("*.md")]
    for page in pages:
        assert not re.search(r"^ *% ", page.read_text(encoding="utf-8"), re.MULTILINE), page
