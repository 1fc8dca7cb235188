"""Exception hierarchy, grouped by who has to act.

::

    ArtifactFlowError
    ├── UsageError            the caller: an argument is invalid
    │   └── FormError         invalid form fields, with a problem for each
    ├── ModelError            the endpoint
    │   ├── ModelUnavailable  no answer, or an incomplete answer: a retry may help
    │   ├── ModelRejected     the request was refused: a retry does not help
    │   │   ├── ContextOverflow   the prompt exceeds the model's context window
    │   │   └── ToolsRefused      the endpoint takes no tools for this model
    │   └── CassetteMiss      a replay needs a question or a decision that was not recorded
    ├── ToolError             the model: a tool call cannot be executed
    ├── RunError              a run ended without an answer
    │   ├── RunFailed
    │   ├── BudgetExceeded    a limit of the budget is reached
    │   └── RunCancelled      carries the partial answer
    └── StoreError            the database and the files around it
        ├── NotFound          unknown id
        ├── Conflict          the state changed concurrently
        └── CassetteError     an unusable cassette or sealed file

A message states the problem, with the value, and what to do. A denied permission is a result, not an exception.
"""

import reprlib
import textwrap
from collections.abc import Callable, Mapping
from functools import partial

_VALUE_CHARS = 200
_LINE_COLUMNS = 79


class ArtifactFlowError(Exception):
    """Base class of all errors that this package raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """Replace IPython's traceback by the message: a stack through two threads does not help a notebook user."""
        return [wrap_words(f"{self} ({type(self).__name__})")]


def wrap_words(text: str) -> str:
    """Wrap long lines of a text for stderr at words, because JupyterLab breaks lines within words."""
    fill = partial(textwrap.fill, width=_LINE_COLUMNS, break_long_words=False, break_on_hyphens=False)
    return "\n".join(fill(line) if len(line) > _LINE_COLUMNS else line for line in text.split("\n"))


def describe_error(error: BaseException) -> str:
    """Describe an error for a person: the message, prefixed with the class name for errors of other packages."""
    text = str(error)
    return text if isinstance(error, ArtifactFlowError) else ": ".join(filter(None, (type(error).__name__, text)))


def redacted(error: Exception, redact: Callable[[str], str]) -> Exception:
    """Redact the message of an error that third-party code raised.

    The error is modified in place, because the signature of the constructor is unknown. If the text of the error does
    not follow from `args`, an `ArtifactFlowError` with the redacted message is returned instead.
    """
    if redact(str(error)) == str(error):
        return error
    error.args = tuple(redact(arg) if isinstance(arg, str) else arg for arg in error.args)
    message = redact(str(error))
    return error if message == str(error) else ArtifactFlowError(f"{type(error).__name__}: {message}")


class _Repr(reprlib.Repr):
    """Repr with limits at each level, so that the cost does not depend on the size of the value."""

    def __init__(self, max_chars: int) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 12
        self.maxstring = self.maxother = max_chars + 1  # one more character, so that `brief` notices a cut

    def repr_str(self, x: str, level: int) -> str:
        """Return the repr of the beginning; the base class would keep both ends."""
        del level
        return repr(x[: self.maxstring])

    def repr_int(self, x: int, level: int) -> str:
        """Return an integer, or the size of a large integer, because Python refuses to print thousands of digits."""
        del level
        return f"<integer of {x.bit_length()} bits>" if x.bit_length() > self.maxother * 3 else repr(x)

    def repr_instance(self, x: object, level: int) -> str:
        """Return the repr of an object, or the class of an object whose repr fails."""
        del level
        try:
            return repr(x)
        except Exception:  # noqa: BLE001 - an object of a person may raise anything
            return f"<{type(x).__name__}>"


def brief(value: object, max_chars: int = _VALUE_CHARS) -> str:
    """Return the repr of a value for a message, cut after `max_chars` characters.

    Time and memory do not grow with the size of a builtin value. An object whose repr fails is named by its class.
    """
    text = _Repr(max_chars).repr(value)
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


class UsageError(ArtifactFlowError, ValueError):
    """The caller passed an invalid argument."""


def check_text(name: str, value: object) -> None:
    """Raise `UsageError` unless the argument of this name is text."""
    if not isinstance(value, str):
        raise UsageError(f"{name} is {brief(value)}; it must be text.")


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
        status: The HTTP status with which the endpoint answered, or None.
    """

    status: int | None = None

    def __init__(self, message: str, *, partial: str = "") -> None:
        super().__init__(message)
        self.partial = partial


class ModelUnavailable(ModelError):
    """Connection failure, timeout, server error or interrupted stream; the engine retries the call.

    Attributes:
        retry_after_s: Delay that the endpoint requested, in seconds, or None.
        is_unreached: Whether nothing listens at the address, or the host is unknown. The call is then retried only if
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
    """The prompt exceeds the context window; the engine compresses the prompt further and sends it once more."""


class ToolsRefused(ModelRejected):
    """The endpoint takes no native tools for this model; with `tool_protocol="auto"` calls go into the text."""


class CassetteMiss(ModelError):
    """A replay needs a question or a decision that was not recorded; the message names the nearest recording."""


class ToolError(ArtifactFlowError):
    """A tool cannot execute a call; the message addresses the model that wrote the call.

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
    """The stored state has changed since the last read, or does not allow the step."""


class CassetteError(StoreError):
    """A cassette or sealed file is damaged, was modified, or comes from a newer release."""
