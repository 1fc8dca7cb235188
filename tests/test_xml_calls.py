import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.messages import ToolCall, ToolResult
from artifactflow_nb.xml_calls import (
    cdata,
    format_call,
    format_result,
    format_results,
    is_results,
    parse_reply,
    parse_results,
)

PIECES = [
    "]]>", "]]", "]", ">", "<", "</", "<![CDATA[", "]]]]><![CDATA[>", "<tool_call>", "</tool_call>", "<name>",
    "</name>", "<params>", "</params>", "<item>", "</item>", "<p>", "</p>", "</q>", '<p name="q">', "<tool_result>",
    "</data>", "```", "`", "\n", "  ", "&lt;", "&amp;", "&", '{"name": "n"', '"arguments": {', "}", "\\ud800", "中文",
    "🙂", "a",
]  # fmt: skip
any_text = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))
values = st.one_of(any_text, st.lists(any_text, min_size=1))
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,10}", fullmatch=True).filter(lambda name: name != "tool_call")


def call(name, /, **params):
    return ToolCall(name, params)


# --- what is written is read back exactly --------------------------------------------------------------------------


@given(names, st.dictionaries(names, values))
def test_a_written_call_is_read_back_exactly(name, params):
    """Any text and any list of texts survive, whatever tags, CDATA marks or white space they hold."""
    parsed = parse_reply(format_call(name, params))
    assert parsed.calls == (ToolCall(name, params),)
    assert not parsed.text


@given(st.lists(st.tuples(names, st.dictionaries(names, values, max_size=2)), max_size=3))
def test_several_calls_among_prose_are_read_in_order(calls):
    """The calls come back in the order written, and the prose without them."""
    text = "\n".join(["Before.", *(format_call(name, params) for name, params in calls), "After."])
    parsed = parse_reply(text)
    assert [(found.name, found.params) for found in parsed.calls] == calls
    assert parsed.text.startswith("Before.")
    assert parsed.text.endswith("After.")


@given(st.lists(st.tuples(any_text.filter(str.strip), st.booleans(), any_text), min_size=1, max_size=4))
def test_written_results_are_read_back_exactly(written):
    """Data and errors survive, whatever they hold; so does the name of a tool that does not exist."""
    results = [
        (name, ToolResult(success, data=body) if success else ToolResult(success, error=body or "why"))
        for name, success, body in written
    ]
    message = format_results(results)
    assert is_results(message)
    assert list(parse_results(message)) == results


@given(any_text)
def test_cdata_is_what_xml_means_by_it(value):
    """An XML reader would read the same text: no section holds its own end."""
    sections = cdata(value).removeprefix("<![CDATA[").removesuffix("]]>").split("]]><![CDATA[")
    assert all("]]>" not in section for section in sections)
    assert "".join(sections) == value


def test_a_failed_result_without_a_reason_still_says_that_it_failed():
    """The model is never shown an empty failure."""
    assert "failed without saying why" in format_result("t", ToolResult(success=False))


# --- what models really write --------------------------------------------------------------------------------------

OPEN, SHUT = "<tool_call><name>t</name><params>", "</params></tool_call>"
NESTED = "<tool_call><name>x</name><params><p><![CDATA[v]]></p></params></tool_call>"


