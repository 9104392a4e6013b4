"""The monitor in a browser among strangers: whoever knows the token is answered all the same."""

import contextlib
import http.client
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from made_telemetry import Made
from served_sites import served

from unglow.pages.report import live_answers
from unglow.pages.report.live_server import ADDRESS
from unglow.pages.report.live_site import Site

CROWD = 200
# Longer than any answer takes on a busy machine, shorter than who is kept out would wait.
PATIENCE_S = 30.0
HEAD = b"GET /x/0/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "


@pytest.fixture
def made(tmp_path):
    made = Made(tmp_path / "work" / "results")
    made.run({"kind": "end", "t": 1.0, "outcome": "ok"})
    return made


@pytest.fixture
def serve():
    """A function that serves a site from this process."""
    with contextlib.ExitStack() as stack:
        yield lambda site: stack.enter_context(served(site))


class Program:
    """`unglow monitor --web` as a process that may open so many files."""

    def __init__(self, work, files):
        limited = ("sh", "-c", f'ulimit -Sn {files} && exec "$@"', "sh")
        words = (Path(sys.executable).with_name("unglow"), "monitor", "--web", work)
        self.process = subprocess.Popen(
            (*limited, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        url = self.process.stdout.readline()
        self.port, self.token = re.search(r":(\d+)/([\w-]+)/", url).groups()
        self.port = int(self.port)

    def end(self):
        """End it; returns what it said."""
        self.process.kill()
        return self.process.communicate()[1]

    def cpu_s(self):
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system


@pytest.fixture
def run(made):
    programs = []

    def start(files):
        programs.append(Program(made.results.parent, files))
        return programs[-1]

    yield start
    for program in programs:
        program.end()


@pytest.fixture
def crowd():
    """A function that connects so many sockets to a port."""
    with contextlib.ExitStack() as stack:

        def come(port, n=CROWD, sent=b""):
            came = []
            for _ in range(n):
                stranger = socket.create_connection((ADDRESS, port), timeout=PATIENCE_S)
                stack.enter_context(stranger)
                with contextlib.suppress(ConnectionError):  # it has been sent away again
                    stranger.sendall(sent)
                came.append(stranger)
            return came

        yield come


def connect(server):
    return http.client.HTTPConnection(ADDRESS, server.port, timeout=PATIENCE_S)


def asked(server, connection=None):
    connection = connection or connect(server)
    connection.request("GET", f"/{server.token}/0/news?since=0")
    answer = connection.getresponse()
    return answer.status, len(answer.read()) > 0


def is_closed(stranger):
    """Whether the server has ended a connection; waits for it."""
    try:
        return stranger.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("files", [1024, 100])
def test_a_crowd_that_says_nothing_keeps_nobody_out(run, crowd, files):
    program = run(files)
    assert asked(program) == (200, True)
    strangers = crowd(program.port)
    assert asked(program) == (200, True)
    before = program.cpu_s()
    time.sleep(3)
    used = program.cpu_s() - before
    assert asked(program) == (200, True)
    assert used < 0.6, "it took more than a fifth of a core to keep a crowd waiting"
    assert is_closed(strangers[0])
    assert program.end() == ""


@pytest.mark.slow
def test_a_process_without_files_left_waits_and_goes_on(run, crowd):
    program = run(100)
    assert asked(program) == (200, True)
    taken = psutil.Process(program.process.pid).num_fds()
    resource.prlimit(program.process.pid, resource.RLIMIT_NOFILE, (taken + 2, taken + 2))
    crowd(program.port, 20)
    before = program.cpu_s()
    time.sleep(3)
    assert program.cpu_s() - before < 0.6
    connection = connect(program)
    connection.request("GET", f"/{program.token}/")  # reads no file
    assert connection.getresponse().status == 302
    assert program.end() == ""


def test_a_crowd_that_drips_is_sent_away(made, serve, crowd, monkeypatch, capfd):
    monkeypatch.setattr(live_answers, "UNAUTHENTICATED_S", 2.0)
    server = serve(Site([made.results]))
    strangers = crowd(server.port, 20, HEAD)
    over = threading.Event()

    def drip():
        while not over.wait(0.2):
            for stranger in strangers:
                with contextlib.suppress(OSError):
                    stranger.sendall(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert asked(server) == (200, True)
        assert all(is_closed(stranger) for stranger in strangers)
    finally:
        over.set()
        dripping.join()
    assert capfd.readouterr().err == ""


def test_who_has_shown_the_token_is_not_sent_away_for_strangers(made, serve, crowd):
    server = serve(Site([made.results]))
    connection = connect(server)
    assert asked(server, connection) == (200, True)
    kept = connection.sock
    crowd(server.port, CROWD, HEAD)
    assert asked(server, connection) == (200, True)
    assert connection.sock is kept
    connection.close()


def test_who_has_shown_the_token_and_asks_no_more_is_let_go(made, serve, monkeypatch):
    monkeypatch.setattr(live_answers, "AUTHENTICATED_S", 0.5)
    server = serve(Site([made.results]))
    connection = connect(server)
    assert asked(server, connection) == (200, True)
    assert is_closed(connection.sock)
    connection.close()


FLOOD = """
import socket, sys, time
end = time.monotonic() + 4
kept = []
while time.monotonic() < end:
    peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
    kept = [*kept[-400:], peer]
    if len(kept) == 1:
        print("flooding", flush=True)
"""


@pytest.mark.slow
def test_a_flood_keeps_nobody_out(run):
    program = run(1024)
    assert asked(program) == (200, True)
    words = (sys.executable, "-c", FLOOD, str(program.port))
    with subprocess.Popen(words, stdout=subprocess.PIPE) as flood:
        assert flood.stdout.readline()
        answered = tried = 0
        while flood.poll() is None:
            tried += 1
            with contextlib.suppress(ConnectionError, http.client.RemoteDisconnected):
                answered += asked(program) == (200, True)
    assert answered >= tried / 2
    assert asked(program) == (200, True)
    assert program.end() == ""


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET foo HTTP/1.1\r\n\r\n", b"HTTP/1.1 403 "),
        (b"GET http://[x/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 403 "),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 403 "),
        (b"GET  HTTP/1.1\r\n\r\n", b"Use the complete address"),
        (b"GET /\xff\xfe/%ff%00?%ff=%00&&=\x01 HTTP/1.1\r\nHost: \xff\r\n\r\n", b"HTTP/1.1 403 "),
        (b"GET / HTTP/9.x\r\n\r\n", b"Error code: 400"),
        (b"\x16\x03\x01\x02\x00\x01\n", b"Error code: 400"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"HTTP/1.1 414 "),
        (b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n", b"HTTP/1.1 431 "),
        (
            b"GET / HTTP/1.1\r\n" + (b"X-Long: " + b"x" * 7000 + b"\r\n") * 20 + b"\r\n",
            b"HTTP/1.1 431 ",
        ),
    ],
)
def test_what_is_no_request_is_refused_without_a_trace(made, serve, sent, expected, capfd):
    server = serve(Site([made.results]))
    with socket.create_connection((ADDRESS, server.port), timeout=PATIENCE_S) as peer:
        with contextlib.suppress(ConnectionError):  # it need not read to the end
            peer.sendall(sent)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while more := peer.recv(4096):
                answer += more
    assert expected in answer
    assert asked(server) == (200, True)
    assert capfd.readouterr().err == ""


class Faulty(Site):
    """A site that cannot make its news."""

    def news(self, n, version):
        raise RecursionError("maximum recursion depth exceeded")


def test_a_fault_of_ours_is_reported_and_traced_once(made, serve, capfd):
    server = serve(Faulty([made.results]))
    for _ in range(5):
        connection = connect(server)
        connection.request("GET", f"/{server.token}/0/news?since=0")
        answer = connection.getresponse()
        assert answer.status == 500
        assert b"RecursionError: maximum recursion depth exceeded" in answer.read()
        connection.close()
    server.shutdown()
    assert capfd.readouterr().err.count("Traceback") == 1
