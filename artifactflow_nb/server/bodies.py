"""The bodies of requests. Unknown fields are refused, so that a typing error in an option is not ignored."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from artifactflow_nb.core.approvals import Decision, Scope
from artifactflow_nb.core.runs import Clarify, Depth
from artifactflow_nb.engine.flow_registry import DEFAULT_FLOW


class Body(BaseModel):
    """The JSON object of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ChatBody(Body):
    """A question."""

    content: str = Field(description="The question.")
    conversation_id: str | None = Field(default=None, description="The conversation to continue; null for a new one.")
    parent_message_id: str | None = Field(
        default=None, description="The message to continue from; `root` for a new root; null for the active branch."
    )
    flow: str | None = Field(default=None, description=f"The flow that answers; null for {DEFAULT_FLOW}.")
    depth: Depth = Field(default="standard", description="How far the run goes.")
    clarify: Clarify | None = Field(
        default=None, description="Whether the lead asks what the question means; null for the setting of the server."
    )
    budget: dict[str, Any] | None = Field(
        default=None, description="Limits of the run, at most the server's limits: tokens, usd, seconds, when_spent."
    )


class RetryBody(Body):
    """A question to ask again, on a branch of its own."""

    message_id: str | None = Field(default=None, description="The message; null for the last one of the active branch.")
    content: str | None = Field(default=None, description="Another question in its place; null to ask it unchanged.")
    budget: dict[str, Any] | None = Field(default=None, description="As for a question.")


class DecisionBody(Body):
    """A decision on one approval request."""

    approved: bool = Field(description="Whether the call may run.")
    params: dict[str, Any] | None = Field(default=None, description="All parameters of the call, edited.")
    scope: Scope = Field(default="once", description="The calls of this tool that the decision covers.")
    instruction: str = Field(default="", description="A message to the agent.")
    replaces_call: bool = Field(default=False, description="The instruction replaces the call, which does not run.")

    def decision(self, decided_by: str) -> Decision:
        """Return the decision of a user; `UsageError` for fields that contradict each other."""
        return Decision(**self.model_dump(), decided_by=decided_by)


class ResumeBody(Body):
    """Decisions on the requests of a waiting run: `approved` for a single request, else `decisions`."""

    thread_id: str = Field(description="The thread of the run.")
    message_id: str | None = Field(default=None, description="The message of the run, as a check.")
    approved: bool | None = Field(default=None, description="The decision on the only open request.")
    decisions: dict[str, DecisionBody] | None = Field(default=None, description="Decisions by request id.")


class SourcesBody(Body):
    """Files to search: a path in the server's folder, or contents."""

    path: str | None = Field(default=None, description="A file or folder below the root folder of the server.")
    files: list[dict[str, str]] = Field(default=[], description="Files, each with `name` and `base64`.")


class ViewBody(Body):
    """A message of the page to one of its views."""

    view: str = Field(description="The key of the view, which the page chose.")
    message: dict[str, Any] = Field(description="The message; see `PageStream`, and `open` and `close` in `PageViews`.")
