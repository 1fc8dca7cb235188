"""A cache of the turns of a job, so that the cost of a round does not grow with the number of rounds.

Only turns whose calls have all finished are cached, because nothing changes in them. After a resume all are read again.
"""

from collections.abc import Sequence
from typing import Any

from artifactflow_nb.agents.protocols import CallProtocol
from artifactflow_nb.core.messages import ToolCall, ToolResult
from artifactflow_nb.flows.compression import TurnMessages, displayed_results
from artifactflow_nb.store.calls import FINISHED, CallStore, StoredTurn


class JobTranscript:
    """The turns of one job.

    Args:
        calls: The store of calls.
        run_id: The run.
        job_id: The job.

    Attributes:
        has_taken_turn: Whether the job has had a turn since this process started or resumed the run.
        finished_calls: The finished calls with their results, cut to the length that the model sees.
        interactions: The finished calls in the form of `AgentResponse.tool_interactions`.
    """

    def __init__(self, calls: CallStore, run_id: str, job_id: str) -> None:
        self.has_taken_turn = False
        self.finished_calls: list[tuple[ToolCall, ToolResult]] = []
        self.interactions: list[dict[str, Any]] = []
        self._calls = calls
        self._place = run_id, job_id
        self._turns: list[StoredTurn] = []
        self._written: TurnMessages | None = None

    async def read(self) -> list[StoredTurn]:
        """All turns that did not fail; only new ones are read from the store."""
        fresh = await self._calls.transcript(*self._place, after=self._last_step)
        for index, turn in enumerate(fresh):
            if any(call.status != FINISHED for call in turn.calls):
                return [*self._turns, *fresh[index:]]
            if turn.step > self._last_step:  # a concurrent reader may have added it
                self._turns.append(turn)
                finished = [(call.call, result) for call, result in displayed_results(turn)]
                self.finished_calls += finished
                for call, result in finished:
                    text = result.data if result.success else result.error
                    interaction = {"tool_name": call.name, "params": dict(call.params), "success": result.success}
                    self.interactions.append({**interaction, "result": text})
        return list(self._turns)

    @property
    def _last_step(self) -> int:
        return self._turns[-1].step if self._turns else 0

    def written(self, protocol: CallProtocol, turns: Sequence[StoredTurn]) -> TurnMessages:
        """The turns as messages of a prompt; messages of earlier prompts are reused."""
        if self._written is None or self._written.protocol is not protocol:
            self._written = TurnMessages(protocol)
        if len(turns) != len(self._turns):  # calls of the last one are not finished
            return TurnMessages(protocol, turns)
        for turn in turns[self._written.n_turns :]:
            self._written.add(turn)
        return self._written
