"""Runs as traces: what a collector decodes, the same bytes again, content only if asked for, and bad collectors."""

import json
import socket
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from support.collector import answer, collecting, plain, value_of
from support.lake_runs import NOTE, QUESTION, lake_run

import artifactflow_nb as af
from artifactflow_nb.plugins.otel.spans import MAPPING

OpenWorkbench = Callable[..., af.Workbench]


@pytest.fixture
def run(workbench: OpenWorkbench, tmp_path: Path) -> tuple[af.Workbench, af.Run]:
    """A run with a subagent, tools and an approval."""
    return lake_run(workbench, tmp_path)


def decoded(wb: af.Workbench, run: af.Run, **options: Any) -> list[Any]:
    with collecting() as collector:
        n_spans = wb.otel.send(run, to=collector.url, **options)
    assert collector.paths == ["/v1/traces"]
    assert collector.headers[0]["content-type"] == "application/x-protobuf"
    spans = collector.spans()
    assert len(spans) == n_spans
    return spans


def test_collector_gets_the_tree_of_a_run(run: tuple[af.Workbench, af.Run]) -> None:
    """The run is above its jobs, a job above its calls, and a tool call above the job that it started."""
    spans = decoded(*run)
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    assert {span.trace_id for span in spans} == {spans[0].trace_id}
    edges = {
        (by_id[span.parent_span_id].name if span.parent_span_id else "", span.name, len(span.span_id)) for span in spans
    }
    assert edges == {
        ("", "invoke_workflow research", 8),
        ("invoke_workflow research", "invoke_agent lead_agent", 8),
        ("invoke_agent lead_agent", "chat scripted", 8),
        ("invoke_agent lead_agent", "execute_tool call_subagent", 8),
        ("execute_tool call_subagent", "invoke_agent crawl_agent", 8),
        ("invoke_agent crawl_agent", "chat scripted", 8),
        ("invoke_agent crawl_agent", "execute_tool web_fetch", 8),
        ("invoke_agent lead_agent", "execute_tool create_artifact", 8),
    }
    for span in spans:
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano


def test_spans_have_the_names_of_the_conventions(run: tuple[af.Workbench, af.Run]) -> None:
    wb, ended = run
    spans = {span.name: span for span in decoded(wb, ended)}
    chat = plain(spans["chat scripted"].attributes)
    assert chat["gen_ai.operation.name"] == "chat"
    assert (chat["gen_ai.request.model"], chat["gen_ai.response.model"]) == ("scripted", "scripted")
    assert chat["gen_ai.response.finish_reasons"] == ["stop"]
    assert chat["gen_ai.usage.input_tokens"] > 0
    assert chat["artifactflow.attempt"] == 1
    tool = plain(spans["execute_tool web_fetch"].attributes)
    assert (tool["gen_ai.tool.name"], tool["artifactflow.status"]) == ("web_fetch", "finished")
    assert tool["gen_ai.tool.call.id"] in set(wb.tool_calls_df(ended)["tool_call_id"])
    root = plain(spans["invoke_workflow research"].attributes)
    assert root["gen_ai.conversation.id"] == ended.conversation_id
    assert root["artifactflow.run_id"] == ended.run_id
    kinds = {name: span.kind for name, span in spans.items()}
    assert (kinds["chat scripted"], kinds["execute_tool web_fetch"]) == (3, 1)


def test_approval_is_two_events_of_its_job(run: tuple[af.Workbench, af.Run]) -> None:
    spans = {span.name: span for span in decoded(*run)}
    events = spans["invoke_agent lead_agent"].events
    assert [event.name for event in events] == ["artifactflow.approval.requested", "artifactflow.approval.decided"]
    decided = plain(events[1].attributes)
    assert (decided["gen_ai.tool.name"], decided["artifactflow.decision"]) == ("create_artifact", "approved")
    assert "artifactflow.decision" not in plain(events[0].attributes)
    assert events[0].time_unix_nano <= events[1].time_unix_nano


