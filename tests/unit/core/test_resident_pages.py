"""Giving back the pages of libraries: only what the file still has, and results stay the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unglow.core import own_memory, process

needs_smaps = pytest.mark.skipif(
    not process.is_mounted(), reason="the system does not report what is resident"
)


@needs_smaps
def test_pages_of_a_library_are_given_back_and_results_stay_the_same():
    code = (
        "import ctypes, cv2, numpy as np\n"
        "from unglow.core import own_memory\n"
        "resident = lambda: sum(m.kilobytes['Rss'] for m in own_memory.mappings('cv2')) / 1e3\n"
        "image = np.arange(40000, dtype=np.float32).reshape(200, 200) ** 1.5\n"
        "blurred = lambda: cv2.GaussianBlur(image, (0, 0), 2.5).tobytes()\n"
        "first = blurred()\n"
        "for m in own_memory.mappings('cv2'):  # as if all of it had been used\n"
        "    for at in range(m.start, m.end if m.clean else m.start, 4096):\n"
        "        ctypes.string_at(at, 1)\n"
        "print(resident(), own_memory.release_pages('cv2'), resident(), first == blurred())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, freed, after, same = done.stdout.split()
    assert float(before) > 40
    assert float(freed) > 0.7 * float(before)
    assert float(after) < 0.3 * float(before)
    assert same == "True"


@needs_smaps
def test_only_clean_pages_of_libraries_count_as_clean():
    ours = own_memory.mappings("libc.so") or own_memory.mappings("ld-")
    assert ours
    assert all(not m.clean for m in ours if "w" in m.rights)
    assert any(m.clean for m in ours)
    assert not own_memory.mappings("no-such-library")
    relocated = own_memory.Mapping(0, 4096, "r--p", "x.so", {"Anonymous": 4, "Private_Dirty": 4})
    assert not relocated.clean
    assert not own_memory.Mapping(0, 4096, "r--p", "x.so", {}).clean  # where nothing is reported
