"""`--logger unglow` in workflows that are not unglow's: every job with what it took itself."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest
from real_runs import PROJECT, command

from unglow.core.workflow_files import OWN
from unglow.telemetry.reading.history import History

pytestmark = pytest.mark.workflow
#: Takes memory, holds it, and writes the largest resident set that the kernel kept of it, MB.
HOLD = """
import sys, time
def hold(mb, out, seconds=2.5):
    data = bytearray(mb * 1_000_000)
    data[::4096] = b"x" * len(data[::4096])
    time.sleep(seconds)
    lines = open("/proc/self/status").read().splitlines()
    kb = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    print(kb * 1024 / 1e6, file=open(out, "w"))
if __name__ == "__main__":
    hold(int(sys.argv[1]), sys.argv[2])
"""
SCRIPT = """
import sys
sys.path.insert(0, ".")
from hold import hold
import unglow
with unglow.span("outer"):
    with unglow.span("hold"):
        hold(snakemake.params.mb, snakemake.output[0])
"""
HEAD = f"""
PY = {sys.executable!r}
MB = dict(s1=60, s10=110, s3=160, c1=85, c2=135, p1=75, p2=125, b=180)
size = lambda w: MB[w.n]
"""
EIGHT = """
rule all:
    input: expand("o/simple_{n}", n=["s1", "s10", "s3"]), expand("o/compound_{n}", n=["c1", "c2"]),
           expand("o/script_{n}", n=["p1", "p2"]), "o/block_b"
rule simple:
    output: "o/simple_{n}"
    params: mb=size
    resources: mem_mb=lambda w: MB[w.n] + 100
    shell: PY + " hold.py {params.mb} /dev/stderr 2> {output}"
rule compound:
    output: "o/compound_{n}"
    params: mb=size
    shell: "mkdir -p o; " + PY + " hold.py {params.mb} {output}.tmp; mv {output}.tmp {output}"
rule script:
    output: "o/script_{n}"
    params: mb=size
    script: "hold_script.py"
rule block:
    output: "o/block_{n}"
    run:
        import sys
        sys.path.insert(0, ".")
        from hold import hold
        hold(MB[wildcards.n], output[0])
"""
HARD = """
rule all:
    input: "o/twin_a", "o/twin_b", "o/flaky"
rule twin:
    output: touch("o/twin_{n}")
    shell: PY + " hold.py 40 /dev/null"
rule flaky:
    output: "o/flaky"
    log: "logs/flaky.log"
    resources: mem_mb=lambda w, attempt: 20 * attempt
    retries: 1
    shell: PY + " hold.py 40 o/x; echo x >> o/tries; echo broken > {log}; "
           "[ $(wc -l < o/tries) -ge 2 ] || exit 3; mv o/x {output}"
"""

#: Three children at a time that hold memory, a write just before the end, a job that ends at once.
FAMILY = """
rule all:
    input: "o/pool", "o/late", "o/quick"
rule pool:
    output: "o/pool"
    script: "pool.py"
rule late:
    output: "o/late"
    shell: PY + " late.py {output}"
rule quick:
    output: "o/quick"
    shell: "head -c 30000000 /dev/zero > {output}"
"""
LATE = """
import sys, time
time.sleep(1)
open(sys.argv[1], "wb").write(b"x" * 200_000_000)
"""
POOL = """
import sys
from multiprocessing import Pool
sys.path.insert(0, ".")
from hold import hold
with Pool(3) as pool:
    pool.starmap(hold, [(150, f"{snakemake.output[0]}{n}", 1.2) for n in range(3)])
