"""The workbench on an OpenAI-compatible endpoint, which is a real HTTP server on the loopback interface."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from support.chat_endpoint import Answer, ChatServer, Request
from support.replies import delegate, report

from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.errors import ModelRejected, RunFailed, UsageError
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.notebook.workbench import Workbench

KEY = "sk-secret-0123456789"


def research(request: Request) -> Answer:
    """A model that plans, delegates, writes a report and answers.

    The model recognises its task by the role and length of the prompt.
    """
    system, *rest = request.body["messages"]
    replies = sum(message["role"] == "assistant" for message in rest)
    if "search agent" in system["content"]:
        return Answer("It stands in local:handbook.", input_tokens=7)
    turns = [
        delegate("search_agent", "Where?"),
        "Now I write." + report("# Report\n\nIt is there."),
        "It is there. [1]",
    ]
    return Answer(turns[replies], reasoning="Let me think.", input_tokens=100)


@pytest.fixture
def workbench(tmp_path: Path) -> Any:
    opened: list[Workbench] = []

    def make(base_url: str | None, **options: Any) -> Workbench:
        at = {} if base_url is None else {"base_url": base_url, "api_key": KEY, "model": "loopback-1"}
        wb = Workbench(**{**at, **options}, data_dir=tmp_path / "data")
        opened.append(wb)
        return wb

    yield make
    for wb in opened:
        wb.close()


def test_research_run_on_an_endpoint(workbench: Any) -> None:
    """The run has the same graph, events, approvals and rows as offline, with the token counts of the endpoint."""
    with ChatServer(research) as server:
        wb = workbench(server.base_url, approvals={"create_artifact": "ask"})
        run = wb.ask("Where is it?").wait()
        assert [request.tool for request in run.pending] == ["create_artifact"]
        run.approve().wait()
        calls = wb.llm_calls_df(run)
        bodies = [request.body for request in server.requests]
    assert (run.status, run.response) == ("completed", "It is there. [1]")
    assert run.artifacts["research_report"].content == "# Report\n\nIt is there."
    assert list(calls["agent_name"]) == ["lead_agent", "search_agent", "lead_agent", "lead_agent"]
    assert list(calls["input_tokens"]) == [100, 7, 100, 100]
    assert not calls["tokens_estimated"].any()
    assert all(body["stream"] and body["model"] == "loopback-1" for body in bodies)
    assert not any("temperature" in body for body in bodies)  # nobody chose one, and the model is unknown
    reasoning = [e.data["reasoning"] for e in run.events if e.type is StreamEventType.LLM_COMPLETE]
    assert reasoning[0] == "Let me think."


def test_endpoint_is_configured_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """OPENAI_BASE_URL, OPENAI_API_KEY and AF_MODEL are enough."""
    with ChatServer([Answer("Hello.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("AF_MODEL", "my-model")
        with Workbench(data_dir=tmp_path / "data") as wb:
            assert wb.ask("Hello?").wait().response == "Hello."
            assert KEY not in repr(wb) + repr(wb.settings)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert server.requests[0].body["model"] == "my-model"


async def without_delay(_delay_s: float) -> None:
    """Replace the wait before a retry; other tests cover the delays."""


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("answer", "error_type", "words"),
    [
        (Answer(status=401, error=f"bad key {KEY}"), "ModelRejected", "api_key"),
        (Answer(status=404, error="The model `loopback-1` does not exist"), "ModelRejected", "loopback-1"),
        (Answer(status=500), "ModelUnavailable", "500"),
        (Answer("The answer is forty", cut_after=1, chunk_chars=8), "ModelUnavailable", "closed connection"),
        (None, "ModelUnavailable", "refused"),
    ],
    ids=["key", "model", "server", "cut", "refused"],
)
def test_failing_endpoint_fails_the_run_with_advice(
    workbench: Any, answer: Answer | None, error_type: str, words: str
) -> None:
    """The key is in no text, and the conversation takes the next question."""
    answers = [answer or Answer(drop=True)] * 5 + [Answer("Better now.")]
    with ChatServer(answers) as server:
        address = server.base_url if answer else f"http://127.0.0.1:{unused_port()}/v1"
        wb = workbench(None, model=OpenAIModel(address, KEY, "loopback-1", sleep=without_delay))
        run = wb.ask("What is it?").wait()
        assert run.status == "failed"
        with pytest.raises(RunFailed) as failed:
            run.raise_for_status()
        row = wb.runs_df(run, columns="all").iloc[0]
        assert row["error_type"] == error_type
        # An address at which nothing has answered yet is not tried again.
        assert row["n_retries"] == (4 if error_type == "ModelUnavailable" and answer else 0)
        assert words.lower() in str(failed.value).lower()
        store = (wb.data_dir / "store.db").read_bytes() + (wb.data_dir / "store.db-wal").read_bytes()
        assert KEY.encode() not in store
        assert KEY not in str(failed.value) + repr(run) + str(list(run.events))
        assert [event.is_terminal for event in run.events].count(True) == 1


def test_broken_stream_is_retried(workbench: Any) -> None:
    """The text of the first attempt is discarded, and both attempts are rows."""
    with ChatServer([Answer("Half an ans", cut_after=1, chunk_chars=6), Answer("The whole answer.")]) as server:
        wb = workbench(server.base_url)
        run = wb.ask("What is it?").wait()
        calls = wb.llm_calls_df(run)
    assert run.response == "The whole answer."
    assert list(calls["error_type"].isna()) == [False, True]
    assert list(calls["attempt"]) == [1, 2]
    assert wb.runs_df(run, columns="counts")["n_retries"].iloc[0] == 1
    assert [event.type for event in run.events].count(StreamEventType.RETRY) == 1


def test_refused_connection_is_retried_only_after_a_success(workbench: Any) -> None:
    """A server that has answered before may be restarting; a server that never answered may not exist."""
    waits: list[float] = []

    async def wait(delay_s: float) -> None:
        waits.append(delay_s)

    with ChatServer([Answer("Here.")]) as server:
        wb = workbench(None, model=OpenAIModel(server.base_url, KEY, "loopback-1", sleep=wait))
        assert wb.ask("Are you there?").wait().response == "Here."
    assert wb.ask("Still?").wait().status == "failed"
    assert waits == [1.0, 2.0, 4.0, 8.0]
    wb = workbench(None, model=OpenAIModel("http://unknown.invalid/v1", KEY, "loopback-1", sleep=wait))
    run = wb.ask("Are you there?").wait()
    assert "host unknown.invalid was not found" in str(run.error)
    assert len(waits) == 4


def test_endpoint_without_a_model_name_is_an_error(tmp_path: Path) -> None:
    """The error names the variable to set; no store is created."""
    with pytest.raises(UsageError, match="Set AF_MODEL to the name of a model at the endpoint, or pass model="):
        Workbench(base_url="http://127.0.0.1:1/v1", data_dir=tmp_path / "data")
    assert not (tmp_path / "data").exists()


def listing(request: Request) -> Answer:
    """Return the list of models, and a reply that names the requested model."""
    if request.path.endswith("/models"):
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "me"} for name in ("small", "large")]
        return Answer(raw=json.dumps({"object": "list", "data": data}).encode(), content_type="application/json")
    system = request.body["messages"][0]["content"]
    if "lead agent" in system and len(request.body["messages"]) == 2:
        return Answer(delegate("search_agent", "look"), model=request.body["model"])
    return Answer(f"by {request.body['model']}", model=request.body["model"])


def test_models_of_the_endpoint_are_listed(workbench: Any) -> None:
    """A refusing endpoint is an error with the reason."""
    with ChatServer(listing) as server:
        assert workbench(server.base_url).models() == ["large", "small"]
    refusal = pytest.raises(ModelRejected, match="/models answered with status 404: no such path")
    with ChatServer([Answer(status=404, error="no such path")]) as server, refusal:
        workbench(server.base_url).models()


def test_agent_with_a_model_at_another_endpoint(workbench: Any) -> None:
    """The row of each call names its model."""
    with ChatServer(listing) as first, ChatServer(listing) as second:
        other = OpenAIModel(second.base_url, None, "small", extra_body={"max_tokens": 50})
        wb = workbench(first.base_url, model="large", agent_models={"search_agent": other, "crawl_agent": "small"})
        run = wb.ask("Who?").wait()
        calls = wb.llm_calls_df(run)
        bodies = [request.body for request in second.requests]
    assert run.response == "by large"
    assert calls["request_model"].tolist() == ["large", "small", "large"]
    assert [(body["model"], body["max_tokens"]) for body in bodies] == [("small", 50)]


def test_model_for_an_unknown_agent_lists_known_agents(workbench: Any) -> None:
    """A typo in agent_models is an error."""
    with ChatServer([]) as server, pytest.raises(UsageError, match="no agent 'serach_agent'. Known: lead_agent"):
        workbench(server.base_url, agent_models={"serach_agent": "small"}).ask("Who?")
