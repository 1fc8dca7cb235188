"""A drawing for pages that take SVG out of HTML: as an image, and beside the drawing itself, of which a page shows one.

An image knows nothing of its page's styles and theme. It brings the colours that our drawings ask a theme for, light
ones and, where the reader prefers dark pages, dark ones, on paper of its own: on whatever ground, it can be read.
"""

import base64

from artifactflow_nb.text.markdown import escape

BOTH_STYLE = (
    ".af-run .af-drawn, .af-run .af-drawn > rp { display: block !important; } .af-run .af-still { display: none; }"
)
"""The style with which a page shows the drawing itself; some pages insist that what is hidden stays so."""

_LIGHT = (
    "--jp-content-font-color1: #1f2328; --jp-content-font-color2: #57606a; --jp-content-font-color3: #8a929a; "
    "--jp-layout-color0: #ffffff; --jp-brand-color1: #1565c0; --jp-border-color2: #d0d7de;"
)
_DARK = (
    "--jp-content-font-color1: #e6edf3; --jp-content-font-color2: #a5adb6; --jp-content-font-color3: #7d858e; "
    "--jp-layout-color0: #111111; --jp-brand-color1: #64b5f6; --jp-border-color2: #3d444d;"
)
_PAPER = "color: var(--jp-content-font-color1); background: var(--jp-layout-color0);"
PREFERS_DARK = "@media (prefers-color-scheme: dark)"


def image(svg: str, told: str, *, style: str = "", width: str = "") -> str:
    """The drawing as an `<img>` that carries it.

    Args:
        svg: The drawing, well-formed; its colours come from JupyterLab's CSS variables or are legible on any paper.
        told: What there is to see, in words, for whoever does not see it.
        style: CSS that the drawing would find in its page.
        width: How wide it is, for a drawing that has no width of its own: `100%`.
    """
    own = f":root {{ {_LIGHT} {_PAPER} }} {PREFERS_DARK} {{ :root {{ {_DARK} }} }} {style}".rstrip()
    coloured = svg.replace(">", f"><style>{escape(own)}</style>", 1)
    data = base64.b64encode(coloured.encode()).decode()
    wide = f' width="{width}"' if width else ""
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(told)}"{wide}>'


def drawn(svg: str, instead: str) -> str:
    """HTML that shows the drawing where it and `BOTH_STYLE` are left as they are, and else the HTML given instead.

    Without the style the drawing is hidden twice, so that no words are left where its elements are taken away:
    JupyterLab keeps the attribute in a notebook that is not trusted, if it has a value; code hosts keep `<rp>`, which
    browsers hide.
    """
    return f'<div class="af-drawn" hidden="hidden"><rp>{svg}</rp></div><div class="af-still">{instead}</div>'
