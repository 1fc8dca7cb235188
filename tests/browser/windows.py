"""Browser windows that several tests use in succession.

Loading JupyterLab takes seconds, opening a notebook in a loaded page a moment. The page of a failed test is closed, and
so is a page that cannot be reset: the next test then loads a new one.
"""

from browser.lab import LabPage, watch
from browser.servers import VOILA, LabServer, end_kernels
from playwright.sync_api import Browser, Page, ViewportSize
from playwright.sync_api import Error as PlaywrightError

VIEWPORT: ViewportSize = {"width": 1280, "height": 900}


class Windows:
    """The windows of a browser; at most one window per server is reused."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._reusable: dict[str, Page] = {}

    def new_page(self) -> Page:
        """A page in a new window."""
        return self._browser.new_context(viewport=VIEWPORT).new_page()

    def open(self, name: str, server: LabServer, *, new: bool = False) -> LabPage:
        """A notebook in the reusable page of its server or in a new page; the caller releases it."""
        reusable = None if new else self._reusable.pop(server.address, None)
        return watch(reusable or self.new_page(), server, name)

    def release(self, lab: LabPage, *, reuse: bool) -> None:
        """Close the notebook and shut down its kernel; `reuse` keeps the page for the next test, if it can be reset."""
        for event, listener in lab.listeners.items():
            lab.page.remove_listener(event, listener)
        reuse = reuse and lab.server.front_end.module == "jupyterlab"
        if reuse and lab.server.address not in self._reusable and _cleared(lab):
            self._reusable[lab.server.address] = lab.page
        else:
            lab.page.context.close()
        if lab.server.front_end is not VOILA:
            end_kernels(lab.server, lab.name)


def _cleared(lab: LabPage) -> bool:
    """Reset a page of JupyterLab except for the theme; return whether the reset succeeded."""
    page = lab.page
    try:
        if not page.evaluate("'jupyterapp' in window"):
            return False
        page.context.clear_permissions()
        page.set_viewport_size(VIEWPORT)
        lab.close()
    except (PlaywrightError, AssertionError):
        return False
    return True
