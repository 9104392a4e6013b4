"""Results that the tests of this folder look at, and a server that shows them."""

from __future__ import annotations

import pytest
from made_results import made_pair, refused
from seeing import Seen

from unglow.core.reasons import read_table


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A results directory with a pair that is done and one that failed; not to be changed."""
    results = tmp_path_factory.mktemp("work") / "results"
    made_pair(results / "S1" / "DAPI")
    refused(results / "S2" / "DAPI", read_table()["unlike"].sentence)
    return results


@pytest.fixture(scope="session")
def seen(finished):
    """Those results, on a real server."""
    with Seen(finished) as seen:
        yield seen
