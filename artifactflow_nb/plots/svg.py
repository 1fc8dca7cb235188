"""Pieces of SVG: text, fills that do not hang on colour alone, ticks, and the frame around a drawing.

A drawing stands on paper of its own, so that it can be read wherever it is shown. Inside JupyterLab the paper and the
ink are those of the theme, by its CSS variables; elsewhere (in an `<img>`, on a code host) they are white and black.
The attributes beside each style are for readers of SVG that know no CSS variables.
"""

import hashlib
import math
import re
from dataclasses import dataclass

from artifactflow_nb.text.markdown import escape
from artifactflow_nb.text.width import clip, width

FONT_SIZE = 11
COLUMN_PX = 6.1
"""How wide a column of text is, at most, in this size."""

BLUE, ORANGE, GREEN, SKY = "#0072b2", "#e69f00", "#009e73", "#56b4e9"
VERMILLION, PURPLE, YELLOW = "#d55e00", "#cc79a7", "#f0e442"
"""Colours that people with any kind of colour vision can tell apart (Okabe and Ito)."""

INK = "var(--jp-content-font-color1,#1f2328)"
PAPER = "var(--jp-layout-color0,#ffffff)"
_FONT = "var(--jp-content-font-family,system-ui),'Noto Sans','Noto Sans CJK SC',sans-serif"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARK = "af-plot"


@dataclass(frozen=True, slots=True)
class Fill:
    """What a bar is filled with.

    Attributes:
        name: What it stands for, as a legend says it.
        colour: Its colour.
        texture: `solid`, `hatched` (slanted lines) or `dotted`.
        ink: The colour of text on it.
    """

    name: str
    colour: str
    texture: str = "solid"
    ink: str = "#ffffff"

    @property
    def paint(self) -> str:
        """The value of a `fill` attribute."""
        return self.colour if self.texture == "solid" else f"url(#{_MARK}-{self.texture}-{self.colour[1:]})"


def xml(text: object) -> str:
    """Any text as content of an element or of a quoted attribute."""
    return escape(_NOT_XML.sub("�", str(text)))


_TIP_COLUMNS = 200


def label(x: float, y: float, text: str, columns: int, *, more: str = "") -> str:
    """Text at its baseline, on one line of at most so many columns; `more` are attributes.

    What is cut off shows when it is pointed at.
    """
    shown, whole = clip(text, columns), clip(text, _TIP_COLUMNS)
    tip = f"<title>{xml(whole)}</title>" if shown != whole else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more and " " + more}>{xml(shown)}{tip}</text>'


def text_px(text: str) -> float:
    """How wide a line of text is, at most."""
    return width(text) * COLUMN_PX


def bar(x: float, y: float, w: float, h: float, paint: str, tip: str = "", *, more: str = "") -> str:
    """A rectangle; what it stands for shows when it is pointed at."""
    inner = f"><title>{xml(tip)}</title></rect>" if tip else "/>"
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{h:.1f}" fill="{paint}"'
        f"{more and ' ' + more}{inner}"
    )


def rule(x: float, top: float, bottom: float, *, more: str = 'stroke-opacity=".16"') -> str:
    """A line from top to bottom, in ink."""
    return f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="currentColor" {more}/>'


def quiet(*pieces: str) -> str:
    """The pieces in fainter ink."""
    return f'<g fill-opacity=".72">{"".join(pieces)}</g>' if pieces else ""


def legend(x: float, y: float, fills: tuple[Fill, ...], extra: str = "") -> str:
    """A key to the fills, side by side; `extra` stands behind them as it is."""
    pieces = []
    for fill in fills:
        pieces += [bar(x, y - 9, 14, 10, fill.paint, more='rx="2"'), label(x + 19, y, fill.name, 40)]
        x += 19 + text_px(fill.name) + 16
    return "".join(pieces) + (f'<g transform="translate({x:.1f} {y:.1f})">{extra}</g>' if extra else "")


def ticks(top: float, n_most: int = 7) -> list[float]:
    """Round numbers from 0 up to at most `top`, evenly apart."""
    if top <= 0:
        return [0.0]
    step = tick_step(top, n_most)
    return [round(step * i, 10) for i in range(int(top / step + 1e-9) + 1)]


def tick_step(span: float, n_most: int = 7) -> float:
    """A round distance (1, 2 or 5 times a power of ten) that divides a span into at most so many parts."""
    power = 10.0 ** math.floor(math.log10(span / n_most))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= n_most + 1e-9)


def picture(size: tuple[float, float], title: str, description: str, *body: str) -> str:
    """A whole drawing of so many pixels, as wide as its place allows.

    Args:
        size: Its width and height; narrower places scale it down.
        title: What it shows, in a few words: its name for a screen reader.
        description: What there is to see, in a sentence or two.
        body: What is drawn.
    """
    wide, high = size
    drawn = "".join(body)
    inside = _textures(drawn) + drawn
    number = hashlib.blake2b(inside.encode(), digest_size=4).hexdigest()
    inside = inside.replace(f"{_MARK}-", f"{_MARK}-{number}-")  # several drawings on one page must not share a name
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" role="img" '
        f'aria-labelledby="{_MARK}-{number}-title {_MARK}-{number}-desc" color="#1f2328" font-family="sans-serif" '
        f'font-size="{FONT_SIZE}" style="max-width:100%;height:auto;color:{INK};font-family:{_FONT}">'
        f'<title id="{_MARK}-{number}-title">{xml(title)}</title>'
        f'<desc id="{_MARK}-{number}-desc">{xml(description)}</desc>'
        f'<rect width="{wide:.0f}" height="{high:.0f}" fill="#ffffff" style="fill:{PAPER}"/>'
        f'<g fill="currentColor">{inside}</g></svg>'
    )


def heading(text: str) -> str:
    """The title as it is drawn."""
    return label(12, 20, text, 90, more='font-size="13" font-weight="600"')


def nothing(title: str, message: str) -> str:
    """A drawing that says that there is nothing to draw."""
    return picture((640, 80), title, message, heading(title), quiet(label(12, 52, message, 100)))


def _textures(drawn: str) -> str:
    """The patterns that a drawing refers to."""
    used = sorted(set(re.findall(rf"url\(#({_MARK}-(hatched|dotted)-([0-9a-f]{{6}}))\)", drawn)))
    patterns = "".join(
        f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse"'
        f"{' patternTransform=' + chr(34) + 'rotate(45)' + chr(34) if texture == 'hatched' else ''}>"
        f'<rect width="6" height="6" fill="#{colour}"/>{_STROKES[texture]}</pattern>'
        for name, texture, colour in used
    )
    return f"<defs>{patterns}</defs>" if patterns else ""


_STROKES = {
    "hatched": '<rect width="2" height="6" fill="#ffffff" fill-opacity=".62"/>',
    "dotted": '<circle cx="3" cy="3" r="1.3" fill="#ffffff" fill-opacity=".8"/>',
}
