"""Templates of projects: the packaged ones, one's own as a file or a mapping, and what is wrong with one, and where."""

import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

import artifactflow_nb as af
from artifactflow_nb import project_template
from artifactflow_nb.project_template import ProjectTemplate, packaged

COURSE = """
name: course
phases:
  - {name: goals, en: Goals, zh: 目标}
  - lessons
blocks:
  - {name: Audience, phase: goals, need_review: true, prompt: "Who is it for?"}
  - {name: 课程, phase: lessons, is_group: true}
  - {name: Outline, parent: 课程, depends_on: [Audience], auto_generate: true}
"""


def test_the_packaged_templates_have_the_phases_that_were_asked_for() -> None:
    """`default` goes from intent to evaluation, `paper` from a question to its review; each names phases twice."""
    assert packaged() == ("default", "paper")
    assert ProjectTemplate.load().phase_names == (
        "intent", "research", "design_inner", "produce_inner", "design_outer", "produce_outer", "evaluate",
    )  # fmt: skip
    paper = ProjectTemplate.load("paper")
    assert paper.phase_names == ("question", "literature", "method", "analysis", "writing", "review")
    for template in map(ProjectTemplate.load, packaged()):
        assert all(phase.en[0].isupper() and not phase.zh.isascii() for phase in template.phases)


def test_one_of_ones_own_is_a_file_or_a_mapping(tmp_path: Path) -> None:
    """Both say the same; what is left out of a phase follows from its name."""
    path = tmp_path / "课程.yaml"
    path.write_text(COURSE, encoding="utf-8")
    template = ProjectTemplate.load(path)
    assert template == ProjectTemplate.load(yaml.safe_load(COURSE)) == ProjectTemplate.load(str(path))
    assert [(phase.en, phase.zh) for phase in template.phases] == [("Goals", "目标"), ("Lessons", "Lessons")]
    tree = template.first_blocks
    assert [tree.path(block.block_id) for block in tree] == ["Audience", "课程", "课程 / Outline"]
    assert tree["outline"].depends_on == ("audience",)
    assert tree["outline"].phase == "lessons"


def test_the_form_that_is_told_is_one() -> None:
    """The example in the module's documentation can be used as it stands."""
    example = (project_template.__doc__ or "").partition("::")[2]
    template = ProjectTemplate.load(yaml.safe_load(textwrap.dedent(example)))
    assert [block.name for block in template.first_blocks] == ["Audience", "Outline"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"phases": []}, "phases: Tuple should have at least 1 item"),
        ({"phases": ["a", "a"]}, "two phases have the same name; there are: a, a"),
        ({"phases": [{"name": "a b"}]}, "phases.0.name: String should match pattern"),
        ({"phases": [{"name": "a", "fr": "A"}]}, "phases.0.fr: Extra inputs are not permitted"),
        ({"phases": [7]}, "phases.0: Input should be a valid dictionary"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"name": ""}, "name: String should have at least 1 character"),
        ({"blocks": [{"name": "A"}, {"phase": "goals"}]}, "blocks.1.name: Field required"),
        (
            {"blocks": [{"name": "A", "need_review": "perhaps"}]},
            "blocks.0.need_review: Input should be a valid boolean",
        ),
        ({"blocks": [{"name": "A", "phase": "later"}]}, "blocks.0: There is no phase 'later'. There are: goals"),
        ({"blocks": [{"name": "A", "parent": "B"}]}, "blocks.0: There is no block 'B'. There are: none yet"),
        ({"blocks": [{"name": "A"}, {"name": "B", "depends_on": ["C"]}]}, "blocks.1: There is no block 'C'"),
        ({"blocks": [{"name": "A"}, {"name": "a"}]}, "blocks.1: There is a block 'a' at the top already"),
        ({"blocks": [{"name": "A/B"}]}, "blocks.0: A block cannot be called 'A/B'"),
        ({"blocks": [{"name": "A", "is_group": True, "prompt": "?"}]}, "blocks.0: The group 'A' has no text"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change: dict[str, Any], told: str) -> None:
    """The error has the path of each value that cannot be, and is raised before anything is made."""
    with pytest.raises(af.UsageError) as caught:
        ProjectTemplate.load({"name": "x", "phases": ["goals"], **change})
    assert told in str(caught.value)
    assert str(caught.value).startswith("The template cannot be used.")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """No such name, no such file, no YAML, no template: each with its path."""
    with pytest.raises(af.UsageError, match="no template 'papr'. Packaged are: default, paper; one of your own is a"):
        ProjectTemplate.load("papr")
    with pytest.raises(af.UsageError, match=r"x\.yaml cannot be read: "):
        ProjectTemplate.load(tmp_path / "x.yaml")
    for text, told in (
        ("a: [", "is no YAML"),
        ("[" * 3000, "is no YAML"),
        ("7", "cannot be used"),
        ("\xff", "cannot be (used|read)"),
    ):
        (tmp_path / "x.yml").write_bytes(text.encode("latin-1"))
        with pytest.raises(af.UsageError, match=told):
            ProjectTemplate.load(tmp_path / "x.yml")
