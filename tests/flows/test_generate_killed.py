"""A process that is killed while it writes blocks: another process writes the rest, and nothing twice."""

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import OpenWorkbench
from flows.test_generate import Writer, name_of
from support.forked_python import fast_python

TESTS = Path(__file__).parent.parent

DIES = """
import os, sys
sys.path[:0] = [sys.argv[2]]
import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from flows.test_generate import name_of

def reply(request):
    if name_of(request) == sys.argv[3]:
        os.kill(os.getpid(), 9)
    return "Text of " + name_of(request)

model = ScriptedModel([])
wb = af.Workbench(model=model, data_dir=sys.argv[1], agent_models={"writer": ScriptedModel(reply)}, interactive=False)
project = wb.projects.start("Essay", template="paper")
for name, needs in {"A": [], "B": ["A"], "C": ["B"], "D": ["A", "C"]}.items():
    project.add(name, depends_on=needs, auto_generate=True)
project.generate().wait()
"""


@pytest.mark.parametrize("dies_at", ["A", "B", "D"])
async def test_another_process_writes_the_remaining_blocks(
    tmp_path: Path, workbench: OpenWorkbench, dies_at: str
) -> None:
    """After a kill at the first, a middle or the last block each block is written once."""
    code = [*fast_python(), "-c", DIES, str(tmp_path / "data"), str(TESTS), dies_at]
    killed = await asyncio.to_thread(subprocess.run, code, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    writer = Writer()
    wb = workbench(agent_models={"writer": writer}, interactive=False)
    [run] = wb.runs(unfinished=True)
    assert (await run.resume()).status == "completed"
    names = ["A", "B", "C", "D"]
    assert [name_of(request) for request in writer.requests] == names[names.index(dies_at) :]
    blocks = wb.projects.start("Essay").blocks
    assert [(block.name, block.status, len(block.versions)) for block in blocks] == [
        (name, "completed", 2) for name in names
    ]
