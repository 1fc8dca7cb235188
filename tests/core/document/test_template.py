"""Project templates: packaged ones, files, mappings, and errors with their location."""

import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

import artifactflow_nb as af
from artifactflow_nb.plugins.projects.project import ProjectTemplate, packaged_templates
from artifactflow_nb.plugins.projects.tree import BlockTree

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


def test_phases_of_the_packaged_templates() -> None:
    """`default` goes from intent to evaluation, `paper` from a question to its review; each has two display names."""
    assert packaged_templates() == ("default", "paper")
    assert ProjectTemplate.load().phase_names == (
        "intent", "research", "design_inner", "produce_inner", "design_outer", "produce_outer", "evaluate",
    )  # fmt: skip
    paper = ProjectTemplate.load("paper")
    assert paper.phase_names == ("question", "literature", "method", "analysis", "writing", "review")
    for template in map(ProjectTemplate.load, packaged_templates()):
        assert all(phase.en[0].isupper() and not phase.zh.isascii() for phase in template.phases)


def test_user_template_is_a_file_or_a_mapping(tmp_path: Path) -> None:
    """File and mapping give the same template; missing display names are derived."""
    path = tmp_path / "课程.yaml"
    path.write_text(COURSE, encoding="utf-8")
    template = ProjectTemplate.load(path)
    assert template == ProjectTemplate.load(yaml.safe_load(COURSE)) == ProjectTemplate.load(str(path))
    assert [(phase.en, phase.zh) for phase in template.phases] == [("Goals", "目标"), ("Lessons", "Lessons")]
    tree = BlockTree(template.initial_blocks, template.phase_names)
    assert [tree.path(block.block_id) for block in tree] == ["Audience", "课程", "课程 / Outline"]
    assert tree["outline"].depends_on == ("audience",)
    assert tree["outline"].phase == "lessons"


def test_documented_example_is_valid() -> None:
    """The example in the class's docstring can be loaded."""
    example = (ProjectTemplate.__doc__ or "").partition("::")[2].partition("Attributes:")[0]
    template = ProjectTemplate.load(yaml.safe_load(textwrap.dedent(example)))
    assert [block.name for block in template.initial_blocks] == ["Audience", "Outline"]


@pytest.mark.parametrize(
    ("change", "message"),
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
        ({"blocks": [{"name": "A"}, {"name": "a"}]}, "blocks.1: There is already a block 'a' at the top level"),
        ({"blocks": [{"name": "A/B"}]}, "blocks.0: A block cannot be called 'A/B'"),
        ({"blocks": [{"name": "A", "is_group": True, "prompt": "?"}]}, "blocks.0: The group 'A' has no text"),
    ],
)
def test_invalid_template_is_reported_with_the_location(change: dict[str, Any], message: str) -> None:
    """The error has the path of each invalid value."""
    with pytest.raises(af.errors.UsageError) as caught:
        ProjectTemplate.load({"name": "x", "phases": ["goals"], **change})
    assert message in str(caught.value)
    assert str(caught.value).startswith("The template cannot be used.")


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    """The error has the path: an unknown name, a missing file, invalid YAML, an invalid template."""
    with pytest.raises(
        af.errors.UsageError, match="no template 'papr'. Packaged templates: default, paper. Pass the path"
    ):
        ProjectTemplate.load("papr")
    with pytest.raises(af.errors.UsageError, match=r"x\.yaml cannot be read: "):
        ProjectTemplate.load(tmp_path / "x.yaml")
    for text, message in (
        ("a: [", "cannot be read as YAML: line 1, column"),
        ("[" * 3000, "cannot be read as YAML: line 1, column"),
        ("7", "cannot be used"),
        ("\xff", "is not text in UTF-8"),
    ):
        (tmp_path / "x.yml").write_bytes(text.encode("latin-1"))
        with pytest.raises(af.errors.UsageError, match=message):
            ProjectTemplate.load(tmp_path / "x.yml")
