"""What is told to the agents of the compose flow: the project as it stands, and the task of a job with a block."""

import re
from collections.abc import Sequence

from artifactflow_nb.agents.base import ProjectContext
from artifactflow_nb.agents.composing import block_index, personas_told
from artifactflow_nb.block_names import folded
from artifactflow_nb.block_order import Done, Order, order_of
from artifactflow_nb.blocks import SEPARATOR, Block, BlockTree, with_even_slashes
from artifactflow_nb.errors import UsageError
from artifactflow_nb.evaluations import Dimension
from artifactflow_nb.events import MAIN_JOB
from artifactflow_nb.flows.block_work import personas_of, project_of, skills_of
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.personas import Persona
from artifactflow_nb.projects import REVIEW, WORK, ProjectHead
from artifactflow_nb.skills import Skill, named_skills
from artifactflow_nb.store.calls import StoredCall
from artifactflow_nb.text.chinese import CJK
from artifactflow_nb.text.framing import with_context

_UNSPACED = rf"[{CJK}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"  # in scripts without spaces a name touches words
_AT = re.compile(rf"(?:(?<![\w@.])|(?<={_UNSPACED}))@(?!skill:)(?=[^\s@])")
_WORD = re.compile(r"[\w-]+")
_BELOW = re.compile(r"\s/\s[\w-]+")
_CODE = re.compile(r"```.*?(?:```|$)|`[^`\n]*`", re.DOTALL)


async def project_context(ctx: RunContext) -> ProjectContext:
    """The project of a run as its branch has it now, with the blocks that its question names."""
    head, tree = await project_of(ctx)
    named, skills = references(tree, ctx.run.question, strictly=False), await skills_of(ctx)
    used = named_skills(ctx.run.question, skills, strictly=False)
    return ProjectContext(head, tree, named, await personas_of(ctx), skills, used)


async def next_in_order(ctx: RunContext, tree: BlockTree) -> Order:
    """What comes next in a run that writes blocks in their order, by what it has done so far."""
    turns = await ctx.services.calls.transcript(ctx.run.run_id, MAIN_JOB)
    calls = [call for turn in turns for call in turn.calls if call.result is not None]
    asked = await ctx.services.requests.decisions([call.tool_call_id for call in calls])
    known = await ctx.services.block_jobs.of_run(ctx.run.run_id)
    done = []
    for call in calls:
        block_id, answer = known.get(call.tool_call_id) or _named_in(tree, call), asked.get(call.tool_call_id)
        if block_id is None or call.result is None:
            continue
        if call.call.name == REVIEW:
            words = answer.decision.instruction if answer is not None and answer.decision is not None else ""
            done.append(Done(block_id, "review", call.result.success, words))
        else:
            done.append(Done(block_id, "write", call.result.success, call.result.error or ""))
    return order_of(tree, ctx.run.settings[WORK]["write"], done)


def _named_in(tree: BlockTree, call: StoredCall) -> str | None:
    try:
        return tree.find(str(call.call.params.get("field_name", ""))).block_id
    except UsageError:
        return None


def references(tree: BlockTree, text: str, *, strictly: bool = True) -> tuple[Block, ...]:
    """The blocks that a text names as `@name` or `@Report / Method`, each once, in the order of the text.

    The longest name that fits is meant; what stands in code names nothing. Errors: `UsageError` for a name that no
    block has, or more than one; unless that is passed over, because the blocks may have changed since the text was
    written.
    """
    names = {tree.path(block.block_id): block for block in tree} | {block.name: block for block in tree}
    by_length = sorted(names, key=len, reverse=True)
    found: dict[str, Block] = {}
    text = with_even_slashes(_CODE.sub(" ", text))
    for at in _AT.finditer(text):
        rest = text[at.end() :]
        name = next((name for name in by_length if _begins_with(rest, name)), None)
        try:
            if name is None:
                word = _WORD.match(rest)
                raise _unknown(tree, word[0] if word else rest[:40])
            block = tree.find(name)
            if block.is_group and (below := _BELOW.match(rest, len(name))):
                raise _unknown(tree, name + below[0])
        except UsageError:
            if strictly:
                raise
            continue
        found[block.block_id] = block
    return tuple(found.values())


def _begins_with(text: str, name: str) -> bool:
    """Whether a text begins with a name that ends there; in scripts without spaces the text may go on."""
    if folded(text[: len(name)]) != folded(name):
        return False
    after = text[len(name) : len(name) + 1]
    return not (after.isalnum() or after == "_") or re.match(_UNSPACED, after) is not None


def _unknown(tree: BlockTree, name: str) -> UsageError:
    try:
        tree.find(name)
    except UsageError as error:
        return UsageError(f"@{name} names no block: {error} Write an address or a handle without @, or in `code`.")
    return UsageError(f"@{name} names no block.")


