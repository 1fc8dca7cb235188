"""Research for a document is a run of its own, whose report and sources become blocks."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import OpenWorkbench
from scripts import call, report, who_asks

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.offline import OfflineModel
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.project import Project
from artifactflow_nb.tools.base import ToolContext

WAIT_S = 30
REPORT = "X is a letter [1].\n\n1. The book"
FOUND = (report(REPORT), "X is a letter.")


def research(query: str = "What is X?", **more: Any) -> str:
    return call("run_research", query=query, **more)


def turns(*composer: Any, lead: Any = FOUND, writer: str = "Of X.") -> Any:
    """Who says what: the composer in one run, the lead in each research run, and every writer."""

    def said(request: ModelRequest) -> Any:
        who = who_asks(request)
        if who == "writer":
            return writer
        made = composer if who == "composer" else lead
        asked = max(n for n, message in enumerate(request.messages) if message.role == "user" and _is_asked(message))
        step = sum(message.role == "assistant" for message in request.messages[asked:])
        return made[min(step, len(made) - 1)]

    return said


def _is_asked(message: Any) -> bool:
    return "tool_result" not in message.content


def composing(workbench: OpenWorkbench, said: Any, **options: Any) -> tuple[af.Workbench, Project]:
    wb = workbench(said, interactive=False, **options)

    @wb.tool(permission="confirm", agent="lead_agent")
    async def look(ctx: ToolContext, word: str) -> str:
        """Look a word up."""
        return f"{word} stands in the book"

    return wb, wb.project("Essay", template="paper")


LOOKING = (call("look", word="X"), report(REPORT), "X is a letter.")


def flows(wb: af.Workbench) -> dict[str, Any]:
    """The runs, each flow's, as the frame has them."""
    return {row["flow"]: row for _, row in wb.runs_df().iterrows()}


def until(done: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- what comes of it ------------------------------------------------------------------------------------------------


def test_report_and_sources_become_blocks(workbench: OpenWorkbench) -> None:
    """The call is a run with its own id and calls; its report stands in the phase of research and rests on sources."""
    wb, project = composing(workbench, turns(research(), "It is a letter."))
    run = wb.ask("Find out what X is.", project=project).wait()
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


def test_the_sources_that_were_read_are_listed(workbench: OpenWorkbench) -> None:
    """Offline, with the language reference: the title and the address of each, and how much of it was read."""
    composer = ScriptedModel([research("What is a generator?"), "."])
    wb = workbench(model=OfflineModel(), interactive=False, agent_models={"composer": composer})
    project = wb.project("Essay")
    assert wb.ask("Find out.", project=project).wait(WAIT_S).status == "completed"
    listed = project["What is a generator?: sources"].content
    assert '- **Python language reference: The "yield" statement** — local:python-reference#yield' in listed
    assert "generator" in project["What is a generator?"].content.lower()


def test_a_report_goes_into_the_block_that_is_named(workbench: OpenWorkbench) -> None:
    """What rests on it is stale; researched once more, it keeps its sources block."""
    again = research("What is Y?", field_name="Facts")
    wb, project = composing(workbench, turns(research(field_name="Facts"), again, "Done."))
    project.add("Facts", phase="literature")
    project.add("Text", "Of old.", depends_on=["Facts"], phase="writing")
    assert wb.ask("Find out.", project=project).wait().status == "completed"
    assert [block.name for block in project.blocks] == ["Facts", "Facts: sources", "Text"]
    assert project["Facts"].content == REPORT
    assert project["Text"].is_stale
    assert len(wb.runs_df()) == 3


def test_what_it_is_for_is_told(workbench: OpenWorkbench) -> None:
    """The question stands first; consumer research is told for whom, and every research what the document is for."""
    wb, project = composing(workbench, turns(research(research_type="consumer"), "Done."))
    project.add("Aim", "Teach X to children.", phase="question")
    project.personas.add("Ada", "Seven years old.")
    wb.ask("Find out.", project=project).wait()
    question = flows(wb)["research"]["question"]
    assert question.startswith("What is X?\n\n<context>\n")
    assert all(words in question for words in ("Teach X to children.", "Seven years old.", 'project "Essay"'))


def test_a_failed_research_run_writes_nothing(workbench: OpenWorkbench) -> None:
    """The composer is told why, and goes on."""
    wb, project = composing(workbench, turns(research(), "It failed.", lead=("",)))
    run = wb.ask("Find out.", project=project).wait()
    assert run.response == "It failed."
    [row] = [row for _, row in wb.tool_calls_df().iterrows() if row["tool_name"] == "run_research"]
    assert not row["success"]
    assert "is failed" in row["error_message"]
    assert len(project.blocks) == 0


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"query": "What?", "field_name": "Gone"}, "There is no block 'Gone'"),
        ({"query": "What?", "field_name": "Part"}, "is a group"),
        ({"query": "  "}, "query"),
        ({"query": "What?", "research_type": "secret"}, "research_type"),
    ],
)
def test_what_cannot_be_researched_is_told(workbench: OpenWorkbench, params: dict[str, str], why: str) -> None:
    """No run is begun for it."""
    wb, project = composing(workbench, turns(call("run_research", **params), "I see."))
    project.add("Part", is_group=True)
    wb.ask("Find out.", project=project).wait()
    [row] = [row for _, row in wb.tool_calls_df().iterrows()]
    assert why in row["error_message"]
    assert list(wb.runs_df()["flow"]) == ["compose"]


