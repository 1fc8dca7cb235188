"""The tools of a lead agent: delegation to other agents, and questions to the person."""

from typing import Annotated, Any, Never

from pydantic import BaseModel, ConfigDict, Field, field_validator

from artifactflow_nb.errors import ToolError
from artifactflow_nb.tools.base import Tool, ToolContext, ToolParams, ToolPermission

MAX_QUESTIONS = 2
"""Maximum number of questions of a run; the lead must then continue with an assumption."""

_MAX_CHOICES = 6
_QUESTION_CHARS = 600
_CHOICE_CHARS = 200

Choice = Annotated[str, Field(min_length=1, max_length=_CHOICE_CHARS)]


class PersonQuestion(BaseModel):
    """The parameters of `ask_person`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, coerce_numbers_to_str=True)

    question: Annotated[
        str, Field(description="One question, in the person's language.", min_length=1, max_length=_QUESTION_CHARS)
    ]
    choices: Annotated[
        list[Choice],
        Field(
            description=f"Up to {_MAX_CHOICES} short answers to choose from, the likeliest first; may be left out.",
            max_length=_MAX_CHOICES,
        ),
    ] = []

    @field_validator("choices", mode="before")
    @classmethod
    def _none_as_empty(cls, choices: Any) -> Any:
        return [] if choices is None else choices

    @field_validator("choices")
    @classmethod
    def _plain_texts(cls, choices: list[str]) -> list[str]:
        if any(choice.startswith(("{", "[")) for choice in choices):  # in the text protocol objects arrive as JSON
            raise ValueError("each choice must be a plain text, such as 'New York State'")
        return list(dict.fromkeys(choices))


def _refuse(_ctx: ToolContext, question: str, choices: list[str]) -> Never:
    """Raise `ToolError`: a question becomes a request, so this function runs only if the run may ask no more."""
    del question, choices
    raise ToolError(
        f"This run has asked its {MAX_QUESTIONS} questions already. Do not ask again: state your assumption in the "
        "answer, and continue."
    )


ask_person = Tool(
    name="ask_person",
    description=(
        "Ask the person what an ambiguous question means, before research. Ask only if the readings lead to different "
        "research; never ask for facts that a search can find. The answer is the result. If nobody can answer, you are "
        "told to go on."
    ),
    params=PersonQuestion,
    handler=_refuse,
    permission=ToolPermission.CONFIRM,
    category="clarify",
    idempotent=True,
    request_kind="question",
    is_exclusive=True,
)


class Delegation(ToolParams):
    """The parameters of `call_subagent`."""

    agent_name: Annotated[str, Field(description="The agent that shall do it, one of those listed.", min_length=1)]
    instruction: Annotated[
        str, Field(description="What it shall do; it sees nothing but this and the plan.", min_length=1)
    ]


call_subagent = Tool(
    name="call_subagent",
    description=(
        "Hand a job to a sub-agent and get its answer as the result. The agent starts fresh: "
        "put everything that it needs into the instruction."
    ),
    params=Delegation,
    handler=None,
    category="core",
    idempotent=True,
)
