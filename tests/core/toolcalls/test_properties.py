"""Properties of the parser for any text: no crash, exact round trips, and no truncated calls."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.core.messages import ToolCall, ToolResult
from artifactflow_nb.core.toolcalls.scanner import normalize_tag
from artifactflow_nb.core.toolcalls.xml import (
    ParsedReply,
    cdata,
    format_call,
    format_result,
    format_results,
    parse_reply,
    parse_results,
)

PIECES = [
    "]]>", "]]", "]", ">", "<", "</", "/>", "<![CDATA[", "]]]]><![CDATA[>", "<tool_call>", "</tool_call>",
    "<tool_call ", "<name>", "</name>", "<params>", "</params>", "<item>", "</item>", "<p>", "</p>", "</q>",
    '<p name="q">', "<p/>", "<function=f>", "</function>", "<parameter=p>", "</parameter>", '<invoke name="i">',
    "</invoke>", "<tool_calls>", "</tool_calls>", "<arg_key>", "</arg_key>", "<arg_value>", "<tool_result>",
    "</tool_result>", "</data>", "<think>", "</think>", "<arguments>", "<|tool_call", "＜tool_call＞", "```", "~~~",
    "```xml\n", "`", "\n", "  ", "&lt;", "&amp;", "&#x41;", "&#xD800;", "&#", "&", '{"name": "n"',
    '"arguments": {', "{", "}", "[", ",", ":", '"', "'", "\\", "\\ud800", "True", "1e999", "0", "中文", "🙂",
    "\u200b", "\ufeff", "\r\n", "a", "name", "t",
]  # fmt: skip
glued = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
any_text = st.one_of(st.text(), glued)
values = st.one_of(any_text, st.lists(any_text, min_size=1, max_size=3))
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,10}", fullmatch=True).filter(
    lambda name: normalize_tag(name) != "tool_call"
)
calls = st.builds(ToolCall, names, st.dictionaries(names, values, max_size=3))
prose = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="<＜`~{["), max_size=20),
    st.sampled_from(
        ["a < b & c > d", "<b>bold</b>", "&lt;p&gt;", "]]>", "in `code`", "第一步：", "Then:\n\n- one\n- two", ""]
    ),
)
BLANKS = " \t\r\n\f\v\ufeff\u200b"
TOKEN = re.compile(r"</?\w+>|<!\[CDATA\[|\]\]>")
plain_values = st.text(st.characters(codec="utf-8", exclude_characters="<>&[]{}`~＜"), min_size=1).filter(str.strip)

plain_params = st.dictionaries(names, plain_values, min_size=1, max_size=3).filter(
    lambda params: len({normalize_tag(name) for name in params}) == len(params)
)


def as_elements(call: ToolCall) -> str:
    return format_call(call.name, call.params)


def as_json(call: ToolCall) -> str:
    return f"<tool_call>\n{json.dumps({'name': call.name, 'arguments': call.params})}\n</tool_call>"


def sound(parsed: ParsedReply) -> list[ToolCall]:
    return [call for call in parsed.calls if call.error is None]


# --- nothing crashes -----------------------------------------------------------------------------------------------


@given(any_text, glued, st.booleans())
def test_any_text_is_parsed(first, second, cut):
    """Each call has a name or an error, and can be stored."""
    text = first + second
    openings = ["", "<tool_call>", "<tool_call><name>t</name><params><p><![CDATA[", "<function=f><parameter=p>"]
    openings += ["<tool_call><name>t</name><params><p><item>", '<tool_call>{"name": "t", "arguments": {"p": ', "{"]
    for opening in openings:
        parsed = parse_reply(opening + text, is_truncated=cut)
        parsed.text.encode()
        for call in parsed.calls:
            assert call.name or call.error
            json.dumps([call.name, dict(call.params), call.error], ensure_ascii=False, allow_nan=False).encode()
    list(parse_results(f"<tool_result><name>t</name><success>true</success><data>{text}"))


@given(st.text(st.characters(codec="utf-8", exclude_characters="<＜`~{[")))
def test_text_without_markup_is_prose(text):
    """A reply without markup of the protocol has no calls."""
    assert parse_reply(text) == ParsedReply(text.strip(BLANKS), ())


# --- what is written is read back exactly --------------------------------------------------------------------------


@given(names, st.dictionaries(names, values), st.booleans())
def test_formatted_call_is_read_back_exactly(name, params, cut):
    """Any text and any list of texts survive, with tags, CDATA marks and white space."""
    assert parse_reply(format_call(name, params), is_truncated=cut) == ParsedReply("", (ToolCall(name, params),))


@given(st.lists(st.tuples(calls, prose), max_size=4), prose, st.sampled_from([as_elements, as_json]))
def test_calls_and_prose_are_separated(written, first, write):
    """Calls are read in order with unchanged values, and so is the prose between them."""
    parsed = parse_reply(first + "".join(f"\n{write(call)}\n{after}" for call, after in written))
    assert list(parsed.calls) == [call for call, _ in written]
    stripped = [text.strip(BLANKS) for text in [first, *(after for _, after in written)]]
    assert parsed.text == "\n\n".join(filter(None, stripped))


@given(calls, st.sampled_from(["```xml\n{}\n```", "~~~\n{}\n~~~", "<tool_calls>{}</tool_calls>"]))
def test_wrapper_around_a_call_is_not_prose(call, around):
    """Fences and wrappers around a call are removed; after prose, a call in a fence needs approval."""
    written = around.format("\0").replace("\0", as_elements(call))
    assert parse_reply(written) == ParsedReply("", (call,))
    assert parse_reply(f"Now.\n{written}") == ParsedReply(
        "Now.", (replace(call, needs_approval=not around.startswith("<")),)
    )


@given(calls, st.sampled_from(["```xml\n{}\n```", "~~~\n{}\n~~~", "`{}`", "> {}"]))
def test_quoted_call_is_unchanged(call, around):
    """A quoted call within prose is text."""
    written = as_elements(ToolCall(call.name, dict.fromkeys(call.params, "a b")))
    reply = f"Write this:\n\n{around.format(written)}\n\nDone."
    assert parse_reply(reply) == ParsedReply(reply, ())


@given(st.lists(st.tuples(any_text.filter(str.strip), st.booleans(), any_text), min_size=1, max_size=4))
def test_formatted_results_are_read_back_exactly(written):
    """Any data and errors survive, and so does the name of an unknown tool."""
    results = [
        (name, ToolResult(success, data=body) if success else ToolResult(success, error=body or "why"))
        for name, success, body in written
    ]
    message = format_results(results)
    assert list(parse_results(message)) == results


@given(calls, st.lists(st.tuples(st.just("t"), any_text), min_size=1, max_size=3))
def test_invented_results_are_ignored(call, made_up):
    """The text of an invented result and the calls in the text are not read; a real call before the result is read."""
    results = format_results((name, ToolResult(success=True, data=body)) for name, body in made_up)
    assert parse_reply(f"Now.\n{as_elements(call)}\n{results}\nDone.") == ParsedReply("Now.\n\nDone.", (call,))


@given(any_text)
def test_cdata_matches_the_xml_parser(value):
    """An XML parser reads the same text."""
    sections = cdata(value).removeprefix("<![CDATA[").removesuffix("]]>").split("]]><![CDATA[")
    assert all("]]>" not in section for section in sections)
    assert "".join(sections) == value


def test_failed_result_without_an_error_has_a_message():
    """The model never gets an empty failure."""
    assert "failed without saying why" in format_result("t", ToolResult(success=False))


# --- what is cut is never run --------------------------------------------------------------------------------------


def begins_like(found: Any, written: Any) -> bool:
    """Return whether a value is the written value, or a prefix of a value with a closing tag (in a list: the last)."""
    if isinstance(found, list) and isinstance(written, list) and found:
        *first, last = found
        return first == written[: len(first)] and len(found) <= len(written) and begins_like(last, written[len(first)])
    return found == written or (isinstance(written, str) and "</" in written and written.startswith(found))


def check_cut(reply: str, whole: list[ToolCall], at: int) -> None:
    known = parse_reply(reply[:at], is_truncated=True)
    assert sound(known) == whole[: len(sound(known))]
    assert [call.error is None for call in known.calls[:-1]] == [True] * (len(known.calls) - 1)
    if unknown := sound(parse_reply(reply[:at])):
        *first, last = unknown
        written = whole[len(first)]
        assert first == whole[: len(first)]
        assert last.name == written.name
        assert list(last.params) == list(written.params)[: len(last.params)]
        assert all(begins_like(value, written.params[key]) for key, value in last.params.items())
        assert last.params or not written.params


@given(st.lists(calls, min_size=1, max_size=2), prose, st.sampled_from([as_elements, as_json]), st.data())
def test_truncated_reply_runs_only_complete_calls(whole, between, write, data):
    """If truncation is known, only closed calls are read; otherwise only the last parameters may be missing."""
    reply = f"Now.\n{between}\n".join(["", *(write(call) for call in whole)])
    check_cut(reply, whole, data.draw(st.integers(0, len(reply))))


@pytest.mark.parametrize("write", [as_elements, as_json])
def test_markup_of_a_truncated_reply_is_not_prose(write):
    """Wherever a reply with ordinary calls is cut, its markup does not become text."""
    whole = [
        ToolCall("web_search", {"query": "a < b & ]]> c", "max_results": "5"}),
        ToolCall("web_fetch", {"urls": ["https://a.example/?a=1&b=2", "]]>"], "focus": "<b>x</b>"}),
    ]
    reply = "I look.\n" + "\n".join(write(call) for call in whole)
    for at in range(len(reply) + 1):
        check_cut(reply, whole, at)
        text = parse_reply(reply[:at], is_truncated=True).text
        assert "I look.".startswith(text.split("\n")[0])
        assert len(text) < len("I look.\n\n<tool")
        opened, done = reply[:at].count("<tool_call>"), reply[:at].count("</tool_call>")
        assert done <= len(sound(parse_reply(reply[:at], is_truncated=True))) <= opened


@given(names, plain_params, st.data())
def test_missing_tag_never_changes_a_value(name, params, data):
    """If one tag or CDATA mark is missing, the call is read as intended or reported."""
    reply = format_call(name, params)
    token = data.draw(st.sampled_from(list(TOKEN.finditer(reply))))
    parsed = parse_reply(reply[: token.start()] + reply[token.end() :])
    assert sound(parsed) in ([], [ToolCall(name, params)])
    assert parsed.calls or token[0] == "<tool_call>"


@given(names, plain_params)
def test_closing_tags_may_be_missing_at_the_end(name, params):
    """Closing tags that a stop sequence removes, or a model omits, are not needed."""
    reply = format_call(name, params)
    for missing in ("</tool_call>", "</params></tool_call>"):
        assert sound(parse_reply(reply.removesuffix(missing))) == [ToolCall(name, params)]
