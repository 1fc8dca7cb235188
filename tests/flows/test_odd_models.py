"""Models that behave badly: the run ends with the results so far, and names the problem."""

import pytest
from conftest import OpenEngine, OpenWorkbench
from support.chat_endpoint import Answer, ChatServer
from support.replies import call, delegate, report

from artifactflow_nb.core.messages import ToolCall, Usage
from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.flows.loop import FILTER_NOTE, NO_SOURCE
from artifactflow_nb.models.base import ModelReply, ModelRequest
from artifactflow_nb.widgets.run.saved import saved_run

CITED = "See local:python-reference#del."
ONCE_MORE = report("Again.", "again")


def reply(text: str, reason: str = "stop", *calls: ToolCall) -> ModelReply:
    return ModelReply(text, Usage(10, 5), reason, "scripted", calls)


# --- a call in the concluding turn -----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["xml", "native"])
async def test_run_whose_last_turn_is_a_call_ends_with_its_report(open_engine: OpenEngine, protocol: str) -> None:
    """All five rounds are used; the run completes, because the report is written."""
    turns = [report(CITED), *(report(f"Round {n}", f"a{n}") for n in range(4)), ONCE_MORE]
    engine = await open_engine(turns, approvals="approve", settings={"tool_protocol": protocol})
    result = await engine.controller.execute("Write.")
    assert engine.model.requests[-1].tool_choice == "none"
    assert (result.status, result.error_message) == ("completed", None)
    assert "The artifact `research_report` is written: Report." in result.response
    (end,) = [event for event in await engine.runs.events(result.run_id) if event.is_terminal]
    assert end.data["notices"] == [
        "The model called create_artifact in its last turn, in which it had to answer. No tool was run."
    ]
    assert "again" not in result.response


async def test_answer_next_to_an_ignored_call_is_unchanged(open_engine: OpenEngine) -> None:
    turns = [*(report(f"Round {n}", f"a{n}") for n in range(5)), f"{CITED} {ONCE_MORE}"]
    engine = await open_engine(turns, approvals="approve")
    result = await engine.controller.execute("Write.")
    assert result.response == CITED
    (end,) = [event for event in await engine.runs.events(result.run_id) if event.is_terminal]
    assert ["create_artifact" in notice for notice in end.data["notices"]] == [True]


async def test_run_with_only_calls_fails_and_lists_the_calls(open_engine: OpenEngine) -> None:
    engine = await open_engine([call("read_artifact", id="none")] * 6, approvals="approve")
    result = await engine.controller.execute("Write.")
    assert result.status == "failed"
    assert "a call of read_artifact, which it could not make any more, instead of an answer" in result.error_message


async def test_lead_learns_that_a_job_ended_with_a_call(open_engine: OpenEngine) -> None:
    """The lead gets the prose that the job wrote before, and a note about the call."""
    searching = [f"I found the page {n}. {call('web_search', query='ferry')}" for n in range(3)]
    turns = [delegate("search_agent", "Find it."), *searching, call("web_search", query="x"), CITED]
    engine = await open_engine(turns)
    assert (await engine.controller.execute("What?")).response == CITED
    result = engine.model.requests[-1].messages[-1].content
    assert "I found the page 2." in result
    assert "[The model called web_search in its last turn, in which it had to answer. No tool was run.]" in result


# --- sources ---------------------------------------------------------------------------------------------------------


def test_answer_without_a_source_is_marked(workbench: OpenWorkbench) -> None:
    """The view and `run.notices` say so; the text of the model is unchanged."""
    wb = workbench(["It costs 40 crowns."])
    run = wb.ask("What does the ferry cost?").wait()
    assert (run.response, run.notices) == ("It costs 40 crowns.", (NO_SOURCE,))
    saved = saved_run(run._client)
    assert NO_SOURCE in saved["text/html"]
    assert wb.messages_df()["response"].tolist() == ["It costs 40 crowns."]


@pytest.mark.parametrize("turns", [[CITED], [report(CITED), "It is written."]], ids=["answer", "report"])
def test_answer_or_report_with_a_source_is_not_marked(workbench: OpenWorkbench, turns: list[str]) -> None:
    run = workbench(turns, approvals="approve").ask("What?").wait()
    assert run.notices == ()
    assert "notices" not in run.events[-1].data


