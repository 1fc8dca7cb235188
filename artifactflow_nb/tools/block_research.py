"""What was researched for a project, as blocks: a report, which rests on the sources that were read for it.

In a phase of research an agent writes only what rests on such sources; a person may write what they like.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from artifactflow_nb.block_edits import BlockEdit, NewBlock, Place, added, written
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import UsageError
from artifactflow_nb.projects import RUN_RESEARCH, ProjectHead
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.text.width import clip_words

RESEARCH = "research"
"""Who wrote the text of a block that came of a research run."""

_NAME_COLUMNS, _NAME_CHARS = 60, 100  # an accent takes no column


def title_of(query: str) -> str:
    """What a block is called that answers a question."""
    named = " ".join(query.replace("/", " ").split()).lstrip("@ ")
    return clip_words(named[:_NAME_CHARS], _NAME_COLUMNS).strip() or RESEARCH


def phase_of(head: ProjectHead) -> str:
    """Where what is researched goes: the present phase if it is of research, or there is no such; else the first."""
    found = head.research_phases
    return head.phase if head.phase in found or not found else found[0]


def researched(tree: BlockTree, block_id: str, new: NewBlock, sources: str) -> tuple[Block, ...]:
    """A report and its sources.

    Args:
        tree: The blocks.
        block_id: The block whose text the report becomes; empty for a new one.
        new: The block if it is a new one, with the report as its text.
        sources: What was read, as Markdown.

    Returns:
        The blocks that change, the report first.

    Errors: `UsageError` if the block is gone.
    """
    made: dict[str, Block] = {}
    if not block_id:
        made |= _by_id(added(tree, NewBlock(_free_name(tree, new.name), new.place, new.settings)))
        block_id = next(iter(made))
    report = made.get(block_id) or tree.get(block_id)
    if report is None:
        raise UsageError(f"The block {tree.name(block_id)!r} was deleted while the research went on.")
    kept = next((key for key in report.depends_on if _is_sources_of(tree, report, key)), "")
    if not kept:
        name = _free_name(tree, f"{report.name}: sources")
        made |= _by_id(added(_with(tree, made), NewBlock(name, Place(report.phase, report.parent), {})))
        kept = next(key for key, block in made.items() if block.name == name)
    made |= _by_id(written(_with(tree, made), kept, sources, RESEARCH, basis={}, is_finished=True))
    made[block_id] = replace(report, depends_on=tuple(dict.fromkeys((*report.depends_on, kept))))
    made |= _by_id(written(_with(tree, made), block_id, new.text, RESEARCH, is_finished=True))
    return (made[block_id], *(block for key, block in made.items() if key != block_id))


def _is_sources_of(tree: BlockTree, report: Block, key: str) -> bool:
    """Whether a block holds what was read for this report, and not another report or what was read for that."""
    found = tree.get(key)
    if found is None or found.writer != RESEARCH:
        return False
    of_research = {block.block_id for block in tree if block.writer == RESEARCH}
    others = (block for block in tree if block.block_id in of_research and block.block_id != report.block_id)
    return of_research.isdisjoint(found.depends_on) and not any(key in other.depends_on for other in others)


def grounded(edit: BlockEdit, phases: Collection[str]) -> BlockEdit:
    """An agent's edit that is refused where it would leave a text in a phase of research that rests on nothing read.

    Args:
        edit: The edit.
        phases: The phases of research.
    """

    def checked(tree: BlockTree) -> Sequence[Block]:
        changed = edit(tree)
        after = _with(tree, _by_id(changed))
        said = (block for block in changed if block.phase in phases and _says_other(tree.get(block.block_id), block))
        for block in said:
            if not is_researched(after, block):
                raise UsageError(
                    f"{block.name!r} belongs to the phase of research {block.phase!r}, and nothing was researched for "
                    f'it. Call {RUN_RESEARCH} with field_name="{after.path(block.block_id)}", or let it depend on '
                    "a block that came of it."
                )
        return changed

    return checked


def _says_other(before: Block | None, block: Block) -> bool:
    """Whether a text is new in its phase."""
    is_text = bool(block.sha256) and not block.is_deleted and block.writer != USER
    return is_text and (before is None or (before.sha256, before.phase) != (block.sha256, block.phase))


def is_researched(tree: BlockTree, block: Block) -> bool:
    """Whether a block came of a research run, or rests on what did, at first or at second hand."""
    left, seen = [block.block_id], set[str]()
    while left:
        key = left.pop()
        seen.add(key)
        found = tree.get(key)
        if found is not None and found.writer == RESEARCH:
            return True
        left += [need for need in tree.rests_on(key) if need not in seen]
    return False


def _free_name(tree: BlockTree, name: str) -> str:
    used, found, n = {block.name.casefold() for block in tree}, name, 2
    while found.casefold() in used:
        found, n = f"{name} {n}", n + 1
    return found


def _by_id(blocks: Sequence[Block]) -> dict[str, Block]:
    return {block.block_id: block for block in blocks}


def _with(tree: BlockTree, changed: dict[str, Block]) -> BlockTree:
    return BlockTree((*tree, *tree.deleted.values(), *changed.values()), tree.phases)
