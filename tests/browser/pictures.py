"""Pictures of components, in light and dark, cropped to the component.

`make screenshots` writes them to `tests/browser/screenshots`, where git ignores all files that were not added by
force; other test runs take no pictures.
"""

import os
from pathlib import Path

from browser.lab import LabPage
from playwright.sync_api import Locator

LARGEST_BYTES = 150_000
_MARGIN_PX = 8
_VIEWPORT_HEIGHT_PX = 1400
_INTO_VIEW = "node => node.scrollIntoView({ block: node.offsetHeight < innerHeight * 0.8 ? 'center' : 'start' })"
_REPOSITORY = Path(__file__).parents[2]


def save_pictures(page: LabPage, component: Locator, name: str) -> None:
    """Save `name-light.png` and `name-dark.png`, at most a tall window high; the theme is light afterwards.

    Errors: `AssertionError` for a picture that is larger than `LARGEST_BYTES`.
    """
    if not os.environ.get("AF_SCREENSHOTS"):
        return
    before = page.page.viewport_size
    page.page.set_viewport_size({"width": (before or {"width": 1280})["width"], "height": _VIEWPORT_HEIGHT_PX})
    _save(page, component, name, light=False)
    _save(page, component, name, light=True)
    if before:
        page.page.set_viewport_size(before)


def _save(page: LabPage, component: Locator, name: str, *, light: bool) -> None:
    page.theme(light=light)
    component.scroll_into_view_if_needed()
    component.evaluate(_INTO_VIEW)
    page.page.wait_for_timeout(400)  # for scrolling and colour transitions
    box = component.bounding_box()
    assert box, f"{name} is not visible"
    top = max(box["y"] - _MARGIN_PX, 0)
    area = {
        "x": max(box["x"] - _MARGIN_PX, 0),
        "y": top,
        "width": box["width"] + 2 * _MARGIN_PX,
        "height": min(box["y"] + box["height"] + _MARGIN_PX, _VIEWPORT_HEIGHT_PX) - top,
    }
    path = _REPOSITORY / os.environ["AF_SCREENSHOTS"] / f"{name}-{'light' if light else 'dark'}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.page.screenshot(path=path, clip=area)  # type: ignore[arg-type]  # a mapping of the four numbers
    assert path.stat().st_size <= LARGEST_BYTES, f"{path.name} has {path.stat().st_size:,} bytes"
