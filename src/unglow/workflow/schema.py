"""Schemas of configuration and sample sheet, wherever this copy of unglow keeps them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from unglow.core.errors import ConfigError

Settings = dict[str, Any]
"""A whole configuration: sections, keys, values."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema ``config/schemas/<name>.schema.yaml`` (draft 2020-12).

    A checkout keeps its schemas under config/schemas; a wheel holds the same files as package data.
    `ConfigError` if this copy of unglow is incomplete and has neither.
    """
    wanted = f"{name}.schema.yaml"
    checkout = Path(__file__).resolve().parents[3] / "config" / "schemas"
    for directory in (files("unglow") / "schemas", checkout):
        source = directory.joinpath(wanted)
        if source.is_file():
            loaded: dict[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
            return loaded
    raise ConfigError(
        f"the schema {wanted} is missing from this copy of unglow ({checkout}); install it again."
    )
