"""Every exception, by who has to act.

::

    ArtifactFlowError
    ├── UsageError            the caller: an argument cannot be used
    │   └── FormError         the fields of a form, each with what is wrong
    ├── ModelError            the endpoint
    │   ├── ModelUnavailable  no answer, or a broken one: trying again may help
    │   ├── ModelRejected     the request was refused: trying again will not help
    │   │   └── ContextOverflow   the prompt is longer than the model can take
    │   └── CassetteMiss      a replayed run asks for what was not recorded
    ├── ToolError             the model: its call cannot be carried out
    ├── RunError              a run ended without an answer
    │   ├── RunFailed
    │   ├── BudgetExceeded    what it was allowed to spend is spent
    │   └── RunCancelled      keeps the text that had arrived
    └── StoreError            the database, and what is kept beside it
        ├── NotFound          an id that it does not hold
        ├── Conflict          somebody else was faster
        └── CassetteError     a cassette or a sealed file that cannot be used

A message says what happened, with the value, and what to do. A denied permission is a result, not an exception.
"""

from collections.abc import Callable, Mapping

from artifactflow_nb.text.cards import Card, Code, Fold, Shown


class ArtifactFlowError(Shown, Exception):
    """The root: catch it to catch all that this package raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message; the way through two threads to it helps nobody."""
        return [f"{type(self).__name__}: {self}"]

    def _card(self) -> Card:
        partial = str(getattr(self, "partial", ""))
        return Card(type(self).__name__, str(self), folds=[Fold("What had arrived", Code(partial))] if partial else [])


def told(error: BaseException) -> str:
    """What a person is told of an error: the message of one of these, the kind too of any other."""
    return str(error) if isinstance(error, ArtifactFlowError) else f"{type(error).__name__}: {error}"


def masked(error: Exception, mask: Callable[[str], str]) -> Exception:
    """What code of others raised, without what `mask` takes out of texts: this error, or one that says as much.

    It is changed itself, since nobody knows how to make another of its kind.
    """
    if mask(str(error)) == str(error):
        return error
    error.args = tuple(mask(one) if isinstance(one, str) else one for one in error.args)
    said = mask(str(error))
    return error if said == str(error) else ArtifactFlowError(f"{type(error).__name__}: {said}")


class UsageError(ArtifactFlowError, ValueError):
    """The caller passed something that cannot be used."""


class FormError(UsageError):
    """Some fields of a form cannot be used.

    Attributes:
        fields: What is wrong with each, by its name.
    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(" ".join(f"{name}: {wrong}" for name, wrong in fields.items()))
        self.fields = fields


class ModelError(ArtifactFlowError):
    """A language model gave no usable turn.

    Attributes:
        partial: The answer text that had arrived before it failed; empty if none.
    """

    def __init__(self, message: str, *, partial: str = "") -> None:
        super().__init__(message)
        self.partial = partial


class ModelUnavailable(ModelError):
    """No connection, a time-out, a server error or a stream that broke: it is retried.

    Attributes:
        retry_after_s: Seconds that the endpoint asked to wait, or None.
    """

    def __init__(self, message: str, *, partial: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, partial=partial)
        self.retry_after_s = retry_after_s


class ModelRejected(ModelError):
    """The endpoint refused the request (key, model name, parameters): it is not retried."""


class ContextOverflow(ModelRejected):
    """The prompt is longer than the model can take; it is compressed more strongly and sent once more."""


class CassetteMiss(ModelError):
    """A replayed run asks for what was not recorded; the message says what differs from the nearest recording."""


class ToolError(ArtifactFlowError):
    """A tool cannot do what was asked; the message is written for the model that asked.

    Attributes:
        problem: What is wrong, for a person: without what only a model needs to know, such as how to write a call.
    """

    def __init__(self, message: str, *, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message


class RunError(ArtifactFlowError):
    """A run ended without an answer."""


class RunFailed(RunError):
    """A run ended in an error; what it had stored stays."""


class BudgetExceeded(RunError):
    """A run reached a limit of its budget, and nobody let it go on; what it had stored stays."""


class RunCancelled(RunError):
    """A run was cancelled.

    Attributes:
        partial: The answer text that had arrived.
    """

    def __init__(self, message: str, *, partial: str = "") -> None:
        super().__init__(message)
        self.partial = partial


class StoreError(ArtifactFlowError):
    """The database could not be read or written."""


class NotFound(StoreError, LookupError):
    """An id that the store does not hold."""


class Conflict(StoreError):
    """The stored state changed since it was read, or does not allow the step."""


class CassetteError(StoreError):
    """A cassette or a sealed file cannot be used: it is damaged, was changed, or is of a newer release."""
