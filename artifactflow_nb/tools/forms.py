"""A form made from a tool's signature: its parameters as fields of a page, and what the page sends as parameters.

A field that comes back as it was shown is the parameter as it was, whatever its type: what nobody touched stays.
What a field cannot show exactly is shown as JSON. A budget has no tool; its form are its limits.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from artifactflow_nb.budget import Budget
from artifactflow_nb.errors import FormError, ToolError
from artifactflow_nb.store.storable import to_json
from artifactflow_nb.text.width import clip
from artifactflow_nb.tools.base import Tool

Kind = Literal["text", "multiline", "integer", "number", "checkbox", "choice", "json", "list"]
Shown = str | bool | tuple[str, ...] | None

LINE_CHARS = 80
"""A longer text is edited in a field of several lines."""

_LARGEST = 2**63
_REFERENCE = "#/$defs/"
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_BLANK: dict[Kind, Shown] = {"checkbox": False, "list": ()}
_NULL = {"const": None}
_KINDS: dict[frozenset[str], Kind] = {
    frozenset({"string"}): "text",
    frozenset({"integer"}): "integer",
    frozenset({"number"}): "number",
    frozenset({"integer", "number"}): "number",
}
_SENT: dict[Kind, type] = {"checkbox": bool, "list": list}
_HELD: dict[Kind, tuple[type, ...]] = {"checkbox": (bool,), "integer": (int,), "number": (int, float)}
_LIMITS = {
    "tokens": "Input and output tokens of all model calls of the run, those that are spent included.",
    "usd": "US dollars that these calls cost.",
    "seconds": "Seconds that the run is at work, without the time in which it waits for you.",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Attributes:
        name: Its name among the values that the page sends.
        kind: `text` (a line), `multiline`, `integer`, `number`, `checkbox`, `choice`, `json` or `list` (a text a line).
        value: What the page shows, and sends back if nobody changes it: a text; whether a checkbox is checked; the
            items of a list; None for no value.
        label: What it is called; its name if empty.
        choices: What a `choice` offers, as the page shows it.
        required: Whether the parameter has no default.
        nullable: Whether no value at all is a value.
        doc: What it is for.
        placeholder: What stands in it while it is empty.
        rows: The least number of lines of a `multiline`, `json` or `list`; 0 for the usual.
        hide_label: Whether only screen readers are told the label.
        autofocus: Whether it has the focus when the form is shown.
        monospace: Whether its text is code.
        keep: Whether what was sent stays in it; otherwise it is as at the beginning again.
    """

    name: str
    kind: Kind
    value: Shown = ""
    label: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    nullable: bool = False
    doc: str = ""
    placeholder: str = ""
    rows: int = 0
    hide_label: bool = False
    autofocus: bool = False
    monospace: bool = False
    keep: bool = False

    def as_json(self) -> dict[str, Any]:
        """The field as the page's `makeForm` takes it: JSON values, and only what says something."""
        told = {
            "label": self.label or self.name,
            "choices": list(self.choices),
            "required": self.required,
            "nullable": self.nullable,
            "doc": self.doc,
            "placeholder": self.placeholder,
            "rows": self.rows,
            "hideLabel": self.hide_label,
            "autofocus": self.autofocus,
            "monospace": self.monospace,
            "keep": self.keep,
        }
        shown = list(self.value) if isinstance(self.value, tuple) else self.value
        return {"name": self.name, "kind": self.kind, "value": shown} | {key: one for key, one in told.items() if one}


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a parameter may hold, as far as a page has a field for it."""

    kind: Kind
    nullable: bool = False
    choices: tuple[Any, ...] = ()
    whole: bool = False  # of numbers: whether integers stay integers

    @property
    def labels(self) -> tuple[str, ...]:
        """The choices as the page shows them, no two alike."""
        said = [choice if isinstance(choice, str) else _json(choice) for choice in self.choices]
        return tuple(said if len(set(said)) == len(said) else map(_json, self.choices))


class _Unfit(Exception):
    """What stands in a field cannot be the parameter; the message is for the person."""


def form_fields(tool: Tool | None, params: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields for these parameters of a call, in the order of the signature.

    Args:
        tool: The tool; None for a request about the budget, whose fields are the limits.
        params: The parameters, as JSON values; a parameter that is missing is shown with its default.
    """
    return tuple(_field(name, prop, shape, params) for name, prop, shape in _parameters(tool))


