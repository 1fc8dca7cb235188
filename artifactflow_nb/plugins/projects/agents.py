"""The agents of the compose flow: their configuration, and the texts of their prompts and tasks."""

import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from artifactflow_nb.agents.base import AgentConfig, BaseAgent, PromptContext
from artifactflow_nb.core.messages import COMPUTED_PROVIDER, ToolProtocol, Usage
from artifactflow_nb.core.text.chinese import UNSPACED
from artifactflow_nb.core.text.format import clip, count, with_context
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import LocalModel, ModelContext, ModelDelta, ModelEvent, ModelReply, ModelRequest
from artifactflow_nb.plugins.projects.named_texts import Dimension, Persona, Skill
from artifactflow_nb.plugins.projects.project import EVALUATE_TOOL, GENERATE_TOOL, RESEARCH_TOOL, ProjectInfo
from artifactflow_nb.plugins.projects.tree import PATH_SEPARATOR, Block, BlockTree, fold_name, normalize_path

INTENT = "intent"
"""Name of the phase that clarifies the person's intent."""

_LINE_COLUMNS, _MIN_COLUMNS, _INDEX_COLUMNS = 100, 20, 15_000
"""Length of a block's first line in the index: at most, at least, and of all blocks together."""

_LINE_CHARS = 200
"""Number of characters from which that line is cut, so that a long paragraph is not measured to its end."""

_MAX_NAMES = 5
"""Number of changed dependencies that the index names for a stale block."""

_MAX_REFERENCE_CHARS = 20_000
"""Length of all referenced blocks together, since tool results must fit into the prompt too."""

_INTENT_GUIDE = """<intent_guide>
The project is in its first phase. Before you save anything, find out three things: what is to be made, for whom, and
what these people should do or know after reading it. Ask for what is missing, one question at a time. Save nothing
until all three are answered; then write a summary of the answers as the intent block, and propose to go on.
</intent_guide>"""


def project_sections(
    info: ProjectInfo,
    tree: BlockTree,
    references: Sequence[Block],
    personas: Sequence[Persona],
    skills: Sequence[Skill],
    active_skills: Sequence[Skill],
) -> Iterator[str]:
    """Yield the sections of the composer's prompt.

    `references` are the blocks, and `active_skills` the skills, that the person's message names with `@`.
    """
    yield f"<creator_profile>\n{info.profile or 'Nothing is known about the creator yet.'}\n</creator_profile>"
    if info.phase == INTENT:
        yield _INTENT_GUIDE
    phases = [f"Project: {info.name}"]
    for phase in info.phases:
        leaves = [block for block in tree.blocks_in_phase(phase.name) if not block.is_group]
        done = sum(block.status == "completed" for block in leaves)
        progress = f"{done} of {count(len(leaves), 'block')} completed" if leaves else "no blocks"
        marker = " <- now" if phase.name == info.phase else ""
        research = ", research" if phase.research else ""
        phases.append(f"- {phase.name} ({phase.en} / {phase.zh}{research}): {progress}{marker}")
    yield "<phase>\n" + "\n".join(phases) + "\n</phase>"
    yield f"<blocks>\n{format_block_index(tree)}\n</blocks>"
    if personas:
        yield f"<personas>\n{_format_personas(personas)}\n</personas>"
    if skills:
        lines = [f"- {skill.name}: {skill.description}" for skill in skills]
        lines += [skill.prompt_text for skill in active_skills]
        yield "<skills>\n" + "\n".join(lines) + "\n</skills>"
    if references:
        max_chars = _MAX_REFERENCE_CHARS // len(references)
        texts = []
        for block in references:
            members = [block] if not block.is_group else [b for b in tree.descendants(block.block_id) if b.sha256]
            text = "\n\n".join(member.content for member in members) or "It has no text yet."
            if len(text) > max_chars:
                text = f"{text[:max_chars]}\n[... {len(text) - max_chars} characters more; use read_field]"
            texts.append(f'<block name="{tree.path(block.block_id)}">\n{text}\n</block>')
        yield "<references>\n" + "\n".join(texts) + "\n</references>"


def _format_personas(personas: Iterable[Persona]) -> str:
    return "\n\n".join(persona.prompt_text for persona in personas)


