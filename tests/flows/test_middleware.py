"""Middleware: it gets every call with its input and result, and cannot change or fail the run."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine
from support.chat_endpoint import Answer, ChatServer
from support.cpu_time import within
from support.recorded_scenes import WAIT_S, Stage, jobs, play_both, searching, with_look
from support.replies import by_agent, call, delegate, report

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.middleware import HOOKS
from artifactflow_nb.errors import ModelRejected, UsageError
from artifactflow_nb.flows.middleware import RunMiddleware
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.widgets.run.saved import saved_run

KEY = "sk-very-secret-key-0123456789"


class Recorder(af.extend.Middleware):
    """Middleware that stores its notifications in order."""

    def __init__(self) -> None:
        self.notifications: list[tuple[Any, ...]] = []

    async def before_model(self, call: af.extend.ModelCall) -> None:
        self.notifications.append(("before_model", call))

    async def after_model(self, call: af.extend.ModelCall, outcome: af.extend.ModelOutcome) -> None:
        self.notifications.append(("after_model", call, outcome))

    async def on_model_error(self, call: af.extend.ModelCall, error: af.extend.CallError) -> None:
        self.notifications.append(("on_model_error", call, error))

    async def before_tool(self, call: af.extend.ToolInvocation) -> None:
        self.notifications.append(("before_tool", call))

    async def after_tool(self, call: af.extend.ToolInvocation, outcome: af.extend.ToolOutcome) -> None:
        self.notifications.append(("after_tool", call, outcome))

    async def on_tool_error(self, call: af.extend.ToolInvocation, error: af.extend.CallError) -> None:
        self.notifications.append(("on_tool_error", call, error))

    @property
    def order(self) -> list[tuple[str, str]]:
        return [(hook, getattr(subject, "tool", subject.agent)) for hook, subject, *_ in self.notifications]

    def outcomes(self, hook: str) -> list[Any]:
        return [entry[2] for entry in self.notifications if entry[0] == hook]


def raising(error: BaseException, hook: str, *, is_async: bool = True) -> af.extend.Middleware:
    """Middleware with one method that raises."""

    async def soon(*_args: Any) -> None:
        raise error

    def now(*_args: Any) -> None:
        raise error

    return type("Clumsy", (af.extend.Middleware,), {hook: soon if is_async else now})()


def problems(run: Any) -> list[Any]:
    return [event for event in run if event.type is StreamEventType.MIDDLEWARE_ERROR]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@tool
def count_words(ctx: ToolContext, text: str, among: list[str] | None = None) -> str:
    """Count words."""
    del ctx, among
    if text == "fail":
        raise ValueError("It is broken.")
    return str(len(text.split()))


def test_middleware_gets_every_call(tmp_path: Path) -> None:
    """Hooks get the start and end of each call in the order of the frames, including calls of sub-agents."""
    recorder = Recorder()
    script = by_agent(
        lead=[delegate("search_agent", "Search."), "Now." + call("count_words", text="a b c"), "Done."],
        search=["Found."],
    )
    prices = {"scripted": {"input": 1, "output": 2}}
    with af.Workbench(
        model=ScriptedModel(script), data_dir=tmp_path / "data", middleware=[recorder], prices=prices
    ) as wb:
        wb.tool(count_words)
        run = wb.ask("How many?").wait(10)
        llm, tools = wb.llm_calls_df().set_index("call_id"), wb.tool_calls_df().set_index("tool_call_id")
    assert run.response == "Done."
    assert recorder.order == [
        ("before_model", "lead_agent"),
        ("after_model", "lead_agent"),
        ("before_tool", "call_subagent"),
        ("before_model", "search_agent"),
        ("after_model", "search_agent"),
        ("after_tool", "call_subagent"),
        ("before_model", "lead_agent"),
        ("after_model", "lead_agent"),
        ("before_tool", "count_words"),
        ("after_tool", "count_words"),
        ("before_model", "lead_agent"),
        ("after_model", "lead_agent"),
    ]
    requests = [entry[1] for entry in recorder.notifications if entry[0] == "before_model"]
    assert {request.run_id for request in requests} == {run.run_id}
    assert [
        (request.job_id, request.step, request.attempt) for request in requests if request.agent == "lead_agent"
    ] == [
        ("main", 1, 1),
        ("main", 2, 1),
        ("main", 3, 1),
    ]
    assert requests[0].messages[-1].content == "How many?"
    assert requests[0].messages[0].role == "system"
    assert {"create_artifact", "count_words"} <= set(requests[0].tools)
    assert (requests[0].provider, requests[0].model, requests[0].temperature) == ("scripted", "scripted", 0.7)
    for request, outcome in [entry[1:] for entry in recorder.notifications if entry[0] == "after_model"]:
        row = llm.loc[request.call_id]
        assert (outcome.duration_ms, outcome.usage.total_tokens) == (row["llm_duration_ms"], row["total_tokens"])
        assert (outcome.cost_usd, outcome.finish_reason) == (row["cost_usd"], row["finish_reason"])
    second = recorder.outcomes("after_model")[2]
    assert (second.content[:4], [used.name for used in second.calls]) == ("Now.", ["count_words"])
    _, used, outcome = recorder.notifications[9]
    assert (used.params, outcome.data) == ({"text": "a b c"}, "3")
    assert outcome.duration_ms == tools.loc[used.tool_call_id]["duration_ms"]
    assert recorder.notifications[3][1].job_id == recorder.notifications[2][1].tool_call_id


async def test_middleware_gets_failures(open_engine: OpenEngine, tmp_path: Path) -> None:
    """Hooks get type and message of model errors, and of failing, unknown and denied tools."""
    recorder = Recorder()
    turns = [
        call("count_words", text="fail") + call("no_such") + report(),
        "Never." + call("count_words"),
        ModelRejected("No.", partial="I th"),
    ]
    engine = await open_engine(turns, approvals={"create_artifact": "deny"}, middleware=[recorder])
    engine.register_tool(count_words)
    result = await engine.controller.execute("How many?")
    assert result.status == "failed"
    assert [(error.error_type, error.message.split(".")[0]) for error in recorder.outcomes("on_tool_error")] == [
        ("ValueError", "count_words failed: ValueError: It is broken"),
        ("ToolError", "You have no tool 'no_such'"),
        ("PermissionDenied", "Permission denied"),
        ("ToolError", "count_words was not run: the parameter 'text' is missing"),
    ]
    (error,) = recorder.outcomes("on_model_error")
    assert (error.error_type, error.message, error.partial) == ("ModelRejected", "No.", "I th")
    assert error.duration_ms >= 0
    assert sum(hook == "before_tool" for hook, _ in recorder.order) == 4


def test_middleware_gets_each_attempt(tmp_path: Path) -> None:
    """A failed attempt has a number and the delay until the next attempt."""
    recorder = Recorder()
    with (
        ChatServer([Answer(status=503, headers={"Retry-After": "0"}), Answer("Yes.")]) as server,
        af.Workbench(
            model="m", base_url=server.base_url, api_key="k", data_dir=tmp_path / "data", middleware=[recorder]
        ) as wb,
    ):
        assert wb.ask("Well?").wait(20).response == "Yes."
        rows = wb.llm_calls_df()
    assert [hook for hook, _ in recorder.order] == ["before_model", "on_model_error", "before_model", "after_model"]
    calls = [entry[1] for entry in recorder.notifications]
    assert [model_call.attempt for model_call in calls] == [1, 1, 2, 2]
    assert [(model_call.call_id, model_call.attempt) for model_call in calls[::2]] == list(
        zip(rows["call_id"], rows["attempt"], strict=True)
    )
    (error,) = recorder.outcomes("on_model_error")
    assert (error.error_type, error.retry_delay_s) == ("ModelUnavailable", 1.0)


def test_wait_before_a_retry_does_not_count_as_model_time(tmp_path: Path) -> None:
    """The duration of the second attempt begins after the wait that the endpoint asked for."""
    with (
        ChatServer([Answer(status=429, headers=(("Retry-After", "1.5"),)), Answer("Yes.")]) as server,
        af.Workbench(model="m", base_url=server.base_url, api_key="k", data_dir=tmp_path / "data") as wb,
    ):
        run = wb.ask("Well?").wait(20)
        rows = wb.llm_calls_df(run)
        assert (rows["started_at"].iloc[1] - rows["completed_at"].iloc[0]).total_seconds() >= 1.5
        times = wb.runs_df(run, columns="time").iloc[0]
        assert rows["llm_duration_ms"].sum() == pytest.approx(times["llm_ms"], abs=1)
        assert times["llm_ms"] + 1_500 <= times["total_duration_ms"]


async def test_middleware_gets_cancelled_calls(open_engine: OpenEngine) -> None:
    """When a run is cancelled, the started calls of a job end, and so does the delegating call."""
    recorder, started = Recorder(), asyncio.Event()

    @tool
    async def wait(ctx: ToolContext) -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    script = by_agent(lead=[delegate("search_agent", "Search.")], search=[call("wait")])
    engine = await open_engine(script, middleware=[recorder])
    engine.register_tool(wait, agent="search_agent")
    run = await engine.controller.begin("Wait.")
    await engine.controller.start(run)
    await started.wait()
    await engine.controller.cancel(run.run_id)
    assert recorder.order[-2:] == [("on_tool_error", "wait"), ("on_tool_error", "call_subagent")]
    assert {(error.error_type, error.duration_ms) for error in recorder.outcomes("on_tool_error")} == {
        ("RunCancelled", None)
    }


def test_middleware_gets_the_partial_text_of_a_cancelled_call(tmp_path: Path) -> None:
    """A cancelled model call ends with the text so far."""
    recorder = Recorder()
    model = ScriptedModel(["A long answer that takes its time."], chunk_chars=6, delay_s=0.05)
    with af.Workbench(model=model, data_dir=tmp_path / "data", middleware=[recorder]) as wb:
        run = wb.ask("Well?")
        deadline = time.monotonic() + 10
        while (
            not any(event.type is StreamEventType.LLM_CHUNK for event in published_events(run))
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        run.cancel()
    (error,) = recorder.outcomes("on_model_error")
    assert error.error_type == "RunCancelled"
    assert "A long answer".startswith(error.partial[:6])


def published_events(run: af.Run) -> list[Any]:
    """All events of a run so far, chunks included."""
    events: list[Any] = []
    controller = run._thread.engine.controller

    async def listen() -> None:
        (await controller.subscribe(run.run_id, events.append))()

    run._thread.call(listen())
    return events


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("hook", HOOKS)
async def test_middleware_error_is_an_event(open_engine: OpenEngine, hook: str, is_async: bool) -> None:
    """The run and other middleware continue, and the event has the masked error."""
    recorder, clumsy = Recorder(), raising(RuntimeError(f"No luck with {KEY}."), hook, is_async=is_async)
    turns = [call("count_words", text="a b") + call("count_words", text="fail"), ModelRejected("No.")]
    engine = await open_engine(turns, middleware=[clumsy, recorder], settings={"api_key": KEY, "model": "m"})
    engine.register_tool(count_words)
    result = await engine.controller.execute("How many?")
    events = await engine.runs.events(result.run_id)
    assert (result.status, result.error_type) == ("failed", "ModelRejected")
    assert [name for name, _ in recorder.order] == [
        "before_model",
        "after_model",
        *("before_tool", "after_tool"),
        *("before_tool", "on_tool_error"),
        *("before_model", "on_model_error"),
    ]
    published = problems(events)
    assert len(published) == sum(name == hook for name, _ in recorder.order)
    assert {(event.agent, event.tool) for event in published} == {
        ("lead_agent", "count_words" if "tool" in hook else None)
    }
    for event in published:
        data = dict(event.data)
        choice = data.pop("tool_call_id" if "tool" in hook else "call_id")
        assert choice in {
            getattr(entry, "tool_call_id", None) or entry.call_id for _, entry, *_ in recorder.notifications
        }
        assert KEY not in data["message"]
        assert data.pop("message").startswith("No luck with ")
        assert data == {"job_id": "main", "middleware": "Clumsy", "hook": hook, "error_type": "RuntimeError"}
    assert [event.seq for event in events] == sorted({event.seq for event in events})


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError("mine"), Mute()])
async def test_exit_in_middleware_does_not_end_the_run(
    open_engine: OpenEngine, error: BaseException, is_async: bool
) -> None:
    """Whatever middleware raises, the run completes."""
    engine = await open_engine(["Yes."], middleware=[raising(error, "before_model", is_async=is_async)])
    result = await engine.controller.execute("Well?")
    assert result.response == "Yes."
    (event,) = problems(await engine.runs.events(result.run_id))
    assert event.data["error_type"] == type(error).__name__


@pytest.mark.parametrize("is_async", [True, False])
async def test_slow_middleware_is_abandoned(open_engine: OpenEngine, is_async: bool) -> None:
    """After the time limit the call continues, and an event says so; an invalid limit is rejected."""
    released = threading.Event()

    async def sleep(*_args: Any) -> None:
        await asyncio.sleep(60)

    def block(*_args: Any) -> None:
        released.wait(60)

    slow = type("Slow", (af.extend.Middleware,), {"timeout_s": 0.05, "after_model": sleep if is_async else block})()
    odd = type("Odd", (af.extend.Middleware,), {"timeout_s": "soon", "before_model": sleep})()
    engine = await open_engine(["Yes."], middleware=[slow, odd])
    result = await engine.controller.execute("Well?")
    released.set()
    assert result.response == "Yes."
    before, event = problems(await engine.runs.events(result.run_id))
    assert (before.data["middleware"], before.data["error_type"]) == ("Odd", "TypeError")
    assert event.data["error_type"] == "TimeoutError"
    assert event.data["message"] == "The hook took longer than 0.05 s; the run did not wait."


async def test_slow_method_delays_only_its_own_call(open_engine: OpenEngine) -> None:
    """While a plain function blocks one job, a parallel job takes all its turns."""
    crawled = threading.Event()

    class Blocking(af.extend.Middleware):
        def before_model(self, call: af.extend.ModelCall) -> None:
            assert threading.current_thread() is not loop_thread
            if call.agent == "search_agent":
                assert crawled.wait(8)

        def after_model(self, call: af.extend.ModelCall, outcome: af.extend.ModelOutcome) -> None:
            if call.agent == "crawl_agent" and not outcome.calls:
                crawled.set()

    loop_thread = threading.current_thread()
    script = by_agent(
        lead=[delegate("search_agent", "Search.") + delegate("crawl_agent", "Read."), "Done."],
        search=["Found."],
        reading=[call("count_words", text="a"), "Read."],
    )
    engine = await open_engine(script, middleware=[Blocking()])
    engine.register_tool(count_words, agent="crawl_agent")
    result = await engine.controller.execute("Both.")
    assert result.response == "Done."
    assert problems(await engine.runs.events(result.run_id)) == []


async def test_middleware_gets_copies(open_engine: OpenEngine) -> None:
    """Changes of parameters, metadata and calls reach neither the tool nor the store."""

    class Meddling(af.extend.Middleware):
        async def before_tool(self, call: Any) -> None:
            call.params["text"] = "one two three four"
            call.params["among"].append("x")

        async def before_model(self, call: Any) -> None:
            for message in call.messages:
                for model_call in message.calls:
                    model_call.params.clear()

        async def after_model(self, call: Any, outcome: Any) -> None:
            for model_call in outcome.calls:
                model_call.params.clear()
            call.messages += ("x",)

        async def after_tool(self, call: Any, outcome: Any) -> None:
            outcome.metadata["more"] = 1

    turns = [af.ToolCall("count_words", {"text": "a b", "among": ["c"]}), "Done."]
    engine = await open_engine(turns, middleware=[Meddling()], settings={"tool_protocol": "native"})
    engine.register_tool(count_words)
    result = await engine.controller.execute("How many?")
    assert result.response == "Done."
    model: Any = engine.model
    reply, message = model.requests[1].messages[-2:]
    assert (message.content, reply.calls[0].params) == ("2", {"text": "a b", "among": ["c"]})
    events = await engine.runs.events(result.run_id)
    (done,) = (event for event in events if event.type is StreamEventType.TOOL_COMPLETE)
    assert done.data["metadata"] == {}
    assert {event.data["error_type"] for event in problems(events)} == {"FrozenInstanceError"}


async def test_waiting_call_starts_and_ends_once(open_engine: OpenEngine) -> None:
    """A job that waits for a person has one start and one end, also if another engine resumes it."""
    first, second = Recorder(), Recorder()
    lead, search = [delegate("search_agent", "Look."), "Done."], [call("count_words", text="a b"), "Two."]
    asks = {"count_words": "ask"}
    engine = await open_engine(by_agent(lead=lead[:1], search=search[:1]), approvals=asks, middleware=[first])
    engine.register_tool(count_words, agent="search_agent")
    waiting = await engine.controller.execute("Look.")
    await engine.aclose()
    other = await open_engine(by_agent(lead=lead[1:], search=search[1:]), approvals=asks, middleware=[second])
    other.register_tool(count_words, agent="search_agent")
    done = await other.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: Decision(approved=True)})
    assert done.response == "Done."
    assert [entry for entry in first.order if entry[1] == "call_subagent"] == [("before_tool", "call_subagent")]
    assert second.order[:3] == [
        ("before_tool", "count_words"),
        ("after_tool", "count_words"),
        ("before_model", "search_agent"),
    ]
    assert [entry for entry in second.order if entry[1] == "call_subagent"] == [("after_tool", "call_subagent")]
    assert second.notifications[1][1].params == {"text": "a b"}


# --- replays --------------------------------------------------------------------------------------------------------


def jobs_at_once(stage: Stage) -> None:
    stage.ask("Find both.").wait(30)


def finding(request: Any) -> Any:
    if "lead agent" not in request.messages[0].content:
        return searching(request)
    return jobs("tea", "milk") if len(request.messages) == 2 else "Both are found."


def test_sealed_run_needs_no_middleware(tmp_path: Path) -> None:
    """A sealed run shows the errors of its middleware, and can be repeated without the middleware."""
    clumsy = raising(ValueError("Oh."), "after_tool")
    model = ScriptedModel([report(), "Done."])
    with af.Workbench(model=model, data_dir=tmp_path / "data", middleware=[clumsy]) as wb:
        path = wb.ask("Write.").wait(10).seal(tmp_path / "run.afrun")
    with af.open_run(path) as sealed:
        assert sealed.events_df()["event_type"].tolist().count("middleware_error") == 1
        assert sealed.verify().is_same


# --- the workbench --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: [Recorder], r"<class '.*Recorder'> is not middleware: pass an object of this class"),
        (
            lambda: [print],
            r"<built-in function print> is not middleware: its class must be made from af.extend.Middleware",
        ),
        (Recorder, r"middleware is Recorder\(\); it must be a list, as in middleware=\[af.DebugMiddleware\(\)\]"),
        (lambda: 3, r"middleware is 3; it must be a list"),
    ],
)
def test_invalid_middleware_is_rejected(tmp_path: Path, value: Callable[[], Any], message: str) -> None:
    """The error names the value and says what to pass."""
    with pytest.raises(UsageError, match=message):
        af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data", middleware=value())


def test_view_shows_middleware_errors(tmp_path: Path) -> None:
    """The view of the run names the middleware, the method and the error; the workbench's card lists its middleware."""
    clumsy = raising(ValueError("<b>Oh</b>."), "before_model")
    with af.Workbench(model=ScriptedModel(["Yes."]), data_dir=tmp_path / "data", middleware=[clumsy]) as wb:
        assert "middleware        Clumsy\n" in wb._card().plain()
        page = saved_run(wb.ask("Well?").wait(10)._client)["text/html"]
    assert "Clumsy failed in before_model, and the run continued without it: ValueError: &lt;b&gt;Oh&lt;/b&gt;." in page


