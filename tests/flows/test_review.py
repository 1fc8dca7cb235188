"""Approval requests that a model reviews: the decisions, the stored rows, and when the person decides."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine, OpenWorkbench
from support.forked_python import fast_python
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.testing import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.widgets.run.saved import saved_run

TESTS = Path(__file__).parents[1]
sent: list[str] = []


@tool(permission="confirm")
def send(ctx: ToolContext, to: str) -> str:
    """Send a letter."""
    sent.append(to)
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


def verdict(decision: str, reason: str = "It is only Ada.") -> str:
    return json.dumps({"decision": decision, "reason": reason})


def is_review(request: ModelRequest) -> bool:
    return "in place of the person" in request.messages[0].content


def script(*answers: Any) -> Any:
    """A model that sends a letter to each of two people; `answers` are the answers of the reviewer."""
    left = list(answers)

    def next_turn(request: ModelRequest) -> Any:
        if is_review(request):
            return left.pop(0)
        n = sum(message.role == "assistant" for message in request.messages)
        return call("send", to=["Ada", "Bob"][n]) if n < 2 else "Done."

    return next_turn


def open_workbench(folder: Path, turns: Any, **options: Any) -> af.Workbench:
    wb = af.Workbench(model=ScriptedModel(turns), data_dir=folder, interactive=False, **options)
    wb.tool(send)
    return wb


def test_reviewer_approves_and_denies_with_its_reason(tmp_path: Path) -> None:
    """The reviewer's calls and decisions are ordinary rows; the agent reads the reason of a denial."""
    turns = script(verdict("approve"), f"```json\n{verdict('deny', 'Bob is not known.')}\n```")
    reviewer = af.Reviewer(rules="Letters to Ada only.")
    with open_workbench(tmp_path, turns, approvals=reviewer, prices={"scripted": {"input": 1, "output": 1}}) as wb:
        run = wb.ask("Send the letters.").wait()
        assert (run.status, sent) == ("completed", ["Ada"])
        requests = wb._thread.engine.model.requests  # type: ignore[attr-defined]
        assert "Permission denied. The reviewer says: Bob is not known." in requests[-1].messages[-1].content
        reviews = [request for request in requests if is_review(request)]
        assert all("Letters to Ada only." in request.messages[-1].content for request in reviews)
        assert '"to":"Bob"' in reviews[1].messages[-1].content
        decisions = wb.approvals_df(run)
        assert decisions["decided_by"].tolist() == ["reviewer", "reviewer"]
        assert decisions["instruction"].tolist() == ["It is only Ada.", "Bob is not known."]
        calls = wb.llm_calls_df(run).query("agent_name == 'reviewer'")
        assert len(calls) == 2
        assert (calls["cost_usd"] > 0).all()
        frame = wb.runs_df(run, columns="counts")
        assert (frame["n_llm_calls"][0], frame["n_interrupts"][0]) == (5, 0)
        assert "Denied by reviewer: Bob is not known." in saved_run(run._client)["text/html"]
        assert "reviewer" in wb._card().plain()


@pytest.mark.parametrize(
    "answer",
    [
        "I think that is fine.",
        '{"decision": "approve"}',
        '{"decision": "approve", "reason": " "}',
        '{"decision": "yes", "reason": "Fine."}',
        '{"decision": ["approve"], "reason": "Fine."}',
        "[1, 2]",
        "{" * 5000,
        verdict("ask", "I cannot tell."),
        af.errors.ModelRejected("The endpoint is out of credit."),
        af.ToolCall("send", {"to": "Eve"}),
    ],
    ids=["prose", "no reason", "blank reason", "other word", "list", "array", "braces", "asks", "fails", "calls"],
)
def test_unclear_or_failed_review_leaves_the_decision_to_the_person(tmp_path: Path, answer: Any) -> None:
    """The run waits; nothing is sent before the person approves."""
    with open_workbench(tmp_path, script(answer, verdict("deny", "No.")), approvals=af.Reviewer()) as wb:
        run = wb.ask("Send the letters.").wait()
        assert (run.status, sent) == ("waiting", [])
        assert run.approve().wait().status == "completed"
        assert sent == ["Ada"]
        assert wb.approvals_df(run)["decided_by"].tolist() == ["user", "reviewer"]


async def test_standing_decision_and_fallback_of_a_reviewer(open_engine: OpenEngine) -> None:
    """Calls that the person approved for the run are not reviewed; unattended, the fallback decides unclear calls."""
    engine = await open_engine(script("Hm."), approvals=af.Reviewer())
    engine.register_tool(send)
    waiting = await engine.controller.execute("Send.")
    decision = Decision(approved=True, scope="run")
    result = await engine.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: decision})
    assert (result.status, sent) == ("completed", ["Ada", "Bob"])
    turns = script("Hm.", verdict("approve"))
    alone = await open_engine(turns, approvals=af.Reviewer(), settings={"approvals": "deny"})
    alone.register_tool(send)
    assert (await alone.controller.execute("Send.")).status == "completed"
    assert sent == ["Ada", "Bob", "Bob"]


