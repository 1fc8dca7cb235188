"""Forms from a tool's signature: their fields, and the values that a page returns."""

import json
import math
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_validator

from artifactflow_nb.errors import FormError
from artifactflow_nb.tools.base import Tool, ToolContext, tool
from artifactflow_nb.tools.web.tools import web_fetch
from artifactflow_nb.widgets.forms.form import Field as FormField
from artifactflow_nb.widgets.forms.form import form_fields, read_form


class Colour(Enum):
    RED = "red"
    SEVEN = 7


class Point(BaseModel):
    x: int
    y: float | None = None


@tool
def everything(
    ctx: ToolContext,
    text: Annotated[str, "What to say."],
    whole: int,
    share: float,
    either: int | float,  # noqa: PYI041 - the schema tells them apart
    switch: bool,
    mode: Literal["fast", "1", 1, True],
    colour: Colour,
    tags: list[str],
    names: set[str],
    matrix: list[list[int]],
    limits: dict[str, float],
    point: Point,
    anything: Any,
    amount: Decimal,
    word_or_number: str | int,
    maybe_text: str | None = None,
    maybe_whole: Annotated[int | None, Field(ge=0)] = 3,
    maybe_switch: bool | None = None,
    maybe_tags: list[str] | None = None,
    maybe_colour: Colour | None = None,
    points: list[Point] | None = None,
    path: Path = Path("a/b"),
) -> str:
    """Take every kind of parameter."""
    return "done"


# What JSON and SQLite can hold: no lone surrogates, finite numbers, integers of 64 bits.
WHOLE = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
POINT = st.fixed_dictionaries({"x": WHOLE}, optional={"y": st.none() | FLOATS})
PARAMS = st.fixed_dictionaries(
    {
        "text": TEXT,
        "whole": WHOLE,
        "share": FLOATS,
        "either": WHOLE | FLOATS,
        "switch": st.booleans(),
        "mode": st.sampled_from(["fast", "1", 1, True]),
        "colour": st.sampled_from(["red", 7]),
        "tags": st.lists(TEXT, max_size=4),
        "names": st.lists(TEXT, max_size=3, unique=True),
        "matrix": st.lists(st.lists(WHOLE, max_size=3), max_size=3),
        "limits": st.dictionaries(TEXT, FLOATS, max_size=3),
        "point": st.fixed_dictionaries({"x": WHOLE, "y": st.none() | FLOATS}),
        "anything": JSON,
        "amount": st.decimals(allow_nan=False, allow_infinity=False).map(str),
        "word_or_number": TEXT | WHOLE,
        "maybe_text": st.none() | TEXT,
        "maybe_whole": st.none() | st.integers(0, 2**63 - 1),
        "maybe_switch": st.none() | st.booleans(),
        "maybe_tags": st.none() | st.lists(TEXT, max_size=3),
        "maybe_colour": st.none() | st.sampled_from(["red", 7]),
        "points": st.none() | st.lists(POINT, max_size=3),
        "path": TEXT,
    }
)


def by_name(fields: tuple[FormField, ...]) -> dict[str, FormField]:
    return {field.name: field for field in fields}


def through_page(fields: tuple[FormField, ...]) -> dict[str, Any]:
    """The values that a page returns for untouched fields, after JSON in both directions."""
    got = json.loads(json.dumps([field.as_json() for field in fields]))
    return {field["name"]: field["value"] for field in got}


def retyped(fields: tuple[FormField, ...]) -> dict[str, Any]:
    """The values that a page returns if each field was retyped with the same content in another notation."""
    values = through_page(fields)
    for field in fields:
        if field.kind in {"integer", "number", "json"} and field.value is not None:
            values[field.name] = f" {field.value} "
    return values


def exactly(params: Any) -> str:
    return json.dumps(params, sort_keys=True)


def read(values: dict[str, Any], of: Tool = everything, **params: Any) -> dict[str, Any]:
    return read_form(of, params, values)


@tool
def send(
    ctx: ToolContext,
    to: str,
    times: Annotated[int, Field(ge=1, le=5)] = 1,
    share: float = 0.5,
    mode: Literal["fast", "slow"] = "fast",
    tags: list[str] = [],  # noqa: B006 - the schema shows it; nobody changes it
    extra: dict[str, int] = {},  # noqa: B006 - the same
    note: str | None = None,
    urgent: bool = False,
) -> str:
    """Send a letter."""
    return "sent"


