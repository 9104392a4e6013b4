"""The server of the viewer: who is answered, byte ranges, files of the page, what can be sent."""

from __future__ import annotations

import http.client
import json
import re
import socket

import pytest

from unglow.pages.report.live_answers import range_of
from unglow.pages.report.live_server import ADDRESS, MOST_SENT
from unglow.pages.viewer.served_files import page_files

SHARD = "pair/S1~DAPI/layers/post.zarr/0/c/0/0"
CHANGE = {"changes": []}
#: Scripts that the page starts otherwise.
AFTER = ("main.js", "decoder.js", "vendor/blosc.min.js", "vendor/openseadragon.min.js")


@pytest.mark.parametrize(
    ("header", "part"),
    [
        *(("bytes=0-0", (0, 1)), ("bytes=10-19", (10, 20)), ("bytes=90-", (90, 100))),
        *(("bytes=-4", (96, 100)), ("bytes=-400", (0, 100)), ("bytes=5-1000", (5, 100))),
        *(("", None), ("bytes=-", None), ("bytes=9-3", None), ("bytes=1-2,4-5", None)),
        *(("lines=1-2", None), ("bytes=a-b", None), ("bytes=1-" + 30 * "9", None)),
        *(("bytes=100-", ValueError), ("bytes=-0", ValueError), ("bytes=400-500", ValueError)),
    ],
)
def test_ranges_are_those_of_http(header, part):
    if part is ValueError:
        with pytest.raises(ValueError, match="of 100 bytes"):
            range_of(header, 100)
    else:
        assert range_of(header, 100) == part


def test_a_part_of_a_shard_is_sent(seen, finished):
    shard = (finished / "S1/DAPI/post.ome.zarr/0/c/0/0").read_bytes()
    size = len(shard)
    for header, part in (("bytes=-68", shard[-68:]), ("bytes=5-104", shard[5:105])):
        answer, body = seen.ask(SHARD, Range=header)
        assert (answer.status, body) == (206, part)
        begin = shard.index(part)
        assert answer.getheader("Content-Range") == f"bytes {begin}-{begin + len(part) - 1}/{size}"
    answer, body = seen.ask(SHARD, Range=f"bytes={size}-")
    assert (answer.status, body) == (416, b"")
    assert answer.getheader("Content-Range") == f"bytes */{size}"
    answer, body = seen.ask(SHARD)
    assert (answer.status, body) == (200, shard)
    assert answer.getheader("Accept-Ranges") == "bytes"


def test_the_head_says_how_long_a_shard_is(seen, finished):
    answer, body = seen.ask(SHARD, "HEAD")
    size = (finished / "S1/DAPI/post.ome.zarr/0/c/0/0").stat().st_size
    assert (answer.status, answer.getheader("Content-Length"), body) == (200, str(size), b"")
    again, _ = seen.ask(SHARD, **{"If-None-Match": answer.getheader("ETag")})
    assert again.status == 304
    part, _ = seen.ask(SHARD, "HEAD", Range="bytes=-10")
    assert (part.status, part.getheader("Content-Length")) == (206, "10")


def test_many_requests_are_answered_on_one_connection(seen):
    connection = http.client.HTTPConnection(ADDRESS, seen.server.port, timeout=300)
    for path in (SHARD, "pairs.json", "pair/x/pair.json", SHARD, "pair/S1~DAPI/arrows.json"):
        for method in ("GET", "HEAD"):
            connection.request(method, seen.base + path)
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == (404 if "/x/" in path else 200)
            assert bool(content) == (method == "GET")
    connection.close()


def test_the_page_may_ask_this_server_alone(seen):
    answer, body = seen.ask("")
    assert answer.status == 200
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    policy = answer.getheader("Content-Security-Policy")
    for part in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert part in policy
    assert "http:" not in policy
    assert answer.getheader("Referrer-Policy") == "no-referrer"
    assert seen.ask("index.html")[1] == body
    again, _ = seen.ask("", **{"If-None-Match": answer.getheader("ETag")})
    assert again.status == 304


@pytest.mark.parametrize(
    "head",
    [
        *(
            "GET /x HTTP/1.1",
            "GET {base}x HTTP/1.1",
            "GET {base} HTTP/1.1",
            "POST {base}x HTTP/1.1",
        ),
        *("PUT {base} HTTP/1.1", "GET {base} x y HTTP/1.1"),
        f"GET /{'x' * 70_000} HTTP/1.1",
    ],
)
def test_no_answer_lets_a_browser_pass_the_address_on(seen, head):
    with socket.create_connection((ADDRESS, seen.server.port), timeout=300) as connection:
        text = head.format(base=seen.base) + f"\r\nHost: {ADDRESS}\r\nConnection: close\r\n\r\n"
        connection.sendall(text.encode())
        answer = connection.makefile("rb").read().partition(b"\r\n\r\n")[0].decode()
    assert answer.startswith("HTTP/1.1 ")
    assert answer.count("Referrer-Policy: no-referrer") == 1


