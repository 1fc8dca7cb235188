"""Configuration of agents and flows: the packaged values, and a user's file or mapping over them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.engine.flow_registry import load_graph_config
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import UsageError
from artifactflow_nb.tools.artifacts import ARTIFACT_TOOLS
from artifactflow_nb.tools.base import Tool, ToolContext, tool
from artifactflow_nb.tools.lead import call_subagent
from artifactflow_nb.tools.registry import ToolRegistry, select_tools
from artifactflow_nb.tools.web.tools import web_fetch, web_search


def test_packaged_values_are_the_documented_ones() -> None:
    """The default rounds, tools, temperatures and limits of both flows are the documented values."""
    config = load_graph_config()
    assert (config.lead_agent.temperature, config.lead_agent.max_tool_rounds) == (0.7, 5)
    assert config.lead_agent.tools == (*(entry.name for entry in ARTIFACT_TOOLS), "call_subagent", "ask_person")
    search, crawl = config.search_agent, config.crawl_agent
    assert (search.temperature, search.max_tool_rounds, search.tools) == (0.5, 3, ("web_search",))
    assert (crawl.temperature, crawl.max_tool_rounds, crawl.tools) == (0.3, 2, ("web_fetch",))
    assert (config.agent.max_tool_rounds, config.agent.tools) == (50, ("all",))
    assert (config.planner.enabled, config.approval.enabled, config.summarizer.enabled) == (True, False, True)
    executor, replanner = config.executor, config.replanner
    assert (executor.max_tool_rounds, executor.max_steps, executor.tools) == (30, 8, ("core", "mcp"))
    assert (replanner.enabled, replanner.skip_on_success) == (True, True)
    assert (replanner.max_revisions, replanner.max_retries, replanner.max_plans) == (3, 2, 3)
    assert config.settings.recursion_limit == 100
    assert (config.source, config.changed) == ("packaged", {})
    with pytest.raises(ValueError, match="frozen"):
        config.executor.max_steps = 3  # type: ignore[misc]


def test_overrides_replace_packaged_values(tmp_path: Path) -> None:
    """A mapping and a file change the keys that they contain; a list is replaced as a whole."""
    overrides = {"executor": {"max_steps": 4, "tools": ["web_fetch"]}, "approval": {"enabled": "confirm"}}
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump(overrides) + "planner:\n", encoding="utf-8")
    packaged = load_graph_config()
    for source, label in ((overrides, "a mapping"), (path, "my.yaml"), (str(path), "my.yaml")):
        config = load_graph_config(source)
        assert (config.executor.max_steps, config.executor.tools) == (4, ("web_fetch",))
        assert (config.executor.max_tool_rounds, config.approval.enabled) == (30, "confirm")
        assert (config.agent, config.planner, config.replanner) == (
            packaged.agent,
            packaged.planner,
            packaged.replanner,
        )
        assert (config.source, config.changed) == (label, overrides)
        assert load_graph_config(config.changed).changed == overrides


def test_earlier_name_of_the_rounds_has_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="max_iterations is called max_tool_rounds now"):
        config = load_graph_config({"executor": {"max_iterations": 4}})
    assert config.changed == {"executor": {"max_tool_rounds": 4}}


@pytest.mark.parametrize(
    "nodes",
    [
        "executor: {max_steps: 4}\n    approval: {enabled: confirm}",
        "- {name: executor, max_steps: 4}\n    - {name: approval, enabled: confirm}",
    ],
)
def test_nodes_may_be_below_graph_and_nodes(tmp_path: Path, nodes: str) -> None:
    """The nodes may be a mapping or a list of named nodes; siblings such as `settings` are nodes too."""
    path = tmp_path / "graph_config.yaml"
    path.write_text(f"graph:\n  settings: {{recursion_limit: 7}}\n  nodes:\n    {nodes}\n", encoding="utf-8")
    config = load_graph_config(path)
    assert (config.executor.max_steps, config.approval.enabled, config.settings.recursion_limit) == (4, "confirm", 7)
    assert set(config.changed) == {"executor", "approval", "settings"}


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"nodes": {"exekutor": {}}}, "there is no 'exekutor'"),
        ({"nodes": [{"max_steps": 4}]}, "graph.nodes is .* a list of nodes that have a name"),
        ({"edges": {}}, "there is no 'edges'"),
    ],
)
def test_invalid_graph_form_is_reported(graph: Any, message: str) -> None:
    """The error names the unknown key, or the required form."""
    with pytest.raises(UsageError, match=message):
        load_graph_config({"graph": graph})


def test_repeated_packaged_value_changes_nothing() -> None:
    """A file with the packaged values configures the same runs as no file."""
    assert load_graph_config({"executor": {"max_steps": 8, "tools": ["core", "mcp"]}, "agent": {}}).changed == {}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"planer": {}},
            "there is no 'planer' (which is {}). Did you mean planner? Known: lead_agent, search_agent,",
        ),
        (
            {"executor": {"max_step": 3}},
            "there is no 'executor.max_step' (which is 3). Did you mean max_steps? executor has",
        ),
        ({"executor": {"max_steps": "3"}}, "executor.max_steps is '3'; it must be a whole number from 1. executor has"),
        ({"executor": {"max_steps": 0}}, "executor.max_steps is 0; it must be a whole number from 1"),
        ({"executor": {"max_steps": True}}, "executor.max_steps is True; it must be a whole number from 1"),
        ({"executor": {"max_steps": 3.0}}, "executor.max_steps is 3.0; it must be a whole number from 1"),
        (
            {"executor": 3},
            "executor is 3; it must hold some of: model, temperature, reasoning_effort, extra_body, max_tool_rounds,",
        ),
        ({"executor": {"tools": "all"}}, "executor.tools is 'all'; it must be a list of `all`, categories and names"),
        ({"executor": {"tools": ["core", 5]}}, "executor.tools.1 is 5; it must be a list of `all`"),
        ({"agent": {"temperature": 2.5}}, "agent.temperature is 2.5; it must be a number from 0 to 2, or null"),
        ({"agent": {"temperature": float("nan")}}, "agent.temperature is nan; it must be a number from 0 to 2"),
        ({"agent": {"model": ""}}, "agent.model is ''; it must be a model's name at the endpoint, or null"),
        ({"approval": {"enabled": "yes"}}, "approval.enabled is 'yes'; it must be true, false or 'confirm'."),
        ({"approval": {"enabled": 1}}, "approval.enabled is 1; it must be true, false or 'confirm'."),
        ({"replanner": {"max_retries": -1}}, "replanner.max_retries is -1; it must be a whole number from 0."),
        ({"settings": {"recursion_limit": None}}, "settings.recursion_limit is None; it must be a whole number from 1"),
        ({5: {}}, "there is no '5'"),
        ({"_source": "x"}, "there is no '_source'"),
    ],
)
def test_invalid_value_is_reported_with_its_path(overrides: Any, message: str) -> None:
    """The error has the place, the value, the allowed values and the known keys; no value is converted."""
    with pytest.raises(UsageError) as refused:
        load_graph_config(overrides)
    assert f"graph_config: {message}" in str(refused.value)
    assert str(refused.value).count("\n") == 0


def test_all_invalid_values_are_reported_together() -> None:
    """Two mistakes are one error with a line for each."""
    with pytest.raises(UsageError) as refused:
        load_graph_config({"executor": {"max_steps": "x"}, "planer": {}, "approval": {"enabled": []}})
    lines = str(refused.value).splitlines()
    assert len(lines) == 3
    assert "approval.enabled is []" in lines[0]
    assert "executor.max_steps is 'x'" in lines[1]
    assert "there is no 'planer'" in lines[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("executor:\n  max_steps: [4\nagent: {}\n", r"my.yaml cannot be read as YAML: line 3, column 6: .*expected"),
        ("executor:\n\tmax_steps: 4\n", r"my.yaml cannot be read as YAML: line 2, column 1: .*cannot start any token"),
        (
            "agent:\n  model: a\n  model: b\n",
            r"my.yaml cannot be read as YAML: line 3, column 3: the key 'model' appears twice",
        ),
        ("- executor\n", r"my.yaml is \['executor'\]; it must hold nodes"),
        ("executor:\n  max_steps: many\n", r"my.yaml: executor.max_steps is 'many'; it must be a whole number"),
        (
            "agent: !!python/object/apply:os.getcwd []\n",
            r"my.yaml cannot be read as YAML: line 1, .*apply:os.getcwd' is a tag",
        ),
        (b"agent: \xff\n", r"my.yaml is not UTF-8: line 1 has the byte 0xff"),
        (None, r"my.yaml cannot be read: .*No such file"),
    ],
)
def test_unreadable_file_is_reported_with_the_line(tmp_path: Path, content: Any, message: str) -> None:
    """The error names the file and the line, and nothing in the file is executed."""
    path = tmp_path / "my.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=message):
        load_graph_config(path)


def test_empty_file_changes_nothing(tmp_path: Path) -> None:
    """A file with only comments equals the packaged configuration."""
    (tmp_path / "my.yaml").write_text("# nothing yet\n")
    assert load_graph_config(tmp_path / "my.yaml").changed == {}


def test_the_setting_comes_from_each_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments override the variable, and the variable overrides the allowed file; a mapping overrides single keys."""
    monkeypatch.setenv("AF_TRUST_FOLDER", "1")
    Path("artifactflow.toml").write_text("[graph_config.executor]\nmax_steps = 2\n")
    assert Settings.load().graph_config == {"executor": {"max_steps": 2}}
    monkeypatch.setenv("AF_GRAPH_CONFIG", "~/my.yaml")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings.load().graph_config == tmp_path / "my.yaml"
    assert Settings.load(graph_config={"agent": {}}).graph_config == {"executor": {"max_steps": 2}, "agent": {}}
    assert Settings.load(graph_config="other.yaml").graph_config == Path("other.yaml").absolute()


