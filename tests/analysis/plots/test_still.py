"""A drawing as an image: what it carries, and of the two forms that stand in a page the one that shows."""

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
    """The drawing that an image carries."""
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([\w+/=]+)"', img)
    return base64.b64decode(data).decode()


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, from 1 to 21, as WCAG counts it."""
    lights = []
    for colour in (one, other):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_the_image_is_the_drawing() -> None:
    """It carries a well-formed SVG with the same texts, and says in words what there is to see."""
    img = image(DRAWING, 'A "search"')
    assert [text for text in texts(decoded(img)) if text] == [text for text in texts(DRAWING) if text]
    assert img.endswith(' alt="A &quot;search&quot;">')


def test_it_brings_its_colours() -> None:
    """The image has every colour that a drawing asks a theme for, light and dark, with ink that is legible on paper."""
    (style,) = [node.text or "" for node in xml(decoded(image(DRAWING, ""))).iter(f"{SVG}style")]
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for colours in (dict(COLOUR.findall(light)), dict(COLOUR.findall(dark))):
        asked = set(re.findall(r"var\((--jp-[\w-]*color[\w-]*)", DRAWING))
        assert asked <= set(colours)
        paper = colours["--jp-layout-color0"]
        assert contrast(colours["--jp-content-font-color1"], paper) > 7
        assert contrast(colours["--jp-content-font-color2"], paper) > 4.5
        assert contrast(colours["--jp-brand-color1"], paper) > 4.5


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_it_says_is_text(text: str) -> None:
    """Neither the drawing's texts nor the words for it get out of the attribute that they stand in."""
    img = image(drawing((100, 40), text, text, heading(text)), text)
    assert img.count("<") == img.count(">") == 1
    xml(decoded(img))


def test_without_its_style_the_drawing_hides() -> None:
    """It is hidden by an attribute and by an element that browsers hide; what stands for it is not."""
    still = image("<svg></svg>", "Title. Words.")
    assert figure("<svg></svg>", "Title", "Words.") == (
        f'<div class="af-drawn" hidden="hidden"><rp><svg></svg></rp></div><div class="af-still">{still}</div>'
    )
