"""A drawing as an image, and which of the two a page shows."""

import base64
import re

import pytest
from support.charts import HOSTILE, SVG, texts, xml

from artifactflow_nb.analysis.plots.spans import TimelineSpan
from artifactflow_nb.analysis.plots.svg import drawing, figure, heading, image
from artifactflow_nb.analysis.plots.waterfall import waterfall_svg

DRAWING = waterfall_svg([TimelineSpan("lead_agent", "tool", "search", 0, 10)])
COLOUR = re.compile(r"(--jp-[\w-]*(?:color|brand)[\w-]*):\s*(#[0-9a-f]{6})")


def decoded(img: str) -> str:
    """The SVG in the data URL of an image."""
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([\w+/=]+)"', img)
    return base64.b64decode(data).decode()


def contrast(colour_a: str, colour_b: str) -> float:
    """Contrast of two colours as WCAG defines it, from 1 to 21."""
    lights = []
    for colour in (colour_a, colour_b):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_image_has_the_texts_of_the_drawing() -> None:
    """The image is a well-formed SVG with the same texts, and has the description as alternative text."""
    img = image(DRAWING, 'A "search"')
    assert [text for text in texts(decoded(img)) if text] == [text for text in texts(DRAWING) if text]
    assert img.endswith(' alt="A &quot;search&quot;">')


def test_image_defines_the_colours_of_the_theme() -> None:
    """The image defines every colour variable of the drawing, light and dark, with legible contrast."""
    (style,) = [node.text or "" for node in xml(decoded(image(DRAWING, ""))).iter(f"{SVG}style")]
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for colours in (dict(COLOUR.findall(light)), dict(COLOUR.findall(dark))):
        variables = set(re.findall(r"var\((--jp-[\w-]*color[\w-]*)", DRAWING))
        assert variables <= set(colours)
        paper = colours["--jp-layout-color0"]
        assert contrast(colours["--jp-content-font-color1"], paper) > 7
        assert contrast(colours["--jp-content-font-color2"], paper) > 4.5
        assert contrast(colours["--jp-brand-color1"], paper) > 4.5


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_in_its_attribute(text: str) -> None:
    """Neither texts in the drawing nor its description end the attributes of the image."""
    img = image(drawing((100, 40), text, text, heading(text)), text)
    assert img.count("<") == img.count(">") == 1
    xml(decoded(img))


def test_page_without_the_style_shows_the_image() -> None:
    """The drawing is hidden by an attribute and by an element that browsers hide; the image is not."""
    still = image("<svg></svg>", "Title. Words.")
    assert figure("<svg></svg>", "Title", "Words.") == (
        f'<div class="af-drawn" hidden="hidden"><rp><svg></svg></rp></div><div class="af-still">{still}</div>'
    )
