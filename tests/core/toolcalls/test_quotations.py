"""Quoted calls are text."""

import pytest

from artifactflow_nb.core.toolcalls.quotes import DisplayedTexts
from artifactflow_nb.core.toolcalls.xml import parse_reply

CALL = "<tool_call><name>note</name><params><text><![CDATA[a b]]></text></params></tool_call>"
LINES = "<tool_call>\n<name>note</name>\n<params>\n<text>a b</text>\n</params>\n</tool_call>"
JSON = '<tool_call>{"name": "note", "arguments": {"text": "a b"}}</tool_call>'
BARE = '{"name": "note", "arguments": {"text": "a b"}}'
FUNCTION = "<function=note><parameter=text>a b</parameter></function>"
INVOKE = '<function_calls><invoke name="note"><parameter name="text">a b</parameter></invoke></function_calls>'
DOUBLED = "<tool_call>\n<tool_call>\n" + BARE + "\n</tool_call>"
NAME = "<name>note</name><params><text>a b</text></params></tool_call>"
OTHER = "<tool_call><name>other</name><params><text>a b</text></params></tool_call>"
RESULT = "<tool_result><name>note</name><success>true</success><data>42</data></tool_result>"
FORMS = [CALL, LINES, JSON, FUNCTION, INVOKE, DOUBLED, NAME]


def quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


TEXTS = {
    "a block quote": f"The page says:\n\n{quoted(CALL)}\n\nThat is all.",
    "a block quote of several lines": f"The page says:\n\n{quoted(LINES)}\n\nThat is all.",
    "a block quote that ends the reply": f"The page says:\n> So: {CALL}",
    "a quote in a quote": f"> > {JSON}",
    "a quote in a list": f"- one\n- > {FUNCTION}",
    "a quote whose later lines have no mark": f"> Write <tool_call>\n{NAME}\n\nDone.",
    "a fence within a quote": f"> ```xml\n{quoted(LINES)}\n> ```",
    "a code span": f"Write `{CALL}` here.",
    "a code span alone on its line": f"Write\n`{CALL}`\nhere.",
    "a code span with words in it": f"Write `so: {JSON} and no more` here.",
    "a code span of two backticks": f"Write ``{INVOKE}`` here.",
    "a code span over two lines": f"Write `{DOUBLED}` here.",
    "a code span in a fence's place": f"Write\n```{CALL}```\nhere.",
    "a fence amid prose": f"Write:\n```xml\n{LINES}\n```\nThen wait.",
    "a fence of tildes amid prose": f"Write:\n~~~\n{FUNCTION}\n~~~\nThen wait.",
    "a fence in a list": f"1. ```\n   {CALL}\n   ```\n2. Wait.",
    "a fence with other lines": f"An example:\n```xml\n# how to take a note\n{CALL}\n```",
    "a fence with a tool that is not offered": f"An example:\n```xml\n{OTHER}\n```",
    "two fences, prose between them": f"First:\n```\n{CALL}\n```\nor\n```\n# second\n{JSON}\n```",
    "a made-up result in a fence": f"It answers:\n```xml\n{RESULT}\n```\nand so on.",
    "a tag in a quote at the end": "It ends with\n> </tool_call>",
}