# --- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        call("update_field", field_name="Facts", content="I think."),
        call("generate_field_content", field_name="Facts"),
        call("manage_architecture", action="move", block_name="Thought", phase="literature"),
    ],
)
def test_nothing_is_written_in_a_phase_of_research_without_a_research_run(workbench: OpenWorkbench, wrong: str) -> None:
    """An agent's text is refused there, also one that is moved there; the call that does it is named."""
    think = call("update_field", field_name="Thought", content="A thought.")
    wb, project = composing(workbench, turns(think, wrong, "I see."))
    project.add("Facts", phase="literature")
    project.add("Thought", phase="writing")
    wb.ask("Write.", project=project).wait()
    refused = wb.tool_calls_df().iloc[-1]
    assert "nothing was researched for it. Call run_research" in refused["error_message"]
    assert (project["Facts"].content, project["Thought"].phase) == ("", "writing")


def test_what_rests_on_research_may_be_written(workbench: OpenWorkbench) -> None:
    """By a writer, at second hand too; a report itself may be edited; a person writes what they like."""
    write = call("generate_field_content", field_name="Short")
    change = call("update_field", field_name="What is X?", content="X was a letter.")
    wb, project = composing(workbench, turns(research(), write, change, change.replace("was", "is"), "Done."))
    project.add("Own", "By hand.", phase="literature")
    wb.ask("Find out.", project=project).wait()
    project.add("Short", phase="literature", depends_on=["What is X?"])
    wb.ask("Find out.", project=project).wait()
    assert project["Short"].content == "Of X."
    assert project["Own"].content == "By hand."


def test_blocks_of_research_are_researched_in_their_turn(workbench: OpenWorkbench) -> None:
    """`generate()` has them researched and then writes what rests on them."""
    wb, project = composing(workbench, turns("."))
    project.add("Facts", phase="literature", auto_generate=True, prompt="What is X?")
    project.add("Text", depends_on=["Facts"], phase="writing", auto_generate=True)
    run = project.generate().wait()
    assert run.status == "completed"
    assert (project["Facts"].content, project["Text"].content) == (REPORT, "Of X.")
    assert not project["Text"].is_stale
    assert flows(wb)["research"]["question"].startswith("What is X?")


def test_research_waits_for_what_its_block_rests_on(workbench: OpenWorkbench) -> None:
    """What is written beside it in the same reply, it is told."""
    both = research("What is X?", field_name="Facts") + call("generate_field_content", field_name="Aim")
    wb, project = composing(workbench, turns(both, "Done."))
    project.add("Aim", phase="writing")
    project.add("Facts", phase="literature", depends_on=["Aim"])
    wb.ask("Find out.", project=project).wait(WAIT_S)
    assert project["Facts"].content == REPORT
    assert 'What the answer rests on:\n<block name="Aim">\nOf X.\n</block>' in flows(wb)["research"]["question"]


def test_research_for_blocks_that_rest_on_each_other(workbench: OpenWorkbench) -> None:
    """Asked for in the wrong order in one reply, each is researched after what it rests on, and a new one between."""
    calls = "".join(research(f"What is {name}?", field_name=name) for name in "CBA")
    wb, project = composing(workbench, turns(calls + research("What is N?"), "Done."))
    for name, needs in {"A": [], "B": ["A"], "C": ["B"]}.items():
        project.add(name, phase="literature", depends_on=needs)
    assert wb.ask("Find out.", project=project).wait(WAIT_S).status == "completed"
    questions = [row["question"] for _, row in wb.runs_df().iterrows() if row["flow"] == "research"]
    placed = [next(n for n, one in enumerate(questions) if one.startswith(f"What is {name}?")) for name in "ABC"]
    assert placed == sorted(placed)
    assert all(block.status == "completed" for block in project.blocks)


