"""Compiled loops: found in the cache or compiled apart, linked without numba, pages given back."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from unglow import kernels, pages
from unglow.photometry.counting import count_pairs
from unglow.warp import catmull_rom


def child(code):
    """Run a program in a fresh interpreter and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def product(function):
    """Run the kernel ``narrow_product`` on fixed numbers; its result and numpy's."""
    rng = np.random.default_rng(4)
    a, b, c = (
        (rng.normal(size=(*s, 2)) @ [1, 1j]).astype(np.complex64) for s in ((3, 8), (8, 5), (5, 3))
    )
    sums, out = np.zeros((3, 5), np.complex64), np.zeros((3, 3), np.float32)
    function(*(kernels.address(m) for m in (a, b, c, sums, out)), 3, 8, 5, 3)
    return out, (a @ b @ c).real


@pytest.mark.parametrize("writable", [True, False])
def test_what_is_not_in_the_cache_is_compiled_apart(tmp_path, monkeypatch, writable):
    # a file stands in the way of the directory that cannot be made
    (tmp_path / "file").write_text("")
    place = tmp_path / ("cache" if writable else "file/cache")
    monkeypatch.setattr(kernels, "_places", lambda: iter([place]))
    monkeypatch.setattr(kernels, "_loaded", {})
    out, expected = product(kernels.kernel("narrow_product"))
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert [p.suffix for p in tmp_path.glob("cache/*")] == ([".kernel"] if writable else [])
    if writable:  # the second time the file is used, and not replaced
        (file,) = place.iterdir()
        before = file.stat().st_mtime_ns
        kernels._loaded.clear()
        np.testing.assert_array_equal(product(kernels.kernel("narrow_product"))[0], out)
        assert file.stat().st_mtime_ns == before


def test_a_file_that_is_not_whole_is_not_used(tmp_path):
    kernels.load("narrow_product")
    found = [p for place in kernels._places() for p in place.glob("narrow_product-*.kernel")]
    if not found:
        pytest.skip("no cache directory can be written here")
    whole = found[0].read_bytes()
    copy = tmp_path / "copy.kernel"
    copy.write_bytes(whole)
    assert kernels._read(copy) is not None
    for damaged in (whole[:-1], whole[:40], b"", whole[:-8] + b"12345678"):
        copy.write_bytes(damaged)
        assert kernels._read(copy) is None
    assert kernels._read(tmp_path / "absent.kernel") is None


def test_every_kernel_is_called_with_the_arguments_of_its_loop():
    import inspect

    from unglow.kernels import loops

    for name, codes in kernels.KERNELS.items():
        loop = getattr(loops, name.partition("-")[0])
        assert len(codes.split()) == len(inspect.signature(loop).parameters), name


def test_jobs_need_neither_numba_nor_scipy():
    modules = child(
        "from unglow import kernels; kernels.load('catmull_rom', 'narrow_product')\n"
        "import sys, numpy as np\n"
        "import unglow.align, unglow.registration.stores\n"
        "from unglow.blocks import ArrayPixels\n"
        "image = np.random.default_rng(1).poisson(90, (256, 256))\n"
        "unglow.registration.register(ArrayPixels(image), ArrayPixels(image))\n"
        "print(*sys.modules)"
    )
    assert "cv2" in modules
    assert "llvmlite" in modules
    assert not {"numba", "scipy", "zarr"} & set(modules)


# What of the compiler's library was written when it was loaded, and stays.
RELOCATED_MB = 15

needs_smaps = pytest.mark.skipif(
    not pages._SMAPS.exists(), reason="the system does not tell what is resident"
)


@needs_smaps
def test_pages_of_the_compiler_are_given_back_and_results_stay_the_same():
    resident = "sum(m.kilobytes['Rss'] for m in pages.mappings('libllvmlite')) / 1e3"
    before, freed, after, *same = child(
        "import ctypes, numpy as np, llvmlite.binding as llvm\n"
        "from unglow import pages\n"
        "from unglow.warp import catmull_rom\n"
        "def warped():\n"
        "    source = np.arange(400, dtype=np.float32).reshape(20, 20) ** 1.5\n"
        "    matrix = np.array([[1, 0.1, 3], [-0.1, 1, 4], [0, 0, 1.0]])\n"
        "    out = np.zeros((9, 9), np.float32)\n"
        "    catmull_rom(source, 0, 0, 20, 20, matrix, 0, 0, out)\n"
        "    return out.tobytes()\n"
        "first = warped()\n"
        "for m in pages.mappings('libllvmlite'):  # as if all of it had been used\n"
        "    for at in range(m.start, m.end if m.clean else m.start, 4096):\n"
        "        ctypes.string_at(at, 1)\n"
        f"print({resident}); print(pages.give_back('libllvmlite')); print({resident})\n"
        "print(first == warped(), llvm.get_host_cpu_name() != '')"
    )
    assert float(before) > 60
    assert float(freed) > float(before) - RELOCATED_MB
    assert float(after) < RELOCATED_MB
    assert same == ["True", "True"]


@needs_smaps
def test_loading_leaves_little_of_the_compiler_behind():
    (resident,) = child(
        "from unglow import kernels, pages; kernels.load('catmull_rom')\n"
        "print(sum(m.kilobytes['Rss'] for m in pages.mappings('libllvmlite')) / 1e3)"
    )
    assert float(resident) < RELOCATED_MB


@needs_smaps
def test_only_clean_pages_of_libraries_count_as_clean():
    ours = pages.mappings("libc.so") or pages.mappings("ld-")
    assert ours
    assert all(not m.clean for m in ours if "w" in m.rights)
    assert any(m.clean for m in ours)
    assert not pages.mappings("no-such-library")
    relocated = pages.Mapping(0, 4096, "r--p", "x.so", {"Anonymous": 4, "Private_Dirty": 4})
    assert not relocated.clean
    assert not pages.Mapping(0, 4096, "r--p", "x.so", {}).clean  # where nothing is told


def test_arrays_with_gaps_are_refused():
    source, out = np.zeros((8, 8), np.float32), np.zeros((4, 4), np.float32)
    with pytest.raises(ValueError, match="neighbours in memory"):
        catmull_rom(source[:, ::2], 0, 0, 8, 4, np.eye(3), 0, 0, out)
    with pytest.raises(ValueError, match="takes float32, not float64"):
        catmull_rom(source.astype(float), 0, 0, 8, 8, np.eye(3), 0, 0, out)
    wide = np.zeros((4, 9), np.float32)
    catmull_rom(source + 1, 0, 0, 8, 8, np.eye(3), 0, 0, wide[:, 2:6])
    assert (wide[:, 2:6] == 1).all()
    assert (wide[:, [0, 1, 6, 7, 8]] == 0).all()
    with pytest.raises(ValueError, match="without gaps"):
        count_pairs(*(source[:, ::2] for _ in range(11)))
