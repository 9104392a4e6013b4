"""Checks of a cluster: what Slurm says of itself, and which profile fits other schedulers."""

from __future__ import annotations

import getpass
import re
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from unglow.doctor.finding import Finding, fault, judged, warning
from unglow.jobs.schedulers.scheduler import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PATIENCE_S = 1.0
_SETTING = re.compile(r"^(\w+)\s*=\s*(.*?)\s*$", re.MULTILINE)
_FIELD = re.compile(r"(\w+)=(\S*)")
_NO_LIMIT = ("UNLIMITED", "INFINITE", "")


class Told(NamedTuple):
    """What Slurm's commands have said; None where one has failed."""

    settings: str | None
    partitions: str | None
    sacct: str | None
    accounts: str | None


def check() -> Iterator[Finding]:
    """Ask Slurm if it is here; of others only tell that they are."""
    if shutil.which("sbatch"):
        told = ask()
        yield controller(told, plugin=find_spec("snakemake_executor_plugin_slurm") is not None)
        if told.settings is not None:
            settings = dict(_SETTING.findall(told.settings))
            yield memory(settings)
            yield partitions(told.partitions or "")
            yield accounting(settings, told)
    if place := shutil.which("qsub"):
        words = f"{place} is here: for Grid Engine use profiles/cluster-generic"
        yield judged("Grid Engine or PBS", words)


def ask() -> Told:
    """Ask Slurm for its settings; nothing more once it has not answered."""
    questions = {
        "settings": ("scontrol", "show", "config"),
        "partitions": ("scontrol", "show", "partition", "--oneliner"),
        "sacct": ("sacct", "-X", "--noheader", "--format=JobID"),
        "accounts": ("sacctmgr", "--noheader", "--parsable2", "show", "assoc",
                     f"user={getpass.getuser()}", "format=account"),
    }  # fmt: skip
    told: dict[str, str | None] = dict.fromkeys(questions)
    for name, words in questions.items():
        status, text = run(*words, patience_s=_PATIENCE_S)
        told[name] = None if status else text
        if told["settings"] is None:
            break
    return Told(**told)


def controller(told: Told, *, plugin: bool) -> Finding:
    """Judge whether jobs can be handed over at all."""
    settings = dict(_SETTING.findall(told.settings or ""))
    age = _number(settings.get("MinJobAge", ""))
    words = f"{settings.get('SLURM_VERSION', '')}, cluster {settings.get('ClusterName', '?')}"
    gone = told.settings is None
    helps = "ask its administrators; without Slurm use profiles/default"
    return judged("Slurm", "" if gone else words.strip(", "), [
        warning(gone, "sbatch is here, but no controller answers", helps),
        warning(
            not plugin, "Snakemake has no plugin for it", "pip install 'unglow[cluster]'"
        ),
        warning(
            age is not None and age < 60,
            f"it forgets jobs after {age} s (MinJobAge), before Snakemake has asked",
            "ask its administrators for MinJobAge=300",
        ),
    ])  # fmt: skip


def memory(settings: Mapping[str, str]) -> Finding:
    """Judge whether Slurm shares out memory, and holds jobs to what they ask for."""
    shared = "MEMORY" in settings.get("SelectTypeParameters", "").upper()
    held = settings.get("ConstrainRAMSpace", "").lower() == "yes"
    killed = "OverMemoryKill" in settings.get("JobAcctGatherParams", "")
    kept = "control groups" if held else "OverMemoryKill" if killed else "nothing"
    words = f"SelectTypeParameters={settings.get('SelectTypeParameters', '?')}, kept by {kept}"
    return judged("Slurm's memory", words, [
        warning(
            not shared,
            "nodes are shared without counting memory: jobs of others may take it",
            "default-resources: slurm_extra=\"'--exclusive'\" in a copy of profiles/slurm",
        ),
        warning(
            shared and not (held or killed),
            "nothing keeps jobs of others to what they ask for (unglow's keep to it themselves)",
            "ask its administrators for ConstrainRAMSpace=yes",
        ),
    ])  # fmt: skip


def partitions(text: str) -> Finding:
    """Judge where jobs go that name no partition, and how long they may take there."""
    found = [dict(_FIELD.findall(line)) for line in text.splitlines()]
    names = [one["PartitionName"] for one in found if "PartitionName" in one]
    default = next((one for one in found if one.get("Default") == "YES"), None)
    longest = "" if default is None else default.get("MaxTime", "")
    minutes = None if longest in _NO_LIMIT else _minutes(longest)
    words = f"{', '.join(names)}; default {default['PartitionName'] if default else 'none'}"
    words += f", at most {longest}" if longest else ""
    words += "".join(
        f", {key}={value}" for key, value in (default or {}).items() if "MemPer" in key
    )
    down = default is not None and default.get("State", "UP") != "UP"
    name = "a copy of profiles/slurm: default-resources: slurm_partition=NAME"
    return judged("Slurm's partitions", words, [
        fault(not names, "there is none for this user", "ask its administrators"),
        warning(bool(names) and default is None, "jobs have to name one", name),
        warning(down, "the default takes no jobs now", name),
        warning(
            minutes is not None and minutes < 60,
            "a large image may take longer",
            f"{name}, of one with more time",
        ),
    ])  # fmt: skip


def accounting(settings: Mapping[str, str], told: Told) -> Finding:
    """Judge whether jobs need an account, whether there is one, and if Slurm tells of old jobs."""
    enforced = "associations" in settings.get("AccountingStorageEnforce", "").lower()
    known = (told.accounts or "").split()
    words = f"accounts {', '.join(known) or 'none'}, {'asked for' if enforced else 'not asked for'}"
    return judged("Slurm's accounts", words, [
        warning(
            enforced and not known,
            "jobs without one are refused",
            "a copy of profiles/slurm: default-resources: slurm_account=NAME",
        ),
        warning(
            told.sacct is None,
            "sacct does not answer: what ended a job that was lost will not be known",
            "none needed; ask its administrators for slurmdbd if you want to know",
        ),
    ])  # fmt: skip


def _number(text: str) -> int | None:
    """Return the number at the begin of a setting such as ``300 sec``; None if there is none."""
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None


def _minutes(text: str) -> float | None:
    """Return a time of Slurm, ``[days-]hours:minutes:seconds`` or minutes, in minutes."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if found is None:
        return float(text) if text.isdigit() else None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (days * 24 + hours) * 60 + minutes + seconds / 60
