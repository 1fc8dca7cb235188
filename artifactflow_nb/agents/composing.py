"""The agents of the compose flow: who talks about the document, writes blocks, edits, outlines, judges them.

What they may do stands in `graph_config.yaml`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from artifactflow_nb.agents.base import AgentConfig, BaseAgent, ProjectContext, PromptContext
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.models.in_order import InOrderModel, told_now
from artifactflow_nb.personas import Persona
from artifactflow_nb.projects import EVALUATE, GENERATE, REVIEW, RUN_RESEARCH
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.width import clip
from artifactflow_nb.tools.block_research import is_researched

COMPOSER = AgentConfig(
    name="composer",
    description="Talks with the person about the document, and has its blocks arranged, written and changed.",
)

WRITER = AgentConfig(
    name="writer",
    description="Writes one block of a document.",
)

EDITOR = AgentConfig(
    name="editor",
    description="Proposes edits of one block of a document.",
)

OUTLINER = AgentConfig(
    name="outliner",
    description="Proposes the structure of a document.",
)

GENERATOR = AgentConfig(
    name="generator",
    description="Has the blocks of a document written in their order; no language model is used for that.",
    required_tools=(GENERATE, RUN_RESEARCH, EVALUATE),
    model=InOrderModel(),
    temperature=None,
    max_tool_rounds=10_000,
    tool_protocol="xml",
)

GRADER = AgentConfig(
    name="grader",
    description="Judges one block of a document by one thing.",
)

EVALUATOR = AgentConfig(
    name="evaluator",
    description="Has blocks of a document judged by graders; no language model is used for that.",
    model=InOrderModel(),
    temperature=None,
    max_tool_rounds=2,
    tool_protocol="xml",
)

INTENT = "intent"
"""The phase in which what is wanted is found out."""

_LINE_COLUMNS, _LEAST_COLUMNS, _INDEX_COLUMNS = 100, 20, 15_000
"""How much of a block's beginning the index shows: at most, at least, and of all blocks together."""

_LINE_CHARS = 200
"""How much of a first line is read for that; a paragraph is not measured to its end."""

_MOST_NAMES = 5
"""How many of the texts that made a block stale the index names."""

_MOST_REFERENCE_CHARS = 20_000
"""How much is shown of the blocks that are named, all together: what tools say has to fit into the prompt, too."""

_INTENT_GUIDE = """<intent_guide>
The project is in its first phase. Before anything is saved, three things have to be known: what is to be made, for
whom, and what these people shall do or know with it. Ask for what is missing, one question at a time. Save nothing
until all three are answered; then write a summary of the answers as the intent block, and propose to go on.
</intent_guide>"""


class ComposerAgent(BaseAgent):
    """The agent whose prompt holds the project: always as the store has it, with what changes most at the end."""

    def build_current_context(self, context: PromptContext) -> str:
        """The creator, the guide of the first phase, the phase, the index of the blocks, what is named, and the day."""
        project = context.project
        told = [] if project is None else list(_sections(project))
        return "\n\n".join([*told, f"<system_time>{context.now:%Y-%m-%d} (UTC)</system_time>"])


class GeneratorAgent(BaseAgent):
    """The agent whose prompt says what comes next."""

    def build_current_context(self, context: PromptContext) -> str:
        """The calls that are to be made now, or what came of all."""
        if context.due is not None:
            return told_now([(name, dict(params)) for name, params in context.due.calls], context.due.words)
        if context.project is None or context.order is None:
            return ""
        tree, order = context.project.tree, context.order
        phases = context.project.head.research_phases
        calls = [_writing(tree, phases, key, style) for key, style in order.write.items()]
        calls += [(REVIEW, _named(tree, key)) for key in order.review]
        return told_now(calls, order.summary)


