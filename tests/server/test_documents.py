"""The examples of the guide run as they are written."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from server.conftest import Serve

from artifactflow_nb.models.offline.model import OfflineModel

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "server.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing.")
def test_examples_with_curl_run(serve: Serve, tmp_path: Path) -> None:
    client = serve(model=OfflineModel())
    [script] = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    script = script.replace("http://127.0.0.1:8765", client.base_url)
    done = subprocess.run(["sh", "-e"], input=script, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "event: complete" in done.stdout
    result, pending = done.stdout.rstrip().partition('{"run_id"')[2], '{"requests":[]}'
    assert result.endswith(pending)
    assert json.loads('{"run_id"' + result.removesuffix(pending))["status"] == "completed"


def test_page_names_every_path(serve: Serve) -> None:
    for path in serve().get("/openapi.json").json()["paths"]:
        written = path.replace("/{artifact_id}/versions/{version}", "[/{artifact_id}[/versions[/{n}]]]")
        assert written in PAGE or written.startswith("/artifacts/"), path
