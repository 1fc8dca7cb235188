"""By what the blocks of a document are judged, and what came of it. Values only, but for the reading of YAML files."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import yaml

from artifactflow_nb.belongings import Kind, encodable, one_line, some_text
from artifactflow_nb.errors import UsageError

FILE = "evaluation_dimensions.yaml"
MOST_CHARS = 5_000
NAME_CHARS = 60
DESCRIPTION_CHARS = 300

LOWEST, HIGHEST = 1, 10

GRADE_TYPE = "application/vnd.artifactflow.grade+json"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One of the things by which texts are judged.

    Attributes:
        name: Its name.
        description: What it is about, in a line.
        prompt: What its grader is asked, and what the scores from 1 to 10 mean.

    Errors: `UsageError` for a text that is no text, is empty or is too long.
    """

    name: str
    description: str
    prompt: str

    def __post_init__(self) -> None:
        name = one_line(self.name, "The name of a dimension", NAME_CHARS)
        description = one_line(self.description, f"description of the dimension {name!r}", DESCRIPTION_CHARS)
        prompt = some_text(self.prompt, f"prompt of the dimension {name!r}", MOST_CHARS)
        if not prompt:
            raise UsageError(f"prompt of the dimension {name!r} is empty. Say what its grader shall look at.")
        for field, text in (("name", name), ("description", description), ("prompt", prompt)):
            object.__setattr__(self, field, text)


@dataclass(frozen=True, slots=True)
class Grade:
    """What came of judging a version of a block by a dimension.

    Attributes:
        block_id: The block.
        block_version: The number of the version that was judged.
        dimension: The name of the dimension.
        persona: The name of the persona from whose view it was judged; empty for none.
        score: From 1 to 10.
        evidence: Passages of the text, as they stand there.
        advice: What would make it better.
    """

    block_id: str
    block_version: int
    dimension: str
    persona: str
    score: int
    evidence: tuple[str, ...]
    advice: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", tuple(map(encodable, self.evidence)))
        object.__setattr__(self, "advice", encodable(self.advice))

    @property
    def name(self) -> str:
        """By what the grades of one block, dimension and persona are told from others."""
        return f"{self.block_id}: {self.dimension}" + (f" for {self.persona}" if self.persona else "")


def _read_dimension(text: str) -> Dimension:
    try:
        told: dict[str, Any] = orjson.loads(text)
        return Dimension(**told)
    except (TypeError, ValueError, UsageError) as error:
        raise UsageError(f"It is no dimension ({error}).") from None


def _read_grade(text: str) -> Grade:
    try:
        told: dict[str, Any] = orjson.loads(text)
        return Grade(**{**told, "evidence": tuple(told["evidence"])})
    except (TypeError, KeyError, ValueError) as error:
        raise UsageError(f"It is no grade ({error}).") from None


def _write(value: Dimension | Grade) -> str:
    return orjson.dumps(asdict(value), option=orjson.OPT_INDENT_2).decode()


DIMENSIONS = Kind("dimension", "application/vnd.artifactflow.dimension+json", _read_dimension, _write)
GRADES = Kind("grade", GRADE_TYPE, _read_grade, _write)


@cache
def packaged_dimensions() -> tuple[Dimension, ...]:
    """The dimensions that every project has."""
    return _of_mapping(yaml.safe_load((files(__package__) / FILE).read_text(encoding="utf-8")), FILE)


def load_dimensions(source: str | os.PathLike[str]) -> tuple[Dimension, ...]:
    """The dimensions of a YAML file that has the form of the packaged one.

    Errors: `UsageError` with the path for a file that cannot be read, and with the dimension for one that is none.
    """
    path = Path(source).expanduser()
    try:
        return _of_mapping(yaml.safe_load(path.read_text(encoding="utf-8")), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The dimensions {path} cannot be read: {error}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"The dimensions {path} are no YAML: {str(error)[:200]}") from None


def _of_mapping(told: Any, where: str) -> tuple[Dimension, ...]:
    if not isinstance(told, Mapping) or not told:
        raise UsageError(f"The dimensions {where} are no mapping of names to `description` and `prompt`.")
    found = []
    for name, fields in told.items():
        if not isinstance(fields, Mapping) or set(fields) != {"description", "prompt"}:
            raise UsageError(f"The dimensions {where}: {str(name)!r:.80} must have a `description` and a `prompt`.")
        found.append(Dimension(name, fields["description"], fields["prompt"]))
    return tuple(found)


def known_dimensions(own: Iterable[Dimension]) -> tuple[Dimension, ...]:
    """The packaged dimensions with a project's own in their places, and its further ones behind them."""
    known = {one.name.casefold(): one for one in packaged_dimensions()}
    return tuple({**known, **{one.name.casefold(): one for one in own}}.values())


def checked_quotes(text: str, quotes: Iterable[str]) -> tuple[str, ...]:
    """The quotes of a text; white space counts as one blank. `UsageError` for one that does not stand there."""
    there, kept = " ".join(text.split()), []
    for quote in quotes:
        wanted = " ".join(quote.split())
        if not wanted or wanted not in there:
            raise UsageError(f"{quote!r:.200} does not stand in the text. Quote passages exactly as they stand.")
        kept.append(quote.strip())
    return tuple(kept)
