"""The engine's thread prints nothing: in a notebook its output would appear below another cell."""

import subprocess
import sys
from pathlib import Path

TOUR = """
import sys, time
sys.path.insert(0, sys.argv[1])
from contextlib import suppress
import artifactflow_nb as af
from support.replies import call, delegate, report

@af.tool
async def broken(ctx: af.ToolContext) -> str:
    "Break."
    raise OSError("the printer is on fire")

@af.tool(timeout_s=0.05)
def slow(ctx: af.ToolContext) -> str:
    "Take long."
    time.sleep(0.3)
    raise OSError("too late")

def deaf(event):
    raise ValueError("a listener that fails")

turns = [
    report(), "Written.",
    call("broken") + call("slow") + call("nothing"), "Told.",
    delegate("search_agent", "look"), af.errors.ModelRejected("no such model"), "Not found.",
    af.errors.ModelUnavailable("The stream broke.", partial="Half an ans"),
    report("again", "other"), "Denied.",
]
wb = af.Workbench(model=af.ScriptedModel(turns), approvals={"create_artifact": "ask"}, interactive=False)
for entry in (broken, slow):
    wb.tool(entry)
wb.ask("Write.").wait().approve().wait()
run = wb.ask("Use tools.")
wb._thread.call(wb._thread.engine.controller.subscribe(run.run_id, deaf))
run.wait()
wb.ask("Delegate.").wait()
wb.ask("Fail.").wait()
wb.ask("Write again.").wait().deny("No.").wait()
with suppress(af.errors.ArtifactFlowError):
    run.approve("req-x")
wb.close()

slow_model = af.ScriptedModel(["Slowly. " * 500] * 3, delay_s=0.005)
wb = af.Workbench(model=slow_model)
stopped, left = wb.ask("Stop me."), wb.ask("Leave me.")
time.sleep(0.1)
stopped.cancel()
time.sleep(0.4)
wb.close()
sys.exit(len(wb.runs_df()) != 7)
"""


def test_runs_print_nothing(tmp_path: Path) -> None:
    """Answers, errors, denials, late threads, failing listeners, a cancellation and a close print nothing."""
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", TOUR, str(Path(__file__).parents[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
