"""Grades of the blocks of a document, and the task of an evaluation."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import orjson

from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.projects.named_texts import Dimension, Persona, find_named
from artifactflow_nb.plugins.projects.tree import Block, BlockTree

MIN_SCORE, MAX_SCORE = 1, 10


@dataclass(frozen=True, slots=True)
class Grade:
    """Grade of a block's version in one dimension; the artifact of the grade has the fields as JSON.

    Attributes:
        block_id: The block.
        block_version: Number of the graded version.
        dimension: Name of the dimension.
        persona: Name of the persona whose view was taken; may be empty.
        score: Score from 1 to 10.
        evidence: Verbatim passages of the text.
        advice: Suggestions for improvement.
    """

    noun: ClassVar[str] = "grade"
    media_type: ClassVar[str] = "application/vnd.artifactflow.grade+json"

    block_id: str
    block_version: int
    dimension: str
    persona: str
    score: int
    evidence: tuple[str, ...]
    advice: str

    @property
    def name(self) -> str:
        """Unique name of the grade, from block, dimension and persona."""
        return f"{self.block_id}: {self.dimension}" + (f" for {self.persona}" if self.persona else "")

    def format(self) -> str:
        """Return the grade as JSON."""
        texts = {"evidence": list(map(storable_text, self.evidence)), "advice": storable_text(self.advice)}
        return orjson.dumps(asdict(self) | texts, option=orjson.OPT_INDENT_2).decode()


def validate_quotes(text: str, quotes: Iterable[str]) -> tuple[str, ...]:
    """Raise `UsageError` for a quote that the text does not contain; white space is ignored."""
    normalised, valid = " ".join(text.split()), []
    for quote in quotes:
        words = " ".join(quote.split())
        if not words or words not in normalised:
            raise UsageError(f"{brief(quote)} is not in the text. Quote passages verbatim.")
        valid.append(quote.strip())
    return tuple(valid)


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """The blocks, dimensions and persona of an evaluation."""

    tree: BlockTree
    blocks: tuple[Block, ...]
    dimensions: tuple[Dimension, ...]
    persona: Persona | None

    @classmethod
    def resolve(
        cls,
        tree: BlockTree,
        blocks: Iterable[str],
        dimensions: Sequence[str],
        persona: str,
        criteria: tuple[tuple[Dimension, ...], tuple[Persona, ...]],
    ) -> "EvaluationTask":
        """Find the blocks, dimensions and persona with these names.

        A group stands for all texts in the group; empty `dimensions` stand for all dimensions. `criteria` has the
        dimensions and the personas of the project.

        Errors: `UsageError` for an unknown name, for a block without a text, and if no block is named.
        """
        keys = dict.fromkeys(key for name in blocks for key in tree.text_ids(tree.find(name).block_id))
        texts = tuple(tree[key] for key in keys)
        if empty := [block.name for block in texts if not block.sha256]:
            raise UsageError(f"These blocks have no text to evaluate yet: {', '.join(empty)}. Write them first.")
        if not texts:
            raise UsageError("No block is named. Name at least one block that has a text.")
        named = dict.fromkeys(find_named(criteria[0], name, Dimension.noun) for name in dimensions)
        reader = find_named(criteria[1], persona, Persona.noun) if persona else None
        return cls(tree, texts, tuple(named) or criteria[0], reader)
