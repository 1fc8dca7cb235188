"""Traces in OTLP: as bytes of protobuf, and sent to a collector over HTTP."""

import socket
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, get_args
from urllib.parse import urlsplit

from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.otel.spans import MAPPING, Dialect, Trace, attributes

_MOST_ANSWER_BYTES = 64_000


def trace_service() -> Any:
    """Return the messages of the trace service; `UsageError` if their package is not installed."""
    try:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    except ImportError:
        raise UsageError(
            "OpenTelemetry needs opentelemetry-proto, which is not installed: pip install 'artifactflow-nb[otel]'"
        ) from None
    return trace_service_pb2


def encode(traces: Iterable[Trace], dialect: Dialect) -> bytes:
    """Encode traces as an `ExportTraceServiceRequest`; equal traces give equal bytes. Errors: `UsageError`."""
    if dialect not in get_args(Dialect):
        raise UsageError(f"Unknown dialect {brief(dialect)}. Pass one of: {', '.join(get_args(Dialect))}.")
    request = trace_service().ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    _add(resource.resource.attributes, [("service.name", "artifactflow-nb")])
    for trace in traces:
        scope = resource.scope_spans.add()
        scope.scope.name, scope.scope.version = "artifactflow_nb", trace.package_version
        _add(scope.scope.attributes, [("artifactflow.mapping_version", MAPPING["version"])])
        for span in trace.spans:
            encoded = scope.spans.add(
                trace_id=trace.trace_id, span_id=span.span_id, parent_span_id=span.parent_id,
                name=f"{span.operation} {span.name}".strip(),
                kind="SPAN_KIND_CLIENT" if span.operation == "chat" else "SPAN_KIND_INTERNAL",
                start_time_unix_nano=span.start * 1000, end_time_unix_nano=span.end * 1000,
            )  # fmt: skip
            _add(encoded.attributes, attributes({"operation": span.operation, **span.facts}, dialect))
            if span.facts.get("error"):
                encoded.status.code = encoded.status.STATUS_CODE_ERROR
            for at, name, facts in span.events:
                _add(encoded.events.add(name=name, time_unix_nano=at * 1000).attributes, attributes(facts, dialect))
    return bytes(request.SerializeToString(deterministic=True))


def _add(encoded: Any, values: Iterable[tuple[str, Any]]) -> None:
    for name, value in values:
        attribute = encoded.add(key=name).value
        if isinstance(value, str):
            attribute.string_value = value.encode("utf-8", "replace").decode()  # a lone surrogate cannot be encoded
        elif isinstance(value, list):
            for item in value:
                attribute.array_value.values.add(string_value=item)
        else:
            setattr(attribute, "double_value" if isinstance(value, float) else "int_value", value)


def send(body: bytes, url: str, headers: Mapping[str, str], timeout_s: float) -> int:
    """Send an encoded request once to a collector, and return the number of spans that the collector rejects.

    Variables of the environment for proxies are not read, redirections are not followed, and no message has a header.

    Errors: `UsageError` for an address that is not usable, and if the collector does not take the request.
    """
    from google.protobuf.message import DecodeError

    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise UsageError("to= must be an http or https address without a password. Pass keys as headers=.")
    path = parts._replace(scheme="", netloc="", path=parts.path if parts.path.strip("/") else "/v1/traces").geturl()
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    deadline = time.monotonic() + timeout_s
    try:
        with closing(connect(parts.hostname, parts.port, timeout=timeout_s)) as connection:
            connection.connect()
            end = threading.Timer(timeout_s, _hang_up, [connection.sock])  # a timeout of a socket is for each piece
            end.start()
            try:
                connection.request("POST", path, body, {"Content-Type": "application/x-protobuf", **headers})
                with connection.getresponse() as answer:
                    content = answer.read(_MOST_ANSWER_BYTES)
            finally:
                end.cancel()
        is_late, is_whole = time.monotonic() >= deadline, len(content) < _MOST_ANSWER_BYTES
        if answer.status == HTTPStatus.OK and is_whole and not is_late:
            response = trace_service().ExportTraceServiceResponse.FromString(content)
            return int(response.partial_success.rejected_spans)
        problem = "no end of the answer" if is_late else f"status {answer.status}"
    except (OSError, HTTPException, ValueError, DecodeError) as error:
        problem = type(error).__name__
    raise UsageError(
        f"The collector at {parts.scheme}://{parts.netloc} did not take the spans ({problem}). The runs are unchanged; "
        "send them again, since spans have the same ids then."
    )


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
