"""Known secrets: a key that a model, tool, server or person repeats is masked where it enters a run."""

import asyncio
import base64
import json
import logging
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.chat_endpoint import Answer, ChatServer, Request
from support.graphs import ai_message, react_agent
from support.mcp_config import TOKEN, by_stdio
from support.replies import by_agent, call, decide, delegate, plan, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.redaction.names import MASK
from artifactflow_nb.errors import ModelUnavailable
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship
from artifactflow_nb.widgets.run.saved import saved_run

KEY = "sk-opaque-Repeated-0123456789"
FRAMES = [name for name in vars(Frames) if name.endswith("_df")]
WAIT_S = 60


def traces(wb: af.Workbench, folder: Path, *runs: af.Run) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each result of the runs: frames, events, files, exports and saved outputs.

    Closes the workbench, so that the store's file contains its log.
    """
    data_dir = wb.settings.data_dir
    out = folder / "out"
    out.mkdir()
    for run in runs:
        yield "response", (stored(wb, "SELECT group_concat(response) FROM messages") + str(run.error)).encode()
        yield "repr", repr(run).encode()
        yield "saved output", "".join(saved_run(run._client).values()).encode()
        yield "artifacts", repr({key: artifact.content for key, artifact in run.artifacts.items()}).encode()
        yield "events", b"".join(map(_event_bytes, run.events))
    for conversation in wb.conversations():
        for form in ("to_markdown", "to_html", "to_ipynb"):
            getattr(conversation, form)(out, overwrite=True)
    for name in FRAMES:
        yield (
            name,
            getattr(wb, name)(**{"columns": "all"} if name == "runs_df" else {}).to_json(date_format="iso").encode(),
        )
    yield from _files(data_dir, "open")
    wb.close()
    yield from _files(data_dir, "closed")
    yield from _files(out, "exported")


def _event_bytes(event: StreamEvent) -> bytes:
    return json.dumps([event.agent, event.tool, dict(event.data)], default=str, ensure_ascii=False).encode()


def _files(folder: Path, state: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"{path.name} ({state})", path.read_bytes()


def stored(wb: af.Workbench, sql: str) -> str:
    """The first value of a query of the store."""
    with closing(sqlite3.connect(wb._store)) as db:
        return str(db.execute(sql).fetchone()[0])


def assert_no_secret(found: Iterator[tuple[str, bytes]], *more: tuple[str, bytes], secret: str = KEY) -> None:
    forms = [secret, base64.b64encode(secret.encode()).decode()]
    everything = [*found, *more]
    assert len(everything) > 10
    assert [name for name, content in everything for form in forms if form.encode() in content] == []


@af.tool()
def show_headers(ctx: af.ToolContext, note: str) -> af.ToolResult:
    """Show the headers of a request."""
    ctx.notify("artifact_changed", {"artifact_id": "a", "version": 1, "title": f"By {KEY}"})
    basic = base64.b64encode(KEY.encode()).decode()
    return af.ToolResult(True, f"Bearer {KEY}; Basic {basic}; note: {note}", metadata={"headers": [{"x": KEY}]})


@af.tool()
async def save(ctx: af.ToolContext) -> str:
    """Write an artifact, like a user's own tool."""
    by = Authorship(ctx.conversation_id, ctx.message_id, ctx.agent, ctx.run_id, ctx.tool_call_id)
    written = await ctx.service(ArtifactManager).create(by, "saved", f"Title {KEY}", f"The key is {KEY}.")
    return written.content


@pytest.fixture(autouse=True)
def model_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an endpoint's key a model name is required, also if a model is passed."""
    monkeypatch.setenv("AF_MODEL", "m")


@contextmanager
def open_workbench(folder: Path, **options: Any) -> Iterator[af.Workbench]:
    with af.Workbench(interactive=False, data_dir=folder / "data", api_key=KEY, **options) as wb:
        for entry in (show_headers, save):
            wb.tool(entry)
        yield wb


def repeating(request: Request) -> Answer:
    """A reply that repeats the key of the request's header, in pieces that split it."""
    key = request.headers["authorization"].removeprefix("Bearer ")
    replies = sum(message["role"] == "assistant" for message in request.body["messages"])
    text, reasoning = f"The key is {key}, {key}", f"They sent {key}."
    if replies == 0:
        calls = (("show_headers", json.dumps({"note": f"of {key}"})), ("save", "{}"))
        return Answer(text, reasoning, 7, calls=calls, finish_reason="tool_calls", model=f"m-{key}")
    return Answer(f"{text}{key[:9]}", reasoning, 7, model=f"m-{key}")


