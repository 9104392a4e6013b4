"""Pages of the site are few and short, and name words and commands that exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from unglow.cli import COMMANDS, MODES, main

if TYPE_CHECKING:
    from pathlib import Path

MOST_WORDS = 20_000
MOST_PAGES = 20
MOST_LINKS = 20
WORD = re.compile(r"\S*\w\S*")  # bars and dashes of tables are none
# Pages of docs/ for developers, which the site does not have.
FOR_DEVELOPERS = {
    "architecture.md",
    "design-choices.md",
    "evidence.md",
    "promises.md",
    "telemetry.md",
}
MOST_PICTURE_KB = 250
WORDS = """LocalCluster n_workers memory_limit threads_per_worker csize chunks chk KilledWorker
    get_optimal_chk MemoryError checkpoints dashboard_address localhost:8787 performance_report span
    MemorySampler timeit Client.profile profile-interval transfer_incoming_log setup_cluster backend
    multiprocessing ipyparallel spawn fork forkserver OMP_NUM_THREADS VECLIB_MAXIMUM_THREADS OpenCV
    map_raster cluster.scale client.cancel
    run_batch samples dyes timeout_per_task seconds minutes subprocess memory_debug MemoryTracker
    force_run pad PEAK_FACTOR_PER_TASK SAMPLE DYE STAGE CREATED checkpoint_format parallel"""


def site_pages(project: Path) -> list[Path]:
    """Return the front page of the site and all that it lists."""
    front = project / "docs" / "site" / "index.md"
    listed = re.findall(r"</(\S+)>$", front.read_text(encoding="utf-8"), re.MULTILINE)
    return [front, *(project / f"{page}.md" for page in listed)]


def options_of(command: str, printed: pytest.CaptureFixture[str]) -> set[str]:
    """Return the options that the help of a command of unglow lists."""
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", printed.readouterr().out))


def test_the_site_has_few_pages_and_words(project):
    words = {
        str(page.relative_to(project)): len(WORD.findall(page.read_text(encoding="utf-8")))
        for page in site_pages(project)
    }
    assert len(words) <= MOST_PAGES, sorted(words)
    assert sum(words.values()) <= MOST_WORDS, words


def test_the_readme_has_few_links(project):
    links = re.findall(r"(?<!!)\[[^]!]+\]\(", (project / "README.md").read_text(encoding="utf-8"))
    assert 0 < len(links) <= MOST_LINKS


def test_every_page_is_in_the_list_of_the_site_or_for_developers(project):
    pages = {page.name for page in (project / "docs").glob("*.md")}
    listed = {page.name for page in site_pages(project) if page.parent == project / "docs"}
    assert pages == listed | FOR_DEVELOPERS
    assert not listed & FOR_DEVELOPERS


def test_words_of_other_programs_are_found(project):
    text = (project / "docs" / "coming-from.md").read_text()
    assert [word for word in WORDS.split() if word not in text] == []


@pytest.mark.parametrize("page", ["coming-from.md", "commands.md", "running.md"])
def test_commands_and_options_exist(project, page, capsys):
    text = (project / "docs" / page).read_text().replace("\n", " ")
    found = re.findall(r"`unglow ([a-z]+)((?: [^`|]*)?)`", text)
    assert found
    for command, words in found:
        assert command in COMMANDS, command
        first = (command, *words.split()[:1])
        if first in MODES:
            command, words = " ".join(first), words.split(maxsplit=1)[-1]  # noqa: PLW2901
        elif command in ("run", "resume"):
            continue
        options = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", words)) - {*first}
        assert options <= options_of(command, capsys), (command, words)


def test_pictures_are_small_and_used(project):
    text = "".join(page.read_text() for page in (project / "docs").rglob("*.md"))
    text += (project / "README.md").read_text()
    for picture in (project / "docs" / "pictures").iterdir():
        assert f"pictures/{picture.name}" in text, picture
        assert picture.stat().st_size <= MOST_PICTURE_KB * 1000, picture


def test_no_line_begins_as_a_comment(project):
    """The site leaves out lines that begin with a percent sign."""
    pages = [*(project / "docs").rglob("*.md"), *site_pages(project), *project.glob("*.md")]
    for page in pages:
        assert not re.search(r"^ *% ", page.read_text(encoding="utf-8"), re.MULTILINE), page
