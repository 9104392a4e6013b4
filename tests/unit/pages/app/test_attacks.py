"""Who may start a run, from where, and what can be written: starting a run is execution of code."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from running_jobs import wait_for
from seeing_app import SeenApp, photos

from unglow.core.errors import InputError
from unglow.core.process import find_socket_user
from unglow.pages.app import workplace
from unglow.pages.app.workplace import Workplace
from unglow.pages.report import live_server
from unglow.pages.report.live_server import ADDRESS

VERBS = ("folder", "pattern", "pairs", "sheet", "names", "settings", "run", "stop")
NOBODY = 65534
#: In the place of a run: it leaves a file, and waits.
STAND_IN = "import sys, time; open('started', 'w').write(' '.join(sys.argv[1:])); time.sleep(120)"


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(workplace, "COMMAND", (sys.executable, "-c", STAND_IN))


def nothing_happened(work):
    return not (work / "config").exists() and not (work / ".snakemake").exists()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_other_sites_start_and_write_nothing(seen, work, stand_in, headers, status):
    sent = {"Content-Type": "application/json"} | headers
    content = json.dumps({"version": seen.version})
    assert {seen.ask(verb, "POST", content, **sent)[0].status for verb in VERBS} == {status}
    assert nothing_happened(work)


def test_without_the_token_nothing_is_answered(seen, work, stand_in):
    token = seen.server.token
    wrong_ones = ("", token[:-1], token + "x", token.swapcase())
    for wrong, verb in itertools.product(wrong_ones, VERBS):
        connection = http.client.HTTPConnection(ADDRESS, seen.server.port, timeout=60)
        kind = {"Content-Type": "application/json"}
        connection.request("POST", f"/{wrong}/0/app/{verb}", "{}", kind)
        assert connection.getresponse().status == 403
        connection.close()
    assert nothing_happened(work)


def test_looking_at_an_address_does_nothing(seen, work, stand_in):
    for verb, method in itertools.product(VERBS, ("GET", "HEAD")):
        assert seen.ask(verb, method)[0].status == 404
    assert nothing_happened(work)


@pytest.mark.parametrize("user", [NOBODY, None])
def test_another_user_with_the_token_is_refused(seen, work, stand_in, monkeypatch, user):
    version = seen.version
    monkeypatch.setattr(live_server, "find_socket_user", lambda *_: user)
    for path, method in (("state.json", "GET"), ("", "GET"), ("run", "POST")):
        body, kind = json.dumps({"version": version}), {"Content-Type": "application/json"}
        answer, content = seen.ask(path, method, body, **kind)
        assert (answer.status, b"user" in content) == (403, True)
    assert nothing_happened(work)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_real_other_user_is_refused(seen):
    os.seteuid(NOBODY)
    try:
        other = socket.socket()  # of this user from here on
    finally:
        os.seteuid(0)
    with other:
        other.connect((ADDRESS, seen.server.port))
        assert find_socket_user(other.getsockname(), other.getpeername()) == NOBODY
        other.sendall(f"GET {seen.base}state.json HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n".encode())
        assert other.recv(100).startswith(b"HTTP/1.1 403 ")


def test_a_connection_that_was_closed_belongs_to_nobody(seen):
    """The system shows such a socket as one of root's, whoever has opened it."""
    with socket.create_server((ADDRESS, 0)) as listening:
        other = socket.create_connection(listening.getsockname())
        ends = other.getsockname(), other.getpeername()
        accepted, _ = listening.accept()
        other.sendall(b"POST")
        other.close()
        with accepted:
            assert find_socket_user(*ends) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_who_hangs_up_at_once_starts_and_writes_nothing(seen, work, stand_in):
    body = json.dumps({"version": seen.version, "put": {"detect.fdr": 0.2}})
    os.seteuid(NOBODY)  # of the server as well, so not while it answers
    try:
        others = [socket.socket() for _ in range(40)]
    finally:
        os.seteuid(0)
    for verb, other in zip(("settings", "run") * 20, others, strict=True):
        head = f"POST {seen.base}{verb} HTTP/1.1\r\nHost: {ADDRESS}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with other:
            other.connect((ADDRESS, seen.server.port))
            other.sendall((head + body).encode())
    seen.json("state.json")  # answered after them
    assert nothing_happened(work)


