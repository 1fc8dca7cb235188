"""What a workbench holds, as its methods and as its card: conversations, runs, what waits, what is configured."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from artifactflow_nb.approvals import ApprovalPolicy
from artifactflow_nb.conversation import ConversationHandle
from artifactflow_nb.engine import Engine
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import StoreError
from artifactflow_nb.graph_config import PACKAGED, GraphConfig, flat
from artifactflow_nb.lists import RequestList, RunList
from artifactflow_nb.models.base import model_name
from artifactflow_nb.repro import Repro, load_repro
from artifactflow_nb.run import Run
from artifactflow_nb.store.database import Work, connect, reading
from artifactflow_nb.store.overview import Overview, load_models, load_newest, load_overview
from artifactflow_nb.store.ownership import observed_status
from artifactflow_nb.store.requests import load_open_requests
from artifactflow_nb.store.runs import RUNNING, StoredRun, load_unfinished
from artifactflow_nb.text.cards import Card, Cell, Code, Fold, Rows, Shown, Table
from artifactflow_nb.text.figures import count, duration, moment, size

if TYPE_CHECKING:
    from artifactflow_nb.widgets.conversations import ConversationList

T = TypeVar("T")

_NEWEST = 5


class WithOverview(Shown, ABC):
    """What has an engine on a thread of its own, and can say what lies in its store."""

    _thread: EngineThread

    @abstractmethod
    def _handle(self, stored: StoredRun) -> Run:
        """The handle of a stored run."""

    @property
    def data_dir(self) -> Path:
        """The folder of the store."""
        return self._thread.engine.folder

    @property
    def graph_config(self) -> GraphConfig:
        """What is configured for agents and flows, with where it comes from."""
        return self._thread.engine.graph_config

    @property
    def flows(self) -> tuple[str, ...]:
        """The names of the flows, for `ask`."""
        return self._thread.engine.controller.flows

    def known_models(self) -> list[str]:
        """The names of models that are configured, have a price or were asked before; `models` asks the endpoint."""
        engine = self._thread.engine
        configured = [agent.model_name for agent in engine.agents.values()]
        return list(dict.fromkeys([*configured, *engine.prices, *self._read(load_models)]))

    def conversations(self, search: str | None = None, *, limit: int = 50, offset: int = 0) -> "ConversationList":
        """The conversations, those first in which was asked last; each can be written to a file.

        Args:
            search: Words that the title and one of the messages must hold between them; None for all conversations.
            limit: How many at most.
            offset: How many to leave out at the beginning.
        """
        from artifactflow_nb.widgets.conversations import ConversationList

        manager = self._thread.engine.conversations
        found = manager.search(search, limit, offset) if search else manager.list_conversations(limit, offset)
        handles = (ConversationHandle.of(self._thread, one) for one in self._thread.call(found))
        return ConversationList(handles, search)

    def runs(self, limit: int = 20) -> RunList:
        """The newest runs, also those of earlier kernels; the newest first."""
        stored = self._read(lambda db: load_newest(db, limit))
        return RunList(map(self._handle, stored), 'No runs yet. Ask with wb.ask("...").')

    def unfinished(self) -> RunList:
        """Runs that run, wait, or were interrupted, also those of earlier kernels; the oldest first.

        A run that another of them began goes on with that one, and is not listed.
        """
        return RunList(map(self._handle, self._read(load_unfinished)), "No run is running or waiting.")

    def pending(self) -> RequestList:
        """The requests that wait for a decision, also those of earlier kernels; the oldest first."""
        return RequestList(self._read(load_open_requests))

    def repro(self, *, all: bool = False) -> Repro:  # noqa: A002 - it is what one says
        """What of the runs is recorded, replayed, live or changed, and what makes the notebook reproducible.

        Args:
            all: Whether all runs of the store are looked at, and not only those that this workbench began.
        """
        engine = self._thread.engine
        return self._read(lambda db: load_repro(engine, db, whole_store=all))

    def _read(self, work: Work[T]) -> T:
        """Read the store in the caller's thread: it works while the engine is busy."""
        path = self._thread.engine.database.path
        with reading(path), closing(connect(path, read_only=True)) as db:
            return work(db)

    def __repr__(self) -> str:
        model = self._thread.engine.model
        return f"{type(self).__name__}(model={model_name(model)!r}, data_dir={str(self.data_dir)!r})"

    def _card(self) -> Card:
        engine = self._thread.engine
        try:
            held = self._read(lambda db: load_overview(db, _NEWEST))
        except StoreError as error:
            return Card("Workbench", model_name(engine.model), [*_configured(engine), ("store", str(error))])
        waits = f"{count(held.n_requests, 'request')} for your decision: see wb.pending()" if held.n_requests else None
        rows: Rows = [
            *_configured(engine),
            ("sources", _sources(engine, held)),
            ("conversations", held.n_conversations),
            ("runs now", _states(engine, held)),
            ("waits", waits),
        ]
        newest = [Fold("Newest runs", _newest(engine, held), is_open=True)] if held.newest else []
        folds = [*newest, _agents(engine), *_server_tools(engine)]
        return Card("Workbench", model_name(engine.model), rows, folds, 'Ask with wb.ask("...").')


