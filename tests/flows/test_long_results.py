"""Long texts: results that exceed a prompt, and replies that end at the output limit."""

from conftest import OpenEngine
from support.replies import call

from artifactflow_nb.analysis.frames.catalog import TOOL_CALLS
from artifactflow_nb.analysis.frames.reading import load_frame
from artifactflow_nb.core.messages import Usage
from artifactflow_nb.core.toolcalls.xml import parse_results
from artifactflow_nb.flows.loop import TRUNCATION_NOTE
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.tools.base import MAX_RESULT_CHARS, ToolContext, tool

LONG = "".join(f"line {number}\n" for number in range(10_000))


@tool
def dump(ctx: ToolContext) -> str:
    """Return a lot."""
    del ctx
    return LONG


@tool(max_result_chars=200)
def complain(ctx: ToolContext) -> str:
    """Fail at length."""
    del ctx
    raise ValueError(LONG)


async def test_long_result_is_cut_in_the_prompt_only(open_engine: OpenEngine) -> None:
    """The model gets a part with a note about the rest; the row has the whole result, the frame both lengths."""
    engine = await open_engine([call("dump") + call("complain"), "Done."])
    for entry in (dump, complain):
        engine.register_tool(entry)
    result = await engine.controller.execute("Dump.")
    (_, displayed), (_, failed) = parse_results(engine.model.requests[1].messages[-1].content)
    assert len(displayed.data) < MAX_RESULT_CHARS + 200
    assert displayed.data.startswith("line 0\n")
    assert displayed.data.endswith("line 9999\n")
    assert f"{len(LONG) - MAX_RESULT_CHARS} characters left out" in displayed.data
    assert failed.error is not None
    assert len(failed.error) < 400
    frame = load_frame(engine.database.path, TOOL_CALLS, result.run_id)
    assert list(frame["result_truncated"]) == [True, True]
    assert list(frame["result_chars"]) == [len(LONG), 0]
    assert LONG in frame["error_message"][1]


async def test_short_result_is_unchanged(open_engine: OpenEngine) -> None:
    """Nothing is cut or marked."""
    engine = await open_engine([call("read_artifact", id="none"), "Done."])
    result = await engine.controller.execute("Read.")
    assert list(load_frame(engine.database.path, TOOL_CALLS, result.run_id)["result_truncated"]) == [False]


async def test_events_of_long_errors_are_small(open_engine: OpenEngine) -> None:
    """The event of a failed call has the beginning and end of its error."""
    engine = await open_engine([call("complain"), "Done."])
    engine.register_tool(complain)
    result = await engine.controller.execute("Complain.")
    (update,) = [event for event in await engine.runs.events(result.run_id) if event.type == "tool_complete"]
    assert 2_000 < len(update.data["error"]) < 2_200


async def test_answer_cut_at_the_output_limit_is_marked(open_engine: OpenEngine) -> None:
    """The partial answer ends with a line that gives the reason."""
    engine = await open_engine([ModelReply("It begins", Usage(1, 2), "length", "scripted")])
    result = await engine.controller.execute("Tell.")
    assert (result.status, result.response) == ("completed", f"It begins\n\n{TRUNCATION_NOTE}")


async def test_reasoning_alone_fails_the_run(open_engine: OpenEngine) -> None:
    """The error says that the model only reasoned, and that it reached its output limit."""
    engine = await open_engine([ModelReply("", Usage(1, 2), "length", "scripted", reasoning="Hm, hm.")])
    result = await engine.controller.execute("Tell.")
    assert (result.status, result.error_type) == ("failed", "RunFailed")
    assert "nothing but reasoning, cut off at its output limit" in result.error_message


async def test_call_cut_at_the_output_limit_does_not_run(open_engine: OpenEngine) -> None:
    """Parameters may be missing: the model is asked to repeat the call, and earlier calls run."""
    cut = call("read_artifact", id="a") + "<tool_call><name>create_artifact</name><params><id><![CDATA[b]]></id>"
    engine = await open_engine([ModelReply(cut, Usage(1, 2), "length", "scripted"), "Sorry."])
    result = await engine.controller.execute("Write.")
    assert result.response == "Sorry."
    (_, read), (_, created) = parse_results(engine.model.requests[1].messages[-1].content)
    assert "no artifact" in (read.error or "")
    assert "could not be read" in (created.error or "")
    assert await engine.artifacts.list_artifacts(result.conversation_id, message_id=result.message_id) == []
