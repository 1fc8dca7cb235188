"""Configuration of MCP servers: strict validation, and secrets that are never shown."""

import json
import os
from pathlib import Path

import pytest
from support.mcp_config import TOKEN

from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.engine.factories import known_values
from artifactflow_nb.engine.settings import SETTINGS_FILE, Settings
from artifactflow_nb.errors import UsageError
from artifactflow_nb.tools.mcp.config import read_servers

FILES = {"command": "npx", "args": ["-y", "server"], "env": {"LEVEL": "debug"}}


def test_configuration_below_mcpservers_is_read(tmp_path: Path) -> None:
    """The value of `mcpServers` in a JSON file equals a mapping of servers."""
    other = {
        "mcpServers": {"files": {**FILES, "type": "stdio"}, "far": {"type": "http", "url": "https://h.example/mcp"}}
    }
    (tmp_path / "mcp.json").write_text(json.dumps(other))
    read = read_servers(tmp_path / "mcp.json")
    assert read == read_servers(other) == read_servers(json.dumps(other))
    assert {name: server.transport_label for name, server in read.items()} == {"files": "npx", "far": "h.example"}
    assert read["files"].permission_for("anything") == "confirm"


@pytest.mark.parametrize(
    ("configured", "problem"),
    [
        (3, "mcp is int; it must map names to servers"),
        ("{", "mcp is not JSON: "),
        ("nowhere.json", "mcp names the file 'nowhere.json', which cannot be read: No such file"),
        ({"mcpServers": []}, "mcp.mcpServers is list; it must map names to servers."),
        ({"a b": FILES}, "mcp.a b: a server's name begins with a letter"),
        ({"files": "npx"}, "mcp.files is str; it must be a server: command, args, env"),
        ({"files": {}}, "mcp.files: it needs a command, or a url, and not both."),
        ({"files": {**FILES, "url": "http://h"}}, "mcp.files: it needs a command, or a url, and not both."),
        ({"files": {"url": "ftp://h"}}, "mcp.files.url: it must be an address that begins with http:// or https://."),
        ({"files": {"url": "http://h", "env": {"A": "b"}}}, "mcp.files: env does not go with a url."),
        ({"files": {**FILES, "headers": {"A": "b"}}}, "mcp.files: headers does not go with a command."),
        ({"files": {**FILES, "type": "http"}}, "mcp.files: type is 'http', which does not go with a command."),
        ({"files": {**FILES, "type": "sse"}}, "mcp.files.type: Input should be 'stdio', 'http'"),
        ({"files": {**FILES, "args": ["a", 3]}}, "mcp.files.args.1: Input should be a valid string."),
        ({"files": {**FILES, "env": {"A": 3}}}, "mcp.files.env.A: Input should be a valid string."),
        ({"files": {**FILES, "permission": "maybe"}}, "mcp.files.permission: it must be 'auto' or 'confirm', or one"),
        ({"files": {**FILES, "permission": {"x": 1}}}, "mcp.files.permission: it must be 'auto' or 'confirm', or one"),
        ({"files": {**FILES, "timeout_s": 0}}, "mcp.files.timeout_s: Input should be greater than 0."),
        (
            {"files": {**FILES, "trust": True}},
            "mcp.files.trust is not a setting of a server. Known: command, args, env, cwd, url",
        ),
        ({"files": {**FILES, "name": "x"}}, "mcp.files.name is not a setting of a server. Known: command"),
    ],
)
def test_invalid_configuration_is_reported_with_its_path(configured: object, problem: str) -> None:
    """The error has the path of each invalid value and the allowed values."""
    with pytest.raises(UsageError) as caught:
        read_servers(configured)
    assert problem in str(caught.value)


def test_all_invalid_parameters_are_reported_together() -> None:
    """Two invalid servers are one error."""
    with pytest.raises(UsageError, match=r"(?s)mcp\.a: it needs.*mcp\.b\.args"):
        read_servers({"a": {}, "b": {"command": "x", "args": 3}})


