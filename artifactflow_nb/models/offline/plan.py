"""Plans by fixed rules: the planning agent, the executor, the replanner and the summarizer.

The plan for a question has a step for each part of the question, which searches and reads, and a step for the report.
Each step names the needed tools.

The executor acts by the step's tools and words::

    an artifact tool, and the step says to write    the report, made of the quotes of earlier steps
    web_search, web_fetch, or both                  addresses or quotes
    neither                                         a failure
"""

import re
from collections.abc import Sequence

from artifactflow_nb.core.plan import Plan, PlanProgress, PlanStep
from artifactflow_nb.models.offline.questions import is_follow_up, split_question
from artifactflow_nb.models.offline.report import (
    PHRASES,
    Section,
    phrases_for,
    plan_answer,
    plan_report,
    plan_steps,
    plan_title,
    report_title,
    section_heading,
)
from artifactflow_nb.models.offline.research import (
    LOOKUP_TOOLS,
    MAX_SOURCES,
    REPORT,
    REPORT_TOOLS,
    calls_for_report,
    look_up,
    report_calls,
)
from artifactflow_nb.models.offline.turn import (
    Reply,
    Turn,
    call_tool,
    find_failures,
    find_stated_question,
    state_question,
    without_addresses,
)
from artifactflow_nb.sources.citations import (
    SourceQuotes,
    find_addresses,
    read_counts,
    read_documents,
    read_hits,
    read_quotes,
    write_counts,
    write_quotes,
)
from artifactflow_nb.sources.retrieval.terms import parse_query

# --- the agent that plans --------------------------------------------------------------------------------------------

_MAX_PARTS = 6


def make_plan(turn: Turn) -> Reply:
    """Create a plan; after its execution, answer from the steps."""
    phrases, created = phrases_for(turn.question), turn.calls_of("plan_create")
    if not created:
        parts = plan_parts(turn.question)
        stated = [state_question(part) for part in parts] if len(parts) > 1 else [turn.stated_question]
        steps: list[tuple[str, str, Sequence[str]]] = [
            (phrases["find_out"].format(question=part), f"{phrases['to_find_out']}\n{text}", LOOKUP_TOOLS)
            for part, text in zip(parts, stated, strict=True)
        ]
        tools = REPORT_TOOLS[1:] if REPORT in turn.context.artifact_ids else REPORT_TOOLS
        steps.append((plan_steps(phrases)[-1], phrases["to_write"].format(report=REPORT), tools))
        drafts = [{"title": title, "description": task, "tools": list(names)} for title, task, names in steps]
        return call_tool("plan_create", {"title": plan_title(turn.question), "steps": drafts}, phrases["planning"])
    if turn.context.plan is None:
        return Reply(f"{phrases['refused'].format(error=created[-1].error)}\n\n{phrases['offline']}")
    plan = turn.context.plan.plan
    is_written = any(step.status == "completed" and REPORT in step.result for step in plan.steps)
    undone = [f"{step.title}: {_first_line(step.result)}" for step in plan.steps_with_status("failed")]
    skipped: dict[str, list[str]] = {}  # titles by reason
    for step in plan.steps_with_status("skipped"):
        skipped.setdefault(_first_line(step.result), []).append(step.title)
    undone += [f"{'; '.join(titles)}: {reason}" for reason, titles in skipped.items()]
    return Reply(plan_answer(turn.question, _sections(plan), undone, REPORT if is_written else None))


def plan_parts(question: str) -> list[str]:
    """Return the independent parts of a question, which get one step each."""
    parts = split_question(question)
    return parts if len(parts) <= _MAX_PARTS and not any(map(is_follow_up, parts)) else [question]


def _sections(plan: Plan) -> list[Section]:
    """Return a section for each step that has quoted sources."""
    quoted = [(step, _quotes(step)) for step in plan.steps]
    return [Section(section_heading(step.title), quotes) for step, quotes in quoted if quotes]


def _quotes(step: PlanStep) -> tuple[SourceQuotes, ...]:
    return tuple(read_quotes(step.result)) if step.status == "completed" else ()


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


# --- the executor ----------------------------------------------------------------------------------------------------

_SAYS_WRITE = re.compile(
    r"(?:please |then )*(?:write|writing|report|summari[sz]e|sum up|draft|compose)\b"
    r"|[请請再]*(?:撰写|撰寫|写|寫|起草|报告|報告|总结|總結)",
    re.IGNORECASE,
)


def execute_step(turn: Turn, plan: Plan, step: PlanStep) -> Reply:
    """Execute a step of a plan: write the report, or search, read and report quotes, addresses or a failure."""
    if reported := turn.calls_of("report_failure"):
        return Reply(str(reported[-1].params.get("reason", "")))
    can_look, phrases = turn.has_any(LOOKUP_TOOLS), phrases_for(turn.context.question)
    if turn.has_any(REPORT_TOOLS) and (not can_look or _SAYS_WRITE.match(step.title)):
        return _write_report(turn, plan)
    if not can_look:
        return _fail(turn, phrases["no_tool"])
    lookup = _lookup(turn, plan, step)
    if not lookup.has("web_search") and not find_addresses(lookup.context.instruction):
        return _fail(turn, phrases["no_address"])
    reply = look_up(lookup)
    if reply.calls:
        return reply
    if quotes := read_quotes(reply.text):
        return Reply(write_quotes(quotes))
    if read_hits(reply.text) and not lookup.calls_of("web_fetch"):
        return Reply(reply.text.partition("\n\n")[2])
    reasons = find_failures(reply.text)
    if not reasons and not lookup.calls_of("web_fetch"):
        reasons = [phrases["searched_none"]]
    elif not reasons:
        documents = read_documents(lookup.texts_of("web_fetch"))
        titles = dict.fromkeys(document.title for document in documents if document.title)
        searched = phrases["searched"].format(titles=phrases["between_titles"].join(titles))
        reasons = [phrases["absent"], *([searched] if titles else [])]
    return _fail(turn, " ".join(reasons))


