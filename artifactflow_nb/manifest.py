"""What a run is made with: versions, agents with their models, prompts and tools, sources. It is kept with the run.

Texts are named by hashes and endpoints by their hosts, so a manifest tells what changed and holds nothing secret.
"""

import hashlib
import json
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from artifactflow_nb import __version__
from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.graph_config import PACKAGED
from artifactflow_nb.models.endpoint_errors import public_url
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.made import load_source_hashes
from artifactflow_nb.store.source_values import Added
from artifactflow_nb.tools.base import Tool

Manifest = Mapping[str, Any]
"""Plain JSON: `versions`, `flow`, `mode`, `agents`, `search`, hashes by name in `prompts`, `tools`, `sources`, and in
`graph_config` what is configured otherwise than packaged, by dotted paths, if anything is.

Under `mcp` it has what MCP servers offered, as the text that a replay makes the same tools of.

A hash is `{"sha256": ...}`: as the bare value beside the name of a tool such as `read_password`, it would be masked in
cassettes.
"""

Hashed = Mapping[str, str]

_PACKAGES = ("langgraph", "openai", "pydantic")
_HASH_DIGITS = 16
_MANUALS = {"xml": "tools", "native": "tools_native"}
_TOLD = ("model", "provider", "endpoint", "temperature", "tool_protocol", "max_tool_rounds")
"""What of an agent is told with both values where it changed."""


@cache
def versions() -> Mapping[str, str]:
    """The releases of this package, of what it rests on, and of Python."""
    others = {name: version(name) for name in _PACKAGES}
    return {"artifactflow-nb": __version__, **others, "python": platform.python_version()}


