"""A real server that shows results, and a browser's way of asking it."""

from __future__ import annotations

import http.client
import json

from served_sites import served

from unglow.pages.report.live_server import ADDRESS
from unglow.pages.report.live_site import Site
from unglow.pages.viewer.site import NAME, Viewer


class Seen:
    """A server of results directories, for as long as the block goes on."""

    name = NAME

    def __init__(self, *places):
        self._served = served(Site(places, {NAME: Viewer}))

    def __enter__(self):
        self.server = self._served.__enter__()
        self.base = f"/{self.server.token}/0/{self.name}/"
        return self

    def __exit__(self, *error):
        return self._served.__exit__(*error)

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
