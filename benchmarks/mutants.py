"""Print what `mutmut run` has found: for each module the mutants that tests killed or let live."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tables import table

MUTANTS = Path(__file__).resolve().parents[1] / "mutants" / "src"
UNREACHED = 5, 33
"""Exit codes that mutmut gives to mutants which no test calls; 0 has survived, None has not run."""


def row(name: str, codes: Counter[int | None]) -> list[str]:
    """Return the numbers of one module; every failure, hang and crash is a kill."""
    survived, waiting = codes[0], codes[None]
    unreached = sum(codes[code] for code in UNREACHED)
    killed = codes.total() - survived - unreached - waiting
    judged = killed + survived + unreached
    score = f"{100 * killed / judged:.1f}" if judged else "-"
    return [name, *map(str, (killed, survived, unreached, waiting)), score]


def main() -> None:
    """Print the table; a mutant that no test reaches counts like one that survived."""
    found = {
        str(path.relative_to(MUTANTS))[: -len(".meta")]: Counter[int | None](
            json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].values()
        )
        for path in sorted(MUTANTS.rglob("*.meta"))
    }
    rows = [row(name, codes) for name, codes in found.items() if codes]
    rows.append(row("all", sum(found.values(), Counter())))
    print(table(["module", "killed", "survived", "not reached", "not run", "score %"], rows))


if __name__ == "__main__":
    main()
