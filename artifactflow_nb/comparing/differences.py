"""What differs between two artifacts and two steps, as values that show themselves in a cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from artifactflow_nb.comparing.pairs import Outcome, StepPair, parts_of
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.text.cards import Card, Code, Fold, Rows, Shown
from artifactflow_nb.text.text_diff import ShownAsDiff, TextDiff

State = Literal["same", "changed", "only a", "only b"]


@dataclass(frozen=True, slots=True, repr=False)
class ArtifactChange(ShownAsDiff):
    """An artifact as two runs have it.

    Attributes:
        a: Its version in the one run; None if it is not there.
        b: Its version in the other.
    """

    a: Artifact | None
    b: Artifact | None

    @property
    def newest(self) -> Artifact:
        """The version of the second run, if it has one."""
        newest = self.b or self.a
        if newest is None:
            raise ValueError("An artifact that neither run has.")
        return newest

    @property
    def state(self) -> State:
        """`same`, `changed`, `only a` or `only b`: by its text and its title."""
        if self.a is None or self.b is None:
            return "only a" if self.b is None else "only b"
        is_same = (self.a.content, self.a.title) == (self.b.content, self.b.title)
        return "same" if is_same else "changed"

    @property
    def diff(self) -> TextDiff:
        """What differs in its text; one that is not there counts as empty."""
        names = _version("a", self.a), _version("b", self.b)
        return TextDiff(_content(self.a), _content(self.b), names)

    def __repr__(self) -> str:
        return f"ArtifactChange({self.newest.artifact_id!r}, {self.state!r})"


def _content(artifact: Artifact | None) -> str:
    return artifact.content if artifact else ""


def _version(name: str, artifact: Artifact | None) -> str:
    return f"{name} v{artifact.version}" if artifact else f"{name} (none)"


@dataclass(frozen=True, slots=True, repr=False)
class StepDiff(Shown):
    """What differs between two runs at one step.

    Attributes:
        pair: The steps of both, as `run.steps` has them.
    """

    pair: StepPair

    @property
    def outcome(self) -> Outcome:
        """`same`, `different`, `only a` or `only b`."""
        return self.pair.outcome

    @property
    def what(self) -> tuple[str, ...]:
        """What differs, the cause first; empty for a step that only one run has.

        Of a model turn `agent`, `model`, `settings`, `tools`, `prompt`, `reply`; of a tool call `tool`, `parameters`,
        `decision`, `result`; of a decision `tool`, `decision`.
        """
        return self.pair.differing

    @property
    def diffs(self) -> Mapping[str, TextDiff]:
        """What differs in each part, by its name; of a step that only one run has, all of it."""
        mine, other = (parts_of(step) if step else {} for step in (self.pair.a, self.pair.b))
        wanted = self.what or [name for name in {**mine, **other} if mine.get(name) != other.get(name)]
        return {name: TextDiff(mine.get(name, ""), other.get(name, "")) for name in wanted}

    @property
    def number(self) -> str:
        """`4`; `4 (in b 6)` if the other run counts it otherwise, `b 6` if only that one has it."""
        mine, other = (step.number if step else None for step in (self.pair.a, self.pair.b))
        if mine is None:
            return f"b {other}"
        return f"{mine}" if other in {None, mine} else f"{mine} (in b {other})"

    @property
    def title(self) -> str:
        """`step 4, search_agent, tool web_search: parameters, result`: which it is, and what differs."""
        step = self.pair.step
        return f"step {self.number}, {step.agent}, {step.kind} {step.name}: {', '.join(self.what) or self.outcome}"

    @property
    def how(self) -> str:
        """How a comparison is asked for it."""
        step = self.pair.step
        return f"comparison.step({step.number if self.pair.a else f'b={step.number}'})"

    def __repr__(self) -> str:
        return f"StepDiff({self.title!r})"

    def _card(self) -> Card:
        rows: Rows = [("job", Code(self.pair.step.path))]
        folds = [Fold(name, Code(diff.plain()), is_open=n == 0) for n, (name, diff) in enumerate(self.diffs.items())]
        return Card("Compared", self.title, rows, folds)
