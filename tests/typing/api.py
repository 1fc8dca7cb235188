"""The public surface as a type checker sees it; mypy reads this module, nothing executes it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, assert_type

import pandas as pd
from matplotlib.axes import Axes

import artifactflow_nb as af
from artifactflow_nb.analysis.compare.alignment import StepDiff
from artifactflow_nb.analysis.compare.comparison import Comparison
from artifactflow_nb.core.approvals import RequestKind, Scope
from artifactflow_nb.core.clock_ids import Clock, Ids
from artifactflow_nb.core.events import ExecutionMetrics
from artifactflow_nb.core.messages import Message
from artifactflow_nb.core.text.diff import TextDiff
from artifactflow_nb.engine.folder_file import TrustedFolder
from artifactflow_nb.models.base import Model, ModelEvent, ModelRequest
from artifactflow_nb.notebook.artifact import ArtifactDiff, ArtifactHandle, Artifacts, Versions
from artifactflow_nb.notebook.citation import Citation
from artifactflow_nb.notebook.conversation import ConversationHandle
from artifactflow_nb.notebook.lists import EventList, RequestList, RunList, StepList
from artifactflow_nb.notebook.run import Markdown
from artifactflow_nb.notebook.sealed_run import SealedRun
from artifactflow_nb.notebook.sources import RefreshedRun
from artifactflow_nb.plugins.claims.report import NotebookReport
from artifactflow_nb.plugins.graphs.adapt import AdaptedGraph
from artifactflow_nb.plugins.projects.accessor import Projects
from artifactflow_nb.plugins.projects.block import BlockHandle, Blocks
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.plugins.projects.named_text_lists import Dimensions, Personas, Skills
from artifactflow_nb.plugins.projects.project import PhaseChange
from artifactflow_nb.sources.changes import SourceChange
from artifactflow_nb.sources.values import IndexingResult
from artifactflow_nb.sources.vector_search import EmbeddingForecast
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.testing import FakeClock, FakeIds, FakeSearch, ScriptedModel, SearchHit, SearchProvider
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.widgets.page.panel import Panel
from artifactflow_nb.widgets.pending import PendingView


async def runs(wb: af.Workbench) -> None:
    """Questions, their handles and results."""
    assert_type(af.__version__, str)
    assert_type(af.Workbench(model="m", budget=af.Budget(tokens=5)), af.Workbench)
    with af.Workbench() as entered:
        assert_type(entered, af.Workbench)
    run = wb.ask("Why?", conversation_id=None, flow="plan", budget={"tokens": 50_000})
    assert_type(run, af.Run)
    assert_type(await run, af.Run)
    assert_type(run.wait(5), af.Run)
    assert_type(run.response, Markdown)
    assert_type(run.citation(1), Citation)
    assert_type(run.to_bibtex(), str)
    assert_type(run.to_csl(), list[dict[str, Any]])
    if isinstance(run.response, af.NoAnswer):
        assert_type(run.response.reason, str)
    assert_type(run.raise_for_status(), af.Run)
    assert_type(run.metrics, af.engine.ExecutionMetrics)
    assert_type(run.tables, list[pd.DataFrame])
    assert_type(run.status, str)
    assert_type(run.error, str | None)
    assert_type(run.run_id, str)
    assert_type(run.completed_at, datetime | None)
    assert_type(run.metrics, ExecutionMetrics)
    assert_type(run.metrics.total_tokens, int)
    assert_type(run.manifest, Mapping[str, Any])
    assert_type(run.events, EventList)
    assert_type(run.events[0], af.engine.StreamEvent)
    assert_type(run.events[1:], EventList)
    assert_type(run.events[0].type, af.engine.StreamEventType)
    assert_type(run.steps, StepList)
    assert_type(run.fork(3, tool_result="Nothing."), af.Run)
    assert_type(run.cancel(), af.Run)
    assert_type(run.resume(), af.Run)
    assert_type(run.panel, Panel)
    assert_type(run.seal("report.afrun"), Path)
    assert_type(run.to_notebook("report.ipynb"), Path)
    assert_type(wb.conversation(run).regenerate(), af.Run)
    assert_type(wb.conversation(run).edit("How?", model="other"), af.Run)
    assert_type(wb.run("run-1"), af.Run)
    assert_type(wb.runs(), RunList)
    assert_type(wb.runs()[0], af.Run)
    assert_type(wb.models(), list[str])
    assert_type(wb.sources.add("folder"), IndexingResult)
    assert_type(wb.settings, af.Settings)


def studies(wb: af.Workbench) -> None:
    rubric = af.graders.rubric("Does it answer all parts?", model="judge")
    study = wb.studies.start(["How deep?"], name="depths", vary={"depth": ["quick", "deep"]})
    assert_type(study.grade(af.graders.figures("expected"), rubric), pd.DataFrame)
    assert_type(study.compare("depth"), pd.DataFrame)
    assert_type(study.agreement(repeats=True), pd.DataFrame)
    assert_type(study.plot_differences("depth"), Axes)
    assert_type(study.label(5), Panel)


def approvals(wb: af.Workbench, run: af.Run) -> None:
    """Requests and decisions."""
    assert_type(run.pending, RequestList)
    assert_type(wb.pending(), RequestList)
    request = wb.pending()[0]
    assert_type(request, af.extend.ApprovalRequest)
    assert_type(request.kind, RequestKind)
    assert_type(request.params, Mapping[str, Any])
    assert_type(run.approve(params={"title": "New"}, scope="run"), af.Run)
    assert_type(run.deny("No."), af.Run)
    assert_type(run.instruct("Do this instead."), af.Run)
    assert_type(run.answer("The second one."), af.Run)
    assert_type(run.approve(scope="always"), af.Run)
    assert_type(wb.store.withdraw("example.org"), int)
    assert_type(request.hosts, tuple[str, ...])
    assert_type(wb.ask("Why?", clarify="always"), af.Run)
    assert_type(run.outcome, Literal["answered", "partly", "not_in_sources"] | None)
    af.Workbench(approvals=af.Reviewer(model="m", rules="Letters only."), clarify="never", prompt_cache=True)
    assert_type(request.advice, str)
    assert_type(wb.run(request.run_id).approve(request.id), af.Run)
    assert_type(af.Decision(approved=True).scope, Scope)
    af.Workbench(approvals=lambda request: "approve" if request.tool == "create_artifact" else "ask")


def conversations(wb: af.Workbench, run: af.Run) -> None:
    """Conversations, branches and panels."""
    assert_type(wb.conversation(run), ConversationHandle)
    assert_type(wb.conversation(run).to_html("talk.html"), Path)
    assert_type(wb.conversations("words")[0].conversation_id, str)
    assert_type(wb.conversation(run).activate(), StoredMessage)
    assert_type(wb.chat(run), Panel)
    assert_type(wb.tree(), Panel)
    assert_type(wb.timeline(run), Panel)
    assert_type(wb.artifact_panel(run), Panel)
    assert_type(wb.panel(PendingView), Panel)


def artifacts(wb: af.Workbench, run: af.Run) -> None:
    """Artifacts, their versions and differences."""
    assert_type(run.artifacts, Artifacts)
    assert_type(wb.artifacts(run), Artifacts)
    assert_type(list(run.artifacts), list[str])
    report = run.artifacts["research_report"]
    assert_type(report.tables, list[pd.DataFrame])
    assert_type(report, ArtifactHandle)
    assert_type(report.content, str)
    assert_type(report.version, int)
    assert_type(report.versions, Versions)
    assert_type(list(report.versions), list[int])
    assert_type(report.versions[1], ArtifactHandle)
    assert_type(report.diff(1, 2), ArtifactDiff)
    assert_type(report.edit("Text"), ArtifactHandle)
    assert_type(report.to_markdown(), Path)
    assert_type(report.to_docx(style="harvard-cite-them-right"), Path)
    assert_type(report.to_bibtex(), str)
    assert_type(report.to_csl(), list[dict[str, Any]])
    assert_type(report.citation(1), Citation)
    assert_type(report.citation(1).picture(), bytes)


def projects(wb: af.Workbench) -> None:
    """Documents of blocks."""
    project = wb.projects.start("Essay", template="paper")
    assert_type(project, Project)
    assert_type(wb.projects, Projects)
    assert_type(project.ask("Why?"), af.Run)
    assert_type(project.chat(), Panel)
    assert_type(wb.projects["Essay"], Project)
    assert_type(project.add("Question", "Why?"), BlockHandle)
    assert_type(project["Question"], BlockHandle)
    assert_type(project["Question"].write("How?"), BlockHandle)
    assert_type(project["Question"].is_stale, bool)
    assert_type(project.blocks, Blocks)
    assert_type(project.stale, Blocks)
    assert_type(project.stale[0], BlockHandle)
    assert_type(project.advance_to_phase(), PhaseChange)
    assert_type(project.generate(), af.Run)
    assert_type(project.refresh(), af.Run)
    assert_type(project.evaluate(), af.Run)
    assert_type(project.personas, Personas)
    assert_type(project.skills, Skills)
    assert_type(project.dimensions, Dimensions)
    assert_type(project.graph(), Axes)
    assert_type(project.board(), Panel)
    assert_type(project.to_docx(), Path)


def frames(wb: af.Workbench, run: af.Run) -> None:
    """Frames and plots."""
    assert_type(wb.runs_df(since="2026-01-01", columns="time"), pd.DataFrame)
    assert_type(wb.llm_calls_df(run), pd.DataFrame)
    assert_type(wb.tool_calls_df(conversation=run.conversation_id), pd.DataFrame)
    assert_type(wb.plan_steps_df(run), pd.DataFrame)
    assert_type(wb.events_df(run), pd.DataFrame)
    assert_type(wb.messages_df(), pd.DataFrame)
    assert_type(wb.artifacts_df(), pd.DataFrame)
    assert_type(wb.projects.blocks_df(), pd.DataFrame)
    assert_type(wb.projects.evaluations_df(), pd.DataFrame)
    assert_type(wb.projects.runs_df(), pd.DataFrame)
    assert_type(wb.approvals_df(run), pd.DataFrame)
    assert_type(wb.sources_df(), pd.DataFrame)
    assert_type(wb.claims_df(run), pd.DataFrame)
    assert_type(wb.literature.works_df(), pd.DataFrame)
    assert_type(wb.store.storage_df(), pd.DataFrame)
    assert_type(wb.sources.search_df("oxygen minimum zone", limit=10), pd.DataFrame)
    assert_type(wb.sources.embed(dry_run=True), EmbeddingForecast)
    assert_type(wb.sources.choose_ranking(queries=50), pd.DataFrame)
    refreshed = wb.sources.refresh("run-1", web=False, budget={"tokens": 1_000})
    assert_type(refreshed, RefreshedRun)
    assert_type(refreshed.changes, tuple[SourceChange, ...])
    assert_type(refreshed.follow_up, af.Run | None)
    assert_type(wb.store.prune(before="2026-01-01", keep=20, seal_to="archive", dry_run=True), pd.DataFrame)
    assert_type(wb.store.backup("copy.db"), Path)
    assert_type(wb.columns_df(), pd.DataFrame)
    assert_type(wb.query("SELECT 1"), pd.DataFrame)
    assert_type(af.cassette_df("runs.jsonl"), pd.DataFrame)
    assert_type(af.plots.timeline(wb.llm_calls_df(), wb.tool_calls_df()), Axes)
    assert_type(af.plots.tokens(wb.llm_calls_df()), Axes)
    assert_type(wb.metrics(run), Panel)
    assert_type(wb.metrics_df(by="day", model="small", sort="cost_usd"), pd.DataFrame)
    assert_type(af.plots.latency(wb.llm_calls_df()), Axes)
    assert_type(af.plots.cost(wb.llm_calls_df()), Axes)
    assert_type(wb.projects.plot_evaluations(wb.projects.evaluations_df()), Axes)


def recordings(run: af.Run) -> None:
    """Sealed runs, comparisons and cassettes."""
    with af.open_run("report.afrun") as sealed:
        assert_type(sealed, SealedRun)
        assert_type(sealed.response, Markdown)
        assert_type(sealed.runs_df(), pd.DataFrame)
        assert_type(sealed.projects.blocks_df(), pd.DataFrame)
    comparison = af.compare(run, sealed)
    assert_type(comparison, Comparison)
    assert_type(comparison.answer, TextDiff)
    assert_type(comparison.step(3), StepDiff)
    assert_type(comparison.steps, pd.DataFrame)
    af.accept_cassette("runs.jsonl")
    assert_type(af.trust_folder(), TrustedFolder)
    assert_type(af.check_notebook("paper.ipynb", data="results"), NotebookReport)
    assert_type(af.check_notebook("paper.ipynb").df, pd.DataFrame)
    team = af.Library("s3://lab/research", by="Ada", endpoint_url="http://localhost:9000")
    assert_type(team.publish([run, "report.afrun"]), list[str])
    assert_type(team.runs_df(), pd.DataFrame)
    assert_type(team.find("ferry"), pd.DataFrame)
    assert_type(team.query("SELECT count(*) FROM runs"), pd.DataFrame)
    assert_type(team.open("run-1").response, Any)
    assert_type(team.file("run-1"), Path)


def extensions(wb: af.Workbench, graph: Any) -> None:
    """Tools, agents and graphs of the user."""

    @af.tool
    def echo(ctx: af.ToolContext, text: str) -> str:
        """Repeat a text."""
        return f"{ctx.run_id}: {text}"

    @af.tool(permission=af.extend.ToolPermission.CONFIRM, timeout_s=5)
    async def search(ctx: af.ToolContext, text: Annotated[str, "Words."]) -> af.ToolResult:
        """Search for words."""
        return af.ToolResult(success=bool(ctx), data=text)

    @wb.tool
    def shout(ctx: af.ToolContext, text: str) -> str:
        """Repeat a text loudly."""
        return f"{ctx.run_id}: {text.upper()}"

    @wb.tool(agent="search_agent", permission="confirm")
    def whisper(ctx: af.ToolContext, text: str) -> str:
        """Repeat a text quietly."""
        return f"{ctx.run_id}: {text.lower()}"

    assert_type(echo, Tool)
    assert_type(search, Tool)
    assert_type(shout, Tool)
    assert_type(whisper, Tool)
    critic = af.AgentConfig(name="critic", description="Judges.", capabilities=("Reads.",), max_tool_rounds=2)
    assert_type(critic, af.AgentConfig)
    assert_type(critic.name, str)
    wb.tool(echo, agent=critic.name)
    wb.register_agent(critic)
    agent = af.extend.BaseAgent(af.AgentConfig("judge", "Judges.", prompt="You judge texts."))
    wb.register_agent(agent)
    wb.register_agent(af.extend.BaseAgent)
    assert_type(agent.config, af.AgentConfig)
    assert_type(af.engine.ExtendableGraph().register_agent(agent), af.AgentConfig)
    assert_type(af.adapt(graph, name="mine"), AdaptedGraph)
    assert_type(wb.register_flow("mine", af.adapt(graph)), str)
    wb.ask("Why?", flow=af.adapt(graph))


class Counter(af.extend.Middleware):
    """Middleware that counts tokens."""

    n_tokens = 0

    def after_model(self, call: af.extend.ModelCall, outcome: af.extend.ModelOutcome) -> None:
        """Add the tokens of a call."""
        assert_type(call.prompt, str)
        if outcome.usage is not None:
            self.n_tokens += outcome.usage.total_tokens

    async def on_tool_error(self, call: af.extend.ToolInvocation, error: af.extend.CallError) -> None:
        """Ignore errors."""
        assert_type(call.params, Mapping[str, Any])
        assert_type(error.message, str)


def middleware() -> None:
    """Hooks may be functions or coroutines."""
    af.Workbench(middleware=[Counter(), af.DebugMiddleware()])
    hook: Callable[[af.extend.ToolInvocation, af.extend.ToolOutcome], Awaitable[None] | None] = (
        af.extend.Middleware().after_tool
    )
    assert_type(hook, Callable[[af.extend.ToolInvocation, af.extend.ToolOutcome], Awaitable[None] | None])


def models(request: ModelRequest) -> None:
    """Models; each satisfies the protocol."""
    subscribed = af.AgentModel(["claude-code-acp"], cwd="work", env={"LANG": "C"})
    assert_type(subscribed, af.AgentModel)
    af.Workbench(model=subscribed)
    scripted = af.ScriptedModel([af.ToolCall("echo", {"text": "to be"}), "Done.", af.errors.ModelRejected("No.")])
    offered: list[Model] = [scripted, af.OfflineModel(), af.OpenAIModel("http://localhost/v1", "key", "name")]
    assert_type(scripted.stream(request), AsyncIterator[ModelEvent])
    assert_type(scripted.requests, list[ModelRequest])
    af.Workbench(model=scripted, agent_models={"search_agent": offered[0]})
    assert_type(af.Budget(tokens=5, when_spent="ask").when_spent, Literal["stop", "ask"])
    assert_type(af.Price(input=1, output=2).input, float)
    assert_type(af.Rate(requests=500).tokens, int | None)


async def fakes(settings: af.Settings) -> None:
    """Fakes for tests, and an engine without a notebook that streams its events."""
    clock: Clock = FakeClock(step_ms=10)
    ids: Ids = FakeIds()
    search: SearchProvider = FakeSearch({"ferry": [SearchHit("Fares", "https://lake.example", "4 crowns")]})
    assert_type(await search.search("ferry", 5), list[SearchHit])
    assert_type(ScriptedModel(["Yes."]), af.ScriptedModel)
    engine = await af.engine.Engine(settings, clock=clock, ids=ids).open()
    assert_type(engine, af.engine.Engine)
    async for event in engine.controller.stream_execute("Why?"):
        assert_type(event, af.engine.StreamEvent)
    assert_type((await engine.controller.execute("Why?")).response, str | None)
    assert_type(engine.controller, af.engine.ExecutionController)
    assert_type(engine.conversations, af.engine.ConversationManager)
    assert_type(engine.artifacts, af.engine.ArtifactManager)
    assert_type(af.engine.ContextManager.should_compress([], "normal"), bool)
    assert_type(af.engine.ContextManager.compress_messages([], "normal", preserve_recent=5), list[Message])
    assert_type(af.testing.FakeIds().new("run"), str)
    assert_type(af.engine.ExecutionPhase("completed"), af.engine.ExecutionPhase)


def errors(wb: af.Workbench) -> None:
    """The tree of errors; unknown names are errors of the checker."""
    try:
        wb.ask("Why?").wait()
    except af.errors.RunCancelled as error:
        assert_type(error.partial, str)
    except (af.errors.ModelUnavailable, af.errors.ContextOverflow, af.errors.CassetteMiss) as error:
        assert_type(error, af.errors.ModelUnavailable | af.errors.ContextOverflow | af.errors.CassetteMiss)
    raised: list[type[af.errors.ArtifactFlowError]] = [
        af.errors.UsageError,
        af.errors.ToolError,
        af.errors.RunFailed,
        af.errors.NotFound,
        af.errors.Conflict,
    ]
    raised += [
        af.errors.ModelError,
        af.errors.RunError,
        af.errors.BudgetExceeded,
        af.errors.StoreError,
        af.errors.CassetteError,
    ]
    lookup: type[LookupError] = af.errors.NotFound
    assert_type((raised, lookup), tuple[list[type[af.errors.ArtifactFlowError]], type[LookupError]])
    _ = af.Wrokbench  # type: ignore[attr-defined]
    _ = wb.aks  # type: ignore[attr-defined]
