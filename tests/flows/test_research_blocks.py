"""The blocks that come of a research run in the compose flow, and what its call is told."""

import pytest
from conftest import OpenWorkbench
from flows.test_compose import Held
from scripts import by_agent, call, report

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.project import Project

LEAD = [report("X is a letter [1].\n\n1. The book"), "X is a letter."]


def asked(
    workbench: OpenWorkbench, *calls: str, lead: ScriptedModel | None = None, **more: object
) -> tuple[af.Workbench, Project, ScriptedModel]:
    """A workbench whose composer makes these calls, one after the other, and the project that it is asked about."""
    composer = ScriptedModel(by_agent(composer=[*calls, "Done."]))
    models = {"composer": composer, "lead_agent": lead or ScriptedModel(LEAD), **more}
    wb = workbench(agent_models=models, interactive=False, approvals="approve")
    return wb, wb.project("Essay", template="paper"), composer


def told(composer: ScriptedModel) -> str:
    """The results that the composer saw last."""
    return composer.requests[-1].messages[-1].content


@pytest.mark.parametrize("field", ["", "Facts"])
def test_the_call_is_told_which_block_holds_the_report(workbench: OpenWorkbench, field: str) -> None:
    """A new one or the one that was named, not that of the sources; and what it says."""
    wb, project, composer = asked(workbench, call("run_research", query="What is X?", field_name=field))
    project.add("Facts", phase="literature")
    assert wb.ask("Go.", project=project).wait().status == "completed"
    assert f"The report is the block '{field or 'What is X?'}'" in told(composer)
    assert "X is a letter [1]." in told(composer)


def test_a_block_that_is_removed_meanwhile_loses_nothing(workbench: OpenWorkbench) -> None:
    """The call fails with what was found, and the run goes on."""
    lead = Held(LEAD)
    wb, project, composer = asked(workbench, call("run_research", query="What is X?", field_name="Facts"), lead=lead)
    project.add("Facts", phase="literature")
    run = wb.ask("Go.", project=project)
    assert lead.asked.wait(20)
    project["Facts"].delete()
    lead.goes_on.set()
    assert run.wait(30).status == "completed"
    assert "There is no block 'Facts'. There are: none yet. What was found:" in told(composer)
    assert "X is a letter [1]." in told(composer)
    assert not project.blocks


def test_what_rests_on_a_report_is_stale_when_it_is_researched_anew(workbench: OpenWorkbench) -> None:
    """The report and its sources are one block each, before and after."""
    ask = call("run_research", query="What is X?", field_name="Facts")
    lead = ScriptedModel([*LEAD, report("X is the 24th letter."), "The 24th."])
    wb, project, _ = asked(workbench, ask, ask, lead=lead)
    project.add("Facts", phase="literature")
    project.add("Text", "X.", phase="writing", depends_on=["Facts"])
    wb.ask("Go.", project=project).wait()
    assert [block.name for block in project.blocks] == ["Facts", "Facts: sources", "Text"]
    assert project["Facts"].content == "X is the 24th letter."
    assert [block.name for block in project.stale] == ["Text"]


def test_an_agent_writes_nothing_of_its_own_into_research(workbench: OpenWorkbench) -> None:
    """It is told to research, in whatever way it tries; what rests on a report it may write."""
    wb, project, composer = asked(
        workbench,
        call("update_field", field_name="Facts", content="I know."),
        call("run_research", query="What is X?", field_name="Facts"),
        call("update_field", field_name="Facts", content="X is a letter, the book says."),
    )
    project.add("Facts", phase="literature")
    wb.ask("Go.", project=project).wait()
    results = wb.tool_calls_df().query("agent_name == 'composer'")["success"].map(bool).tolist()
    assert results == [False, True, True]
    assert 'Call run_research with field_name="Facts"' in composer.requests[1].messages[-1].content
    assert project["Facts"].content == "X is a letter, the book says."
