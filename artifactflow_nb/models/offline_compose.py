"""The offline model as the composer: it makes the call that a plain request asks for, and else says what it can do.

A block that is to be researched is looked at first: what it shall say is then what is asked.
"""

import re
from collections.abc import Mapping
from typing import Any

from artifactflow_nb.blocks import SEPARATOR
from artifactflow_nb.models.offline_audience import CONSUMER, GENERAL, kind_of
from artifactflow_nb.models.offline_block_read import Index
from artifactflow_nb.models.offline_block_words import block_words
from artifactflow_nb.models.offline_transcript import Step, Transcript, uncalled
from artifactflow_nb.models.offline_wishes import wish_of
from artifactflow_nb.projects import GENERATE, MODIFY, RUN_RESEARCH
from artifactflow_nb.text.chinese import is_chinese
from artifactflow_nb.text.width import clip
from artifactflow_nb.xml_calls import format_call

TOOLS = (GENERATE, MODIFY, "manage_architecture", "advance_to_phase", "update_field")
"""Whoever is offered one of these talks with the person about a document."""

_LOOK = "query_field"
_PROMPT = re.compile(r"^prompt: (.*?)(?=\ntext \([\d,]+ characters\) begins:\n|\Z)", re.MULTILINE | re.DOTALL)
_RESTS_ON = re.compile(r"^depends on: (.*)$", re.MULTILINE)
_SAYS = " It says:\n\n"
_FOUND = " What was found:\n\n"
_TOLD_COLUMNS = 300

Call = tuple[str, Mapping[str, Any]]


def turn(transcript: Transcript) -> str:
    """The composer's next turn: the calls, or what came of them."""
    say = block_words(transcript.instruction)
    if done := [step for step in transcript.steps if step.name != _LOOK]:
        return "\n\n".join([*(_outcome(step, say["failed"]) for step in done), say["at_work"]])
    index = Index.read(transcript.told)
    wish = wish_of(transcript.instruction, index)
    if wish is None or wish.problem:
        return "\n\n".join([*([uncalled(wish.problem)] if wish else []), say["can"]])
    if wish.is_state:
        return _state(index, transcript.instruction)
    if not wish.calls:
        return f"{say['none_open']} {say['at_work']}"
    return "\n".join(format_call(name, params) for name, params in _next(transcript, index, wish.calls))


def _next(transcript: Transcript, index: Index, calls: tuple[Call, ...]) -> list[Call]:
    """The calls of a wish; before them a look at the blocks that are researched by what they shall say."""
    unknown = [params["field_name"] for name, params in calls if _is_unknown(index, name, params)]
    if unknown and not transcript.steps:
        return [(_LOOK, {"field_name": path}) for path in unknown]
    looks = {step.params.get("field_name"): step.data for step in transcript.steps}
    return [
        _known(index, name, params, looks.get(params["field_name"], ""))
        if _is_unknown(index, name, params)
        else (name, params)
        for name, params in calls
    ]


def _is_unknown(index: Index, name: str, params: Mapping[str, Any]) -> bool:
    """Whether the index does not tell enough for a call: what is to be researched, or whether anything is."""
    if name == RUN_RESEARCH:
        return "query" not in params
    return name == GENERATE and index.is_to_research(index.tree.find(params["field_name"]))


def _known(index: Index, name: str, params: Mapping[str, Any], look: str) -> Call:
    """A block researched by its prompt, or its name; one that is to be written and rests on research is written."""
    if name == GENERATE and _rests_on_research(index, look):
        return name, params
    path = params["field_name"]
    title = path.rpartition(SEPARATOR)[2]
    prompt = found[1].strip() if (found := _PROMPT.search(look)) else ""
    query = "\n\n".join(filter(None, [prompt or title, params.get("style_hint", "")]))
    kind = CONSUMER if CONSUMER in {kind_of(title), kind_of(prompt)} else GENERAL
    return RUN_RESEARCH, {"query": query, "research_type": kind, "field_name": path}


def _rests_on_research(index: Index, look: str) -> bool:
    """Whether a block depends on a text of a phase of research, as a look at it tells."""
    found = _RESTS_ON.search(look)
    names = f", {found[1]}, " if found else ""
    texts = (block for block in index.tree if index.is_of_research(block) and not index.is_empty(block))
    return any(f", {text.name}, " in names for text in texts)


def _outcome(step: Step, failed: str) -> str:
    """What came of a call: of research where its report is, and what that says first."""
    if not step.done:
        return failed.format(error=uncalled(step.error.partition(_FOUND)[0]))
    said, _, report = uncalled(step.data).strip().partition(_SAYS)
    return "\n\n".join([said, *_best(report)]) if step.name == RUN_RESEARCH else uncalled(step.data).strip()


def _best(report: str) -> list[str]:
    """What a report says first: a quote, or else its first paragraph."""
    parts = [part for part in map(str.strip, report.split("\n\n")) if part and not part.startswith("#")]
    return ([part for part in parts if part.startswith(">")] or [clip(part, _TOLD_COLUMNS) for part in parts])[:1]


def _state(index: Index, asked: str) -> str:
    """The phase, and a line for each block with what the index says of it."""
    say, now = block_words(asked), index.now
    phase = "" if now is None else now.zh if is_chinese(asked) else now.en
    lines = []
    for block in index.tree:
        depth = index.tree.path(block.block_id).count(SEPARATOR)
        lines.append(f"{'  ' * depth}- {block.name}: {index.states[block.block_id]}")
    blocks = "\n".join(lines) or say["no_blocks"]
    return "\n\n".join([say["project"].format(project=index.project, phase=phase), blocks, say["at_work"]])
