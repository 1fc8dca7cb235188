"""Research for a document is a run of its own, whose report and sources become blocks."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import OpenWorkbench
from support.replies import call, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.tools.base import ToolContext

WAIT_S = 30
REPORT = "X is a letter [1].\n\n1. The book"
FOUND = (report(REPORT), "X is a letter.")


def research(query: str = "What is X?", **more: Any) -> str:
    return call("run_research", query=query, **more)


def turns(*composer: Any, lead: Any = FOUND, writer: str = "Of X.") -> Any:
    """The replies of the composer in one run, of the lead in each research run, and of every writer."""

    def reply(request: ModelRequest) -> Any:
        agent = requesting_agent(request)
        if agent == "writer":
            return writer
        replies = composer if agent == "composer" else lead
        last_question = max(
            n for n, message in enumerate(request.messages) if message.role == "user" and _is_question(message)
        )
        step = sum(message.role == "assistant" for message in request.messages[last_question:])
        return replies[min(step, len(replies) - 1)]

    return reply


def _is_question(message: Any) -> bool:
    return "tool_result" not in message.content


def open_project(workbench: OpenWorkbench, model: Any, **options: Any) -> tuple[af.Workbench, Project]:
    wb = workbench(model, interactive=False, **options)

    @wb.tool(permission="confirm", agent="lead_agent")
    async def look(ctx: ToolContext, word: str) -> str:
        """Look a word up."""
        return f"{word} stands in the book"

    return wb, wb.projects.start("Essay", template="paper")


LOOKING = (call("look", word="X"), report(REPORT), "X is a letter.")


def flows(wb: af.Workbench) -> dict[str, Any]:
    """The flow of each run, from the frame."""
    return {row["flow"]: row for _, row in wb.runs_df(columns="all").iterrows()}


def until(done: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- what comes of it ------------------------------------------------------------------------------------------------


def test_report_and_sources_become_blocks(workbench: OpenWorkbench) -> None:
    """The call is a run with its own id and calls; the report is in the research phase and depends on its sources."""
    wb, project = open_project(workbench, turns(research(), "It is a letter."))
    run = project.ask("Find out what X is.").wait()
    assert (run.status, run.response) == ("completed", "It is a letter.")
    other = flows(wb)["research"]
    assert (other["parent_run_id"], other["status"]) == (run.run_id, "completed")
    assert set(wb.llm_calls_df().groupby("run_id").size().to_dict().items()) == {(run.run_id, 2), (other["run_id"], 2)}
    block = project["What is X?"]
    assert (block.content, block.phase, block.status, block.created_by) == (
        REPORT,
        "literature",
        "completed",
        "research",
    )
    assert block.depends_on == ("what_is_x_sources",)
    assert project["What is X?: sources"].content == "No source was read."
    assert not block.is_stale


def test_sources_block_lists_the_documents_read(workbench: OpenWorkbench) -> None:
    """The block has title and address of each document, and how much of the document was read."""
    composer = ScriptedModel([research("What is a generator?"), "."])
    wb = workbench(model=OfflineModel(), interactive=False, agent_models={"composer": composer})
    project = wb.projects.start("Essay")
    assert project.ask("Find out.").wait(WAIT_S).status == "completed"
    listed = project["What is a generator?: sources"].content
    assert '- **Python language reference: The "yield" statement** — local:python-reference#yield' in listed
    assert "generator" in project["What is a generator?"].content.lower()


def test_report_goes_into_the_named_block(workbench: OpenWorkbench) -> None:
    """The dependents of the block become stale; repeated research reuses the sources block."""
    repeated = research("What is Y?", field_name="Facts")
    wb, project = open_project(workbench, turns(research(field_name="Facts"), repeated, "Done."))
    project.add("Facts", phase="literature")
    project.add("Text", "Of old.", depends_on=["Facts"], phase="writing")
    assert project.ask("Find out.").wait().status == "completed"
    assert [block.name for block in project.blocks] == ["Facts", "Facts: sources", "Text"]
    assert project["Facts"].content == REPORT
    assert project["Text"].is_stale
    assert len(wb.runs_df()) == 3


def test_research_question_has_its_context(workbench: OpenWorkbench) -> None:
    """The question comes first; consumer research gets the personas, all research gets the document's purpose."""
    wb, project = open_project(workbench, turns(research(research_type="consumer"), "Done."))
    project.add("Aim", "Teach X to children.", phase="question")
    project.personas.add("Ada", "Seven years old.")
    project.ask("Find out.").wait()
    question = flows(wb)["research"]["question"]
    assert question.startswith("What is X?\n\n<context>\n")
    assert all(words in question for words in ("Teach X to children.", "Seven years old.", 'project "Essay"'))


