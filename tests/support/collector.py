"""A collector of traces on the loopback interface, which decodes OTLP; some collectors misbehave."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


def take(handler: BaseHTTPRequestHandler) -> None:
    """Answer as a collector does that takes everything."""
    answer(handler, 200, ExportTraceServiceResponse().SerializeToString())


def answer(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


@dataclass
class LoopbackCollector:
    """A running collector: what it got, and how it answers.

    Attributes:
        url: Its address.
        bodies: The bodies of the requests.
        paths: The paths of the requests.
        headers: The headers of the requests, with lower-case names.
        is_over: Set when the collector is to end, for an answer that waits.
    """

    behave: Callable[[BaseHTTPRequestHandler], None]
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def spans(self) -> list[Any]:
        """All spans of all requests, decoded."""
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextmanager
def collecting(behave: Callable[[BaseHTTPRequestHandler], None] = take) -> Iterator[LoopbackCollector]:
    """Run a collector in a thread, and end it."""
    collector = LoopbackCollector(behave)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            collector.paths.append(self.path)
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.close_connection = True
            collector.behave(self)

        def log_message(self, *_args: object) -> None:
            pass

        @property
        def is_over(self) -> threading.Event:
            return collector.is_over

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_args: None  # type: ignore[method-assign]  # a client that hangs up is expected
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="test-collector", daemon=True)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collector
    finally:
        collector.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def plain(attributes: Any) -> dict[str, Any]:
    """Attributes of OTLP as a dictionary."""
    return {each.key: value_of(each.value) for each in attributes}


def value_of(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(item) for item in value.array_value.values]
    return getattr(value, kind)
