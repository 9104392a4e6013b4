"""The library of compiled loops: which build is loaded, what is refused, and builds with checks."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from plain_loops import forget_library

from unglow.core import kernels, process
from unglow.core.errors import InstallationError
from unglow.core.kernels import building


@pytest.fixture
def fresh_kernels():
    """The library is looked for again, before and after."""
    forget_library()
    yield
    forget_library()


def test_every_loop_of_the_header_can_be_called_and_nothing_else_is_exported():
    header = (building.SOURCES / "kernels.h").read_text()
    declared = set(re.findall(r"^(?:void|const char \*) ?(\w+)\(", header, re.MULTILINE))
    assert declared - {"unglow_sources"} == set(kernels.prototypes())
    assert len(declared) == 29
    for name in kernels.prototypes():
        kernels.kernel(name)
    library = ctypes.CDLL(str(kernels.library_path()))
    for inner in ("place_row", "spline", "root", "lattice_hash"):
        assert not hasattr(library, inner)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="there is one build for other machines")
def test_the_build_is_chosen_by_what_the_processor_can(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(process, "PROC", tmp_path)
    monkeypatch.delenv(kernels.CHOICE, raising=False)
    flags = "fpu sse2 avx avx2 abm bmi1 bmi2 f16c fma movbe xsave avx512f"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: x\n")
    assert kernels.library_path().name == "loops-x86-64-v3.so"
    for missing in ("avx2", "fma", "xsave"):
        cpuinfo.write_text(f"flags\t\t: {flags.replace(missing + ' ', '')}\n")
        assert kernels.level() == "x86-64"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: flags: {flags}\n")
    assert kernels.level() == "x86-64"
    cpuinfo.unlink()
    assert kernels.library_path().name == "loops-x86-64.so"


@pytest.mark.usefixtures("fresh_kernels")
@pytest.mark.parametrize(
    "kind", ["absent", "empty", 10, 700, 30_000, -1, "another library", "a directory"]
)
def test_a_library_that_cannot_be_loaded_is_reported_in_a_sentence(tmp_path, monkeypatch, kind):
    whole = kernels.library_path()
    path = tmp_path / "loops.so"
    if kind == "a directory":
        path.mkdir()
    elif kind == "another library":
        import _ctypes

        shutil.copy(_ctypes.__file__, path)
    elif kind != "absent":
        path.write_bytes(whole.read_bytes()[: 0 if kind == "empty" else kind])
    monkeypatch.setenv(kernels.CHOICE, str(path))
    with pytest.raises(InstallationError, match=r"loops\.so"):
        kernels.kernel("filtered")


@pytest.mark.usefixtures("fresh_kernels")
def test_a_library_of_other_sources_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.delenv(kernels.CHOICE, raising=False)
    monkeypatch.setattr(building, "digest", lambda: "0" * 64)
    with pytest.raises(InstallationError, match=r"other sources .*; install unglow again: python"):
        kernels.kernel("filtered")


def test_the_digest_follows_every_source(tmp_path, monkeypatch):
    for path in [*building.SOURCES.glob("*.c"), *building.SOURCES.glob("*.h")]:
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(building, "SOURCES", tmp_path)
    found = {building.digest.__wrapped__()}
    for path in sorted(tmp_path.iterdir()):
        path.write_text(path.read_text() + " ")
        found.add(building.digest.__wrapped__())
    assert len(found) == 1 + len(list(tmp_path.iterdir()))


ARRAY = np.ones((4, 6), np.float32)
READ_ONLY = ARRAY.copy()
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("place", "array", "message"),
    [
        (0, ARRAY.astype(float), "image has to be float32, not float64"),
        (0, ARRAY.astype(">f4"), "image has to be float32, not >f4"),
        (
            0,
            np.ones((4, 12), np.float32)[:, ::2],
            r"image of filtered: \(4, 6\), .*strides: \(48, 8\)",
        ),
        (0, 4096, "image has to be an array, not int"),
        (5, np.ones((8, 6), np.float32)[::2], "the numbers of out have to be neighbours in memory"),
        (5, READ_ONLY, "out cannot be written"),
        (0, ARRAY[:3], r"image of filtered: \(3, 6\), but has to be \(4, 6\)"),
        (0, ARRAY.ravel(), "image of filtered"),
        (1, 5, "image of filtered"),
        (2, ARRAY[0, :0], "taps of filtered"),
        (3, 2, "image of filtered"),
        (4, np.empty(5, np.float32), "line of filtered"),
        (5, np.empty((2, 5), np.float32), "out of filtered"),
        (6, 5, "image of filtered"),
        (6, -1, "out of filtered"),
    ],
)
def test_arrays_that_a_loop_cannot_take_are_refused(place, array, message):
    given = [ARRAY, 6, ARRAY[0, :1], 1, np.empty(6, np.float32), np.empty_like(ARRAY), 4, 6]
    kernels.kernel("filtered")(*given)
    given[place] = array
    with pytest.raises((ctypes.ArgumentError, ValueError), match=message):
        kernels.kernel("filtered")(*given)


def test_a_type_that_a_number_says_is_that_of_the_array():
    for image, kind in ((ARRAY, 2), (ARRAY.astype(">f4"), 3), (ARRAY.astype("i8"), 3)):
        with pytest.raises(ValueError, match="is not type"):
            kernels.kernel("halve")(image, 6, kind, np.empty((2, 3), image.dtype), 2, 3)


@pytest.mark.parametrize("name", kernels.prototypes())
def test_every_array_of_every_loop_has_a_size_that_is_checked(name):
    types = kernels.prototypes()[name]
    names, shapes = kernels._declarations()[name]
    given: list = [2 if n != "type" and not n.endswith("_type") else 0 for n in names]
    arrays = [at for at, one in enumerate(types) if hasattr(one, "dtype")]
    assert {names[at] for at in arrays} == set(shapes)
    for at in arrays:
        given[at] = np.empty((1 << 9, 1 << 13), types[at].dtype or "u1")
        if types[at].rows_apart:
            given[names.index(f"{names[at]}_stride")] = 1 << 13
    for at in arrays:
        small = [*given]
        small[at] = np.empty((0, 1), given[at].dtype)
        with pytest.raises(ValueError, match=rf"^{names[at]} of {name}: \(0, 1\), but has to be"):
            kernels.kernel(name)(*small)


def test_rows_may_lie_apart_where_a_stride_is_given():
    out = np.empty((2, 6), np.float32)
    given = [1, np.ones(1, np.float32), 1, np.empty(6, np.float32), out, 2, 6]
    wide = np.arange(40, dtype=np.float32).reshape(4, 10)
    given[0] = 20
    kernels.kernel("filtered")(wide[::2, 3:9], *given)
    np.testing.assert_array_equal(out, wide[::2, 3:9])
    given[0] = -10
    kernels.kernel("filtered")(wide[3:1:-1, 3:9], *given)
    np.testing.assert_array_equal(out, wide[3:1:-1, 3:9])


def test_loops_release_the_interpreter_lock():
    flag = ctypes.pythonapi  # the one kind of library whose functions keep it
    assert isinstance(flag, ctypes.PyDLL)
    assert not isinstance(kernels._library(), ctypes.PyDLL)


def test_loops_need_no_place_to_write_and_no_other_process():
    """As with a full quota, a read-only installation and no home directory."""
    code = (
        "import resource, numpy as np\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "from unglow.core.windows import Window\n"
        "from unglow.transform.resample import warp_matrix\n"
        "before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "px, window = np.ones((8, 8), np.float32), Window(0, 4, 0, 4)\n"
        "out = warp_matrix(lambda part: px[part.slices], px.shape, np.eye(3), window)\n"
        "print(out.sum(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before)\n"
    )
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "TMPDIR"), "/nonexistent")
    kept = {k: v for k, v in os.environ.items() if k in {"PATH", "PYTHONPATH", kernels.CHOICE}}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={**kept, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["16.0", "0"]


# ------------------------------------------------------------------------------------ the compiler


@pytest.fixture(scope="session")
def compiler():
    command = building.local_compiler()
    if command is None:
        pytest.skip("this machine has no C compiler that works")
    return command


def test_a_compiler_that_cannot_compile_counts_as_none(tmp_path, monkeypatch):
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho no headers >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    assert building.local_compiler() is None
    monkeypatch.setenv("CC", "no-such-compiler -x")
    assert building.local_compiler() is None
    with pytest.raises(RuntimeError, match=r"(?s)cc .*-ffp-contract=off.*no headers"):
        building.compile_library([str(broken)], tmp_path / "loops.so")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cc"]


def test_building_warns_of_nothing(compiler, tmp_path):
    strict = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-O1")
    building.compile_library(compiler, tmp_path / "loops.so", *strict)


CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")


@pytest.fixture(scope="session")
def checked(compiler, tmp_path_factory):
    """Environment in which the loops are a build that ends the process at the first fault."""
    path = tmp_path_factory.mktemp("checked") / "loops.so"
    asked = [*compiler, "-print-file-name=libasan.so"]
    runtime = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("this compiler has no address sanitizer")
    building.compile_library(compiler, path, *CHECKS)
    return {
        **os.environ,
        kernels.CHOICE: str(path),
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }


@pytest.mark.slow
def test_loops_stay_within_their_arrays_and_within_the_language(checked, project):
    words = ["-m", "pytest", "-q", "-x", "-k", "chosen", "-p", "no:cacheprovider"]
    words += ["-p", "no:xdist", "tests/unit/core/test_kernels_loops.py"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=project,
        env=checked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