def test_key_repeated_by_the_endpoint_is_masked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The key is masked in answers, reasoning, call arguments, results, artifacts, questions, titles and edits."""
    caplog.set_level(logging.DEBUG)
    cassette, sealed = tmp_path / "c.jsonl", tmp_path / "x.afrun"
    settings = {"tool_protocol": "native", "approvals": {"show_headers": "ask"}, "record": cassette}
    with ChatServer(repeating) as server, open_workbench(tmp_path, base_url=server.base_url, **settings) as wb:
        run = wb.ask(f"Is {KEY} mine?").wait(WAIT_S)
        assert run.pending[0].params == {"note": f"of {MASK}"}
        decision = af.Decision(True, f"Not {KEY}.", params={"note": f"edited {KEY}"})
        wb._thread.call(wb._thread.engine.controller.decide(run.pending[0].id, decision))
        run.wait(WAIT_S)
        assert run.response == f"The key is {MASK}, {MASK}{KEY[:9]}"
        assert f"Basic {MASK}; note: edited {MASK}" in stored(wb, "SELECT result FROM tool_calls")
        assert run.artifacts["saved"].content == f"The key is {MASK}."
        run.artifacts["saved"].edit(f"By hand: {KEY}")
        run.artifacts["saved"].rename(f"Titled {KEY}")
        wb.conversation(run).rename(f"About {KEY}")
        run.seal(sealed)
        report = run.to_notebook(tmp_path / "report.ipynb", sealed=sealed)
        files = [(path.name, path.read_bytes()) for path in (cassette, report)]
        with zipfile.ZipFile(sealed) as members:
            files += [(f"{name} (sealed)", members.read(name)) for name in members.namelist()]
        prompts = [json.dumps(request.body).encode() for request in server.requests]
        assert not [True for prompt in prompts if KEY.encode() in prompt]
        assert_no_secret(traces(wb, tmp_path, run), *files, ("log", caplog.text.encode()))


def test_streamed_pieces_equal_the_stored_text(tmp_path: Path) -> None:
    """No sequence of pieces contains the key, and joined they are the masked text."""
    with (
        ChatServer(repeating) as server,
        open_workbench(tmp_path, base_url=server.base_url, tool_protocol="native") as wb,
    ):
        run, pieces = run_with_pieces(wb, "Mine?")
        calls = [event for event in run.events if event.type is StreamEventType.LLM_COMPLETE]
        assert len(calls) == 2
        for done in calls:
            events = {(event.data["kind"]): "" for event in pieces}
            for event in pieces:
                if event.data["call_id"] == done.data["call_id"]:
                    events[event.data["kind"]] += event.data["delta"]
            assert (events["answer"], events["reasoning"]) == (done.data["text"], done.data["reasoning"])
            assert KEY not in events["call"]
        assert f'{{"note": "of {MASK}"}}' in "".join(e.data["delta"] for e in pieces if e.data["kind"] == "call")


def run_with_pieces(wb: af.Workbench, question: str) -> tuple[af.Run, list[Any]]:
    """The finished run and the pieces of text that were published."""
    pieces: list[Any] = []

    async def listened() -> str:
        async for event in wb._thread.engine.controller.stream_execute(question):
            if event.type is StreamEventType.LLM_CHUNK:
                pieces.append(event)
        return event.run_id

    return wb.run(wb._thread.call(listened())), pieces


@pytest.mark.parametrize("ends", ["fails", "is cancelled"])
def test_reply_cut_within_a_key_has_no_part_of_it(tmp_path: Path, ends: str) -> None:
    """The partial text of a failed or cancelled attempt is stored without the beginning of the key."""
    reached = asyncio.Event()

    class Breaking(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            for piece in ("It is ", KEY[:12], KEY[12:20]):
                yield ModelDelta(piece)
            if ends == "fails":
                raise ModelUnavailable("It broke off.", partial=f"It is {KEY[:20]}")
            reached.set()
            await asyncio.sleep(WAIT_S)

    with open_workbench(tmp_path, model=Breaking([])) as wb:
        run = wb.ask("What?")
        if ends == "is cancelled":
            wb._thread.call(reached.wait())
            run.cancel()
        run.wait(WAIT_S)
        assert stored(wb, "SELECT content FROM llm_calls") == ("It is " if ends == "is cancelled" else f"It is {MASK}")
        assert_no_secret(traces(wb, tmp_path, run), secret=KEY[:12])


def test_key_in_a_plan_is_masked(tmp_path: Path) -> None:
    """The key is masked in the titles, texts and results of steps, and in the reasons of decisions."""
    turns = by_agent(
        agent=[plan(f"Use {KEY}", "Two"), f"Done with {KEY}."],
        executor=[call("show_headers", note=KEY), f"Has {KEY}.", "Two."],
        replanner=[decide("continue", f"Since {KEY}."), decide("finish", f"As {KEY}.")],
        summarizer=[f"Sum {KEY}."],
    )
    with open_workbench(tmp_path, model=ScriptedModel(turns)) as wb:
        wb.tool(show_headers, agent="executor")
        run = wb.ask("Plan it.", flow="plan").wait(WAIT_S)
        assert run.status == "completed", run.error
        assert_no_secret(traces(wb, tmp_path, run))


def test_key_in_a_project_is_masked(tmp_path: Path) -> None:
    """The key is masked in blocks by a person and by a model, in their prompts and names, and in a skill."""
    text = call("generate_field_content", field_name="Text")
    model = ScriptedModel(by_agent(composer=[text, f"Written with {KEY}."], writer=[f"The text has {KEY}."]))
    with open_workbench(tmp_path, model=model, approvals="approve") as wb:
        project = wb.projects.start(f"Essay {KEY}", template="paper")
        project.add("Goal", f"Say what {KEY} is.")
        project.add("Text", depends_on=["Goal"], prompt=f"All about {KEY}.", phase="writing")
        run = project.ask(f"Write with {KEY}.").wait(WAIT_S)
        assert run.status == "completed", run.error
        project["Goal"].write(f"Say {KEY}.", f"Since {KEY}.")
        project["Goal"].rename(f"Goal {KEY}")
        assert_no_secret(traces(wb, tmp_path, run))


def test_key_in_an_adapted_graph_is_masked(tmp_path: Path) -> None:
    """The key is masked in the model's text and calls, a tool's result, a checkpoint, a report and an interrupt."""
    from langgraph.types import interrupt

    def lookup(word: str) -> str:
        """Look a word up."""
        answer = interrupt({"question": f"Use {KEY}?", "params": {"word": word}})
        return f"{word} by {KEY} ({answer})"

    script = [ai_message(f"Looking for {KEY} now", ("lookup", {"word": f"of {KEY}"})), ai_message(f"It is {KEY}")]
    cassette = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, record=cassette, model=ScriptedModel([])) as wb:
        run = wb.ask(f"Who has {KEY}?", flow=af.adapt(react_agent(script, lookup), name="mine")).wait(WAIT_S)
        assert run.pending[0].params == {"word": f"of {MASK}"}
        waiting = [(path.name, path.read_bytes()) for path in (tmp_path / "data").rglob("*") if path.is_file()]
        assert any("checkpoints" in name for name, _ in waiting)
        run.approve().wait(WAIT_S)
        assert run.response == f"It is {MASK}"
        calls = wb.tool_calls_df()
        assert list(calls["tool_name"]) == ["lookup"]
        assert_no_secret(traces(wb, tmp_path, run), *waiting, ("cassette", cassette.read_bytes()))


def test_token_repeated_by_an_mcp_server_is_masked(tmp_path: Path) -> None:
    """A variable of the server's configuration is masked in the result of its tool."""
    notes = tmp_path / "notes"
    notes.mkdir()
    server = by_stdio(notes, env={"SERVER_TOKEN": TOKEN}, permission="auto")
    model = ScriptedModel([call("environment"), f"It said {TOKEN}."])
    with open_workbench(tmp_path, model=model, mcp={"files": server}) as wb:
        run = wb.ask("Go.").wait(WAIT_S)
        assert run.response == f"It said {MASK}."
        assert stored(wb, "SELECT result FROM tool_calls").endswith(MASK)
        assert_no_secret(traces(wb, tmp_path, run), secret=TOKEN)


