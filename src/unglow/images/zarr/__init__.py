"""The OME-Zarr 0.5 store: layout, writing, reading and checking."""

from __future__ import annotations

from unglow.images.zarr.layout import StoreLayout, plan_layout
from unglow.images.zarr.reader import Store, open_store, verify
from unglow.images.zarr.writer import StoreWriter

__all__ = [
    "Store",
    "StoreLayout",
    "StoreWriter",
    "open_store",
    "plan_layout",
    "verify",
]
