"""`PendingView`: cards of the open requests of all runs, or of one run that a cell awaits."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache, partial

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.language import EnglishText, translate
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.run_client import RunReader, offered_tool
from artifactflow_nb.errors import NotFound
from artifactflow_nb.store.approvals import load_open_requests
from artifactflow_nb.store.runs import RUNNING, WAITING, StoredRun
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.widgets.page.elements import status_mark
from artifactflow_nb.widgets.page.nodes import Node, prefixed
from artifactflow_nb.widgets.page.view import PageAction
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.approval_card import approval_box, approval_card, read_decision
from artifactflow_nb.widgets.run.cited_page import cited_text
from artifactflow_nb.widgets.run.parts import TranscriptRequest
from artifactflow_nb.widgets.run.polled_view import PolledView
from artifactflow_nb.widgets.run.saved import hint_for_status, request_hint

Decide = Callable[[str, Decision], Awaitable[None]]
"""Decides a request; awaited on the engine's loop."""


class PendingView(PolledView):
    """The open requests below the question of their run.

    Args:
        decide: Decides a request; None to decide in the name of the person at the page.
        run_id: Show only this run and its subruns, until the run has ended; None for all runs.
        address: Returns the address of the conversation of a run, for a link; an empty address adds no link.
    """

    label: EnglishText = "Approvals"
    css = "af-pending"
    conversation_id = None

    def __init__(
        self,
        engine: Engine,
        decide: Decide | None = None,
        *,
        run_id: str | None = None,
        address: Callable[[StoredRun], str] = lambda _run: "",
    ) -> None:
        super().__init__(engine)
        self._decide = decide or self._decide_by_click
        self._run_id = run_id
        self._address = address
        self._cited_html = lru_cache(64)(self._render)
        self._runs: dict[str, StoredRun] = {}
        self._requests: dict[str, TranscriptRequest] = {}
        self._run_of: dict[str, str] = {}
        self._decided: dict[str, str] = {}
        """The sentences of the requests of the awaited run that are decided."""

    async def _decide_by_click(self, request_id: str, decision: Decision) -> None:
        await self._engine.controller.decide(request_id, replace(decision, by_code=False))

    async def load(self) -> None:
        """Load the open requests."""
        requests = await self._engine.database.read(lambda db: load_open_requests(db, self._run_id))
        if self._run_id is not None:
            await self._run_listener.listen_to(self._engine.controller, self._run_id)
            open_ids = {request.id for request in requests}
            gone = [request for request_id, request in self._requests.items() if request_id not in open_ids]
            self._decided |= {request.id: labels.request_sentence(request) for request in gone}
        self._requests = {request.id: TranscriptRequest.from_stored(request) for request in requests}
        self._run_of = {request.id: request.run_id for request in requests}
        self._runs = {run_id: await self._engine.runs.get(run_id) for run_id in dict.fromkeys(self._run_of.values())}

    async def _follow(self) -> None:
        await super()._follow()
        is_over = self._run_id and (await self._engine.runs.get(self._run_id)).status not in {RUNNING, WAITING}
        if is_over:
            self.screen.finish()

    def nodes(self) -> tuple[Node, ...]:
        """Return the cards of each run, or a note if no request is open."""
        if self._requests:
            # All cards are in one box, so that the requests of several runs can be decided at once.
            return (approval_box(self._entry(run) for run in self._runs.values()),)
        if self._run_id is None:
            text = translate("Nothing waits for a decision.")
            return (Node("empty", f"<p>{text}</p>", css="af-empty af-quiet", text=text),)
        decided = [translate("Decided: {sentence}", sentence=sentence) for sentence in self._decided.values()]
        lines = "".join(f"<p>{escape_with_language(line)}</p>" for line in decided)
        note = translate("The run continues; it is shown where it was asked.")
        running = f'<p class="af-quiet">{status_mark("running")} {note}</p>'
        return (Node("decided", lines, css="af-quiet", text="\n".join(decided)), Node("continues", running, "controls"))

    def saved_nodes(self) -> tuple[Node, ...]:
        """Return the cards, with the code that decides the requests in any kernel."""
        hints = [request_hint(request, self._run_of[request.id]) for request in self._requests.values()]
        hint = hint_for_status(WAITING)
        note = [Node("hint", f"<p>{hint}</p>", css="af-quiet", text=hint)] if hints else []
        return (*note, *self.nodes(), *hints)

    def _entry(self, run: StoredRun) -> Node:
        question, address = escape_with_language(run.question), self._address(run)
        html = f'<a href="{escape(address)}">{question}</a>' if address else f"<strong>{question}</strong>"
        cards = tuple(
            approval_card(request, self._tool(request.tool), partial(self._cited_html, run.run_id))
            for request in self._requests.values()
            if self._run_of[request.id] == run.run_id
        )
        children = prefixed(cards, f"{run.run_id}/")
        css, text = "af-pending-entry", translate("Waiting: {question}", question=run.question)
        return Node(
            f"entry-{run.run_id}", f'<p class="af-question">{html}</p>', "box", css, children=children, text=text
        )

    def _render(self, run_id: str, text: str) -> str:
        return cited_text(RunReader(self._engine.database.path, self._runs[run_id]), text)

    def _tool(self, name: str) -> Tool | None:
        return offered_tool(self._engine, name)

    def announcement(self) -> str:
        """Announce the number of requests."""
        return (
            translate("{requests} waiting for you.", requests=translate_count(len(self._requests), "request"))
            if self._requests
            else ""
        )

    async def act_decide(self, act: PageAction) -> None:
        """Decide a request."""
        request_id = str(act.args.get("request"))
        request = self._requests.get(request_id)
        if request is None:
            raise NotFound(
                f"The request {request_id} was decided elsewhere, or its run has ended. The list has the open requests."
            )
        await self._decide(request.id, read_decision(act.args, request, self._tool(request.tool)))
        await self._poller.poll()
