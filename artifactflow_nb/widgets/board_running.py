"""The runs of a project on its board: begun, followed, decided, ended."""

from dataclasses import replace

from artifactflow_nb.approvals import ApprovalRequest
from artifactflow_nb.block_order import writing_of
from artifactflow_nb.errors import Conflict, NotFound
from artifactflow_nb.flows.state import COMPOSE
from artifactflow_nb.run_port import RunPort
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import MarkdownRenderer
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.widgets.ask_card import ask_node, read_decision
from artifactflow_nb.widgets.board_state import BoardState
from artifactflow_nb.widgets.parts import Question
from artifactflow_nb.widgets.tree import Node
from artifactflow_nb.widgets.view import Act

BUSY = "A run is at work on this project. Wait for it, decide what waits for you, or stop it; then try again."


def _question(asked: ApprovalRequest) -> Question:
    """The open question of a stored request."""
    call = asked.tool_call_id or asked.id
    return Question(
        asked.id, asked.kind, asked.agent, asked.tool, call, asked.title, asked.preview, asked.message, asked.params
    )


class BoardRunning(BoardState):
    """The acts that are about runs, and the cards of what they ask."""

    def _asks(self) -> Node:
        """The cards of the open questions, as the chat has them."""
        render = MarkdownRenderer().html
        questions = map(_question, self._shown.asked)
        cards = tuple(ask_node(question, self._tool(question.tool), render) for question in questions)
        return Node("asks", kind="box", css="af-asks", children=cards)

    def _tool(self, name: str) -> Tool | None:
        return next((tool for tool in self._engine.tools if tool.name == name), None)

    async def act_decide(self, act: Act) -> None:
        """Answer a question of one of the runs."""
        request = next((one for one in self._shown.asked if one.id == act.args.get("request")), None)
        if request is None:
            raise NotFound("The run that asks this is not shown any more. wb.pending() lists what waits.")
        decision = read_decision(act.args, _question(request), self._tool(request.tool))
        await self._engine.controller.decide(request.id, replace(decision, by_code=False))
        await self._watch.look()

    async def act_write(self, act: Act) -> None:
        """Have the empty blocks written that write themselves."""
        await self._write(act, is_anew=False)

    async def act_refresh_ask(self, _act: Act) -> None:
        """List the stale blocks first."""
        self._leave()
        self._asking = "refresh"

    async def act_refresh(self, act: Act) -> None:
        """Have the stale blocks written anew."""
        await self._write(act, is_anew=True)

    async def _write(self, act: Act, *, is_anew: bool) -> None:
        await self._load()
        question, wanted = writing_of(self._shown.head.name, self._shown.tree, is_anew=is_anew)
        controller = self._engine.controller
        try:
            run = await controller.begin(
                question, conversation_id=self._conversation_id, flow=COMPOSE, work={"write": list(wanted)}
            )
        except Conflict as error:
            raise Conflict(BUSY) from error
        await controller.start(run)
        self._leave()
        await self._load()
        self.screen.effect(act.page, "focus", key="writing")
        self._said = f"The run is at work on {count(len(wanted), 'block')}."

    async def _port(self) -> RunPort:
        """The run that is shown; `NotFound` if it has ended."""
        await self._load()
        if (run := self._shown.run) is None:
            raise NotFound("The run has ended by now.")
        return RunPort(self._thread, await self._engine.runs.get(run.run_id))

    async def act_stop(self, _act: Act) -> None:
        """End the run."""
        await (await self._port()).cancel()
        await self._watch.look()

    async def act_resume(self, _act: Act) -> None:
        """Go on with a run whose process is gone."""
        await (await self._port()).go_on()
        await self._watch.look()
