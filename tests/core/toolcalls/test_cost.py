"""Parsing takes time in proportion to the length of any text."""

import time
from collections.abc import Callable

import pytest
from support import cpu_time as spent

from artifactflow_nb.core.toolcalls.xml import parse_reply, parse_results

OPEN = "<tool_call><name>x</name><params>"
RESULT = "<tool_result><name>x</name><success>true</success><data>"
REPEATED = [
    "<tool_call>", "<tool_call><name>x</name>", "<tool_call><a>", "`<tool_call>`<a>", "`" + OPEN + "`", "<tool_call ",
    "<tool_call a='", '<tool_call aaa="', "<tool_call/>", "<![CDATA[", "<tool_call><a><![CDATA[", "<a><![CDATA[x]]>",
    "<a><![CDATA[x]]>y", "<a><![CDATA[x</a>", "<a><![CDATA[x]]></a>", "]]><![CDATA[", "<item>", "<a><item></a>",
    "<a><item>x</item>", "<item>x</item>", "<a>x</a>", "<a>", "</a>", "<a ", "<a/>", "]]>  ", "<tool_call>{", "&#1",
    "<", "<tool_call>{'a':\"", '<tool_call>{"a":1,"', '{"<tool_call>{":', '<tool_call>{"name":"x","arguments":{}}', "{",
    "[{", "```x", "~", '<tool_call>{"name":"x"}</tool_call>`',
    "<tool_result><name>x</name><success>true</success><data><![CDATA[x]]>",
    "<tool_result>", "<tool_result></tool_result>", "<think>", "<think></think>", "<tool_calls>[", "<tool_calls>",
    "</tool_call>", "</tool_call>  ", "```\n", "~~~ ", "`", " ", "\n", "<function=x><parameter=a>", "<parameter=a>\n",
    '<invoke name="x">', "<invoke name=name=", "<name>x</name><params>", "<name>", "<arg_key>a</arg_key>", "<|tool",
    "＜tool_call＞", "<tool_call><name>x</name><params></params>y", "aaaa", '\\"', "'",
    "<|python_tag|>", "<|python_tag|>{", "[TOOL_CALLS]", "[TOOL_CALLS]x[ARGS]", "<|channel|>", "to=functions.x json",
    "<|start|>assistant<|message|>", "<|channel|>analysis<|message|>", "<｜tool▁call▁begin｜>x<｜tool▁sep｜>",
    '<｜DSML｜invoke name="x">', '<|tool_call>call:x{a:<|"|>', "functools[{", "f(a=", "[f(a=1)", "```tool_code\n",
    "<|im_end|>", "<escape>", "```json\n{", "<item><a>", "<item><a>x</a></item>", "</item>", '\n{"name":',
]  # fmt: skip
STARTS = {
    "a call": OPEN,
    "a value": OPEN + "<v><![CDATA[",
    "JSON": '<tool_call>{"name": "x", "arguments": {"v": "',
    "": "",
}


def seconds(text: str) -> float:
    started = time.process_time()
    parse_reply(text)
    parse_reply(OPEN + text, is_truncated=True)
    list(parse_results(RESULT + text))
    return time.process_time() - started


def check_linear(make: Callable[[int], str]) -> None:
    """Assert that four times as many pieces take about four times as long."""
    spent.check_linear(lambda size: seconds(make(size)))


pytestmark = pytest.mark.timed


@pytest.mark.parametrize("piece", REPEATED)
def test_repeated_piece_takes_linear_time(piece):
    """An incomplete piece of the grammar, repeated, is not searched again and again."""
    check_linear(lambda size: piece * size)


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_alternating_pieces_take_linear_time(start):
    """All pieces of the grammar follow each other in turn, after any start."""
    check_linear(lambda size: start + "".join(REPEATED) * (size // 50))


@pytest.mark.parametrize("start", ["", "Now:\n", "<tool_call>\n"], ids=["alone", "in prose", "in a call"])
def test_broken_json_takes_linear_time(start):
    """Objects with a late error are not read again from the middle."""
    check_linear(lambda size: start + "".join(f'{{"k{i}": [1, "a", ' for i in range(size)))
    check_linear(lambda size: start + '<tool_call>{"name": "x", "arguments": {"v": "a"]}}</tool_call>\n' * (size // 10))


def test_many_different_tags_take_linear_time():
    """Different tags cost no more than repeated tags."""
    check_linear(lambda size: OPEN + "".join(f"<t{i}><![CDATA[x]]>y" for i in range(size)))
    check_linear(lambda size: OPEN + "".join(f"<t{i}>" for i in range(size)) + "".join(f"</t{i}>" for i in range(size)))


def test_long_values_take_linear_time():
    """A value may have many sections, lines or entities."""
    for piece in ("]]]]><![CDATA[>", "a line\n", "&lt;&#65;", "<b>x</b>"):
        check_linear(lambda size, piece=piece: f"{OPEN}<v><![CDATA[{piece * size}]]></v></params></tool_call>")
        check_linear(lambda size, piece=piece: f"{OPEN}<v>{piece * size}</v></params></tool_call>")