def test_who_does_not_know_the_token_costs_no_search_for_its_user(seen, monkeypatch):
    searched = []
    monkeypatch.setattr(live_server, "find_socket_user", lambda *ends: searched.append(ends))
    for token in ("", "x" * len(seen.server.token)):
        connection = http.client.HTTPConnection(ADDRESS, seen.server.port, timeout=60)
        connection.request("GET", f"/{token}/0/app/state.json")
        assert connection.getresponse().status == 403
        connection.close()
    socket.create_connection((ADDRESS, seen.server.port)).close()
    assert searched == []
    assert seen.ask("state.json")[0].status == 403
    assert len(searched) == 1


def test_the_user_of_a_connection_is_known(seen):
    for family, address in ((socket.AF_INET, ADDRESS), (socket.AF_INET6, f"::ffff:{ADDRESS}")):
        with socket.socket(family) as own:
            own.connect((address, seen.server.port))
            ends = (ADDRESS, own.getsockname()[1]), (ADDRESS, seen.server.port)
            assert find_socket_user(*ends) == os.geteuid()
    assert find_socket_user((ADDRESS, 1), (ADDRESS, 2)) is None


@pytest.mark.parametrize("how", ["put", "reset"])
def test_the_form_sets_keys_of_the_science_alone(seen, work, how):
    version = seen.version
    for name in (
        *("container", "results", "raw", "samples", "only", "profile", "pathvars", "sweep"),
        *("memory_per_job", "force_run", "allow_failed", "executor", "scale", "detect.fdrr", ""),
        *("sweep.detect.fdr", "multiplexed.backgrounds", "__class__", "detect.__doc__", "a.b.c"),
    ):
        given = {"put": {"detect.fdr": 0.1, name: "x"}} if how == "put" else {"reset": [name]}
        status, said = seen.send("settings", {**given, "version": version})
        assert (name, status, said["error"].endswith(".")) == (name, 400, True)
    assert not (work / "config" / "config.yaml").exists()


def test_cores_are_a_number(seen, work, stand_in):
    version = seen.version
    words = ("all", "--profile x", "1 --executor x")
    for cores in (*words, "1", -1, 0, True, 1.5, 10**6, [1], {"a": 1}):
        assert seen.send("run", {"cores": cores, "version": version})[0] == 400
    for word in words:
        assert seen.ask("preflight.json?cores=" + word.replace(" ", "%20"))[0].status == 400
    assert nothing_happened(work)


def test_no_address_is_a_path(seen):
    seen.json("state.json")
    for path in (
        *("image/..%2F..%2Fetc%2Fpasswd", "image//etc/passwd", "image/raw", "assets/../site.py"),
        *("assets/%2e%2e/site.py", "assets/", "../app/nothing", "index.html", "state.json/x"),
    ):
        assert (path, seen.ask(path)[0].status) == (path, 404)


def test_a_folder_is_one_of_those_that_were_shown(seen, work):
    version = seen.version
    for folder in ("raw", "/etc", "../..", "", None, 7, ["raw"], {"a": 1}):
        assert seen.send("folder", {"id": folder, "version": version})[0] == 400
    assert nothing_happened(work)


def test_rows_that_are_none_are_refused(seen, work):
    version = seen.version
    known = {"role": "pre", "sample": "a", "dye": "b"}
    for rows in (None, {}, [1], [{}], [{"id": "../x", **known}], [{"id": 5, **known}]):
        status, said = seen.send("sheet", {"rows": rows, "version": version})
        assert status in (400, 404)
        assert said["error"]
    assert nothing_happened(work)


def test_names_become_no_paths_and_no_formulas(seen, work):
    ids = photos(seen)
    for sample in ("../x", "a/b", "=1+1", "a\tb", "a\nb", "{x}", "-x", "telemetry"):
        rows = [
            {"id": ids[f"a_{word}_DAPI.tif"], "role": role, "sample": sample, "dye": "D"}
            for word, role in (("untreated", "pre"), ("treated", "post"))
        ]
        assert seen.send("sheet", {"rows": rows, "version": seen.version})[0] == 400
    assert not (work / "config" / "samples.tsv").exists()


def test_nothing_is_written_out_of_the_directory(tmp_path, seen, work):
    (tmp_path / "far").mkdir()
    (work / "config").symlink_to(tmp_path / "far")
    sent = {"put": {"detect.fdr": 0.1}, "version": seen.version}
    status, said = seen.send("settings", sent)
    assert (status, "leads out of" in said["error"]) == (400, True)
    assert "leads out of" in seen.json("state.json")["why_not"]
    (work / "config").unlink()
    (work / "config").mkdir()
    (tmp_path / "victim").write_text("raw: mine\n")
    (work / "config" / "config.yaml").symlink_to(tmp_path / "victim")
    assert seen.send("settings", sent | {"version": seen.version})[0] == 200
    assert (tmp_path / "victim").read_text() == "raw: mine\n"
    (work / ".unglow").symlink_to(tmp_path / "far")
    assert seen.send("run", {"version": seen.version})[0] == 400
    assert not list((tmp_path / "far").iterdir())


