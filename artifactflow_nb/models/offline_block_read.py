"""What the offline model knows of a project: the texts that the compose flow gives to its agents, read back."""

import re
from dataclasses import dataclass
from typing import Self

from artifactflow_nb.blocks import SEPARATOR, Block, BlockTree

_WRITE = re.compile(r'\AWrite the block "(.*)" of the project "(.*)" \(phase: (.*)\)\.$', re.MULTILINE)
_NO_PROMPT = "what its name and its place in the document ask for."
_ENDS = r"(?=\n\n(?:How: |[^\n]+:\n)|\Z)"
_PROMPT = re.compile(rf"^What it shall say: (.*?){_ENDS}", re.MULTILINE | re.DOTALL)
_STYLE = re.compile(r"^How: (.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_RESTS_ON = "\n\nWhat it rests on:\n"
_LAST_TEXT = "\n</block>\n\nThe outline of the document:\n"
_UNTIL_NOW = "\n\nIts text until now, which yours replaces:\n"
_TEXT = re.compile(r'^<block name="([^\n]*)">\n(.*?)\n</block>$', re.MULTILINE | re.DOTALL)
_EDIT = re.compile(r'\AEdit the block "[^\n]*?" as asked: (.*?)(?=\n\n[^\n]+:\n|\Z)', re.DOTALL)
_INDEX = re.compile(r"^<phase>\n(.*?)\n</phase>\n\n<blocks>\n(.*?)\n</blocks>$", re.MULTILINE | re.DOTALL)
_PROJECT = re.compile(r"\AProject: (.*)$", re.MULTILINE)
_PHASE = re.compile(r"^- (\w+) \((.*) / (.*?)(, research)?\): .*?( <- now)?$", re.MULTILINE)
_LINE = re.compile(r"^((?:  )*)- (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BlockText:
    """The text of a block that another rests on; `path` are the names from the top to it."""

    path: str
    content: str

    @property
    def name(self) -> str:
        """Its own name."""
        return self.path.rpartition(SEPARATOR)[2]


@dataclass(frozen=True, slots=True)
class WriteTask:
    """What a writer is asked.

    Attributes:
        name: The block's own name.
        project: The project's name.
        prompt: What it shall say; empty if nobody said so.
        style: How it shall be written; empty if nobody said so.
        texts: What it rests on.
        before: Its text until now; empty if there is none.
    """

    name: str
    project: str
    prompt: str
    style: str
    texts: tuple[BlockText, ...]
    before: str

    @classmethod
    def read(cls, instruction: str) -> Self:
        """The task that an instruction holds."""
        head = _WRITE.match(instruction)
        path, project = (head[1], head[2]) if head else ("", "")
        asked, rests_on, more = instruction.partition(_RESTS_ON)
        texts, _, after = more.partition(_LAST_TEXT) if rests_on else ("", "", instruction)
        prompt, style = _PROMPT.search(asked), _STYLE.search(asked)
        said = prompt[1].strip() if prompt else ""
        return cls(
            path.rpartition(SEPARATOR)[2],
            project,
            "" if said == _NO_PROMPT else said,
            style[1].strip() if style else "",
            tuple(BlockText(name, content) for name, content in _TEXT.findall(f"{texts}\n</block>")),
            after.partition(_UNTIL_NOW)[2],
        )


def is_writing(instruction: str) -> bool:
    """Whether an agent is asked to write a block."""
    return _WRITE.match(instruction) is not None


def wish_in(instruction: str) -> str:
    """What an editor is asked to change."""
    found = _EDIT.match(instruction)
    return (found[1] if found else instruction).strip()


@dataclass(frozen=True, slots=True)
class PhaseLine:
    """A phase as a prompt tells it: its name, what readers call it, if it is of research, and if it is the present."""

    name: str
    en: str
    zh: str
    is_research: bool
    is_now: bool

    def is_called(self, said: str) -> bool:
        """Whether it is meant by what somebody said."""
        return said.casefold() in {self.name.casefold(), self.en.casefold(), self.zh.casefold()}


@dataclass(frozen=True, slots=True)
class Index:
    """The project as the composer's prompt tells it.

    Attributes:
        project: Its name.
        phases: Its phases, in order.
        tree: Its blocks, with names, places and phases; their ids are numbers.
        states: What the prompt says of each block, by id.
    """

    project: str
    phases: tuple[PhaseLine, ...]
    tree: BlockTree
    states: dict[str, str]

    @classmethod
    def read(cls, prompt: str) -> Self:
        """The project that a system prompt holds."""
        found = _INDEX.findall(prompt)
        told, listed = found[-1] if found else ("", "")
        project = _PROJECT.search(told)
        read = _PHASE.findall(told)
        phases = tuple(PhaseLine(name, en, zh, bool(research), bool(now)) for name, en, zh, research, now in read)
        blocks, states = _blocks(listed, [phase.name for phase in phases])
        return cls(project[1] if project else "", phases, BlockTree(blocks, [one.name for one in phases]), states)

    def phase(self, said: str) -> PhaseLine | None:
        """The phase that somebody means; None if there is none."""
        return next((phase for phase in self.phases if phase.is_called(said)), None)

    @property
    def now(self) -> PhaseLine | None:
        """The phase that the project is in."""
        return next((phase for phase in self.phases if phase.is_now), None)

    def is_open(self, block: Block) -> bool:
        """Whether a text is empty or stale."""
        return not block.is_group and (self.is_empty(block) or self.is_stale(block))

    def is_empty(self, block: Block) -> bool:
        """Whether a text is not written yet."""
        return "empty" in self.states[block.block_id].split(", ")[1:2]

    def is_of_research(self, block: Block) -> bool:
        """Whether a block belongs to a phase of research."""
        return any(phase.is_research for phase in self.phases if phase.name == block.phase)

    def is_to_research(self, block: Block) -> bool:
        """Whether a text is to come of research: it belongs there and is not written yet."""
        return not block.is_group and self.is_of_research(block) and self.is_empty(block)

    def is_stale(self, block: Block) -> bool:
        """Whether something that a text rests on was changed."""
        return ", STALE: " in self.states[block.block_id]


def _blocks(listed: str, phases: list[str]) -> tuple[list[Block], dict[str, str]]:
    state = re.compile(rf"^(.*?) \[((?:{'|'.join(phases) or '-'})(?:, .*?)?)\](?: |$)")
    above: list[str] = []
    blocks: list[Block] = []
    states: dict[str, str] = {}
    for indent, line in _LINE.findall(listed):
        if found := state.match(line):
            depth, key = len(indent) // 2, str(len(blocks))
            above = [*above[:depth], key]
            phase, *marks = found[2].split(", ")
            parent = above[depth - 1] if depth else ""
            blocks.append(Block(key, found[1], phase, parent, float(key), is_group=marks == ["group"]))
            states[key] = found[2]
    return blocks, states
