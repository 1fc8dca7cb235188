"""Fields of an adapted graph's state other than messages: files, to-dos, fields for the next question, the answer.

Files of deep agents become artifacts. The text of a file is stored in the artifact only, so that the next question gets
the version of its branch, including the person's edits. To-do lists of LangChain's `TodoListMiddleware` become plans:
each call of `write_todos` changes the plan of its job.
"""

import json
import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel

from artifactflow_nb.core.events import MAIN_JOB, StreamEventType
from artifactflow_nb.core.plan import Plan, PlanStep, assign_step_ids, plan_id
from artifactflow_nb.core.text.format import fenced
from artifactflow_nb.errors import NotFound
from artifactflow_nb.flows.plan.ledger import PlanLedger, finish_job
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.plugins.graphs.messages import to_plain_json
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.calls import OpenCall

MESSAGES, FILES = "messages", "files"

_INTERNAL_FILES = ("large_tool_results/", "conversation_history/")
"""Folders to which deepagents moves long texts of messages."""

_ANSWER_NAMES = ("answer", "final_answer", "response", "output", "final_report", "report", "result", "summary")
"""Names of fields that may contain the answer, the most likely first."""

_QUESTION_NAMES = ("question", "query", "user_input", "input", "task", "topic", "request", "prompt")
"""Names of fields that may take the question, the most likely first."""


def _text_of_file(entry: Any) -> str | None:
    """Return the text of a file in a state, which is a text or a mapping with `content`; or None for a binary file."""
    if isinstance(entry, Mapping):
        if entry.get("encoding", "utf-8") != "utf-8":
            return None
        entry = entry.get("content")
    if isinstance(entry, list) and all(isinstance(line, str) for line in entry):
        return "\n".join(entry)
    return entry if isinstance(entry, str) else None


def _artifact_id(path: str) -> str:
    """Return the id of the artifact for a file, or "" for an internal file of deepagents."""
    name = path.lstrip("/")
    return "" if name.startswith(_INTERNAL_FILES) else name


def files_in(state: Any) -> dict[str, str]:
    """Return the text files in a state or in an update of a state, by path."""
    files = state.get(FILES) if isinstance(state, Mapping) else None
    if not isinstance(files, Mapping):
        return {}
    texts = {str(path): _text_of_file(entry) for path, entry in files.items() if _artifact_id(str(path))}
    return {path: text for path, text in texts.items() if text is not None}


async def write_files(ctx: RunContext, files: Mapping[str, str], agent: str) -> None:
    """Store files that differ from their artifacts as new versions, and publish the versions."""
    run, artifacts = ctx.run, ctx.services.artifacts
    by = Authorship(run.conversation_id, run.message_id, agent, run.run_id, at=ctx.clock.now())

    def work(db: Any) -> list[Artifact]:
        versions = []
        for path, text in files.items():
            name = PurePosixPath(path).name
            media_type = "text/markdown" if name.endswith(".md") else mimetypes.guess_type(name)[0] or "text/plain"
            versions.append(artifacts.put(db, by, _artifact_id(path), name, text, media_type))
        return [version for version in versions if version is not None]

    for version in await artifacts.write_once(by, work):
        payload = {"job_id": MAIN_JOB, "tool_call_id": "", **version.event_payload}
        ctx.event_writer.emit(StreamEventType.ARTIFACT_CHANGED, payload, agent=agent)


def input_fields(graph: Any) -> set[str]:
    """Return the names of the fields in a graph's input schema; a graph without a schema has no names."""
    builder = getattr(graph, "builder", None)
    return set() if builder is None else set(builder.schemas.get(builder.input_schema, ()))


def guess_input(graph: Any, question: str) -> Any:
    """Guess the input of a graph without messages; return None without a usual field for the question."""
    if getattr(graph.channels.get("__start__"), "typ", None) is str:  # an `@entrypoint` that takes a text
        return question
    fields = input_fields(graph)
    name = None if MESSAGES in fields else next((name for name in _QUESTION_NAMES if name in fields), None)
    return None if name is None else {name: question}


def input_advice(graph: Any) -> str:
    """Return advice for a graph without a field for the question, or an empty string."""
    fields = input_fields(graph)
    if MESSAGES in fields or not fields or guess_input(graph, ""):
        return ""
    names = ", ".join(sorted(fields))
    example = 'input=lambda question, history: {"...": question}'
    return f". The graph has no messages; its input has the fields {names}. Set one of them by af.adapt, {example}."


async def store_state(ctx: RunContext, graph: Any, values: Any) -> None:
    """Store the input fields with JSON values, except messages, for the next question of the conversation."""
    if not isinstance(values, Mapping):
        return
    state = {name: values[name] for name in input_fields(graph) & set(values) if name != MESSAGES}
    state = {name: value for name, value in state.items() if value is not None and _is_json(value)}
    if texts := files_in(state):
        state[FILES] = {path: _with_text(state[FILES][path], "") for path in texts}
    if state:
        await ctx.services.runs.store_graph_state(ctx.run.run_id, ctx.secrets.value(state))


