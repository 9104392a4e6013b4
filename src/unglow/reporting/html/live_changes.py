"""What is new in a model since the state of it that a page has, so that only that is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_LISTS = ("runs", "attempts", "pairs")
# The time at which a model was made is no news.
_TIME = "made"


class Changes:
    """A model, and since when each part of it has been as it is.

    Attributes
    ----------
    version
        Number of the state, from 1 on; it grows when something has changed.
    """

    def __init__(self) -> None:
        self.version = 0
        self._made = 0.0
        self._parts: dict[tuple[str, str | int], tuple[int, str, Any]] = {}

    def take(self, model: Mapping[str, Any]) -> None:
        """Take the model as it is now."""
        self._made = model[_TIME]
        parts = _parts(model)
        texts = {key: self._text(key, value) for key, value in parts.items()}
        same = {k: k in self._parts and self._parts[k][1] == text for k, text in texts.items()}
        if len(texts) != len(self._parts) or not all(same.values()):
            self.version += 1
        self._parts = {
            key: (self._since(key, value, same=same[key]), texts[key], value)
            for key, value in parts.items()
        }

    def _text(self, key: tuple[str, str | int], value: Any) -> str:
        """Return a part as JSON; parts of a model are never changed, only replaced."""
        known = self._parts.get(key)
        if known is not None and known[2] is value:
            return known[1]
        return json.dumps(value, allow_nan=False)

    def _since(self, key: tuple[str, str | int], value: Any, *, same: bool) -> int:
        """Return from which state on a part is as it is; an order may have grown at its end."""
        since, _, before = self._parts.get(key, (self.version, "", None))
        grown = key[0] == "order" and before is not None and value[: len(before)] == before
        return since if same or grown else self.version

    def since(self, version: int) -> dict[str, Any]:
        """Return what has changed after a state.

        Returns
        -------
        ``version`` and ``made``; ``top``, the keys of the model that changed; for ``runs``,
        ``attempts`` and ``pairs`` the ``changed`` ones as [id, content], and the ``order`` of all
        ids, None if new ones only follow those before. The ids of pairs are their places.
        """
        new = {k: value for k, (since, _, value) in self._parts.items() if since > version}
        lists = {
            name: {
                "changed": [[key, value] for (part, key), value in new.items() if part == name],
                "order": new.get(("order", name)),
            }
            for name in _LISTS
        }
        top = {key: value for (part, key), value in new.items() if part == "top"}
        return {"version": self.version, _TIME: self._made, "top": top, **lists}


def _parts(model: Mapping[str, Any]) -> dict[tuple[str, str | int], Any]:
    parts: dict[tuple[str, str | int], Any] = {}
    for key, value in model.items():
        if key in _LISTS:
            ids = [item.get("id", n) for n, item in enumerate(value)]
            parts["order", key] = ids
            parts.update({(key, name): item for name, item in zip(ids, value, strict=True)})
        elif key != _TIME:
            parts["top", key] = value
    return parts
