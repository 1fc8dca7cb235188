"""Evaluation dimensions for the blocks of a document, and grades."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from artifactflow_nb.core.local_files import absolute_path, read_text
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.core.text.yaml_text import load_yaml
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.projects.resources import json_resource, replace_texts, validate_line, validate_text

DIMENSIONS_FILE = "evaluation_dimensions.yaml"
MAX_CHARS = 5_000
NAME_CHARS = 60
DESCRIPTION_CHARS = 300

MIN_SCORE, MAX_SCORE = 1, 10

GRADE_MEDIA_TYPE = "application/vnd.artifactflow.grade+json"


@dataclass(frozen=True, slots=True)
class Dimension:
    """An evaluation dimension.

    Attributes:
        name: Name.
        description: Subject in one line.
        prompt: Instructions for the grader, including the meaning of the scores from 1 to 10.

    Errors: `UsageError` for a value that is not text, is empty or is too long.
    """

    name: str
    description: str
    prompt: str

    def __post_init__(self) -> None:
        name = validate_line(self.name, "The name of a dimension", NAME_CHARS)
        description = validate_line(self.description, f"description of the dimension {name!r}", DESCRIPTION_CHARS)
        prompt = validate_text(self.prompt, f"prompt of the dimension {name!r}", MAX_CHARS)
        if not prompt:
            raise UsageError(f"prompt of the dimension {brief(name)} is empty. Write what its grader should look at.")
        replace_texts(self, name=name, description=description, prompt=prompt)


@dataclass(frozen=True, slots=True)
class Grade:
    """Grade of a block's version in one dimension.

    Attributes:
        block_id: The block.
        block_version: Number of the graded version.
        dimension: Name of the dimension.
        persona: Name of the persona whose view was taken; may be empty.
        score: Score from 1 to 10.
        evidence: Verbatim passages of the text.
        advice: Suggestions for improvement.
    """

    block_id: str
    block_version: int
    dimension: str
    persona: str
    score: int
    evidence: tuple[str, ...]
    advice: str

    def __post_init__(self) -> None:
        evidence = tuple(map(storable_text, self.evidence))
        replace_texts(self, evidence=evidence, advice=storable_text(self.advice))

    @property
    def name(self) -> str:
        """Unique name of the grade, from block, dimension and persona."""
        return f"{self.block_id}: {self.dimension}" + (f" for {self.persona}" if self.persona else "")


DIMENSION_RESOURCE = json_resource("dimension", "application/vnd.artifactflow.dimension+json", Dimension)
GRADE_RESOURCE = json_resource("grade", GRADE_MEDIA_TYPE, Grade)


@cache
def packaged_dimensions() -> tuple[Dimension, ...]:
    """Load the packaged dimensions, which every project has."""
    return load_dimensions(str(files(__package__) / DIMENSIONS_FILE))


def load_dimensions(source: str | os.PathLike[str]) -> tuple[Dimension, ...]:
    """Load dimensions from a YAML file in the form of the packaged one.

    Errors: `UsageError` with the path if the file cannot be read, and with the name of an invalid dimension.
    """
    path = absolute_path(source)
    label = f"The dimensions {path}"
    by_name = load_yaml(read_text(path, "The dimensions"), label)
    if not isinstance(by_name, Mapping) or not by_name:
        raise UsageError(f"{label} must map names to a `description` and a `prompt`; it is {brief(by_name)}.")
    for name, fields in by_name.items():
        if not isinstance(fields, Mapping) or set(fields) != {"description", "prompt"}:
            raise UsageError(f"{label}: {brief(str(name))} must have a `description` and a `prompt`.")
    return tuple(Dimension(name, fields["description"], fields["prompt"]) for name, fields in by_name.items())


def merge_dimensions(own: Iterable[Dimension]) -> tuple[Dimension, ...]:
    """Return the packaged dimensions, replaced by the project's own of the same name, and the project's others."""
    dimensions = (*packaged_dimensions(), *own)
    return tuple({dimension.name.casefold(): dimension for dimension in dimensions}.values())


def validate_quotes(text: str, quotes: Iterable[str]) -> tuple[str, ...]:
    """Raise `UsageError` for a quote that the text does not contain; white space is ignored."""
    normalised, valid = " ".join(text.split()), []
    for quote in quotes:
        wanted = " ".join(quote.split())
        if not wanted or wanted not in normalised:
            raise UsageError(f"{brief(quote)} is not in the text. Quote passages verbatim.")
        valid.append(quote.strip())
    return tuple(valid)
