"""The ``unglow`` command: what helps around the workflow.

A sub-command is a row of `COMMANDS` and a module with ``add_arguments(parser)`` and
``run(arguments) -> int`` (the exit status); a module with more than one sub-command has those of
the others under ``add_arguments_<command>`` and ``run_<command>``. Modules are imported only when
their command is used.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from unglow import __version__
from unglow.core.errors import UnglowError
from unglow.core.printable import printable, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

#: Name of a sub-command to its module and what it does.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("unglow.cli.run", "run the workflow: snakemake with the installed Snakefile"),
    "app": ("unglow.cli.pages", "name images, change settings, run and look, in a browser"),
    "init": ("unglow.cli.init", "write config and sample sheet for a directory of images"),
    "survey": ("unglow.cli.survey", "list the raw images and problems with them"),
    "view": ("unglow.cli.pages", "look at images and results in a browser"),
    "report": ("unglow.cli.pages", "write the report of a results directory"),
    "compare": ("unglow.cli.compare", "compare results and cost of runs"),
    "export": ("unglow.cli.export", "write results in other formats"),
    "status": ("unglow.cli.status", "show the progress of each pair"),
    "monitor": ("unglow.cli.pages", "follow runs"),
    "resume": ("unglow.cli.run", "continue an interrupted run"),
    "stop": ("unglow.cli.run", "end a run from another terminal"),
    "verify": ("unglow.cli.verify", "check results for damage and changes"),
    "preflight": ("unglow.cli.preflight", "check whether a run fits memory and disk"),
    "doctor": ("unglow.cli.doctor", "check this machine, and say what helps"),
    "phantom": ("unglow.cli.phantom", "make a pair of test images with known truth"),
}
#: First words of what is rarely needed, to its name, module and what it does, as above. The name
#: alone starts it as well.
MODES: dict[tuple[str, str], tuple[str, str, str]] = {
    ("run", "--debug"): ("debug", "unglow.cli.run", "run one job again in a debugger"),
    ("run", "--where"): ("where", "unglow.cli.run", "print the path of the installed Snakefile"),
    ("verify", "--clean"): ("clean", "unglow.cli.verify", "remove leftovers of killed jobs"),
    ("doctor", "--tune"): (
        "tune", "unglow.cli.tune", "find the number of cores that pays off, and write a profile",
    ),
    ("report", "--advise"): (
        "advise", "unglow.cli.advise", "print how much memory rules of any workflow should declare",
    ),
}  # fmt: skip
#: Title of a group of sub-commands to the first of it.
GROUPS = {"work": "run", "care": "status", "machine": "preflight"}
#: Exit status for a mistake that the user can fix.
MISTAKE = 2
_LONG = re.compile(r"--[a-z][\w-]*")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Parameters
    ----------
    argv
        Arguments without the program's name; those of the process if None.

    Returns
    -------
    0 if all is well, 1 if the command ran and found problems, 2 for a mistake (one sentence on
    standard error), 130 if interrupted.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller; Snakemake and its jobs need all
            # it gets the lowest free number, which is that of the stream
            stream = os.fdopen(os.open(os.devnull, os.O_RDWR), mode)
            os.set_inheritable(stream.fileno(), True)  # noqa: FBT003
            setattr(sys, name, stream)
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = next((a for a in arguments if not a.startswith("-")), None)
    shown = command
    known = {name: path for name, (path, _) in COMMANDS.items()}
    known |= {name: path for name, path, _ in MODES.values()}
    if len(arguments) > 1 and (first := (arguments[0], arguments[1])) in MODES:
        command, known[command], _ = MODES[first]
        shown, arguments[:2] = " ".join(first), [command]
    module = import_module(known[command]) if command in known else None
    parser, own = _parsers(command, shown, module)
    options = _parse(arguments, command, parser, own, module)
    if command is None or module is None:
        parser.print_help()
        return MISTAKE
    try:
        return int(_function(module, "run", command)(options))
    except UnglowError as error:
        return _sorry(shown, str(error))
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough; keep the interpreter from complaining.
        sys.stdout = None
        return 0
    except OSError as error:
        # without a name: what is printed cannot be written, for example
        about = "" if error.filename is None else f"{error.filename}: "
        return _sorry(shown, f"{about}{error.strerror or error}.")
    except KeyboardInterrupt:
        return 130


def _parse(
    arguments: list[str],
    command: str | None,
    parser: _Parser,
    own: _Parser | None,
    module: ModuleType | None,
) -> argparse.Namespace:
    """Return the options, with the words for another command as ``words``; exit for a mistake."""
    if (
        own is None
        and command is not None
        and not {"-h", "--help", "-V", "--version"} & {*arguments}
    ):
        parser.refuse("command", command, COMMANDS)
    words: list[str] = []
    if command in getattr(module, "TAKES_ALL_WORDS", ()) and arguments[1:2] not in (
        ["-h"],
        ["--help"],
    ):
        arguments, words = arguments[:1], arguments[1:]
    elif command in getattr(module, "TAKES_WORDS", ()) and "--" in arguments:
        cut = arguments.index("--")
        arguments, words = arguments[:cut], arguments[cut + 1 :]
    options, unknown = parser.parse_known_args(arguments, argparse.Namespace(words=words))
    if own is not None and unknown and unknown[0].startswith("--"):
        known = [f"--{name.replace('_', '-')}" for name in vars(options)]
        known += _LONG.findall(own.format_help())
        own.refuse("option", unknown[0].partition("=")[0], known)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def _sorry(command: str | None, sentence: str) -> int:
    warn(f"unglow {command}: {sentence}")
    return MISTAKE


def _function(module: ModuleType, name: str, command: str) -> Callable[[Any], Any]:
    """Return a function of a sub-command."""
    function: Callable[[Any], Any] = getattr(module, f"{name}_{command}", getattr(module, name))
    return function


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints about words, which may be names of files, are printable."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))

    def refuse(self, kind: str, name: str, known: Iterable[str]) -> NoReturn:
        """Exit with a line on a name that is not known, and the nearest one that is."""
        from unglow.core.settings import suggest

        other = f"see `{self.prog} --help`."
        name = printable(name)
        self.exit(MISTAKE, f"{self.prog}: no {kind} {name}; {suggest(name, known, other)}\n")


def _parsers(
    command: str | None, shown: str | None, module: ModuleType | None
) -> tuple[_Parser, _Parser | None]:
    """Return the parser, and that of the sub-command in use, which alone gets its options."""
    parser = _Parser(
        prog="unglow",
        usage="unglow [-h] [-V] COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_list_commands(),
        description="Remove autofluorescence from microscopy images taken before and after\n"
        "staining. `unglow COMMAND --help` lists the options of a command.",
    )
    own = None
    parser.add_argument("-V", "--version", action="version", version=f"unglow {__version__}")
    parsers = parser.add_subparsers(prog="unglow", metavar="COMMAND", help=argparse.SUPPRESS)
    abouts = {name: about for name, (_, about) in COMMANDS.items()}
    abouts |= {name: about for name, _, about in MODES.values() if name == command}
    for name, about in abouts.items():
        sub = parsers.add_parser(name, description=f"{about[0].upper()}{about[1:]}.")
        if name == command and module is not None:
            own = sub
            own.prog = f"unglow {shown}"
            _function(module, "add_arguments", name)(sub)
            own.description = " ".join([own.description or "", *_list_modes(name)])
    return parser, own


def _list_modes(command: str) -> list[str]:
    return [
        f"`unglow {command} {word} ...`: {about}."
        for (first, word), (_, _, about) in MODES.items()
        if first == command
    ]


def _list_commands() -> str:
    starts = {first: title for title, first in GROUPS.items()}
    lines = []
    for name, (_, about) in COMMANDS.items():
        lines += ["", f"{starts[name]}:"] if name in starts else []
        lines.append(f"  {name:<12} {about}")
    return "\n".join(lines[1:])