def _is_json(value: Any) -> bool:
    """Return whether a round trip through JSON leaves a value unchanged."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_json(each) for name, each in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or type(value) in {str, int, float, bool}


async def load_state(ctx: RunContext, graph: Any) -> dict[str, Any]:
    """Return the fields that the graph's last run on the branch stored, with the current texts of files."""
    run = ctx.run
    stored = await ctx.services.runs.graph_state(run.parent_message_id, run.flow)
    state = {name: value for name, value in stored.items() if name in input_fields(graph)}
    if isinstance(files := state.get(FILES), Mapping):
        state[FILES] = {}
        for path, entry in files.items():
            try:
                artifact = await ctx.services.artifacts.read(
                    run.conversation_id, _artifact_id(path), message_id=run.parent_message_id
                )
            except NotFound:  # deleted meanwhile, or a binary file
                continue
            state[FILES][path] = _with_text(entry, artifact.content)
    return state


def _with_text(entry: Any, text: str) -> Any:
    """Return a file of a state with another text, in the form of `entry`."""
    if not isinstance(entry, Mapping):
        return text
    return {**entry, "content": text.split("\n") if isinstance(entry.get("content"), list) else text}


def _model_fields(value: Any) -> Any:
    """Return the fields of a pydantic model, such as a structured response; return another value unchanged."""
    return value.model_dump() if isinstance(value, BaseModel) else value


def guess_answer(state: Any, question: str) -> str:
    """Guess the answer in a state without messages: a field with a usual name, the only text, or the whole state.

    A field that repeats the question is not the answer.
    """
    if isinstance(state, Mapping):
        state = {name: _model_fields(value) for name, value in state.items()}
    plain = to_plain_json(_model_fields(state))
    if isinstance(plain, dict):
        fields = state if isinstance(state, Mapping) else plain  # in `plain`, any object is a text
        texts = {name: str(value) for name, value in plain.items() if isinstance(fields.get(name), str)}
        texts = {name: value for name, value in texts.items() if value.strip() not in {"", question.strip()}}
        named = [texts[name] for name in _ANSWER_NAMES if name in texts]
        if named or len(texts) == 1:
            return next(iter(named or texts.values()))
        plain.pop(MESSAGES, None)
    if isinstance(plain, str) and plain.strip():
        return plain
    if plain in (None, {}, [], ""):
        return "The graph ended without an output."
    return fenced(json.dumps(plain, ensure_ascii=False, indent=2), "`", "json")


_TITLE = "To-dos"


def todos_in_output(output: Any) -> list[tuple[str, str]]:
    """Return the titles and statuses of the to-dos in a tool's output, each title once."""
    update = getattr(output, "update", None)
    todos = update.get("todos") if isinstance(update, Mapping) else None
    entries = [todo for todo in todos if isinstance(todo, Mapping)] if isinstance(todos, Sequence) else []
    return list({str(todo["content"]): str(todo.get("status")) for todo in entries if todo.get("content")}.items())


async def write_plan(ctx: RunContext, opened: OpenCall, todos: Sequence[tuple[str, str]]) -> None:
    """Create the plan of a job from to-dos, or update the plan to the to-dos.

    Statuses of to-dos are `pending`, `in_progress` or `completed`.
    """
    agent, progress = opened.agent, None
    ledger = PlanLedger(ctx, opened.call.tool_call_id, opened.job_id)
    for call_id in await ctx.services.calls.ids_of_tool(ctx.run.run_id, opened.job_id, opened.call.call.name):
        earlier = PlanLedger(ctx, call_id, opened.job_id)
        if (progress := await earlier.find_progress()) is not None:
            ledger = earlier
            break
    by_title = {} if progress is None else {step.title: step for step in progress.plan.steps}
    new = [PlanStep("", title) for title, _ in todos if title not in by_title]
    fresh = iter(assign_step_ids(new, used_ids={step.id for step in by_title.values()}))
    steps = tuple(by_title[title] if title in by_title else next(fresh) for title, _ in todos)
    if progress is None:
        await ledger.create(Plan(plan_id(ledger.tool_call_id), _TITLE, steps), agent)
    elif steps != progress.plan.steps:
        await ledger.replace_steps(progress.plan, steps, agent)
    for step, (title, status) in zip(steps, todos, strict=True):
        if status in {"in_progress", "completed"} and step.status == "pending":
            await ledger.start_job(await ledger.progress(), "execute", agent, title, step=step)
        if status == "completed" and step.status in {"pending", "running"}:
            progress = await ledger.progress()
            job = next((job for job in progress.jobs if job.step_id == step.id and not job.outcome), None)
            if job is not None:
                await ledger.end_step(progress.plan, finish_job(job, "completed", ""), agent)