def _writing(tree: BlockTree, phases: Collection[str], key: str, style: str) -> tuple[str, dict[str, Any]]:
    """The call that has a block written; one that belongs to research and rests on none is researched."""
    block = tree[key]
    if block.phase not in phases or is_researched(tree, block):
        return GENERATE, _named(tree, key, style_hint=style)
    query = "\n\n".join(filter(None, [block.prompt or block.name, style]))
    return RUN_RESEARCH, {"query": query, **_named(tree, key)}


def _named(tree: BlockTree, block_id: str, **more: str) -> dict[str, str]:
    return {"field_name": tree.path(block_id), **{name: value for name, value in more.items() if value}}


def _sections(project: ProjectContext) -> Iterator[str]:
    head, tree = project.head, project.tree
    yield f"<creator_profile>\n{head.profile or 'Nothing is known of the creator yet.'}\n</creator_profile>"
    if head.phase == INTENT:
        yield _INTENT_GUIDE
    yield f"<phase>\n{phase_told(project)}\n</phase>"
    yield f"<blocks>\n{block_index(tree)}\n</blocks>"
    if project.personas:
        yield f"<personas>\n{personas_told(project.personas)}\n</personas>"
    if project.skills:
        yield f"<skills>\n{_skills(project)}\n</skills>"
    if project.references:
        most = _MOST_REFERENCE_CHARS // len(project.references)
        texts = [(tree.path(one.block_id), _text(tree, one, most)) for one in project.references]
        told = [f'<block name="{path}">\n{text}\n</block>' for path, text in texts]
        yield "<references>\n" + "\n".join(told) + "\n</references>"


def personas_told(personas: Iterable[Persona]) -> str:
    """Those for whom a document is written, one after the other."""
    return "\n\n".join(persona.told for persona in personas)


def _skills(project: ProjectContext) -> str:
    listed = [f"- {skill.name}: {skill.description}" for skill in project.skills]
    return "\n".join([*listed, *(skill.told for skill in project.used)])


def phase_told(project: ProjectContext) -> str:
    """The phase that a project is in, those around it, and how far each is."""
    head, tree = project.head, project.tree
    lines = [f"Project: {head.name}"]
    for phase in head.phases:
        texts = [block for block in tree.of_phase(phase.name) if not block.is_group]
        done = sum(block.status == "completed" for block in texts)
        how = f"{done} of {count(len(texts), 'block')} completed" if texts else "no blocks"
        now = " <- now" if phase.name == head.phase else ""
        of_research = ", research" if phase.research else ""
        lines.append(f"- {phase.name} ({phase.en} / {phase.zh}{of_research}): {how}{now}")
    return "\n".join(lines)


def block_index(tree: BlockTree) -> str:
    """A line for each block: its name, what it is, and how its text begins."""
    depths: dict[str, int] = {}
    lines = []
    columns = min(max(_INDEX_COLUMNS // max(len(tree), 1), _LEAST_COLUMNS), _LINE_COLUMNS)
    for block in tree:
        depth = depths[block.block_id] = depths.get(block.parent, -1) + 1
        lines.append(f"{'  ' * depth}- {block.name} [{_state(tree, block)}]{_beginning(block, columns)}")
    return "\n".join(lines) or "There are no blocks yet."


def _state(tree: BlockTree, block: Block) -> str:
    if block.is_group:
        return f"{block.phase}, group"
    behind = tree.stale.get(block.block_id)
    stale = f", STALE: {_named_first(behind)} changed" if behind else ""
    waits = ", waits for review" if block.need_review and block.status == "draft" else ""
    return f"{block.phase}, {block.status}{stale}{waits}"


def _named_first(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _beginning(block: Block, columns: int) -> str:
    first = block.first_line(_LINE_CHARS) or (f"to say: {block.prompt}" if block.prompt else "")
    return f" {clip(first, columns)}" if first else ""


def _text(tree: BlockTree, block: Block, most: int) -> str:
    texts = [block] if not block.is_group else [one for one in tree.below(block.block_id) if one.sha256]
    said = "\n\n".join(one.content for one in texts) or "It has no text yet."
    if len(said) <= most:
        return said
    return f"{said[:most]}\n[... {len(said) - most} characters more; use read_field]"
