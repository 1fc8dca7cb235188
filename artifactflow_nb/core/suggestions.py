"""Suggestions in errors about names that do not exist: the name that was probably meant."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, ClassVar, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def suggestion(name: str, known: Iterable[str], meanings: Mapping[str, str] | None = None) -> str:
    """Return a sentence that suggests the name or the code that was probably meant, or an empty string.

    Args:
        name: The name that does not exist.
        known: The names that exist.
        meanings: Code to suggest for further names that people try, such as `run.response` for `text`.
    """
    if code := (meanings or {}).get(name):
        return f" Use {code}."
    similar = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {similar[0]!r}?" if similar else ""


class SuggestsNames:
    """A class whose error for an unknown attribute suggests an attribute."""

    _meanings: ClassVar[Mapping[str, str]] = {}
    """Code to suggest for names that people try and that resemble no attribute."""

    if not TYPE_CHECKING:  # type checkers report unknown attributes

        def __getattr__(self, name: str) -> NoReturn:
            hint = ""
            if not name.startswith("_"):  # IPython and copy ask for such names
                hint = suggestion(name, (each for each in dir(type(self)) if each[0] != "_"), self._meanings)
            message = f"{type(self).__name__!r} object has no attribute {name!r}.{hint}"
            raise AttributeError(message, name=name, obj=self)


def suggests_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Let the error for an unknown keyword argument of a function suggest an argument."""
    arguments = [name for name in signature(function).parameters if name != "self"]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs.keys() - set(arguments):
            hint = suggestion(name, arguments) or f" It takes {', '.join(arguments)}."
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}.{hint}")
        return function(*args, **kwargs)

    return call
