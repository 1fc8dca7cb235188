"""Skills: instructions of a project and of the data folder reach the agents that must follow the instructions."""

from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from flows.test_compose import prompts
from flows.test_personas import call_errors, with_turns
from support.hostile_texts import HOSTILE
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.plugins.projects.named_texts import (
    Skill,
    load_shared_skills,
    merge_skills,
    referenced_skills,
)

BRIEF = {"name": "brief", "description": "Short sentences.", "instructions": "One thing in a sentence."}
FILE = "---\nname: formal\ndescription: 'For: the board'\nlicense: MIT\n---\n\nNo jokes.\n"


def manage(action: str, **data: Any) -> str:
    return call("manage_skill", action=action, **({"skill_data": data} if data else {}))


def share(wb: af.Workbench, text: str = FILE, name: str = "formal") -> Path:
    folder = wb._thread.engine.folder / "skills"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def test_manage_skill_creates_lists_and_reads_skills(workbench: OpenWorkbench) -> None:
    """The next prompt lists a new skill, the project's own skills before the shared skills."""
    turns = [
        manage("create", **BRIEF),
        manage("list"),
        manage("use", name="formal"),
        manage("use", name="none"),
        "Done.",
    ]
    wb, project = with_turns(workbench, *turns)
    share(wb)
    project.ask("Be brief.").wait()
    system_prompts = prompts(wb, "You write a document together")
    assert "<skills>\n- formal: For: the board\n</skills>" in system_prompts[0]
    assert "<skills>\n- brief: Short sentences.\n- formal: For: the board\n</skills>" in system_prompts[1]
    assert "No jokes." in system_prompts[3]
    assert call_errors(wb) == ["There is no skill 'none'. There are: brief, formal."]
    assert [(skill.name, place) for skill, place in zip(project.skills, ("in the project", "shared"), strict=True)] == [
        ("brief", "in the project"),
        ("formal", "shared"),
    ]
    assert "in the project" in repr(project.skills)


def test_referenced_skill_is_in_the_writers_task(workbench: OpenWorkbench) -> None:
    """A skill in a style hint or a block's prompt is in the task once; other skills are not."""
    write = call("generate_field_content", field_name="Text", style_hint="As in @skill:formal, please.")
    wb, project = with_turns(workbench, write, "Done.", writer=["X."])
    share(wb)
    project.skills.add("brief", "Short.", "One thing in a sentence.").add("other", "Not meant.", "Sing.")
    project.add("Text", prompt="All about X (@skill:brief, @skill:formal).")
    project.ask("Write.").wait()
    [task] = prompts(wb, "You write one block")
    assert task.count("No jokes.") == 1
    assert '<skill name="brief">\nOne thing in a sentence.\n</skill>' in task
    assert "Sing." not in task


def test_skill_in_a_message_is_in_the_prompt(workbench: OpenWorkbench) -> None:
    """`@skill:name` adds the text of the skill; an unknown name is rejected before the model is called."""
    wb, project = with_turns(workbench, "It says so.")
    project.skills.add(*BRIEF.values())
    project.ask("What does @skill:brief say?").wait()
    [prompt] = prompts(wb, "You write a document together")
    assert '<skill name="brief">\nOne thing in a sentence.\n</skill>' in prompt
    with pytest.raises(af.errors.UsageError, match="@skill:breif names no skill. Known skills: brief"):
        project.ask("Use @skill:breif.")
    assert len(wb.runs()) == 1


def test_unknown_skill_fails_the_call(workbench: OpenWorkbench) -> None:
    """No writer starts."""
    write = call("generate_field_content", field_name="Text", style_hint="@skill:nowhere")
    wb, project = with_turns(workbench, write, "Done.")
    project.add("Text")
    project.ask("Write.").wait()
    assert call_errors(wb) == ["@skill:nowhere names no skill. Known skills: none yet."]


