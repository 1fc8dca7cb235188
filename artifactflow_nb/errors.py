"""Exception hierarchy, grouped by who has to act.

::

    ArtifactFlowError
    ├── UsageError            the caller: an argument is invalid
    │   └── FormError         invalid form fields, with a problem for each
    ├── ModelError            the endpoint
    │   ├── ModelUnavailable  no answer, or an incomplete one: a retry may help
    │   ├── ModelRejected     the request was refused: a retry does not help
    │   │   └── ContextOverflow   the prompt exceeds the model's context window
    │   └── CassetteMiss      a replay needs a question or a decision that was not recorded
    ├── ToolError             the model: its tool call cannot be executed
    ├── RunError              a run ended without an answer
    │   ├── RunFailed
    │   ├── BudgetExceeded    a limit of its budget is reached
    │   └── RunCancelled      carries the partial answer
    └── StoreError            the database and the files around it
        ├── NotFound          unknown id
        ├── Conflict          the state changed concurrently
        └── CassetteError     an unusable cassette or sealed file

A message states the problem, with the value, and what to do. A denied permission is a result, not an exception.
"""

from collections.abc import Callable, Mapping


class ArtifactFlowError(Exception):
    """Base class of all errors that this package raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """Replace IPython's traceback by the message: a stack through two threads does not help a notebook user."""
        return [f"{self} ({type(self).__name__})"]


def describe_error(error: BaseException) -> str:
    """Describe an error for a person: the message, prefixed with the class name for errors of other packages."""
    text = str(error)
    return text if isinstance(error, ArtifactFlowError) else ": ".join(filter(None, (type(error).__name__, text)))


def redacted(error: Exception, redact: Callable[[str], str]) -> Exception:
    """Redact the message of an error that third-party code raised.

    The error is modified in place, because the signature of its constructor is unknown. If its `str` does not follow
    from `args`, an `ArtifactFlowError` with the redacted message is returned instead.
    """
    if redact(str(error)) == str(error):
        return error
    error.args = tuple(redact(arg) if isinstance(arg, str) else arg for arg in error.args)
    message = redact(str(error))
    return error if message == str(error) else ArtifactFlowError(f"{type(error).__name__}: {message}")


class UsageError(ArtifactFlowError, ValueError):
    """The caller passed an invalid argument."""


class FormError(UsageError):
    """Some fields of a form are invalid.

    Attributes:
        fields: The problem of each invalid field, by field name.
    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(" ".join(f"{name}: {problem}" for name, problem in fields.items()))
        self.fields = fields


class ModelError(ArtifactFlowError):
    """A language model returned no usable turn.

    Attributes:
        partial: The answer text received before the failure; may be empty.
        status: The HTTP status with which the endpoint answered; None without one.
    """

    status: int | None = None

    def __init__(self, message: str, *, partial: str = "") -> None:
        super().__init__(message)
        self.partial = partial


class ModelUnavailable(ModelError):
    """Connection failure, timeout, server error or interrupted stream; the engine retries the call.

    Attributes:
        retry_after_s: Delay that the endpoint requested, in seconds; None if it requested none.
        is_unreached: Whether nothing listens at the address, or its host is unknown. Such a call is retried only if
            the endpoint has answered before.
    """

    def __init__(
        self, message: str, *, partial: str = "", retry_after_s: float | None = None, is_unreached: bool = False
    ) -> None:
        super().__init__(message, partial=partial)
        self.retry_after_s = retry_after_s
        self.is_unreached = is_unreached


class ModelRejected(ModelError):
    """The endpoint refused the request (key, model name, parameters); the engine does not retry."""


class ContextOverflow(ModelRejected):
    """The prompt exceeds the context window; the engine compresses it further and sends it once more."""


class CassetteMiss(ModelError):
    """A replay needs a question or a decision that was not recorded; the message names the nearest recording."""


class ToolError(ArtifactFlowError):
    """A tool cannot execute its call; the message addresses the model that wrote the call.

    Attributes:
        problem: The problem for a person, without instructions that only a model needs; defaults to the message.
    """

    def __init__(self, message: str, *, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message


class RunError(ArtifactFlowError):
    """A run ended without an answer."""


class RunFailed(RunError):
    """A run ended in an error; its stored rows remain."""


class BudgetExceeded(RunError):
    """A run reached a limit of its budget and no extension was approved; its stored rows remain."""


class RunCancelled(RunError):
    """A run was cancelled.

    Attributes:
        partial: The answer text received before the cancellation.
    """

    def __init__(self, message: str, *, partial: str = "") -> None:
        super().__init__(message)
        self.partial = partial


class StoreError(ArtifactFlowError):
    """The database could not be read or written."""


class NotFound(StoreError, LookupError):
    """The store has no row with this id."""


class Conflict(StoreError):
    """The stored state changed since it was read, or does not allow the step."""


class CassetteError(StoreError):
    """A cassette or sealed file is damaged, was modified, or comes from a newer release."""