def short_hash(text: str) -> str:
    """The first 16 digits of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]


def _hashed(text: str) -> Hashed:
    return {"sha256": short_hash(text)}


class Manifests:
    """Makes the manifests of an engine's runs; what two runs have in common is made once.

    Args:
        prompts: Where prompts are read; of one, the hash is that of its text without white space around it.
        database: Where the hashes of sources are.
    """

    def __init__(self, prompts: PromptLibrary, database: Database) -> None:
        self._prompts = prompts
        self._database = database
        self._seen: tuple[Any, ...] | None = None
        self._lasting: Mapping[str, Any] = {}
        self._sources: dict[str, tuple[Any, Hashed]] = {}

    def of(self, agents: Mapping[str, BaseAgent], model: str | None, **more: Any) -> dict[str, Any]:
        """The manifest of a run.

        Args:
            agents: The engine's agents by name, as they are now.
            model: The model that was chosen for the run; None for none.
            more: What else belongs to the run: `flow`, `mode`, `search`, `sources`.
        """
        seen = tuple((agent, agent.tools) for agent in agents.values())
        if seen != self._seen:
            self._seen, self._lasting = seen, self._common(agents)
        told = {name: {"model": agents[name].model_in_a_run(model), **one} for name, one in self._lasting["agents"]}
        return {**self._lasting, "agents": told, **more}

    def _common(self, agents: Mapping[str, BaseAgent]) -> dict[str, Any]:
        manuals = {_MANUALS[agent.protocol.name] for agent in agents.values() if agent.tools}
        prompts = sorted(manuals | {_prompt_of(agent) for agent in agents.values()})
        tools = {entry.name: _hash_of(entry) for agent in agents.values() for entry in agent.tools}
        return {
            "versions": dict(versions()),
            "agents": [(name, _about(agent)) for name, agent in agents.items()],
            "prompts": {name: _hashed(self._prompts.render(name)) for name in prompts},
            "tools": dict(sorted(tools.items())),
        }

    async def sources(self, added: Iterable[Added], reference: str | None) -> dict[str, Hashed]:
        """Hashes of what is searched, by the beginning of its addresses; made anew only of what changed.

        Args:
            added: The folders and files that were added.
            reference: The id of the language reference, where that is searched instead; None if it is not, so far.
        """
        wanted: dict[str, Any] = {_label(one): one.sources for one in added}
        if not wanted and reference is not None:
            wanted = {reference: reference}
        for label, state in wanted.items():
            known, _ = self._sources.get(label, (None, {}))
            if known is not state and known != state:
                ids = [state] if state == reference else [source.source_id for source in state]
                self._sources[label] = state, await self._hash_of_sources(ids)
        return {label: self._sources[label][1] for label in sorted(wanted)}

    async def _hash_of_sources(self, ids: Sequence[str]) -> Hashed:
        found = await self._database.read(lambda db: load_source_hashes(db, ids))
        return _hashed("\n".join(f"{source_id} {sha256}" for source_id, sha256 in found))


def _prompt_of(agent: BaseAgent) -> str:
    return agent.config.prompt or agent.config.name


def _hash_of(entry: Tool) -> Hashed:
    """The hash of what a model is told of a tool."""
    spec = entry.spec
    return _hashed(json.dumps([spec.name, spec.description, spec.parameters], sort_keys=True, default=str))


def _label(added: Added) -> str:
    """What the addresses of a folder begin with; of one whose files were known before, that of the first."""
    first, *others = added.scope or (added.folder.rpartition("/")[2],)
    return f"{first} and {len(others)} more" if others else first


def _about(agent: BaseAgent) -> dict[str, Any]:
    config = agent.config
    return {
        "provider": agent.model.provider,
        **_endpoint(agent),
        "temperature": config.temperature,
        "tool_protocol": agent.protocol.name,
        "max_tool_rounds": config.max_tool_rounds,
        "prompt": _prompt_of(agent),
        "introduction": short_hash("\n".join([config.description, *config.capabilities])),
        "tools": list(agent.tool_names),
    }


def _endpoint(agent: BaseAgent) -> dict[str, str]:
    """The host that is asked; nothing for a model that asks none."""
    address = getattr(agent.model, "address", None)
    if not isinstance(address, str):
        return {}
    return {"endpoint": urlsplit(public_url(address)).netloc or address}


# --- what changed ----------------------------------------------------------------------------------------------------


def changes(before: Manifest, now: Manifest, agents: Collection[str]) -> list[str]:
    """What is not as it was, each in a few words: `python 3.11.2 → 3.12.1`, `prompt lead_agent.md`.

    Args:
        before: What a run was made with; empty if that was not kept.
        now: What it would be made with.
        agents: The agents that took part: how others are configured did not matter.
    """
    if not before:
        return []
    return [
        *_values(before.get("versions", {}), now["versions"]),
        *_of_agents(before.get("agents", {}), now["agents"], agents),
        *_of_nodes(before, now),
        *_named("prompt {}.md", before.get("prompts", {}), now["prompts"], _used(before, now, agents, _prompts)),
        *_named("tool {}", before.get("tools", {}), now["tools"], _used(before, now, agents, _tools)),
        *_of_sources(before.get("sources", {}), now.get("sources", {})),
    ]


def _values(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """What both name and say differently."""
    for name, value in before.items():
        if name in now and now[name] != value:
            yield f"{prefix}{name} {_said(value)} → {_said(now[name])}"


def _said(value: Any) -> str:
    return "default" if value is None else f"{value}"


def _of_agents(before: Mapping[str, Any], now: Mapping[str, Any], agents: Collection[str]) -> Iterator[str]:
    """Agents that came or went are told to the one that delegates; of those that took part it matters how they ask."""
    for name in sorted({*before, *now}):
        was, is_now = before.get(name), now.get(name)
        if was is None or is_now is None:
            yield f"agent {name} {'added' if was is None else 'gone'}"
            continue
        if was.get("introduction") != is_now["introduction"]:
            yield f"{name}: description"
        if name in agents:
            told = {field: was[field] for field in _TOLD if field in was}
            yield from _values(told, is_now, f"{name}: ")
            if was.get("tools") != is_now["tools"]:
                yield from _offered(name, was.get("tools", []), is_now["tools"])


def _of_nodes(before: Manifest, now: Manifest) -> Iterator[str]:
    """What is configured otherwise for nodes of flows; what is for agents is told as theirs."""
    was, is_now = before.get("graph_config", {}), now.get("graph_config", {})
    for path in sorted({*was, *is_now}):
        if path.partition(".")[0] not in now["agents"] and was.get(path, PACKAGED) != is_now.get(path, PACKAGED):
            yield f"{path} {_said(was.get(path, PACKAGED))} → {_said(is_now.get(path, PACKAGED))}"


def _offered(agent: str, before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    was, is_now = list(before), list(now)
    came = [f"{agent}: tool {name} added" for name in is_now if name not in was]
    went = [f"{agent}: tool {name} gone" for name in was if name not in is_now]
    yield from [*came, *went] or [f"{agent}: order of its tools"]


def _prompts(agent: Mapping[str, Any]) -> Iterable[str]:
    return (agent["prompt"], *([_MANUALS.get(agent["tool_protocol"], "")] if agent["tools"] else []))


def _tools(agent: Mapping[str, Any]) -> Iterable[str]:
    names: list[str] = agent["tools"]
    return names


def _used(before: Manifest, now: Manifest, agents: Collection[str], names: Any) -> set[str]:
    """What agents that took part use, then and now."""
    both = (manifest.get("agents", {}).get(agent) for manifest in (before, now) for agent in agents)
    return {name for agent in both if agent is not None for name in names(agent)}


def _named(form: str, before: Mapping[str, Hashed], now: Mapping[str, Hashed], used: Collection[str]) -> Iterator[str]:
    """Those among what is used whose text is another one."""
    for name in sorted(before.keys() & now.keys() & set(used)):
        if before[name] != now[name]:
            yield form.format(name)


def _of_sources(before: Mapping[str, Hashed], now: Mapping[str, Hashed]) -> Iterator[str]:
    """Sources that changed, came or went; nothing while it is not known what is searched now."""
    for name in sorted({*before, *now}) if before and now else ():
        if before.get(name) != now.get(name):
            yield f"source {name}" + ("" if name in before and name in now else " gone" if name in before else " added")
