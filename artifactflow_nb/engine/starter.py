"""Start of runs: a question is checked and stored as a message with its run."""

from collections.abc import Mapping
from typing import Any, TypedDict

from artifactflow_nb import __version__
from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.run_clock import whole_ms
from artifactflow_nb.core.runs import PARENT_CALL_SETTING, WORK_SETTING, ParentCall
from artifactflow_nb.engine.driver import EngineServices
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS, DEFAULT_FLOW
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.base import FlowQuestion
from artifactflow_nb.store.conversations import ParentId, ParentSelector, resolve_parent
from artifactflow_nb.store.runs import NewRun, StoredRun


class RunOptions(TypedDict, total=False):
    """The options of a question, all of which may be left out.

    Attributes:
        conversation_id: The conversation; None for a new one.
        parent_message_id: The message to continue from; None for a new root, left out for the active branch.
        message_id: The id for the new message; None for a new id.
        thread_id: The id for the run's thread; None for a new id.
        flow: The flow; `DEFAULT_FLOW` if it is left out.
        budget: What the run may spend; None for the configured budget.
        model: The model's name at the endpoint; None for the configured model.
        work: The part of a project to write without a conversation: `{"write": [ids of blocks]}`; None for a chat.
        parent_call: The tool call of another run for which the run works; None for a run of its own.
    """

    conversation_id: str | None
    parent_message_id: ParentId
    message_id: str | None
    thread_id: str | None
    flow: str
    budget: Budget | Mapping[str, Any] | None
    model: str | None
    work: Mapping[str, Any] | None
    parent_call: ParentCall | None


class RunStarter:
    """Checks questions and stores them with their runs.

    Args:
        engine: The services of the engine.

    Attributes:
        started: The ids of the runs that were started here, in order.
    """

    def __init__(self, engine: EngineServices) -> None:
        self.started: list[str] = []
        self._engine = engine
        self._services = engine.services

    def check_flow(self, flow: str) -> None:
        """Raise `UsageError`, with the names that are known, if there is no such flow."""
        if flow not in self._engine.flows:
            raise UsageError(f"There is no flow {flow!r}; known are: {', '.join(self._engine.flows)}.")

    async def begin(
        self,
        content: str,
        *,
        conversation_id: str | None = None,
        parent_message_id: ParentId = ParentSelector.ACTIVE,
        message_id: str | None = None,
        thread_id: str | None = None,
        flow: str = DEFAULT_FLOW,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
        work: Mapping[str, Any] | None = None,
        parent_call: ParentCall | None = None,
    ) -> StoredRun:
        """Check a question and store it as a message with its run; the arguments are those of `RunOptions`.

        Known secrets are masked in the question: the model sees the mask, too.
        """
        self._services.secrets.refresh()
        question = content.encode("utf-8", "replace").decode().strip()
        if not question:
            raise UsageError("The question is empty. Write what you want to know.")
        self.check_flow(flow)
        flow_settings: Mapping[str, Any] = {}
        if (spec := BUILT_IN_FLOWS.get(flow)) is not None and spec.check_question is not None:
            parent_id = None
            if conversation_id is not None:
                place = conversation_id, parent_message_id
                parent_id = await self._engine.database.read(lambda db: resolve_parent(db, *place))
            new = FlowQuestion(question, conversation_id, parent_id, work, self._engine.folder)
            flow_settings = await spec.check_question(self._services, new)
        pinned = self._engine.flows[flow]
        limits = None if budget is None else Budget.from_limits(budget)
        choices = {**await self._engine.settings_for_run(flow, limits, model), **flow_settings}
        if work is not None:
            choices[WORK_SETTING] = dict(work)
        if parent_call is not None:
            choices[PARENT_CALL_SETTING] = parent_call.as_json()
        secrets, ids = self._services.secrets.current, self._services.ids
        owner = self._engine.run_locks.acquire()
        try:
            run = NewRun(
                run_id=ids.new("run"),
                conversation_id=conversation_id,
                message_id=message_id or ids.new("msg"),
                thread_id=thread_id or ids.new("thd"),
                parent=parent_message_id,
                question=secrets.text(question),
                flow=flow,
                owner=owner,
                package_version=__version__,
                started_at=whole_ms(self._services.clock.now()),
                settings={"sources": await self._engine.sources_for_run(), **secrets.value(choices)},
                mode=self._engine.mode,
                manifest=await self._engine.manifest_for_run(flow, choices.get("model")),
            )
            stored = await self._services.runs.create(run, ids.new("conv"))
        except BaseException:
            self._engine.run_locks.release(owner)
            raise
        self.started.append(stored.run_id)
        self._engine.flows.pin(stored.run_id, pinned)
        return stored

    async def sibling_options(
        self, message_id: str, *, budget: Budget | Mapping[str, Any] | None = None, model: str | None = None
    ) -> tuple[str, RunOptions]:
        """The question of a message, and the options to ask it again with the same parent.

        Flow, budget and model are those of the run that answered it, unless others are passed.
        """
        message = await self._services.conversations.message(message_id)
        options = RunOptions(
            conversation_id=message.conversation_id, parent_message_id=message.parent_id, budget=budget, model=model
        )
        if message.run_id is not None:
            answer = await self._services.runs.get(message.run_id)
            self._engine.flows.check_available(answer)
            options["budget"] = budget or answer.settings.get("budget")
            options["model"] = model or answer.settings.get("model")
            options["flow"] = answer.flow
            options["work"] = answer.settings.get(WORK_SETTING)
        return message.content, options
