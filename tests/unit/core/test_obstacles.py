"""What is in the way of files is found before they are written."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tifffile

from unglow.cli import main
from unglow.core.errors import InputError
from unglow.jobs.snakemake_command import obstacles, refuse_what_snakemake_stumbles_over

# Root may write everywhere, unless it gives that up.
AS_OTHERS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
UNGLOW = Path(sys.executable).with_name("unglow")
ASK = """
import sys
from pathlib import Path
from unglow.jobs.snakemake_command import obstacles
print(*obstacles([Path(sys.argv[1])]))
"""


def test_directories_that_are_missing_are_no_obstacle(tmp_path):
    (tmp_path / "there").write_text("")
    (tmp_path / "empty").mkdir()
    names = ("new", "a/b/c/new", "there", "empty")
    assert obstacles(tmp_path / name for name in names) == []


def test_a_file_where_a_directory_has_to_be_is_reported_once(tmp_path):
    (tmp_path / "logs").write_text("")
    files = [tmp_path / "logs" / "a" / f"{n}.log" for n in range(9)]
    (sentence,) = {*obstacles(files)}
    assert sentence == f"{tmp_path / 'logs'} is a file, but has to be a directory: move it away."


def test_a_directory_where_a_file_has_to_be_is_reported(tmp_path):
    (tmp_path / "scale.json" / "x").mkdir(parents=True)
    (sentence,) = obstacles([tmp_path / "scale.json"])
    assert (
        sentence == f"{tmp_path / 'scale.json'} is a directory, but has to be a file: move it away."
    )


def test_a_link_that_leads_nowhere_is_reported(tmp_path):
    (tmp_path / "results").symlink_to(tmp_path / "gone")
    (sentence,) = obstacles([tmp_path / "results" / "x"])
    assert sentence.startswith(f"{tmp_path / 'results'} is a link that leads nowhere")


@pytest.mark.parametrize("name", [Path("x"), Path("a") / "x"])
def test_a_directory_that_may_not_be_written_is_reported(tmp_path, name):
    tmp_path.chmod(0o555)
    command = (sys.executable, "-c", ASK, name)
    words = (*AS_OTHERS, *command) if os.geteuid() == 0 else command
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    tmp_path.chmod(0o755)
    assert done.stdout.startswith("the working directory may not be written")


def test_what_snakemake_stumbles_over_is_said_before_it_does(tmp_path, monkeypatch):
    refuse_what_snakemake_stumbles_over()
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/sys/cache")
    with pytest.raises(InputError, match=r"a cache in /proc/sys/cache, but .* Or set XDG_CACHE_HO"):
        refuse_what_snakemake_stumbles_over()
    monkeypatch.delenv("XDG_CACHE_HOME")
    (tmp_path / ".cache").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"\.cache is a file, but has to be a directory"):
        refuse_what_snakemake_stumbles_over()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    refuse_what_snakemake_stumbles_over()
    if find_spec("snakemake_executor_plugin_slurm") is not None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(InputError, match="the program `which` is not found"):
            refuse_what_snakemake_stumbles_over()


def ended(words, stdout=subprocess.PIPE, **more):
    pipes = {"stdout": stdout, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(words, check=False, **pipes, **more)


def blocked(place, kind):
    """Put a file or a full directory somewhere."""
    if kind == "file":
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x")
    else:
        (place / "x").mkdir(parents=True)


@pytest.mark.parametrize(
    ("words", "place", "kind", "message"),
    [
        (("status",), "results", "file", "results is a file"),
        (("status",), "results/telemetry", "file", "results/telemetry is a file"),
        (("monitor", "--once"), "results/telemetry", "file", "results/telemetry is a file"),
        (("monitor", "--once"), "results", "file", "results is a file"),
        (("verify", "--clean"), "results/telemetry", "file", "results/telemetry is a file"),
        (("resume",), "results/telemetry", "file", "results/telemetry is a file"),
        (("survey",), "config/config.yaml", "directory", "config/config.yaml is a directory"),
        (("survey",), "config/samples.tsv", "directory", "samples.tsv cannot be read (Is a dir"),
        (("init", "raw", "--force"), "config", "file", "could not be written (File exists)"),
        (("report",), "results", "file", "results is not a directory"),
        (("report",), "results/report.html", "directory", "could not be written (Is a directory)"),
    ],
)
def test_a_command_says_in_a_sentence_what_is_in_its_way(
    tmp_path, monkeypatch, capsys, words, place, kind, message
):
    rng = np.random.default_rng(0)
    for role in ("pre", "post"):
        (tmp_path / "raw" / "S").mkdir(parents=True, exist_ok=True)
        image = rng.integers(0, 200, (64, 64), np.uint8)
        tifffile.imwrite(tmp_path / "raw" / "S" / f"{role}_D.tif", image)
    blocked(tmp_path / place, kind)
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith(f"unglow {words[0]}")


def test_telemetry_that_may_not_be_read_is_not_taken_for_none(tmp_path):
    telemetry = tmp_path / "results" / "telemetry"
    telemetry.mkdir(parents=True)
    telemetry.chmod(0)
    command = (UNGLOW, "status", tmp_path)
    words = (*AS_OTHERS, *command) if os.geteuid() == 0 else command
    done = ended(words)
    telemetry.chmod(0o755)
    assert done.returncode == 2
    assert done.stderr.startswith(f"unglow status: {telemetry} may not be read")
    assert done.stderr.count("\n") == 1


def test_a_full_disk_behind_the_output_is_a_sentence(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = ended((UNGLOW, "monitor", "--once", tmp_path), stdout=full)
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr
