"""The ground of plots: `Axes` of matplotlib in the style in use, with colours and texts that every reader can read.

A style sets text and page colours, so `matplotlib.style.use("dark_background")` turns a plot dark. The colours of data
have a contrast of 3:1 to white and to black, differ with every kind of colour vision (Okabe and Ito), and come with a
shape or a texture. Texts are drawn as they are: a dollar sign starts no formula.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.text.cards import escape_invisible
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, VERMILLION, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
HATCH = "////"
"""Texture of the second part of a bar."""
NAME_COLUMNS = 34
MAX_ROWS = 40
_WIDTH, _ROW, _FRAME = 9.0, 0.34, 1.5
"""Width of a plot, height of a row and of the frame around the rows, in inches."""
_CHINESE_FONTS = ("Noto Sans CJK SC", "Noto Sans SC", "PingFang SC", "Microsoft YaHei", "SimHei", "WenQuanYi Zen Hei")


@contextmanager
def canvas(ax: "Axes | None", n_rows: float) -> "Iterator[Axes]":
    """Yield the `Axes` to draw on: `ax`, or the `Axes` of a new figure with a height for a number of rows.

    Errors: `UsageError` if matplotlib is not installed.
    """
    try:
        from matplotlib import font_manager, interactive, rcParams
        from matplotlib import pyplot as plt
    except ImportError:
        message = "Plots need matplotlib, which is not installed: pip install 'artifactflow-nb[plots]'"
        raise UsageError(message) from None
    installed = set(font_manager.get_font_names())
    family = [*rcParams["font.family"], *(name for name in _CHINESE_FONTS if name in installed)]
    with plt.rc_context({"font.family": family, "text.parse_math": False}):
        if ax is None:
            _, ax = plt.subplots(figsize=(_WIDTH, _FRAME + _ROW * max(n_rows, 2)), layout="constrained")
        is_interactive = plt.isinteractive()  # a notebook sets this at the first figure, which the context would undo
        yield ax
    interactive(is_interactive)


def finish(ax: "Axes", title: str, description: str, notes: Sequence[str] = (), unit: str = "") -> "Axes":
    """Write the title, and below the axis the unit and the notes; keep the description for `alt_text`."""
    ax.set_title(title, loc="left", fontweight="bold", pad=6 if ax.get_legend() is None else 24)
    ax.set_xlabel("\n".join([*filter(None, [unit]), *(name_text(note, 130) for note in notes)]), loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_label(f"{title}. {description}")
    return ax


def message_only(ax: "Axes", title: str, message: str) -> "Axes":
    """Write a message in the place of data."""
    ax.text(0.0, 0.9, name_text(message, 130), transform=ax.transAxes, va="top")
    ax.set_axis_off()
    return finish(ax, title, message)


def name_text(text: str, columns: int = NAME_COLUMNS) -> str:
    """Convert a name from a frame to one line that can be drawn."""
    return clip(escape_invisible(text), columns)


def rows_axis(ax: "Axes", names: Sequence[str]) -> None:
    """Write a name beside each row, the first at the top."""
    ax.set_yticks(range(len(names)), [name_text(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def write_beside(ax: "Axes", row: float, text: str) -> None:
    """Write a text to the right of the plane, beside a row."""
    ax.text(1.01, row, name_text(text, 70), transform=ax.get_yaxis_transform(), va="center", fontsize="small")


def legend(ax: "Axes", handles: Sequence[Any]) -> None:
    """Draw the legend of the entries that occur, in one line above the plane."""
    options: dict[str, Any] = {
        "loc": "lower left",
        "bbox_to_anchor": (0.0, 1.0),
        "borderaxespad": 0.2,
        "fontsize": "small",
    }
    ax.legend(handles=handles, ncols=max(len(handles), 1), frameon=False, **options)


def alt_text(ax: "Axes") -> str:
    """Return the text alternative of a plot: the label of the `Axes`, which a cell also shows as text with the picture.

    `ax.figure.savefig("cost.png", metadata={"Description": af.plots.alt_text(ax)})` keeps the text in the file.
    """
    return str(ax.get_label())