@pytest.mark.timed
async def test_run_without_middleware_creates_no_notifications(open_engine: OpenEngine) -> None:
    """Without middleware no values are copied."""
    engine = await open_engine(["Yes."])
    nothing: Any = None  # any look into it would fail
    watch = RunMiddleware(engine.middleware, "", "", nothing, str, nothing)
    place = {"call_id": "", "job_id": "", "step": 1, "attempt": 1, "agent": "", "provider": "", "model": ""}
    for attempt in within(0.5):
        with attempt:
            for _ in range(10_000):
                assert await watch.before_model(nothing, nothing, **place) is None
                assert await watch.before_tool(*[nothing] * 6, is_new=True) is None


class Hesitating(af.extend.Middleware):
    """Middleware that blocks at the second call and signals this to the test."""

    def __init__(self) -> None:
        self.is_blocked = threading.Event()

    async def before_model(self, call: af.extend.ModelCall) -> None:
        if call.step > 1:
            self.is_blocked.set()
            await asyncio.sleep(WAIT_S)


def test_run_cancelled_before_its_model_call_is_replayed(tmp_path: Path) -> None:
    """A run is cancelled between the start of a turn and the model call; neither run nor replay has a row."""
    hook = Hesitating()

    def scene(stage: Stage) -> Any:
        run = stage.ask()
        if not stage.is_played:
            assert hook.is_blocked.wait(WAIT_S)
        run.cancel()
        return run.status, len(stage.wb.llm_calls_df())

    turns, only = [call("look", word="X"), "Never said."], {"middleware": [hook]}
    assert play_both(tmp_path, scene, turns, setup=with_look, only_recorded=only, times=3) == ("cancelled", 1)
