"""A form made from a tool's signature: its parameters as fields of a page, and what the page sends as parameters.

A field that comes back as it was shown is the parameter as it was, whatever its type: what nobody touched stays.
What a field cannot show exactly is shown as JSON. A budget has no tool; its form are its limits.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from artifactflow_nb.budget import Budget
from artifactflow_nb.errors import FormError, ToolError
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.form_shapes import LIMITS, Kind, Parameter, Shape, as_json, parameters, parameters_of
from artifactflow_nb.tools.form_values import UnfitError, quoted, read_value

Shown = str | bool | tuple[str, ...] | tuple[int, ...] | None

LINE_CHARS = 80
"""A longer text is edited in a field of several lines."""

_BLANK: dict[Kind, Shown] = {"checkbox": False, "list": (), "items": ()}
_HELD: dict[Kind, tuple[type, ...]] = {"checkbox": (bool,), "integer": (int,), "number": (int, float)}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Attributes:
        name: Its name among the values that the page sends.
        kind: `text` (a line), `multiline`, `integer`, `number`, `checkbox`, `choice`, `json`, `list` (a text a line) or
            `items` (objects with fields of their own, to be changed, moved, added and removed).
        value: What the page shows, and sends back if nobody changes it: a text; whether a checkbox is checked; the
            items of a list; of `items` their places from 0; None for no value.
        label: What it is called; its name if empty.
        choices: What a `choice` offers, as the page shows it.
        items: The fields of each of the `items`.
        blank: The fields of one that is added.
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
    items: tuple[tuple["Field", ...], ...] = ()
    blank: tuple["Field", ...] = ()
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
            "items": [[field.as_json() for field in item] for item in self.items],
            "blank": [field.as_json() for field in self.blank],
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


def form_fields(tool: Tool | None, params: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields for these parameters of a call, in the order of the signature.

    Args:
        tool: The tool; None for a request about the budget, whose fields are the limits.
        params: The parameters, as JSON values; a parameter that is missing is shown with its default.
    """
    shown = _with_objects(tool, params)
    return tuple(_field(one, shown) for one in parameters(tool))


