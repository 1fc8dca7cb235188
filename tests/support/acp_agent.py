"""A small agent of the Agent Client Protocol: `python acp_agent.py BEHAVIOUR FOLDER`.

It keeps the prompts and the variables of its environment in the folder. `write` asks for a permission, then calls
`create_artifact` in its text, and answers once the prompt has the result; `logged_out` refuses sessions; `end` ends in
the middle of a turn; `sleep` never answers; `deaf` neither reads its prompt nor ends at SIGTERM; a stop reason, also an
unknown one, ends the turn after a text.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import acp
from acp import schema

from artifactflow_nb.core.toolcalls.xml import format_call

BEHAVIOUR, FOLDER = sys.argv[1], Path(sys.argv[2])
OPTIONS = [
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class SmallAgent:
    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        if BEHAVIOUR == "logged_out":
            raise acp.RequestError.auth_required()
        (FOLDER / "environment.json").write_text(json.dumps({**os.environ, "cwd": cwd}))
        if BEHAVIOUR == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            asyncio.get_running_loop().call_later(0.1, self.sleep)
        return schema.NewSessionResponse(session_id="1")

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> schema.PromptResponse:
        text = prompt[0].text
        with (FOLDER / "prompts.jsonl").open("a") as file:
            file.write(json.dumps(text) + "\n")
        (FOLDER / f"{os.getpid()}.pid").touch()
        if BEHAVIOUR == "sleep":
            await asyncio.Event().wait()
        await self.client.session_update(session_id=session_id, update=acp.update_agent_thought_text("Hm."))
        if BEHAVIOUR not in {"write", "end"}:
            await self.say(session_id, "The note")
            return schema.PromptResponse.model_construct(stop_reason=BEHAVIOUR)
        if "Created" in text or BEHAVIOUR == "end":
            await self.say(session_id, "The note ")
            if BEHAVIOUR == "end":
                os._exit(3)
            await self.say(session_id, "is written.")
        else:
            call = schema.ToolCallUpdate(tool_call_id="1", title="rm -rf /")
            reply = await self.client.request_permission(session_id=session_id, tool_call=call, options=OPTIONS)
            (FOLDER / "permission.txt").write_text(reply.outcome.option_id)
            note = {"id": "note", "title": "Note", "content": "Otters sleep."}
            await self.say(session_id, format_call("create_artifact", note))
        usage = schema.Usage(total_tokens=12, input_tokens=10, output_tokens=2)
        return schema.PromptResponse(stop_reason="end_turn", usage=usage)

    def sleep(self) -> None:
        (FOLDER / f"{os.getpid()}.pid").touch()
        while True:
            time.sleep(1)

    async def say(self, session_id: str, text: str) -> None:
        await self.client.session_update(session_id=session_id, update=acp.update_agent_message_text(text))


agent: Any = SmallAgent()
asyncio.run(acp.run_agent(agent))
