"""The monitor in a browser: who is answered, what is sent, which logs may be read."""

import gzip
import http.client
import json
import os
import socket
import time

import pytest
from made_telemetry import WALL, Made, end, job, sample, state
from served_sites import served

from unglow.cli.pages import tunnel
from unglow.core.errors import InputError
from unglow.pages.report.live_server import ADDRESS, PORT, Server
from unglow.pages.report.live_site import Site
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.incidents import TAIL_BYTES, incidents, log_of

TOTAL = {"kind": "total", "t": 0.5, "jobs": {"register": 1}}


@pytest.fixture
def made(tmp_path):
    made = Made(tmp_path / "work" / "results")
    made.run(TOTAL, job(0.6, 7, "register"), state(1.0, 7, "started"))
    return made


@pytest.fixture
def server(made):
    with served(Site([made.results])) as server:
        yield server


def ask(server, path, host=None, method="GET", **headers):
    connection = http.client.HTTPConnection(ADDRESS, server.port, timeout=300)
    host_header = {"Host": host} if host is not None else {}
    connection.request(method, path, headers=host_header | headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_only_who_knows_the_token_is_answered(server):
    token = server.token
    assert len(token) >= 20
    for path in ("/", "/0/", "/x/0/", f"/{token}x/0/", f"/{token[:-1]}/0/", "/%C3%A9/", "//"):
        answer, body = ask(server, path)
        assert (answer.status, body) == (403, b"Use the complete address that was printed.\n"), path
    answer, _ = ask(server, f"/{token}/")
    assert (answer.status, answer.getheader("Location")) == (302, f"/{token}/0/")
    answer, body = ask(server, f"/{token}/0/")
    assert (answer.status, body[:15]) == (200, b"<!doctype html>")


def test_only_the_names_of_this_machine_are_answered(server):
    path = f"/{server.token}/0/news?since=0"
    for host in ("127.0.0.1", "localhost", f"localhost:{server.port}", "127.0.0.1:9", "[::1]:9"):
        assert ask(server, path, host)[0].status == 200, host
    for host in (
        "evil.example",
        "evil.example:8798",
        "127.0.0.1.evil.example",
        "",
        "localhost.x:1",
    ):
        assert ask(server, path, host)[0].status == 403, host


def test_pages_may_ask_this_server_and_no_other(server):
    answer, body = ask(server, f"/{server.token}/0/")
    policy = answer.getheader("Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.getheader("Referrer-Policy") == "no-referrer"
    assert answer.getheader("Cache-Control") == "no-store"
    packed, squeezed = ask(server, f"/{server.token}/0/", **{"Accept-Encoding": "gzip"})
    assert packed.getheader("Content-Encoding") == "gzip"
    assert len(gzip.decompress(squeezed)) == pytest.approx(len(body), rel=0.01)


@pytest.mark.parametrize(
    "path",
    [
        *("0/nothing", "1/", "-1/", "x/", "0", "0/news", "0/news?since=x", "0/log"),
        *("0/../../etc/passwd", "0/%2e%2e/etc/passwd", "0/results/summary.tsv"),
    ],
)
def test_what_there_is_not_is_not_found(server, path):
    assert ask(server, f"/{server.token}/{path}")[0].status == 404


def test_nothing_can_be_sent_to_the_page_of_the_runs(server):
    sent = {"method": "POST", "Content-Type": "application/json", "Content-Length": "0"}
    assert ask(server, f"/{server.token}/0/", **sent)[0].status == 405
    assert ask(server, f"/{server.token}/0/", method="PUT")[0].status == 501


def test_ports_that_are_taken_are_passed_over(made):
    site = Site([made.results])
    with Server(site) as first, Server(site) as second:
        assert PORT <= first.port < second.port
        assert first.token != second.token
        with pytest.raises(InputError, match=f"port {first.port} of 127.0.0.1 is in use"):
            Server(site, first.port)
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        number = free.getsockname()[1]
    with Server(site, number) as chosen:
        assert chosen.url == f"http://127.0.0.1:{number}/{chosen.token}/"


def test_the_way_from_another_machine_is_reported(monkeypatch):
    monkeypatch.setenv("LOGNAME", "me")
    assert tunnel(8799) == f"ssh -N -L 8799:127.0.0.1:8799 me@{os.uname().nodename}"


def test_what_has_changed_of_a_model_is_sent(server, made):
    def news(since):
        return json.loads(ask(server, f"/{server.token}/0/news?since={since}")[1])

    def next_news(since):
        end = time.monotonic() + 30
        while "attempts" not in (found := news(since)) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    first = news(0)
    assert first["live"] is True
    assert (len(first["runs"]), first["attempts"]) == (1, [])
    made.attempt("register", 2.0, sample(1, 100), end(2.0))
    made.attempt("register", 5.0, sample(1, 100), number=2)
    second = next_news(first["version"])
    assert [(n, a["number"]) for n, a in second["attempts"]] == [(0, 1), (1, 2)]
    assert not {"schema", "results", "pairs"} & second.keys()
    unchanged = {"version", "made", "places", "tried"}
    assert set(news(second["version"])) == unchanged
    made.attempt("align", 9.0, sample(1, 100))
    third = next_news(second["version"])
    assert [(n, a["rule"]) for n, a in third["attempts"]] == [(2, "align")]
    assert third["tried"] == 3
    assert [n for n, _ in news(first["version"])["attempts"]] == [0, 1, 2]
    assert set(news(third["version"])) == unchanged


def logged(made, path, text="one\ntwo\n"):
    place = made.results.parent / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def log(made, attempt):
    return log_of(History.read(made.results), made.results, attempt)


def test_the_log_of_an_attempt_is_read(made):
    made.attempt("register", 2.0, log="logs/a.log")
    (attempt,) = History.read(made.results).last.attempts
    key = attempt.id
    assert log(made, key).note == "It is not there any more."
    logged(made, "logs/a.log", "<b>one</b>\ntwo\n")
    tail = log(made, key)
    assert (tail.name, tail.text, tail.note) == ("logs/a.log", "<b>one</b>\ntwo\n", "")
    logged(made, "logs/a.log", "".join(f"line {n}\n" for n in range(20_000)))
    tail = log(made, key)
    assert len(tail.text) <= TAIL_BYTES
    assert tail.text.startswith("line ")
    assert tail.text.endswith("line 19999\n")


def test_a_log_that_a_later_attempt_wrote_says_so(made):
    made.attempt("register", 2.0, end(3.0), log="logs/a.log")
    (attempt,) = History.read(made.results).last.attempts
    place = logged(made, "logs/a.log")
    os.utime(place, (WALL + 5, WALL + 5))
    assert log(made, attempt.id).note == ""
    os.utime(place, (WALL + 100, WALL + 100))
    assert log(made, attempt.id).note == "A later attempt has written over it."


def test_no_file_but_a_log_of_these_results_is_read(made, tmp_path):
    secret = logged(made, "../secret.log", "secret\n")
    work = made.results.parent
    logged(made, "notes.log")
    logged(made, "logs/notes.txt")
    (work / "logs" / "link.log").symlink_to(secret)
    paths = ["../secret.log", str(secret), "logs/link.log", "/etc/passwd", "logs/../notes.log",
             "notes.log", "logs/notes.txt", "logs", "logs/" + 300 * "x", "logs/\0.log"]  # fmt: skip
    for n, path in enumerate(paths):
        made.attempt("register", 2.0 + n / 10, log=path)
    found = History.read(made.results).last.attempts
    tails = [log(made, a.id) for a in found]
    assert [t.text for t in tails] == [""] * len(paths)
    refused = "It is none of the logs of these results, and is not shown."
    assert {t.note for t in tails[:-1]} == {refused}
    assert tails[-1].note  # no file has such a name
    assert log(made, "../../secret").note == "There is no such attempt."


@pytest.mark.parametrize("named", ["results", None, "forged"])
def test_the_directory_that_a_record_names_is_not_trusted(tmp_path, named):
    """Neither by who looks nor by the report, which has the ends of logs and is passed on."""
    elsewhere = tmp_path / "private"
    (elsewhere / "logs").mkdir(parents=True)
    (elsewhere / "logs" / "a.log").write_text("secret\n")
    os.utime(elsewhere / "logs" / "a.log", (WALL + 5, WALL + 5))
    made = Made(tmp_path / "work" / "results")
    results = {"forged": str(made.results.absolute())}.get(named, named)
    path = made.run(TOTAL, directory=str(elsewhere), results=results)
    made.attempt("register", 2.0, end(3.0, "error", message="a fault."), log="logs/a.log")
    if named == "forged":
        if os.geteuid() != 0:
            pytest.skip("only root may give a file to another user")
        os.chown(path, 12345, 12345)
    history = History.read(made.results)
    assert log(made, history.last.attempts[0].id).text == ""
    assert [i.tail for i in incidents(history, made.results) if i.attempt] == [None]


def test_results_that_lie_apart_from_their_logs_have_them_for_who_ran_them(tmp_path):
    work = tmp_path / "work"
    (work / "logs").mkdir(parents=True)
    (work / "logs" / "a.log").write_text("mine\n")
    made = Made(tmp_path / "disk" / "out")
    made.run(TOTAL, directory=str(work), results="../disk/out")
    made.attempt("register", 2.0, end(3.0), log="logs/a.log")
    (a,) = History.read(made.results).last.attempts
    assert log(made, a.id).text == "mine\n"


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"step","x":' + 3000 * b"[" + 3000 * b"]" + b"}",
        b'{"kind":"step","x":' + 900 * b'{"a":' + b"1" + 900 * b"}" + b"}",
        3000 * b"[" + 3000 * b"]",
        b'{"kind":"end","t":1e308,"wall":1e308,"cpu_s":1e308,"peak_mb":1e308,"read":-1e308}',
        b'{"kind":"step","t":1e308,"name":"a","edge":"begin","id":1e308,"in":1e308}',
        b'{"kind":"stall","t":1e999,"seconds":1e308}',
        b'{"kind":"progress","t":3,"done":1' + 400 * b"0" + b',"of":1e308}',
        b"[" + b",".join([b"1e308"] * 8) + b',"S",1e308,1e308]',
        b"[5,1" + 400 * b"0" + b',1,1,1,1,1,1,"S",1,1]',
    ],
)
def test_no_line_takes_the_page_away(server, made, line):
    for stage in ("register", "align"):
        path = made.attempt(stage, 2.0, sample(1, 50), sample(2, 60))
        with path.open("ab") as stream:
            stream.write(line + b"\n" + json.dumps(sample(3, 70)).encode() + b"\n")
    answer, _ = ask(server, f"/{server.token}/0/")
    assert answer.status == 200
    answer, body = ask(server, f"/{server.token}/0/news?since=0")
    attempts = [attempt for _, attempt in json.loads(body)["attempts"]]
    assert {a["rule"] for a in attempts} == {"register", "align"}
    curves = [a["curve"] for a in attempts if a["end"] > a["start"]]  # else its end is not known
    assert len(curves) == (0 if b"end" in line else 2)
    assert all(max(v or 0 for v in curve["hi"]) == 70 for curve in curves)


def test_no_record_of_a_run_takes_the_page_away(server, made):
    deep = json.loads(900 * "[" + 900 * "]")
    much = {"pid": 1e308, "cores": 1e308, "resources": {"mem_mb": 10**400}}
    config = {"a": 1e308, "b": "inf"}
    for n, wall in enumerate((WALL + 9, 1e308, -1e308, 9e17)):
        text = json.dumps({"kind": "run", "wall": wall, "clock": wall, "config": config, **much})
        path = made.results / "telemetry" / "runs" / f"20300101T000000.000Z-a-{n}.jsonl"
        path.write_text(text.replace('"inf"', "1e999") + "\n")
    made.run({"kind": "message", "t": 1, "text": deep}, start=20, config=deep)
    answer, _ = ask(server, f"/{server.token}/0/")
    assert answer.status == 200
