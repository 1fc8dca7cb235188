"""Saved outputs can be read on the light and dark pages of nbconvert."""

import re
from importlib.resources import files
from pathlib import Path

import nbformat
import pytest
from execution import export_html
from nbconvert.exporters.html import HTMLExporter

ENOUGH = 4.5
"""The contrast that WCAG 2 asks of text."""

INKS = ("--af-text", "--af-quiet", "--af-ok", "--af-bad", "--af-attention")
Colour = tuple[float, float, float]


def variables(css: str, selector: str) -> dict[str, str]:
    """The variables that the rules of a selector set."""
    rules = re.findall(rf"(?m)^\s*{re.escape(selector)}\s*\{{([^}}]*)\}}", css)
    return {name: value.strip() for rule in rules for name, value in re.findall(r"(--[\w-]+):\s*([^;]+);", rule)}


def theme(name: str) -> dict[str, str]:
    """The variables of nbconvert's page in this theme, with ours."""
    (folder,) = (path for path in HTMLExporter().template_paths if Path(path, "static", f"theme-{name}.css").exists())
    page = Path(folder, "static", f"theme-{name}.css").read_text(encoding="utf-8")
    ours = (files("artifactflow_nb.widgets") / "static" / "view.css").read_text(encoding="utf-8")
    dark = variables(ours, '[data-jp-theme-light="false"] .af-run') if name == "dark" else {}
    return {**variables(page, ":root"), **variables(ours, ".af-run"), **dark}


def resolved(value: str, known: dict[str, str]) -> str:
    """A value without variables."""
    while found := re.match(r"var\((--[\w-]+)(?:,\s*(.*))?\)$", value):
        value = known.get(found[1], found[2])
    return value


def colour(value: str, ground: Colour) -> Colour:
    """A CSS colour, blended with a background if it is transparent; channels from 0 to 1."""
    if value == "white":
        return (1.0, 1.0, 1.0)
    if found := re.match(r"rgba?\(([^)]*)\)", value):
        *channels, alpha = [float(number) for number in found[1].split(",")]
        red, green, blue = (
            alpha * part / 255 + (1 - alpha) * below for part, below in zip(channels, ground, strict=True)
        )
        return red, green, blue
    digits = value.removeprefix("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    return int(digits[:2], 16) / 255, int(digits[2:4], 16) / 255, int(digits[4:], 16) / 255


def luminance(of: Colour) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in of)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour_a: Colour, colour_b: Colour) -> float:
    low, high = sorted((luminance(colour_a), luminance(colour_b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_colours_have_enough_contrast(name: str) -> None:
    """The contrast is enough in both themes of nbconvert, on the page and on shaded boxes."""
    known = theme(name)
    page = colour(resolved(known["--jp-layout-color0"], known), (1.0, 1.0, 1.0))
    shaded = colour(resolved(known["--af-soft"], known), page)
    found = {
        (ink, where): contrast(colour(resolved(known[ink], known), ground), ground)
        for ink in INKS
        for where, ground in (("page", page), ("shaded", shaded))
    }
    assert {pair: round(value, 2) for pair, value in found.items() if value < ENOUGH} == {}
    on_ask = colour(resolved(known["--af-on-attention"], known), page)
    assert contrast(on_ask, colour(resolved(known["--af-attention"], known), page)) > ENOUGH


def test_light_page_declares_its_colour_scheme(tmp_path: Path) -> None:
    """A browser that prefers dark applies the declared scheme before the first paint."""
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "empty.ipynb")
    page = export_html(tmp_path / "empty.ipynb").read_text(encoding="utf-8")
    assert 'data-jp-theme-light="true"' in page
    assert page.index('<meta name="color-scheme" content="light">') < page.index("<style")
