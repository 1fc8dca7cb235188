"""Questions of the lead to the person: when they are asked, how they are answered, and what is refused."""

import html
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine, OpenWorkbench
from support.forked_python import fast_python
from support.replies import by_agent, call, delegate, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.tool_call import NOBODY_ANSWERS
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.testing import ScriptedModel
from artifactflow_nb.tools.lead import MAX_QUESTIONS
from artifactflow_nb.widgets.run.saved import saved_run

TESTS = Path(__file__).parents[1]
CITIES = ["New York City", "New York State"]
QUESTION = call("ask_person", question="The city or the state?", choices=CITIES)


def may_ask(request: ModelRequest) -> bool:
    """True if the lead may ask: `ask_person` is in its manual or among its native tools."""
    return "ask_person" in request.messages[0].content or any(tool.name == "ask_person" for tool in request.tools)


@pytest.mark.parametrize("protocol", ["xml", "native"])
async def test_answer_of_the_person_is_the_result_of_the_question(open_engine: OpenEngine, protocol: str) -> None:
    """The run waits with the question and its choices; the model continues with the answer, in both protocols."""
    engine = await open_engine([QUESTION, "It was 2.3 trillion."], settings={"tool_protocol": protocol})
    waiting = await engine.controller.execute("What is New York's GDP?")
    (request,) = waiting.pending
    assert (waiting.status, request.kind, request.title) == ("waiting", "question", "The city or the state?")
    assert request.params == {"question": "The city or the state?", "choices": CITIES}
    answer = Decision(approved=False, instruction=CITIES[1], replaces_call=True)
    result = await engine.controller.resume(waiting.thread_id, decisions={request.id: answer})
    assert (result.status, result.response) == ("completed", "It was 2.3 trillion.")
    model: Any = engine.model
    assert "The person answers: New York State" in model.requests[-1].messages[-1].content
    assert len(model.requests) == 2


def test_question_is_answered_by_run_workbench_and_list(workbench: OpenWorkbench) -> None:
    """Cards name the code that answers; the call counts as a success, and its row has the answer."""
    wb = workbench([QUESTION, "Done.", QUESTION, "Done again.", QUESTION, "Not asked."], interactive=False)
    run = wb.ask("GDP of New York?").wait()
    code = f'wb.run("{run.run_id}").answer("your answer", "{run.pending[0].id}")'
    assert code in repr(wb.pending())
    assert code in run.pending[0]._card().plain()
    assert '.answer("...")' in run.response.reason
    with pytest.raises(UsageError, match=r"cannot be approved.*run\.answer\(\"\.\.\.\"\)"):
        run.approve()
    with pytest.raises(UsageError, match="The answer is ' '; write an answer"):
        run.answer(" ")
    assert run.answer("The city").wait().response == "Done."
    second = wb.ask("And now?").wait()
    assert wb.run(second.run_id).answer("The state", second.pending[0].id).wait().response == "Done again."
    third = wb.ask("And later?").wait()
    assert third.deny("I do not know.").wait().response == "Not asked."
    rows = wb.tool_calls_df().sort_values("called_at")
    assert rows["approval"].tolist() == ["instructed", "instructed", "denied"]
    assert rows["success"].all()
    model: Any = wb._thread.engine.model
    assert f"{NOBODY_ANSWERS} I do not know." in model.requests[-1].messages[-1].content


@pytest.mark.parametrize(
    "options",
    [
        {"approvals": "approve"},
        {"approvals": "deny"},
        {"settings": {"approvals": "approve"}},
        {"approvals": {"ask_person": "deny"}},
        {"approvals": lambda request: "approve"},
    ],
    ids=["approve", "deny", "setting", "by tool", "function"],
)
async def test_run_continues_if_nobody_can_answer(open_engine: OpenEngine, options: dict[str, Any]) -> None:
    """A policy cannot answer; the model states its assumption, and the run does not wait."""
    engine = await open_engine([QUESTION, "Assuming the state: 2.3 trillion."], **options)
    result = await engine.controller.execute("What is New York's GDP?")
    assert result.status == "completed"
    model: Any = engine.model
    assert NOBODY_ANSWERS in model.requests[-1].messages[-1].content


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "the parameter 'question' is missing"),
        ({"question": "  "}, "'question' is '  '"),
        ({"question": "Which?", "choices": [f"Choice {n}" for n in range(20)]}, "at most 6 items"),
        ({"question": "Which?", "choices": [{"label": "A"}]}, "'choices"),
        ({"question": "Which?", "choices": {"A": "B"}}, "'choices"),
        ({"question": "Which?", "options": ["A"]}, "it has no parameter 'options'"),
        ({"question": "w" * 700}, "at most 600 characters"),
    ],
    ids=["nothing", "blank", "twenty", "objects", "object", "unknown", "long"],
)
@pytest.mark.parametrize("protocol", ["xml", "native"])
async def test_nonsense_is_a_tool_error_and_asks_nobody(
    open_engine: OpenEngine, params: dict[str, Any], problem: str, protocol: str
) -> None:
    """The model gets an error with an example; no request is stored."""
    turns = [af.ToolCall("ask_person", params), "Assuming the state."]
    engine = await open_engine(turns if protocol == "native" else [call("ask_person", **params), turns[1]],
                               settings={"tool_protocol": protocol})  # fmt: skip
    result = await engine.controller.execute("What is New York's GDP?")
    assert (result.status, result.response) == ("completed", "Assuming the state.")
    model: Any = engine.model
    assert problem in model.requests[-1].messages[-1].content
    assert await engine.approvals.n_requests(result.run_id, "question") == 0


