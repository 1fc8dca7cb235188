"""SVG elements: text, bars with textures, ticks, and the document around them.

A drawing has a background of its own, so that it is legible on every page. In JupyterLab background and text use the
theme's CSS variables; elsewhere (in an `<img>`, on a code host) they are white and black. The attributes next to each
style are for SVG viewers without CSS variables.

Some pages remove inline SVG from HTML. For such pages there is a fallback image. A page shows either the drawing
or the image. An `<img>` cannot see the styles of its page, so it carries values for the theme's variables: light
colours, and dark colours for readers who prefer a dark colour scheme.
"""

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from artifactflow_nb.core.text.format import NOT_XML, clip, width
from artifactflow_nb.core.text.markdown import escape

BOTH_STYLE = (
    ".af-run .af-drawn, .af-run .af-drawn > rp { display: block !important; } .af-run .af-still { display: none; }"
)
"""Style that shows the inline drawing and hides its fallback; `!important`, since some pages force `[hidden]`."""

_LIGHT = (
    "--jp-content-font-color1: #1f2328; --jp-content-font-color2: #57606a; --jp-content-font-color3: #8a929a; "
    "--jp-layout-color0: #ffffff; --jp-brand-color1: #1565c0; --jp-border-color2: #d0d7de;"
)
_DARK = (
    "--jp-content-font-color1: #e6edf3; --jp-content-font-color2: #a5adb6; --jp-content-font-color3: #7d858e; "
    "--jp-layout-color0: #111111; --jp-brand-color1: #64b5f6; --jp-border-color2: #3d444d;"
)
_PAPER = "color: var(--jp-content-font-color1); background: var(--jp-layout-color0);"
_PREFERS_DARK = "@media (prefers-color-scheme: dark)"
MAX_IMAGE_CHARS = 100_000
"""Larger drawings have no image: a notebook saves the image in addition to the drawing."""
_ALT_COLUMNS = 500


def image(svg: str, description: str) -> str:
    """Embed a drawing as an `<img>` with a data URL.

    Args:
        svg: Well-formed SVG; its colours are JupyterLab's CSS variables or legible on any background.
        description: Alternative text.
    """
    css = f":root {{ {_LIGHT} {_PAPER} }} {_PREFERS_DARK} {{ :root {{ {_DARK} }} }}"
    coloured = svg.replace(">", f"><style>{escape(css)}</style>", 1)
    data = base64.b64encode(coloured.encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(description)}">'


def fallback(svg: str, title: str, description: str) -> str:
    """Return the drawing as an image, or its description if the image would be too large for a notebook."""
    if len(svg) > MAX_IMAGE_CHARS:
        return f"<p>{escape(description)}</p>"
    return image(svg, clip(f"{title}. {description}", _ALT_COLUMNS))


def figure(svg: str, title: str, description: str) -> str:
    """Return HTML that shows the drawing where a page keeps SVG and `BOTH_STYLE`, and the fallback image elsewhere.

    Without the style the drawing is hidden in two ways, so that its texts do not show where a sanitiser removes the SVG
    elements: JupyterLab keeps a `hidden` attribute with a value in an untrusted notebook, and code hosts keep `<rp>`,
    which browsers hide.
    """
    still = fallback(svg, title, description)
    return f'<div class="af-drawn" hidden="hidden"><rp>{svg}</rp></div><div class="af-still">{still}</div>'


CHART_WIDTH = 860
"""Width of every chart, in pixels; a page scales it, but not below a readable size, see `timeline.css`."""

FONT_SIZE = 14
COLUMN_PX = 7.75
"""Upper bound of the width of a text column (half a Chinese character) at this font size, in pixels."""

BLUE, ORANGE, VERMILLION, PURPLE = "#0072b2", "#e69f00", "#d55e00", "#cc79a7"
"""Palette of Okabe and Ito, distinguishable with every kind of colour vision."""

INK = "var(--jp-content-font-color1,#1f2328)"
PAPER = "var(--jp-layout-color0,#ffffff)"
_FONT = "var(--jp-content-font-family,system-ui),'Noto Sans','Noto Sans CJK SC',sans-serif"
_MARK = "af-plot"
_STROKES = {"hatched": '<rect width="2" height="6" fill="#ffffff" fill-opacity=".62"/>'}
"""Texture of each pattern, in white on the colour."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Fill of a bar: a colour and a texture, so that it does not depend on colour alone.

    Attributes:
        texture: `solid` or `hatched` (slanted lines).
    """

    colour: str
    texture: str = "solid"
    ink: str = "#ffffff"

    @property
    def paint(self) -> str:
        """Value of the `fill` attribute."""
        return self.colour if self.texture == "solid" else f"url(#{_MARK}-{self.texture}-{self.colour[1:]})"