def test_key_in_a_source_is_masked(tmp_path: Path) -> None:
    """The passages of a person's file with the key are found and read with a mask."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "access.md").write_text(f"# Access\n\nThe endpoint wants {KEY} as its key.\n", "utf-8")
    fetch = call("web_fetch", urls=["local:notes/access.md#access"])
    turns = by_agent(lead=[delegate("crawl_agent", "Read."), f"It wants {KEY}."], reading=[fetch, f"Wants {KEY}."])
    with open_workbench(tmp_path, model=ScriptedModel(turns)) as wb:
        wb.sources.add(tmp_path / "notes")
        run = wb.ask("What does the endpoint want?").wait(WAIT_S)
        assert f"wants {MASK} as its key" in stored(wb, "SELECT result FROM tool_calls WHERE tool_name = 'web_fetch'")
        assert_no_secret(traces(wb, tmp_path, run))


@pytest.mark.parametrize("key", ["none", "EMPTY", "test", "local", "dummy", "sk-"])
def test_placeholder_key_is_not_masked(tmp_path: Path, key: str) -> None:
    """A placeholder such as `none` in place of a key is masked in no text."""
    with af.Workbench(
        interactive=False, data_dir=tmp_path, api_key=key, model=ScriptedModel([f"A {key}, {key}."])
    ) as wb:
        assert wb.ask(f"What is {key}?").wait(WAIT_S).response == f"A {key}, {key}."


def test_password_in_the_address_is_masked(tmp_path: Path) -> None:
    """The password is masked as plain text and as encoded for HTTP's Basic scheme."""
    basic = base64.b64encode(b"ada:opaque-Pass-1815").decode()
    address = "http://ada:opaque-Pass-1815@127.0.0.1:9/v1"
    with open_workbench(tmp_path, base_url=address, model=ScriptedModel([f"Basic {basic} of opaque-Pass-1815."])) as wb:
        assert wb.ask("What?").wait(WAIT_S).response == f"Basic {MASK} of {MASK}."


