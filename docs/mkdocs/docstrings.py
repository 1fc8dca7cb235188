"""Extension of Griffe: reads the package's docstrings as Markdown."""

import re
from typing import Any

import griffe


class MarkdownDocstrings(griffe.Extension):
    """Rewrites what is not Markdown.

    An "Errors:" paragraph would be read as an admonition, and a line of two colons precedes an indented block.
    """

    def on_object(self, *, obj: griffe.Object, **_context: Any) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            text = re.sub(r"^Errors: ", "**Errors:** ", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"^::\n", "", text, flags=re.MULTILINE)
