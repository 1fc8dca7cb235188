"""A call that a run of its own carries out, as a fold: what that run was asked, and all that a run shows.

It is open for as long as the run goes on or waits, so that a card within it can be seen.
"""

from artifactflow_nb.text.framing import without_context
from artifactflow_nb.text.markdown import escape, speak
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.parts import Subrun, ToolUse
from artifactflow_nb.widgets.pieces import mark, params_html
from artifactflow_nb.widgets.tree import Node, prefixed

_NOT_HERE = "What this run did is not in this store."
_ABOUT_COLUMNS = 90


def subrun_node(use: ToolUse, subrun: Subrun, inside: tuple[Node, ...], came_of_it: str, *, measured: bool) -> Node:
    """The call.

    Args:
        use: It.
        subrun: The run that carries it out.
        inside: How far that run is, and what it did; empty where it is not known.
        came_of_it: What the call gave beyond what the run did, as HTML.
        measured: Show time and tokens.
    """
    transcript = subrun.transcript
    status = labels.use_status(use)
    doing = labels.outcome(use) or ("" if transcript.ended else _doing(subrun))
    took = labels.brief(transcript) if measured and transcript.ended and subrun.is_known else ""
    question = without_context(transcript.question)
    summary = (
        f'{mark(status)} <code class="af-name">{escape(use.tool)}</code> '
        f'<span class="af-arg">{speak(clip(question, _ABOUT_COLUMNS))}</span> '
        f'<span class="af-out">{escape(doing)}</span> <span class="af-time">{took}</span>'
    )
    key = subrun.run_id
    said = {name for name, value in use.params.items() if value == question}
    children = (
        Node(f"{use.id}-task", f"<p>{speak(question)}</p>", css="af-task"),
        *(
            [Node(f"{use.id}-params", more, css="af-details")]
            if (more := params_html(use.params, without=said))
            else []
        ),
        *(prefixed(inside, f"{key}/") or (_missing(key),) * (use.status != "running")),
        *([Node(f"{use.id}-details", came_of_it, css="af-details")] if came_of_it else []),
    )
    return Node(use.id, summary, "fold", "af-tool af-job af-subrun", not transcript.ended, children=children)


def _doing(subrun: Subrun) -> str:
    """What the run is doing now, in a few words."""
    return labels.WAITS if subrun.transcript.waits_for else labels.activity(subrun.transcript.lead)


def _missing(key: str) -> Node:
    return Node(f"{key}-missing", f"<p>{_NOT_HERE}</p>", css="af-quiet")
