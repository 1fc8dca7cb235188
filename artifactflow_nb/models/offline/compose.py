"""The composer, which carries out plain requests for a document, and the editor of a block."""

from collections.abc import Mapping

from artifactflow_nb.core.document.project import RESEARCH_TOOL
from artifactflow_nb.core.document.tree import PATH_SEPARATOR
from artifactflow_nb.core.text.chinese import is_chinese
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.models.offline.forms import find_edits
from artifactflow_nb.models.offline.phrases import phrases_for
from artifactflow_nb.models.offline.requests import ProjectView, read_request
from artifactflow_nb.models.offline.turn import FinishedCall, Reply, Turn, call_tool

PROPOSE_TOOL = "propose_edits"

_PARAGRAPH_COLUMNS = 300


def compose(turn: Turn, view: ProjectView) -> Reply:
    """Make the calls of a request, then report their results; for an unknown request, list the known ones."""
    message = turn.context.instruction
    phrases = phrases_for(message)
    if turn.calls:
        return Reply("\n\n".join([*(_outcome(entry, phrases) for entry in turn.calls), phrases["offline_note"]]))
    request = read_request(message, view)
    if request is None or request.problem:
        return Reply("\n\n".join([*([request.problem] if request else []), phrases["abilities"]]))
    if request.is_about_state:
        return Reply(_state(view, message))
    return Reply(calls=request.calls) if request.calls else Reply(f"{phrases['none_open']} {phrases['offline_note']}")


def _outcome(entry: FinishedCall, phrases: Mapping[str, str]) -> str:
    """Describe the result of a call; for research, the first paragraph and the first quote of the report."""
    text = entry.text.strip() if entry.result.success else phrases["failed"].format(error=entry.error)
    if entry.call.name != RESEARCH_TOOL:
        return text
    place, *report = text.split("\n\n")
    paragraphs = [paragraph for paragraph in map(str.strip, report) if paragraph and not paragraph.startswith("#")]
    quotes = [paragraph for paragraph in paragraphs if paragraph.startswith(">")]
    return "\n\n".join([place, *(quotes or [clip(paragraph, _PARAGRAPH_COLUMNS) for paragraph in paragraphs])[:1]])


def _state(view: ProjectView, message: str) -> str:
    """List the phase and the state of each block, one per line."""
    phrases = phrases_for(message)
    phase = view.phase(view.info.phase)
    name = "" if phase is None else phase.zh if is_chinese(message) else phase.en
    lines = []
    for block in view.tree:
        states = [block.phase, "group" if block.is_group else block.status]
        if not block.is_group and (changed := view.tree.stale.get(block.block_id)):
            states.append(f"STALE: {', '.join(changed)} changed")
        if not block.is_group and block.need_review and block.status == "draft":
            states.append("waits for review")
        depth = view.tree.path(block.block_id).count(PATH_SEPARATOR)
        lines.append(f"{'  ' * depth}- {block.name}: {', '.join(states)}")
    project = phrases["project"].format(project=view.info.name, phase=name)
    return "\n\n".join([project, "\n".join(lines) or phrases["no_blocks"], phrases["offline_note"]])


def edit(turn: Turn) -> Reply:
    """Propose the edits whose passages the person quotes; after the proposal, report its result."""
    phrases, requested = phrases_for(turn.context.wish), find_edits(turn.context.wish)
    proposed = turn.calls_of(PROPOSE_TOOL)
    if requested.edits and not proposed and PROPOSE_TOOL in turn.tools:
        return call_tool(PROPOSE_TOOL, {"edits": list(requested.edits)})
    if not proposed:
        return Reply(phrases["edits"])
    error = proposed[-1].error
    rest = [phrases["not_edited"].format(rest=requested.rest)] if requested.rest else []
    return Reply("\n\n".join([phrases["edit_failed"].format(error=error) if error else phrases["edited"], *rest]))
