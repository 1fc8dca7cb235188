"""The extension of Jupyter Server: the same interface and page, behind Jupyter's own authentication.

Installing the package enables the extension. The first request opens the engine, on a thread of its own.
"""

import asyncio
import os
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.iostream import StreamClosedError
from traitlets import Bool, Unicode
from traitlets.config import Configurable

from artifactflow_nb.core.language import Language
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.engine.settings import DEFAULT_DATA_DIR, ENVIRONMENT_VARIABLES, Settings
from artifactflow_nb.errors import ArtifactFlowError
from artifactflow_nb.server.api import MAX_BODY_BYTES, Answer, Api, ApiRequest, page_file
from artifactflow_nb.server.lifecycle import RunLifecycle, open_lifecycle
from artifactflow_nb.store.approvals import load_open_requests
from artifactflow_nb.store.database import connect
from artifactflow_nb.widgets.chat.composer import MAX_FILE_BYTES

SERVER_SETTING = "artifactflow_server"  # the name of the `ArtifactFlowServer` among the settings of the web application
_MAX_UPLOAD_BYTES = 2 * MAX_FILE_BYTES  # a file in base64, and what is around it


class ArtifactFlowServer(Configurable):
    """Settings of the extension, such as `c.ArtifactFlowServer.data_dir` in `jupyter_server_config.py`.

    Attributes:
        data_dir: The folder of the store; by default the setting `AF_DATA_DIR`, below the server's root folder.
        read_only: Reject all requests that change the store.
    """

    data_dir = Unicode("", config=True)
    read_only = Bool(False, config=True)

    def __init__(self, app: ServerApp, base_path: str) -> None:
        super().__init__(parent=app)
        self._root = Path(app.root_dir)
        self._base_path = base_path
        self._opening: asyncio.Task[Api] | None = None
        self.lifecycle: RunLifecycle | None = None

    async def api(self) -> Api:
        """Return the interface; the first call opens the engine.

        Errors: as for `open_lifecycle`; the next call tries to open the engine again.
        """
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)

    def stored_requests(self) -> list[dict[str, Any]] | None:
        """Return the open requests of the store while the engine is closed; None while the engine is open.

        JupyterLab asks for the requests repeatedly: opening the engine would create a store for a person who never uses
        the package, and would continue runs.
        """
        if self._opening is not None:
            return None
        store = self._folder() / STORE_FILE
        if not store.is_file():
            return []
        with closing(connect(store, read_only=True)) as db:
            return [{"id": request.id, "run_id": request.run_id} for request in load_open_requests(db)]

    async def language(self) -> Language:
        """Return the language of the views; English if the engine cannot be opened (the views report the error)."""
        with suppress(ArtifactFlowError):
            return (await self.api()).lifecycle.thread.engine.settings.language
        return "en"

    async def _open(self) -> Api:
        self.lifecycle = await asyncio.to_thread(open_lifecycle, data_dir=self._folder(), read_only=self.read_only)
        self.lifecycle.root = self._root
        await self.lifecycle.continue_abandoned()
        return Api(self.lifecycle, self._base_path)

    def _folder(self) -> Path:
        """Return the folder of the store, below the root folder: the server's working folder may be any folder."""
        name = self.data_dir or os.environ.get(ENVIRONMENT_VARIABLES["data_dir"])
        settings = Settings.load()
        if not name and "data_dir" in settings.model_fields_set:
            return settings.data_dir
        return self._root / Path(name or DEFAULT_DATA_DIR).expanduser()


class ArtifactFlowHandler(APIHandler):
    """Passes requests to `Api` after Jupyter's checks: user, origin, and the token against cross-site requests."""

    auth_resource = "artifactflow"

    def initialize(self, server: ArtifactFlowServer) -> None:
        """Prepare for a request."""
        self._server = server
        self._streaming: asyncio.Task[Any] | None = None

    @web.authenticated
    @authorized
    async def get(self, path: str = "") -> None:
        """Answer a request."""
        await self._answer(path)

    @web.authenticated
    @authorized
    async def post(self, path: str = "") -> None:
        """Answer a request."""
        await self._answer(path)

    @web.authenticated
    @authorized
    async def delete(self, path: str = "") -> None:
        """Answer a request."""
        await self._answer(path)

    async def _answer(self, path: str) -> None:
        limit = _MAX_UPLOAD_BYTES if path == "sources" else MAX_BODY_BYTES
        if len(self.request.body) > limit:
            raise web.HTTPError(413, f"The body is larger than {limit:,} bytes.")
        if path == "pending" and (requests := await asyncio.to_thread(self._server.stored_requests)) is not None:
            await self._send(Answer.of({"requests": requests}))
            return
        try:
            api = await self._server.api()
        except ArtifactFlowError as error:
            await self._send(Answer.of_error(error))
            return
        request = self.request
        query = {name: self.get_query_argument(name) for name in request.query_arguments}
        headers = {name.lower(): value for name, value in request.headers.items()}
        target = request.method or "GET", f"/{path}", self.current_user.username
        await self._send(await api.answer(ApiRequest(*target, query, headers, request.body)))

    async def _send(self, answer: Answer) -> None:
        self.set_status(answer.status)
        for name, value in answer.headers.items():
            self.set_header(name, value)
        if answer.stream is None:
            if answer.status == 204:  # noqa: PLR2004 - a status code
                self.clear_header("Content-Type")
            await self.finish(answer.body or None, set_content_type=answer.media_type)
            return
        self.set_header("Content-Type", answer.media_type)
        self._streaming = asyncio.current_task()
        try:
            await self.flush()
            async for part in answer.stream:
                self.write(part)
                await self.flush()
        except (StreamClosedError, asyncio.CancelledError):  # the client left
            return
        finally:
            self._streaming = None
            await answer.stream.aclose()
        await self.finish(set_content_type=answer.media_type)

    def on_connection_close(self) -> None:
        """End the stream of a client that has disconnected."""
        super().on_connection_close()
        if self._streaming is not None:
            self._streaming.cancel()


class ArtifactFlowPage(ArtifactFlowHandler):
    """Serves the page and its files."""

    def get_login_url(self) -> str:
        """Return the login page for a browser without a cookie; an API request is refused instead."""
        return str(JupyterHandler.get_login_url(self))

    async def _answer(self, path: str) -> None:
        if not path:
            self.xsrf_token  # noqa: B018 - sets the cookie that the requests of the page must repeat
        await self._send(
            page_file(path, await self._server.language()) or Answer.refusal(404, "NotFound", f"There is no {path!r}.")
        )


def _load_jupyter_server_extension(app: ServerApp) -> None:
    """Add the routes to a Jupyter server, which looks this function up by its name."""
    base = url_path_join(app.web_app.settings["base_url"], "artifactflow")
    server = app.web_app.settings[SERVER_SETTING] = ArtifactFlowServer(app, f"{base}/api/v1")
    app.web_app.add_handlers(  # type: ignore[no-untyped-call]
        ".*$",
        [
            (f"{base}/api/v1/(.*)", ArtifactFlowHandler, {"server": server}),
            (f"{base}/(.*)", ArtifactFlowPage, {"server": server}),
            (base, web.RedirectHandler, {"url": f"{base}/"}),
        ],
    )