def test_research_for_a_block_that_rests_on_an_empty_one_is_refused(workbench: OpenWorkbench) -> None:
    """What is missing is named, and no run is begun."""
    wb, project = composing(workbench, turns(research(field_name="Facts"), "I see."))
    project.add("Aim", phase="writing")
    project.add("Facts", phase="literature", depends_on=["Aim"])
    wb.ask("Find out.", project=project).wait(WAIT_S)
    assert "'Facts' rests on what is not ready: 'Aim' (empty)" in wb.tool_calls_df().iloc[0]["error_message"]
    assert list(wb.runs_df()["flow"]) == ["compose"]


# --- the person -------------------------------------------------------------------------------------------------------


def test_the_run_waits_where_its_research_waits(workbench: OpenWorkbench) -> None:
    """The request is among its own; decided, both go on, and the answer is what came of it."""
    wb, project = composing(workbench, turns(research(), "Done.", lead=LOOKING))
    run = wb.ask("Find out.", project=project).wait(WAIT_S)
    [asked] = run.pending
    assert (run.status, asked.tool, asked.run_id) == ("waiting", "look", flows(wb)["research"]["run_id"])
    assert [one.id for one in wb.pending()] == [asked.id]
    run.approve().wait(WAIT_S)
    assert (run.status, run.response) == ("completed", "Done.")
    assert project["What is X?"].content == REPORT