CALLS = {
    "nothing else": (CALL, "", [False]),
    "prose before": (f"I note it.\n{CALL}", "I note it.", [False]),
    "prose behind": (f"{JSON}\nDone.", "Done.", [False]),
    "a fence and nothing else": (f"```xml\n{LINES}\n```", "", [False]),
    "a fence of JSON and nothing else": (f"```json\n{BARE}\n```", "", [False]),
    "a fence in one line and nothing else": (f"```{CALL}```", "", [False]),
    "two fences and nothing else": (f"```xml\n{CALL}\n```\n```xml\n{JSON}\n```", "", [False, False]),
    "a fence that ends the reply": (f"I note it:\n```xml\n{LINES}\n```\n", "I note it:", [True]),
    "two fences that end the reply": (f"Now:\n```\n{CALL}\n```\n\n```\n{JSON}\n```", "Now:", [True, True]),
    "a fence that is never closed": (f"Now:\n```xml\n{FUNCTION}", "Now:", [True]),
    "a quote, then a call": (f"> a b\n\n{CALL}", "> a b", [False]),
    "a quote right before a call": (f"> a b\n{CALL}", "> a b", [False]),
    "a code span, then a call": (f"As `note` says, {CALL}", "As `note` says,", [False]),
    "a quoted call, then a call": (f"> {JSON}\n\n{CALL}", f"> {JSON}", [False]),
    "a closed fence, then a call": (f"```python\nf()\n```\n{CALL}", "```python\nf()\n```", [False]),
    "marks within a value": (
        "<tool_call><name>note</name><params><text><![CDATA[> a\n```\n`b]]></text></params></tool_call>",
        "",
        [False],
    ),
    "calls on both sides of marks in values": (
        CALL.replace("a b", "a ` b") + " and " + CALL.replace("a b", "c ` d"),
        "and",
        [False, False],
    ),
    "a fence with a fence in its value": (
        "```xml\n" + CALL.replace("a b", "# A\n```python\nf()\n```\n") + "\n```",
        "",
        [False],
    ),
}


@pytest.mark.parametrize("reply", TEXTS.values(), ids=TEXTS)
def test_quoted_call_is_text(reply: str) -> None:
    """No call is read, and the text is unchanged."""
    parsed = parse_reply(reply, offered={"note"})
    assert parsed.calls == ()
    assert parsed.text == reply


@pytest.mark.parametrize(("reply", "text", "needs_approval"), CALLS.values(), ids=CALLS)
def test_call_next_to_quotations_is_read(reply: str, text: str, needs_approval: list[bool]) -> None:
    """The call needs approval if it may be an example, and everything else is text."""
    parsed = parse_reply(reply, offered={"note"})
    assert [(call.name, call.error) for call in parsed.calls] == [("note", None)] * len(needs_approval)
    assert [call.needs_approval for call in parsed.calls] == needs_approval
    assert parsed.text == text


@pytest.mark.parametrize(
    "shown", ["the same", "other white space", "entities", "quoted", "in JSON", "in Markdown", "without its tags"]
)
@pytest.mark.parametrize("call", FORMS)
def test_call_repeated_from_a_shown_text_is_text(call: str, shown: str) -> None:
    """The agent only repeats the call; the passage stays in its answer."""
    inner = call.removeprefix("<tool_call>").removesuffix("</tool_call>").strip()
    passage = {
        "the same": call,
        "other white space": call.replace("><", ">\n\n  <").replace(": ", ":\n"),
        "entities": call.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
        "quoted": quoted(call),
        "in JSON": call.replace('"', '\\"').replace("\n", "\\n").replace("<", "\\u003c"),
        "in Markdown": call.replace("_", "\\_").replace("<", "\\<"),
        "without its tags": inner,
    }[shown]
    texts = DisplayedTexts(["Nothing.", f"To take a note, write {passage} and wait."])
    for reply in (f"The page says: {call}\nDone.", f"```xml\n{call}\n```", call):
        parsed = parse_reply(reply, shown=texts, offered={"note"})
        assert parsed.calls == ()
        assert parsed.text == reply


def test_json_repeated_from_a_shown_text_is_text() -> None:
    """A reply that is only the JSON of a call is a call unless the agent was shown the JSON."""
    assert parse_reply(BARE).calls
    assert parse_reply(BARE, shown=DisplayedTexts([f"Say {BARE}!"])).text == BARE


@pytest.mark.parametrize("call", FORMS)
def test_call_that_differs_from_the_shown_text_is_read(call: str) -> None:
    """The shown text has a call of the same tool with another value."""
    texts = DisplayedTexts([call.replace("a b", "a b c"), "<name>note</name>"])
    assert [found.name for found in parse_reply(call, shown=texts).calls] == ["note"]


def test_unreadable_call_repeated_from_a_shown_text_is_text() -> None:
    """Repeated documentation of the protocol is not reported as an error, and a call after it is read."""
    page = "A call begins with <tool_call> and holds <function= and values."
    parsed = parse_reply(f"It says: {page}\n\n{CALL}", shown=DisplayedTexts([page]))
    assert [(call.name, call.error) for call in parsed.calls] == [("note", None)]
    assert parsed.text == f"It says: {page}"
