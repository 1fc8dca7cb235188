"""Prompts that an endpoint can cache: stable beginnings, marks for endpoints that need them, and the cached share."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine
from support.chat_endpoint import Answer, ChatServer, calling
from support.replies import by_agent, call, delegate, report

import artifactflow_nb as af
from artifactflow_nb.core.messages import Message, ToolCall
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel, with_cache_marks
from artifactflow_nb.models.openai.native_calls import wire_messages

MARK = {"type": "ephemeral"}


def parts(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, "cache_control": MARK} for text in texts]


def test_system_message_and_last_message_are_marked() -> None:
    """The system message has a mark after its stable part, too; the other messages and the input stay as they are."""
    wire = wire_messages([Message("system", "Role. Day."), Message("user", "Why?"), Message("assistant", "A call."),
                          Message("tool", "A result.")])  # fmt: skip
    marked = with_cache_marks(wire, len("Role."))
    assert [message["content"] for message in marked] == [
        parts("Role.", " Day."), "Why?", "A call.", parts("A result.")
    ]  # fmt: skip
    assert wire[0]["content"] == "Role. Day."
    assert with_cache_marks(wire[:1], 0)[0]["content"] == parts("Role. Day.")


def test_results_of_native_calls_and_empty_texts_have_no_mark() -> None:
    """Endpoints refuse marks in results and in empty texts; the last message with a text is marked."""
    calls = (ToolCall("look", {}), ToolCall("look", {}))
    wire = wire_messages([Message("system", "Role."), Message("user", "Why?"), Message("assistant", "", calls),
                          Message("tool", "One."), Message("tool", "Two.")])  # fmt: skip
    marked = with_cache_marks(wire, len("Role."))
    assert [message["content"] for message in marked] == [parts("Role."), parts("Why?"), "", "One.", "Two."]


async def test_marks_are_sent_only_if_the_model_has_the_setting() -> None:
    with ChatServer([Answer("Yes."), Answer("Yes.")]) as server:
        request = ModelRequest((Message("system", "Role. Day."), Message("user", "Why?")), stable_chars=5)
        for prompt_cache in (False, True):
            model = OpenAIModel(server.base_url, "k", "m", prompt_cache=prompt_cache)
            assert [event async for event in model.stream(request)]
            await model.aclose()
        plain, marked = (sent.body["messages"] for sent in server.requests)
    assert [message["content"] for message in plain] == ["Role. Day.", "Why?"]
    assert [message["content"] for message in marked] == [parts("Role.", " Day."), parts("Why?")]


@pytest.mark.parametrize("protocol", ["xml", "native"])
async def test_prompts_of_a_run_share_their_beginning(open_engine: OpenEngine, protocol: str) -> None:
    """The stable part of a system message is equal in all turns and runs, with the tools; messages only grow."""
    lead = [report("- [ ] Look", "task_plan"), delegate("search_agent", "Look."), "Done.", "Done again."]
    search = [call("web_search", query="ferry"), "Found."]
    engine = await open_engine(by_agent(lead=lead, search=search), settings={"tool_protocol": protocol})
    first = await engine.controller.execute("Why?")
    await engine.controller.execute("And then?", conversation_id=first.conversation_id)
    requests = engine.model.requests  # type: ignore[attr-defined]
    by_role: dict[str, list[ModelRequest]] = {}
    for request in requests:
        stable = request.messages[0].content[: request.stable_chars]
        assert request.stable_chars > 1_000
        assert "<system_time>" not in stable
        by_role.setdefault(stable, []).append(request)
    assert sorted(len(group) for group in by_role.values()) == [2, 4]
    for group in by_role.values():
        assert len({tuple(tool.name for tool in request.tools) for request in group}) == 1
    turns = [request.messages[1:] for request in max(by_role.values(), key=len)[:3]]
    for before, after in pairwise(turns):
        assert after[: len(before)] == before


def test_cached_share_is_in_the_frame(tmp_path: Path) -> None:
    """The share is the endpoint's count of cached tokens by the prompt's tokens; it is NA if no count is reported."""
    answers = [calling(("read_artifact", {"id": "x"}), input_tokens=1000, cached_tokens=750), Answer("Done.")]
    with ChatServer(answers) as server, af.Workbench(
        base_url=server.base_url, api_key="k", model="m", prompt_cache=True, tool_protocol="native",
        data_dir=tmp_path / "data", interactive=False,
    ) as wb:  # fmt: skip
        run = wb.ask("Why?").wait()
        assert run.response == "Done."
        share = wb.llm_calls_df(run)["cached_share"]
        assert (share[0], share.isna().tolist()) == (0.75, [False, True])
        assert all(isinstance(sent.body["messages"][0]["content"], list) for sent in server.requests)