def _configured(engine: Engine) -> Rows:
    """What is configured, without any secret."""
    lead, budget = engine.research.lead, engine.settings.budget
    default = lead.model_name
    others = [f"{agent.config.name}: {agent.model_name}" for agent in engine.agents.values()]
    limits = ", ".join(f"{limit:,.10g} {name}" for name, limit in budget.limits.items()) if budget else ""
    return [
        ("endpoint", Code(engine.model.address) if hasattr(engine.model, "address") else None),
        ("agents' models", ", ".join(told for told in others if not told.endswith(f": {default}"))),
        ("tools called by", lead.protocol.name),
        ("approvals", _approvals(engine.policy)),
        ("budget of a run", limits or "no limit"),
        ("middleware", ", ".join(type(one).__name__ for one in engine.watchers.middleware)),
        ("graph config", _graph_config(engine.graph_config)),
        ("web_search asks", engine.settings.search),
        ("MCP servers", _servers(engine)),
        ("data", Code(f"{engine.folder.absolute()} ({size(_n_bytes(engine.folder))})")),
        ("cassette", _cassette(engine)),
    ]


def _graph_config(config: GraphConfig) -> Cell:
    """Where it comes from, and what of it is not as packaged."""
    changed = [f"{path} {value}" for path, value in flat(config.changed)]
    if config.source == PACKAGED:
        return PACKAGED
    return Code(f"{config.source} ({', '.join(changed) or 'as packaged'})")


def _cassette(engine: Engine) -> Code | None:
    """What is played from or recorded into; None for neither."""
    path, mode = engine.settings.cassette, engine.settings.cassette_mode
    told = {"record": "recorded into", "replay": "played from", "auto": "played from; what is new is recorded"}
    return None if path is None else Code(f"{path} ({told[mode]})")


def _approvals(policy: ApprovalPolicy) -> str:
    """Who decides, in a few words."""
    rule = policy.rule
    if isinstance(rule, str):
        told = {"ask": "you are asked"}.get(rule, rule)
    elif isinstance(rule, Mapping):
        told = ", ".join(f"{tool}: {verdict}" for tool, verdict in rule.items())
    else:
        told = f"the function {getattr(rule, '__name__', type(rule).__name__)} decides"
    return told if policy.stand_in == "ask" else f"{told}; in your place: {policy.stand_in}"


def _servers(engine: Engine) -> str:
    """`files (npx): 5 tools, running`, of each server; before the first run its tools are not known."""
    offered = [offer.server for offer in engine.mcp.offers]
    return "; ".join(
        f"{name} ({server.way}): {count(offered.count(name), 'tool')}, {engine.mcp.state_of(name)}"
        if name in offered
        else f"{name} ({server.way}): {engine.mcp.state_of(name)}"
        for name, server in engine.mcp.servers.items()
    )


def _server_tools(engine: Engine) -> list[Fold]:
    rows: list[list[Cell]] = [
        [offer.server, Code(offer.name), offer.permission, ", ".join(offer.agents), offer.description]
        for offer in engine.mcp.offers
    ]
    table = Table.of(("server", "tool", "permission", "agents", "does"), rows)
    return [Fold("Tools of MCP servers", table)] if rows else []


def _sources(engine: Engine, held: Overview) -> str:
    searched = ", ".join(engine.searched) or "the language reference of Python, until wb.add_sources(folder)"
    return f"{held.n_sources:,} indexed; runs search {searched}"


def _states(engine: Engine, held: Overview) -> str:
    """`1 running, 2 waiting`; empty if none."""
    states = [observed_status(engine.folder, run.status, run.owner) for run in held.unfinished]
    return ", ".join(f"{states.count(state):,} {state}" for state in dict.fromkeys(states))


def _newest(engine: Engine, held: Overview) -> Table:
    planned = ["plan"] if any(held.plans) else []
    rows: Iterable[list[Cell]] = (
        [
            observed_status(engine.folder, run.status, run.owner),
            *([plan] if planned else []),
            run.question,
            moment(run.started_at),
            _took(run),
            tokens,
            Code(run.run_id),
        ]
        for run, tokens, plan in zip(held.newest, held.tokens, held.plans, strict=True)
    )
    return Table.of(("status", *planned, "question", "began", "time", "tokens", "id"), rows)


def _agents(engine: Engine) -> Fold:
    rows = [
        (agent.config.name, agent.model_name, Code(", ".join(agent.tool_names))) for agent in engine.agents.values()
    ]
    return Fold("Agents and their tools", Table(("agent", "model", "tools"), rows))


def _took(run: StoredRun) -> str | None:
    if run.completed_at is None or run.status == RUNNING:
        return None
    return duration((run.completed_at - run.started_at).total_seconds() * 1000)


def _n_bytes(folder: Path) -> int:
    """The size of the files of the store; what goes while it is counted counts nothing."""
    sizes = 0
    for path in folder.glob("*"):
        try:
            sizes += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return sizes
