"""Why bytes cannot be read as text, and the libraries that some kinds need.

These two never reach a caller of the package: tools tell them to the model, the sources list them as skipped files.
"""

import importlib
import importlib.util
import logging
from types import ModuleType

INSTALL = "pip install 'artifactflow-nb[web]'"
"""What brings the libraries for pages and PDF."""


class Unreadable(Exception):
    """The text cannot be had; the message goes on after the name of the file: `asks for a password`."""


class LibraryMissing(Exception):
    """It could be had with a library that is not installed; the message is a sentence with the command."""


def installed(name: str) -> bool:
    """Whether the library can be imported; does not import it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # it is loaded and says nothing of where from, or it was ruled out
        return False


def library(name: str, what: str) -> ModuleType:
    """The library, imported; `LibraryMissing` says that reading `what` needs it.

    What it logs goes to whoever asked for logs, and not to standard error, which is the output of some cell.
    """
    try:
        found = importlib.import_module(name)
    except ImportError:
        raise LibraryMissing(f"Reading {what} needs a library that is not installed: {INSTALL}") from None
    log = logging.getLogger(name.partition(".")[0])
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    return found
