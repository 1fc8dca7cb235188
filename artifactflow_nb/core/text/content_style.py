"""CSS of what Markdown renders in addition to plain elements; each part only where a text needs it."""

_PARTS = {
    "af-math": """
.af-math > [hidden] { display: inline; }
.af-math math { font-size: 1.06em; }
.af-display { display: block; max-width: 100%; margin: 0.4em 0; overflow-x: auto; overflow-y: hidden; }
.af-math [columnalign="left"] { padding-left: 0.1em; text-align: left; }
.af-math [columnalign="right"] { padding-right: 0; text-align: right; }
.af-math [notation="box"] { padding: 0.2em 0.4em; border: 1px solid; }
""",
    "af-cite": """
.af-md, main { position: relative; }
.af-cite-mark { border-radius: 3px; color: var(--jp-content-link-color, var(--link, #0b5cad)); cursor: pointer; }
.af-passage[hidden] { display: none; }
.af-cite:hover > .af-passage, .af-cite:focus-within > .af-passage { display: block; position: absolute; z-index: 5;
  left: 0; right: 0; max-width: 44rem; max-height: 16em; padding: 8px 12px; border: 1px solid var(--af-line, #8888);
  border-radius: 8px; background: var(--jp-layout-color1, var(--page, Canvas)); box-shadow: 0 4px 16px #0004;
  overflow: auto; color: var(--jp-content-font-color1, var(--text, CanvasText)); font: normal 13px/1.5 sans-serif;
  text-align: left; white-space: normal; }
.af-passage > b, .af-passage > small, .af-passage > q { display: block; }
.af-passage > q { margin: 4px 0; quotes: none; }
.af-passage mark { background: rgba(255, 200, 0, 0.35); color: inherit; }
@media print { .af-cite > .af-passage.af-passage { display: none; } }
""",
}
"""Rules by the class that needs them."""


def content_style(markup: str) -> str:
    """CSS for rendered Markdown, on one line; empty if it needs none."""
    return " ".join(" ".join(part for name, part in _PARTS.items() if f'class="{name}' in markup).split())


def all_content_style() -> str:
    """CSS for all that Markdown may render."""
    return " ".join(" ".join(_PARTS.values()).split())
