"""A pass-through on the loopback interface that adds fields to chat requests, as an endpoint's own extensions ask.

::

    OpenAIModel ──> ExtendingProxy ──(body | extend(body))──> server
                ^────── bytes as they come ─────────────────────┘

If a client disconnects, the proxy disconnects from the server.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

Extend = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_TIMEOUT_S = 60.0


@contextmanager
def extending_proxy(address: str, extend: Extend) -> Iterator[str]:
    """The base URL of a proxy before the server at `address`; `extend` gives the fields to add to a request's body."""
    upstream = urlsplit(address).netloc

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with closing(HTTPConnection(upstream, timeout=_TIMEOUT_S)) as connection, suppress(ConnectionError):
                headers = {"Content-Type": "application/json"}
                connection.request("POST", self.path, json.dumps({**body, **extend(body)}), headers)
                answer = connection.getresponse()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.end_headers()
                while piece := answer.read1():
                    self.wfile.write(piece)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()
