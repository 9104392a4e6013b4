"""Records in JSON: read as the type that they are declared with, or refused by the field at fault.

Types are those of `msgspec`: dataclasses and structures, whose further keys are left alone. Classes
of other kinds have ``from_plain`` and ``to_plain``. So what does not fit is found where a file is
read, and a fault of our own code is never taken for a damaged file.
"""

from __future__ import annotations

import atexit
import gc
import json
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from unglow.core.files import read_file

if TYPE_CHECKING:
    from pathlib import Path
    from types import UnionType

# As the interpreter ends, it collects types, and some of msgspec (0.20 to 0.22) are freed twice
# then: one process in ten ended with SIGSEGV (jcrist/msgspec#717). What is frozen is not collected.
atexit.register(gc.freeze)

_Kind = TypeVar("_Kind")

_LARGEST, _LARGEST_INT = 1e30, 2**63
"""Nothing in a result file is larger."""


_MISSING = "Object missing required field "


class RecordError(ValueError):
    """What was read is not a record of its kind; the text says which field is wrong."""


def read_record(path: str | Path, kind: type[_Kind]) -> _Kind:
    """Return the content of a JSON file as a type.

    Raises
    ------
    OSError
        It cannot be read, see `unglow.core.files.read_file`.
    RecordError
        It is not JSON, has other fields or values, or a number that is not finite.
    """
    return to_record(parse(read_file(path)), kind)


def parse(data: bytes) -> Any:
    """Return the content of JSON; raises `RecordError`, also for numbers that are not finite."""
    try:
        return json.loads(
            data.decode("utf-8"), parse_constant=_number, parse_float=_number, parse_int=_integer
        )
    except RecursionError as error:
        raise RecordError("it is nested too deeply") from error
    except ValueError as error:
        raise RecordError(str(error)) from error


def _number(text: str) -> float:
    value = float(text)
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{text} is not a finite number below {_LARGEST:g}")
    return value


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) >= _LARGEST_INT:
        raise ValueError(f"{text[:20]} is too large")
    return value


@overload
def to_record(value: Any, kind: type[_Kind]) -> _Kind: ...
@overload
def to_record(value: Any, kind: UnionType) -> Any: ...
def to_record(value: Any, kind: Any) -> Any:
    """Return plain values as a type; raises `RecordError`, which says which field is wrong."""
    try:
        return msgspec.convert(
            value, kind, dec_hook=lambda kind, plain: kind.from_plain(plain), str_keys=True
        )
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at ")
        where = path.strip("`").removeprefix("$").removeprefix(".")
        if what.startswith(_MISSING):
            field = what.removeprefix(_MISSING).strip("`")
            raise RecordError(f"{where}.{field}: it is missing".removeprefix(".")) from error
        raise RecordError(f"{where or 'its content'}: {what.replace('`', '')}") from error
    except UnicodeEncodeError as error:  # what it makes of names of files that are not UTF-8
        raise RecordError(f"{ascii(error.object)[:100]} is not expected there") from error


def to_plain(record: Any) -> Any:
    """Return a record as dictionaries, lists, texts and numbers."""
    return _list_tuples(msgspec.to_builtins(record, enc_hook=lambda value: value.to_plain()))


def _list_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _list_tuples(one) for key, one in value.items()}
    return [_list_tuples(one) for one in value] if isinstance(value, list | tuple) else value
