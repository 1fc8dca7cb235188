"""Personas: the intended readers are in prompts, and are managed by calls and by code."""

from typing import Any

import pytest
from conftest import OpenWorkbench
from flows.test_compose import prompts
from support.hostile_texts import HOSTILE
from support.replies import by_agent, call

import artifactflow_nb as af
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.plugins.projects.named_texts import Persona

ANN = {"name": "Ann", "description": "A nurse.", "knows": "The ward.", "wants": "A checklist."}


def manage(action: str, **data: Any) -> str:
    return call("manage_persona", action=action, **({"persona_data": data} if data else {}))


def with_turns(
    workbench: OpenWorkbench, *composer: str, approvals: str = "ask", **more: Any
) -> tuple[af.Workbench, Project]:
    wb = workbench(by_agent(composer=list(composer), **more), interactive=False, approvals=approvals)
    return wb, wb.projects.start("Essay", template="paper")


def call_errors(wb: af.Workbench) -> list[str]:
    """The errors of the failed calls, in order."""
    return list(wb.tool_calls_df()["error_message"].dropna())


def test_manage_persona_creates_updates_and_lists_personas(workbench: OpenWorkbench) -> None:
    """Each call writes a version; the next prompt has the version, and an update keeps the other fields."""
    wb, project = with_turns(
        workbench,
        manage("create", **ANN),
        manage("update", name="ann", new_name="Anna", wants="A list."),
        manage("list"),
        "Done.",
    )
    assert project.ask("For Ann.").wait().status == "completed"
    assert list(project.personas) == [Persona("Anna", "A nurse.", "The ward.", "A list.")]
    versions = wb.artifacts_df().query("artifact_id == 'persona_ann'")
    assert list(versions["update_type"]) == ["create", "rewrite"]
    assert set(versions["created_by"]) == {"composer"}
    first, second, third, fourth = prompts(wb, "You write a document together")
    assert "<personas>" not in first
    assert "<personas>\nAnn: A nurse.\nThey know: The ward.\nThey want: A checklist.\n</personas>" in second
    assert "<personas>\nAnna: A nurse." in third
    assert fourth.count("Anna: A nurse.") == 2


def test_removing_a_persona_needs_approval(workbench: OpenWorkbench) -> None:
    """The request names the persona; after the removal the name can be used again."""
    _wb, project = with_turns(workbench, manage("create", **ANN), manage("remove", name="Ann"), "Done.")
    run = project.ask("Without Ann.").wait()
    assert run.pending[0].preview == "Removes the persona Ann; its versions are kept."
    assert run.approve().wait().status == "completed"
    assert list(project.personas) == []
    assert list(project.personas.add("Ann", "Another one.")) == [Persona("Ann", "Another one.")]


def test_changing_a_persons_persona_needs_approval(workbench: OpenWorkbench) -> None:
    """The change waits with its diff; the composer may change its own personas freely."""
    update = manage("update", name="Ann", wants="Less.")
    _wb, project = with_turns(workbench, update, update.replace("Less", "More"), "Done.")
    project.personas.add("Ann", "A nurse.")
    run = project.ask("Less.").wait()
    assert "+wants: Less." in run.pending[0].preview
    run.approve().wait()
    assert (run.status, project.personas[0].wants) == ("completed", "More.")


def test_invalid_change_needs_no_approval(workbench: OpenWorkbench) -> None:
    """A text that is too long is reported to the composer without a request."""
    wb, project = with_turns(workbench, manage("update", name="Ann", wants="x" * 2_001), "Done.")
    project.personas.add("Ann", "A nurse.")
    assert project.ask("More.").wait().status == "completed"
    assert "it must be text of at most 2000 characters" in call_errors(wb)[0]


def test_invalid_persona_call_is_reported_to_the_composer(workbench: OpenWorkbench) -> None:
    """The errors report a used name, an unknown name, missing data, and a persona without a description."""
    wb, project = with_turns(
        workbench,
        manage("create", **ANN),
        manage("create", **{**ANN, "name": "ANN"}),
        manage("remove", name="Bob"),
        manage("update"),
        manage("create", name="Bob"),
        "Done.",
    )
    assert project.ask("Try.").wait().status == "completed"
    assert [persona.name for persona in project.personas] == ["Ann"]
    duplicate, unknown, nothing, wordless = call_errors(wb)
    assert "There is a persona 'Ann' already" in duplicate
    assert "There is no persona 'Bob'. There are: Ann." in unknown
    assert "Name it in persona_data." in nothing
    assert "The persona 'Bob' is incomplete: it also needs description." in wordless


def test_writers_task_has_the_personas(workbench: OpenWorkbench) -> None:
    """A writer sees all personas."""
    write = call("generate_field_content", field_name="Text")
    wb, project = with_turns(workbench, write, "Done.", writer=["X."])
    project.personas.add("Ann", "A nurse.", knows="The ward.")
    project.add("Text")
    project.ask("Write.").wait()
    [task] = prompts(wb, "You write one block")
    assert "The intended readers:\nAnn: A nurse.\nThey know: The ward." in task


def test_each_branch_has_its_own_personas(workbench: OpenWorkbench) -> None:
    """A regenerated answer starts with the personas from before the question."""
    wb, project = with_turns(
        workbench, manage("create", **ANN), "Done.", manage("create", **{**ANN, "name": "Bob"}), "Done."
    )
    run = project.ask("For whom?").wait()
    wb.conversation(run).regenerate().wait()
    assert [persona.name for persona in project.personas] == ["Bob"]
    wb.conversation(run).activate()
    assert [persona.name for persona in project.personas] == ["Ann"]


def test_personas_are_managed_by_code(workbench: OpenWorkbench) -> None:
    """Personas can be added, changed and removed; errors list the known names."""
    _, project = with_turns(workbench)
    project.personas.add("Ann", "A nurse.").add("Bob", "A patient.")
    assert [persona.name for persona in project.personas.change("Bob", name="Rob", knows="Little.")] == ["Ann", "Rob"]
    assert [persona.name for persona in project.personas.remove("ann")] == ["Rob"]
    for invalid in (
        lambda: project.personas.add("ROB", "Another."),
        lambda: project.personas.remove("Bob"),
        lambda: project.personas.change("Rob", age="40"),
        lambda: project.personas.add("", "Nobody."),
        lambda: project.personas.add("Zoe", " "),
        lambda: project.personas.add("Zoe", "x" * 2_001),
    ):
        with pytest.raises(af.errors.UsageError):
            invalid()
    assert repr(project.personas).splitlines()[0].split()[:1] == ["persona"]


def test_persona_texts_are_stored_verbatim() -> None:
    """An artifact returns any persona unchanged."""
    for text in HOSTILE:
        persona = Persona("x" + text[:60], f"x{text[:1_900]}", text[:2_000], "\ud800")
        assert Persona.parse(persona.format()) == persona
