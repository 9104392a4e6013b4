"""A working directory with odd names, and a server that shows it to the app's page."""

from __future__ import annotations

import pytest
from seeing_app import SeenApp, write_image

from unglow.pages.app.workplace import Workplace


@pytest.fixture
def work(tmp_path):
    """A directory with a pair that is recognised, and two images in photos/ that are not."""
    for n, name in enumerate(("raw/S1/S1_pre_DAPI.tif", "raw/S1/S1_post_DAPI.tif")):
        write_image(tmp_path / "work" / name, n)
    for n, name in enumerate(("photos/a_untreated_DAPI.tif", "photos/a_treated_DAPI.tif")):
        write_image(tmp_path / "work" / name, n)
    return tmp_path / "work"


@pytest.fixture
def seen(work):
    with SeenApp(Workplace(work)) as seen:
        yield seen