SENT = {"to": "Ada", "times": 1, "share": 0.5, "mode": "fast", "tags": ["a", "b"], "extra": {"n": 1}}


def field_errors(values: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(FormError) as caught:
        read_form(send, SENT, values)
    return dict(caught.value.fields)


@settings(max_examples=150)
@given(PARAMS)
def test_untouched_parameters_are_unchanged(params: dict[str, Any]) -> None:
    """Parameters of every type are the same after the page, to the last digit and space."""
    fields = form_fields(everything, params)
    came = read_form(everything, params, through_page(fields))
    assert exactly(came) == exactly(params)
    assert everything.bind(came) == everything.bind(params)


@settings(max_examples=150)
@given(PARAMS)
def test_retyped_values_are_the_same(params: dict[str, Any]) -> None:
    """A retyped number or JSON text has the same value and type."""
    came = read_form(everything, params, retyped(form_fields(everything, params)))
    assert exactly(came) == exactly(params)


def test_field_kind_follows_from_the_type() -> None:
    """The kind of a field, its choices and whether it may be empty follow from the annotation."""
    empty = {"text": "", "tags": [], "names": [], "mode": 1, "colour": "red", "switch": False, "whole": 1}
    fields = by_name(form_fields(everything, empty))
    kinds = {name: field.kind for name, field in fields.items()}
    assert kinds == {
        "text": "text", "whole": "integer", "share": "number", "either": "number", "switch": "checkbox",
        "mode": "choice", "colour": "choice", "tags": "list", "names": "list", "matrix": "json", "limits": "json",
        "point": "json", "anything": "json", "amount": "json", "word_or_number": "json", "maybe_text": "text",
        "maybe_whole": "integer", "maybe_switch": "choice", "maybe_tags": "list", "maybe_colour": "choice",
        "points": "items", "path": "text",
    }  # fmt: skip
    assert {name for name, field in fields.items() if field.nullable} == {
        "anything", "maybe_text", "maybe_whole", "maybe_switch", "maybe_tags", "maybe_colour", "points"
    }  # fmt: skip
    assert fields["colour"].choices == ("red", "7")
    assert fields["maybe_switch"].choices == ("true", "false")
    assert fields["text"].doc == "What to say."
    assert fields["text"].required
    assert not fields["path"].required


def test_similar_choices_are_distinguished() -> None:
    """A text `1`, the number 1 and true are three choices."""
    fields = by_name(form_fields(everything, {"mode": True}))
    assert fields["mode"].choices == ('"fast"', '"1"', "1", "true")
    assert fields["mode"].value == "true"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("short", "text"),
        ("two\nlines", "multiline"),
        ("carriage\rreturn", "multiline"),
        ("long " * 20, "multiline"),
        (3, "json"),
    ],
)
def test_long_text_has_a_field_of_several_lines(value: Any, kind: str) -> None:
    """A value that is not a text is shown as JSON."""
    assert by_name(form_fields(send, {"to": value}))["to"].kind == kind


@pytest.mark.parametrize("items", [["two\nlines"], [""], ["a", "  "], ["a", 1]])
def test_list_with_multiline_items_is_shown_as_json(items: list[Any]) -> None:
    """Read line by line, items with line breaks or blank items would be other items."""
    assert by_name(form_fields(send, {"tags": items}))["tags"].kind == "json"


def test_edited_values_have_the_declared_type() -> None:
    """Texts are unchanged; all other values get the type of the signature."""
    edited = {"to": "  Bob ", "times": " 3 ", "share": "1", "mode": "slow", "tags": ["c", "", "d "], "urgent": True}
    came = read_form(send, SENT, edited | {"extra": '{"n": 2}', "note": ""})
    assert exactly(came) == exactly(
        {"to": "  Bob ", "times": 3, "share": 1.0, "mode": "slow", "tags": ["c", "d "], "extra": {"n": 2}}
        | {"note": "", "urgent": True}
    )
    assert send.bind(came).model_dump()["to"] == "  Bob "