async def test_choices_may_be_numbers_a_json_text_or_missing(open_engine: OpenEngine) -> None:
    """Numbers become texts, repetitions are left out, and null means no choices."""
    cases: list[tuple[Any, list[str]]] = [
        ([2023, 2024, "2023"], ["2023", "2024"]),
        ('["A", "B"]', ["A", "B"]),
        (None, []),
    ]
    for choices, shown in cases:
        turns = [af.ToolCall("ask_person", {"question": "Which year?", "choices": choices})]
        engine = await open_engine(turns, settings={"tool_protocol": "native"})
        waiting = await engine.controller.execute("GDP?")
        assert waiting.pending[0].params["choices"] == shown


async def test_repeated_questions_of_a_model_are_stopped(open_engine: OpenEngine) -> None:
    """After two questions the model gets an error, and answers with its results when the rounds are used up."""

    def ask_forever(request: ModelRequest) -> str:
        return "Assuming the state." if request.tool_choice == "none" else QUESTION

    engine = await open_engine(ask_forever)
    result = await engine.controller.execute("What is New York's GDP?")
    for _ in range(MAX_QUESTIONS):
        assert result.status == "waiting"
        answer = Decision(approved=False, instruction="Guess!", replaces_call=True)
        result = await engine.controller.resume(result.thread_id, decisions={result.pending[0].id: answer})
    assert (result.status, result.response) == ("completed", "Assuming the state.")
    assert await engine.approvals.n_requests(result.run_id, "question") == MAX_QUESTIONS
    model: Any = engine.model
    assert "has asked its 2 questions already" in model.requests[-1].messages[-1].content


async def test_question_is_the_only_call_of_its_reply(open_engine: OpenEngine) -> None:
    """A delegation in the same reply does not run before the answer."""
    turns = by_agent(lead=[f"{QUESTION}\n{delegate('search_agent', 'Look.')}", "Done."])
    engine = await open_engine(turns)
    waiting = await engine.controller.execute("GDP of New York?")
    assert [request.kind for request in waiting.pending] == ["question"]
    answer = Decision(approved=False, instruction="The city", replaces_call=True)
    result = await engine.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: answer})
    assert result.response == "Done."
    model: Any = engine.model
    assert "ask_person must be the only call" in model.requests[-1].messages[-1].content


async def test_policy_decides_when_the_lead_may_ask(open_engine: OpenEngine) -> None:
    """The setting of a question precedes the workbench's; quick runs and `never` offer no such tool."""
    engine = await open_engine(lambda _request: "Done.")
    model: Any = engine.model
    for options, is_offered in (
        ({}, True),
        ({"depth": "deep"}, True),
        ({"clarify": "never"}, False),
        ({"depth": "quick"}, False),
        ({"depth": "quick", "clarify": "always"}, True),
    ):
        await engine.controller.execute("Why?", **options)
        assert may_ask(model.requests[-1]) is is_offered, options
    strict = await open_engine(lambda _request: "Done.", settings={"clarify": "never"})
    run = await strict.controller.execute("Why?")
    assert not may_ask(strict.model.requests[-1])  # type: ignore[attr-defined]
    await strict.controller.execute("Why?", clarify="auto")
    assert may_ask(strict.model.requests[-1])  # type: ignore[attr-defined]
    again = await strict.controller.begin_sibling(run.message_id)
    assert "clarify" not in again.settings, "a repeated question keeps its policy"


async def test_always_asks_before_research(open_engine: OpenEngine) -> None:
    """A first reply that delegates is refused once; the prompt demands a question from the start."""

    def script(request: ModelRequest) -> str:
        if requesting_agent(request) != "lead":
            return "Found."
        results = request.messages[-1].content
        if "asks the person first" in results:
            return QUESTION
        return "Done." if "Found." in results else delegate("search_agent", "Look.")

    engine = await open_engine(script)
    waiting = await engine.controller.execute("GDP of New York?", clarify="always")
    model: Any = engine.model
    assert "ask the person once with ask_person" in model.requests[0].messages[0].content
    assert [requesting_agent(request) for request in model.requests] == ["lead", "lead"]
    answer = Decision(approved=False, instruction="The city", replaces_call=True)
    result = await engine.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: answer})
    assert result.response == "Done."


