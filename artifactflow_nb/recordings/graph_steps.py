"""What a graph of a user's own did, step by step: it is played as a whole, since only it knows what comes next.

A step is what one event told, in the order of the events. What a model call, a tool call or a question is about stands
in their own records, to which the step refers; what else was told, it holds as it was.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from artifactflow_nb.approvals import BUDGET
from artifactflow_nb.events import BESIDE, MAIN_JOB, StreamEventType
from artifactflow_nb.recordings.event_checks import flaw_of

GRAPH = "graph"
"""The setting of a run that describes the graph that made it; no other run has it."""

FAIL = "fail"
"""A model call gave no reply, and no event says so: the graph ended with it, or was stopped."""

LEFT = "left"
"""The same when the run's process was closed: what had arrived of it is told no more."""

OF_TURNS = (StreamEventType.AGENT_START, StreamEventType.LLM_COMPLETE, StreamEventType.RETRY, FAIL, LEFT)
OF_TOOLS = (StreamEventType.TOOL_START, StreamEventType.TOOL_COMPLETE)
OF_ASKS = (StreamEventType.PERMISSION_REQUEST, StreamEventType.PERMISSION_RESULT)

REPORTED: Mapping[str, tuple[str, ...]] = {
    StreamEventType.PLAN_CREATED: ("plan_id", "title", "steps"),
    StreamEventType.PLAN_UPDATED: ("plan_id", "reason", "steps"),
    StreamEventType.PLAN_REVISED: ("plan_id", "reason", "steps"),
    StreamEventType.STEP_START: ("plan_id", "step_id", "title"),
    StreamEventType.STEP_COMPLETE: ("plan_id", "step_id", "title", "status"),
}
"""What nodes may report, through the stream writer or as custom events, and what it does not go without.

Everything else that has a type here is told by what really happened, and never because a node says so.
"""

HELD = frozenset({*REPORTED, *OF_TOOLS, StreamEventType.AGENT_START})
"""What a step may hold by itself: what nodes report, their own tools, and the beginning of a call that was killed."""


@dataclass(frozen=True, slots=True)
class GraphStep:
    """One step.

    Attributes:
        kind: The type of the event that told it, or `fail` or `left`, which no event told.
        about: What it is about: the job's path and the number of a model call in it, the path of a tool call, the
            subject of a question without the run's id; empty if the step holds what was told itself.
        agent: Which node, where that stands nowhere else.
        tool: Which tool, or what a question is about, where that stands nowhere else.
        data: What was told: the event's payload, or of a question its `job`, `title` and `message`.
        seq: The number of its event; 0 if there is none.
        at: When.
    """

    kind: str
    at: datetime
    seq: int = 0
    about: str = ""
    agent: str | None = None
    tool: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lane(self) -> str:
        """The lane of a step that holds what was told."""
        name = "tool_call_id" if self.kind in OF_TOOLS else "job_id"
        return str(self.data.get(name) or MAIN_JOB)

    @property
    def is_interrupt(self) -> bool:
        """Whether the graph asks something; that the run may spend more is asked by itself."""
        return self.kind == StreamEventType.PERMISSION_REQUEST and not self.about.startswith(BUDGET)

    def subject(self, run_id: str) -> str:
        """The subject of a question in a run."""
        return self.about.replace("::", f":{run_id}:", 1)


def of_turn(path: str, step: int) -> str:
    """What steps of a model call are about."""
    return f"{path} {step}"


def left_turns(steps: Iterable[GraphStep]) -> set[tuple[str, int, int]]:
    """The places of the model calls that were left: path, step and attempt."""
    left = (step.about.rpartition(" ") for step in steps if step.kind == LEFT)
    return {(path, int(step), 0) for path, _, step in left}


def path_of_job(job_id: str, paths: Mapping[str, str]) -> str:
    """The path of a job: of one that works beside another, what follows that of the other.

    A job that no call of a reply delegates, in a tool that a node called by itself, has its id for a path.
    """
    base, beside, who = job_id.partition(BESIDE)
    return paths.get(base, base) + beside + who.replace("%", "%25").replace("/", "%2F")


def job_of_path(path: str, jobs: Mapping[str, str]) -> str:
    """The id of a job by its path, and by the ids of those with shorter paths."""
    before, slash, last = path.rpartition("/")
    own, beside, who = last.partition(BESIDE)
    base = before + slash + own
    return jobs.get(base, base) + beside + who.replace("%2F", "/").replace("%25", "%")


def base_of(path: str) -> str:
    """The path of the job beside which another works; a path itself if it does so beside none."""
    before, slash, last = path.rpartition("/")
    return before + slash + last.partition(BESIDE)[0]


def own_jobs(steps: tuple[GraphStep, ...]) -> set[str]:
    """The jobs of tools that nodes called by themselves."""
    return {step.lane for step in steps if step.kind in OF_TOOLS and not step.about}


def check_steps(steps: tuple[GraphStep, ...], turns: set[str], calls: set[str], asks: set[str]) -> None:
    """Raise `ValueError` if steps are not of a run with these turns, tool calls and questions.

    Every turn has to begin once, and to end once after that.
    """
    open_turns: set[str] = set()
    left = set(turns)
    for step in steps:
        if not step.about:
            _check_held(step)
        elif step.kind in OF_TURNS:
            _check_turn(step, left, open_turns)
        elif step.about not in (calls if step.kind in OF_TOOLS else asks if step.kind in OF_ASKS else ()):
            raise ValueError(f"the step {step.kind!r:.40} is about {step.about!r:.80}, which is not recorded")
        elif step.kind == StreamEventType.PERMISSION_REQUEST:
            _check_question(step)
    if left or open_turns:
        raise ValueError(f"no step tells the beginning and the end of the model call {min(left | open_turns)!r:.80}")


def flaw_of_report(kind: str, data: Mapping[str, Any]) -> str | None:
    """What is wrong with what a node reports, or with another payload that a step holds; None if nothing is."""
    missing = [name for name in REPORTED.get(kind, ()) if name not in data]
    return f"it has no {missing[0]}" if missing else flaw_of(kind, data)


def _check_held(step: GraphStep) -> None:
    if step.kind not in HELD:
        raise ValueError(f"a step {step.kind!r:.40} does not say what it is about")
    if flaw := flaw_of_report(step.kind, step.data):
        raise ValueError(f"the step {step.kind} is damaged: {flaw}")


def _check_question(step: GraphStep) -> None:
    wrong = [name for name in ("job", "title", "message") if not isinstance(step.data.get(name), str)]
    if wrong:
        raise ValueError(f"the step {step.kind} has no {wrong[0]}")


def _check_turn(step: GraphStep, left: set[str], open_turns: set[str]) -> None:
    begins = step.kind == StreamEventType.AGENT_START
    if step.about not in (left if begins else open_turns):
        raise ValueError(f"the step {step.kind} of the model call {step.about!r:.80} stands where it cannot")
    if begins:
        left.remove(step.about)
        open_turns.add(step.about)
    else:
        open_turns.remove(step.about)


def rounds(steps: Iterable[GraphStep]) -> Iterator[list[GraphStep]]:
    """The questions that were put at the same time."""
    asked: list[GraphStep] = []
    for step in steps:
        if step.kind == StreamEventType.PERMISSION_REQUEST:
            asked.append(step)
        elif asked and step.kind != StreamEventType.PERMISSION_RESULT:
            yield asked
            asked = []
    if asked:
        yield asked
