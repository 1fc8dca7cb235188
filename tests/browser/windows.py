"""Windows that stay: a notebook is opened in the page that showed the one before, as it is for a person.

To load JupyterLab takes seconds, to open a notebook in it a moment. A page in which a test has failed is closed, and so
is one that cannot be made as it was: the next test then loads its own.
"""

from browser.lab import LabPage, watch
from browser.servers import VOILA, LabServer, end_kernels
from playwright.sync_api import Browser, Page, ViewportSize
from playwright.sync_api import Error as PlaywrightError

VIEWPORT: ViewportSize = {"width": 1280, "height": 900}


class Windows:
    """The windows of a browser, at most one for each server that stays for the next notebook."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._staying: dict[str, Page] = {}

    def new_page(self) -> Page:
        """A page in a window of its own, which nothing else has used."""
        return self._browser.new_context(viewport=VIEWPORT).new_page()

    def open(self, name: str, server: LabServer, *, new: bool = False) -> LabPage:
        """A notebook in the page that stays for its server, or in a new one; whoever asks gives it back."""
        staying = None if new else self._staying.pop(server.address, None)
        return watch(staying or self.new_page(), server, name)

    def give_back(self, lab: LabPage, *, stays: bool) -> None:
        """Close the notebook and end its kernel; where `stays`, its page is for the next test, if it is as new."""
        for event, listener in lab.listeners.items():
            lab.page.remove_listener(event, listener)
        stays = stays and lab.server.front_end.module == "jupyterlab"
        if stays and lab.server.address not in self._staying and _cleared(lab):
            self._staying[lab.server.address] = lab.page
        else:
            lab.page.context.close()
        if lab.server.front_end is not VOILA:
            end_kernels(lab.server, lab.name)


def _cleared(lab: LabPage) -> bool:
    """Make a page of JupyterLab as it was before, but for its theme; whether that was possible."""
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
