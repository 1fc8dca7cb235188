"""A corpus of malformed replies of models, with the expected calls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.core.toolcalls.xml import parse_reply

CORPUS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "malformed.yaml").read_text(encoding="utf-8"))
UNREADABLE = [
    "<tool_call><params><p>x</p></params></tool_call>",
    '<tool_call>{"name": "t", "arguments": {"p": }}</tool_call>',
    '<tool_call>{"name": "t", "arguments": {"p": ' + "9" * 5000 + "}}</tool_call>",
    "<tool_call>" + '{"a":' * 5000 + "</tool_call>",
    "<tool_call>" + "[" * 5000 + "</tool_call>",
]


def fits(call: ToolCall, expected: Mapping[str, Any]) -> bool:
    """Return whether a call is the expected call, or has the expected error."""
    if set(expected) == {"error"}:
        return call.error is not None and expected["error"] in call.error
    return call.error is None and {call.name: dict(call.params)} == expected


@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry["name"])
def test_reply_is_parsed_or_reported_to_the_model(entry):
    """Clear calls are read, ambiguous calls have an error, and all other text is prose."""
    parsed = parse_reply(entry["reply"])
    expected = entry.get("calls", [])
    assert len(parsed.calls) == len(expected), parsed.calls
    for call, wanted in zip(parsed.calls, expected, strict=True):
        assert fits(call, wanted), call
    assert parsed.text == entry.get("text", "")


def test_corpus_is_complete():
    """The entries of the corpus have unique names and sources, and there are enough of them."""
    assert len({entry["name"] for entry in CORPUS}) == len({entry["reply"] for entry in CORPUS}) == len(CORPUS) >= 60
    assert all(set(entry) <= {"name", "from", "reply", "calls", "text"} and entry["from"] for entry in CORPUS)


@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry["name"])
def test_valid_call_after_a_malformed_reply_is_read_or_reported(entry):
    """A call after any malformed reply is read as written, or reported to the model."""
    parsed = parse_reply(
        entry["reply"] + "\n<tool_call><name>last</name><params><z><![CDATA[1]]></z></params></tool_call>"
    )
    is_read = any(call.name == "last" and call.params == {"z": "1"} for call in parsed.calls[-1:])
    assert is_read or any(call.error for call in parsed.calls)


@pytest.mark.parametrize(
    "reply", UNREADABLE, ids=["no name", "no value", "a number too long", "too deep", "too deep a list"]
)
def test_unreadable_call_is_reported_to_the_model(reply):
    """The call has an error that shows the correct form and the start of this call."""
    (found,) = parse_reply(reply).calls
    assert found.error is not None
    assert "could not be read and was not run" in found.error
    assert "<tool_call><name>tool</name>" in found.error
    assert f"It began with: {reply[:80]!r}" in found.error


@pytest.mark.parametrize(
    ("reply", "known_cut"),
    [
        ("<tool_call><name>t</name><params><p>x</p>", False),
        ("<tool_call><name>t</name><params><p>x</p>\nNow I wait.", False),
        ("<tool_call><name>t</name><params><p><![CDATA[x]]></p></params>", True),
        ("<function=t><parameter=p>x</parameter></function>", True),
        ('<tool_call>{"name": "t", "arguments": {"p": "x"}}', True),
    ],
)
def test_truncated_reply_runs_only_closed_calls(reply, known_cut):
    """Missing closing tags are tolerated only if the reply is not known to be truncated."""
    assert parse_reply(reply).calls == (ToolCall("t", {"p": "x"}),)
    (found,) = parse_reply(reply, is_truncated=True).calls
    assert (found.error is None) is known_cut


BARE = {
    "JSON with other keys": '{"tool": "t", "params": {"p": "x"}}',
    "JSON in a fence": '```json\n{"tool": "t", "params": {"p": "x"}}\n```',
    "Python in a fence": '```tool_code\nprint(t(p="x"))\n```',
    "Python of a module": '```tool_code\nresult = default_api.t(p="x")\n```',
    "a list in Python": '[t(p="x")]',
    "two objects": '{"name": "t", "parameters": {"p": "x"}}; {"name": "t", "parameters": {"p": "x"}}',
}


@pytest.mark.parametrize("reply", BARE.values(), ids=BARE)
def test_reply_that_is_only_a_call_of_an_offered_tool_is_read(reply):
    """Without marks, the name of an offered tool tells a call from an answer."""
    parsed = parse_reply(reply, offered={"t"})
    assert {(call.name, call.params["p"], call.error) for call in parsed.calls} == {("t", "x", None)}
    assert parsed.text == ""
    assert "name" in reply or parse_reply(reply, offered={"other"}).text == reply


@pytest.mark.parametrize("call", ['```json\n{"name": "t", "arguments": {}}\n```', '{"name": "t", "arguments": {}}'])
def test_json_that_ends_a_reply_needs_approval(call):
    """JSON at the end of a reply may be an example, like a fence with a call."""
    parsed = parse_reply(f"I look.\n{call}", offered={"t"})
    assert [(found.name, found.needs_approval) for found in parsed.calls] == [("t", True)]
    assert parsed.text == "I look."
    assert parse_reply(f"I look.\n{call}", offered={"other"}).calls == ()
