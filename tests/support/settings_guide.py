"""Writes the table of settings in docs/guide/settings.md from their declarations; `make format` runs it."""

import ast
import inspect
import itertools
import textwrap
from pathlib import Path
from typing import get_args

from artifactflow_nb.engine.settings import DECLARED, ENVIRONMENT_VARIABLES, SECRET_SETTINGS, Settings

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "settings.md"
BEGIN = "<!-- The declarations of `engine/settings.py` as a table: `make format` writes it. -->\n"
END = "<!-- End of the table. -->\n"
HEADER = (
    "| argument and file | environment | default | | allowed | file needs permission |\n|---|---|---|---|---|---|\n"
)


def descriptions() -> dict[str, str]:
    """The texts below the fields of `Settings`, in one line each."""
    (settings,) = ast.parse(textwrap.dedent(inspect.getsource(Settings))).body
    assert isinstance(settings, ast.ClassDef)
    return {
        ast.unparse(field.target): " ".join(ast.literal_eval(text.value).split())
        for field, text in itertools.pairwise(settings.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def choices(annotation: object) -> tuple[object, ...]:
    """The choices of a literal type, which may be optional."""
    return tuple(
        choice for kind in (annotation, *get_args(annotation)) for choice in get_args(kind) if isinstance(choice, str)
    )


def row(name: str) -> str:
    """The row of a setting."""
    field, described = Settings.model_fields[name], descriptions()
    default = "" if field.default in (None, {}, ()) else field.default
    default = ", ".join(default) if isinstance(default, tuple) else str(default)
    allowed = DECLARED[name]["allowed"] or ", ".join(
        f"`{choice}`" for choice in dict.fromkeys(choices(field.annotation))
    )
    if name in SECRET_SETTINGS:
        allowed = "a text"
    cells = (
        f"`{name}`",
        f"`{ENVIRONMENT_VARIABLES[name]}`",
        f"`{default}`" if default else "",
        described[name],
        allowed,
        "yes" if DECLARED[name]["effect"] else "",
    )
    return f"| {' | '.join(cells)} |\n"


def updated(page: str) -> str:
    """The page with the table of today's declarations."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{HEADER}{''.join(map(row, Settings.model_fields))}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