def test_environment_variables_are_substituted_at_the_start() -> None:
    """`${NAME}` is a variable of the environment; a missing variable is an error when the server starts."""
    configured = {"command": "${BIN}/x", "args": ["--root=${ROOT}"], "env": {"TOKEN": "${T}"}}
    server = read_servers({"files": configured})["files"]
    filled = server.with_environment({"BIN": "/bin", "ROOT": "/r", "T": TOKEN})
    assert (filled.command, filled.args) == ("/bin/x", ("--root=/r",))
    assert filled.env["TOKEN"].get_secret_value() == TOKEN
    with pytest.raises(UsageError, match=r"mcp\.files refers to the variable \$\{ROOT\}, which is not set"):
        server.with_environment({"BIN": "/bin"})


@pytest.mark.parametrize(
    "configured",
    [
        {"command": "x", "env": {"API_TOKEN": TOKEN}},
        {"command": "x", "env": {"API_TOKEN": "${MY_VARIABLE}"}},
        {"command": "x", "args": ["--api-key", TOKEN]},
        {"command": "x", "args": [f"--token={TOKEN}"]},
        {"url": "https://h.example/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}},
        {"url": "https://h.example/mcp", "headers": {"X-Anything": TOKEN}},
        {"url": f"https://ada:{TOKEN}@h.example/mcp"},
        {"url": f"https://h.example/mcp?api_key={TOKEN}"},
        {"url": f"https://h.example/{TOKEN}/mcp"},
    ],
)
def test_secret_is_never_shown_and_is_masked_in_results(configured: object, monkeypatch) -> None:
    """No view of a server or of the settings shows a secret, and a cassette contains no secret."""
    monkeypatch.setenv("MY_VARIABLE", TOKEN)
    settings = Settings.load(mcp={"files": configured})
    server = settings.mcp["files"]
    displayed = [repr(server), str(server), repr(settings), str(settings)]
    displayed += [str(server.model_dump())] if "env" in configured else []
    assert not [saved_output for saved_output in displayed if TOKEN in saved_output]
    assert TOKEN in server.secrets(os.environ)
    assert Redactor(known_values(settings, os.environ, ())).text(f"It says {TOKEN}!") == "It says [secret]!"


def test_plain_values_are_not_masked() -> None:
    """A log level, a folder or a word in the configuration is not a secret."""
    configured = {
        "command": "npx",
        "args": ["-y", "--root", "/home/ada/papers2026"],
        "env": {"LOG_LEVEL": "verbose-output"},
    }
    assert read_servers({"files": configured})["files"].secrets({}) == ()


def test_error_shows_no_secret() -> None:
    """An invalid value is reported with its path and type only."""
    with pytest.raises(UsageError) as caught:
        read_servers({"files": {"command": "x", "env": {"TOKEN": [TOKEN]}, "headers": TOKEN, TOKEN[:3]: 1}})
    assert TOKEN not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        read_servers(f'{{"files": {{"env": {{"TOKEN": "{TOKEN}"')
    assert TOKEN not in str(caught.value)


def test_settings_merge_all_sources_of_servers(tmp_path: Path, monkeypatch) -> None:
    """A server in an argument replaces the same server in the file; other servers of the file stay; AF_MCP is JSON."""
    monkeypatch.setenv("AF_TRUST_FOLDER", "1")
    (tmp_path / SETTINGS_FILE).write_text(
        '[mcp.files]\ncommand = "a"\nargs = ["b"]\n[mcp.far]\nurl = "http://h.example"\n'
    )
    assert set(Settings.load().mcp) == {"files", "far"}
    settings = Settings.load(mcp={"files": {"url": "http://other.example"}})
    assert {name: server.transport_label for name, server in settings.mcp.items()} == {
        "files": "other.example",
        "far": "h.example",
    }
    monkeypatch.setenv("AF_MCP", '{"mcpServers": {"third": {"command": 3}}}')
    with pytest.raises(UsageError, match=r"^mcp\.third\.command: Input should be a valid string\.$"):
        Settings.load()
