"""The manual of tools: what a system prompt says of them where calls are written in the text."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artifactflow_nb.tools.base import Tool


def manual(tools: "Sequence[Tool]") -> str:
    """What each is for, its parameters and how to write the call."""
    return "\n\n".join(entry.manual for entry in tools)


def entry_of(entry: "Tool") -> str:
    """What the manual says of one tool."""
    spec = entry.spec
    required = spec.parameters.get("required", [])
    lines = [f"### {spec.name}", spec.description, "", "Parameters:"]
    for name, prop in spec.parameters.get("properties", {}).items():
        need = "required" if name in required else "optional"
        need += f", default {prop['default']!r}" if name not in required and "default" in prop else ""
        about = " ".join(filter(None, [prop.get("description", ""), _written_out(prop)]))
        kind = "object" if object_fields(spec.parameters, prop) else _kind(prop)
        lines.append(f"- {name} ({kind}, {need}): {about}".rstrip(": "))
        lines += [f"  - {line}" for line in _fields(spec.parameters, prop)]
    return "\n".join([*lines, "", entry.example()])


def item_fields(schema: Mapping[str, Any], prop: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of the objects that a list holds, by name; empty for any other parameter.

    Args:
        schema: The whole schema of the parameters.
        prop: The part that describes the list.
    """
    reference = str(prop.get("items", {}).get("$ref", "")).removeprefix("#/$defs/")
    found: Mapping[str, Any] = schema.get("$defs", {}).get(reference, {}).get("properties", {})
    return found


def _fields(schema: Mapping[str, Any], prop: Mapping[str, Any]) -> list[str]:
    """What an object, or each of a list, holds, a line a field."""
    fields, lead = item_fields(schema, prop), "each an object in JSON with:"
    if not fields:
        fields, lead = object_fields(schema, prop), "an object in JSON with:"
    told = [f"{name} ({_kind(field)}): {field.get('description', '')}".rstrip(": ") for name, field in fields.items()]
    return [lead, *told] if told else []


def object_fields(schema: Mapping[str, Any], prop: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of the object that a parameter is, by name; empty for any other. Arguments as for `item_fields`."""
    for one in prop.get("anyOf", [prop]):
        if reference := str(one.get("$ref", "")).removeprefix("#/$defs/"):
            found: Mapping[str, Any] = schema.get("$defs", {}).get(reference, {}).get("properties", {})
            return found
    return {}


def placeholder(prop: Mapping[str, Any], schema: Mapping[str, Any]) -> str | list[Any] | dict[str, Any]:
    """What stands for a parameter in an example of a call: its kind. Arguments as for `item_fields`."""
    if fields := item_fields(schema, prop) or object_fields(schema, prop):
        one = {name: placeholder(field, {}) for name, field in fields.items()}
        return one if object_fields(schema, prop) else [one, "..."]
    if prop.get("type") == "array":
        return [str(prop.get("items", {}).get("type", "value")), "..."]
    return str(prop.get("type", "value"))


def _written_out(prop: Mapping[str, Any]) -> str:
    """The fields of an object, or of a list's objects, whose schema is written out."""
    inner = prop.get("items") if prop.get("type") == "array" else prop
    for one in prop.get("anyOf", [inner]):
        if isinstance(one, Mapping) and one.get("properties"):
            return f"Its fields, as JSON schema: {json.dumps(one['properties'], ensure_ascii=False)}"
    return ""


def _kind(prop: Mapping[str, Any]) -> str:
    """The kind of a parameter as the manual says it: its JSON type, or the values to choose from."""
    if "anyOf" in prop:
        kinds = [_kind(choice) for choice in prop["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds)) or "any"
    if "enum" in prop:
        return f"one of {', '.join(json.dumps(value, ensure_ascii=False) for value in prop['enum'])}"
    return str(prop.get("type", "any"))
