"""Cells that the browser tests run: a model that streams for a while, then asks before it writes."""

QUESTION = "What happens to a run?"
TELLING = """import artifactflow_nb as af
text = "\\n\\n".join(f"Paragraph {i} of what is told." for i in range(40))
report = ("<tool_call><name>create_artifact</name><params><id>research_report</id><title>Report</title>"
          "<content># Found\\n\\nIt goes on.</content></params></tool_call>")
"""
ASK = f"""{TELLING}wb = af.Workbench(model=af.ScriptedModel([text + report, "It is written."], delay_s=0.03),
                  approvals={{"create_artifact": "ask"}})
run = wb.ask({QUESTION!r})
run"""
"""Streams for about two seconds, then waits for an approval, then says that it is written."""

ASK_AT_ONCE = f"""{TELLING}wb = af.Workbench(model=af.ScriptedModel([report, "It is written."]),
                  approvals={{"create_artifact": "ask"}})
run = wb.ask({QUESTION!r})
run"""
"""Waits for an approval at once."""

ASK_SLOWLY = f"""{TELLING}wb = af.Workbench(model=af.ScriptedModel([text * 2], delay_s=0.05))
run = wb.ask({QUESTION!r})
run"""
"""Streams for about eight seconds."""

HURRY = "wb._thread.engine.model._delay_s = 0"
"""What still streams is there at once."""

AWAIT = """import time
started = time.monotonic()
await run
print(run.status, "after", "some time" if time.monotonic() - started < 30 else "too long")"""

COMPUTE = """import os, time
start, rounds = time.time(), 0
while not os.path.exists("enough") and time.time() - start < 60:
    rounds += sum(i * i for i in range(2_000_000)) > 0
print(f"computed {rounds > 0}")"""
"""Holds the kernel until there is a file `enough` beside the notebook.

It looks for the file seldom: a thread that lets go of the interpreter's lock for an instant, oftener than the switch
interval of 5 ms, starves every other thread (CPython restarts their wait each time), and would hold up what is tested.
"""

BROKEN = ("Error displaying widget", "model not found", "Loading widget", "Click to show javascript error")
"""What front ends say of a widget that they cannot show."""