def _fail(turn: Turn, reason: str) -> Reply:
    """Report a failure, as plain text if no tool may be called; after a denial, note that the denial is final."""
    if any(entry.failed_by("PermissionDenied", "Instructed") for entry in turn.calls):
        reason = f"{reason}\n{phrases_for(turn.context.question)['denied']}"
    can_report = "report_failure" in turn.tools
    return call_tool("report_failure", {"reason": reason}) if can_report else Reply(reason)


def _write_report(turn: Turn, plan: Plan) -> Reply:
    question = turn.context.question
    phrases, sections = phrases_for(question), _sections(plan)
    if not sections:
        return _fail(turn, phrases["nothing"])
    for step in plan.steps_with_status("failed"):
        if not _SAYS_WRITE.match(step.title):
            sections.append(Section(section_heading(step.title), (), _first_line(step.result)))
    exists = not turn.has("create_artifact")  # a plan offers only `rewrite_artifact` if there is a report
    if calls := report_calls(turn, report_title(question), plan_report(question, sections), exists=exists):
        return Reply(phrases["writing"], tuple(calls))
    tried = calls_for_report(turn)
    if any(entry.result.success for entry in tried):
        return Reply(phrases["written"].format(report=REPORT))
    return _fail(turn, phrases["report_failed"].format(error=tried[-1].error if tried else phrases["no_tool"]))


def _lookup(turn: Turn, plan: Plan, step: PlanStep) -> Turn:
    """Convert the step to a task of searching and reading; a step that cannot search reads earlier results."""
    question = find_stated_question(step.description)
    if not question:
        title = " ".join(without_addresses(step.title).split())
        earlier = turn.context.question if is_follow_up(title) else ""
        has_subject = bool(parse_query(title).terms)
        question = state_question(title, earlier) if has_subject else state_question(turn.context.question)
    results = "\n".join(other.result for other in plan.steps)
    addresses = find_addresses(f"{step.title}\n{step.description}")
    tools = turn.tools.intersection(LOOKUP_TOOLS)
    if addresses:
        tools -= {"web_search"}
    elif not turn.has("web_search"):
        addresses = [hit.address for hit in read_hits(results)] or find_addresses(results)
    lines = [question]
    if counts := read_counts(results):
        words = question.replace("Earlier question:", " ").replace("Question:", " ")
        lines.append(write_counts(parse_query(words).spellings, counts))
    if addresses:
        lines += ["Sources:", *(f"- {address}" for address in list(dict.fromkeys(addresses))[:MAX_SOURCES])]
    return turn.with_instruction("\n".join(lines), tools)


# --- the replanner and the summarizer --------------------------------------------------------------------------------

_FINAL_FAILURES = tuple(
    phrases[name]
    for phrases in PHRASES.values()
    for name in ("absent", "searched_none", "nothing", "no_tool", "no_address", "denied")
)


def decide(turn: Turn, progress: PlanProgress) -> Reply:
    """Decide how the plan continues, then give the reason; a rejected decision becomes the end of the plan."""
    decided = turn.calls_of("plan_decide")
    if decided:
        last = decided[-1]
        if last.result.success or last.params.get("decision") == "finish" or not turn.tools:
            return Reply(str(last.params.get("reason", "")))
    decision, reason = ("finish", "no_material") if decided else _decision(progress, turn.context.choices)
    return call_tool("plan_decide", {"decision": decision, "reason": phrases_for(turn.context.question)[reason]})


def _decision(progress: PlanProgress, choices: Sequence[str]) -> tuple[str, str]:
    """Return the decision, and the name of the phrase for its reason.

    A step is not retried if the sources have no answer or a person denied a call, since the step would fail again.
    """
    last, pending = progress.last_step, progress.plan.steps_with_status("pending")
    has_failed = last is not None and last.status == "failed"
    is_final = last is not None and any(text in last.result for text in _FINAL_FAILURES)
    if has_failed and "retry" in choices and not is_final:
        return "retry", "retry"
    if "continue" not in choices:
        return "finish", "no_step"
    is_independent = any(not _SAYS_WRITE.match(step.title) for step in pending)  # a report needs earlier results
    can_continue = is_independent or any(map(_quotes, progress.plan.steps))
    return ("continue", "continue_plan") if can_continue or not has_failed else ("finish", "no_material")


def summarize(plan: Plan) -> Reply:
    """Summarize the finished steps: quote sources verbatim, and list other results one per line."""
    outcomes = {"completed": "was completed", "failed": "failed", "skipped": "was skipped"}
    paragraphs = []
    for number, step in enumerate(plan.steps, 1):
        if step.result and step.status in outcomes:
            hits = "\n".join(f"- {hit.title} ({hit.address})" for hit in read_hits(step.result))
            gist = write_quotes(_quotes(step)) or hits or _first_line(step.result)
            paragraphs.append(f"Step {number} ({step.title}) {outcomes[step.status]}:\n{gist}")
    return Reply("\n\n".join(paragraphs) or "No step has a result.")