def test_what_a_person_wrote_is_replaced_only_if_they_agree(workbench: OpenWorkbench) -> None:
    """Research into a block of theirs is put before them; what they write meanwhile stays."""

    class Meanwhile(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            if who_asks(request) == "lead":
                await asyncio.to_thread(project["Facts"].write, "By hand.")
            async for event in super().stream(request):
                yield event

    wb = workbench(model=Meanwhile(turns(research(field_name="Facts"), "Done.")), interactive=False)
    project = wb.project("Essay", template="paper")
    project.add("Facts", phase="literature")
    wb.ask("Find out.", project=project).wait(WAIT_S)
    assert project["Facts"].content == "By hand."
    assert "written by the person meanwhile" in wb.tool_calls_df().iloc[0]["error_message"]
    run = wb.ask("Once more.", project=project).wait(WAIT_S)
    assert [one.tool for one in run.pending] == ["run_research"]
    run.approve().wait(WAIT_S)
    assert project["Facts"].content == REPORT


def test_research_that_waits_twice(workbench: OpenWorkbench) -> None:
    """Each request is put before the person in its turn, and a denial is told to who asked."""
    lead = (call("look", word="X"), call("look", word="Y"), report(REPORT), "X is a letter.")
    wb, project = composing(workbench, turns(research(), "Done.", lead=lead))
    run = wb.ask("Find out.", project=project).wait(WAIT_S)
    run.deny("Not that.").wait(WAIT_S)
    assert (run.status, [one.params for one in run.pending]) == ("waiting", [{"word": "Y"}])
    assert run.approve().wait(WAIT_S).status == "completed"
    frame = wb.tool_calls_df()
    assert list(frame[frame["tool_name"] == "look"]["approval"]) == ["denied", "approved"]


def test_two_that_wait_are_decided_each_by_itself(workbench: OpenWorkbench) -> None:
    """Research at the same time: what is decided goes on while the other waits."""
    both = research("What is X?") + research("What is Y?")
    wb, project = composing(workbench, turns(both, "Done.", lead=LOOKING))
    run = wb.ask("Find out.", project=project).wait(WAIT_S)
    first, second = run.pending
    run.approve(second.id)
    until(lambda: (wb.runs_df()["status"] == "completed").sum() == 1)
    run.wait(WAIT_S)
    assert (run.status, [one.id for one in run.pending]) == ("waiting", [first.id])
    assert run.approve().wait(WAIT_S).status == "completed"
    assert sorted(block.name for block in project.blocks if "sources" not in block.name) == ["What is X?", "What is Y?"]


@pytest.mark.parametrize("scope", ["run", "conversation"])
@pytest.mark.parametrize("calls", [(research() + research("What is Y?"),), (research(), research("What is Y?"))])
def test_a_decision_for_the_run_holds_for_what_it_began(workbench: OpenWorkbench, scope: Any, calls: Any) -> None:
    """Research beside it, and later, asks about the same tool no more."""
    wb, project = composing(workbench, turns(*calls, "Done.", lead=LOOKING))
    run = wb.ask("Find out.", project=project).wait(WAIT_S)
    run.approve(run.pending[0].id, scope=scope).wait(WAIT_S)
    assert run.status == "completed"
    frame = wb.tool_calls_df()
    assert list(frame[frame["tool_name"] == "look"]["success"]) == [True, True]


def test_a_secret_in_a_question_names_no_block(workbench: OpenWorkbench) -> None:
    """A block's id is made of its name, and stands where a mask does not find the secret again."""
    wb, project = composing(workbench, turns(research("What is sk-ant-api03-abcdefghijklmnopqrstuvwxyz?"), "Done."))
    wb.ask("Find out.", project=project).wait(WAIT_S)
    assert not any("abcdefghijklm" in block.block_id for block in project.blocks)


def test_a_decision_on_the_thread_of_the_run(workbench: OpenWorkbench) -> None:
    """Decisions that are given with a resume may be on requests of what it began."""
    wb, project = composing(workbench, turns(research(), "Done.", lead=LOOKING))
    run = wb.ask("Find out.", project=project).wait(WAIT_S)
    controller = wb._thread.engine.controller
    result = wb._thread.call(controller.resume(run.thread_id, decisions={run.pending[0].id: True}))
    assert (result.status, result.response) == ("completed", "Done.")


def test_what_a_run_began_ends_with_it(workbench: OpenWorkbench) -> None:
    """Cancelled while it waits, nothing of it is left to be decided."""
    wb, project = composing(workbench, turns(research(), "Done.", lead=LOOKING))
    run = wb.ask("Find out.", project=project).wait(WAIT_S)
    run.cancel()
    assert list(wb.runs_df()["status"]) == ["cancelled", "cancelled"]
    assert not wb.pending()


@pytest.mark.parametrize("which", ["compose", "research"])
def test_a_run_that_waits_for_another_is_not_deleted_without_it(workbench: OpenWorkbench, which: str) -> None:
    """Neither of the two; once the run that began the other is cancelled, both can go."""
    wb, project = composing(workbench, turns(research(), "Done.", lead=LOOKING))
    run = wb.ask("Find out.", project=project).wait()
    begun = flows(wb)["research"]["run_id"]
    conversation = flows(wb)[which]["conversation_id"]
    with pytest.raises(
        af.Conflict, match=f"The run '{begun}' works for the run '{run.run_id}', which is not over; can"
    ):
        wb.delete_conversation(conversation)
    assert run.approve().wait().status == "completed"
    wb.delete_conversation(conversation)
    assert which not in flows(wb)


def test_research_that_is_cancelled_by_itself_is_told(workbench: OpenWorkbench) -> None:
    """The run that had asked for it goes on and is told so."""
    wb, project = composing(workbench, turns(research(), "Then not.", lead=LOOKING))
    run = wb.ask("Find out.", project=project).wait(WAIT_S)
    wb.run(flows(wb)["research"]["run_id"]).cancel()
    until(lambda: run.status == "completed")
    assert run.response == "Then not."
    [row] = [row for _, row in wb.tool_calls_df().iterrows() if row["tool_name"] == "run_research"]
    assert "is cancelled" in row["error_message"]


async def test_cancelled_at_work_both_are(workbench: OpenWorkbench) -> None:
    """Also while the research asks a model."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            if who_asks(request) == "lead":
                loop.call_soon_threadsafe(asked.set)
                await asyncio.sleep(WAIT_S)
            async for event in super().stream(request):
                yield event

    wb = workbench(model=Slow(turns(research(), "Done.")), interactive=False)
    run = wb.ask("Find out.", project=wb.project("Essay", template="paper"))
    await asyncio.wait_for(asked.wait(), WAIT_S)
    await asyncio.to_thread(run.cancel)
    assert list(wb.runs_df()["status"]) == ["cancelled", "cancelled"]


def test_another_workbench_decides_and_goes_on(workbench: OpenWorkbench) -> None:
    """What waits when a workbench is closed is decided in the next, where both runs go on."""
    wb, project = composing(workbench, turns(research(), "Done.", lead=LOOKING))
    run = wb.ask("Find out.", project=project).wait(WAIT_S)
    wb.close()
    wb, project = composing(workbench, turns(research(), "Done.", lead=LOOKING))
    again = wb.run(run.run_id)
    assert again.status == "waiting"
    again.approve().wait(WAIT_S)
    assert (again.status, project["What is X?"].content) == ("completed", REPORT)
    assert len(wb.runs_df()) == 2


def test_a_call_beside_research_of_a_tool_that_the_composer_has_not(workbench: OpenWorkbench) -> None:
    """Nobody waits for what will not be carried out: the call is refused, and what was found is kept."""
    reply = research() + call("generate_field_content", field_name="Facts")
    config = {"composer": {"tools": ["run_research", "read_field"]}}
    wb, project = composing(workbench, turns(reply, "Done."), graph_config=config)
    project.add("Facts", prompt="What is X?")
    assert wb.ask("Find out.", project=project).wait(WAIT_S).status == "completed"
    assert project["What is X?"].content == REPORT
    assert project["Facts"].status == "empty"


@pytest.mark.parametrize("when_spent", ["stop", "ask"])
def test_research_counts_for_the_budget_of_the_run(workbench: OpenWorkbench, when_spent: Any) -> None:
    """What was found stays; before its next call the run stops, or asks, as if it had spent that itself."""
    wb, project = composing(workbench, turns(research(), "Done."))
    wb.ask("Find out.", project=project).wait(WAIT_S)
    calls = wb.llm_calls_df()
    calls["tokens"] = calls["input_tokens"] + calls["output_tokens"]
    first, other = (
        calls["tokens"][calls["agent_name"] == "composer"].iloc[0],
        calls["tokens"][calls["agent_name"] != "composer"],
    )
    project = wb.project("Another", template="paper")
    budget = {"tokens": int(first + other.sum()) - 50, "when_spent": when_spent}
    run = wb.ask("Find out.", project=project, budget=budget).wait(WAIT_S)
    assert flows(wb)["research"]["status"] == "completed"
    assert project["What is X?"].content == REPORT
    if when_spent == "stop":
        assert run.status == "failed"
        assert f"of {budget['tokens']:,} tokens spent" in str(run.error)
    else:
        assert run.pending[0].kind == "budget"
        assert run.approve().wait(WAIT_S).status == "completed"


def test_research_may_spend_what_is_left_of_the_budget(workbench: OpenWorkbench) -> None:
    """Of what there was when the composer asked for it, which each that it asks for in one reply may spend."""
    asked = research("What is X?") + research("What is Y?")
    price = {"scripted": {"input": 1, "output": 3}}
    wb, project = composing(workbench, turns(asked, research("What is Z?"), "Done."), prices=price)
    run = wb.ask("Find out.", project=project, budget={"tokens": 70_000, "usd": 1, "seconds": 600}).wait(WAIT_S)
    assert run.status == "completed"
    runs = wb.runs_df()[lambda frame: frame["flow"] == "research"]
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
def test_no_research_begins_when_nothing_is_left(workbench: OpenWorkbench, when_spent: Any) -> None:
    """The composer is told; before its next call the run stops, or asks."""
    wb, project = composing(workbench, turns(research(), "Done."))
    run = wb.ask("Find out.", project=project, budget={"tokens": 10, "when_spent": when_spent}).wait(WAIT_S)
    assert list(wb.runs_df()["flow"]) == ["compose"]
    [refused] = wb.tool_calls_df()["error_message"]
    assert refused.startswith("The budget is spent, ")
    assert " of 10 tokens: nothing was begun for this call." in refused
    assert run.status == ("failed" if when_spent == "stop" else "waiting")


def test_research_after_an_extension_asks_again(workbench: OpenWorkbench) -> None:
    """What was approved since is part of what is left; where that is spent, the research asks, as its run would."""
    wb, project = composing(workbench, turns(research(), research(), "Done."))
    run = wb.ask("Find out.", project=project, budget={"tokens": 10, "when_spent": "ask"}).wait(WAIT_S)
    run.approve(run.pending[0].id, params={"tokens": 8000}).wait(WAIT_S)
    calls = wb.llm_calls_df()[lambda frame: frame["run_id"] == run.run_id]
    [other] = wb.runs_df()[lambda frame: frame["flow"] == "research"]["run_id"]
    budget = wb._thread.call(wb._thread.engine.runs.get(other)).settings["budget"]
    first_two = (calls["input_tokens"] + calls["output_tokens"]).iloc[:2].sum()
    assert budget == {"tokens": 8000 - first_two, "when_spent": "ask"}


class TwoNames(ScriptedModel):
    """An endpoint that serves one model under two names."""

    async def list_models(self) -> list[str]:
        return ["scripted", "another"]


def test_the_model_is_that_of_the_run(workbench: OpenWorkbench) -> None:
    """What was chosen for the run that asks holds for what it begins."""
    wb = workbench(model=TwoNames(turns(research(), "Done.")), interactive=False)
    wb.ask("Find out.", project=wb.project("Essay"), model="another").wait(WAIT_S)
    calls = wb.llm_calls_df()
    assert set(zip(calls["agent_name"], calls["request_model"], strict=True)) == {
        ("composer", "another"),
        ("lead_agent", "another"),
    }
