"""Numbers and arrays saved as ``.npz``, and those of them that blocks add to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from unglow.core.archive import load_arrays, make_damage_error, save_arrays, select_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Kinds = tuple[type[int | float], ...]
    Arrays = Mapping[str, NDArray[Any]]
    ArrayAxes = Mapping[str, tuple[str, *tuple[int | str, ...]]]

_VERSION = 1
"""Of the files of all subclasses."""


class Saved:
    """A dataclass that is written as an ``.npz``; equal records give equal bytes.

    `PARAMETERS` are the fields that are a number (one type) or a tuple of numbers (a type for
    each), `ARRAYS` those that are arrays, each with its type and the length of each axis: a number,
    or a name, and axes of one name are equally long. `LEVEL` is zlib's.
    """

    __slots__ = ()
    PARAMETERS: ClassVar[tuple[tuple[str, Kinds], ...]]
    ARRAYS: ClassVar[ArrayAxes]
    LEVEL: ClassVar[int] = 6

    @property
    def parameters(self) -> list[float]:
        """The numbers of all `PARAMETERS`."""
        return [
            kind(number)
            for name, kinds in self.PARAMETERS
            for kind, number in zip(kinds, np.atleast_1d(getattr(self, name)), strict=True)
        ]

    @classmethod
    def restore(cls, parameters: Sequence[float], arrays: Arrays) -> Self:
        """Build from `parameters` and `arrays`; TypeError or ValueError where they do not fit."""
        if len(parameters) != sum(len(kinds) for _, kinds in cls.PARAMETERS):
            raise ValueError(f"{len(parameters)} parameters")
        numbers = iter(parameters)
        values = {
            name: tuple(kind(next(numbers)) for kind in kinds) for name, kinds in cls.PARAMETERS
        }
        fields = {name: one if len(one) > 1 else one[0] for name, one in values.items()}
        return cls(**fields, **arrays)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""
        return {name: getattr(self, name) for name in self.ARRAYS}

    def save(self, path: Path | str, others: Mapping[str, Saved] | None = None) -> None:
        """Write an ``.npz``, complete or not at all; ``others`` go into it by their names."""
        more = {name: other.content() for name, other in (others or {}).items()}
        save_arrays(path, self.content(), more, level=self.LEVEL)

    def content(self) -> dict[str, NDArray[Any]]:
        """Return what `save` writes."""
        return {"parameters": np.array([_VERSION, *self.parameters]), **self.arrays}

    @classmethod
    def load(cls, path: Path | str, name: str | None = None) -> Self:
        """Read what `save` wrote; ``name`` is that of one of the others.

        Raises
        ------
        StoreError
            If the file is damaged or from another version.
        """
        return cls.read(select_arrays(load_arrays(path), name), path)

    @classmethod
    def load_all(cls, path: Path | str) -> dict[str | None, Self]:
        """Read all records of a file by name, first the one without (None); else as `load`."""
        arrays = load_arrays(path)
        names = sorted({key.split(".")[0] for key in arrays if "." in key})
        return {name: cls.read(select_arrays(arrays, name), path) for name in (None, *names)}

    @classmethod
    def read(cls, arrays: dict[str, NDArray[Any]], path: Path | str) -> Self:
        """Return the record of `content`, which was in a file; StoreError if it is damaged."""
        try:
            version, *parameters = arrays.pop("parameters").tolist()
            if version != _VERSION:
                raise make_damage_error(path)
            cls._check_arrays(arrays)
            return cls.restore(parameters, arrays)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise make_damage_error(path) from error

    @classmethod
    def _check_arrays(cls, arrays: Arrays) -> None:
        """Raise KeyError or ValueError for arrays of other types or shapes."""
        lengths: dict[int | str, int] = {}
        for name, (dtype, *axes) in cls.ARRAYS.items():
            array = arrays[name]
            known = [lengths.setdefault(a, n) for a, n in zip(axes, array.shape, strict=True)]
            wanted = [a if isinstance(a, int) else n for a, n in zip(axes, known, strict=True)]
            if array.dtype != dtype or list(array.shape) != wanted:
                raise ValueError(f"{name} is {array.shape} of {array.dtype}")


class Counts(Saved):
    """Counts of pixels; the order of blocks cannot change a byte."""

    __slots__ = ()

    def fresh(self) -> Self:
        """Return counts of nothing with the same bins, for another worker."""
        return self.restore(self.parameters, {k: np.zeros_like(a) for k, a in self.arrays.items()})

    def merge(self, other: Self) -> None:
        """Add the counts of ``other``, which must have the same bins."""
        mine, theirs = (
            (*one.parameters, *(array.shape for array in one.arrays.values()))
            for one in (self, other)
        )
        if mine != theirs:
            raise ValueError("counts with different bins cannot be merged")
        self.merge_counts(other.arrays)

    def merge_counts(self, counts: Arrays) -> None:
        """Add the `arrays` of counts with the same bins; others among them are left alone."""
        for name, array in self.arrays.items():
            np.add(array, counts[name], out=array)