def test_failed_research_run_writes_nothing(workbench: OpenWorkbench) -> None:
    """The composer gets the reason and continues."""
    wb, project = open_project(workbench, turns(research(), "It failed.", lead=("",)))
    run = project.ask("Find out.").wait()
    assert run.response == "It failed."
    [row] = [row for _, row in wb.tool_calls_df().iterrows() if row["tool_name"] == "run_research"]
    assert not row["success"]
    assert "is failed" in row["error_message"]
    assert len(project.blocks) == 0


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"query": "What?", "field_name": "Gone"}, "There is no block 'Gone'"),
        ({"query": "What?", "field_name": "Part"}, "is a group"),
        ({"query": "  "}, "query"),
        ({"query": "What?", "research_type": "secret"}, "research_type"),
    ],
)
def test_invalid_research_call_is_reported(workbench: OpenWorkbench, params: dict[str, str], reason: str) -> None:
    """No run starts."""
    wb, project = open_project(workbench, turns(call("run_research", **params), "I see."))
    project.add("Part", is_group=True)
    project.ask("Find out.").wait()
    [row] = [row for _, row in wb.tool_calls_df().iterrows()]
    assert reason in row["error_message"]
    assert list(wb.runs_df(columns="flow")["flow"]) == ["compose"]


# --- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "invalid",
    [
        call("update_field", field_name="Facts", content="I think."),
        call("generate_field_content", field_name="Facts"),
        call("manage_architecture", action="move", block_name="Thought", phase="literature"),
    ],
)
def test_research_phase_rejects_ungrounded_texts(workbench: OpenWorkbench, invalid: str) -> None:
    """An agent can neither write nor move an ungrounded text into the phase; the error names the tool to use."""
    think = call("update_field", field_name="Thought", content="A thought.")
    wb, project = open_project(workbench, turns(think, invalid, "I see."))
    project.add("Facts", phase="literature")
    project.add("Thought", phase="writing")
    project.ask("Write.").wait()
    refused = wb.tool_calls_df().iloc[-1]
    assert "it is not based on research. Call run_research" in refused["error_message"]
    assert (project["Facts"].content, project["Thought"].phase) == ("", "writing")


def test_text_based_on_research_may_be_written(workbench: OpenWorkbench) -> None:
    """An indirect dependent may be written too; a report may be edited, and a person may write anything."""
    write = call("generate_field_content", field_name="Short")
    change = call("update_field", field_name="What is X?", content="X was a letter.")
    _wb, project = open_project(workbench, turns(research(), write, change, change.replace("was", "is"), "Done."))
    project.add("Own", "By hand.", phase="literature")
    project.ask("Find out.").wait()
    project.add("Short", phase="literature", depends_on=["What is X?"])
    project.ask("Find out.").wait()
    assert project["Short"].content == "Of X."
    assert project["Own"].content == "By hand."


def test_generate_researches_blocks_of_research_phases(workbench: OpenWorkbench) -> None:
    """`generate()` starts research for blocks of research phases, and then writes the dependents."""
    wb, project = open_project(workbench, turns("."))
    project.add("Facts", phase="literature", auto_generate=True, prompt="What is X?")
    project.add("Text", depends_on=["Facts"], phase="writing", auto_generate=True)
    run = project.generate().wait()
    assert run.status == "completed"
    assert (project["Facts"].content, project["Text"].content) == (REPORT, "Of X.")
    assert not project["Text"].is_stale
    assert flows(wb)["research"]["question"].startswith("What is X?")


