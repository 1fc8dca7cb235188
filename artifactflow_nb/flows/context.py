"""The prompt of a turn, and the values behind it.

::

    system | history (lead only) | instruction | reply, results | reply, results | ...
"""

from collections.abc import Sequence

from artifactflow_nb.agents.base import NextCalls, PromptContext
from artifactflow_nb.agents.protocols import PROTOCOLS, CallProtocol
from artifactflow_nb.core.messages import Message, ToolCall
from artifactflow_nb.core.plan import parse_plan
from artifactflow_nb.core.text.format import without_context
from artifactflow_nb.flows.compression import TurnMessages
from artifactflow_nb.flows.services import RunContext, is_main
from artifactflow_nb.models.base import ModelContext
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID
from artifactflow_nb.store.calls import StoredTurn


class ContextManager:
    """Builds prompts from the store; it has no state."""

    @staticmethod
    async def prepare_agent_context(ctx: RunContext, agent: str, job_id: str) -> PromptContext:
        """Return the changing part of the system prompt: that of the flow if it has one, otherwise the default."""
        if ctx.flow is not None and ctx.flow.prompt_context is not None:
            context = await ctx.flow.prompt_context(ctx, agent, job_id)
            if context is not None:
                return context
        return await ContextManager.default_context(ctx, agent, job_id)

    @staticmethod
    async def default_context(ctx: RunContext, agent: str, job_id: str) -> PromptContext:
        """Return the artifacts and the plan for the main agent, the plan for subagents, the day for other agents."""
        services, run = ctx.services, ctx.run
        if not is_main(job_id) and agent not in services.subagents:
            return PromptContext(now=run.started_at)
        artifacts = await services.artifacts.list_artifacts(run.conversation_id, message_id=run.message_id)
        plan = ""
        if (artifact := next((entry for entry in artifacts if entry.artifact_id == TASK_PLAN_ID), None)) is not None:
            progress = parse_plan(artifact.content, artifact.content_type)
            # results of steps are long, and the agents that need them get them in their instructions
            plan = artifact.content if progress is None else progress.checklist
        if not is_main(job_id):
            return PromptContext(now=run.started_at, task_plan=plan)
        inventory = [(artifact.artifact_id, artifact.title, artifact.version) for artifact in artifacts]
        return PromptContext(run.started_at, inventory, plan)

    @staticmethod
    def model_context(
        ctx: RunContext,
        job_id: str,
        context: PromptContext,
        instruction: str,
        history: Sequence[Message],
    ) -> ModelContext:
        """Return the values behind a prompt, for a model that computes its reply."""
        questions = [message.content for message in history if message.role == "user"]
        project, following = context.project, context.next_calls or NextCalls()
        return ModelContext(
            question=without_context(ctx.run.question),
            instruction=without_context(instruction),
            earlier_question=without_context(questions[-1]) if questions else "",
            calls=tuple(ctx.transcript(job_id).finished_calls),
            artifact_ids=frozenset(artifact_id for artifact_id, _, _ in context.artifacts),
            plan=context.plan,
            choices=context.choices,
            project=project.info if project else None,
            blocks=project.tree if project else None,
            block=project.block if project else None,
            wish=project.wish if project else "",
            next_calls=tuple(ToolCall(name, dict(params)) for name, params in following.calls),
            next_message=following.message,
        )

    @staticmethod
    def build_agent_messages(
        system: str,
        history: Sequence[Message],
        instruction: str,
        turns: Sequence[StoredTurn] | TurnMessages,
        *,
        protocol: CallProtocol = PROTOCOLS["xml"],
        level: str = "normal",
        note: str = "",
    ) -> tuple[Message, ...]:
        """The prompt of a turn, compressed to its level.

        Args:
            system: The whole system message.
            history: Earlier turns of the conversation.
            instruction: The instruction of the job.
            turns: The job's replies so far, with the results of their calls.
            protocol: Formats calls and results, unless `turns` are formatted already.
            level: A key of `COMPRESSION_LEVELS`.
            note: A text to add to the last message, such as a note that the rounds are used up.
        """
        written = turns if isinstance(turns, TurnMessages) else TurnMessages(protocol, turns)
        head = [Message("system", system), *history, Message("user", instruction)]
        return tuple(written.prompt(head, level, note))