@pytest.mark.parametrize("value", [5, [1], True, {1, 2}])
def test_invalid_type_of_the_setting_is_rejected(value: Any) -> None:
    """The error names the setting, its type and the allowed types, in one line."""
    message = f"The setting graph_config (AF_GRAPH_CONFIG) is {value!r}: it must be the path of a YAML file, or what it"
    with pytest.raises(UsageError) as refused:
        Settings.load(graph_config=value)
    assert str(refused.value).startswith(message)
    assert str(refused.value).count("\n") == 0


def test_key_that_is_not_a_text_is_an_unknown_key() -> None:
    """`{1: 2}` is reported like any unknown key."""
    with pytest.raises(UsageError, match=r"there is no '1' \(which is 2\)\. Known: lead_agent"):
        load_graph_config(Settings.load(graph_config={1: 2}).graph_config)


@tool(category="mcp")
def remote(ctx: ToolContext) -> ToolResult:
    """Reach far."""
    raise NotImplementedError


@tool(category="text")
def count(ctx: ToolContext) -> str:
    """Count."""
    raise NotImplementedError


@tool(name="text")
def confusing(ctx: ToolContext) -> str:
    """Confuse."""
    raise NotImplementedError


TOOLS: tuple[Tool, ...] = (*ARTIFACT_TOOLS, call_subagent, web_search, web_fetch, remote, count)


