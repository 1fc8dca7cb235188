"""Fields that only a provider understands: they go back to the same model, and what it demands is filled in."""

from pathlib import Path
from typing import Any

import pytest
from endpoints.dialect import KEY, DialectServer, load
from endpoints.test_errors import MESSAGES, SEARCH
from endpoints.test_research import HANDBOOK, OFTEN, QUESTION, options
from support.model_turns import Waits

import artifactflow_nb as af
from artifactflow_nb.core.messages import Message, ToolCall
from artifactflow_nb.models.base import ModelReply, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel

OWN_FIELDS = {"extra_content", "reasoning_content", "reasoning", "reasoning_details", "channel"}


def fields_of(messages: list[dict[str, Any]]) -> set[str]:
    """The provider's own fields in messages and calls."""
    holders = [*messages, *(call for message in messages for call in message.get("tool_calls") or ())]
    return {name for holder in holders for name in holder} & OWN_FIELDS


@pytest.mark.parametrize(("name", "refused"), [("deepseek", ["reasoning"]), ("gemini", ["signature"])])
async def test_calls_of_another_model_are_accepted(name: str, refused: list[str]) -> None:
    """A fork to another model contains calls of the first model; the endpoint's demand is met once and remembered."""
    call = ToolCall("web_search", {"query": "backups", "max_results": 8})
    messages = (*MESSAGES, Message("assistant", "", (call,)), Message("tool", "Nothing was found."))
    with DialectServer(load(name)) as endpoint:
        model = OpenAIModel(endpoint.base_url, KEY, endpoint.dialect.model, sleep=Waits())
        for attempts in (2, 1):
            request = ModelRequest(messages, (SEARCH,), tool_protocol="native")
            *_, reply = [event async for event in model.stream(request)]
            assert isinstance(reply, ModelReply)
            assert reply.attempts == attempts
        await model.aclose()
        assert endpoint.refused == refused


def test_calls_without_thinking_are_accepted(tmp_path: Path) -> None:
    """DeepSeek demands `reasoning_content` in a message with calls, even if DeepSeek has sent no thinking."""
    with DialectServer(load("deepseek")) as endpoint:
        endpoint.thinks = False
        with af.Workbench(**options(endpoint, tmp_path, approvals="approve")) as wb:
            wb.sources.add(HANDBOOK)
            run = wb.ask(QUESTION).wait()
            assert run.status == "completed", run.error
        assert endpoint.refused == ["reasoning"]


@pytest.mark.parametrize(("first", "second"), [("gemini", "deepseek"), ("deepseek", "mistral"), ("openrouter", "groq")])
def test_fields_never_reach_another_endpoint(tmp_path: Path, first: str, second: str) -> None:
    """A conversation goes on at another endpoint, which gets the answers and no fields of the first endpoint."""
    with DialectServer(load(first)) as one_endpoint, DialectServer(load(second)) as other_endpoint:
        with af.Workbench(**options(one_endpoint, tmp_path, approvals="approve")) as wb:
            wb.sources.add(HANDBOOK)
            run_id = wb.ask(QUESTION).wait().run_id
        assert fields_of(one_endpoint.requests[-1].body["messages"])
        with af.Workbench(**options(other_endpoint, tmp_path, approvals="approve")) as wb:
            run = wb.ask(OFTEN, conversation_id=wb.run(run_id)).wait()
            assert run.status == "completed", run.error
        chat = [request.body["messages"] for request in other_endpoint.requests if "messages" in request.body]
        assert fields_of(chat[0]) == set()
        signatures = {reply.signature for reply in one_endpoint.sent}
        assert not [signature for signature in signatures if signature in str(chat)]


@pytest.mark.parametrize("name", ["vllm", "llamacpp", "ollama", "openrouter"])
def test_endpoint_without_tools_is_called_in_text(name: str, tmp_path: Path) -> None:
    """The refusal is met once: from then on the model writes its calls into the text, also for the next question."""
    with DialectServer(load(name)) as endpoint:
        endpoint.takes_tools = False
        with af.Workbench(**options(endpoint, tmp_path, approvals="approve")) as wb:
            wb.sources.add(HANDBOOK)
            run = wb.ask(QUESTION).wait()
            assert run.status == "completed", run.error
            assert "research_report" in run.artifacts
            assert wb.ask(OFTEN, conversation_id=run).wait().status == "completed"
        assert endpoint.refused == ["no_tools"]
