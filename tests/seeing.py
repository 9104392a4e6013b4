"""A real server that shows results, and a browser's way of asking it."""

from __future__ import annotations

import http.client
import json
import threading

from unglow.reporting.html.live_server import ADDRESS, Server
from unglow.reporting.html.live_site import Site
from unglow.viewer.site import NAME, Viewer


class Seen:
    """A server of results directories, for as long as the block goes on."""

    def __init__(self, *places):
        self.server = Server(Site(places, {NAME: Viewer}))
        self.base = f"/{self.server.token}/0/{NAME}/"

    def __enter__(self):
        options = {"kwargs": {"poll_interval": 0.05}}
        self._thread = threading.Thread(target=self.server.serve_forever, **options)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    @property
    def url(self):
        return f"http://{ADDRESS}:{self.server.port}{self.base}"

    def ask(self, path, method="GET", body=None, **headers):
        """Return answer and body of a request below the viewer's address."""
        connection = http.client.HTTPConnection(ADDRESS, self.server.port, timeout=60)
        connection.request(method, self.base + path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def json(self, path):
        answer, body = self.ask(path)
        assert answer.status == 200, body
        return json.loads(body)

    def send(self, path, content, **headers):
        """Return status and JSON of what is answered to JSON."""
        all_headers = {"Content-Type": "application/json"} | headers
        answer, body = self.ask(path, "POST", json.dumps(content), **all_headers)
        return answer.status, json.loads(body)
