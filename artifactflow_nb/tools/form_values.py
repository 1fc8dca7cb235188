"""What a page sends of a field that was changed, read as a value of its parameter."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from artifactflow_nb.store.storable import to_json
from artifactflow_nb.text.width import clip
from artifactflow_nb.tools.form_shapes import Kind, Shape, as_json

_LARGEST = 2**63
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_SENT: dict[Kind, type] = {"checkbox": bool, "list": list, "items": list}


class UnfitError(Exception):
    """What stands in a field cannot be the parameter.

    Args:
        told: What the person is told.
        within: The same by the fields within it, where it has such.
    """

    def __init__(self, told: str, within: Mapping[str, str] | None = None) -> None:
        super().__init__(told)
        self.within = within or {}


def read_value(kind: Kind, shape: Shape, answer: Any) -> Any:
    """What a field of this kind means that was changed; `items` as they were sent. `UnfitError` if it means nothing."""
    is_empty = answer is None or (isinstance(answer, str) and kind not in {"text", "multiline"} and not answer.strip())
    if is_empty and (shape.nullable or kind == "list"):
        return None if shape.nullable else []
    if is_empty:
        raise UnfitError("It needs a value.")
    sent_as = type(answer)
    if sent_as is not _SENT.get(kind, str):
        raise UnfitError(f"{quoted(answer)} is not what a field of this kind holds.")
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


def _chosen(shape: Shape, label: str) -> Any:
    if label not in shape.labels:
        raise UnfitError(f"{quoted(label)} is not one of {', '.join(shape.labels)}.")
    return shape.choices[shape.labels.index(label)]


def _whole_number(text: str) -> int:
    try:
        if _WHOLE_NUMBER.fullmatch(text.strip()):
            return _storable(text)
    except ValueError:
        pass
    raise UnfitError(f"{quoted(text)} is not a whole number such as 12.")


def _number(text: str, *, whole: bool) -> float:
    try:
        if "_" not in text:  # Python takes it between digits, people do not
            return _storable(text) if whole and _WHOLE_NUMBER.fullmatch(text.strip()) else _finite(text)
    except ValueError:
        pass
    raise UnfitError(f"{quoted(text)} is not a number such as 0.5.")


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
        raise UnfitError(f"This is not JSON: {error.msg} (line {error.lineno}, column {error.colno}).") from None
    except ValueError as error:
        raise UnfitError(f"This is not JSON that can be stored: {error}.") from None
    except (RecursionError, TypeError):  # reading goes deeper than storing
        raise UnfitError("This JSON is nested too deeply.") from None
    return value


def quoted(answer: Any) -> str:
    """A value in the words of an error, cut short."""
    return repr(clip(answer, 60)) if isinstance(answer, str) else clip(as_json(answer), 60)