@pytest.mark.parametrize(
    ("specs", "names"),
    [
        (["all"], [entry.name for entry in TOOLS]),
        (["core"], [entry.name for entry in TOOLS[:-2]]),
        (["mcp"], ["remote"]),
        (["text", "web_fetch", "mcp"], ["count", "web_fetch", "remote"]),
        (["web_fetch", "core"], ["web_fetch", *(entry.name for entry in TOOLS[:-3])]),
        (["count", "all", "count"], ["count", *(entry.name for entry in TOOLS[:-1])]),
        ([], []),
    ],
)
def test_tools_are_selected_by_name_category_or_all(specs: list[str], names: list[str]) -> None:
    """The tools are in the order of the selection, without duplicates."""
    assert [entry.name for entry in select_tools(specs, TOOLS)] == names


def test_tool_name_takes_precedence_over_a_category() -> None:
    """`text` selects the tool `text` although other tools have this category."""
    assert select_tools(["text"], [*TOOLS, confusing]) == (confusing,)


@pytest.mark.parametrize("name", ["all", "core", "mcp"])
def test_group_names_are_reserved(name: str) -> None:
    """A user's tool cannot be called `all`, `core` or `mcp`."""
    impostor = tool(name=name)(count.handler)
    others = select_tools([name], TOOLS)
    assert select_tools([name], [*TOOLS, impostor])[: len(others)] == others
    registry = ToolRegistry(TOOLS)
    with pytest.raises(UsageError, match=f"A tool cannot be called '{name}'"):
        registry.register(impostor)


def test_unknown_tool_lists_known_tools_and_categories() -> None:
    """The categories `core` and `mcp` are known even if they contain no tool."""
    assert select_tools(["core", "mcp", "all"], ()) == ()
    assert select_tools(["weather", "count"], TOOLS, skip_unknown=True) == (count,)
    with pytest.raises(UsageError, match="no tool 'weather'") as refused:
        select_tools(["core", "weather"], TOOLS)
    for known in (*(entry.name for entry in TOOLS), "all", "core", "mcp", "text"):
        assert known in str(refused.value)
