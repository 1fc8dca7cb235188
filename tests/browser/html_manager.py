"""A page of `@jupyter-widgets/html-manager` with a kernel of a server; `make test` installs its packages (`npm ci`)."""

from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from browser.lab import LabServer, call_api
from playwright.sync_api import Browser, Route

_FOLDER = Path(__file__).parent
_PACKAGES = _FOLDER / "node_modules"
_FILES = {
    "require.js": _PACKAGES / "requirejs" / "require.js",
    "embed-amd.js": _PACKAGES / "@jupyter-widgets" / "html-manager" / "dist" / "embed-amd.js",
    "anywidget.js": Path(str(files("anywidget"))) / "nbextension" / "index.js",
    "html_manager.js": _FOLDER / "html_manager.js",
}
_PAGE = """<!DOCTYPE html><html lang="en"><head><title>Widgets</title><base href="/html-manager/"></head><body>
<main></main><script src="require.js"></script><script src="html_manager.js"></script></body></html>"""


class HtmlManagerPage:
    """Displays the outputs of a new kernel of a server in a shadow root.

    Attributes:
        page: The page.
        errors: Its errors.
    """

    def __init__(self, browser: Browser, server: LabServer) -> None:
        # Chromium lets a page connect to this machine only if the page itself came from there, and the one that did, of
        # the server's interface, allows no scripts.
        self.page = page = browser.new_page(bypass_csp=True)
        self.errors: list[str] = []
        self._server = server
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        request = {"name": "python3", "path": f"{server.folder().name}/run"}
        self._kernel = call_api(server, "POST", "kernels", request)["id"]
        page.route(f"{server.address}/html-manager/**", self._serve)
        page.goto(f"{server.address}/api")
        page.set_content(_PAGE)
        address = f"{server.address.replace('http', 'ws', 1)}/api/kernels/{self._kernel}/channels"
        page.evaluate("address => connect(address)", f"{address}?token={server.token}")

    @staticmethod
    def _serve(route: Route) -> None:
        route.fulfill(path=_FILES[route.request.url.rpartition("/")[2]], content_type="text/javascript")

    def execute(self, code: str) -> None:
        """Start a cell without waiting for its end."""
        self.page.evaluate("code => { execute(code); }", code)

    def close(self) -> None:
        """Close the page and shut down the kernel."""
        self.page.close()
        with suppress(OSError):
            call_api(self._server, "DELETE", f"kernels/{self._kernel}")
