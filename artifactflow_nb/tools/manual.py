"""The manual of tools: what a system prompt says of them where calls are written in the text."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artifactflow_nb.tools.base import Tool


def manual(tools: "Sequence[Tool]") -> str:
    """What each is for, its parameters and how to write the call."""
    return "\n\n".join(_entry(entry) for entry in tools)


def _entry(entry: "Tool") -> str:
    spec = entry.spec
    required = spec.parameters.get("required", [])
    lines = [f"### {spec.name}", spec.description, "", "Parameters:"]
    for name, prop in spec.parameters.get("properties", {}).items():
        need = "required" if name in required else "optional"
        need += f", default {prop['default']!r}" if name not in required and "default" in prop else ""
        about = " ".join(filter(None, [prop.get("description", ""), _fields(prop)]))
        lines.append(f"- {name} ({_kind(prop)}, {need}): {about}".rstrip(": "))
    return "\n".join([*lines, "", entry.example()])


def _fields(prop: Mapping[str, Any]) -> str:
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
