"""The blocks of a research run in the compose flow, and the result of its call."""

import pytest
from conftest import OpenWorkbench
from flows.test_compose import BlockedModel
from support.replies import by_agent, call, report

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.handle import Project

LEAD = [report("X is a letter [1].\n\n1. The book"), "X is a letter."]


def open_project(
    workbench: OpenWorkbench, *calls: str, lead: ScriptedModel | None = None, **more: object
) -> tuple[af.Workbench, Project, ScriptedModel]:
    """Open a workbench whose composer makes these calls in turn; return it, its project and the composer."""
    composer = ScriptedModel(by_agent(composer=[*calls, "Done."]))
    models = {"composer": composer, "lead_agent": lead or ScriptedModel(LEAD), **more}
    wb = workbench(agent_models=models, interactive=False, approvals="approve")
    return wb, wb.projects.start("Essay", template="paper"), composer


def last_results(composer: ScriptedModel) -> str:
    """The tool results in the composer's last prompt."""
    return composer.requests[-1].messages[-1].content


@pytest.mark.parametrize("field", ["", "Facts"])
def test_result_names_the_report_block(workbench: OpenWorkbench, field: str) -> None:
    """The result names the new or named block, not the sources block, and has the start of the report."""
    _wb, project, composer = open_project(workbench, call("run_research", query="What is X?", field_name=field))
    project.add("Facts", phase="literature")
    assert project.ask("Go.").wait().status == "completed"
    assert f"The report is the block '{field or 'What is X?'}'" in last_results(composer)
    assert "X is a letter [1]." in last_results(composer)


def test_report_for_a_deleted_block_is_in_the_error(workbench: OpenWorkbench) -> None:
    """The call fails with the report in its error, and the run continues."""
    lead = BlockedModel(LEAD)
    _wb, project, composer = open_project(
        workbench, call("run_research", query="What is X?", field_name="Facts"), lead=lead
    )
    project.add("Facts", phase="literature")
    run = project.ask("Go.")
    assert lead.called.wait(20)
    project["Facts"].delete()
    lead.may_reply.set()
    assert run.wait(30).status == "completed"
    assert "There is no block 'Facts'. There are: none yet. The report was:" in last_results(composer)
    assert "X is a letter [1]." in last_results(composer)
    assert not project.blocks


def test_repeated_research_makes_dependents_stale(workbench: OpenWorkbench) -> None:
    """The report and its sources are one block each, before and after the repeated research."""
    ask = call("run_research", query="What is X?", field_name="Facts")
    lead = ScriptedModel([*LEAD, report("X is the 24th letter."), "The 24th."])
    _wb, project, _ = open_project(workbench, ask, ask, lead=lead)
    project.add("Facts", phase="literature")
    project.add("Text", "X.", phase="writing", depends_on=["Facts"])
    project.ask("Go.").wait()
    assert [block.name for block in project.blocks] == ["Facts", "Facts: sources", "Text"]
    assert project["Facts"].content == "X is the 24th letter."
    assert [block.name for block in project.stale] == ["Text"]


def test_agent_cannot_write_ungrounded_text_into_research_phase(workbench: OpenWorkbench) -> None:
    """Every attempt fails with the advice to research; a dependent of a report may be written."""
    wb, project, composer = open_project(
        workbench,
        call("update_field", field_name="Facts", content="I know."),
        call("run_research", query="What is X?", field_name="Facts"),
        call("update_field", field_name="Facts", content="X is a letter, the book says."),
    )
    project.add("Facts", phase="literature")
    project.ask("Go.").wait()
    results = wb.tool_calls_df().query("agent_name == 'composer'")["success"].map(bool).tolist()
    assert results == [False, True, True]
    assert 'Call run_research with field_name="Facts"' in composer.requests[1].messages[-1].content
    assert project["Facts"].content == "X is a letter, the book says."