def test_openinference_has_kinds_and_numbered_messages(run: tuple[af.Workbench, af.Run]) -> None:
    spans = decoded(*run, dialect="openinference", content=True)
    kinds = {span.name.split()[0]: plain(span.attributes)["openinference.span.kind"] for span in spans}
    assert kinds == {"invoke_workflow": "CHAIN", "invoke_agent": "AGENT", "chat": "LLM", "execute_tool": "TOOL"}
    chats = [plain(span.attributes) for span in spans if span.name.startswith("chat")]
    assert chats[0]["llm.input_messages.0.message.role"] == "system"
    assert any(QUESTION in str(value) for name, value in chats[0].items() if name.endswith("message.content"))
    assert chats[0]["llm.token_count.prompt"] > 0
    [fetch] = [plain(span.attributes) for span in spans if span.name.endswith("web_fetch")]
    assert "local:papers/lake.md" in fetch["input.value"]
    assert NOTE in fetch["output.value"]


@pytest.mark.parametrize("dialect", ["genai", "openinference"])
@pytest.mark.parametrize("content", [False, True])
def test_second_export_has_the_same_bytes(run: tuple[af.Workbench, af.Run], dialect: Any, content: bool) -> None:
    """An export from the sealed run, or after the workbench was opened again, has the same bytes."""
    wb, ended = run
    first = wb.otel.encode(ended, dialect=dialect, content=content)
    assert wb.otel.encode(ended.run_id[:12], dialect=dialect, content=content) == first
    with af.open_run(ended.seal(Path("run.afrun"))) as sealed:
        assert sealed.otel.encode(sealed, dialect=dialect, content=content) == first
        assert wb.otel.encode(sealed, dialect=dialect, content=content) == first
    wb.close()
    with af.Workbench(model=af.ScriptedModel([]), data_dir=wb.data_dir, interactive=False) as again:
        assert again.otel.encode(ended.run_id, dialect=dialect, content=content) == first


def test_content_is_sent_only_if_asked_for(run: tuple[af.Workbench, af.Run]) -> None:
    """Neither the question nor a text of a model or a tool is in an export without content."""
    wb, ended = run
    for dialect in ("genai", "openinference"):
        silent = wb.otel.encode(ended, dialect=dialect)
        assert not any(text.encode() in silent for text in (QUESTION, NOTE, "41 metres", "lake.md", "Find the depth"))
    spans = {span.name: plain(span.attributes) for span in decoded(wb, ended, content=True)}
    root = spans["invoke_workflow research"]
    assert json.loads(root["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
    ]
    assert "It is 41 metres deep." in root["gen_ai.output.messages"]
    assert NOTE in spans["execute_tool web_fetch"]["gen_ai.tool.call.result"]


def test_failed_attempt_is_a_span_with_its_error(workbench: OpenWorkbench) -> None:
    """Each attempt has a span; the span of the failed attempt has the status error, without its message."""
    failure = af.errors.ContextOverflow("The endpoint at http://10.0.0.7 refused it.")
    wb = workbench([failure, "Yes."], interactive=False)
    spans = [span for span in decoded(wb, wb.ask("Is it so?").wait()) if span.name.startswith("chat")]
    assert [(span.status.code, plain(span.attributes).get("error.type")) for span in spans] == [
        (2, "ContextOverflow"),
        (0, None),
    ]
    assert [plain(span.attributes)["artifactflow.attempt"] for span in spans] == [1, 2]
    assert b"10.0.0.7" not in wb.otel.encode(wb.runs()[0].run_id, content=True)


def test_denied_call_has_a_span_without_a_length(workbench: OpenWorkbench) -> None:
    call = af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "Text"})
    wb = workbench([call, "Denied."], interactive=False, approvals={"create_artifact": "ask"})
    ended = wb.ask("Write.").wait()
    ended.deny().wait()
    [span] = [span for span in decoded(wb, ended) if span.name.startswith("execute_tool")]
    assert plain(span.attributes)["artifactflow.approval"] == "denied"
    assert span.end_time_unix_nano >= span.start_time_unix_nano


def test_run_that_has_not_ended_is_refused(workbench: OpenWorkbench) -> None:
    call = af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "Text"})
    wb = workbench([call, "Done."], interactive=False, approvals={"create_artifact": "ask"})
    ended = wb.ask("Write.").wait()
    with pytest.raises(af.errors.Conflict, match="is waiting. Export the run when it has ended"):
        wb.otel.encode(ended)
    with pytest.raises(af.errors.NotFound):
        wb.otel.encode("run-none")
    ended.approve().wait()
    with pytest.raises(af.errors.UsageError, match="Unknown dialect 'jaeger'. Pass one of: genai, openinference"):
        wb.otel.encode(ended, dialect="jaeger")  # type: ignore[arg-type]


