"""What is installed: wheels and the source archive hold what they should, and the loops run."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest
from real_runs import runs_of, small_phantom

from unglow.core import kernels
from unglow.core.kernels import building


def built(project, place, kind, **more):
    """Build a wheel or a source archive as installers do, and return it."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(place)]
    done = subprocess.run(
        words, cwd=project, env={**os.environ, **more}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = place.iterdir()
    return made


@pytest.fixture(scope="module")
def archive(project, tmp_path_factory):
    """The source archive, and the sources that come out of it."""
    place = tmp_path_factory.mktemp("archive")
    made = built(project, place / "dist", "sdist")
    with tarfile.open(made) as content:
        names = content.getnames()
        content.extractall(place, filter="data")
    return names, place / made.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def local_wheel(archive, tmp_path_factory):
    """A wheel for this machine."""
    return built(archive[1], tmp_path_factory.mktemp("local"), "wheel", UNGLOW_TARGET="")


def check_wheel(wheel, system, machine, tmp_path, monkeypatch):
    """Compare a wheel with what it should hold, and run what it has for this machine."""
    tag = f"py3-none-{system}_{machine}"
    assert wheel.name.endswith(f"-{tag}.whl")
    with zipfile.ZipFile(wheel) as content:
        found = {n for n in content.namelist() if n.endswith(".so")}
        metadata = content.read(
            next(n for n in content.namelist() if n.endswith("/WHEEL"))
        ).decode()
        content.extractall(tmp_path)
    names = [building.file_name(level) for level in building.levels(machine)]
    assert found == {f"unglow/core/kernels/{name}" for name in names}
    assert "Root-Is-Purelib: false" in metadata
    assert f"Tag: {tag}\n" in metadata
    if machine != platform.machine():
        return
    level = building.file_name(kernels.level())
    monkeypatch.setenv(kernels.CHOICE, str(tmp_path / "unglow" / "core" / "kernels" / level))
    words = ["-m", "pytest", "-q", "-k", "chosen", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, *words, "tests/unit/core/test_kernels_loops.py"],
        cwd=building.SOURCES.parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def check_workflow(installed):
    """Plan a run by the workflow that a wheel holds, far from any checkout."""
    work = installed / "work"
    work.mkdir()
    small_phantom(work)
    words = [sys.executable, "-Pm", "unglow", "run", "-n", "--workflow-profile", "serial"]
    done = subprocess.run(
        words,
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "1 figures" in output  # in the words of the logger plugin
    assert f"{installed}/unglow/snakefile/profiles/serial" in output, output


def test_the_source_archive_has_sources_and_nothing_compiled(archive):
    names, _ = archive
    files = {name.partition("/")[2] for name in names}
    assert "src/hatch_build.py" in files
    for source in building.SOURCES.iterdir():
        if source.suffix in {".c", ".h", ".py"}:
            assert f"src/unglow/core/kernels/{source.name}" in files
    assert not [name for name in files if name.endswith((".so", ".pyc"))]


def test_a_wheel_made_with_the_compiler_of_the_machine(local_wheel, tmp_path, monkeypatch):
    if building.local_compiler() is None:
        pytest.skip("this machine has no C compiler that works")
    check_wheel(local_wheel, "linux", platform.machine(), tmp_path, monkeypatch)
    check_workflow(tmp_path)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_wheel_made_without_a_compiler(archive, tmp_path, monkeypatch, machine):
    pytest.importorskip("ziglang")
    native = machine == platform.machine()
    # of this machine as where there is no compiler, of the other one as for a release
    more = {"CC": "no-such-compiler"} if native else {"UNGLOW_TARGET": machine}
    wheel = built(archive[1], tmp_path / "dist", "wheel", **more)
    check_wheel(wheel, "manylinux_2_17", machine, tmp_path, monkeypatch)


def test_a_wheel_for_macos_holds_libraries_of_macos(archive, tmp_path):
    """Built, and never run: there is no such machine here."""
    pytest.importorskip("ziglang")
    wheel = built(archive[1], tmp_path / "dist", "wheel", UNGLOW_TARGET="arm64-macos")
    assert wheel.name.endswith("-py3-none-macosx_11_0_arm64.whl")
    with zipfile.ZipFile(wheel) as content:
        (name,) = [n for n in content.namelist() if n.endswith(".so")]
        head = content.read(name)[:8]
    assert name == "unglow/core/kernels/loops-arm64.so"
    assert head == bytes.fromhex("cffaedfe0c000001")  # Mach-O of 64 bit, ARM


def test_an_installed_wheel_runs_where_there_is_no_checkout_and_no_compiler(local_wheel, tmp_path):
    """In an environment of its own; libraries are those of the tests, without their unglow."""
    home = tmp_path / "env"
    venv.create(home)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", str(local_wheel)], check=True)
    packages = next((home / "lib").glob("python3*")) / "site-packages"
    # a path in such a file is searched, but no such files in it: not those of `pip install -e`
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "which"):
        (tools / name).symlink_to(str(shutil.which(name)))
    work = tmp_path / "work"
    work.mkdir()
    unglow = str(home / "bin" / "unglow")

    def run(*words):
        known = {name: os.environ[name] for name in ("XDG_CACHE_HOME",) if name in os.environ}
        done = subprocess.run(
            [unglow, *words],
            cwd=work,
            env={"PATH": f"{home}/bin:{tools}", "HOME": str(tmp_path), **known},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert run("run", "--where").strip() == str(packages / "unglow" / "snakefile" / "Snakefile")
    run("phantom", "--size", "700x900")
    output = run("run", "--cores", "2")
    (record,) = runs_of(work / "results")
    workflow = json.loads(record.read_text().partition("\n")[0])["workflow"]
    assert workflow == str(packages / "unglow" / "snakefile")
    assert "results/summary.tsv: 1 ok" in output
    assert (work / "results" / "report.html").is_file()
