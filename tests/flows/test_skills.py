"""Skills: reusable instructions of a project and of its data folder reach those who are told to follow them."""

from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from flows.test_compose import prompts
from flows.test_personas import told, with_turns
from hostile import HOSTILE
from scripts import call

import artifactflow_nb as af
from artifactflow_nb.skills import (
    MOST_CHARS,
    SKILLS,
    Skill,
    known_skills,
    load_shared,
    named_skills,
    read_skill,
    write_skill,
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


def test_skills_are_created_listed_and_read_by_calls(workbench: OpenWorkbench) -> None:
    """The next prompt lists a new skill; those that are shared stand behind the project's own, and all can be read."""
    turns = [
        manage("create", **BRIEF),
        manage("list"),
        manage("use", name="formal"),
        manage("use", name="none"),
        "Done.",
    ]
    wb, project = with_turns(workbench, *turns)
    share(wb)
    wb.ask("Be brief.", project=project).wait()
    given = prompts(wb, "You write a document together")
    assert "<skills>\n- formal: For: the board\n</skills>" in given[0]
    assert "<skills>\n- brief: Short sentences.\n- formal: For: the board\n</skills>" in given[1]
    assert "No jokes." in given[3]
    assert told(wb) == ["Say in skill_data which skill is meant: brief, formal."]
    assert [(skill.name, kept) for skill, kept in zip(project.skills, ("in the project", "shared"), strict=True)] == [
        ("brief", "in the project"),
        ("formal", "shared"),
    ]
    assert "in the project" in repr(project.skills)


def test_a_skill_reaches_the_writer_that_is_told_to_follow_it(workbench: OpenWorkbench) -> None:
    """Named in a style hint or in the block's prompt, its instructions stand in the task, each once; others do not."""
    write = call("generate_field_content", field_name="Text", style_hint="As in @skill:formal, please.")
    wb, project = with_turns(workbench, write, "Done.", writer=["X."])
    share(wb)
    project.skills.add("brief", "Short.", "One thing in a sentence.").add("other", "Not meant.", "Sing.")
    project.add("Text", prompt="All about X (@skill:brief, @skill:formal).")
    wb.ask("Write.", project=project).wait()
    [task] = prompts(wb, "You write one block")
    assert task.count("No jokes.") == 1
    assert '<skill name="brief">\nOne thing in a sentence.\n</skill>' in task
    assert "Sing." not in task


def test_a_skill_in_a_message_stands_in_the_prompt(workbench: OpenWorkbench) -> None:
    """`@skill:name` brings its text to the composer; a name that none has is refused before anything is asked."""
    wb, project = with_turns(workbench, "It says so.")
    project.skills.add(*BRIEF.values())
    wb.ask("What does @skill:brief say?", project=project).wait()
    [prompt] = prompts(wb, "You write a document together")
    assert '<skill name="brief">\nOne thing in a sentence.\n</skill>' in prompt
    with pytest.raises(af.UsageError, match="@skill:breif names no skill. There are: brief"):
        wb.ask("Use @skill:breif.", project=project)
    assert len(wb.runs()) == 1


def test_an_unknown_skill_is_told_to_who_named_it(workbench: OpenWorkbench) -> None:
    """No writer is asked to follow what there is not."""
    write = call("generate_field_content", field_name="Text", style_hint="@skill:nowhere")
    wb, project = with_turns(workbench, write, "Done.")
    project.add("Text")
    wb.ask("Write.", project=project).wait()
    assert told(wb) == ["@skill:nowhere names no skill. There are: none yet."]


def test_a_run_keeps_the_shared_skills_that_it_was_begun_with(workbench: OpenWorkbench) -> None:
    """A file that changes while the run waits changes nothing for it; the next run has it."""
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
    run = wb.ask("Remove it.", project=project).wait()
    share(wb, FILE.replace("No jokes.", "Jokes."))
    run.approve().wait()
    wb.ask("Read it.", project=project).wait()
    given = prompts(wb, "You write a document together")
    assert "No jokes." in given[2]
    assert "No jokes." not in given[4]
    assert "Jokes." in given[4]


def test_a_skill_of_the_project_goes_before_a_shared_one(workbench: OpenWorkbench) -> None:
    """Of two with a name the project's own is meant; it can be shared, but nobody's file is overwritten."""
    wb, project = with_turns(workbench)
    folder = share(wb)
    skills = project.skills.add("Formal", "Ours.", "Some jokes.").add("mine", "Mine.", "Mine.")
    assert [skill.instructions for skill in skills] == ["Some jokes.", "Mine."]
    assert skills.share("mine") == folder / "mine.md"
    assert read_skill((folder / "mine.md").read_text(encoding="utf-8")) == Skill("mine", "Mine.", "Mine.")
    assert skills.share("mine").exists()
    (folder / "mine.md").write_text(FILE, encoding="utf-8")
    with pytest.raises(af.UsageError, match="says something else"):
        skills.share("mine")


def test_a_file_that_is_no_skill_is_told_with_its_path(workbench: OpenWorkbench) -> None:
    """A run is not begun, and says which file has to be looked at."""
    wb, project = with_turns(workbench)
    share(wb, "Just text.", "broken")
    with pytest.raises(af.UsageError, match=r"broken\.md cannot be used: It is no skill: it has no front matter"):
        wb.ask("Write.", project=project)


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
        f"---\nname: x\ndescription: x\n---\n{'x' * (MOST_CHARS + 1)}",
        f"---\nname: x\ndescription: {'x' * 301}\n---\nText.",
        "---\nname: !!python/object/apply:os.system ['true']\ndescription: x\n---\nText.",
    ],
)
def test_what_is_no_skill_is_refused(text: str) -> None:
    """Whatever a file holds, the error is one that tells what is wrong."""
    with pytest.raises(af.UsageError):
        read_skill(text)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_skills_are_stored_as_they_are(text: str) -> None:
    """Whatever is said in a skill, its text gives it back to the letter."""
    skill = Skill("x", f"x {text}"[:300], f"---\n{text}\n---")
    assert SKILLS.read(SKILLS.write(skill)) == Skill("x", skill.description, skill.instructions.replace("\r\n", "\n"))


def test_the_longest_name_that_fits_is_meant() -> None:
    """Names may begin alike, stand twice, and be followed by a script without spaces; an address is none."""
    known = known_skills([Skill("a", "A.", "A."), Skill("a-b", "AB.", "AB."), Skill("简", "J.", "J.")], {})
    named = named_skills("@skill:a-b and @skill:A, @skill:简洁地写 @skill:a; x@skill:a", known)
    assert [skill.name for skill in named] == ["a-b", "a", "简"]
    assert [skill.name for skill in named_skills("按@skill:简写", known)] == ["简"]
    with pytest.raises(af.UsageError, match="@skill:ab names no skill"):
        named_skills("@skill:ab", known)
    assert named_skills("@skill:ab", known, strictly=False) == ()


def test_two_shared_skills_cannot_have_one_name(tmp_path: Path) -> None:
    """The second file is named; no folder is no skills."""
    assert load_shared(tmp_path / "none") == {}
    for name in ("one", "two"):
        (tmp_path / f"{name}.md").write_text(write_skill(Skill("x", "X.", "X.")), encoding="utf-8")
    with pytest.raises(af.UsageError, match=r"two\.md cannot be used: another file of the folder has the name 'x'"):
        load_shared(tmp_path)