def test_policy_that_a_run_cannot_have_is_refused(workbench: OpenWorkbench) -> None:
    """The error lists the possible values, or says that the flow never asks."""
    wb = workbench(["Done."], interactive=False)
    with pytest.raises(UsageError, match="clarify is 'maybe'; it must be one of 'auto', 'never', 'always'"):
        wb.ask("Why?", clarify="maybe")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="The flow 'compose' has no agent that can ask the person"):
        wb.ask("Why?", conversation_id=wb.projects.start("Essay").conversation_id, flow="compose", clarify="always")
    with pytest.raises(UsageError, match="AF_CLARIFY"):
        af.Workbench(model=ScriptedModel(["Done."]), clarify="maybe")


def test_offline_model_never_asks(workbench: OpenWorkbench) -> None:
    """The prompts of the offline model and the settings of its runs do not change."""
    wb = workbench(model=OfflineModel(), interactive=False)
    run = wb.ask("What is a list?", clarify="always").wait(timeout_s=60)
    assert run.status == "completed"
    assert "clarify" not in run.settings
    assert wb.approvals_df(run).empty


def test_saved_output_of_a_question_names_its_choices_and_the_code(workbench: OpenWorkbench) -> None:
    """Without a kernel a reader sees the question, the choices and how to answer; later, the answer."""
    wb = workbench([QUESTION, "Done."], interactive=False)
    run = wb.ask("GDP of New York?").wait()
    saved = saved_run(run._client)
    for part in ("The city or the state?", *CITIES, 'run.answer("...")', "Waiting for your answer"):
        assert part in html.unescape(saved["text/html"])
    assert "approve" not in saved["text/plain"]
    text = html.unescape(saved_run(run.answer("The city").wait()._client)["text/html"])
    assert "answered: The city" in text
    assert "Answered by user: The city" in text


ASKS_AND_DIES = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.scripted import ScriptedModel
from flows.test_questions import QUESTION

async def main():
    engine = await Engine(Settings.load(data_dir=Path(sys.argv[1])), model=ScriptedModel([QUESTION])).open()
    assert (await engine.controller.execute("GDP of New York?")).status == "waiting"
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


def test_question_survives_the_death_of_its_process(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Another workbench answers the question, which is neither asked nor requested again."""
    folder = tmp_path / "data"
    command = [*fast_python(), "-c", ASKS_AND_DIES, str(folder), str(TESTS)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    wb = workbench(["The state's was 2.3 trillion."], data_dir=folder, interactive=False)
    (request,) = wb.pending()
    run = wb.run(request.run_id).answer("The state").wait()
    assert run.response == "The state's was 2.3 trillion."
    (sent,) = wb._thread.engine.model.requests  # type: ignore[attr-defined]
    assert "The person answers: The state" in sent.messages[-1].content


@pytest.mark.parametrize("way", ["code", "click"])
def test_question_is_recorded_replayed_sealed_verified_and_forked(tmp_path: Path, way: str) -> None:
    """A replay asks code again and refuses another answer; a fork continues from another answer."""

    def script(request: ModelRequest) -> str:
        results = request.messages[-1].content
        return results.rpartition("answers: ")[2].partition("\n")[0] if "answers: " in results else QUESTION

    def open_workbench(folder: str, **options: Any) -> af.Workbench:
        return af.Workbench(data_dir=tmp_path / folder, interactive=False, **options)

    def answer(run: af.Run) -> af.Run:
        if way == "code":
            return run.answer("The state").wait()
        decision = Decision(approved=False, instruction="The state", replaces_call=True, by_code=False)
        run._thread.call(run._thread.engine.controller.decide(run.pending[0].id, decision))
        return run.wait()

    cassette = tmp_path / "runs.jsonl"
    with open_workbench("recorded", model=ScriptedModel(script), record=cassette) as wb:
        run = answer(wb.ask("GDP of New York?").wait())
        assert run.response is not None
        assert run.response.startswith("The state")
        fork = run.fork(2, decision=Decision(approved=False, instruction="The city", replaces_call=True)).wait()
        assert fork.response.startswith("The city")
        with pytest.raises(UsageError, match="Step 2 cannot be approved. It can be: instructed, denied"):
            run.fork(2, decision=True)
        assert (run.verify().is_same, run.verify().prompts) == (True, ())
        with af.open_run(run.seal(tmp_path / "run.zip")) as sealed:
            assert sealed.response == run.response
            assert sealed.approvals_df()["instruction"].tolist() == ["The state"]
            assert sealed.verify().is_same
        recorded = run.response
    with open_workbench("replayed", replay=cassette) as wb:
        run = wb.ask("GDP of New York?").wait()
        if way == "code":
            assert run.status == "waiting"
            with pytest.raises(af.errors.CassetteMiss, match="The city"):
                run.answer("The city")
            run.answer("The state").wait()
        assert run.response == recorded
