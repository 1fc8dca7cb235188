"""Converts the contents of changed form fields into parameter values."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from artifactflow_nb.core.text.format import clip
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.widgets.forms.schema import FieldKind, Shape, format_json

_INT64_LIMIT = 2**63
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_SENT_TYPES: dict[FieldKind, type] = {"checkbox": bool, "list": list, "items": list}


class FieldValueError(Exception):
    """The contents of a field cannot be converted into a value of the parameter.

    Args:
        message: Message for the person.
        item_errors: Messages by name of the nested field, for a field with items.
    """

    def __init__(self, message: str, item_errors: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.item_errors = item_errors or {}


def read_value(kind: FieldKind, shape: Shape, answer: Any) -> Any:
    """Return the value of a changed field; `items` are returned as sent.

    Errors: `FieldValueError` if the contents do not fit the kind of field.
    """
    is_empty = answer is None or (isinstance(answer, str) and kind not in {"text", "multiline"} and not answer.strip())
    if is_empty and (shape.nullable or kind == "list"):
        return None if shape.nullable else []
    if is_empty:
        raise FieldValueError("It needs a value.")
    sent = answer
    if type(sent) is not _SENT_TYPES.get(kind, str):
        raise FieldValueError(f"{quote_value(sent)} is not a valid value of this field.")
    match kind:
        case "integer":
            try:
                answer = _int64(answer) if _WHOLE_NUMBER.fullmatch(answer.strip()) else None
            except ValueError:
                answer = None
            if answer is None:
                raise FieldValueError(f"{quote_value(sent)} is not a whole number such as 12.")
        case "number":
            answer = _number(answer, whole=shape.is_integer)
        case "choice":
            if answer not in shape.labels:
                raise FieldValueError(f"{quote_value(answer)} is not one of {', '.join(shape.labels)}.")
            answer = shape.choices[shape.labels.index(answer)]
        case "list":
            answer = [item for item in answer if str(item).strip()]
        case "json":
            try:
                answer = json.loads(answer, parse_constant=_finite, parse_float=_finite, parse_int=_int64)
                to_json(answer)
            except json.JSONDecodeError as error:
                position = f"line {error.lineno}, column {error.colno}"
                raise FieldValueError(f"This is not JSON: {error.msg} ({position}).") from None
            except ValueError as error:
                raise FieldValueError(f"This is not JSON that can be stored: {error}.") from None
            except (RecursionError, TypeError):  # the parser accepts deeper nesting than `to_json`
                raise FieldValueError("This JSON is nested too deeply.") from None
    return answer


def _number(text: str, *, whole: bool) -> float:
    try:
        if "_" not in text:  # `float` accepts underscores between digits, people do not expect it
            return _int64(text) if whole and _WHOLE_NUMBER.fullmatch(text.strip()) else _finite(text)
    except ValueError:
        pass
    raise FieldValueError(f"{quote_value(text)} is not a number such as 0.5.")


def _int64(text: str) -> int:
    """Convert to an integer of at most 64 bits; the tool would receive a larger integer as text, as it is stored."""
    number = int(text)  # raises ValueError above Python's limit of digits
    if not -_INT64_LIMIT <= number < _INT64_LIMIT:
        raise ValueError(f"{clip(text, 60)} is beyond 64 bits")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number that JSON has")
    return number


def quote_value(answer: Any) -> str:
    """Quote and clip a value for an error message."""
    return repr(clip(answer, 60)) if isinstance(answer, str) else clip(format_json(answer), 60)
