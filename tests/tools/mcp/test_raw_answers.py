"""Invalid responses of MCP servers: the run continues, and its replay is equal."""

import sys
from pathlib import Path

from conftest import OpenWorkbench
from tools.mcp.conftest import calls

from artifactflow_nb.core.messages import ToolCall

SERVER = Path(__file__).parents[2] / "support" / "mcp_raw_server.py"
SERVERS = {"raw": {"command": sys.executable, "args": [str(SERVER)], "timeout_s": 3, "permission": "auto"}}


def test_unreadable_answers_are_reported_to_the_model(tmp_path: Path, workbench: OpenWorkbench) -> None:
    """Answers with 100,000 nested lists or a lone surrogate fail their own calls only."""
    turns = [[ToolCall(name, {}) for name in ("deep", "half", "nested", "plain")], "Done."]
    cassette = tmp_path / "c.jsonl"
    options = {"tool_protocol": "native", "interactive": False}
    with workbench(turns, mcp=SERVERS, record=cassette, **options) as wb:
        run = wb.ask("Go on?").wait(60)
        recorded, response = calls(wb), run.response
    assert (response, [entry.success for entry in recorded]) == ("Done.", [False, False, True, True])
    assert all("did not answer within 3 s" in entry.output for entry in recorded[:2])
    with workbench([], replay=cassette, data_dir=tmp_path / "played", **options) as wb:
        assert wb.ask("Go on?").wait(60).response == response
        assert calls(wb) == recorded
