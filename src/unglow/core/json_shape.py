"""Check of what a JSON file holds against a declared shape, before anything computes with it."""
# ruff: noqa: TRY004 - a value of a file that does not fit is a ValueError, whatever it is

from __future__ import annotations

from typing import Any, TypeAlias

Shape: TypeAlias = Any
"""A type (`float` is any finite number, None is null), a tuple of shapes of which one has to fit, a
list (``[float, float]`` has two numbers, ``[float, ...]`` any number of them), or a dictionary of
shapes by key. Keys that end in ``?`` may be absent, others have to be there, and more are ignored;
``{...: shape}`` has any keys."""

_LARGEST = 1e30
"""Nothing in a result file is larger."""
_NAMES = {
    float: "a finite number", int: "an integer", str: "a text", bool: "true or false",
    None: "null",
}  # fmt: skip


def check_shape(value: Any, shape: Shape, where: str = "its content") -> None:
    """Raise `ValueError`, which says where, if a value does not have a shape."""
    if isinstance(shape, dict):
        _check_mapping(value, shape, where)
    elif isinstance(shape, list):
        _check_list(value, shape, where)
    elif isinstance(shape, tuple):
        if not any(_has_shape(value, one) for one in shape):
            # the last one says most
            check_shape(value, shape[-1], where)
    elif not _is_plain(value, shape):
        raise ValueError(f"{where} is not {_NAMES[shape]}")


def _has_shape(value: Any, shape: Shape) -> bool:
    try:
        check_shape(value, shape)
    except ValueError:
        return False
    return True


def _check_mapping(value: Any, shape: dict[Any, Shape], where: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not an object")
    for key, inner in shape.items():
        if key is ...:
            for name, one in value.items():
                check_shape(one, inner, f"'{name}'")
            continue
        name = key.removesuffix("?")
        if name in value:
            check_shape(value[name], inner, f"'{name}'")
        elif name == key:
            raise ValueError(f"'{name}' is missing")


def _check_list(value: Any, shape: list[Shape], where: str) -> None:
    if not isinstance(value, list):
        raise ValueError(f"{where} is not a list")
    if shape[-1] is ...:
        shape = shape[:1] * len(value)
    if len(value) != len(shape):
        raise ValueError(f"{where} has {len(value)} items and not {len(shape)}")
    for one, inner in zip(value, shape, strict=True):
        check_shape(one, inner, f"an item of {where}")


def _is_plain(value: Any, shape: type | None) -> bool:
    if shape is None or shape is bool or shape is str:
        return value is None if shape is None else isinstance(value, shape)
    if isinstance(value, bool) or not isinstance(value, int | (float if shape is float else int)):
        return False
    return abs(value) <= _LARGEST  # NaN is not
