"""Which calls of a reply are carried out: how many rounds of them an agent has, and which stand alone in a reply.

When its rounds are used up an agent has to conclude. One that has a tool for its last word may call that once more, so
that what it could not do is never told as done.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from artifactflow_nb.agents.base import AgentResponse, BaseAgent


@dataclass(frozen=True, slots=True)
class RoundNotes:
    """What an agent is told of its rounds.

    Attributes:
        max_rounds: How many it has.
        last_words: The tools that it may call once more when they are used up.
    """

    max_rounds: int
    last_words: tuple[str, ...] = ()

    def note(self, used: int) -> str:
        """The note for an agent that has used so many rounds; empty while there is room, and if it never had any."""
        left = self.max_rounds - used
        if self.max_rounds == 0:
            return ""
        if left == 0 and self.last_words:
            return (
                f"You have used all {self.max_rounds} rounds of tool calls. No tool can be called any more but "
                f"{', '.join(self.last_words)}: answer now if it is done, and call that if it is not."
            )
        if left <= 0:
            return (
                f"You have used all {self.max_rounds} rounds of tool calls. No tool can be called any more: "
                "answer now with what you have, and say what is missing."
            )
        if left == 1 and used > 0:
            return "One round of tool calls is left. Conclude with it, or answer now."
        return ""


def at_the_end(agent: BaseAgent, used: int) -> tuple[BaseAgent, tuple[str, ...]]:
    """The agent with what it may still call, and the names of that, when its rounds have just been used up.

    Else the agent as it is, and nothing. After its last word it has to conclude.
    """
    last_words = tuple(entry.name for entry in agent.tools if entry.is_last_word)
    if used != agent.config.max_tool_rounds or not last_words:
        return agent, ()
    return agent.restricted(last_words), last_words


def within(last_words: Sequence[str], response: AgentResponse) -> AgentResponse:
    """The response in which calls of other tools are answered, and not run."""
    problem = "Not run: all rounds of tool calls are used up. Answer now with what you have."
    calls = (
        call if call.name in last_words else replace(call, error=call.error or problem) for call in response.tool_calls
    )
    return replace(response, tool_calls=tuple(calls))


def alone(agent: BaseAgent, response: AgentResponse) -> AgentResponse:
    """The response in which a call that must stand alone does: those beside it are answered, and not run."""
    sole = {entry.name for entry in agent.tools if entry.stands_alone}
    first = next((index for index, call in enumerate(response.tool_calls) if call.name in sole), None)
    if first is None or len(response.tool_calls) == 1:
        return response
    problem = f"Not run: {response.tool_calls[first].name} must be the only call of a reply. Call this again if needed."
    calls = (
        call if index == first else replace(call, error=call.error or problem)
        for index, call in enumerate(response.tool_calls)
    )
    return replace(response, tool_calls=tuple(calls))