def test_several_runs_are_one_request_with_a_trace_each(workbench: OpenWorkbench) -> None:
    wb = workbench(["One.", "Two."], interactive=False)
    runs = [wb.ask("One?").wait(), wb.ask("Two?").wait()]
    with collecting() as collector:
        wb.otel.send(runs, to=f"{collector.url}/own/path", headers={"X-Key": "k"})
    assert collector.paths == ["/own/path"]
    assert collector.headers[0]["x-key"] == "k"
    assert len({span.trace_id for span in collector.spans()}) == 2


def refuse(handler: BaseHTTPRequestHandler) -> None:
    answer(handler, 500, b"no")


def redirect(handler: BaseHTTPRequestHandler) -> None:
    answer(handler, 307, b"", Location="http://127.0.0.1:1/elsewhere")


def fill(handler: Any) -> None:
    """Answer without an end."""
    handler.send_response(200)
    handler.end_headers()
    while not handler.is_over.is_set():
        handler.wfile.write(b"x" * 65_536)


def drip(handler: Any) -> None:
    """Answer with a header a piece of which comes now and then."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.is_over.wait(0.05):
        handler.wfile.write(b"x")


def stay_silent(handler: Any) -> None:
    handler.is_over.wait()


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def say_nonsense(handler: BaseHTTPRequestHandler) -> None:
    answer(handler, 200, b"<html>Sign in to this network</html>")


@pytest.mark.parametrize("behave", [refuse, redirect, fill, drip, stay_silent, hang_up, say_nonsense])
def test_bad_collector_costs_a_message_and_nothing_else(
    workbench: OpenWorkbench, behave: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    """The export ends with one sentence, without the key; the run can be exported again, and another run works."""
    wb = workbench(["Yes.", "Still yes."], interactive=False)
    ended = wb.ask("Is it so?").wait()
    before = wb.otel.encode(ended, content=True)
    key = "collector-key-5150"
    with collecting(behave) as collector, pytest.raises(af.errors.UsageError, match="did not take the spans") as error:
        wb.otel.send(ended, to=f"{collector.url}?token={key}", headers={"Authorization": key}, timeout_s=0.5)
    assert key not in str(error.value)
    assert collector.url in str(error.value)
    assert wb.otel.encode(ended, content=True) == before
    assert wb.ask("Is it still so?").wait().response == "Still yes."


def test_absent_collector_is_told_in_one_sentence(workbench: OpenWorkbench) -> None:
    wb = workbench(["Yes."], interactive=False)
    ended = wb.ask("Is it so?").wait()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(
        af.errors.UsageError, match=rf"127.0.0.1:{port} did not take the spans \(ConnectionRefusedError\)"
    ):
        wb.otel.send(ended, to=f"http://127.0.0.1:{port}")
    for address in ("127.0.0.1:4318", "ftp://127.0.0.1", "http://name:password@127.0.0.1"):
        with pytest.raises(af.errors.UsageError, match="must be an http or https address") as error:
            wb.otel.send(ended, to=address)
        assert "password@" not in str(error.value)


def test_rejected_spans_are_counted(workbench: OpenWorkbench) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 2
    wb = workbench(["Yes."], interactive=False)
    ended = wb.ask("Is it so?").wait()
    with collecting(lambda handler: answer(handler, 200, response.SerializeToString())) as collector:
        n_taken = wb.otel.send(ended, to=collector.url)
    assert n_taken == len(collector.spans()) - 2


def test_missing_package_is_told_with_the_command(workbench: OpenWorkbench, monkeypatch: pytest.MonkeyPatch) -> None:
    wb = workbench(["Yes."], interactive=False)
    ended = wb.ask("Is it so?").wait()
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1", None)
    with pytest.raises(af.errors.UsageError, match=r"pip install 'artifactflow-nb\[otel\]'"):
        wb.otel.encode(ended)


def test_version_of_the_mapping_is_in_each_export(workbench: OpenWorkbench) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    wb = workbench(["Yes."], interactive=False)
    request = ExportTraceServiceRequest.FromString(wb.otel.encode(wb.ask("Is it so?").wait()))
    [scope] = request.resource_spans[0].scope_spans
    assert value_of(scope.scope.attributes[0].value) == MAPPING["version"] == 2
    assert scope.scope.version == af.__version__
