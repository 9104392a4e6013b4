"""Phantoms: realistic pre/post pairs of any size whose map, gain and microbes are known exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unglow.phantom.spec import PhantomSpec

if TYPE_CHECKING:
    from unglow.phantom.pair import make_pair
    from unglow.phantom.truth import Truth

__all__ = ["PhantomSpec", "Truth", "make_pair"]


def __getattr__(name: str) -> Any:
    # Late, so that the command line does not wait for libraries when it lists its options.
    if name == "make_pair":
        from unglow.phantom.pair import make_pair  # see above

        return make_pair
    if name == "Truth":
        from unglow.phantom.truth import Truth  # see above

        return Truth
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
