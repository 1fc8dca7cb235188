"""The manifest of a run: versions, agents with their models, prompts and tools, and sources; stored with the run.

Texts are represented by hashes and endpoints by their hosts: a manifest shows what changed and has no secrets.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from functools import cache, partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from artifactflow_nb import __version__
from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.models.openai.errors import public_url
from artifactflow_nb.sources.values import IndexingResult
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.provenance import load_source_hashes

Manifest = Mapping[str, Any]
"""Plain JSON: `versions`, `flow`, `mode`, `agents`, `search`, hashes by name in `prompts`, `tools`, `sources`, and in
`graph_config` the values that differ from the packaged configuration, by dotted paths, if any do.

`mcp` has the tools that MCP servers offered, as a text from which the tools can be made again.

A hash is `{"sha256": ...}`: cassettes would mask a plain hash beside the name of a tool such as `read_password`.
"""

Hashes = Mapping[str, str]

_PACKAGES = ("langgraph", "openai", "pydantic")
_HASH_DIGITS = 16
MANUALS = {"xml": "tools", "native": "tools_native"}
"""Prompt files with the tool manuals, by tool protocol."""


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of this package, of its main dependencies, and of Python."""
    others = {name: version(name) for name in _PACKAGES}
    return {"artifactflow-nb": __version__, **others, "python": platform.python_version()}


def short_hash(text: str) -> str:
    """Return the first 16 hexadecimal digits of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]


def _hashed(text: str) -> Hashes:
    return {"sha256": short_hash(text)}


class ManifestBuilder:
    """Builds the manifests of an engine's runs; entries that two runs share are computed once.

    A prompt is hashed without the white space around its text.
    """

    def __init__(self, prompts: PromptLibrary, database: Database) -> None:
        self._prompts = prompts
        self._database = database
        self._common_key: tuple[Any, ...] | None = None
        self._common: Mapping[str, Any] = {}
        self._sources: dict[str, tuple[Any, Hashes]] = {}

    def build(self, agents: Mapping[str, BaseAgent], model: str | None, **more: Any) -> dict[str, Any]:
        """Build the manifest of a run.

        `model` was chosen for the run; `more` are further entries: `flow`, `mode`, `search`, `sources`.
        """
        key = tuple((agent, agent.tools) for agent in agents.values())
        if key != self._common_key:
            manuals = {MANUALS[agent.protocol.name] for agent in agents.values() if agent.tools}
            configs = [agent.config for agent in agents.values() if not agent.has_own_prompt]
            sources = {config.prompt_name: config.prompt_source for config in configs}
            prompts = sorted({**{name: name for name in manuals}, **sources}.items())
            tools: dict[str, Hashes] = {}  # the hashes of the descriptions for models
            for spec in (entry.spec for agent in agents.values() for entry in agent.tools):
                description = json.dumps([spec.name, spec.description, spec.parameters], sort_keys=True, default=str)
                tools[spec.name] = _hashed(description)
            self._common_key = key
            self._common = {
                "versions": dict(versions()),
                "agents": {name: _describe(agent) for name, agent in agents.items()},
                "prompts": {name: _hashed(self._prompts.render(source)) for name, source in prompts},
                "tools": dict(sorted(tools.items())),
            }
        described = {
            name: {"model": agents[name].model_for_run(model), **entry}
            for name, entry in self._common["agents"].items()
        }
        return {**self._common, "agents": described, **more}

    async def sources(self, added: Iterable[IndexingResult], reference: str | None) -> dict[str, Hashes]:
        """Return the hashes of the searched sources, by address prefix; recomputed only after a change.

        `added` has folders and files; `reference` is the id of the language reference, for runs without own sources.
        """
        states: dict[str, Any] = {source_label(result): result.sources for result in added}
        if not states and reference is not None:
            states = {reference: reference}
        for label, state in states.items():
            hashed_state, _ = self._sources.get(label, (None, {}))
            if hashed_state is not state and hashed_state != state:
                ids = [state] if state == reference else [source.source_id for source in state]
                rows = await self._database.read(partial(load_source_hashes, source_ids=ids))
                self._sources[label] = state, _hashed("\n".join(f"{name} {sha256}" for name, sha256 in rows))
        return {label: self._sources[label][1] for label in sorted(states)}


def source_label(added: IndexingResult) -> str:
    """Return the address prefix of an added folder; of several folders, the first prefix and the number of others."""
    first, *others = added.scope or (added.folder.rpartition("/")[2],)
    return f"{first} and {len(others)} more" if others else first


def model_origin(agent: BaseAgent) -> dict[str, str]:
    """Return the provider of an agent's model, and the host of an endpoint, since an address may have a password."""
    address = getattr(agent.model, "address", None)
    endpoint = {"endpoint": urlsplit(public_url(address)).netloc or address} if isinstance(address, str) else {}
    return {"provider": agent.model.provider, **endpoint}


def _describe(agent: BaseAgent) -> dict[str, Any]:
    config = agent.config
    return {
        **model_origin(agent),
        "temperature": config.temperature,
        **({} if config.reasoning_effort is None else {"reasoning_effort": config.reasoning_effort}),
        **({"extra_body": dict(config.extra_body)} if config.extra_body else {}),
        "tool_protocol": agent.protocol.name,
        "max_tool_rounds": config.max_tool_rounds,
        "prompt": config.prompt_name,
        "introduction": short_hash("\n".join([config.description, *config.capabilities])),
        "tools": list(agent.tool_names),
    }
