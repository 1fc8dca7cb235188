"""Reading takes time in proportion to the text, whatever the text is made of."""

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
    """Four times as many pieces are read in about four times the time."""
    spent.check_linear(lambda size: seconds(make(size)))


@pytest.mark.parametrize("piece", REPEATED)
def test_a_piece_repeated_is_read_in_proportion(piece):
    """No piece of the grammar is searched for again and again, however often it is repeated without what it needs."""
    check_linear(lambda size: piece * size)


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_pieces_in_turn_are_read_in_proportion(start):
    """All pieces one after the other, repeated, cost no more than in proportion, whatever they follow."""
    check_linear(lambda size: start + "".join(REPEATED) * (size // 50))


@pytest.mark.parametrize("start", ["", "Now:\n", "<tool_call>\n"], ids=["alone", "in prose", "in a call"])
def test_broken_json_is_read_in_proportion(start):
    """Objects that break late are not read again from their middle."""
    check_linear(lambda size: start + "".join(f'{{"k{i}": [1, "a", ' for i in range(size)))
    check_linear(lambda size: start + '<tool_call>{"name": "x", "arguments": {"v": "a"]}}</tool_call>\n' * (size // 10))


def test_many_different_tags_are_read_in_proportion():
    """Tags that never repeat cost no more than tags that do."""
    check_linear(lambda size: OPEN + "".join(f"<t{i}><![CDATA[x]]>y" for i in range(size)))
    check_linear(lambda size: OPEN + "".join(f"<t{i}>" for i in range(size)) + "".join(f"</t{i}>" for i in range(size)))


def test_long_values_are_read_in_proportion():
    """One value of many sections, many lines or many entities."""
    for piece in ("]]]]><![CDATA[>", "a line\n", "&lt;&#65;", "<b>x</b>"):
        check_linear(lambda size, piece=piece: f"{OPEN}<v><![CDATA[{piece * size}]]></v></params></tool_call>")
        check_linear(lambda size, piece=piece: f"{OPEN}<v>{piece * size}</v></params></tool_call>")