def test_recorded_run_with_a_key_is_replayed_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without knowing the key the replayed run has the same masks, also in its question."""
    cassette = tmp_path / "c.jsonl"
    turns = [call("show_headers", note=KEY), f"It is {KEY}."]
    monkeypatch.setenv("AF_MODEL", "scripted")
    with open_workbench(tmp_path, model=ScriptedModel(turns), record=cassette) as wb:
        recorded = wb.ask(f"Is it {KEY}?").wait(WAIT_S)
        events = [(event.seq, event.type, dict(event.data)) for event in recorded.events]
    monkeypatch.delenv("AF_MODEL")
    for settings in ({}, {"tavily_key": KEY}):
        with af.Workbench(interactive=False, replay=cassette, **settings) as wb:
            for entry in (show_headers, save):
                wb.tool(entry)
            run = wb.ask(f"Is it {KEY}?").wait(WAIT_S)
            assert run.response == f"It is {MASK}."
            assert [(event.seq, event.type, dict(event.data)) for event in run.events] == events


def test_secret_in_reply_fields_is_masked(tmp_path: Path) -> None:
    """Name, finish reason, calls and reasoning in the reply of a user's own model have no key."""

    class Own(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            del request
            from artifactflow_nb.core.messages import Usage

            yield ModelReply(f"It is {KEY}.", Usage(1, 1), f"stop-{KEY}", f"m-{KEY}", reasoning=f"As {KEY}.")

    with open_workbench(tmp_path, model=Own([])) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        row = wb.llm_calls_df().iloc[0]
        assert (row["response_model"], row["finish_reason"]) == (f"m-{MASK}", f"stop-{MASK}")
        assert_no_secret(traces(wb, tmp_path, run))


def test_agents_get_masked_texts(tmp_path: Path) -> None:
    """Texts that one agent passes to another have no key."""
    prompts: list[str] = []

    def turns(request: ModelRequest) -> str:
        prompts.extend(message.content for message in request.messages)
        return f"From {KEY}." if requesting_agent(request) != "lead" or len(request.messages) > 2 else delegated()

    def delegated() -> str:
        return call("call_subagent", agent_name="search_agent", instruction=f"Use {KEY}.")

    with open_workbench(tmp_path, model=ScriptedModel(turns)) as wb:
        run = wb.ask(f"With {KEY}?").wait(WAIT_S)
        assert run.response == f"From {MASK}."
    assert f"Use {MASK}." in "".join(prompts)
    assert KEY not in "".join(prompts)