@pytest.mark.parametrize(
    ("reply", "calls", "text"),
    [
        # strings stay as they are written
        (f"{OPEN}<p><![CDATA[  2024 ]]></p>{SHUT}", [call("t", p="  2024 ")], ""),
        (f"{OPEN}<p>True</p><q> a &lt; b &amp;lt; c </q>{SHUT}", [call("t", p="True", q=" a < b &lt; c ")], ""),
        (f"{OPEN}<p>\n<![CDATA[x]]>\n</p>{SHUT}", [call("t", p="x")], ""),
        (f"{OPEN}<p></p><q><![CDATA[]]></q>{SHUT}", [call("t", p="", q="")], ""),
        (f"{OPEN}<p>one <b>bold</b> word</p>{SHUT}", [call("t", p="one <b>bold</b> word")], ""),
        # what stands around
        (f"I look.\n{OPEN}<p>x</p>{SHUT}\nDone.", [call("t", p="x")], "I look.\n\nDone."),
        (f"Now:\n```xml\n{OPEN}<p>x</p>{SHUT}\n```\nDone.", [call("t", p="x")], "Now:\n\nDone."),
        ("<tool_call>\n  <name> t </name>\n  <params>\n <p>x</p>\n </params>\n</tool_call>", [call("t", p="x")], ""),
        ("Write `<tool_call>` and `</tool_call>` around it.", [], "Write `<tool_call>` and `</tool_call>` around it."),
        # values that hold the protocol itself
        (f"{OPEN}<p><![CDATA[a </tool_call> b]]></p>{SHUT}", [call("t", p="a </tool_call> b")], ""),
        (f"{OPEN}<p><![CDATA[a[b[0]]>c]]></p>{SHUT}", [call("t", p="a[b[0]]>c")], ""),
        (f"{OPEN}<doc><![CDATA[So: {NESTED} !]]></doc>{SHUT}", [call("t", doc=f"So: {NESTED} !")], ""),
        # lists
        (f"{OPEN}<p><item>a</item> <item><![CDATA[</item>]]></item></p>{SHUT}", [call("t", p=["a", "</item>"])], ""),
        (f"{OPEN}<p>\n<item>a</item>\n</p><q>z</q>{SHUT}", [call("t", p=["a"], q="z")], ""),
        (f"{OPEN}<p><item><![CDATA[a]]><item><![CDATA[b]]></p>{SHUT}", [call("t", p=["a", "b"])], ""),
        (f"{OPEN}<p>a</p><p>b</p><p>c</p>{SHUT}", [call("t", p=["a", "b", "c"])], ""),
        # tags never closed
        (f"{OPEN}<p>x</p></params>", [call("t", p="x")], ""),
        (f"{OPEN}<p>x", [call("t", p="x")], ""),
        (f"{OPEN}<p>x</params></tool_call> After.", [call("t", p="x")], "After."),
        (f"{OPEN}<p><![CDATA[cut", [call("t", p="cut")], ""),
        (f"{OPEN}<p><![CDATA[x]]>{SHUT}{OPEN}<p><![CDATA[y]]></p>{SHUT}", [call("t", p="x"), call("t", p="y")], ""),
        (f"{OPEN}<p><![CDATA[x]]><q><![CDATA[y]]></q>{SHUT}", [call("t", p="x", q="y")], ""),
        (f"{OPEN}<p><![CDATA[x</p><q>y</q>{SHUT} After.", [call("t", p="x", q="y")], "After."),
        (f"{OPEN}<p><![CDATA[x</p>{SHUT}{OPEN}<q><![CDATA[y]]></q>{SHUT}", [call("t", p="x"), call("t", q="y")], ""),
        (f"{OPEN}<p>x</p>{OPEN}<p>y</p>{SHUT}", [call("t", p="x"), call("t", p="y")], ""),
        ("<tool_call><name>t<params><p>x</p></params></tool_call>", [call("t", p="x")], ""),
        # tags closed wrongly, left out or written in another way
        (f"{OPEN}<p><![CDATA[x]]></pp><q><![CDATA[y]]></q>{SHUT}", [call("t", p="x", q="y")], ""),
        ("<tool_call><name>t</name><p>x</p></tool_call>", [call("t", p="x")], ""),
        ("<tool_call><name><![CDATA[t]]></name><params/></tool_call>", [call("t")], ""),
        (f'{OPEN}<param name="p">x</param><param name="q">y</param>{SHUT}', [call("t", p="x", q="y")], ""),
        ('<tool_call name="t"><p>x</p></tool_call>', [call("t", p="x")], ""),
        (f"{OPEN}<name><![CDATA[x]]></name>{SHUT}", [call("t", name="x")], ""),
        # as JSON
        ('<tool_call>\n{"name": "t", "arguments": {"p": "x", "n": [1]}}\n</tool_call>', [call("t", p="x", n=[1])], ""),
        ('<tool_call>{"name": "t", "parameters": {"p": "a\nb"}} After.', [call("t", p="a\nb")], ""),
        ('<tool_call>{"name": "t", "arguments": {"p": "\\ud83d"}}</tool_call>', [call("t", p="?")], ""),
    ],
)  # fmt: skip
def test_a_reply_is_read_as_it_was_meant(reply, calls, text):
    """Each of these was written by some model: the calls are what it meant, and the prose is what is left."""
    parsed = parse_reply(reply)
    assert list(parsed.calls) == calls
    assert parsed.text == text


