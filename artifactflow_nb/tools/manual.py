"""Manual of tools: their description in the system prompt when calls use the text protocol."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artifactflow_nb.tools.base import Tool


def tool_manual(tools: "Sequence[Tool]") -> str:
    """Return the manual of several tools: purpose, parameters and an example call of each tool."""
    return "\n\n".join(entry.manual for entry in tools)


def tool_entry(entry: "Tool") -> str:
    """Return the manual of one tool."""
    spec = entry.spec
    required = spec.parameters.get("required", [])
    lines = [f"### {spec.name}", spec.description, "", "Parameters:"]
    for name, prop in spec.parameters.get("properties", {}).items():
        need = "required" if name in required else "optional"
        need += f", default {prop['default']!r}" if name not in required and "default" in prop else ""
        meaning = str(prop.get("description", ""))
        # Schemas of MCP servers contain their objects inline, without `$ref`.
        inner = prop.get("items") if prop.get("type") == "array" else prop
        objects = (part for part in prop.get("anyOf", [inner]) if isinstance(part, Mapping) and part.get("properties"))
        if inline := next(objects, None):
            meaning += f" Its fields, as JSON schema: {json.dumps(inline['properties'], ensure_ascii=False)}"
        kind = "object" if object_fields(spec.parameters, prop) else _kind(prop)
        lines.append(f"- {name} ({kind}, {need}): {meaning.lstrip()}".rstrip(": "))
        lines += [f"  - {line}" for line in _fields(spec.parameters, prop)]
    return "\n".join([*lines, "", entry.example()])


def item_fields(schema: Mapping[str, Any], prop: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of the objects in a list parameter, by name; other parameters have no fields.

    Args:
        schema: The schema of all parameters, which has the definitions.
        prop: The schema of the list.
    """
    return _definition_fields(schema, prop.get("items", {}))


def _definition_fields(schema: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = str(part.get("$ref", "")).removeprefix("#/$defs/")
    fields: Mapping[str, Any] = schema.get("$defs", {}).get(reference, {}).get("properties", {})
    return fields


def _fields(schema: Mapping[str, Any], prop: Mapping[str, Any]) -> list[str]:
    """Return a line for each field of an object parameter, or of the objects in a list."""
    fields, lead = item_fields(schema, prop), "each an object in JSON with:"
    if not fields:
        fields, lead = object_fields(schema, prop), "an object in JSON with:"
    lines = [f"{name} ({_kind(field)}): {field.get('description', '')}".rstrip(": ") for name, field in fields.items()]
    return [lead, *lines] if lines else []


def object_fields(schema: Mapping[str, Any], prop: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an object parameter, by name; other parameters have no fields. See `item_fields`."""
    for alternative in prop.get("anyOf", [prop]):  # an optional object is `anyOf` of the object and null
        if alternative.get("$ref"):
            return _definition_fields(schema, alternative)
    return {}


def placeholder(prop: Mapping[str, Any], schema: Mapping[str, Any]) -> str | list[Any] | dict[str, Any]:
    """Return the value of a parameter in an example call: its JSON type. Arguments as for `item_fields`."""
    if fields := item_fields(schema, prop) or object_fields(schema, prop):
        example = {name: placeholder(field, {}) for name, field in fields.items()}
        return example if object_fields(schema, prop) else [example, "..."]
    if prop.get("type") == "array":
        return [str(prop.get("items", {}).get("type", "value")), "..."]
    return str(prop.get("type", "value"))


def _kind(prop: Mapping[str, Any]) -> str:
    """Return the type of a parameter for the manual: its JSON type, or the possible values."""
    if "anyOf" in prop:
        kinds = [_kind(choice) for choice in prop["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds)) or "any"
    if "enum" in prop:
        return f"one of {', '.join(json.dumps(value, ensure_ascii=False) for value in prop['enum'])}"
    return str(prop.get("type", "any"))