def test_empty_field_may_mean_no_value() -> None:
    """The value is None if the type allows it; an empty text field is an empty text unless None is chosen."""
    params = {"maybe_text": "a", "maybe_whole": 1, "maybe_tags": ["a"], "maybe_colour": "red"}
    blank = {"maybe_text": "", "maybe_whole": "", "maybe_tags": None, "maybe_colour": None}
    with pytest.raises(FormError) as caught:  # the others are missing here
        read(blank, **params)
    assert not caught.value.fields.keys() & blank.keys()

    @tool
    def gentle(ctx: ToolContext, text: str | None = "a", whole: int | None = 1, tags: list[str] | None = None) -> str:
        """Take what may be left out."""
        return ""

    defaults = {"text": "a", "whole": 1, "tags": ["a"]}
    assert read_form(gentle, defaults, {"text": "", "whole": " ", "tags": None}) == {
        "text": "", "whole": None, "tags": None
    }  # fmt: skip
    assert read_form(gentle, defaults, {"text": None}) == {**defaults, "text": None}


@pytest.mark.parametrize(
    ("field", "written", "error"),
    [
        ("times", "three", "'three' is not a whole number such as 12."),
        ("times", "1.0", "'1.0' is not a whole number such as 12."),
        ("times", "9" * 5000, f"'{'9' * 59}…' is not a whole number such as 12."),
        ("times", str(2**63), f"'{2**63}' is not a whole number such as 12."),
        ("times", "", "It needs a value."),
        ("times", "9", "9 does not fit: input should be less than or equal to 5."),
        ("times", None, "It needs a value."),
        ("times", 3, "3 is not a valid value of this field."),
        ("share", "0,5", "'0,5' is not a number such as 0.5."),
        ("share", "nan", "'nan' is not a number such as 0.5."),
        ("share", "1_0", "'1_0' is not a number such as 0.5."),
        ("mode", "steady", "'steady' is not one of fast, slow."),
        ("tags", "a", "'a' is not a valid value of this field."),
        ("extra", "{n: 1}", "This is not JSON: Expecting property name enclosed in double quotes (line 1, column 2)."),
        ("extra", '{"n": NaN}', "This is not JSON that can be stored: NaN is not a number that JSON has."),
        ("extra", '{"n": 1e999}', "This is not JSON that can be stored: 1e999 is not a number that JSON has."),
        ("extra", f'{{"n": {2**63}}}', f"This is not JSON that can be stored: {2**63} is beyond 64 bits."),
        ("extra", "[" * 100_000, "This JSON is nested too deeply."),
        ("extra", "[" * 500 + "]" * 500, "does not fit: input should be a valid dictionary."),
        ("extra", '{"n": "many"}', "'many' at n does not fit"),
        ("urgent", "yes", "'yes' is not a valid value of this field."),
        ("tone", "kind", "There is no parameter 'tone'."),
    ],
)
def test_invalid_value_is_reported_at_its_field(field: str, written: Any, error: str) -> None:
    """The error has the value and the expected type."""
    assert field_errors({field: written}).keys() == {field}
    assert error in field_errors({field: written})[field]


def test_all_invalid_fields_are_reported_together() -> None:
    """The person sees all errors at once."""
    assert field_errors({"times": "x", "share": "y", "to": "fine"}).keys() == {"times", "share"}
    assert field_errors({"times": "0", "extra": '{"n": "x"}'}).keys() == {"times", "extra"}


def test_omitted_parameter_keeps_its_default() -> None:
    """The field shows the default; only a changed value is sent."""
    fields = by_name(form_fields(send, {"to": "Ada"}))
    assert (fields["times"].value, fields["mode"].value) == ("1", "fast")
    untouched = {"times": "1", "mode": "fast"}
    assert read_form(send, {"to": "Ada"}, untouched) == {"to": "Ada"}
    assert read_form(send, {"to": "Ada"}, {"times": "2"}) == {"to": "Ada", "times": 2}


def test_default_outside_its_type_is_left_out() -> None:
    """A form with `n: int = None`, which is common, can be sent."""

    @tool
    def careless(ctx: ToolContext, text: str, n: int = None) -> str:  # type: ignore[assignment] # noqa: RUF013 - on purpose
        """Take a number or none."""
        return ""

    params = careless.bind({"text": "a"}).model_dump(mode="json")
    assert read_form(careless, params, {"text": "b", "n": ""}) == {"text": "b"}


