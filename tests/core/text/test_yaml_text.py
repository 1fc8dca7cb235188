"""YAML files: limits of time and memory, and errors with file and line."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from artifactflow_nb.core.text.yaml_text import MAX_CHARS, load_yaml
from artifactflow_nb.engine.flow_registry import load_graph_config
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.projects.named_texts import load_shared_skills
from artifactflow_nb.plugins.projects.project import ProjectTemplate

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""A few lines that expand to 387 million texts."""


@pytest.fixture(autouse=True)
def bounds() -> Iterator[None]:
    """Limit each test to 100 MB; LAUGHS, expanded, takes gigabytes."""
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000_000


def from_skill(path: Path) -> Any:
    text = path.read_bytes()
    (path.parent / "skill.md").write_bytes(b"---\n" + text + b"---\nSay it shortly.\n")
    return load_shared_skills(path.parent)


@pytest.mark.parametrize("load", [load_graph_config, ProjectTemplate.load, from_skill])
def test_aliases_are_rejected_in_every_file(tmp_path: Path, load: Callable[[Path], Any]) -> None:
    """For a graph configuration, a template and a skill, the error has the file and the line."""
    path = tmp_path / "laughs.yaml"
    path.write_text(LAUGHS)
    with pytest.raises(UsageError) as refused:
        load(path)
    line = 2 if load is from_skill else 1
    assert f"line {line}, column 4: &a is an anchor or an alias. Write the value out instead." in str(refused.value)
    assert ("skill.md" if load is from_skill else "laughs.yaml") in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: *b\n", "line 1, column 4: *b is an anchor or an alias"),
        ("a: 1\nb:\n  - &x 3\n", "line 3, column 5: &x is an anchor or an alias"),
        ("[" * 100_000, "line 1, column 51: values are nested in more than 50 levels"),
        ("- " * 50_000 + "x", "line 1, column 101: values are nested in more than 50 levels"),
        ("{a: " * 100, "values are nested in more than 50 levels"),
        (b"a: 1\nb: \xff\n", "is not UTF-8: line 2 has the byte 0xff. Save it as UTF-8"),
        ("a: 1\nb: \x00\n", "line 2, column 4: the character '\\x00' is not allowed"),
        ("a: 1\na: 2\n", "line 2, column 1: the key 'a' appears twice"),
        ("1: 1\n0x1: 2\n", "line 2, column 1: the key 1 appears twice"),
        ("? [a]\n: 1\n", "line 1, column 3: a key must be a plain text"),
        ("<<: {a: 1}\n", "line 1, column 1: a key must be a plain text"),
        ("a: !!python/object/apply:os.getcwd []\n", "line 1, column 4: 'tag:yaml.org,2002:python/object/apply"),
        ("a: !!timestamp x\n", "'tag:yaml.org,2002:timestamp' is a tag, and tags are not read"),
        ("a: !!bool x\n", "'tag:yaml.org,2002:bool' is a tag, and tags are not read"),
        ("a: " + "9" * 5000, "line 1, column 4: a number has 5000 characters; at most 40 are read"),
        ("a: 0x" + "f" * 5000, "line 1, column 4: a number has 5002 characters"),
        ("a: 1" + ":30" * 30_000, "line 1, column 4: a number has 90001 characters"),
        ("a: 0x_", "line 1, column 4: '0x_' is not a number. Put quotes around it if it is a text"),
        ('a: "\\U00110000"', "cannot be read as YAML: line 1"),
        ("a: [1, 2\n", "line 2, column 1: expected ',' or ']'"),
        ("a: " + "x" * MAX_CHARS, "has 200,003 characters; at most 200,000 are read"),
    ],
)
def test_error_has_the_problem_and_the_line(text: str | bytes, problem: str) -> None:
    """The message is one short line."""
    with pytest.raises(UsageError) as refused:
        load_yaml(text, "The file x.yaml")
    assert str(refused.value).startswith("The file x.yaml ")
    assert problem in str(refused.value)
    assert len(str(refused.value)) < 400


def test_errors_in_front_matter_have_line_numbers_of_the_file() -> None:
    """Front matter starts in line 2 of its file."""
    with pytest.raises(UsageError, match="line 3, column 1: the key 'a'"):
        load_yaml("a: 1\na: 2\n", "Its front matter", first_line=2)


def test_ordinary_values_are_read() -> None:
    """Texts, numbers, true, null, lists and mappings are read; a date is a text, and so is any value in quotes."""
    text = "a: [1, -2, 0.5, 1e-3, true, null, 'x']\nday: 2026-02-30\nquoted: '*x'\n\"<<\": folded\nzh: 目标\n"
    assert load_yaml(text, "x") == {
        "a": [1, -2, 0.5, "1e-3", True, None, "x"],
        "day": "2026-02-30",
        "quoted": "*x",
        "<<": "folded",
        "zh": "目标",
    }
    assert load_yaml(b"\xef\xbb\xbfa: 1", "x") == {"a": 1}
    assert load_yaml("# nothing\n", "x") is None


def test_dates_and_nan_are_rejected_by_the_configuration(tmp_path: Path) -> None:
    """The error has the expected type."""
    path = tmp_path / "my.yaml"
    path.write_text("agent: {temperature: .nan, max_tool_rounds: 2026-01-01}\n")
    with pytest.raises(UsageError) as refused:
        load_graph_config(path)
    assert "agent.temperature is nan; it must be a number from 0 to 2" in str(refused.value)
    assert "agent.max_tool_rounds is '2026-01-01'; it must be a whole number from 1" in str(refused.value)


def test_error_about_a_large_value_is_short(tmp_path: Path) -> None:
    """The error quotes only the start of a value of 180,000 characters, and only some of 10,000 unknown keys."""
    path = tmp_path / "my.yaml"
    path.write_text(f"executor: {'x' * 180_000}\n")
    with pytest.raises(UsageError) as refused:
        load_graph_config(path)
    assert len(str(refused.value)) < 500
    path.write_text("".join(f"key_{n}: 1\n" for n in range(10_000)))
    with pytest.raises(UsageError, match="… and 9,980 more") as refused:
        load_graph_config(path)
    assert len(str(refused.value)) < 20_000


def test_repr_of_a_huge_value_is_truncated_early() -> None:
    """A mapping with shared parts is shown without being expanded."""
    value: Any = ["x"] * 9
    for _ in range(9):
        value = [value] * 9
    assert len(brief({"a": value})) <= 201
    assert brief({"executor": {"max_steps": 4}}) == "{'executor': {'max_steps': 4}}"
    assert brief(10**6000) == "<integer of 19932 bits>"
    assert brief("x" * 10_000_000) == f"'{'x' * 199}…"


def test_argument_with_shared_parts_is_rejected_fast() -> None:
    """The error has the start of a mapping that would take gigabytes as text."""
    value: Any = ["x"] * 9
    for _ in range(9):
        value = [value] * 9
    with pytest.raises(UsageError, match="executor is ") as refused:
        load_graph_config({"executor": value, "other": value})
    assert len(str(refused.value)) < 1000
