"""Prompt files `<name>.md` with `$placeholders`, which a person can read and override.

A file may start with a header, which models do not see::

    ---
    for: the lead agent of the research flow
    variables: max_tool_rounds, subagents
    ---
"""

import os
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template

from artifactflow_nb.core.local_files import absolute_path, read_text
from artifactflow_nb.errors import UsageError, brief

HEADER = re.compile(r"\A---\nfor: (?P<agent>.*)\nvariables:(?P<variables>.*)\n---\n")
"""The header of a prompt file: the agent that gets the prompt, and the names of its placeholders."""

_NAME = re.compile(r"[\w./\\-]+")


def is_prompt_text(prompt: str) -> bool:
    """Return whether a text is a prompt, not the name of a prompt file, which has no spaces and no punctuation."""
    return bool(prompt) and _NAME.fullmatch(prompt) is None


class PromptLibrary:
    """Reads prompt files, from the person's folder if the file is there, otherwise from the package.

    `folder` is the person's folder; None for the packaged files only. A prompt text is used as it is.
    """

    def __init__(self, folder: Path | None = None) -> None:
        folder = None if folder is None else absolute_path(folder)
        if folder is not None and not os.path.isdir(folder):  # noqa: PTH112 - `Path.is_dir` raises for a name too long
            raise UsageError(f"The prompt folder {brief(str(folder))} is not a folder. Create it, or omit `prompts`.")
        self._folder = folder
        self._template = cache(self._load)

    def render(self, name: str, **values: str) -> str:
        """Return the prompt of this name with its placeholders replaced; unknown `$names` are left unchanged."""
        return self._template(name).safe_substitute(values).strip()

    def check(self, name: str) -> None:
        """Raise `UsageError` if there is no prompt of this name."""
        self._template(name)

    def _load(self, name: str) -> Template:
        if is_prompt_text(name):
            return Template(name)
        own = self._folder / f"{name}.md" if self._folder else None
        if own is not None and os.path.lexists(own):
            return Template(HEADER.sub("", read_text(own, "The prompt")))
        packaged = files(__package__) / f"{name}.md"
        if not packaged.is_file():
            raise UsageError(
                f"There is no prompt {brief(name)}. Put a file {name}.md into the folder passed as `prompts`, or "
                'pass the text itself: AgentConfig(prompt="You ...").'
            )
        return Template(HEADER.sub("", packaged.read_text(encoding="utf-8")))
