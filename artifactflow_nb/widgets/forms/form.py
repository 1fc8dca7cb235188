"""Forms for tool parameters: fields from a tool's signature, and parameters from the values that a page sends.

An unchanged field leaves its parameter exactly unchanged, regardless of its type. A value that no other field can
represent exactly is edited as JSON. The form of a budget request, which has no tool, has fields for the limits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.errors import FormError, ToolError
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.widgets.forms.schema import (
    FieldKind,
    Parameter,
    Shape,
    format_json,
    parameters_from_values,
    tool_parameters,
)
from artifactflow_nb.widgets.forms.values import FieldValueError, quote_value, read_value
from artifactflow_nb.widgets.page.nodes import Node

FieldValue = str | bool | tuple[str, ...] | tuple[int, ...] | None

LINE_CHARS = 80
"""Longer texts are edited in a multi-line field."""

_BLANK: dict[FieldKind, FieldValue] = {"checkbox": False, "list": (), "items": ()}
_VALUE_TYPES: dict[FieldKind, tuple[type, ...]] = {"checkbox": (bool,), "integer": (int,), "number": (int, float)}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Attributes:
        name: Key of the field among the values that the page sends.
        kind: `text` (one line), `multiline`, `integer`, `number`, `checkbox`, `choice`, `json`, `list` (one text per
            line) or `items` (objects with fields of their own, which can be edited, moved, added and removed).
        value: Initial value, which the page sends back if unchanged: a text, the state of a checkbox, the
            texts of a `list`, the indexes of `items`; None for no value.
        label: Visible label; `name` if empty.
        choices: Labels of a `choice`, or the texts from which a `list` is chosen.
        choice_names: Display names of the choices, in their order; the choices themselves by default.
        items: The fields of each of the `items`.
        blank: The fields of a new item.
        required: Whether the parameter has no default.
        nullable: Whether None is a valid value.
        doc: Description.
        placeholder: Placeholder of the empty field.
        rows: Minimum number of lines of a `multiline`, `json` or `list`; 0 for the default.
        hide_label: Show the label only to screen readers.
        autofocus: Focus the field when the form appears.
        monospace: Use a code font.
        keep: Keep the value after the form is sent, instead of resetting it.
    """

    name: str
    kind: FieldKind
    value: FieldValue = ""
    label: str = ""
    choices: tuple[str, ...] = ()
    choice_names: tuple[str, ...] = ()
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
        """Return the input of the page's `makeForm`: JSON values, without empty options."""
        options = {
            "label": self.label or self.name,
            "choices": list(self.choices),
            "choiceNames": list(self.choice_names),
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
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return {
            "name": self.name,
            "kind": self.kind,
            "value": value,
            **{key: option for key, option in options.items() if option},
        }


def form_node(
    key: str,
    act: str,
    submit: str,
    label: str,
    fields: Iterable[Field],
    *,
    css: str,
    html: str = "",
    args: Mapping[str, Any] | None = None,
    cancel: Mapping[str, str] | None = None,
    is_sent_by_enter: bool = False,
    is_instant: bool = False,
) -> Node:
    """Build the node of a form.

    Args:
        key: Key of the node.
        act: The action that receives the values.
        submit: Label of the button that sends the values.
        label: Accessible name of the form.
        fields: The fields.
        css: Class names.
        html: Content above the fields, sanitised.
        args: Further arguments of the action.
        cancel: Label and action of the button that closes the form, as `cancel` and `cancelAct`.
        is_sent_by_enter: Whether Enter in a field sends the form, as in a form with a single line.
        is_instant: Whether every change sends the form; an instant form has no button.
    """
    data = {"act": act, "submit": submit, "label": label, "fields": [field.as_json() for field in fields]}
    enter = {name: True for name, is_on in (("enter", is_sent_by_enter), ("instant", is_instant)) if is_on}
    return Node(key, html, "form", css, data={**data, "args": dict(args or {}), **(cancel or {}), **enter})


def form_fields(tool: Tool | None, params: Mapping[str, Any]) -> tuple[Field, ...]:
    """Create fields for the parameters of a call, in the order of the signature.

    Args:
        tool: The tool; None for a budget request.
        params: The parameters, as JSON values; a missing parameter is shown with its default.
    """
    normalized = _with_objects(tool, params)
    suggestions = tool.suggestions if tool else {}
    return tuple(_field(parameter, normalized, suggestions) for parameter in tool_parameters(tool))


def value_fields(values: Mapping[str, Any]) -> tuple[Field, ...]:
    """Create fields for values without a signature; each field follows the type of its value."""
    return tuple(_field(parameter, values, {}) for parameter in parameters_from_values(values))


def read_form(tool: Tool | None, params: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters from a sent form; `Tool.bind` accepts them.

    Args:
        tool: As for `form_fields`.
        params: The parameters from which the form was built.
        values: The sent values, by field; a missing field counts as unchanged. Changed `items` are sent as a list with
            the index of each unchanged item, and `{"of": index or None, "values": values}` for the other items.

    Errors: `FormError` with a message per field; fields of `items` are named as in `steps.0.title`, and a message about
        all parameters together has the empty name.
    """
    normalized = _with_objects(tool, params)
    read, errors = _read(tool_parameters(tool), params, values, normalized)
    if errors := errors or dict(_problems(tool, read, normalized)):
        raise FormError(errors)
    return read


def read_values(values: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values from a sent form whose fields were created by `value_fields`.

    Errors: `FormError` with a message per field.
    """
    read, errors = _read(parameters_from_values(values), values, sent, values)
    if errors:
        raise FormError(errors)
    return read


# --- fields from parameters ----------------------------------------------------------------------------------------


def _with_objects(tool: Tool | None, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Normalize lists of objects with the tool's model, because agents may use short forms that the tool accepts."""
    item_lists = [param for param in tool_parameters(tool) if param.shape.kind == "items" and param.name in params]
    irregular = [param.name for param in item_lists if not _are_objects(param.shape, params[param.name])]
    if tool is None or not irregular:
        return params
    try:
        bound = tool.bind(params).model_dump(mode="json", include=set(irregular), exclude_unset=True)
    except ToolError:
        return params
    # Unchanged items are read back by index, so both lists must have the same length.
    same_length = {
        name: items
        for name, items in bound.items()
        if isinstance(items, list) and isinstance(params[name], list) and len(items) == len(params[name])
    }
    return {**params, **same_length}


def _are_objects(shape: Shape, value: Any) -> bool:
    """Return whether the fields of the items can represent all contents of a list."""
    names = {column.name for column in shape.columns}
    return isinstance(value, list) and all(isinstance(item, dict) and item.keys() <= names for item in value)


def _field(parameter: Parameter, params: Mapping[str, Any], suggestions: Mapping[str, tuple[str, ...]]) -> Field:
    name, prop, shape = parameter.name, parameter.schema, parameter.shape
    current = params.get(name, prop.get("default"))
    kind, value = _field_value(shape, current)
    objects = current or () if kind == "items" else ()
    items = tuple(tuple(_field(column, item, suggestions) for column in shape.columns) for item in objects)
    return Field(
        name,
        kind,
        value,
        choices=shape.labels if kind == "choice" else suggestions.get(name, ()) if kind == "list" else (),
        items=items,
        blank=tuple(_field(column, {}, suggestions) for column in shape.columns) if kind == "items" else (),
        required=bool(prop.get("required")),
        nullable=shape.nullable,
        doc=str(prop.get("description", "")),
        monospace=kind == "json",
    )


def _field_value(shape: Shape, value: Any) -> tuple[FieldKind, FieldValue]:
    """Return the kind and initial value of a field; `json` if no other kind represents the value exactly."""
    if value is None:
        return shape.kind, None if shape.nullable else _BLANK.get(shape.kind, "")
    if shape.kind == "choice":
        by_json = dict(zip(map(format_json, shape.choices), shape.labels, strict=True))  # 1 == True in Python
        if (label := by_json.get(format_json(value))) is not None:
            return "choice", label
    if (
        shape.kind == "list"
        and isinstance(value, list)
        and all(isinstance(item, str) and item.strip() and not _has_line_break(item) for item in value)
    ):
        return "list", tuple(value)
    if shape.kind == "items" and _are_objects(shape, value):
        return "items", tuple(range(len(value)))
    if shape.kind == "text" and isinstance(value, str):
        return ("text" if len(value) <= LINE_CHARS and not _has_line_break(value) else "multiline"), value
    if isinstance(value, _VALUE_TYPES.get(shape.kind, ())) and isinstance(value, bool) == (shape.kind == "checkbox"):
        return shape.kind, value if isinstance(value, bool) else repr(value)
    return "json", format_json(value, indent=2 if isinstance(value, list | dict) and value else None)


def _has_line_break(text: str) -> bool:
    """Return whether the text has a line break, which an HTML field with one line would remove."""
    return "\n" in text or "\r" in text


# --- parameters from sent values -----------------------------------------------------------------------------------


def _read(
    parameters: Sequence[Parameter], params: Mapping[str, Any], values: Mapping[str, Any], normalized: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the parameters from sent values, and errors by field."""
    read: dict[str, Any] = {}
    unknown = values.keys() - {parameter.name for parameter in parameters}
    errors = {name: f"There is no parameter {name!r}." for name in unknown}
    for parameter in parameters:
        name, shape = parameter.name, parameter.shape
        field = _field(parameter, normalized, {})
        answer = values.get(name, field.value)
        if isinstance(field.value, tuple):
            is_unchanged = isinstance(answer, list | tuple) and list(field.value) == list(answer)
        else:
            is_unchanged = type(field.value) is type(answer) and field.value == answer
        try:
            if not is_unchanged:
                value = read_value(field.kind, shape, answer)
                is_items = field.kind == "items" and value
                read[name] = _read_items(parameter, params, normalized, value) if is_items else value
            elif name in params and not (params[name] is None and not shape.nullable):
                read[name] = params[name]
            # Otherwise the parameter is omitted: an explicit None would fail if only the default may be None.
        except FieldValueError as error:
            nested = {f"{name}.{path}": message for path, message in error.item_errors.items()}
            errors |= nested or {name: str(error)}
    return read, errors


def _read_items(
    parameter: Parameter, params: Mapping[str, Any], normalized: Mapping[str, Any], sent: Iterable[Any]
) -> list[Any]:
    """Return the items of a changed list; unchanged items have the form in which the agent wrote them."""
    default = parameter.schema.get("default")
    original, objects = (values.get(parameter.name, default) or () for values in (params, normalized))
    items: list[Any] = []
    errors: dict[str, str] = {}
    for position, entry in enumerate(sent):
        index, values = _entry(entry, len(objects))
        if values is None:
            items.append(original[index])
            continue
        item = {} if index is None else objects[index]
        read, item_errors = _read(parameter.shape.columns, item, values, item)
        items.append(read)
        errors |= {f"{position}.{name}": message for name, message in item_errors.items()}
    if errors:
        raise FieldValueError("Some of the items are invalid.", errors)
    return items


def _entry(entry: Any, n_items: int) -> tuple[Any, Mapping[str, Any] | None]:
    """Return the index of the original item (None: a new item) and the sent values (None: unchanged)."""
    match entry:
        case bool():  # would match `int`
            pass
        case int(index) if 0 <= index < n_items:
            return index, None
        case {"of": None, "values": dict(values)}:
            return None, values
        case {"of": int(index), "values": dict(values)} if 0 <= index < n_items:
            return index, values
    raise FieldValueError(f"{quote_value(entry)} is not an item of this list.")


def _problems(tool: Tool | None, params: Mapping[str, Any], normalized: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield field names and messages of validation errors; without validation errors, the error of the tool itself."""
    model: type[BaseModel] = Budget if tool is None else tool.params
    item_shapes = {
        parameter.name: parameter.shape
        for parameter in tool_parameters(tool)
        if _field(parameter, normalized, {}).kind == "items"
    }
    try:
        model.model_validate(params)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            name, *path = map(str, detail["loc"] or ("",))
            if name in item_shapes and len(path) > 1:  # an error in a field of an item: `steps.0.title`
                index, column, *rest = path
                if any(parameter.name == column for parameter in item_shapes[name].columns):
                    name, path = f"{name}.{index}.{column}", rest
            location = f" at {'.'.join(path)}" if path else ""
            if detail["type"] == "missing":
                yield name, f"There is no value{location}."
            else:
                yield name, f"{quote_value(detail['input'])}{location} does not fit: {detail['msg'].lower()}."
        return
    try:
        if tool is not None:
            tool.bind(params)
    except ToolError as error:
        yield "", str(error)
