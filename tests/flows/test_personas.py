"""Personas: for whom a document is written stands in the prompts, and is changed by calls and by hand."""

from typing import Any

import pytest
from conftest import OpenWorkbench
from flows.test_compose import prompts
from hostile import HOSTILE
from scripts import by_agent, call

import artifactflow_nb as af
from artifactflow_nb.personas import PERSONAS, Persona
from artifactflow_nb.project import Project

ANN = {"name": "Ann", "description": "A nurse.", "knows": "The ward.", "wants": "A checklist."}


def manage(action: str, **data: Any) -> str:
    return call("manage_persona", action=action, **({"persona_data": data} if data else {}))


def with_turns(
    workbench: OpenWorkbench, *composer: str, approvals: str = "ask", **more: Any
) -> tuple[af.Workbench, Project]:
    wb = workbench(by_agent(composer=list(composer), **more), interactive=False, approvals=approvals)
    return wb, wb.project("Essay", template="paper")


def told(wb: af.Workbench) -> list[str]:
    """What the calls that did not succeed were told, in order."""
    return list(wb.tool_calls_df()["error_message"].dropna())


def test_personas_are_created_changed_and_listed_by_calls(workbench: OpenWorkbench) -> None:
    """Each call is a version by the composer; the next prompt has it, and what a change leaves out stays."""
    wb, project = with_turns(
        workbench,
        manage("create", **ANN),
        manage("update", name="ann", new_name="Anna", wants="A list."),
        manage("list"),
        "Done.",
    )
    assert wb.ask("For Ann.", project=project).wait().status == "completed"
    assert list(project.personas) == [Persona("Anna", "A nurse.", "The ward.", "A list.")]
    versions = wb.artifacts_df().query("artifact_id == 'persona_ann'")
    assert list(versions["update_type"]) == ["create", "rewrite"]
    assert set(versions["created_by"]) == {"composer"}
    first, second, third, fourth = prompts(wb, "You write a document together")
    assert "<personas>" not in first
    assert "<personas>\nAnn: A nurse.\nThey know: The ward.\nThey want: A checklist.\n</personas>" in second
    assert "<personas>\nAnna: A nurse." in third
    assert fourth.count("Anna: A nurse.") == 2


def test_a_persona_is_removed_only_if_the_person_agrees(workbench: OpenWorkbench) -> None:
    """The request says who goes; agreed to, they are gone, and a new one of the name can be added."""
    wb, project = with_turns(workbench, manage("create", **ANN), manage("remove", name="Ann"), "Done.")
    run = wb.ask("Without Ann.", project=project).wait()
    assert run.pending[0].preview == "Removes the persona Ann; its versions are kept."
    assert run.approve().wait().status == "completed"
    assert list(project.personas) == []
    assert list(project.personas.add("Ann", "Another one.")) == [Persona("Ann", "Another one.")]


def test_what_a_person_wrote_is_changed_only_if_they_agree(workbench: OpenWorkbench) -> None:
    """The change waits with its diff; what the composer wrote itself it may change."""
    update = manage("update", name="Ann", wants="Less.")
    wb, project = with_turns(workbench, update, update.replace("Less", "More"), "Done.")
    project.personas.add("Ann", "A nurse.")
    run = wb.ask("Less.", project=project).wait()
    assert '+  "wants": "Less."' in run.pending[0].preview
    run.approve().wait()
    assert (run.status, project.personas[0].wants) == ("completed", "More.")


def test_nobody_is_asked_about_a_change_that_cannot_be(workbench: OpenWorkbench) -> None:
    """A text that is too long is told to the composer, also where the person would have to agree."""
    wb, project = with_turns(workbench, manage("update", name="Ann", wants="x" * 2_001), "Done.")
    project.personas.add("Ann", "A nurse.")
    assert wb.ask("More.", project=project).wait().status == "completed"
    assert "it must be text of at most 2000 characters" in told(wb)[0]


def test_what_cannot_be_is_told_to_the_composer(workbench: OpenWorkbench) -> None:
    """A name that is taken, one that nobody has, nothing at all, and a persona without a word about them."""
    wb, project = with_turns(
        workbench,
        manage("create", **ANN),
        manage("create", **{**ANN, "name": "ANN"}),
        manage("remove", name="Bob"),
        manage("update"),
        manage("create", name="Bob"),
        "Done.",
    )
    assert wb.ask("Try.", project=project).wait().status == "completed"
    assert [one.name for one in project.personas] == ["Ann"]
    taken, unknown, nothing, wordless = told(wb)
    assert "There is a persona 'Ann' already" in taken
    assert "There is no persona 'Bob'. There are: Ann." in unknown
    assert "Say in persona_data which persona is meant." in nothing
    assert "A persona needs more: description, knows, wants can be given." in wordless


def test_writers_see_for_whom_they_write(workbench: OpenWorkbench) -> None:
    """The personas stand in the task of a writer."""
    write = call("generate_field_content", field_name="Text")
    wb, project = with_turns(workbench, write, "Done.", writer=["X."])
    project.personas.add("Ann", "A nurse.", knows="The ward.")
    project.add("Text")
    wb.ask("Write.", project=project).wait()
    [task] = prompts(wb, "You write one block")
    assert "For whom it is written:\nAnn: A nurse.\nThey know: The ward." in task


def test_a_branch_has_personas_of_its_own(workbench: OpenWorkbench) -> None:
    """A question asked once more begins with those that there were before it."""
    wb, project = with_turns(
        workbench, manage("create", **ANN), "Done.", manage("create", **{**ANN, "name": "Bob"}), "Done."
    )
    run = wb.ask("For whom?", project=project).wait()
    wb.regenerate(run).wait()
    assert [one.name for one in project.personas] == ["Bob"]
    wb.activate_branch(run)
    assert [one.name for one in project.personas] == ["Ann"]


def test_personas_are_kept_by_hand(workbench: OpenWorkbench) -> None:
    """Added, changed and removed; what cannot be is refused with what there is."""
    _, project = with_turns(workbench)
    project.personas.add("Ann", "A nurse.").add("Bob", "A patient.")
    assert [one.name for one in project.personas.change("Bob", name="Rob", knows="Little.")] == ["Ann", "Rob"]
    assert [one.name for one in project.personas.remove("ann")] == ["Rob"]
    for wrong in (
        lambda: project.personas.add("ROB", "Another."),
        lambda: project.personas.remove("Bob"),
        lambda: project.personas.change("Rob", age="40"),
        lambda: project.personas.add("", "Nobody."),
        lambda: project.personas.add("Zoe", " "),
        lambda: project.personas.add("Zoe", "x" * 2_001),
    ):
        with pytest.raises(af.UsageError):
            wrong()
    assert repr(project.personas).splitlines()[0].split()[:1] == ["persona"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_personas_are_stored_as_they_are(text: str) -> None:
    """Whatever is said of a persona, its artifact gives it back to the letter."""
    persona = Persona("x" + text[:60], f"x{text[:1_900]}", text[:2_000], "\ud800")
    assert PERSONAS.read(PERSONAS.write(persona)) == persona
