"""Tool offers of MCP servers: names, permissions, and the text that a run stores."""

import json
from typing import Any

import pytest

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.errors import CassetteError, FormError, UsageError
from artifactflow_nb.tools.base import ToolContext
from artifactflow_nb.tools.mcp.config import McpServer
from artifactflow_nb.tools.mcp.offers import (
    ListedTool,
    McpToolOffers,
    build_offers,
    offers_from_json,
    offers_to_json,
    tool_from_offer,
)
from artifactflow_nb.widgets.forms.form import form_fields, read_form

SCHEMA = {"properties": {"zeta": {"type": "string"}, "x-y": {"type": "integer"}}, "required": ["zeta"]}


def server(name: str, **options: Any) -> McpServer:
    return McpServer(name=name, command="x", **options)


def offers_of(*servers: tuple[McpServer, list[str]], durations: tuple[str, ...] = ()) -> McpToolOffers:
    listed = [(entry, [ListedTool(name, f"Does {name}.", SCHEMA) for name in names]) for entry, names in servers]
    return build_offers(listed, durations, "lead_agent")


@pytest.mark.parametrize(
    ("lists", "used_names", "names"),
    [
        ([("files", ["read", "write"])], (), ["read", "write"]),
        ([("files", ["read"]), ("far", ["read", "other"])], (), ["files_read", "far_read", "other"]),
        ([("files", ["web_fetch", "other"])], ("web_fetch",), ["files_web_fetch", "other"]),
        ([("files", ["read-it", "read.it"])], (), ["files_read_it", "files_read_it_2"]),
        ([("a", ["b_c"]), ("a_b", ["c", "x"])], ("c", "b_c"), ["a_b_c", "a_b_c_2", "x"]),
        ([("files", ["read", "read"])], (), ["read"]),
        ([("my.files-2", ["read"])], ("read",), ["my_files_2_read"]),
        ([("odd", ["core", "all", "mcp", "Core"])], (), ["odd_core", "odd_all", "odd_mcp", "Core"]),
    ],
)
def test_tool_keeps_its_name_unless_it_is_used(lists: Any, used_names: Any, names: list[str]) -> None:
    """All tools with the same name get the prefix of their servers."""
    assert [
        offer.name for offer in offers_of(*((server(name), tools) for name, tools in lists), durations=used_names)
    ] == names


def test_permissions_use_the_servers_names() -> None:
    """A tool without a permission needs an approval; a tool outside of `tools` is not offered."""
    some = server("files", permission={"read-it": "auto"}, tools=("write", "read-it"), agents=("crawl_agent",))
    found = offers_of((some, ["read-it", "write", "drop"]))
    assert [(offer.name, offer.permission, offer.agents) for offer in found] == [
        ("write", "confirm", ("crawl_agent",)),
        ("read_it", "auto", ("crawl_agent",)),
    ]
    assert offers_of((server("files", permission="auto"), ["read"]))[0].permission == "auto"


@pytest.mark.parametrize("options", [{"permission": {"raed": "auto"}}, {"tools": ("raed",)}])
def test_unknown_tool_lists_known_tools(options: Any) -> None:
    """A setting for a tool that the server does not have would have no effect."""
    with pytest.raises(UsageError, match=r"mcp\.files\.\w+ names 'raed'; the server's tools are: read, write\."):
        offers_of((server("files", **options), ["write", "read"]))


def test_stored_offers_give_the_same_tools() -> None:
    """Parameters keep their order, which is the order of the manual, and their names on the server."""
    before = offers_of((server("files", permission="auto"), ["read"]))
    after = offers_from_json(offers_to_json(before))
    assert after == before
    tools = [tool_from_offer(offer, _never) for offer in (*before, *after)]
    assert json.dumps(tools[0].spec.parameters) == json.dumps(tools[1].spec.parameters)
    assert list(tools[1].spec.parameters["properties"]) == ["zeta", "x_y"]
    assert tools[1].category == "mcp"


async def _never(_offer: Any, _arguments: Any) -> ToolResult:
    raise AssertionError


async def test_call_uses_the_servers_names() -> None:
    """The server gets its own parameter names, and no parameter that the call omits."""
    calls: list[Any] = []

    async def call(offer: Any, arguments: Any, _ask: Any) -> ToolResult:
        calls.append((offer.tool, dict(arguments)))
        return ToolResult(success=True, data="done")

    tool = tool_from_offer(offers_of((server("files"), ["read-it"]))[0], call)
    context = ToolContext("run", "conv", "msg", "lead_agent", "call")
    assert (await tool.run(context, {"zeta": "a", "x_y": "3"})).data == "done"
    assert (await tool.run(context, {"zeta": "a"})).data == "done"
    assert calls == [("read-it", {"zeta": "a", "x-y": 3}), ("read-it", {"zeta": "a"})]
    refused = await tool.run(context, {"x_y": "3"})
    assert (refused.success, "the parameter 'zeta' is missing" in str(refused.error)) == (False, True)
    assert " at 0x" not in repr(tool)


def test_form_of_a_call_has_typed_fields() -> None:
    """The form of a waiting call has a field for each declared parameter."""
    props = {"n": {"type": ["integer", "null"]}, "kind": {"enum": ["a", "b"]}, "o": {"$ref": "#/$defs/o"}, "any": True}
    schema = {"properties": props, "required": ["kind"], "$defs": {"o": {"type": "object"}}}
    tool = tool_from_offer(
        build_offers([(server("files"), [ListedTool("set", "Set.", schema)])], (), "lead_agent")[0], _never
    )
    fields = form_fields(tool, {"kind": "a", "n": 3})
    assert [(field.name, field.kind, field.required) for field in fields] == [
        ("n", "integer", False),
        ("kind", "choice", True),
        ("o", "json", False),
        ("any", "json", False),
    ]
    changed = {"n": "4", "kind": "b", "o": '{"deep": [1]}'}
    assert read_form(tool, {"kind": "a", "n": 3}, changed) == {"n": 4, "kind": "b", "o": {"deep": [1]}}
    with pytest.raises(FormError, match="a whole number"):
        read_form(tool, {"kind": "a"}, {"n": "many"})


NAMED_BADLY = {"name": "a b", "server": "s", "tool": "t", "description": "", "parameters": {}} | {
    "permission": "auto", "agents": [], "timeout_s": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "{", "3", '[{"name": "x"}]', None, json.dumps([NAMED_BADLY])],
)
def test_edited_offers_are_a_clear_error(text: Any) -> None:
    """Offers in a file are validated."""
    with pytest.raises(CassetteError, match="The recorded tools of MCP servers cannot be read"):
        offers_from_json(text)


def test_invalid_stored_schema_allows_no_parameters() -> None:
    """An invalid schema in a file gives a tool without parameters instead of an error."""
    [offer] = json.loads(offers_to_json(offers_of((server("files"), ["read"]))))
    [read] = offers_from_json(json.dumps([{**offer, "parameters": {"properties": 3, "$ref": "#"}}]))
    assert tool_from_offer(read, _never).spec.parameters == {"type": "object", "properties": {}, "required": []}