def escape_xml(text: object) -> str:
    """Escape a text for an element or a quoted attribute; characters that XML forbids become U+FFFD."""
    return escape(NOT_XML.sub("�", str(text)))


_TIP_COLUMNS = 200


def label(x: float, y: float, text: str, columns: int, *, more: str = "") -> str:
    """Draw a line of text, cut to a number of columns; if it was cut, the tooltip has the whole text.

    Args:
        x: Left end, or the anchor of the text if `more` sets `text-anchor`.
        y: Baseline.
        text: The text.
        columns: Maximum width in text columns.
        more: Further attributes.
    """
    clipped, whole = clip(text, columns), clip(text, _TIP_COLUMNS)
    tip = f"<title>{escape_xml(whole)}</title>" if clipped != whole else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more and " " + more}>{escape_xml(clipped)}{tip}</text>'


def text_px(text: str) -> float:
    """Return an upper bound of the width of a line of text, in pixels."""
    return width(text) * COLUMN_PX


def bar(x: float, y: float, w: float, h: float, paint: str, tip: str = "", *, more: str = "") -> str:
    """Draw a filled rectangle with an optional tooltip."""
    inner = f"><title>{escape_xml(tip)}</title></rect>" if tip else "/>"
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{h:.1f}" fill="{paint}"'
        f"{more and ' ' + more}{inner}"
    )


def rule(x: float, top: float, bottom: float, *, more: str = 'stroke-opacity=".16"') -> str:
    """Draw a vertical line in the text colour."""
    return f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="currentColor" {more}/>'


def faint(*pieces: str) -> str:
    """Group elements with a reduced opacity."""
    return f'<g fill-opacity=".72">{"".join(pieces)}</g>' if pieces else ""


def tick_step(span: float, n_most: int = 7) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten that divides a span into at most `n_most` parts."""
    power = 10.0 ** math.floor(math.log10(span / n_most))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= n_most + 1e-9)


def drawing(size: tuple[float, float], title: str, description: str, *body: str) -> str:
    """Build a complete SVG document. `size` is in pixels; a narrower container scales the drawing down."""
    wide, high = size
    elements = "".join(body)
    used = sorted(set(re.findall(rf"url\(#({_MARK}-(hatched)-([0-9a-f]{{6}}))\)", elements)))
    patterns = "".join(
        f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse"'
        f"{' patternTransform=' + chr(34) + 'rotate(45)' + chr(34) if texture == 'hatched' else ''}>"
        f'<rect width="6" height="6" fill="#{colour}"/>{_STROKES[texture]}</pattern>'
        for name, texture, colour in used
    )
    inside = f"<defs>{patterns}</defs>{elements}" if patterns else elements
    # Ids are global in a page: a hash of the content keeps the ids of several drawings apart and is reproducible.
    number = hashlib.blake2b(inside.encode(), digest_size=4).hexdigest()
    inside = inside.replace(f"{_MARK}-", f"{_MARK}-{number}-")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" role="img" '
        f'aria-labelledby="{_MARK}-{number}-title {_MARK}-{number}-desc" color="#1f2328" font-family="sans-serif" '
        f'font-size="{FONT_SIZE}" style="max-width:100%;height:auto;color:{INK};font-family:{_FONT}">'
        f'<title id="{_MARK}-{number}-title">{escape_xml(title)}</title>'
        f'<desc id="{_MARK}-{number}-desc">{escape_xml(description)}</desc>'
        f'<rect width="{wide:.0f}" height="{high:.0f}" fill="#ffffff" style="fill:{PAPER}"/>'
        f'<g fill="currentColor">{inside}</g></svg>'
    )


def heading(text: str) -> str:
    """Return the `<text>` element with the heading of a drawing."""
    return label(12, 20, text, 90, more='font-size="16" font-weight="600"')


def empty_drawing(title: str, message: str) -> str:
    """Draw only a message."""
    return drawing((CHART_WIDTH, 80), title, message, heading(title), faint(label(12, 52, message, 100)))


def without_overlap(labels: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
    """Drop labels of an axis (middle and text) that would touch an earlier label."""
    shown: list[tuple[float, str]] = []
    for x, text in labels:
        if all(abs(x - other) > (text_px(text) + text_px(name)) / 2 + COLUMN_PX for other, name in shown):
            shown.append((x, text))
    return shown


def footnotes(notes: Sequence[str], y: float, columns: int = 130) -> tuple[list[str], int]:
    """Draw notes below the baseline `y`, cut to a number of text columns; also return their height in pixels."""
    pieces = [faint(label(12, y + 16 * n, note, columns)) for n, note in enumerate(notes)]
    return pieces, 16 * len(notes) + 8 if notes else 0
