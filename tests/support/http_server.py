"""A server of runs on the loopback interface, in a thread of this process, and readers of its events."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import httpx

from artifactflow_nb.server.access import Access
from artifactflow_nb.server.app import API_PREFIX, EndingServer, make_app
from artifactflow_nb.server.lifecycle import RunLifecycle


@dataclass(frozen=True)
class Received:
    """A server-sent event."""

    id: int
    event: str
    value: dict[str, Any]

    @property
    def data(self) -> dict[str, Any]:
        return self.value["data"]


class Client:
    """A client of a server.

    Args:
        base_url: The address of the server.
        headers: The headers of every request.
    """

    def __init__(self, base_url: str, headers: dict[str, str] | None = None) -> None:
        self.base_url = base_url
        self.http = httpx.Client(base_url=base_url + API_PREFIX, headers=headers, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.http.close()

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.http.get(path, **options)

    def ask(self, content: str, **body: Any) -> dict[str, Any]:
        answer = self.post("/chat", content=content, **body)
        assert answer.status_code == 202, answer.text
        return answer.json()

    def raw(self, thread_id: str, **params: Any) -> str:
        """The whole stream as text."""
        answer = self.get(f"/stream/{thread_id}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.text

    def events(self, thread_id: str, last: int | None = None, **params: Any) -> Iterator[Received]:
        """Read events as they come; the connection is closed with the iterator."""
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        with self.http.stream("GET", f"/stream/{thread_id}", params=params, headers=headers) as answer:
            assert answer.status_code == 200
            yield from parse(answer.iter_lines())


def parse(lines: Iterator[str]) -> Iterator[Received]:
    """Parse server-sent events; comments are skipped."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line and fields:
            yield Received(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


@contextmanager
def serving(lifecycle: RunLifecycle, access: Access | None = None, port: int = 0) -> Iterator[Client]:
    """Serve a lifecycle and close it at the end."""
    server = EndingServer(make_app(lifecycle, access), lifecycle, "127.0.0.1", port)
    thread = threading.Thread(target=server.run, name="test-uvicorn", daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with Client(f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