async def test_questions_and_budgets_are_for_the_person(open_engine: OpenEngine) -> None:
    """The reviewer is not called for a question to the person or a budget request."""
    engine = await open_engine([call("ask_person", question="Which?"), "Done."], approvals=af.Reviewer())
    waiting = await engine.controller.execute("Why?", budget={"tokens": 1, "when_spent": "ask"})
    assert [request.kind for request in waiting.pending] == ["question"]
    answer = Decision(approved=False, instruction="This", replaces_call=True)
    result = await engine.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: answer})
    assert [request.kind for request in result.pending] == ["budget"]
    assert not any(is_review(request) for request in engine.model.requests)  # type: ignore[attr-defined]


async def test_spent_budget_allows_no_review(open_engine: OpenEngine) -> None:
    """The call waits for the person, and the run ends at its budget afterwards."""
    engine = await open_engine(script(), approvals=af.Reviewer())
    engine.register_tool(send)
    waiting = await engine.controller.execute("Send.", budget={"tokens": 1})
    assert (waiting.status, [request.tool for request in waiting.pending]) == ("waiting", ["send"])
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (result.status, result.error_type, sent) == ("failed", "BudgetExceeded", ["Ada"])


DIES_AFTER_THE_REVIEW = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
import artifactflow_nb as af
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from flows.test_review import script, send, verdict

class Killer(af.extend.Middleware):
    def after_model(self, call, outcome):
        if call.agent == "reviewer":
            os.kill(os.getpid(), 9)

async def main():
    model = af.ScriptedModel(script(verdict("approve")))
    settings = Settings.load(data_dir=Path(sys.argv[1]))
    engine = Engine(settings, model=model, approvals=af.Reviewer(), middleware=[Killer()])
    engine.register_tool(send)
    await engine.open()
    await engine.controller.execute("Send.")

asyncio.run(main())
"""


async def test_review_survives_the_death_of_its_process(open_engine: OpenEngine, tmp_path: Path) -> None:
    """The stored review decides the call; the model is asked about the other call only."""
    command = [*fast_python(), "-c", DIES_AFTER_THE_REVIEW, str(tmp_path / "data"), str(TESTS)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: ASYNC221 - alone
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    engine = await open_engine(script(verdict("deny", "Not Bob.")), approvals=af.Reviewer())
    engine.register_tool(send)
    (run,) = await engine.runs.unfinished()
    await (await engine.controller.start(run))
    assert (await engine.controller.result(run.run_id)).status == "completed"
    assert sent == ["Ada"]
    requests = engine.model.requests  # type: ignore[attr-defined]
    assert ['"to":"Bob"' in request.messages[-1].content for request in requests if is_review(request)] == [True]


def test_reviewer_may_have_a_separate_model(tmp_path: Path) -> None:
    """Only reviews use the model; the cost of reviews counts for the run; an object that is not a model is rejected."""
    model = ScriptedModel(lambda _request: verdict("approve"))
    with open_workbench(tmp_path, script(), approvals=af.Reviewer(model=model)) as wb:
        run = wb.ask("Send.", budget={"tokens": 10_000_000}).wait()
        assert (run.status, len(model.requests), sent) == ("completed", 2, ["Ada", "Bob"])
        assert all(is_review(request) for request in model.requests)
        assert "reviewer" in str(run.manifest)
    with pytest.raises(af.errors.UsageError, match="Reviewer.model is 7"):
        af.Reviewer(model=7)  # type: ignore[arg-type]


def test_review_is_recorded_replayed_verified_and_forked(tmp_path: Path) -> None:
    """A replay asks no model; a verification repeats the reviews with the same prompts."""
    cassette = tmp_path / "runs.jsonl"
    reviewer = af.Reviewer(rules="Letters to Ada only.")
    turns = script(verdict("approve"), verdict("deny", "Not Bob."), verdict("deny", "Not now."))
    with open_workbench(tmp_path / "a", turns, approvals=reviewer, record=cassette) as wb:
        run = wb.ask("Send.").wait()
        found = run.verify()
        assert (found.differences, found.prompts) == ((), ())
        with af.open_run(run.seal(tmp_path / "run.zip")) as sealed:
            assert sealed.approvals_df()["decided_by"].tolist() == ["reviewer", "reviewer"]
        last = next(step.number for step in run.steps if step.kind == "tool" and "Bob" in step.row["args_json"])
        assert run.fork(last - 1, prompt="Send again.").wait().status == "completed"
    sent.clear()
    with open_workbench(tmp_path / "b", ["No model is asked."], approvals=reviewer, replay=cassette) as wb:
        played = wb.ask("Send.").wait()
        assert (played.response, sent) == (run.response, [])
        assert wb.approvals_df(played)["instruction"].tolist() == ["It is only Ada.", "Not Bob."]


def test_plan_is_reviewed_in_its_flow(workbench: OpenWorkbench) -> None:
    """The reviewer of a plan sees the plan, and nothing of the flow's own prompts."""

    def turns(request: ModelRequest) -> Any:
        if is_review(request):
            return verdict("deny", "Too long.")
        return "Then not." if "Too long." in request.messages[-1].content else plan_call

    plan_call = call("plan_create", title="The plan", steps=[{"title": "Look"}, {"title": "Write"}])
    wb = workbench(turns, approvals=af.Reviewer(), graph_config={"approval": {"enabled": True}}, interactive=False)
    run = wb.ask("Research it.", flow="plan").wait()
    assert run.response == "Then not."
    assert wb.approvals_df(run)[["kind", "decided_by"]].values.tolist() == [["plan", "reviewer"]]