def test_research_waits_for_dependencies_of_its_block(workbench: OpenWorkbench) -> None:
    """A dependency that is written in the same reply is part of the question."""
    both = research("What is X?", field_name="Facts") + call("generate_field_content", field_name="Aim")
    wb, project = open_project(workbench, turns(both, "Done."))
    project.add("Aim", phase="writing")
    project.add("Facts", phase="literature", depends_on=["Aim"])
    project.ask("Find out.").wait(WAIT_S)
    assert project["Facts"].content == REPORT
    assert 'The answer is based on:\n<block name="Aim">\nOf X.\n</block>' in flows(wb)["research"]["question"]


def test_parallel_research_follows_dependency_order(workbench: OpenWorkbench) -> None:
    """Calls in the wrong order are executed in the order of dependencies, with a new block between."""
    calls = "".join(research(f"What is {name}?", field_name=name) for name in "CBA")
    wb, project = open_project(workbench, turns(calls + research("What is N?"), "Done."))
    for name, needs in {"A": [], "B": ["A"], "C": ["B"]}.items():
        project.add(name, phase="literature", depends_on=needs)
    assert project.ask("Find out.").wait(WAIT_S).status == "completed"
    questions = [row["question"] for _, row in wb.runs_df(columns="all").iterrows() if row["flow"] == "research"]
    placed = [
        next(n for n, question in enumerate(questions) if question.startswith(f"What is {name}?")) for name in "ABC"
    ]
    assert placed == sorted(placed)
    assert all(block.status == "completed" for block in project.blocks)


def test_research_for_a_block_with_empty_dependency_is_rejected(workbench: OpenWorkbench) -> None:
    """The error names the dependency, and no run starts."""
    wb, project = open_project(workbench, turns(research(field_name="Facts"), "I see."))
    project.add("Aim", phase="writing")
    project.add("Facts", phase="literature", depends_on=["Aim"])
    project.ask("Find out.").wait(WAIT_S)
    assert "'Facts' depends on blocks that are not ready: 'Aim' (empty)" in wb.tool_calls_df().iloc[0]["error_message"]
    assert list(wb.runs_df(columns="flow")["flow"]) == ["compose"]


# --- the person -------------------------------------------------------------------------------------------------------


def test_run_waits_while_its_research_waits(workbench: OpenWorkbench) -> None:
    """The run lists the request of its research; after the decision both runs continue."""
    wb, project = open_project(workbench, turns(research(), "Done.", lead=LOOKING))
    run = project.ask("Find out.").wait(WAIT_S)
    [request] = run.pending
    assert (run.status, request.tool, request.run_id) == ("waiting", "look", flows(wb)["research"]["run_id"])
    assert [entry.id for entry in wb.pending()] == [request.id]
    run.approve().wait(WAIT_S)
    assert (run.status, run.response) == ("completed", "Done.")
    assert project["What is X?"].content == REPORT