def test_a_directory_that_may_not_be_written_is_said(seen, work, stand_in, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert "may not be written" in seen.json("state.json")["why_not"]
    for verb, content in (("settings", {"put": {"detect.fdr": 0.1}}), ("run", {}), ("names", {})):
        status, said = seen.send(verb, content | {"version": seen.version})
        assert (status, "may not be written" in said["error"]) == (400, True)
    assert nothing_happened(work)


def test_a_pipe_in_the_place_of_what_a_run_prints_is_named(seen, work, stand_in):
    log = work / ".unglow" / "app.log"
    log.parent.mkdir(parents=True)
    os.mkfifo(log)
    status, said = seen.send("run", {"version": seen.version})
    assert (status, str(log) in said["error"]) == (400, True)


def test_a_run_has_a_session_of_its_own_and_a_second_one_is_refused(work, stand_in):
    with SeenApp(Workplace(work)) as one, SeenApp(Workplace(work)) as two:
        status, state = one.send("run", {"cores": 1, "version": one.version})
        assert (status, state["running"]) == (200, True)
        wait_for((work / "started").exists)
        wait_for((work / "started").read_text)
        assert (work / "started").read_text() == "run --cores 1"
        pid = one.app._commands._run.pid
        assert os.getsid(pid) == pid != os.getsid(0)
        for page in (one, two):  # of this server, and of another one
            status, said = page.send("run", {"version": page.version})
            assert (status, "at work" in said["error"]) == (400, True)
        assert one.json("watch.json")["run"]["running"]
    os.kill(pid, 0)  # it outlives both
    with SeenApp(Workplace(work)) as three:
        assert three.send("run", {"version": three.version})[0] == 400
        os.kill(pid, signal.SIGKILL)
        one.app._commands._run.wait(60)
        status, _ = three.send("run", {"version": three.version})
        assert status == 200
        status, said = three.send("stop", {})
        assert (status, "before its first job" in said["text"]) == (200, True)
        wait_for(lambda: not three.json("watch.json")["run"]["running"])
        assert three.send("stop", {"now": True})[1]["text"] == "Nothing runs any more."


def test_what_a_run_prints_moves_nothing_on_the_page(work, monkeypatch):
    nasty = "print('\\x1b[2J</script><img src=x>'); raise SystemExit(3)"
    monkeypatch.setattr(workplace, "COMMAND", (sys.executable, "-c", nasty))
    with SeenApp(Workplace(work)) as seen:
        seen.send("run", {"version": seen.version})
        wait_for(lambda: not seen.json("watch.json")["run"]["running"])
        state = seen.json("watch.json")["run"]
        assert (state["code"], state["output"]) == (3, "\\x1b[2J</script><img src=x>")


_BAD_RAW = "import sys; print('raw is bad.', file=sys.stderr); sys.exit(2)"


def test_a_command_that_takes_too_long_or_fails_has_a_sentence(work, monkeypatch):
    made = workplace.Commands(work, work / "results")
    monkeypatch.setattr(workplace, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(workplace, "COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    with pytest.raises(InputError, match="in a terminal"):
        made.preflight(None)
    monkeypatch.setattr(workplace, "_PATIENCE_S", 60)
    monkeypatch.setattr(workplace, "COMMAND", (sys.executable, "-c", _BAD_RAW))
    with pytest.raises(InputError, match="raw is bad"):
        made.preflight(None)


def test_modules_that_lie_in_the_directory_are_not_loaded(work):
    for name in ("json.py", "numpy.py", "unglow.py", "sitecustomize.py"):
        (work / name).write_text("raise SystemExit('loaded')")
    done = subprocess.run(
        [*workplace.COMMAND, "--version"], cwd=work, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "loaded" in done.stderr) == (0, False)


def test_the_output_of_a_run_does_not_replace_a_file_elsewhere_by_a_hard_link(
    seen, work, stand_in, tmp_path
):
    (tmp_path / "victim").write_text("kept")
    (work / ".unglow").mkdir()
    output = work / ".unglow" / "app.log"
    os.link(tmp_path / "victim", output)
    status, said = seen.send("run", {"version": seen.version})
    assert status != 200
    assert said["error"] == f"{output} is a hard link to a file elsewhere: remove it."
    assert (tmp_path / "victim").read_text() == "kept"
    assert not (work / "started").exists()