def value_fields(values: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields for values of which no signature is known: each is edited as what it is."""
    return tuple(_field(one, values) for one in parameters_of(values))


def read_form(tool: Tool | None, params: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a form means, which `Tool.bind` accepts.

    Args:
        tool: As for `form_fields`.
        params: The parameters that the form was made from.
        values: What the page sent, by field; a field that is missing counts as not touched. Of `items` that were
            touched it sends a list: the place of one that is as it was, else `{"of": place or None, "values": values}`.

    Errors: `FormError` with what is wrong with each field, those of `items` as `steps.0.title`; under the empty name
        what is wrong with all together.
    """
    shown = _with_objects(tool, params)
    read, errors = _read(parameters(tool), params, values, shown)
    if errors := errors or dict(_problems(tool, read, shown)):
        raise FormError(errors)
    return read


def read_values(values: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a form means which `value_fields` made of them, from what the page sent.

    Errors: `FormError` with what is wrong with each field.
    """
    read, errors = _read(parameters_of(values), values, sent, values)
    if errors:
        raise FormError(errors)
    return read


# --- what a page shows ---------------------------------------------------------------------------------------------


def _with_objects(tool: Tool | None, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters with every list of objects as such, where agents may have written an object in another way."""
    of_items = [one for one in parameters(tool) if one.shape.kind == "items" and one.name in params]
    unclear = [one.name for one in of_items if not _are_objects(one.shape, params[one.name])]
    if tool is None or not unclear:
        return params
    try:
        bound = tool.bind(params).model_dump(mode="json", include=set(unclear), exclude_unset=True)
    except ToolError:
        return params
    alike = {name: made for name, made in bound.items() if _is_as_long(made, params[name])}
    return {**params, **alike}


def _are_objects(shape: Shape, value: Any) -> bool:
    """Whether fields can hold all that a list of objects has."""
    names = {column.name for column in shape.columns}
    return isinstance(value, list) and all(isinstance(item, dict) and item.keys() <= names for item in value)


def _is_as_long(made: Any, written: Any) -> bool:
    return isinstance(made, list) and isinstance(written, list) and len(made) == len(written)


def _field(parameter: Parameter, params: Mapping[str, Any]) -> Field:
    name, prop, shape = parameter.name, parameter.schema, parameter.shape
    held = params.get(name, prop.get("default"))
    kind, value = _shown(shape, held)
    items = (
        tuple(tuple(_field(column, item) for column in shape.columns) for item in held or ()) if kind == "items" else ()
    )
    return Field(
        name,
        kind,
        value,
        choices=shape.labels if kind == "choice" else (),
        items=items,
        blank=tuple(_field(column, {}) for column in shape.columns) if kind == "items" else (),
        required=bool(prop.get("required")),
        nullable=shape.nullable,
        doc=str(prop.get("description", "")),
        placeholder="no limit" if name in LIMITS and "required" not in prop else "",
        monospace=kind == "json",
    )


def _shown(shape: Shape, value: Any) -> tuple[Kind, Shown]:
    """The kind of field for a value, and what stands in it; JSON where no other field can hold it exactly."""
    if value is None:
        return shape.kind, None if shape.nullable else _BLANK.get(shape.kind, "")
    if shape.kind == "choice" and (said := _label(shape, value)) is not None:
        return "choice", said
    if isinstance(value, list) and (places := _listed(shape, value)) is not None:
        return shape.kind, places
    if shape.kind == "text" and isinstance(value, str):
        return ("text" if len(value) <= LINE_CHARS and not _breaks(value) else "multiline"), value
    if isinstance(value, _HELD.get(shape.kind, ())) and isinstance(value, bool) == (shape.kind == "checkbox"):
        return shape.kind, value if isinstance(value, bool) else repr(value)
    return "json", as_json(value, indent=2 if isinstance(value, list | dict) and value else None)


def _listed(shape: Shape, value: list[Any]) -> Shown:
    """What a field of a list shows: the texts, or the places of the objects; None if it cannot hold them."""
    if shape.kind == "list" and all(map(_is_one_line, value)):
        return tuple(value)
    if shape.kind == "items" and _are_objects(shape, value):
        return tuple(range(len(value)))
    return None


def _is_one_line(item: Any) -> bool:
    return isinstance(item, str) and bool(item.strip()) and not _breaks(item)


def _breaks(text: str) -> bool:
    """Whether a page's field of one line would lose something of the text."""
    return "\n" in text or "\r" in text


def _label(shape: Shape, value: Any) -> str | None:
    known = map(as_json, shape.choices)  # as JSON: 1 and True are equal otherwise
    return dict(zip(known, shape.labels, strict=True)).get(as_json(value))


# --- what a page sends ---------------------------------------------------------------------------------------------


def _read(
    known: Iterable[Parameter], params: Mapping[str, Any], values: Mapping[str, Any], shown: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters that the values mean, and what is wrong with the others, by field."""
    read: dict[str, Any] = {}
    errors = {name: f"There is no parameter {name!r}." for name in values.keys() - {one.name for one in known}}
    for one in known:
        name, shape = one.name, one.shape
        field = _field(one, shown)
        answer = values.get(name, field.value)
        try:
            if not _is_untouched(field.value, answer):
                meant = read_value(field.kind, shape, answer)
                read[name] = _read_items(one, params, shown, meant) if field.kind == "items" and meant else meant
            elif name in params and not (params[name] is None and not shape.nullable):
                read[name] = params[name]  # a default that its own type does not allow is left out instead
        except UnfitError as unfit:
            errors |= {f"{name}.{where}": told for where, told in unfit.within.items()} or {name: str(unfit)}
    return read, errors


def _read_items(
    parameter: Parameter, params: Mapping[str, Any], shown: Mapping[str, Any], sent: Iterable[Any]
) -> list[Any]:
    """The items of a list that was changed: as they were written where they are as they were."""
    default = parameter.schema.get("default")
    written, objects = (values.get(parameter.name, default) or () for values in (params, shown))
    items: list[Any] = []
    errors: dict[str, str] = {}
    for place, entry in enumerate(sent):
        of, values = _entry(entry, len(objects))
        if values is None:
            items.append(written[of])
            continue
        item = {} if of is None else objects[of]
        read, wrong = _read(parameter.shape.columns, item, values, item)
        items.append(read)
        errors |= {f"{place}.{name}": told for name, told in wrong.items()}
    if errors:
        raise UnfitError("Some of the items do not fit.", errors)
    return items


def _entry(entry: Any, n_given: int) -> tuple[Any, Mapping[str, Any] | None]:
    """The place of the item that an entry is about, None for a new one; and its values, None if it is as it was."""
    match entry:
        case bool():
            pass
        case int(of) if 0 <= of < n_given:
            return of, None
        case {"of": None, "values": dict(values)}:
            return None, values
        case {"of": int(of), "values": dict(values)} if 0 <= of < n_given:
            return of, values
    raise UnfitError(f"{quoted(entry)} is not an item of this list.")


def _is_untouched(shown: Shown, answer: Any) -> bool:
    if isinstance(shown, tuple):
        return isinstance(answer, list | tuple) and list(shown) == list(answer)
    return type(shown) is type(answer) and shown == answer


def _problems(tool: Tool | None, params: Mapping[str, Any], shown: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the parameters' types say against them, a field at a time; then what the tool says."""
    model: type[BaseModel] = Budget if tool is None else tool.params
    of_items = {one.name: one.shape for one in parameters(tool) if _field(one, shown).kind == "items"}
    try:
        model.model_validate(params)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            name, *within = _place(of_items, tuple(map(str, detail["loc"] or ("",))))
            where = f" at {'.'.join(within)}" if within else ""
            is_missing = detail["type"] == "missing"
            said = f"There is no value{where}" if is_missing else f"{quoted(detail['input'])}{where} does not fit"
            yield name, said + ("." if is_missing else f": {detail['msg'].lower()}.")
        return
    try:
        if tool is not None:
            tool.bind(params)
    except ToolError as error:
        yield "", str(error)


def _place(of_items: Mapping[str, Shape], loc: tuple[str, ...]) -> tuple[str, ...]:
    """Where an error stands, from the name of its field on: of `items` that is one within an item."""
    match loc:
        case (name, place, column, *within) if name in of_items:
            if any(known.name == column for known in of_items[name].columns):
                return (f"{name}.{place}.{column}", *within)
    return loc
