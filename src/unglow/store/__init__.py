"""The OME-Zarr 0.5 store: layout, writing, reading and checking."""

from __future__ import annotations

from unglow.store.banded import BandWriter, state_key
from unglow.store.layout import StoreLayout, plan_layout
from unglow.store.reader import Store, open_store, verify
from unglow.store.writer import StoreWriter

__all__ = [
    "BandWriter",
    "Store",
    "StoreLayout",
    "StoreWriter",
    "open_store",
    "plan_layout",
    "state_key",
    "verify",
]