def test_missing_parameter_is_reported_at_its_field() -> None:
    """A parameter that was added after the request was stored is reported at its field."""
    with pytest.raises(FormError) as caught:
        read_form(send, {}, {"times": "2"})
    assert caught.value.fields == {"to": "There is no value."}


def test_untouched_number_beyond_json_is_unchanged() -> None:
    """Unchanged values are not validated, even if a person could not type the values."""
    came = read_form(send, SENT | {"share": math.inf}, {"times": "2"})
    assert came["share"] == math.inf


def test_validation_of_all_parameters_is_reported_for_the_form() -> None:
    """An error that concerns several parameters is shown for the whole form."""

    class Span(BaseModel):
        first: int
        last: int

        def model_post_init(self, context: Any) -> None:
            if self.first > self.last:
                raise ValueError("first is behind last")

    spanned = replace(send, params=Span)
    with pytest.raises(FormError, match="first is behind last") as caught:
        read_form(spanned, {"first": 1, "last": 2}, {"first": "3"})
    assert caught.value.fields.keys() == {""}


def test_budget_request_has_a_form() -> None:
    """The fields of the form are the limits, and an empty field means no limit."""
    params = {"tokens": 2000, "usd": 0.1}
    fields = by_name(form_fields(None, params))
    assert {name: (field.kind, field.value) for name, field in fields.items()} == {
        "tokens": ("integer", "2000"),
        "usd": ("number", "0.1"),
        "seconds": ("number", None),
    }
    assert read_form(None, params, through_page(tuple(fields.values()))) == params
    assert read_form(None, params, {"tokens": "5000", "usd": "", "seconds": "60"}) == {
        "tokens": 5000, "usd": None, "seconds": 60.0
    }  # fmt: skip
    with pytest.raises(FormError) as caught:
        read_form(None, params, {"tokens": "0", "usd": "much"})
    assert caught.value.fields.keys() == {"usd"}
    with pytest.raises(FormError, match="greater than 0"):
        read_form(None, params, {"tokens": "0"})


def test_built_in_tools_have_forms() -> None:
    """The addresses of web_fetch are a list, one per line, with the parameter's description."""
    fields = by_name(form_fields(web_fetch, {"urls": ["a", "b"], "focus": ""}))
    assert (fields["urls"].kind, fields["urls"].value) == ("list", ("a", "b"))
    assert fields["urls"].doc == "The addresses to read, as a search gave them."


def test_field_json_omits_defaults() -> None:
    """The JSON has name, kind, value and label, and other properties only if they differ from the default."""
    assert FormField("q", "text").as_json() == {"name": "q", "kind": "text", "value": "", "label": "q"}
    composer = FormField("content", "multiline", label="Your question", hide_label=True, rows=3)
    assert composer.as_json() == {
        "name": "content", "kind": "multiline", "value": "", "label": "Your question", "hideLabel": True, "rows": 3
    }  # fmt: skip


# --- lists of objects -----------------------------------------------------------------------------------------------


class Stop(BaseModel):
    place: Annotated[str, Field(min_length=1, description="Where.")]
    nights: Annotated[int, Field(ge=0)] = 1
    with_whom: list[str] = []

    @model_validator(mode="before")
    @classmethod
    def of_text(cls, value: Any) -> Any:
        return {"place": value} if isinstance(value, str) else value


class Loop(BaseModel):
    name: str = ""
    within: list["Loop"] = []


@tool
def travel(
    ctx: ToolContext,
    stops: Annotated[list[Stop], Field(description="In order.", max_length=4)],
    loops: list[Loop] = [],  # noqa: B006 - the schema shows it; nobody changes it
    either: list[Stop | Loop] = [],  # noqa: B006 - the same
) -> str:
    """Go there."""
    return "gone"


STOPS: list[Any] = ["Rome", {"place": "Pisa", "nights": 2, "with_whom": ["Ada\nBob"]}, {"place": "Bari"}]


def stops(*sent: Any) -> list[Any]:
    found: list[Any] = read_form(travel, {"stops": STOPS}, {"stops": list(sent)})["stops"]
    return found


