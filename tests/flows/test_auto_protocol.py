"""`tool_protocol="auto"`: native calls, and calls in the text where an endpoint refuses or ignores tools."""

from pathlib import Path
from typing import Any

import pytest
from support.chat_endpoint import Answer, ChatServer, Request, calling
from support.replies import call

import artifactflow_nb as af

NOTE = {"id": "note", "title": "Note", "content": "Text"}
REFUSALS = [
    (400, {"error": {"message": "registry.ollama.ai/library/gemma3:4b does not support tools", "type": "api_error"}}),
    (404, {"error": {"message": "No endpoints found that support tool use.", "code": 404}}),
    (400, {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'}),
    (500, {"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}),
    (400, {"error": {"message": "deepseek-reasoner does not support Function Calling", "param": None}}),
    (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "tools"], "msg": "Extra inputs are not permitted"}]}),
    (400, [{"error": {"code": 400, "message": "Function calling is not enabled for models/gemma-3-27b-it"}}]),
    (
        400,
        {
            "error": {
                "message": "Function tools with reasoning_effort are not supported for gpt-5.6 in "
                "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
                "param": "reasoning_effort",
            }
        },
    ),
]


def open_workbench(server: ChatServer, folder: Path, **options: Any) -> af.Workbench:
    where: dict[str, Any] = {"base_url": server.base_url, "api_key": "key-123456", "model": "m", "data_dir": folder}
    return af.Workbench(**{**where, "interactive": False, "approvals": "approve", **options})


def text_turn(request: Request) -> Answer:
    """Write a note in the text protocol, then answer."""
    has_result = any("<tool_result" in str(message["content"]) for message in request.body["messages"])
    text = "Written." if has_result else call("create_artifact", **NOTE)
    return Answer(text, input_tokens=2_000)  # fewer would mean that the endpoint has cut the prompt


@pytest.mark.parametrize(("status", "error"), REFUSALS)
def test_refused_tools_are_called_in_the_text_from_then_on(tmp_path: Path, status: int, error: Any) -> None:
    """The refusal is one failed attempt and an event; the next run of the model does not ask again."""

    def script(request: Request) -> Answer:
        return Answer(status=status, error=error) if "tools" in request.body else text_turn(request)

    with ChatServer(script) as server, open_workbench(server, tmp_path, record=tmp_path / "c.jsonl") as wb:
        run, again = wb.ask("Write a note.").wait(), wb.ask("Write it again.").wait()
        assert (run.status, run.response, again.response) == ("completed", "Written.", "Written.")
        (retry,) = (event for event in run.events if event.type == "retry")
        assert "From now on this model calls tools in its text." in retry.data["reason"]
        assert run.artifacts["note"].content == "Text"
        assert ["tools" in request.body for request in server.requests] == [True, *[False] * 4]
        assert "<tool_call>" in server.requests[1].body["messages"][0]["content"]
        rows = wb.llm_calls_df(run)
        assert list(rows["error_type"].fillna("")) == ["ToolsRefused", "", ""]
        assert run.verify().differences == again.verify().differences == ()


def test_endpoint_that_takes_tools_is_called_natively(tmp_path: Path) -> None:
    """Native calls are the default, and a recording is verified in the same protocol."""
    answers = [calling(("create_artifact", NOTE)), Answer("Written.")]
    with ChatServer(answers) as server, open_workbench(server, tmp_path, record=tmp_path / "c.jsonl") as wb:
        run = wb.ask("Write a note.").wait()
        assert run.response == "Written."
        assert all(request.body["tools"] for request in server.requests)
        assert "<tool_call>" not in server.requests[1].body["messages"][0]["content"]
        report = run.verify()
        assert (report.differences, report.prompts) == ((), ())


def test_call_in_the_text_of_a_native_reply_is_run(tmp_path: Path) -> None:
    """An endpoint that ignores tools passes on the text of the model; later requests have the manual."""
    with ChatServer(text_turn) as server, open_workbench(server, tmp_path) as wb:
        run = wb.ask("Write a note.").wait()
        assert (run.response, run.artifacts["note"].content) == ("Written.", "Text")
        notices = [event.data.get("notice", "") for event in run.events if event.type == "llm_complete"]
        assert notices == [
            "The endpoint ignored the tools of the request. From now on this model calls tools in its text.",
            "",
        ]
        assert ["tools" in request.body for request in server.requests] == [True, False]


def test_native_protocol_that_was_chosen_is_kept(tmp_path: Path) -> None:
    """The error says which setting to change."""
    status, error = REFUSALS[0]
    answers = [Answer(status=status, error=error)]
    with ChatServer(answers) as server, open_workbench(server, tmp_path, tool_protocol="native") as wb:
        run = wb.ask("Write a note.").wait()
        assert run.status == "failed"
        assert "tool_protocol" in run.response.reason


def test_protocol_survives_a_pause_and_another_process(tmp_path: Path) -> None:
    """A run that continues in another process calls tools in the protocol of its start."""

    def script(request: Request) -> Answer:
        return Answer(status=REFUSALS[0][0], error=REFUSALS[0][1]) if "tools" in request.body else text_turn(request)

    with ChatServer(script) as server:
        with open_workbench(server, tmp_path, approvals={"create_artifact": "ask"}) as wb:
            run_id = wb.ask("Write a note.").wait().run_id
        with open_workbench(server, tmp_path) as wb:
            assert wb.run(run_id).approve().wait().response == "Written."
        assert ["tools" in request.body for request in server.requests] == [True, False, False]


def test_native_turns_before_a_refusal_are_written_as_text(tmp_path: Path) -> None:
    """The next prompt has the earlier call in the text of the reply."""
    refusal = Answer(status=REFUSALS[0][0], error=REFUSALS[0][1])
    with ChatServer([calling(("create_artifact", NOTE)), refusal, Answer("Written.")]) as server:
        with open_workbench(server, tmp_path) as wb:
            assert wb.ask("Write a note.").wait().response == "Written."
        turn = server.requests[2].body["messages"][-2]
        assert turn == {"role": "assistant", "content": call("create_artifact", **NOTE)}
