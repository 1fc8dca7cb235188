"""Whether plain JSON of a file has the form in which the program reads it: settings, manifests, offers.

They grow with the releases, so names that are not known are left alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from artifactflow_nb.approvals import Decision
from artifactflow_nb.budget import Budget
from artifactflow_nb.recordings.cassette_values import JsonObject, Unpacking
from artifactflow_nb.recordings.change import Change

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Settings:
    """What is read of the settings of a run."""

    model: str | None = None
    sources: tuple[str, ...] | None = None
    budget: Mapping[str, Any] | None = None
    fork: Change | None = None
    graph_config: Mapping[str, Any] | None = None
    graph: Mapping[str, Any] | None = None
    compose: "_Work | None" = None
    skills: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """What is read of what a run writes of a project, or has judged."""

    write: tuple[str, ...] = ()
    evaluate: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Graph:
    """What is read of the description of an adapted graph."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What is read of a manifest, where it is there."""

    versions: Mapping[str, Any] = field(default_factory=dict)
    agents: Mapping[str, Any] = field(default_factory=dict)
    prompts: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Agent:
    """What is read of an agent in a manifest."""

    prompt: str
    tool_protocol: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Offer:
    """What is read of the way in which a model was asked."""

    tool_protocol: str = ""
    tool_choice: str = ""
    tools: str | None = None
    n_native_calls: int = 0


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise `ValueError` that says which of the settings of a run is none."""
    read = _named("settings", lambda: _typed(_Settings, settings))
    if (budget := read.budget) is not None:
        _named("settings.budget", lambda: Budget.of(budget))
    if (graph := read.graph) is not None:
        _named("settings.graph", lambda: _typed(_Graph, graph))
    if not all(isinstance(text, str) for text in (read.skills or {}).values()):
        raise ValueError("settings.skills holds what is no text")
    if read.fork is not None and (decision := read.fork.decision) is not None:
        _named("settings.fork.decision", lambda: _Plain().value(Decision, decision, {}))


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise `ValueError` that says what of a manifest cannot be compared with another one."""
    read = _named("manifest", lambda: _typed(_Manifest, manifest))
    for name, agent in read.agents.items():
        _named(f"manifest.agents.{name:.80}", partial(_typed, _Agent, agent))


def check_offer(offer: Mapping[str, Any]) -> None:
    """Raise `ValueError` that says what of the way in which a model was asked cannot be."""
    if _named("offer_json", lambda: _typed(_Offer, offer)).n_native_calls < 0:
        raise ValueError("offer_json: n_native_calls is below 0")


def _typed(kind: type[T], told: Any) -> T:
    """The values that are read of an object, each of its type."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]  # a dataclass is a type here
    return _Plain().value(kind, {name: value for name, value in told.items() if name in known}, {})


def _named(where: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{where}: {error}") from error


class _Plain(Unpacking):
    """Holds plain JSON against types: none of its texts is kept elsewhere."""

    def __init__(self) -> None:
        super().__init__(datetime(2026, 1, 1, tzinfo=UTC), str)

    def text(self, raw: Any) -> str:
        if not isinstance(raw, str):
            raise TypeError(raw)
        return raw

    def json_object(self, raw: Any) -> JsonObject:
        if not isinstance(raw, dict):
            raise TypeError(raw)
        return raw