def test_the_address_without_its_slash_leads_to_the_page(seen):
    connection = http.client.HTTPConnection(ADDRESS, seen.server.port, timeout=300)
    connection.request("GET", seen.base.removesuffix("/"))
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Location")) == (302, "view/")
    connection.close()


def test_files_of_the_page_are_those_of_its_folder(seen):
    answer, _ = seen.ask("assets/view.css")
    assert answer.getheader("Content-Type") == "text/css; charset=utf-8"
    answer, _ = seen.ask("assets/vendor/zarrita.min.js", **{"Accept-Encoding": "gzip"})
    assert answer.getheader("Content-Type") == "text/javascript; charset=utf-8"
    assert answer.getheader("Content-Encoding") == "gzip"
    for path in (
        *("assets/", "assets", "assets/vendor", "assets/../site.py", "assets/..%2fsite.py"),
        *("view.css", "assets/%2e%2e/site.py", "site.py", "assets//etc/passwd", "x", "pair"),
        *(
            "pair/S1~DAPI",
            "pair/S1~DAPI/",
            "pair/S1~DAPI/details/plan.json",
            "pair/S1~DAPI/pair.json/x",
        ),
        *("pair/S1/DAPI/pair.json", "pair/..~DAPI/pair.json", "pair/S1~~DAPI/pair.json"),
    ):
        assert seen.ask(path)[0].status == 404, path


def test_only_who_knows_the_token_is_answered(seen):
    for path in (seen.base.replace(seen.server.token, "x"), "/0/view/pairs.json"):
        connection = http.client.HTTPConnection(ADDRESS, seen.server.port, timeout=300)
        for method in ("GET", "HEAD", "POST"):
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 403
        connection.close()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8798", "127.0.0.1.evil.example"])
def test_a_page_that_calls_itself_this_machine_is_refused(seen, host):
    assert seen.ask("pairs.json", Host=host)[0].status == 403


def test_only_pages_of_this_server_can_send_something(seen):
    path, own = "pair/S1~DAPI/review", f"http://{ADDRESS}:{seen.server.port}"
    for origin in ("http://evil.example", "null", "", f"https://{ADDRESS}", own + "1", own + "/"):
        status, answer = seen.send(path, CHANGE, Origin=origin)
        assert (status, answer) == (403, {"error": "Nothing is taken from pages of other servers."})
    assert seen.send(path, CHANGE, Origin=own)[0] == 200
    assert seen.send(path, CHANGE)[0] == 200  # a program
    # through a tunnel to another port
    assert seen.send(path, CHANGE, Origin="http://localhost:9", Host="localhost:9")[0] == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_form_can_send_is_not_taken(seen, kind):
    status, answer = seen.send("pair/S1~DAPI/review", CHANGE, **{"Content-Type": kind})
    assert (status, answer["error"]) == (415, "Content has to be application/json.")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (f"Content-Length: {MOST_SENT + 1}\r\n", 413),
        ("Content-Length: 9" + 30 * "9" + "\r\n", 413),
        ("Content-Length: -1\r\n", 411),
        ("Content-Length: 1e3\r\n", 411),
        ("Transfer-Encoding: chunked\r\n", 411),
        ("", 411),
    ],
)
def test_what_is_too_long_or_of_unknown_length_is_not_read(seen, headers, status):
    head = (
        f"POST {seen.base}pair/S1~DAPI/review HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\n{headers}\r\n"
    )
    with socket.create_connection((ADDRESS, seen.server.port), timeout=300) as connection:
        connection.sendall(head.encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == status
        assert json.loads(answer.read())["error"]
        assert answer.getheader("Connection") == "close"


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b"1", 100_000 * b"[", b'{"changes": 1}', b'{"changes": [1]}'],
)
def test_what_is_no_change_is_refused_with_a_sentence(seen, body):
    path, kind = "pair/S1~DAPI/review", {"Content-Type": "application/json"}
    answer, content = seen.ask(path, "POST", body, **kind)
    assert answer.status == 400
    assert json.loads(content)["error"].endswith(".")


@pytest.mark.parametrize("path", ["", "pairs.json", "assets/view.css", "pair/S1~DAPI/pair.json"])
def test_nothing_can_be_sent_elsewhere(seen, path):
    assert seen.send(path, {})[0] == 404


def test_the_page_asks_for_all_its_modules_at_once():
    files = page_files()
    modules = {name for name in files if name.endswith(".js") and name not in AFTER}
    preloaded = re.findall(
        r'"modulepreload" href="assets/([^"]+)"', files["index.html"].body.decode()
    )
    assert set(preloaded) == modules