open(snakemake.output[0], "wb").write(bytes(40_000_000))
"""


def prepare(place):
    (place / "o").mkdir()
    (place / "hold.py").write_text(HOLD)
    (place / "hold_script.py").write_text(SCRIPT)
    (place / "pool.py").write_text(POOL)
    (place / "late.py").write_text(LATE)
    # a configuration that is none of unglow's
    (place / "config").mkdir()
    (place / "config" / "config.yaml").write_text("samples: samples.tsv\n")
    return place


@pytest.fixture
def work(tmp_path):
    return prepare(tmp_path)


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """A directory in which the eight jobs have been run, and that run."""
    place = prepare(tmp_path_factory.mktemp("eight"))
    return place, run_of(place, EIGHT)


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    """A directory in which the hard rules have been run."""
    place = prepare(tmp_path_factory.mktemp("hard"))
    done = run_of(place, HARD)
    assert done.code == 0, done.text
    return place


def run_of(work, rules, *words):
    (work / "Snakefile").write_text(HEAD + rules)
    return command(work, "snakemake", "--cores", "8", *words, "--logger", "unglow")


def history_of(results):
    return History.read(results).last


def attempts_of(work):
    return history_of(work / OWN).attempts


def is_near(measured, true):
    return abs(measured - true) <= max(15.0, 0.1 * true)


def test_children_and_what_is_done_just_before_the_end_count(work):
    (work / "Snakefile").write_text(HEAD + FAMILY)
    done = command(work, "snakemake", "--cores", "1", "--logger", "unglow")
    assert done.code == 0, done.text
    found = {a.rule: a for a in attempts_of(work)}
    held = sum(float((work / f"o/pool{n}").read_text()) for n in range(3))
    assert 450 <= found["pool"].peak_mb <= held
    moved = {rule: attempt.written for rule, attempt in found.items()}
    assert moved == pytest.approx({"pool": 40e6, "late": 200e6, "quick": 30e6}, rel=0.01)
    assert found["late"].peak_mb > 200
    # the kernel says of the largest so far what it took; others may have taken more than was seen
    seen = [a for a in found.values() if a.peak_mb is not None]
    assert [a.rule for a in seen if not a.ending.more.get("at_least")] == ["late"]


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_each_of_eight_jobs_at_once_has_its_own_peak(eight, work, quiet):
    work, done = (work, run_of(work, EIGHT, *quiet)) if quiet else eight
    assert done.code == 0, done.text
    assert re.search(r"\d+ of \d+ jobs done in ", done.text)
    assert f"Report: {OWN}/report.html" in done.text
    attempts = attempts_of(work)
    assert len(attempts) == 8
    for a in attempts:
        attempt = a
        own = float((work / f"o/{attempt.rule}_{attempt.wildcards['n']}").read_text())
        assert is_near(attempt.peak_mb, own), (attempt.title, attempt.peak_mb, own)
        assert a.outcome == "ok"
        assert attempt.ending.more["measured"] == "processes"
    spans = [[s.name for s in a.steps] for a in attempts if a.rule == "script"]
    assert spans == [["outer", "hold"]] * 2
    assert all(s.end is not None for a in attempts for s in a.steps)
    assert not (work / OWN / "telemetry" / "spans").exists()


def test_watching_costs_little(eight):
    [record] = (eight[0] / OWN / "telemetry" / "runs").iterdir()
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    watched = next(line for line in lines if line["kind"] == "watched")
    assert watched["cpu_s"] < 0.02 * lines[-1]["t"] + 0.05


def test_equal_commands_go_to_their_rule_and_each_try_is_an_attempt(hard):
    attempts = attempts_of(hard)
    twins = [a for a in attempts if a.rule == "twin"]
    own = [a for a in twins if "n" in a.wildcards]
    assert [a.ending.more["measured"] for a in own] == ["nothing", "nothing"]
    of_rule = [a for a in twins if a not in own]
    assert len(of_rule) == 2
    assert all(is_near(a.peak_mb, 50) and a.ending.more["measured"] == "rule" for a in of_rule)
    first, second = [a for a in attempts if a.rule == "flaky"]
    assert (first.outcome, first.ending.code, first.number) == ("error", 3, 1)
    assert (second.outcome, second.number, second.declared_mb) == ("ok", 2, 40)
    assert "more than the mem_mb of 40" in second.ending.message


def test_commands_read_the_record(hard):
    shown = command(hard, "unglow", "monitor", "--once")
    assert shown.code == 0, shown.text
    assert "3 of 3 jobs" in shown.text
    assert "pairs" not in shown.text
    status = command(hard, "unglow", "status")
    assert status.code == 0, status.text
    assert "flaky" in status.text
    written = command(hard, "unglow", "report", hard)
    assert written.code == 0, written.text
    assert (hard / OWN / "report.html").is_file()
    again = run_of(hard, HARD)
    assert "Nothing to do" in again.text


def test_what_the_kernel_killed_is_reported_with_what_to_declare(work, groups):
    group = groups.group("big", 60)
    done = run_of(
        work,
        f'rule big:\n    output: "o/big"\n    resources: mem_mb=60\n    shell: "echo $$ > '
        f'{group}/cgroup.procs; sleep 1; " + PY + " hold.py 200 {{output}}"\n',
    )
    assert done.code == 1, done.text
    [a] = attempts_of(work)
    assert a.outcome == "oom_killed", a.ending
    assert a.ending.needed_mb == 100
    assert "--set-resources big:mem_mb=100" in a.ending.remedy


def test_a_dry_run_leaves_nothing(work):
    assert run_of(work, HARD, "-n").code == 0
    assert not (work / OWN).exists()


def test_rules_of_a_workflow_that_uses_unglow_are_measured_with_its_own(small_raw, work):
    shutil.copytree(small_raw, work / "raw")
    (work / "config" / "config.yaml").unlink()
    done = run_of(
        work,
        f'module unglow:\n    snakefile: "{PROJECT / "Snakefile"}"\n    config: {{}}\n\n'
        "use rule * from unglow as unglow_*\n\n"
        'rule mine:\n    output: "o/mine"\n    shell: PY + " hold.py 70 {output}"\n',
        "o/mine",
        "results/phantom/SYTO9/details/plan.json",
    )
    assert done.code == 0, done.text
    assert not (work / OWN / "telemetry").exists()
    attempts = {a.rule: a for a in history_of(work / "results").attempts}
    own = float((work / "o/mine").read_text())
    assert is_near(attempts["mine"].peak_mb, own)
    assert attempts["mine"].fields["recorded"] == "outside"
    assert "recorded" not in next(a for r, a in attempts.items() if r != "mine").fields


#: Memory that follows the size of the input, and memory that does not.
GROWING = """
rule all:
    input: expand("o/{n}", n=[5, 20, 40, 60]), "o/flat"