def task_of_writer(
    head: ProjectHead, tree: BlockTree, block: Block, style: str, people: Sequence[Persona], skills: Sequence[Skill]
) -> str:
    """What a writer is asked: the block, its prompt, what it rests on, and where it stands."""
    parts = [
        f'Write the block "{tree.path(block.block_id)}" of the project "{head.name}" (phase: {block.phase}).',
        f"What it shall say: {block.prompt or 'what its name and its place in the document ask for.'}",
        *([f"How: {style}"] if style else []),
        *_people(head, people),
        *_followed(skills),
        *(_texts("What it rests on", tree, [tree[key] for key in tree.rests_on(block.block_id) if key in tree])),
        f"The outline of the document:\n{_outline(tree)}",
        *([f"Its text until now, which yours replaces:\n{block.content}"] if block.sha256 else []),
    ]
    return "\n\n".join(parts)


def task_of_editor(tree: BlockTree, block: Block, wish: str, others: Sequence[Block], skills: Sequence[Skill]) -> str:
    """What an editor is asked: the wish, the text, and what they have to see besides."""
    parts = [
        f'Edit the block "{tree.path(block.block_id)}" as asked: {wish}',
        *_followed(skills),
        *(_texts("To be seen besides", tree, others)),
        f"Its text, between the marks:\n<text>\n{block.content}\n</text>",
    ]
    return "\n\n".join(parts)


def task_of_outliner(
    head: ProjectHead, tree: BlockTree, style: str, more: str, people: Sequence[Persona], skills: Sequence[Skill]
) -> str:
    """What an outliner is asked: the project, its phases, the blocks that there are, and what is wished."""
    phases = "\n".join(f"- {phase.name} ({phase.en} / {phase.zh})" for phase in head.phases)
    parts = [
        f'Propose the structure of the project "{head.name}", which is in the phase {head.phase}.',
        *([f"What kind of structure: {style}"] if style else []),
        *([f"What the person says: {more}"] if more else []),
        *_people(head, people),
        *_followed(skills),
        f"Its phases, in order:\n{phases}",
        f"The blocks that there are:\n{block_index(tree)}",
        *_texts("What is known", tree, [block for block in tree if block.phase == head.phase_names[0]]),
    ]
    return "\n\n".join(parts)


_WHAT_IS_RESEARCHED = {
    "consumer": "Find out about the people for whom it is made: who they are, what they need, know, say and doubt.",
    "general": "Find out the facts that it needs, with their sources.",
}


def question_of_research(
    head: ProjectHead, tree: BlockTree, query: str, kind: str, people: Sequence[Persona], rests_on: Sequence[Block]
) -> str:
    """What a research run is asked: the question, and what document it is for."""
    first = [block for block in tree.of_phase(head.phase_names[0]) if block not in rests_on]
    parts = [
        f'This is asked for the project "{head.name}". {_WHAT_IS_RESEARCHED[kind]}',
        *_people(head, people),
        *_texts("What the document is for", tree, first),
        *_texts("What the answer rests on", tree, rests_on),
    ]
    return with_context(query, parts)


def task_of_grader(
    head: ProjectHead, tree: BlockTree, block: Block, dimension: Dimension, people: Sequence[Persona], *, is_view: bool
) -> str:
    """What a grader is asked: by what, what the block shall say, for whom, what it rests on, and its text.

    With `is_view`, the judgement is that of the one persona.
    """
    first = [one for one in tree.of_phase(head.phase_names[0]) if one.block_id != block.block_id]
    view = [f"Judge as this reader would:\n{personas_told(people)}"] if is_view else _people(head, people)
    parts = [
        f'Judge the block "{tree.path(block.block_id)}" of the project "{head.name}" by: {dimension.name}.',
        dimension.prompt,
        f"What it shall say: {block.prompt or 'what its name and its place in the document ask for.'}",
        *view,
        *_texts("What the document is for", tree, first),
        *_texts("What it rests on", tree, [tree[key] for key in tree.rests_on(block.block_id) if key in tree]),
        f"The outline of the document:\n{_outline(tree)}",
        f"Its text, between the marks:\n<text>\n{block.content}\n</text>",
    ]
    return "\n\n".join(parts)


def _people(head: ProjectHead, personas: Sequence[Persona]) -> list[str]:
    """Whose document it is, and for whom."""
    creator = [f"Whose document it is:\n{head.profile}"] if head.profile else []
    return [*creator, *([f"For whom it is written:\n{personas_told(personas)}"] if personas else [])]


def _followed(skills: Sequence[Skill]) -> list[str]:
    """What is to be followed, if anything is."""
    return ["Follow these instructions:\n" + "\n".join(skill.told for skill in skills)] if skills else []


def _texts(title: str, tree: BlockTree, blocks: Sequence[Block]) -> list[str]:
    told = [f'<block name="{tree.path(one.block_id)}">\n{one.content}\n</block>' for one in blocks if one.sha256]
    return [f"{title}:\n" + "\n".join(told)] if told else []


def _outline(tree: BlockTree) -> str:
    return "\n".join(f"{'  ' * tree.path(block.block_id).count(SEPARATOR)}- {block.name}" for block in tree)
