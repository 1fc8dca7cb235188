"""Errors of extraction, and import of optional libraries.

The errors do not reach a caller of the package: tools report them to the model, sources list them as skipped files.
"""

import importlib
import importlib.util
import logging
from types import ModuleType

INSTALL_COMMAND = "pip install 'artifactflow-nb[{extra}]'"
"""Template of the command that installs an extra: `web` for pages and PDF, `docx` for Word, `cite` for BibTeX."""


class UnreadableFile(Exception):
    """A file has no readable text; the message completes a sentence after its name: `asks for a password`."""


class LibraryMissing(Exception):
    """Reading needs a library that is not installed; the message contains the command to install it."""


def is_installed(name: str) -> bool:
    """Whether the library can be imported; does not import it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # the module is loaded without a spec, or blocked by None in sys.modules
        return False


def import_library(name: str, file_kind: str, extra: str = "web") -> ModuleType:
    """Import a library; `LibraryMissing` names the kind of file that needs it, and the extra to install.

    A null handler keeps its log messages from standard error, which is the output of a cell.
    """
    try:
        library = importlib.import_module(name)
    except ImportError:
        command = INSTALL_COMMAND.format(extra=extra)
        raise LibraryMissing(f"Reading {file_kind} needs a library that is not installed: {command}") from None
    log = logging.getLogger(name.partition(".")[0])
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    return library
