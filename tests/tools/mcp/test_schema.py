"""Parameters of MCP tools: schemas for models, and arguments for servers."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from support.mcp_server import MARKUP

from artifactflow_nb.tools.mcp.schema import identifier, normalize_schema, params_model, server_arguments


def sent(schema: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a server with this schema gets for a call."""
    known, renamed = normalize_schema(schema)
    args = params_model("t", known).model_validate(params)
    values = {name: getattr(args, name) for name in type(args).model_fields}
    return server_arguments(known, renamed, {**(args.model_extra or {}), **values})


@pytest.mark.parametrize(
    ("declared", "value", "meant"),
    [
        ({"type": "string"}, " 2024 ", " 2024 "),
        ({"type": "string"}, "True", "True"),
        ({"type": "string"}, "", ""),
        ({"type": "integer"}, "2024", 2024),
        ({"type": "integer"}, 2024, 2024),
        ({"type": "number"}, "0.5", 0.5),
        ({"type": "number"}, "5", 5),
        ({"type": "number"}, 5, 5),
        ({"type": "number"}, "-1e3", -1000.0),
        ({"type": "boolean"}, "false", False),
        ({"type": ["integer", "null"]}, "7", 7),
        ({"type": ["integer", "null"]}, None, None),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "7", "7"),
        ({"type": "array", "items": {"type": "string"}}, ["1", "2"], ["1", "2"]),
        ({"type": "array", "items": {"type": "integer"}}, ["1", "2"], [1, 2]),
        ({"type": "array"}, [1, "a"], [1, "a"]),
        ({"type": "array", "items": {"type": "object"}}, ['{"a": "1"}'], [{"a": "1"}]),
        ({"type": "object"}, '{"a": ["1", 2]}', {"a": ["1", 2]}),
        ({"type": "object"}, {"a": 1}, {"a": 1}),
        ({"$ref": "#/$defs/D"}, '{"a": 1}', {"a": 1}),
        ({"enum": ["A", 1, True, None]}, "A", "A"),
        ({"enum": ["A", 1, True, None]}, "1", 1),
        ({"enum": ["A", 1, True, None]}, "true", True),
        ({"const": 3}, "3", 3),
        ({}, "5", "5"),
        (True, "5", "5"),
        ({"type": "nonsense", "x": {"y": []}}, "5", "5"),
        ({"not": {"type": "string"}}, "5", "5"),
        ({"allOf": [{"type": "integer"}]}, "5", "5"),
    ],
)
def test_texts_are_converted_to_the_declared_type(declared: Any, value: Any, meant: Any) -> None:
    """A text stays unchanged if a text, or no type, is declared."""
    schema = {"properties": {"v": declared}, "required": ["v"], "$defs": {"D": {"type": "object"}}}
    found = sent(schema, {"v": value})["v"]
    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize(
    ("declared", "value", "problem"),
    [
        ({"type": "integer"}, "many", "valid integer"),
        ({"type": "number"}, "nan", "it must be a number"),
        ({"type": "number"}, True, "it must be a number"),
        ({"type": "boolean"}, "perhaps", "valid boolean"),
        ({"type": "object"}, "{", "it must be a JSON object"),
        ({"type": "object"}, "[1]", "valid dictionary"),
        ({"type": "string"}, ["a"], "valid string"),
        ({"enum": ["A", 1]}, "B", 'it must be one of "A", 1'),
        ({"enum": [1]}, True, "it must be one of 1"),
    ],
)
def test_value_of_another_type_is_refused(declared: Any, value: Any, problem: str) -> None:
    """A value that does not fit the declared type does not reach the server."""
    with pytest.raises(ValidationError, match=problem):
        sent({"properties": {"v": declared}}, {"v": value})


def test_omitted_parameters_are_not_sent() -> None:
    """The server applies its own defaults; null is sent only if the call has null."""
    schema = {"properties": {"a": {"type": "string", "default": "x"}, "b": {"type": ["string", "null"]}}}
    assert sent(schema, {}) == {}
    assert sent(schema, {"b": None}) == {"b": None}


def test_undeclared_parameters_need_additional_properties() -> None:
    """Without `additionalProperties` the model gets an error."""
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        sent({"properties": {}}, {"made_up": 1})
    assert sent({"properties": {}, "additionalProperties": {"type": "string"}}, {"any": "x"}) == {"any": "x"}


@pytest.mark.parametrize(
    "name", ["schema", "copy", "json", "model_dump", "model_config", "ctx", "self", "class", "name", "params"]
)
def test_parameter_may_have_any_identifier_as_name(name: str) -> None:
    """Names with a meaning in Python or in the libraries work without a warning."""
    assert normalize_schema({"properties": {name: {}}})[1] == {}
    assert sent({"properties": {name: {"type": "integer"}}}, {name: "1"}) == {name: 1}


def test_renamed_parameters_are_sent_by_their_original_names() -> None:
    """A name that a protocol cannot express is replaced for the model only."""
    schema = {"properties": {"$filter": {}, "x-y": {}, "x.y": {}, MARKUP: {}, "": {}, "年": {}}, "required": ["x-y"]}
    known, renamed = normalize_schema(schema)
    names = list(known["properties"])
    assert names[:3] == ["filter", "x_y", "x_y_2"]
    assert all(name.isidentifier() and len(name) <= 64 for name in names)
    assert known["required"] == ["x_y"]
    assert {renamed.get(name, name) for name in names} == set(schema["properties"])
    assert sent(schema, {"x_y": "1", "filter": "2"}) == {"$filter": "2", "x-y": "1"}


def test_references_are_inlined_without_recursion() -> None:
    """A recursive reference is expanded once; a dangling reference allows any value."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "lost": {"$ref": "#/$defs/lost"}}}
    known, _ = normalize_schema({"properties": {"node": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})
    assert known["properties"] == {"node": {"type": "object", "properties": {"next": {}, "lost": {}}}}


def test_schema_is_bounded() -> None:
    """A long schema is reduced to the types of its parameters; an exponentially growing schema is cut."""
    long = {"properties": {f"p{n}": {"type": "string", "description": "d" * 1000} for n in range(100)}}
    assert len(json.dumps(normalize_schema(long)[0])) < 5_000
    doubling = {f"d{n}": {"properties": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "ab"}} for n in range(40)}
    assert (
        len(json.dumps(normalize_schema({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": doubling})[0])) < 41_000
    )


@pytest.mark.parametrize("schema", [None, [], "x", {"properties": 3}, {"properties": {"a": 3}, "required": 3}])
def test_invalid_schema_allows_any_parameters(schema: Any) -> None:
    """An invalid schema gives no parameters or parameters of any type."""
    known, _ = normalize_schema(schema)
    assert known["type"] == "object"
    assert sent(schema, dict.fromkeys(known["properties"], "1")) == dict.fromkeys(known["properties"], "1")


def test_stored_schema_gives_the_same_parameters() -> None:
    """The schema of a stored offer gives the same model of parameters."""
    schema = {
        "properties": {"x-y": {"type": ["string", "null"], "enum": ["b", "a"]}, "o": {"allOf": [{"type": "null"}]}}
    }
    known, _ = normalize_schema(schema)
    assert json.dumps(normalize_schema(json.loads(json.dumps(known)))[0]) == json.dumps(known)


@pytest.mark.parametrize(
    ("name", "word"),
    [("read_file", "read_file"), ("read-file", "read_file"), ("7zip", "tool_7zip"), ("", "tool"), ("年", "tool")],
)
def test_tool_names_are_identifiers(name: str, word: str) -> None:
    """A tool's name has only characters that every endpoint accepts."""
    assert identifier(name, "tool") == word
