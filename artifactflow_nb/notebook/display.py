"""Display of a workbench's values in cells: as live views if a page can show live views, or as saved output."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from artifactflow_nb.agents.settings import PACKAGED, flatten_nodes
from artifactflow_nb.core.approvals import ApprovalPolicy
from artifactflow_nb.core.local_files import shown_path
from artifactflow_nb.core.text.cards import Card, CardCell, CardRows, CardTable, Code, Details
from artifactflow_nb.core.text.format import count, format_local_time, size
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.errors import StoreError
from artifactflow_nb.models.base import model_name
from artifactflow_nb.recording.engine import RecordingThread
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.store.storage import load_home

_N_NEWEST = 5


def workbench_card(engine: Engine) -> Card:
    """Build the card of a workbench, without secrets; works while the engine is busy or the store is unreadable."""
    try:
        home = read_store(engine.database.path, lambda db: load_home(db, _N_NEWEST, datetime.now(UTC)))
    except StoreError as error:
        return Card("Workbench", model_name(engine.model), [*_configuration(engine), ("store", str(error))])
    statuses = [_status(engine, run) for run in home.unfinished]
    searched = _folders(engine.searched_folders) or "the language reference of Python, until wb.sources.add(folder)"
    others = engine.other_folders
    not_searched = f"; not {_folders(others)}, until wb.sources.add(folder) chooses that too" if others else ""
    rows: CardRows = [
        *_configuration(engine),
        ("sources", f"{home.n_sources:,} indexed; runs search {searched}{not_searched}"),
        ("conversations", home.n_conversations),
        ("runs now", ", ".join(f"{statuses.count(status):,} {status}" for status in dict.fromkeys(statuses))),
    ]
    if home.n_requests:
        rows = [*rows, ("waits", f"{count(home.n_requests, 'request')} for your decision: see wb.pending()")]
    folds: list[Details] = []
    if home.runs:
        newest: list[list[CardCell]] = []
        for entry in home.runs:
            run, usage = entry.run, [entry.time_text, entry.tokens_text]
            began = format_local_time(run.started_at)
            newest.append([_status(engine, run), run.question, began, *usage, Code(run.run_id)])
        columns = ("status", "question", "began", "time", "tokens", "id")
        folds.append(Details("Newest runs", CardTable.from_rows(columns, newest), is_open=True))
    folds += _agents_and_servers(engine)
    return Card("Workbench", model_name(engine.model), rows, folds, 'Ask with wb.ask("...").')


def configuration_card(engine: Engine) -> Card:
    """Build the rows of the card that do not change while the workbench is open."""
    return Card("Configuration", model_name(engine.model), _configuration(engine), list(_agents_and_servers(engine)))


def _agents_and_servers(engine: Engine) -> Iterator[Details]:
    """Yield a fold with the agents, and a fold with the tools of MCP servers if there are any."""
    agents = [
        (agent.config.name, agent.model_label, Code(", ".join(agent.tool_names))) for agent in engine.agents.values()
    ]
    yield Details("Agents and their tools", CardTable(("agent", "model", "tools"), agents))
    if engine.mcp.offers:
        offers: list[list[CardCell]] = [
            [offer.server, Code(offer.name), offer.permission, ", ".join(offer.agents), offer.description]
            for offer in engine.mcp.offers
        ]
        table = CardTable.from_rows(("server", "tool", "permission", "agents", "does"), offers)
        yield Details("Tools of MCP servers", table)


def _configuration(engine: Engine) -> CardRows:
    lead, settings, config = engine.lead, engine.settings, engine.graph_config
    other_models = [
        f"{agent.config.name}: {agent.model_label}"
        for agent in engine.agents.values()
        if agent.model_label not in {lead.model_label, "none"}
    ]
    limits = settings.budget.limits.items() if settings.budget else ()
    changes = ", ".join(f"{path} {value}" for path, value in flatten_nodes(config.changed))
    offered = [offer.server for offer in engine.mcp.offers]
    servers: list[str] = []
    for name, server in engine.mcp.servers.items():
        n_tools = f"{count(offered.count(name), 'tool')}, " if name in offered else ""  # unknown before its start
        servers.append(f"{name} ({server.transport_label}): {n_tools}{engine.mcp.server_state(name)}")
    n_bytes = 0
    for path in engine.folder.glob("*"):
        with suppress(OSError):  # the file was removed meanwhile, as SQLite removes its log
            n_bytes += path.stat().st_size if path.is_file() else 0
    return [
        ("endpoint", Code(engine.model.address) if hasattr(engine.model, "address") else None),
        ("agents' models", ", ".join(other_models)),
        ("tools called by", lead.protocol.name),
        ("approvals", _describe_policy(engine.policy)),
        ("reviewer", None if engine.reviewer is None else model_name(engine.reviewer.model)),
        ("budget of a run", ", ".join(f"{limit:,.10g} {name}" for name, limit in limits) or "no limit"),
        ("middleware", ", ".join(type(middleware).__name__ for middleware in engine.middleware.middleware)),
        (
            "graph config",
            PACKAGED if config.source == PACKAGED else Code(f"{config.source} ({changes or 'as packaged'})"),
        ),
        ("web_search asks", engine.search_name),
        ("MCP servers", "; ".join(servers)),
        ("data", Code(f"{shown_path(engine.folder)} ({size(n_bytes)})")),
    ]


def _describe_policy(policy: ApprovalPolicy) -> str:
    rule = policy.rule
    if isinstance(rule, str):
        text = "you are asked" if rule == "ask" else rule
    elif isinstance(rule, Mapping):
        text = ", ".join(f"{tool}: {verdict}" for tool, verdict in rule.items())
    else:
        text = f"the function {getattr(rule, '__name__', type(rule).__name__)} decides"
    return text if policy.fallback == "ask" else f"{text}; in your place: {policy.fallback}"


def _folders(folders: Mapping[str, int]) -> str:
    return ", ".join(f"{folder} ({count(n_files, 'file')})" for folder, n_files in folders.items())


def _status(engine: Engine, run: StoredRun) -> str:
    return effective_status(engine.folder, run.status, run.owner, run.start_lock)


if TYPE_CHECKING:
    from artifactflow_nb.widgets.ended_runs import EndedRuns
    from artifactflow_nb.widgets.page.display import LiveMode
    from artifactflow_nb.widgets.page.panel import LiveDisplay, Panel
    from artifactflow_nb.widgets.page.view import View


class CellDisplay:
    """The display settings that a workbench shares with the handles that it creates.

    Args:
        thread: The engine's thread.
        interactive: Whether a person can decide: True, False, or None to ask the page.
    """

    def __init__(self, thread: RecordingThread, interactive: bool | None) -> None:
        self.interactive = interactive
        self._thread = thread
        self._ended_runs: EndedRuns | None = None

    @property
    def is_attended(self) -> bool:
        """Whether a person may be looking: no policy decides for the person, or a Jupyter page owns the kernel."""
        if self.interactive is not None:
            return self.interactive
        from artifactflow_nb.widgets.page.display import is_in_session

        return self._thread.engine.settings.approvals == "ask" or is_in_session()

    @property
    def live_mode(self) -> "LiveMode":
        """How the front end shows live views: by the setting `live`, or as detected for the front end."""
        from artifactflow_nb.widgets.page.display import live_mode

        detected, setting = live_mode(), self._thread.engine.settings.live
        return detected if setting == "auto" or detected == "off" else setting

    @property
    def is_live(self) -> bool:
        """Whether a page that can show live views may be connected."""
        return self.is_attended and self.live_mode != "off"

    def panel(self, create_view: "Callable[[bool], View]", can_change: Callable[[], bool] = lambda: True) -> "Panel":
        """Create a panel, which is live if a page may be connected and the content can still change.

        Args:
            create_view: Creates a view; the argument says whether a page may show the view live.
            can_change: Returns False if the content is final, such as the content of an ended run.
        """
        from artifactflow_nb.widgets.page.panel import Panel

        return Panel(
            lambda: create_view(self.is_live),
            self._thread,
            lambda: self.is_live and can_change(),
            mode=self.live_mode,
            notify=self._thread.engine.settings.notify,
        )

    def home(self) -> "Panel":
        """Create the panel of the workbench."""
        from artifactflow_nb.widgets.home.view import HomeView

        return self.panel(
            lambda _is_live: HomeView(self._thread, configuration_card(self._thread.engine).content_html())
        )

    def show(self, view: "View") -> "LiveDisplay":
        """Display a view live in the current cell."""
        return self.panel(lambda _is_live: view).show()

    def offer_actions(self) -> None:
        """Offer buttons below the outputs of ended runs, in the pages of a Jupyter server."""
        from artifactflow_nb.widgets.ended_runs import EndedRuns
        from artifactflow_nb.widgets.page.display import is_in_session

        if self._ended_runs is None and is_in_session():
            self._ended_runs = EndedRuns(self._thread, notify=self._thread.engine.settings.notify)