def test_research_into_a_persons_text_needs_approval(workbench: OpenWorkbench) -> None:
    """A text that the person writes during the research is not overwritten."""

    class Meanwhile(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            if requesting_agent(request) == "lead":
                await asyncio.to_thread(project["Facts"].write, "By hand.")
            async for event in super().stream(request):
                yield event

    wb = workbench(model=Meanwhile(turns(research(field_name="Facts"), "Done.")), interactive=False)
    project = wb.projects.start("Essay", template="paper")
    project.add("Facts", phase="literature")
    project.ask("Find out.").wait(WAIT_S)
    assert project["Facts"].content == "By hand."
    assert "The person wrote" in wb.tool_calls_df().iloc[0]["error_message"]
    run = project.ask("Once more.").wait(WAIT_S)
    assert [entry.tool for entry in run.pending] == ["run_research"]
    run.approve().wait(WAIT_S)
    assert project["Facts"].content == REPORT


def test_research_may_wait_twice(workbench: OpenWorkbench) -> None:
    """The requests are displayed one after the other, and a denial reaches the agent that made the call."""
    lead = (call("look", word="X"), call("look", word="Y"), report(REPORT), "X is a letter.")
    wb, project = open_project(workbench, turns(research(), "Done.", lead=lead))
    run = project.ask("Find out.").wait(WAIT_S)
    run.deny("Not that.").wait(WAIT_S)
    assert (run.status, [request.params for request in run.pending]) == ("waiting", [{"word": "Y"}])
    assert run.approve().wait(WAIT_S).status == "completed"
    frame = wb.tool_calls_df()
    assert list(frame[frame["tool_name"] == "look"]["approval"]) == ["denied", "approved"]


def test_parallel_research_is_decided_separately(workbench: OpenWorkbench) -> None:
    """One research run continues after its decision while the other research run waits."""
    both = research("What is X?") + research("What is Y?")
    wb, project = open_project(workbench, turns(both, "Done.", lead=LOOKING))
    run = project.ask("Find out.").wait(WAIT_S)
    first, second = run.pending
    run.approve(second.id)
    until(lambda: (wb.runs_df()["status"] == "completed").sum() == 1)
    run.wait(WAIT_S)
    assert (run.status, [request.id for request in run.pending]) == ("waiting", [first.id])
    assert run.approve().wait(WAIT_S).status == "completed"
    assert sorted(block.name for block in project.blocks if "sources" not in block.name) == ["What is X?", "What is Y?"]


@pytest.mark.parametrize("scope", ["run", "conversation"])
@pytest.mark.parametrize("calls", [(research() + research("What is Y?"),), (research(), research("What is Y?"))])
def test_decision_for_the_run_covers_its_research(workbench: OpenWorkbench, scope: Any, calls: Any) -> None:
    """Parallel and later research does not ask about the same tool again."""
    wb, project = open_project(workbench, turns(*calls, "Done.", lead=LOOKING))
    run = project.ask("Find out.").wait(WAIT_S)
    run.approve(run.pending[0].id, scope=scope).wait(WAIT_S)
    assert run.status == "completed"
    frame = wb.tool_calls_df()
    assert list(frame[frame["tool_name"] == "look"]["success"]) == [True, True]


def test_secret_in_a_question_is_not_in_the_block_id(workbench: OpenWorkbench) -> None:
    """A block's id is derived from its name, and ids are never redacted."""
    _wb, project = open_project(workbench, turns(research("What is sk-ant-api03-abcdefghijklmnopqrstuvwxyz?"), "Done."))
    project.ask("Find out.").wait(WAIT_S)
    assert not any("abcdefghijklm" in block.block_id for block in project.blocks)


def test_resume_decides_requests_of_research(workbench: OpenWorkbench) -> None:
    """The decisions of a resume may concern requests of the research run."""
    wb, project = open_project(workbench, turns(research(), "Done.", lead=LOOKING))
    run = project.ask("Find out.").wait(WAIT_S)
    controller = wb._thread.engine.controller
    result = wb._thread.call(controller.resume(run.thread_id, decisions={run.pending[0].id: True}))
    assert (result.status, result.response) == ("completed", "Done.")


def test_cancelling_a_run_cancels_its_research(workbench: OpenWorkbench) -> None:
    """No request of the research stays undecided."""
    wb, project = open_project(workbench, turns(research(), "Done.", lead=LOOKING))
    run = project.ask("Find out.").wait(WAIT_S)
    run.cancel()
    assert list(wb.runs_df()["status"]) == ["cancelled", "cancelled"]
    assert not wb.pending()


@pytest.mark.parametrize("choice", ["compose", "research"])
def test_run_and_its_research_are_not_deleted_while_unfinished(workbench: OpenWorkbench, choice: str) -> None:
    """After the parent run is cancelled, both can be deleted."""
    wb, project = open_project(workbench, turns(research(), "Done.", lead=LOOKING))
    run = project.ask("Find out.").wait()
    research_id = flows(wb)["research"]["run_id"]
    conversation = flows(wb)[choice]["conversation_id"]
    with pytest.raises(
        af.errors.Conflict, match=f"The run '{research_id}' is a subrun of '{run.run_id}', which has not ended. Can"
    ):
        wb.conversation(conversation).delete()
    assert run.approve().wait().status == "completed"
    wb.conversation(conversation).delete()
    assert choice not in flows(wb)


def test_cancelled_research_is_reported_to_the_parent(workbench: OpenWorkbench) -> None:
    """The parent run continues with a failed call."""
    wb, project = open_project(workbench, turns(research(), "Then not.", lead=LOOKING))
    run = project.ask("Find out.").wait(WAIT_S)
    wb.run(flows(wb)["research"]["run_id"]).cancel()
    until(lambda: run.status == "completed")
    assert run.response == "Then not."
    [row] = [row for _, row in wb.tool_calls_df().iterrows() if row["tool_name"] == "run_research"]
    assert "is cancelled" in row["error_message"]


async def test_cancelling_during_a_model_call_of_research(workbench: OpenWorkbench) -> None:
    """Both runs are cancelled."""
    requested = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            if requesting_agent(request) == "lead":
                loop.call_soon_threadsafe(requested.set)
                await asyncio.sleep(WAIT_S)
            async for event in super().stream(request):
                yield event

    wb = workbench(model=Slow(turns(research(), "Done.")), interactive=False)
    run = wb.projects.start("Essay", template="paper").ask("Find out.")
    await asyncio.wait_for(requested.wait(), WAIT_S)
    await asyncio.to_thread(run.cancel)
    assert list(wb.runs_df()["status"]) == ["cancelled", "cancelled"]


def test_waiting_research_continues_in_another_workbench(workbench: OpenWorkbench) -> None:
    """Requests of a closed workbench are decided in the next workbench, where both runs continue."""
    wb, project = open_project(workbench, turns(research(), "Done.", lead=LOOKING))
    run = project.ask("Find out.").wait(WAIT_S)
    wb.close()
    wb, project = open_project(workbench, turns(research(), "Done.", lead=LOOKING))
    reopened = wb.run(run.run_id)
    assert reopened.status == "waiting"
    reopened.approve().wait(WAIT_S)
    assert (reopened.status, project["What is X?"].content) == ("completed", REPORT)
    assert len(wb.runs_df()) == 2


def test_research_ignores_parallel_calls_of_unknown_tools(workbench: OpenWorkbench) -> None:
    """The research does not wait for the unknown tool's call, which is never executed; the report is stored."""
    reply = research() + call("generate_field_content", field_name="Facts")
    config = {"composer": {"tools": ["run_research", "read_field"]}}
    _wb, project = open_project(workbench, turns(reply, "Done."), graph_config=config)
    project.add("Facts", prompt="What is X?")
    assert project.ask("Find out.").wait(WAIT_S).status == "completed"
    assert project["What is X?"].content == REPORT
    assert project["Facts"].status == "empty"


@pytest.mark.parametrize("when_spent", ["stop", "ask"])
def test_research_counts_towards_the_budget_of_the_run(workbench: OpenWorkbench, when_spent: Any) -> None:
    """The report stays; before its next call the run stops, or asks."""
    wb, project = open_project(workbench, turns(research(), "Done."))
    project.ask("Find out.").wait(WAIT_S)
    calls = wb.llm_calls_df()
    calls["tokens"] = calls["input_tokens"] + calls["output_tokens"]
    first, other = (
        calls["tokens"][calls["agent_name"] == "composer"].iloc[0],
        calls["tokens"][calls["agent_name"] != "composer"],
    )
    project = wb.projects.start("Another", template="paper")
    budget = {"tokens": int(first + other.sum()) - 50, "when_spent": when_spent}
    run = project.ask("Find out.", budget=budget).wait(WAIT_S)
    assert flows(wb)["research"]["status"] == "completed"
    assert project["What is X?"].content == REPORT
    if when_spent == "stop":
        assert run.status == "failed"
        assert f"of {budget['tokens']:,} tokens spent" in str(run.error)
    else:
        assert run.pending[0].kind == "budget"
        assert run.approve().wait(WAIT_S).status == "completed"


def test_research_gets_the_remaining_budget(workbench: OpenWorkbench) -> None:
    """Each parallel research call gets the budget that remained when the composer made the calls."""
    both = research("What is X?") + research("What is Y?")
    price = {"scripted": {"input": 1, "output": 3}}
    wb, project = open_project(workbench, turns(both, research("What is Z?"), "Done."), prices=price)
    run = project.ask("Find out.", budget={"tokens": 70_000, "usd": 1, "seconds": 600}).wait(WAIT_S)
    assert run.status == "completed"
    runs = wb.runs_df(columns="all")[lambda frame: frame["flow"] == "research"]
    budgets = {
        run_id: wb._thread.call(wb._thread.engine.runs.get(run_id)).settings["budget"] for run_id in runs["run_id"]
    }
    last = runs[runs["question"].str.startswith("What is Z?")]["run_id"].item()
    after = budgets.pop(last)
    [before, same] = budgets.values()
    assert before == same
    calls = wb.llm_calls_df()
    tokens = calls["input_tokens"] + calls["output_tokens"]
    first, second = tokens[calls["run_id"] == run.run_id].iloc[:2]
    assert before["tokens"] == 70_000 - first
    assert after["tokens"] == before["tokens"] - tokens[calls["run_id"].isin(list(budgets))].sum() - second
    assert 0 < after["usd"] < before["usd"] < 1
    assert 0 < after["seconds"] < before["seconds"] < 600


@pytest.mark.parametrize("when_spent", ["stop", "ask"])
def test_no_research_starts_without_remaining_budget(workbench: OpenWorkbench, when_spent: Any) -> None:
    """The composer gets an error; before its next call the run stops, or asks."""
    wb, project = open_project(workbench, turns(research(), "Done."))
    run = project.ask("Find out.", budget={"tokens": 10, "when_spent": when_spent}).wait(WAIT_S)
    assert list(wb.runs_df(columns="flow")["flow"]) == ["compose"]
    [refused] = wb.tool_calls_df()["error_message"]
    assert refused.startswith("The budget is used up (")
    assert " of 10 tokens): nothing was started for this call." in refused
    assert run.status == ("failed" if when_spent == "stop" else "waiting")


def test_research_after_a_budget_extension_asks_again(workbench: OpenWorkbench) -> None:
    """The extension is part of the remaining budget; when the budget is used up, the research asks as well."""
    wb, project = open_project(workbench, turns(research(), research(), "Done."))
    run = project.ask("Find out.", budget={"tokens": 10, "when_spent": "ask"}).wait(WAIT_S)
    run.approve(run.pending[0].id, params={"tokens": 8000}).wait(WAIT_S)
    calls = wb.llm_calls_df()[lambda frame: frame["run_id"] == run.run_id]
    [other] = wb.runs_df(columns="all")[lambda frame: frame["flow"] == "research"]["run_id"]
    budget = wb._thread.call(wb._thread.engine.runs.get(other)).settings["budget"]
    first_two = (calls["input_tokens"] + calls["output_tokens"]).iloc[:2].sum()
    assert budget == {"tokens": 8000 - first_two, "when_spent": "ask"}


class TwoNames(ScriptedModel):
    """An endpoint that serves one model under two names."""

    async def list_models(self) -> list[str]:
        return ["scripted", "another"]


def test_research_uses_the_model_of_the_run(workbench: OpenWorkbench) -> None:
    """The model chosen for a run is used by its research."""
    wb = workbench(model=TwoNames(turns(research(), "Done.")), interactive=False)
    wb.projects.start("Essay").ask("Find out.", model="another").wait(WAIT_S)
    calls = wb.llm_calls_df()
    assert set(zip(calls["agent_name"], calls["request_model"], strict=True)) == {
        ("composer", "another"),
        ("lead_agent", "another"),
    }