@pytest.mark.parametrize(
    "reply",
    [
        "<tool_call></tool_call>",
        "<tool_call>",
        "<tool_call><params><p>x</p></params></tool_call>",
        "<tool_call><name> </name></tool_call>",
        "<tool_call>web_search(query='x')</tool_call>",
        '<tool_call>{"name": "t", "arguments": {"p": }}</tool_call>',
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "t", "arguments": {"p": ' + "9" * 5000 + "}}</tool_call>",
        "<tool_call>" + '{"a":' * 5000 + "</tool_call>",
    ],
)
def test_a_call_that_cannot_be_read_is_told_to_the_model(reply):
    """It comes back as a call with an error that shows how to write one and how this one began."""
    (found,) = parse_reply(reply).calls
    assert found.error is not None
    assert "could not be read" in found.error
    assert "<tool_call><name>tool</name>" in found.error


def test_a_call_after_one_that_cannot_be_read_is_not_lost():
    """Reading goes on after the broken call."""
    broken = '<tool_call>{"name": "t", "arguments": {"p": "unescaped " quote"}}</tool_call>'
    parsed = parse_reply(f"{broken}\n{OPEN}<p>x</p>{SHUT}")
    assert [found.error is None for found in parsed.calls] == [False, True]
    assert parsed.calls[1] == call("t", p="x")


@given(any_text)
def test_no_text_crashes_the_reader(text):
    """Whatever a model writes is read, and what is read can be stored."""
    for tried in (text, f"<tool_call>{text}", f"{OPEN}<p><![CDATA[{text}", f"{OPEN}<p><item>{text}"):
        for found in parse_reply(tried).calls:
            assert found.name or found.error
            json.dumps(found.params, ensure_ascii=False).encode()
    list(parse_results(f"<tool_result><name>t</name><success>true</success><data>{text}"))


# --- cost ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece",
    [
        "<tool_call>",
        "<tool_call><name>x</name>",
        "<tool_call><a>",
        "`<tool_call>`<a>",
        "<![CDATA[",
        "<tool_call><a><![CDATA[",
        "<a><![CDATA[x]]>",
        "<a><![CDATA[x]]>y",
        "<a><![CDATA[x</a>",
        "<a><![CDATA[x]]></a>",
        "]]><![CDATA[",
        "<item>",
        "<a><item></a>",
        "<a><item>x</item>",
        "<a>x</a>",
        "</a>",
        "<a ",
        "]]>  ",
        "<tool_call>{",
        '<tool_call>{"a":1,"',
        '{"<tool_call>{":',
        "<tool_result><name>x</name><success>true</success><data><![CDATA[x]]>",
        "```\n",
    ],
)
def test_reading_takes_time_in_proportion_to_the_text(piece):
    """Four times the text takes about four times as long, not sixteen times, whatever the text is made of."""

    def seconds(times):
        best = float("inf")
        for _ in range(3):
            text = f"{OPEN}" + piece * times
            started = time.process_time()
            parse_reply(text)
            list(parse_results(text))
            best = min(best, time.process_time() - started)
        return best

    assert seconds(20_000) < 8 * seconds(5_000) + 0.02


def test_many_different_tags_are_read_in_proportion_too():
    """Tags that never repeat cost no more than tags that do."""

    def seconds(count):
        text = OPEN + "".join(f"<t{i}><![CDATA[x]]>y" for i in range(count))
        started = time.process_time()
        parse_reply(text)
        return time.process_time() - started

    short = min(seconds(4_000) for _ in range(3))
    assert min(seconds(16_000) for _ in range(3)) < 8 * short + 0.02
