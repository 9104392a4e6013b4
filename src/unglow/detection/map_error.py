"""How far the map may be off at every px: what turns an edge of the section into noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.detection.coarse_grid import Lattice

if TYPE_CHECKING:
    from unglow.transform import Transform


class MapError(Lattice):
    """Estimated error of a map over post, px."""

    @classmethod
    def of(cls, transform: Transform) -> MapError:
        """Return the error of a map: that of its field, or else the 95th percentile overall."""
        field = transform.displacement
        if field is not None and field.error_px.size:
            return cls(field.error_px, field.spacing_px, -field.spacing_px)
        return cls.constant(transform.error_px.p95)
