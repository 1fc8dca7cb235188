"""Notebook cells for the browser tests: a model that streams text, then asks for permission to write."""

QUESTION = "What happens to a run?"
AS_WIDGETS = 'import os\nos.environ["AF_LIVE"] = "widget"\n'
"""Live views are widgets, as in front ends that run no script of the page."""
REPLIES = """import artifactflow_nb as af
text = "\\n\\n".join(f"Paragraph {i} of the answer." for i in range(40))
report = ("<tool_call><name>create_artifact</name><params><id>research_report</id><title>Report</title>"
          "<content># Found\\n\\nIt goes on.</content></params></tool_call>")
"""
ASK = f"""{REPLIES}wb = af.Workbench(model=af.ScriptedModel([text + report, "It is written."], delay_s=0.06),
                  approvals={{"create_artifact": "ask"}})
run = wb.ask({QUESTION!r})
run"""
"""Streams for about four seconds, waits for an approval, then replies that it is written."""

ASK_AT_ONCE = f"""{REPLIES}wb = af.Workbench(model=af.ScriptedModel([report, "It is written."]),
                  approvals={{"create_artifact": "ask"}})
run = wb.ask({QUESTION!r})
run"""
"""Waits for an approval immediately."""

ASK_SLOWLY = f"""{REPLIES}wb = af.Workbench(model=af.ScriptedModel([text * 2], delay_s=0.2))
run = wb.ask({QUESTION!r})
run"""
"""Streams for about half a minute."""

STOP_DELAYS = "wb._thread.engine.model._delay_s = 0"
"""Streams the rest of the answer without delays."""

AWAIT = """await run
print("awaited", run.status)"""

COMPUTE = """import os, time
start, rounds = time.time(), 0
while not os.path.exists("enough") and time.time() - start < 60:
    rounds += sum(i * i for i in range(2_000_000)) > 0
print(f"computed {rounds > 0}")"""
"""Blocks the kernel until there is a file `enough` in the folder of the notebook.

It rarely looks for the file: a thread that releases the interpreter lock more often than the switch interval of 5 ms
starves every other thread, because CPython restarts their wait each time.
"""

WIDGET_ERRORS = ("Error displaying widget", "model not found", "Loading widget", "Click to show javascript error")
"""Messages of front ends that cannot display a widget."""
