"""Schemas of configuration and sample sheet, wherever this copy of unglow keeps them."""

from __future__ import annotations

from typing import Any

import yaml

from unglow.core.errors import ConfigError
from unglow.core.workflow_files import workflow_directory

Settings = dict[str, Any]
"""A whole configuration: sections, keys, values."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema ``config/schemas/<name>.schema.yaml`` (draft 2020-12).

    `ConfigError` if this copy of unglow is incomplete and does not have it.
    """
    source = workflow_directory() / "config" / "schemas" / f"{name}.schema.yaml"
    if not source.is_file():
        raise ConfigError(f"{source} is missing from this copy of unglow; install it again.")
    loaded: dict[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    return loaded
