"""`unglow verify`: damage and what does not belong together, one sentence each."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from made_plan import plan_content
from made_stores import write_store

from unglow.cli import main, verify
from unglow.core import digests
from unglow.core.files import write_json
from unglow.core.made_with import record
from unglow.jobs.attempt_lock import leftovers, size_mb
from unglow.photometry.gain.scale import MethodResult, Scale
from unglow.results import multiqc
from unglow.telemetry.jsonl import identity
from unglow.transform import Transform
from unglow.transform.displacement import save as save_field
from unglow.workflow.verify import check_pair, list_contents, pair_directories


def make_store(path, value, **attributes):
    return write_store(path, np.full((40, 50), value, np.uint8), attributes=attributes).digest


def write_map(path, matrix=None):
    """Write a transform, a failed one without a matrix."""
    path.parent.mkdir(exist_ok=True)
    matrix, status = (None, "failed") if matrix is None else (np.array(matrix), "ok")
    Transform(status, (40, 50), (40, 50), matrix=matrix).save(path)


def write_gain(path, gain):
    Scale("linear", {"linear": MethodResult(gain, 0.25, None)}).save(path)


@pytest.fixture
def pair(tmp_path):
    """A pair as the stages would leave it, with one variant of the registration."""
    pair = tmp_path / "results" / "S" / "D"
    variant = pair / "registration-a"
    prints = "print of post", "print of pre"
    write_json(pair / "details/plan.json", plan_content(fingerprints=prints))
    digests = {
        role: make_store(pair / f"{role}.ome.zarr", n, role=role, fingerprint=f"print of {role}")
        for n, role in enumerate(("post", "pre"), start=1)
    }
    matrix = [[1.0, 0.0, 2.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    write_map(variant / "transform.json", matrix)
    save_field(variant / "details/displacement.npz", None)
    aligned = make_store(variant / "aligned_pre.ome.zarr", 3, role="aligned_pre", inputs=digests,
                         matrix=matrix)  # fmt: skip
    write_gain(variant / "scale.json", 1.5)
    inputs = {"post": digests["post"], "aligned_pre": aligned}
    make_store(variant / "difference.ome.zarr", 4, role="difference", method="linear",
               inputs=inputs, gain=1.5, offset=0.25)  # fmt: skip
    (pair / "figures").mkdir()
    (pair / "figures" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n...IEND\xaeB`\x82")
    return pair


@pytest.fixture
def sealed(pair, monkeypatch):
    """The same with the digests that its jobs leave, and what they have read."""
    monkeypatch.chdir(pair)
    variant = pair / "registration-a"
    (variant / "candidates.csv").write_text("id,x,y\n1,2.5,3.5\n")
    jobs = {
        pair / "details/digests" / "plan.sha256": [pair / "details/plan.json"],
        pair / "details/digests" / "ingest_post.sha256": [pair / "post.ome.zarr" / "zarr.json"],
        pair / "details/digests" / "ingest_pre.sha256": [pair / "pre.ome.zarr" / "zarr.json"],
        pair / "details/digests" / "figures.sha256": [pair / "figures" / "x.png"],
        variant / "details/digests" / "register.sha256": [
            variant / "transform.json",
            variant / "details/displacement.npz",
        ],
        variant / "details/digests" / "align.sha256": [
            variant / "aligned_pre.ome.zarr" / "zarr.json"
        ],
        variant / "details/digests" / "scale.sha256": [variant / "scale.json"],
        variant / "details/digests" / "difference_linear.sha256": [
            variant / "difference.ome.zarr" / "zarr.json"
        ],
        variant / "details/digests" / "detect.sha256": [variant / "candidates.csv"],
    }
    for target, files in jobs.items():
        digests.write(target, files, record({}, READ.get(target.stem, {}), target.parents[2]))
    return pair


#: By job, what it reads that others have published.
READ = {
    "align": {
        **{role: f"{role}.ome.zarr/zarr.json" for role in ("post", "pre")},
        "transform": "registration-a/transform.json",
    },
    "difference_linear": {"scale": "registration-a/scale.json"},
}


def list_problems(pair):
    """What is wrong: the sentence, and the names of what goes."""
    found = [*check_pair(pair)]
    names = [{str(path.relative_to(pair)) for path in problem.remove} for problem in found]
    return [(p.message.replace(f"{pair}/", ""), n) for p, n in zip(found, names, strict=True)]


def test_whole_results_have_no_problem(sealed, capsys):
    pair = sealed
    assert pair_directories(pair.parents[1]) == [pair]
    assert len(list_contents(pair)[0]) == 4
    assert list_problems(pair) == []
    assert main(["verify", str(pair.parents[1])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "No problems found: 10 files are as they were written."
    assert lines[1:] == [
        "Not checked: telemetry, benchmarks, logs, review.csv and regions.geojson."
    ]


@pytest.mark.parametrize(
    ("file", "job", "change", "stale"),
    [
        ("pre.ome.zarr/zarr.json", "ingest_pre", lambda path: make_store(path.parent, 9), "align"),
        ("registration-a/transform.json", "register", write_map, "align"),
        ("registration-a/scale.json", "scale", lambda path: write_gain(path, 1.6),
         "difference_linear"),
    ],
)  # fmt: skip
def test_a_job_that_has_read_another_file_is_stale(sealed, file, job, change, stale):
    change(sealed / file)
    ((message, _),) = list_problems(sealed)
    assert "has changed since it was published" in message or "is damaged" in message
    (target,) = sealed.rglob(f"{job}.sha256")
    files = digests.Listed.read(target).digests
    digests.write(target, [*files])  # the job has run again
    ((message, removed),) = list_problems(sealed)
    assert f"was made from another {file} than the one" in message
    assert f"registration-a/details/digests/{stale}.sha256" in removed


def test_damage_of_every_kind_of_file_is_found_and_repaired(sealed, capsys):
    (sealed / "registration-a" / "details/displacement.npz").write_bytes(b"PK\x03\x04 cut")
    (sealed / "figures" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n cut")
    (sealed / "registration-a" / "scale.json").write_text('{"methods"')
    (sealed / "registration-a" / "candidates.csv").write_text("")
    shard = sealed / "post.ome.zarr" / "0" / "c" / "0" / "0"
    os.truncate(shard, shard.stat().st_size - 3)
    (sealed / "pre.ome.zarr" / "zarr.json").write_text("{}")
    gone = {"registration-a/details/displacement.npz", "figures/x.png", "registration-a/scale.json",
            "registration-a/candidates.csv", "post.ome.zarr/zarr.json",
            "pre.ome.zarr/zarr.json"}  # fmt: skip
    found = list_problems(sealed)
    assert len(found) == len(gone)
    assert gone < {name for _, names in found for name in names}
    assert main(["verify", "--repair", str(sealed.parents[1])]) == 1
    assert "Run the workflow again" in capsys.readouterr().out
    assert not any((sealed / name).exists() for name in gone)
    assert list_problems(sealed) == []


DETECT = {"registration-a/candidates.csv", "registration-a/details/digests/detect.sha256"}


@pytest.mark.parametrize("content", ["id,x,y\n1,2.5,3.6\n", "id,x,y\n", "", None])
def test_a_file_that_no_format_protects_is_compared_with_its_digest(sealed, content):
    path = sealed / "registration-a" / "candidates.csv"
    path.unlink() if content is None else path.write_text(content)
    ((message, removed),) = list_problems(sealed)
    fault = (
        "is missing; rerun"
        if content is None
        else "has changed since it was published; delete it and"
    )
    assert message.startswith(f"registration-a/candidates.csv {fault}")
    assert removed == DETECT


@pytest.mark.parametrize(
    "content", ["[]", '{"methods": 3}', '{"images": [], "matrix": 3}', "[" * 9999]
)
@pytest.mark.parametrize("name", ["details/plan.json", "transform.json", "scale.json"])
def test_json_of_any_shape_is_one_problem_and_what_hangs_on_it_none(sealed, name, content):
    path = sealed / name if name == "details/plan.json" else sealed / "registration-a" / name
    path.write_text(content)
    ((message, removed),) = list_problems(sealed)
    assert f"{name} has changed since it was published" in message
    assert str(path.relative_to(sealed)) in removed


def test_what_a_job_makes_goes_together(sealed, capsys):
    (sealed / "registration-a" / "details/displacement.npz").unlink()
    names = ("transform.json", "details/displacement.npz", "details/digests/register.sha256")
    ((_, removed),) = list_problems(sealed)
    assert removed == {f"registration-a/{name}" for name in names}
    assert main(["verify", "--repair", str(sealed.parents[1])]) == 1
    assert list_problems(sealed) == []
    assert "1 file" not in capsys.readouterr().out


def test_a_directory_in_the_place_of_a_file_is_reported_and_left_to_the_user(sealed, capsys):
    path = sealed / "registration-a" / "transform.json"
    path.unlink()
    (path / "mine").mkdir(parents=True)
    assert main(["verify", "--repair", str(sealed.parents[1])]) == 1
    out = capsys.readouterr().out
    assert f"{path} cannot be read (Is a directory)" in out
    assert f"{path} could not be removed (Is a directory): move it away by hand" in out
    assert (path / "mine").is_dir()


def test_a_list_of_digests_that_was_cut_is_distinguished_from_a_short_one(sealed):
    path = sealed / "registration-a" / "details/digests" / "register.sha256"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    ((message, removed),) = list_problems(sealed)
    assert message.startswith("registration-a/details/digests/register.sha256 is not a whole list")
    assert len(removed) == 2
    path.write_text("")
    assert list_problems(sealed)[0][1] == {"registration-a/details/digests/register.sha256"}


def test_a_list_names_nothing_outside(sealed):
    path = sealed / "details/digests" / "plan.sha256"
    path.write_text(f"# SHA-256 of 1 files\n{'0' * 64}  ../../../victim\n")
    ((message, removed),) = list_problems(sealed)
    assert "is not a whole list of digests" in message
    assert removed == {"details/digests/plan.sha256"}


def test_results_without_digests_are_not_called_damaged(pair, capsys):
    assert main(["verify", str(pair.parents[1])]) == 0
    out = capsys.readouterr().out
    assert out.startswith("No problems found, but there are no digests to compare files with.\n")
    assert "Files without a digest: 5 (" in out


def test_what_people_have_entered_is_neither_judged_nor_removed(sealed, capsys):
    kept = [sealed / "registration-a" / "review.csv", sealed / "regions.geojson"]
    for path in kept:
        path.write_text("half a")
    assert main(["verify", str(sealed.parents[1]), "--repair"]) == 0
    assert "Not checked: telemetry, benchmarks, logs, review.csv" in capsys.readouterr().out
    assert all(path.read_text() == "half a" for path in kept)


def test_leftovers_are_found_wherever_they_are_and_counted(pair):
    results = pair.parents[1]
    inside = pair / "post.ome.zarr" / ".hidden.partial"
    inside.write_text("not ours to judge")
    (pair / "figures" / ".x.png.ab.partial").write_bytes(b"x" * 1000)
    (results / ".report.html.cd.partial").write_bytes(b"")
    (pair / ".post.ome.zarr.ef.old" / "0").mkdir(parents=True)
    (pair / "difference.ome.zarr" / "0").mkdir(parents=True)  # its root is deleted
    names = [path.name for path in leftovers(results)]
    assert sorted(names) == [
        ".post.ome.zarr.ef.old",
        ".report.html.cd.partial",
        ".x.png.ab.partial",
        "difference.ome.zarr",
    ]
    assert size_mb(pair / "figures") == pytest.approx(0.001, abs=1e-4)


def test_clean_waits_for_jobs_that_live(pair, capsys):
    results = pair.parents[1]
    (pair / ".post.ome.zarr.ef.old").mkdir()
    place = results / "telemetry" / "S" / "D" / "plan"
    place.mkdir(parents=True)
    head = {"kind": "attempt", "wall": 1.0, **identity()}
    (place / "1.jsonl").write_text(json.dumps(head) + "\n")
    assert main(["verify", "--clean", str(results)]) == 2
    assert f"a job (process {os.getpid()}) is at work" in capsys.readouterr().err
    (place / "2.jsonl").touch()  # a later attempt has started
    assert main(["verify", "--clean", str(results)]) == 0
    assert not (pair / ".post.ome.zarr.ef.old").exists()


@pytest.fixture
def damaged(sealed):
    """Results with one file that is not as its list of digests says, and that file."""
    path = next(sealed.rglob("*.json"))
    path.write_text(path.read_text() + " ")
    return sealed.parents[1], path


def write_run(work, *lines, **head):
    place = work / "telemetry" / "runs"
    place.mkdir(parents=True, exist_ok=True)
    path = place / "20261128T060000.000Z-here-1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in ({"kind": "run", **head}, *lines)))
    return path


@pytest.mark.parametrize("option", [(), ("--repair",)])
def test_while_a_run_is_at_work_nothing_is_called_damaged_nor_removed(damaged, capsys, option):
    results, path = damaged
    head = {"wall": 1.0, **identity(), "directory": str(results.parent), "results": results.name}
    write_run(results, **head)
    assert main(["verify", str(results), *option]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"Snakemake (process {os.getpid()}) has been running here since" in shown.err
    assert "--repair" not in shown.err
    assert path.exists()
    write_run(results, {"kind": "end", "outcome": "ok"}, **head | {"pid": 2**22})
    capsys.readouterr()
    assert main(["verify", str(results)]) == 1
    assert path.name in capsys.readouterr().out


@pytest.mark.parametrize("option", [(), ("--repair",)])
def test_problems_from_before_the_end_of_a_run_are_not_listed(damaged, capsys, option, monkeypatch):
    results, path = damaged
    problems = verify._problems

    def find(place):
        yield from problems(place)
        write_run(results, {"kind": "end", "outcome": "ok"}, wall=2.0, host="elsewhere")

    monkeypatch.setattr(verify, "_problems", find)
    assert main(["verify", str(results), *option]) == 2
    shown = capsys.readouterr()
    assert (shown.out, path.exists()) == ("", True)
    assert f"A run on {results} has just ended: verify again." in shown.err


def test_a_list_that_was_removed_is_a_problem_and_a_file_of_others_is_none(sealed, capsys):
    results = sealed.parents[1]
    (sealed / "notes.txt").write_text("of a user")
    assert main(["verify", str(results)]) == 0
    assert f"Files without a digest: 1 ({sealed}/notes.txt is the first)" in capsys.readouterr().out
    for path in (
        *sealed.glob("details/digests/ingest_post*"),
        *sealed.rglob("details/digests/detect*"),
    ):
        path.unlink()
    named = {"registration-a/candidates.csv", "post.ome.zarr/zarr.json"}
    assert {name for sentence, names in list_problems(sealed) for name in names} == named
    assert all(
        "has no digest, but other files" in sentence for sentence, _ in list_problems(sealed)
    )
    assert main(["verify", str(results), "--repair"]) == 1
    assert not any((sealed / name).exists() for name in named)
    assert (sealed / "notes.txt").exists()


@pytest.fixture
def run(sealed):
    """Results with the tables, verdict and report of a run."""
    results = sealed.parents[1]
    for name in ("summary.tsv", multiqc.NAME, "verdict.txt", "report.html"):
        (results / name).write_text(f"{name}\n")
    files = {
        "summary": ["summary.tsv", multiqc.NAME],
        "verdict": ["verdict.txt"],
        "report": ["report.html"],
    }
    for job, names in files.items():
        digests.write(digests.list_of(results, job), [results / name for name in names])
    return results


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        *(
            (name, {"summary.tsv", multiqc.NAME, "details/digests/summary.sha256"})
            for name in ("summary.tsv", multiqc.NAME)
        ),
        ("verdict.txt", {"verdict.txt", "details/digests/verdict.sha256"}),
        ("report.html", {"report.html", "details/digests/report.sha256"}),
    ],
)
def test_tables_verdict_and_report_of_a_run_are_compared(run, capsys, name, removed):
    assert main(["verify", str(run)]) == 0
    assert "No problems found: 14 files" in capsys.readouterr().out
    for content in ("changed", "", None):
        if content is None:
            (run / name).unlink()
        else:
            (run / name).write_text(content)
        assert main(["verify", str(run)]) == 1
        line, last = capsys.readouterr().out.splitlines()
        assert line.startswith(f"{run / name} ")
        assert f"`unglow verify {run} --repair`" in last
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert main(["verify", str(run), "--repair"]) == 1
    left = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert files - left == removed - {name}
    report = name.startswith("report")
    next_step = f"Run `unglow report {run}`" if report else "Run the workflow again"
    assert capsys.readouterr().out.splitlines()[-1].startswith(next_step)