def test_list_of_objects_has_fields_for_each() -> None:
    """Objects may be JSON text; a new object has the defaults, and a nested object is JSON."""
    fields = by_name(form_fields(travel, {"stops": STOPS, "loops": [{"name": "a", "within": []}], "either": []}))
    field = fields["stops"]
    assert (field.kind, field.value, field.doc) == ("items", (0, 1, 2), "In order.")
    assert [[(entry.name, entry.kind, entry.value) for entry in item] for item in field.items] == [
        [("place", "text", "Rome"), ("nights", "integer", "1"), ("with_whom", "list", ())],
        [("place", "text", "Pisa"), ("nights", "integer", "2"), ("with_whom", "json", '[\n  "Ada\\nBob"\n]')],
        [("place", "text", "Bari"), ("nights", "integer", "1"), ("with_whom", "list", ())],
    ]
    assert [(entry.value, entry.required, entry.doc) for entry in field.blank] == [
        ("", True, "Where."), ("1", False, ""), ((), False, "")
    ]  # fmt: skip
    assert [entry.kind for entry in fields["loops"].blank] == ["text", "json"]
    assert fields["either"].kind == "json"
    assert json.loads(json.dumps(field.as_json()))["items"][0][0]["value"] == "Rome"


@pytest.mark.parametrize("items", [[{"by": "car"}], [7], {"place": "Rome"}, [{"nights": 1}, "Rome"]])
def test_unsuitable_objects_are_shown_as_json(items: Any) -> None:
    """Objects with other keys, and values that are not valid objects of the tool, are JSON."""
    assert by_name(form_fields(travel, {"stops": items}))["stops"].kind == "json"


def test_items_are_moved_changed_added_and_removed() -> None:
    """Unchanged items, and unchanged fields of changed items, stay as they were."""
    assert stops(0, 1, 2) == STOPS
    assert stops(2, 0) == [STOPS[2], "Rome"]
    assert stops({"of": 0, "values": {"place": "Paris", "nights": "1"}}, 2) == [{"place": "Paris"}, STOPS[2]]
    changed = stops({"of": 1, "values": {"nights": "3", "with_whom": '[\n  "Ada\\nBob"\n]'}})
    assert changed == [{"place": "Pisa", "nights": 3, "with_whom": ["Ada\nBob"]}]
    new = {"of": None, "values": {"place": "Bern", "nights": "1", "with_whom": ["Eve", ""]}}
    assert stops(0, new) == ["Rome", {"place": "Bern", "with_whom": ["Eve"]}]
    assert stops() == []


@pytest.mark.parametrize(
    ("sent", "errors"),
    [
        ([0, {"of": 1, "values": {"nights": "many"}}], {"stops.1.nights": "'many' is not a whole number such as 12."}),
        ([{"of": 2, "values": {"nights": "-1"}}], {"stops.0.nights": "-1 does not fit: input should be"}),
        ([{"of": None, "values": {"place": ""}}], {"stops.0.place": "There is no value."}),
        ([{"of": 0, "values": {"place": ""}}, {"of": 2, "values": {"nights": ""}}],
         {"stops.1.nights": "It needs a value."}),
        ([0, 1, 2, 0, 1], {"stops": "list should have at most 4 items"}),
        ([{"of": 0, "values": {"price": "1"}}], {"stops.0.price": "There is no parameter 'price'."}),
        ([3], {"stops": "3 is not an item of this list."}),
        ([-1], {"stops": "-1 is not an item of this list."}),
        ([True, 0], {"stops": "true is not an item of this list."}),
        ([{"of": 9, "values": {}}], {"stops": "is not an item of this list."}),
        ([{"values": {}}], {"stops": "is not an item of this list."}),
        ("Rome", {"stops": "'Rome' is not a valid value of this field."}),
    ],
)  # fmt: skip
def test_invalid_value_in_an_item_is_reported_at_its_field(sent: Any, errors: dict[str, str]) -> None:
    """The error names the list, the item's position and the field."""
    with pytest.raises(FormError) as caught:
        read_form(travel, {"stops": STOPS}, {"stops": sent})
    assert caught.value.fields.keys() == errors.keys()
    assert all(message in caught.value.fields[name] for name, message in errors.items())
