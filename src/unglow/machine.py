"""For profiles of users: `unglow.core.machine`."""

from unglow.core.machine import memory_limit_mb

__all__ = ["memory_limit_mb"]