def format_block_index(tree: BlockTree) -> str:
    """List the blocks, one per line: name, phase, status and the first line of the text."""
    depths: dict[str, int] = {}
    lines = []
    columns = min(max(_INDEX_COLUMNS // max(len(tree), 1), _MIN_COLUMNS), _LINE_COLUMNS)
    for block in tree:
        depth = depths[block.block_id] = depths.get(block.parent, -1) + 1
        if block.is_group:
            notes = [block.phase, "group"]
        else:
            notes = [block.phase, block.status]
            if changed := tree.stale.get(block.block_id):
                more = f" and {len(changed) - _MAX_NAMES} more" if len(changed) > _MAX_NAMES else ""
                notes.append(f"STALE: {', '.join(changed[:_MAX_NAMES])}{more} changed")
            if block.need_review and block.status == "draft":
                notes.append("waits for review")
        first = block.first_line(_LINE_CHARS) or (f"to say: {block.prompt}" if block.prompt else "")
        start = f" {clip(first, columns)}" if first else ""
        lines.append(f"{'  ' * depth}- {block.name} [{', '.join(notes)}]{start}")
    return "\n".join(lines) or "There are no blocks yet."


# --- references ------------------------------------------------------------------------------------------------------

_AT = re.compile(rf"(?:(?<![\w@.])|(?<=[{UNSPACED}]))@(?!skill:)(?=[^\s@])")
_WORD = re.compile(r"[\w-]+")
_BELOW = re.compile(r"\s/\s[\w-]+")
_CODE = re.compile(r"```.*?(?:```|$)|`[^`\n]*`", re.DOTALL)


def referenced_blocks(tree: BlockTree, text: str, *, strict: bool = True) -> tuple[Block, ...]:
    """Return the blocks that a text refers to as `@name` or `@Report / Method`, in order, without repetition.

    The longest matching name wins. Code in the text contains no references.

    Errors: `UsageError` for an unknown or ambiguous name if `strict`; a stored text may name blocks that have changed.
    """
    names = {tree.path(block.block_id): block for block in tree} | {block.name: block for block in tree}
    by_length = sorted(names, key=len, reverse=True)
    blocks: dict[str, Block] = {}
    text = normalize_path(_CODE.sub(" ", text))
    for at in _AT.finditer(text):
        rest = text[at.end() :]
        name = None
        for candidate in by_length:
            after = rest[len(candidate) : len(candidate) + 1]
            # No letter may follow the name directly, except in scripts without spaces.
            is_complete = not (after.isalnum() or after == "_") or re.match(f"[{UNSPACED}]", after) is not None
            if is_complete and fold_name(rest[: len(candidate)]) == fold_name(candidate):
                name = candidate
                break
        if name is None:
            word = _WORD.match(rest)
            label = word[0] if word else rest[:40]
        else:
            below = _BELOW.match(rest, len(name))
            label = name + below[0] if below and names[name].is_group else name
        try:
            block = tree.find(label)
        except UsageError as error:
            if strict:
                advice = "Write an address or a handle without @, or in `code`."
                raise UsageError(f"@{label} names no block: {error} {advice}") from None
            continue
        blocks[block.block_id] = block
    return tuple(blocks.values())


# --- tasks -----------------------------------------------------------------------------------------------------------


def writer_task(
    info: ProjectInfo, tree: BlockTree, block: Block, style: str, personas: Sequence[Persona], skills: Sequence[Skill]
) -> str:
    """Write a writer's task: the block, and its prompt, dependencies and position in the document."""
    sections = [
        f'Write the block "{tree.path(block.block_id)}" of the project "{info.name}" (phase: {block.phase}).',
        _purpose(block),
        *([f"Style: {style}"] if style else []),
        *_audience(info, personas),
        *_instructions(skills),
        *_texts("It is based on", tree, dependencies_of(tree, block)),
        f"The outline of the document:\n{_outline(tree)}",
        *([f"The current text, which yours replaces:\n{block.content}"] if block.sha256 else []),
    ]
    return "\n\n".join(sections)


def editor_task(tree: BlockTree, block: Block, wish: str, references: Sequence[Block], skills: Sequence[Skill]) -> str:
    """Write an editor's task: the wish, the text and the referenced blocks."""
    sections = [
        f'Edit the block "{tree.path(block.block_id)}" as requested: {wish}',
        *_instructions(skills),
        *_texts("For reference", tree, references),
        f"The text, between the tags:\n<text>\n{block.content}\n</text>",
    ]
    return "\n\n".join(sections)


def outliner_task(
    info: ProjectInfo, tree: BlockTree, style: str, wish: str, personas: Sequence[Persona], skills: Sequence[Skill]
) -> str:
    """Write an outliner's task: the project, its phases, the existing blocks and the wishes."""
    phases = "\n".join(f"- {phase.name} ({phase.en} / {phase.zh})" for phase in info.phases)
    sections = [
        f'Propose the structure of the project "{info.name}", which is in the phase {info.phase}.',
        *([f"Kind of structure: {style}"] if style else []),
        *([f"Wishes of the person: {wish}"] if wish else []),
        *_audience(info, personas),
        *_instructions(skills),
        f"The phases, in order:\n{phases}",
        f"The existing blocks:\n{format_block_index(tree)}",
        *_texts("What is known", tree, tree.blocks_in_phase(info.phase_names[0])),
    ]
    return "\n\n".join(sections)


_RESEARCH_AIMS = {
    "consumer": "Find out about the intended readers: who they are, what they need, know, say and doubt.",
    "general": "Find out the facts that it needs, with their sources.",
}


def research_question(
    info: ProjectInfo, tree: BlockTree, query: str, kind: str, personas: Sequence[Persona], needs: Sequence[Block]
) -> str:
    """Write the question of a research run: the query, and the document that needs the answer."""
    sections = [
        f'The question is for the project "{info.name}". {_RESEARCH_AIMS[kind]}',
        *_audience(info, personas),
        *_texts("The purpose of the document", tree, _first_phase(info, tree, needs)),
        *_texts("The answer is based on", tree, needs),
    ]
    return with_context(query, sections)


def grader_task(
    info: ProjectInfo,
    tree: BlockTree,
    block: Block,
    dimension: Dimension,
    personas: Sequence[Persona],
    *,
    is_view: bool,
) -> str:
    """Write a grader's task: the dimension, the block's prompt, its readers, its dependencies and its text.

    With `is_view`, the grader takes the view of the only persona.
    """
    view = [f"Judge as this reader would:\n{_format_personas(personas)}"] if is_view else _audience(info, personas)
    sections = [
        f'Judge the block "{tree.path(block.block_id)}" of the project "{info.name}" by: {dimension.name}.',
        dimension.prompt,
        _purpose(block),
        *view,
        *_texts("The purpose of the document", tree, _first_phase(info, tree, [block])),
        *_texts("It is based on", tree, dependencies_of(tree, block)),
        f"The outline of the document:\n{_outline(tree)}",
        f"The text, between the tags:\n<text>\n{block.content}\n</text>",
    ]
    return "\n\n".join(sections)


def _purpose(block: Block) -> str:
    return f"It should say: {block.prompt or 'what its name and its place in the document call for.'}"


def _audience(info: ProjectInfo, personas: Sequence[Persona]) -> list[str]:
    creator = [f"The creator of the document:\n{info.profile}"] if info.profile else []
    return [*creator, *([f"The intended readers:\n{_format_personas(personas)}"] if personas else [])]


def _instructions(skills: Sequence[Skill]) -> list[str]:
    return ["Follow these instructions:\n" + "\n".join(skill.prompt_text for skill in skills)] if skills else []


def dependencies_of(tree: BlockTree, block: Block) -> list[Block]:
    """Return the dependencies of a block, in order."""
    return [tree[key] for key in tree.dependencies(block.block_id) if key in tree]


def _first_phase(info: ProjectInfo, tree: BlockTree, without: Sequence[Block]) -> list[Block]:
    """Return the blocks of the first phase, which describe the purpose of the document."""
    ids = {block.block_id for block in without}
    return [block for block in tree.blocks_in_phase(info.phase_names[0]) if block.block_id not in ids]


def _texts(title: str, tree: BlockTree, blocks: Sequence[Block]) -> list[str]:
    texts = [f'<block name="{tree.path(b.block_id)}">\n{b.content}\n</block>' for b in blocks if b.sha256]
    return [f"{title}:\n" + "\n".join(texts)] if texts else []


def _outline(tree: BlockTree) -> str:
    return "\n".join(f"{'  ' * tree.path(block.block_id).count(PATH_SEPARATOR)}- {block.name}" for block in tree)


class OrderedWriterModel(LocalModel):
    """A model that replies with the next calls, or the message, of the request's context."""

    provider = COMPUTED_PROVIDER
    tool_protocols: tuple[ToolProtocol, ...] = ("native",)
    default_model = "in-order"

    def __repr__(self) -> str:
        return "OrderedWriterModel()"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next calls (none in a concluding turn) and the message."""
        context = request.context or ModelContext("", "", next_message="There is nothing to do.")
        calls = context.next_calls if request.tool_choice == "auto" else ()
        if context.next_message:
            yield ModelDelta(context.next_message)
        for call in calls:
            yield ModelDelta(json.dumps(dict(call.params), ensure_ascii=False), "call", call.name)
        reason = "tool_calls" if calls else "stop"
        yield ModelReply(context.next_message, Usage(0, 0), reason, self.default_model, calls)


COMPOSER = AgentConfig(
    name="composer",
    description="Discusses the document with the person, and has its blocks arranged, written and changed.",
    required_tools=(
        *("query_field", "read_field", "update_field", "manage_architecture", "advance_to_phase"),
        *("generate_field_content", "modify_field", "generate_outline", "run_research", "manage_persona"),
        *("manage_skill", "run_evaluation"),
    ),
    temperature=0.7,
    temperature_is_optional=True,
    max_tool_rounds=12,
)

WRITER = AgentConfig(
    name="writer",
    description="Writes one block of a document.",
    required_tools=("query_field", "read_field", "web_search", "web_fetch"),
    temperature=0.7,
    temperature_is_optional=True,
    max_tool_rounds=5,
)

EDITOR = AgentConfig(
    name="editor",
    description="Proposes edits of one block of a document.",
    required_tools=("query_field", "read_field"),
    temperature=0.3,
    temperature_is_optional=True,
    max_tool_rounds=4,
)

OUTLINER = AgentConfig(
    name="outliner",
    description="Proposes the structure of a document.",
    required_tools=("query_field", "read_field"),
    temperature=0.5,
    temperature_is_optional=True,
    max_tool_rounds=4,
)

GENERATOR = AgentConfig(
    name="generator",
    description="Has the blocks of a document written in dependency order; it uses no language model.",
    required_tools=(GENERATE_TOOL, RESEARCH_TOOL, EVALUATE_TOOL),
    model=OrderedWriterModel(),
    temperature=None,
    max_tool_rounds=10_000,
)

GRADER = AgentConfig(
    name="grader",
    description="Grades one block of a document by one dimension.",
    required_tools=("query_field", "read_field"),
    temperature=0.0,
    temperature_is_optional=True,
    max_tool_rounds=3,
)

EVALUATOR = AgentConfig(
    name="evaluator",
    description="Has blocks of a document graded; it uses no language model.",
    model=OrderedWriterModel(),
    temperature=None,
    max_tool_rounds=2,
)


class ComposerAgent(BaseAgent):
    """The agent whose prompt contains the current project; the sections that change most often are at the end."""

    def build_current_context(self, context: PromptContext) -> str:
        """Build the sections of the project, then the date."""
        return "\n\n".join([*context.sections, f"<system_time>{context.now:%Y-%m-%d} (UTC)</system_time>"])


class GeneratorAgent(BaseAgent):
    """An agent without a language model: the prompt contains the next calls."""

    def build_current_context(self, context: PromptContext) -> str:
        """Describe the next calls, or the final result, for a reader of the prompt; the model gets the values."""
        if context.next_calls is None:
            return ""
        values = {"calls": context.next_calls.calls, "words": context.next_calls.message}
        return f"<now>\n{json.dumps(values, ensure_ascii=False)}\n</now>"
