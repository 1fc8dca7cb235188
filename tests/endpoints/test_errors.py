"""Errors in the words of each endpoint: tried again, sampled again, compressed, or ended with a sentence that helps."""

from typing import Any

import pytest
from endpoints.dialect import KEY, DialectServer, load, names
from support.model_turns import Waits

from artifactflow_nb.core.messages import Message, ToolSpec
from artifactflow_nb.errors import ContextOverflow, ModelError, ModelRejected, ToolsRefused
from artifactflow_nb.models.base import ModelEvent, ModelReply, ModelRequest, RetryNotice
from artifactflow_nb.models.openai.client import OpenAIModel

SEARCH = ToolSpec("web_search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})
MESSAGES = (Message("system", "You search."), Message("user", "How are backups checked?"))

RETRIED = [
    ("azure", "rate"),
    ("deepseek", "busy"),
    ("gemini", "overloaded"),
    ("gemini", "rate"),
    ("groq", "rate"),
    ("llamacpp", "loading"),
    ("lmstudio", "crashed"),
    ("mistral", "capacity"),
    ("openai", "overloaded"),
    ("openai", "rate"),
    ("openrouter", "in_choice"),
    ("openrouter", "midstream"),
    ("vllm", "engine"),
    # a reply that the endpoint itself could not use
    ("gemini", "malformed"),
    ("groq", "tool_use_failed"),
]

ENDED: list[tuple[str, str, type[ModelError], str]] = [
    ("azure", "prompt_filtered", ModelRejected, "content management policy"),
    ("deepseek", "balance", ModelRejected, "Insufficient Balance"),
    ("gemini", "too_long", ContextOverflow, "input token count"),
    ("groq", "too_large", ContextOverflow, "reduce your message size"),
    ("llamacpp", "no_tools", ToolsRefused, "--jinja"),
    ("llamacpp", "too_long", ContextOverflow, "available context size"),
    ("lmstudio", "too_long", ContextOverflow, "context length"),
    ("mistral", "too_long", ContextOverflow, "maximum context length"),
    ("ollama", "no_tools", ToolsRefused, "does not support tools"),
    ("openai", "large", ContextOverflow, "must be reduced"),
    ("openai", "quota", ModelRejected, "billing"),
    ("openrouter", "credits", ModelRejected, "more credits"),
    ("openrouter", "no_tools", ToolsRefused, "support tool use"),
    ("vllm", "no_tools", ToolsRefused, "--enable-auto-tool-choice"),
    ("vllm", "too_long", ContextOverflow, "maximum context length"),
]


async def turn(endpoint: DialectServer, **changes: Any) -> list[ModelEvent]:
    """Take a turn without waiting for retries."""
    where = {"base_url": endpoint.base_url, "api_key": KEY, "default_model": endpoint.dialect.model, **changes}
    model = OpenAIModel(**where, sleep=Waits())
    request = ModelRequest(MESSAGES, (SEARCH,), tool_protocol="native")
    try:
        return [event async for event in model.stream(request)]
    finally:
        await model.aclose()


@pytest.mark.parametrize(("name", "fault"), RETRIED)
async def test_passing_failure_is_tried_again(name: str, fault: str) -> None:
    """The reply of the next attempt is whole and has nothing of the failed attempt."""
    with DialectServer(load(name)) as endpoint:
        endpoint.faults = [fault]
        *before, reply = await turn(endpoint)
        assert isinstance(reply, ModelReply)
        assert [call.name for call in reply.calls] == ["web_search"]
        assert reply.content.count("Searching the sources") == 1
        assert [refused for refused in endpoint.refused if refused != "field"] == [fault]
        assert len([event for event in before if isinstance(event, RetryNotice)]) == len(endpoint.refused)


@pytest.mark.parametrize(("name", "fault", "kind", "words"), ENDED)
async def test_lasting_failure_ends_at_once(name: str, fault: str, kind: type[ModelError], words: str) -> None:
    """The kind of the error says what follows: another prompt, calls in the text, or the end of the run."""
    with DialectServer(load(name)) as endpoint:
        endpoint.faults = [fault] * 5
        with pytest.raises(kind) as caught:
            await turn(endpoint)
        assert type(caught.value) is kind
        assert words in str(caught.value)
        assert [refused for refused in endpoint.refused if refused != "field"] == [fault]


@pytest.mark.parametrize("name", [name for name in names() if load(name).key])
async def test_wrong_key_is_said_and_never_repeated(name: str) -> None:
    """There is one request; the error says that the key is wrong, and does not contain the key."""
    with DialectServer(load(name)) as endpoint:
        with pytest.raises(ModelRejected, match=r"(?i)\bkey\b") as caught:
            await turn(endpoint, api_key="sk-wrong-key-0123456789")
        assert "sk-wrong-key" not in str(caught.value)
        assert endpoint.refused == ["key"]


@pytest.mark.parametrize("name", [name for name in names() if not load(name).takes_any_model])
async def test_unknown_model_is_named(name: str) -> None:
    """There is one request; the error says that the model is unknown."""
    with DialectServer(load(name)) as endpoint:
        with pytest.raises(ModelRejected, match=r"(?i)model|deployment"):
            await turn(endpoint, default_model="no-such-model")
        assert endpoint.refused == ["model"]


async def test_wrong_path_is_said(endpoint: DialectServer) -> None:
    """There is one request, whatever the endpoint answers: 404, an HTML page, an empty body or status 200."""
    with pytest.raises(ModelRejected, match="OPENAI_BASE_URL|/v1"):
        await turn(endpoint, base_url=f"{endpoint.address}/wrong")
    assert endpoint.refused == ["path"]


@pytest.mark.parametrize("name", [name for name in names() if [*load(name).paths] == ["/v1"]])
async def test_missing_path_is_said(name: str) -> None:
    """The error names the address that works."""
    with DialectServer(load(name)) as endpoint:
        with pytest.raises(ModelRejected, match="/v1"):
            await turn(endpoint, base_url=endpoint.address)
        assert endpoint.refused == ["path"]


async def test_missing_version_of_azure_is_said() -> None:
    """Azure answers a request without its version only with "not found"; the error says what is missing."""
    with DialectServer(load("azure")) as endpoint, pytest.raises(ModelRejected, match=r"\?api-version="):
        await turn(endpoint, base_url=f"{endpoint.address}{endpoint.dialect.paths[0]}")


async def test_every_spelling_of_the_address_will_do(endpoint: DialectServer) -> None:
    """The address works with a slash at its end, with the path of the requests, and with each path of the provider."""
    for path in endpoint.dialect.paths:
        address, question_mark, query = endpoint.base_url.partition("?")
        address = address.removesuffix(endpoint.dialect.paths[0]) + path
        for spelling in (address, f"{address}/", f"{address}/chat/completions"):
            *_, reply = await turn(endpoint, base_url=f"{spelling}{question_mark}{query}")
            assert isinstance(reply, ModelReply)
    assert set(endpoint.refused) <= {"field"}


async def test_models_are_listed(endpoint: DialectServer) -> None:
    """The window of a model is known from the list of the endpoint, or from the name of the model's family."""
    model = OpenAIModel(endpoint.base_url, KEY, endpoint.dialect.model)
    try:
        (listed,) = await model.list_models()
        assert listed.removeprefix("models/") == endpoint.dialect.model
        fields = str(endpoint.dialect.listed)
        if "max_model_len" in fields or "n_ctx_train" in fields:
            assert await model.context_tokens(endpoint.dialect.model) == 40_960
    finally:
        await model.aclose()


async def test_cut_prompt_is_said() -> None:
    """Ollama cuts a prompt to its window without an error; the usage shows the cut."""
    with DialectServer(load("ollama")) as endpoint:
        endpoint.window = 256
        model = OpenAIModel(endpoint.base_url, None, endpoint.dialect.model)
        long = (MESSAGES[0], Message("user", "How are backups checked? " * 500))
        *_, reply = [event async for event in model.stream(ModelRequest(long))]
        await model.aclose()
    assert isinstance(reply, ModelReply)
    assert "num_ctx" in reply.notice