def test_run_keeps_its_shared_skills(workbench: OpenWorkbench) -> None:
    """A file that changes while the run waits takes effect in the next run."""
    turns = [
        manage("remove", name="brief"),
        manage("use", name="formal"),
        "Done.",
        manage("use", name="formal"),
        "Done.",
    ]
    wb, project = with_turns(workbench, *turns)
    share(wb)
    project.skills.add(*BRIEF.values())
    run = project.ask("Remove it.").wait()
    share(wb, FILE.replace("No jokes.", "Jokes."))
    run.approve().wait()
    project.ask("Read it.").wait()
    system_prompts = prompts(wb, "You write a document together")
    assert "No jokes." in system_prompts[2]
    assert "No jokes." not in system_prompts[4]
    assert "Jokes." in system_prompts[4]


def test_project_skill_takes_precedence_over_shared_skill(workbench: OpenWorkbench) -> None:
    """A project's skill can be shared, but an existing file is not overwritten."""
    wb, project = with_turns(workbench)
    folder = share(wb)
    skills = project.skills.add("Formal", "Ours.", "Some jokes.").add("mine", "Mine.", "Mine.")
    assert [skill.instructions for skill in skills] == ["Some jokes.", "Mine."]
    assert skills.share("mine") == folder / "mine.md"
    assert Skill.parse((folder / "mine.md").read_text(encoding="utf-8")) == Skill("mine", "Mine.", "Mine.")
    assert skills.share("mine").exists()
    (folder / "mine.md").write_text(FILE, encoding="utf-8")
    with pytest.raises(af.errors.UsageError, match="exists with another text"):
        skills.share("mine")


def test_invalid_skill_file_is_reported_with_its_path(workbench: OpenWorkbench) -> None:
    """No run starts."""
    wb, project = with_turns(workbench)
    share(wb, "Just text.", "broken")
    with pytest.raises(af.errors.UsageError, match=r"broken\.md cannot be used: A skill needs front matter"):
        project.ask("Write.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No front.",
        "---\nname: x\n---\nText.",
        "---\nname: a b\ndescription: x\n---\nText.",
        "---\nname: ../x\ndescription: x\n---\nText.",
        "---\nname: x\ndescription: [1]\n---\nText.",
        "---\nname: x\ndescription: x\n---\n  \n",
        "---\n- x\n---\nText.",
        "---\nname: {\n---\nText.",
        f"---\n{'[' * 3_000}\n---\nText.",
        f"---\nname: x\ndescription: x\n---\n{'x' * (20_001)}",
        f"---\nname: x\ndescription: {'x' * 301}\n---\nText.",
        "---\nname: !!python/object/apply:os.system ['true']\ndescription: x\n---\nText.",
    ],
)
def test_invalid_skill_is_rejected(text: str) -> None:
    """Any text raises a clear `UsageError` or is a skill."""
    with pytest.raises(af.errors.UsageError):
        Skill.parse(text)


def test_skill_texts_are_stored_verbatim() -> None:
    """Formatting and parsing a skill returns the same skill."""
    for text in HOSTILE:
        skill = Skill("x", f"x {text}"[:300], f"---\n{text}\n---")
        assert Skill.parse(skill.format()) == Skill("x", skill.description, skill.instructions.replace("\r\n", "\n"))


def test_longest_skill_name_wins() -> None:
    """The longest of several names counts, also before a script without spaces; an email address names no skill."""
    known = merge_skills([Skill("a", "A.", "A."), Skill("a-b", "AB.", "AB."), Skill("简", "J.", "J.")], {})
    named = referenced_skills("@skill:a-b and @skill:A, @skill:简洁地写 @skill:a; x@skill:a", known)
    assert [skill.name for skill in named] == ["a-b", "a", "简"]
    assert [skill.name for skill in referenced_skills("按@skill:简写", known)] == ["简"]
    with pytest.raises(af.errors.UsageError, match="@skill:ab names no skill"):
        referenced_skills("@skill:ab", known)
    assert referenced_skills("@skill:ab", known, strict=False) == ()


def test_duplicate_shared_skill_is_rejected(tmp_path: Path) -> None:
    """The error names the second file; a missing folder has no skills."""
    assert load_shared_skills(tmp_path / "none") == {}
    for name in ("one", "two"):
        (tmp_path / f"{name}.md").write_text(Skill("x", "X.", "X.").format(), encoding="utf-8")
    with pytest.raises(
        af.errors.UsageError, match=r"two\.md cannot be used: another file of the folder has the name 'x'"
    ):
        load_shared_skills(tmp_path)
