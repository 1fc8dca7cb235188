"""Test data for parsers of tool calls: pieces of the grammar to join at random, values, calls and prose."""

import json

from hypothesis import strategies as st

from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.core.toolcalls.scanner import normalize_tag
from artifactflow_nb.core.toolcalls.xml import format_call

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


def as_elements(call: ToolCall) -> str:
    return format_call(call.name, call.params)


def as_json(call: ToolCall) -> str:
    return f"<tool_call>\n{json.dumps({'name': call.name, 'arguments': call.params})}\n</tool_call>"