# --- finish reasons --------------------------------------------------------------------------------------------------


async def test_answer_that_the_content_filter_stopped_says_so(open_engine: OpenEngine) -> None:
    engine = await open_engine([reply("It begins", "content_filter")])
    result = await engine.controller.execute("What?")
    assert (result.status, result.response) == ("completed", f"It begins\n\n{FILTER_NOTE}")


async def test_empty_answer_of_a_content_filter_fails_and_says_so(open_engine: OpenEngine) -> None:
    engine = await open_engine([reply("", "content_filter")])
    result = await engine.controller.execute("What?")
    assert "an empty answer, because the endpoint's content filter stopped it." in result.error_message


async def test_call_that_the_content_filter_cut_off_is_not_run(open_engine: OpenEngine) -> None:
    cut = report(CITED).split("</content>")[0]
    engine = await open_engine([reply(cut, "content_filter"), "I cannot write it."], approvals="approve")
    result = await engine.controller.execute("Write.")
    assert result.response == "I cannot write it."
    assert "could not be read and was not run" in engine.model.requests[-1].messages[-1].content


def test_stream_of_done_alone_is_no_answer(workbench: OpenWorkbench) -> None:
    """A stream with nothing but `[DONE]` is retried like a stream that broke off."""
    nothing = Answer(raw=b"data: [DONE]\n\n")
    with ChatServer([nothing, Answer(CITED), *[nothing] * 5]) as server:
        wb = workbench(model="m", base_url=server.base_url)
        run = wb.ask("What?").wait(30)
        assert run.response == CITED
        (retry,) = [event for event in run.events if event.type == "retry"]
        assert "sent no answer: its stream ended at once." in retry.data["reason"]
        failed = wb.ask("And now?").wait(30)
        assert "sent no answer: its stream ended at once." in str(failed.error)


# --- native calls under the text protocol ----------------------------------------------------------------------------


async def test_native_calls_under_the_text_protocol_are_carried_out(open_engine: OpenEngine) -> None:
    """The transcript has these calls as text, in the form that the prompt asks for."""
    params = {"id": "research_report", "title": "Report", "content": f"# Fares\n\n{CITED}"}

    def script(request: ModelRequest) -> ModelReply:
        first = reply("I write it.", "tool_calls", ToolCall("create_artifact", params))
        return first if len(request.messages) == 2 else reply("It is written.")

    engine = await open_engine(script, approvals="approve", settings={"tool_protocol": "xml"})
    result = await engine.controller.execute("Write.")
    (artifact,) = await engine.artifacts.list_artifacts(result.conversation_id, message_id=result.message_id)
    assert artifact.content == params["content"]
    assistant = engine.model.requests[1].messages[-2]
    assert (assistant.content, assistant.calls) == (f"I write it.\n\n{format_call('create_artifact', params)}", ())


async def test_unreadable_native_call_under_the_text_protocol_is_reported(open_engine: OpenEngine) -> None:
    broken = reply("", "tool_calls", ToolCall("create_artifact", {}, error="Its arguments could not be read."))
    engine = await open_engine([broken, "Then not."])
    assert (await engine.controller.execute("Write.")).response == "Then not."
    assert "Its arguments could not be read." in engine.model.requests[1].messages[-1].content


# --- quoted calls ----------------------------------------------------------------------------------------------------


async def test_unescaped_call_in_an_artifact_is_content(open_engine: OpenEngine) -> None:
    inner = "<tool_call><name>create_artifact</name><params><id>x</id><content>y</content></params></tool_call>"
    content = f"# How to write\n\nCall it like this:\n\n{inner}\n\nThat is all. {CITED}"
    outer = (
        "<tool_call><name>create_artifact</name><params><id>guide</id><title>Guide</title>"
        f"<content>{content}</content></params></tool_call>"
    )
    engine = await open_engine([outer, "It is written."], approvals="approve")
    result = await engine.controller.execute("Write.")
    (artifact,) = await engine.artifacts.list_artifacts(result.conversation_id, message_id=result.message_id)
    assert (artifact.artifact_id, artifact.content) == ("guide", content)