rule make:
    output: "i/{n}"
    shell: "head -c {wildcards.n}000000 /dev/zero > {output}"
rule grow:
    input: "i/{n}"
    output: "o/{n}"
    params: mb=lambda w: 40 + 3 * int(w.n)
    resources: mem_mb=2000
    shell: PY + " hold.py {params.mb} {output}"
rule flat:
    output: "o/flat"
    shell: PY + " hold.py 120 {output}"
"""


def test_what_rules_should_declare_would_have_held_for_each_job(work):
    done = run_of(work, GROWING)
    assert done.code == 0, done.text
    peaks = {a.title: a.peak_mb for a in attempts_of(work)}
    advised = command(work, "unglow", "report", "--advise", "-o", "advised/config.yaml")
    assert advised.code == 0, advised.text
    text = (work / "advised/config.yaml").read_text()
    assert "grow:  # declared 2000 MB" in text
    shutil.rmtree(work / "o")
    shutil.rmtree(work / OWN)
    (work / "o").mkdir()
    again = run_of(work, GROWING, "--workflow-profile", "advised")
    assert again.code == 0, again.text
    for one in attempts_of(work):
        if one.rule in ("grow", "flat"):
            own = peaks[one.title]
            assert 1.15 * own < one.declared_mb < 1.5 * own + 30, one.title
