"""One of several processes that write to the same store: `python two_writers.py STORE NAME TURNS`.

It opens the store, which may not be there yet, waits until the file STORE.go appears, and writes its turns. What it
has written is its last line of output, as JSON.
"""

import asyncio
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from artifactflow_nb.core.approvals import ApprovalRequest, Decision
from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.messages import Message, ToolCall, ToolResult, Usage
from artifactflow_nb.errors import Conflict
from artifactflow_nb.store.approvals import ApprovalStore
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship
from artifactflow_nb.store.calls import CallStore, LlmCall, ToolRun
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.runs import COMPLETED, NewRun, RunStore, event_row

CONVERSATION, ROOT, LEDGER = "conv-shared", "msg-root", "ledger"
WRITES_PER_TURN = 8


class Writer:
    """Writes turns as a run does: message, call, request, decision, result, artifact, end."""

    def __init__(self, database: Database, name: str) -> None:
        self.name = name
        self.conflicts = 0
        self._runs = RunStore(database)
        self._calls, self._requests = CallStore(database), ApprovalStore(database)
        self._artifacts = ArtifactManager(database, SystemClock())

    async def begin_conversation(self) -> None:
        """Create the conversation of all writers."""
        await self._runs.create(self._new_run(ROOT, None, known=False), CONVERSATION)
        await self._end(f"run-{ROOT}")
        await self._artifacts.create(Authorship(CONVERSATION, ROOT, "lead_agent"), LEDGER, "Ledger", "")

    def _new_run(self, key: str, parent: str | None, *, known: bool) -> NewRun:
        return NewRun(
            run_id=f"run-{key}",
            conversation_id=CONVERSATION if known else None,
            message_id=key,
            thread_id=f"thd-{key}",
            parent=parent,
            question=f"What is {key}?",
            flow="research",
            owner="eng-1",
            package_version="0",
            started_at=datetime.now(UTC),
        )

    async def _end(self, run_id: str) -> None:
        end = StreamEvent(StreamEventType.COMPLETE, datetime.now(UTC), 3, run_id)
        await self._runs.finish(run_id, COMPLETED, end, response="It is.")

    async def turn(self, number: int) -> None:
        """Write one turn in eight writes, plus one for each conflict with another writer."""
        key = f"{self.name}-{number}"
        run_id, call_id, tool_call_id = f"run-{key}", f"call-{key}", f"tool-{key}"
        now = datetime.now(UTC)
        start = event_row(StreamEvent(StreamEventType.TOOL_START, now, 2, run_id, "lead_agent", "rewrite_artifact"))
        prompt = (Message("system", "Be brief."), Message("user", key))
        call = LlmCall(call_id, run_id, run_id, 1, "lead_agent", "test", "m", prompt, now, now, 1.0, usage=Usage(3, 4))
        request = ApprovalRequest(f"ask-{key}", run_id, "tool", "lead_agent", "t", {}, "?", tool_call_id=tool_call_id)
        done = ToolRun(tool_call_id, ToolResult(success=True, data="Done."), "approved", now, now, 1.0)
        await self._runs.create(self._new_run(key, ROOT, known=True), "unused")
        await self._calls.record_model_call(
            call, [(tool_call_id, ToolCall("rewrite_artifact", {"n": str(number)}))], []
        )
        await self._requests.create(request, run_id, now, [], [])
        await self._requests.decide({request.id: Decision(approved=True)}, now)
        await self._calls.start(tool_call_id, now, [start])
        await self._add_to_ledger(key)
        await self._calls.finish([done])
        await self._end(run_id)

    async def _add_to_ledger(self, key: str) -> None:
        """Read, change and write; repeat if another process wrote meanwhile."""
        by = Authorship(CONVERSATION, ROOT, "lead_agent")
        while True:
            present = await self._artifacts.read(CONVERSATION, LEDGER, message_id=ROOT)
            text, version = f"{present.content}{key}\n", present.version
            await asyncio.sleep(0.001)  # somebody thinks
            try:
                await self._artifacts.revise(by, LEDGER, text, update_type="update", expected_version=version)
            except Conflict:
                self.conflicts += 1
            else:
                return


def wait_for_the_others(path: Path, name: str) -> None:
    Path(f"{path}.{name}").touch()
    while not Path(f"{path}.go").exists():
        time.sleep(0.005)


async def main(path: Path, name: str, turns: int) -> None:
    database = Database(path)
    await database.open()
    await asyncio.to_thread(wait_for_the_others, path, name)
    writer = Writer(database, name)
    for number in range(turns):
        await writer.turn(number)
    print(json.dumps({"conflicts": writer.conflicts}))  # noqa: T201
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
