"""Strict YAML for hand-written files: plain values only, and errors with file and line.

Aliases are rejected because a few lines of them can expand to gigabytes, deep nesting because it exhausts the stack,
and duplicate keys because the first value would be lost silently. Dates are read as text, since no setting is a date.
"""

from collections.abc import Hashable
from typing import Any

import yaml

from artifactflow_nb.errors import UsageError

MAX_CHARS = 200_000
MAX_LEVELS = 50
MAX_DIGITS = 40

_MESSAGE_CHARS = 200


class _Loader(yaml.SafeLoader):
    """Safe loader that rejects aliases, tags, merge keys, deep nesting, long numbers and duplicate keys."""

    levels = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            raise _error(event, f"{sign}{event.anchor} is an anchor or an alias. Write the value out instead")
        if event.tag not in {None, "!"}:
            raise _error(event, f"{event.tag!r} is a tag, and tags are not read. Remove it")
        self.levels += 1
        if self.levels > MAX_LEVELS:
            raise _error(event, f"values are nested in more than {MAX_LEVELS} levels")
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                raise _error(key, "a key must be a plain text; lists, mappings and '<<' are not read as keys")
            name = self.construct_object(key)
            if name in seen:
                raise _error(key, f"the key {name!r:.80} appears twice")
            seen.add(name)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """Parse an integer or float; long base-60 numbers of YAML 1.1 (`1:30:...`) would take minutes."""
        if len(node.value) > MAX_DIGITS:
            raise _error(node, f"a number has {len(node.value)} characters; at most {MAX_DIGITS} are read")
        is_integer = node.tag == "tag:yaml.org,2002:int"
        try:
            return self.construct_yaml_int(node) if is_integer else self.construct_yaml_float(node)
        except ValueError:
            raise _error(node, f"{node.value!r} is not a number. Put quotes around it if it is a text") from None


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_number)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda _loader, node: node.value)


def load_yaml(text: str | bytes, location: str, *, first_line: int = 1) -> Any:
    """Parse YAML into mappings, lists, texts, numbers, booleans and None.

    `location` begins error messages, e.g. `The template course.yaml`; `first_line` is the line number of the text.

    Errors: `UsageError` with the location, line and column.
    """
    text = _decode(text, location)
    if len(text) > MAX_CHARS:
        raise UsageError(f"{location} has {len(text):,} characters; at most {MAX_CHARS:,} are read.")
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        problem = error.problem or error.context or "it is not YAML"
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n"), len(before) - before.rfind("\n") - 1
        problem = f"the character {chr(error.character)!a} is not allowed"
    except (yaml.YAMLError, ValueError) as error:  # e.g. for "\U00110000", which is not a code point
        line, column, problem = 0, 0, str(error)
    cut = problem if len(problem) <= _MESSAGE_CHARS else f"{problem[:_MESSAGE_CHARS]}…"
    raise UsageError(f"{location} cannot be read as YAML: line {line + first_line}, column {column + 1}: {cut}.")


def _decode(text: str | bytes, location: str) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode().removeprefix("\ufeff")  # the codec "utf-8-sig" is a module, which may not be readable now
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{location} is not UTF-8: line {line} has the byte {text[error.start]:#04x}. Save it as UTF-8."
        ) from None


def _error(node: Any, problem: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