def read_form(tool: Tool | None, params: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a form means, which `Tool.bind` accepts.

    Args:
        tool: As for `form_fields`.
        params: The parameters that the form was made from.
        values: What the page sent, by field; a field that is missing counts as not touched.

    Errors: `FormError` with what is wrong with each field; under the empty name what is wrong with all together.
    """
    read: dict[str, Any] = {}
    errors = {name: f"There is no parameter {name!r}." for name in values.keys() - {p[0] for p in _parameters(tool)}}
    for name, prop, shape in _parameters(tool):
        shown = _field(name, prop, shape, params)
        answer = values.get(name, shown.value)
        try:
            if not _is_untouched(shown.value, answer):
                read[name] = _read(shown.kind, shape, answer)
            elif name in params and not (params[name] is None and not shape.nullable):
                read[name] = params[name]  # a default that its own type does not allow is left out instead
        except _Unfit as unfit:
            errors[name] = str(unfit)
    if errors := errors or dict(_problems(tool, read)):
        raise FormError(errors)
    return read


# --- what a signature says -----------------------------------------------------------------------------------------


def _parameters(tool: Tool | None) -> list[tuple[str, Mapping[str, Any], _Shape]]:
    """Name, schema and shape of each parameter."""
    if tool is None:
        limits = Budget.model_json_schema()["properties"]
        properties = {name: {**limits[name], "description": doc} for name, doc in _LIMITS.items()}
        return [(name, prop, _shape(prop, {})) for name, prop in properties.items()]
    schema = tool.spec.parameters
    required = schema.get("required", ())
    properties = {name: {**prop, "required": name in required} for name, prop in schema.get("properties", {}).items()}
    return [(name, prop, _shape(prop, schema.get("$defs", {}))) for name, prop in properties.items()]


def _alternatives(prop: Any, definitions: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What a value may be, each possibility by itself; a schema that is no object allows anything."""
    if not isinstance(prop, Mapping):
        yield {}
    elif isinstance(reference := prop.get("$ref"), str):
        yield from _alternatives(definitions.get(reference.removeprefix(_REFERENCE)), definitions)
    elif isinstance(several := prop.get("anyOf") or prop.get("oneOf"), list):
        for one in several:
            yield from _alternatives(one, definitions)
    elif isinstance(values := prop.get("enum"), list):
        yield from ({"const": value} for value in values)
    elif isinstance(types := prop.get("type"), list):
        yield from ({**prop, "type": one} for one in types)
    else:
        yield _NULL if prop.get("type") == "null" else prop


def _shape(prop: Mapping[str, Any], definitions: Mapping[str, Any]) -> _Shape:
    found = list(_alternatives(prop, definitions))
    some = [one for one in found if one != _NULL]
    nullable = len(some) < len(found)
    if some and all("const" in one for one in some):
        return _Shape("choice", nullable, tuple(one["const"] for one in some))
    types = frozenset(str(one.get("type", "any")) for one in some)
    if types == {"boolean"}:
        return _Shape("choice", nullable, (True, False)) if nullable else _Shape("checkbox")
    if types == {"array"} and all(_holds_texts(one, definitions) for one in some):
        return _Shape("list", nullable)
    return _Shape(_KINDS.get(types, "json"), nullable or "any" in types, whole="integer" in types)


def _holds_texts(array: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    items = list(_alternatives(array.get("items"), definitions))
    return "prefixItems" not in array and all(one.get("type") == "string" and "const" not in one for one in items)


# --- what a page shows ---------------------------------------------------------------------------------------------


def _field(name: str, prop: Mapping[str, Any], shape: _Shape, params: Mapping[str, Any]) -> Field:
    kind, value = _shown(shape, params.get(name, prop.get("default")))
    return Field(
        name,
        kind,
        value,
        choices=shape.labels if kind == "choice" else (),
        required=bool(prop.get("required")),
        nullable=shape.nullable,
        doc=str(prop.get("description", "")),
        placeholder="no limit" if name in _LIMITS and "required" not in prop else "",
        monospace=kind == "json",
    )


def _shown(shape: _Shape, value: Any) -> tuple[Kind, Shown]:
    """The kind of field for a value, and what stands in it; JSON where no other field can hold it exactly."""
    if value is None:
        return shape.kind, None if shape.nullable else _BLANK.get(shape.kind, "")
    if shape.kind == "choice" and (said := _label(shape, value)) is not None:
        return "choice", said
    if shape.kind == "list" and isinstance(value, list) and all(map(_is_one_line, value)):
        return "list", tuple(value)
    if shape.kind == "text" and isinstance(value, str):
        return ("text" if len(value) <= LINE_CHARS and not _breaks(value) else "multiline"), value
    if isinstance(value, _HELD.get(shape.kind, ())) and isinstance(value, bool) == (shape.kind == "checkbox"):
        return shape.kind, value if isinstance(value, bool) else repr(value)
    return "json", _json(value, indent=2 if isinstance(value, list | dict) and value else None)


def _is_one_line(item: Any) -> bool:
    return isinstance(item, str) and bool(item.strip()) and not _breaks(item)


def _breaks(text: str) -> bool:
    """Whether a page's field of one line would lose something of the text."""
    return "\n" in text or "\r" in text


def _label(shape: _Shape, value: Any) -> str | None:
    known = map(_json, shape.choices)  # as JSON: 1 and True are equal otherwise
    return dict(zip(known, shape.labels, strict=True)).get(_json(value))


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


# --- what a page sends ---------------------------------------------------------------------------------------------


def _is_untouched(shown: Shown, answer: Any) -> bool:
    if isinstance(shown, tuple):
        return isinstance(answer, list | tuple) and list(shown) == list(answer)
    return type(shown) is type(answer) and shown == answer


def _read(kind: Kind, shape: _Shape, answer: Any) -> Any:
    """What a field means that was changed; `_Unfit` if it can mean nothing."""
    is_empty = answer is None or (isinstance(answer, str) and kind not in {"text", "multiline"} and not answer.strip())
    if is_empty and (shape.nullable or kind == "list"):
        return None if shape.nullable else []
    if is_empty:
        raise _Unfit("It needs a value.")
    sent_as = type(answer)
    if sent_as is not _SENT.get(kind, str):
        raise _Unfit(f"{_quoted(answer)} is not what a field of this kind holds.")
    match kind:
        case "integer":
            answer = _whole_number(answer)
        case "number":
            answer = _number(answer, whole=shape.whole)
        case "choice":
            answer = _chosen(shape, answer)
        case "list":
            answer = [item for item in answer if str(item).strip()]
        case "json":
            answer = _parsed(answer)
    return answer


def _chosen(shape: _Shape, label: str) -> Any:
    if label not in shape.labels:
        raise _Unfit(f"{_quoted(label)} is not one of {', '.join(shape.labels)}.")
    return shape.choices[shape.labels.index(label)]


def _whole_number(text: str) -> int:
    try:
        if _WHOLE_NUMBER.fullmatch(text.strip()):
            return _storable(text)
    except ValueError:
        pass
    raise _Unfit(f"{_quoted(text)} is not a whole number such as 12.")


def _number(text: str, *, whole: bool) -> float:
    try:
        if "_" not in text:  # Python takes it between digits, people do not
            return _storable(text) if whole and _WHOLE_NUMBER.fullmatch(text.strip()) else _finite(text)
    except ValueError:
        pass
    raise _Unfit(f"{_quoted(text)} is not a number such as 0.5.")


def _storable(text: str) -> int:
    """The integer; a decision keeps a larger one as text, and the tool would get that."""
    number = int(text)  # raises for more digits than Python takes
    if not -_LARGEST <= number < _LARGEST:
        raise ValueError(f"{clip(text, 60)} is beyond 64 bits")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number that JSON has")
    return number


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_storable)
        to_json(value)
    except json.JSONDecodeError as error:
        raise _Unfit(f"This is not JSON: {error.msg} (line {error.lineno}, column {error.colno}).") from None
    except ValueError as error:
        raise _Unfit(f"This is not JSON that can be stored: {error}.") from None
    except (RecursionError, TypeError):  # reading goes deeper than storing
        raise _Unfit("This JSON is nested too deeply.") from None
    return value


def _quoted(answer: Any) -> str:
    return repr(clip(answer, 60)) if isinstance(answer, str) else clip(_json(answer), 60)


def _problems(tool: Tool | None, params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the parameters' types say against them, a parameter at a time; then what the tool says."""
    model: type[BaseModel] = Budget if tool is None else tool.params
    try:
        model.model_validate(params)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            name, *within = map(str, detail["loc"] or ("",))
            where = f" at {'.'.join(within)}" if within else ""
            is_missing = detail["type"] == "missing"
            said = f"There is no value{where}" if is_missing else f"{_quoted(detail['input'])}{where} does not fit"
            yield name, said + ("." if is_missing else f": {detail['msg'].lower()}.")
        return
    try:
        if tool is not None:
            tool.bind(params)
    except ToolError as error:
        yield "", str(error)
