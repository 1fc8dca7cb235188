"""The settings file of a folder redirects, starts and decides nothing without the person's permission."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from support.chat_endpoint import Answer, ChatServer
from support.mcp_config import by_stdio, pids
from support.replies import by_agent, call, delegate
from support.web_server import Reply, WebServer

import artifactflow_nb as af
from artifactflow_nb.engine.folder_file import SETTINGS_FILE, TRUST_VARIABLE, permission_path
from artifactflow_nb.engine.settings import DECLARED, Settings
from artifactflow_nb.models.scripted import ScriptedModel

KEY = "sk-of-the-person-0123456789"
WAIT_S = 40
SECRET = "tok-very-secret-0123456789"  # noqa: S105 - it opens nothing


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, and a configuration folder of the user outside of it."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv(TRUST_VARIABLE)
    return folder


def refusal(**arguments: Any) -> str:
    """The error of making a workbench."""
    with pytest.raises(af.errors.UsageError) as refused:
        af.Workbench(**arguments)
    return str(refused.value)


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_allowed", [False, True])
def test_key_of_the_environment_never_goes_to_an_address_of_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, is_allowed: bool
) -> None:
    """The server that the file names receives nothing, also where the person allowed the file."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer([Answer("Hello.")] * 9) as server:
        (project / SETTINGS_FILE).write_text(f'base_url = "{server.base_url}"\nmodel = "m"\n')
        if is_allowed:
            af.trust_folder()
        message = refusal()
        monkeypatch.delenv("OPENAI_API_KEY")
        assert "a key is never sent to an address that a file" in refusal(api_key=KEY)
        assert server.requests == []
    assert f"sets base_url to '{server.base_url}', and the key comes from OPENAI_API_KEY or api_key=" in message
    assert "set OPENAI_BASE_URL or pass base_url=" in message
    assert KEY not in message


def test_custom_headers_of_the_environment_do_not_go_to_an_address_of_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The openai client adds OPENAI_CUSTOM_HEADERS, which may hold a key, to every request."""
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Key: {KEY}")
    (project / SETTINGS_FILE).write_text('base_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n')
    assert "the key comes from OPENAI_CUSTOM_HEADERS" in refusal()


def test_key_and_address_from_the_same_source_work(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either both are in the allowed file, or both are outside of it and the file names another address."""
    with ChatServer([Answer("Hello.")] * 2) as server:
        (project / SETTINGS_FILE).write_text(
            f'base_url = "{server.base_url}"\napi_key = "sk-of-the-file"\nmodel = "m"\n'
        )
        af.trust_folder()
        with af.Workbench() as wb:
            assert wb.ask("Hello?").wait(WAIT_S).response == "Hello."
        assert server.requests[0].headers["authorization"] == "Bearer sk-of-the-file"
        (project / SETTINGS_FILE).write_text('base_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n')
        af.trust_folder()
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with af.Workbench() as wb:
            assert wb.ask("Hello?").wait(WAIT_S).response == "Hello."
        assert server.requests[1].headers["authorization"] == f"Bearer {KEY}"


def test_tavily_key_does_not_go_to_a_search_server_of_the_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allowed SearXNG server gets the query and no key."""
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    lead, search = [delegate("search_agent", "Find."), "Done."], [call("web_search", query="fares"), "Ok."]
    model = ScriptedModel(by_agent(lead=lead, search=search))
    with WebServer({"/search": Reply(b'{"results": []}', content_type="application/json")}) as server:
        (project / SETTINGS_FILE).write_text(f'search = "searxng"\nsearxng_url = "{server.url("")}"\n')
        assert "sends search queries to" in refusal(model=model)
        assert server.requests == []
        af.trust_folder()
        with af.Workbench(model=model) as wb:
            wb.ask("What is the fare?").wait(WAIT_S)
        assert len(server.requests) == 1
        assert KEY not in str(server.requests)


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "TAVILY_API_KEY"])
def test_key_of_the_environment_never_goes_to_an_mcp_server_of_the_file(project: Path, variable: str) -> None:
    """A server in the file with an address cannot ask for the key; a server that is passed as an argument can."""
    server = {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": f"Bearer ${{{variable}}}"}}
    (project / "servers.json").write_text(json.dumps({"far": server}))
    (project / SETTINGS_FILE).write_text('mcp = "servers.json"\n')
    af.trust_folder()
    assert f"mcp.far, which {project / SETTINGS_FILE} configures, would send {variable}" in refusal()
    with af.Workbench(mcp={"far": server}) as wb:
        assert list(wb.settings.mcp) == ["far"]


# --- the permission --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_named", [False, True])
def test_program_of_the_file_starts_only_with_permission(project: Path, tmp_path: Path, is_named: bool) -> None:
    """A server of `[mcp]`, or of a JSON file that the file names, has no effect before the permission."""
    servers = json.dumps({"mcpServers": {"files": by_stdio(tmp_path, permission="auto")}})
    (project / ".mcp.json").write_text(servers)
    (project / SETTINGS_FILE).write_text('mcp = ".mcp.json"\n' if is_named else f"mcp = '''{servers}'''\n")
    model = ScriptedModel([call("note", text="x"), "Done."])
    message = refusal(model=model)
    assert "mcp.files: starts the program " in message
    assert "mcp_server.py" in message
    assert "its tools run without asking you" in message
    assert pids(tmp_path) == []
    af.trust_folder()
    with af.Workbench(model=model) as wb:
        assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert len(pids(tmp_path)) == 1


@pytest.mark.parametrize("changed", [SETTINGS_FILE, ".mcp.json", "my.yaml"])
def test_changed_file_needs_a_new_permission(project: Path, changed: str) -> None:
    """The permission holds for the bytes of the file, of the JSON file and of the YAML file that it names."""
    (project / ".mcp.json").write_text('{"far": {"url": "http://127.0.0.1:9/mcp"}}')
    (project / "my.yaml").write_text("agent: {max_tool_rounds: 3}\n")
    (project / SETTINGS_FILE).write_text('approvals = "deny"\nmcp = ".mcp.json"\ngraph_config = "my.yaml"\n')
    assert "you have not allowed it:" in refusal()
    af.trust_folder()
    for _ in range(2):
        assert Settings.load().approvals == "deny"
    path = project / changed
    path.write_text(path.read_text() + "\n")
    assert "it was changed since you allowed it:" in refusal()
    af.trust_folder()
    assert set(Settings.load().mcp) == {"far"}


def test_permission_is_for_one_folder(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the file in another folder may start another program, because its paths are relative."""
    (project / SETTINGS_FILE).write_text('approvals = "approve"\n')
    af.trust_folder()
    other = tmp_path / "other"
    other.mkdir()
    (other / SETTINGS_FILE).symlink_to(project / SETTINGS_FILE)
    monkeypatch.chdir(other)
    assert "you have not allowed it:" in refusal()
    af.trust_folder()
    assert Settings.load().approvals == "approve"
    monkeypatch.chdir(project)
    assert Settings.load().approvals == "approve"


def test_refusal_lists_the_effects_without_secrets(project: Path, tmp_path: Path) -> None:
    """Each setting that needs a permission has a line with its value; keys and passwords are not shown."""
    near = {"command": "sh", "args": ["-c", "echo hello", "--token", SECRET], "env": {"A_TOKEN": "${MY_TOKEN}"}}
    far = {"url": f"https://ada:{SECRET}@far.example/mcp?key={SECRET}", "headers": {"Authorization": SECRET}}
    (project / ".mcp.json").write_text(json.dumps({"near": near, "far": far}))
    lines = {
        "base_url": f"http://ada:{SECRET}@host.example/v1",
        "api_key": SECRET,
        "tavily_key": SECRET,
        "approvals": "approve",
        "data_dir": "../elsewhere",
        "record": "out.jsonl",
        "replay": "out.jsonl",
        "mode": "auto",
        "search": "ddgs",
        "searxng_url": f"http://ada:{SECRET}@search.example",
        "allowed_hosts": "localhost:8080\n\x1b[2K",
        "mcp": ".mcp.json",
        "model": "harmless",
    }
    written = "\n".join(f"{name} = {json.dumps(value)}" for name, value in lines.items())
    (project / SETTINGS_FILE).write_text(
        f"{written}\n[graph_config.approval]\nenabled = false\n[extra_body]\napi_key = '{SECRET}'\n"
    )
    message = refusal()
    for part in (
        str(project / SETTINGS_FILE),
        "base_url: sends prompts, with what was read for them, to 'http://host.example/v1'",
        "api_key: uses the key of somebody's account",
        "extra_body: adds fields to every request to a model: {'api_key': '[secret]'}",
        "tavily_key: uses the key of somebody's account",
        "approvals: answers 'approve' in your place",
        "graph_config: changes what agents may do and whether plans need your approval: {'approval': {'enabled': False",
        "data_dir: stores your work outside of this folder, in '../elsewhere'",
        "record: writes what runs said into 'out.jsonl'",
        "replay: plays recorded answers and decisions instead of asking, from 'out.jsonl'",
        "mode: changes whether runs are played, asked or recorded to 'auto'",
        "search: changes where web_search sends its queries to 'ddgs'",
        "searxng_url: sends search queries to 'http://search.example'",
        r"allowed_hosts: lets web_fetch reach hosts that are not public: 'localhost:8080\n\x1b[2K'",
        "mcp.near: starts the program 'sh' '-c' 'echo hello' '--token' '[secret]', with MY_TOKEN of the environment",
        "mcp.far: calls tools of the server 'https://far.example/mcp'",
        "`af.trust_folder()`",
        "AF_TRUST_FOLDER=1",
    ):
        assert part in message
    assert SECRET not in message
    assert "harmless" not in message
    trusted = af.trust_folder()
    texts = repr(trusted) + permission_path(project / SETTINGS_FILE).read_text()
    assert SECRET not in texts
    assert "approvals: answers 'approve' in your place" in repr(trusted)


def test_refusal_lists_every_server(project: Path) -> None:
    """The last of many servers is listed, and so is the end of a long command."""
    servers = {f"s{n}": {"command": "true"} for n in range(50)} | {"last": {"command": "sh", "args": ["x" * 200 + "!"]}}
    (project / ".mcp.json").write_text(json.dumps(servers))
    (project / SETTINGS_FILE).write_text('mcp = ".mcp.json"\n')
    assert f"mcp.last: starts the program 'sh' '{'x' * 200}!'" in refusal()


def test_harmless_settings_need_no_permission(project: Path) -> None:
    """A model's name, limits, prices and a store in the folder take effect without a stored permission."""
    (project / SETTINGS_FILE).write_text(
        'model = "m"\ntemperature = 0.5\ntimeout_s = 5\ntool_protocol = "native"\ndata_dir = "kept"\n'
        "[budget]\ntokens = 5\n[prices.m]\ninput = 1\noutput = 2\n"
    )
    settings = Settings.load()
    assert (settings.model, settings.data_dir, settings.tool_protocol) == ("m", project / "kept", "native")
    assert repr(af.trust_folder()) == f"{project / SETTINGS_FILE} sets nothing that needs a permission."
    assert not permission_path(project / SETTINGS_FILE).exists()


@pytest.mark.parametrize("folder", ["..", "/elsewhere", "~/notes", "kept/../../x", "link"])
def test_store_outside_of_the_folder_needs_a_permission(project: Path, tmp_path: Path, folder: str) -> None:
    """A path that leaves the folder, also through a link, may be readable for others."""
    (project / "link").symlink_to(tmp_path)
    (project / SETTINGS_FILE).write_text(f'data_dir = "{folder}"\n')
    assert f"data_dir: stores your work outside of this folder, in '{folder}'" in refusal()


def test_every_setting_is_harmless_or_needs_a_permission() -> None:
    """A new setting declares its effect, or must be added to this test."""
    harmless = {
        *(
            "model",
            "temperature",
            "reasoning_effort",
            "context_tokens",
            "prompt_cache",
            "timeout_s",
            "stall_timeout_s",
            "tool_protocol",
        ),
        *("clarify", "prices", "budget", "notify", "live", "language", "claims"),
    }
    assert {name for name, declared in DECLARED.items() if declared["effect"] is None} == harmless


def test_variable_allows_every_folder_in_ci(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AF_TRUST_FOLDER=1 allows the file and stores nothing; other values have no effect."""
    (project / SETTINGS_FILE).write_text('approvals = "approve"\n')
    monkeypatch.setenv("AF_TRUST_FOLDER", "yes")
    assert "you have not allowed it:" in refusal()
    monkeypatch.setenv("AF_TRUST_FOLDER", "1")
    assert Settings.load().approvals == "approve"
    assert not permission_path(project / SETTINGS_FILE).exists()


def test_settings_class_needs_the_permission_too(project: Path) -> None:
    """`af.Settings()` reads the same file."""
    (project / SETTINGS_FILE).write_text('approvals = "approve"\n')
    with pytest.raises(af.errors.UsageError, match=r"af\.trust_folder\(\)"):
        Settings()


# --- where permissions are stored ------------------------------------------------------------------------------------


def test_permissions_are_private_and_outside_of_the_folder(project: Path, tmp_path: Path) -> None:
    """Only the owner can read the file, it contains hashes, and no other file is created."""
    (project / SETTINGS_FILE).write_text('approvals = "approve"\n')
    trusted = af.trust_folder()
    path = permission_path(project / SETTINGS_FILE)
    assert trusted.stored_in == path
    assert path.parent == tmp_path / "config" / "artifactflow" / "trusted"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    folder, _, hashes = path.read_text().partition("\n")
    assert (json.loads(folder), json.loads(hashes)) == (str(project), trusted.files)
    assert [file.name for file in project.iterdir()] == [SETTINGS_FILE]


def test_permissions_are_in_the_home_folder_by_default(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is ~/.config if XDG_CONFIG_HOME is missing, or relative: the project could contain a relative path."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert permission_path(project / SETTINGS_FILE).parent == tmp_path / ".config" / "artifactflow" / "trusted"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert permission_path(project / SETTINGS_FILE).parent == tmp_path / ".config" / "artifactflow" / "trusted"


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\x00", b'"half of the permission\n{'])
def test_broken_permission_allows_nothing(project: Path, content: bytes) -> None:
    """A permission that was half written, or written by somebody else, counts as a permission for other files."""
    (project / SETTINGS_FILE).write_text('approvals = "approve"\n')
    permission_path(project / SETTINGS_FILE).parent.mkdir(parents=True)
    permission_path(project / SETTINGS_FILE).write_bytes(content)
    assert "it was changed since you allowed it:" in refusal()
    af.trust_folder()
    assert Settings.load().approvals == "approve"


def test_settings_file_and_store_of_one_folder_keep_their_permissions(project: Path) -> None:
    """With `data_dir = "."`, a new store does not take the permission of the file away."""
    (project / SETTINGS_FILE).write_text('approvals = "approve"\ndata_dir = "."\n')
    af.trust_folder()
    for _ in range(2):
        af.Workbench(model=ScriptedModel([])).close()
    assert Settings.load().approvals == "approve"


def test_permission_that_cannot_be_stored_is_an_error_with_the_path(project: Path) -> None:
    """In the test, a file is at the path of the folder for permissions."""
    (project / SETTINGS_FILE).write_text('approvals = "approve"\n')
    permission_path(project / SETTINGS_FILE).parent.parent.mkdir(parents=True)
    permission_path(project / SETTINGS_FILE).parent.write_text("no folder")
    with pytest.raises(af.errors.UsageError, match=f"cannot be stored in {permission_path(project / SETTINGS_FILE)}"):
        af.trust_folder()


def test_folder_without_a_file_has_nothing_to_allow(project: Path) -> None:
    """The error names the folder, which may be the wrong folder."""
    with pytest.raises(af.errors.UsageError, match=f"There is no {SETTINGS_FILE} in {project}"):
        af.trust_folder()


# --- files that cannot be read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"timeout_s = {'9' * 5000}\n", f"{SETTINGS_FILE} cannot be read: "),
        (f"model = {'[' * 50_000}\n", f"{SETTINGS_FILE} cannot be read: "),
        ('model = "a"\nmodel = "b"\n', f"{SETTINGS_FILE} cannot be read: Cannot overwrite a value"),
        ('mcp = "none.json"\n', "mcp names the file 'none.json', which cannot be read: No such file"),
        (
            'mcp = "a\\u0000b"\n',
            "mcp names the file 'a\\x00b', which cannot be read: a path cannot contain these characters (embedded null",
        ),
        ('graph_config = "~nobody-here/x.yaml"\n', "graph_config names the file '~nobody-here/x.yaml', which cannot"),
        ('timeout_s = "' + "x" * 100_000 + '"\n', "The setting timeout_s (AF_TIMEOUT_S) is 'xxx"),
        ("timeout_s = 1979-05-27\n", "The setting timeout_s (AF_TIMEOUT_S) is datetime.date(1979, 5, 27)"),
        ("timeout_s = nan\n", "The setting timeout_s (AF_TIMEOUT_S) is nan"),
    ],
)
def test_error_for_an_unusable_value_is_short(project: Path, text: str, problem: str) -> None:
    """The error names the file or the setting, also if Python itself refuses the number."""
    (project / SETTINGS_FILE).write_text(text)
    message = refusal()
    assert problem in message
    assert len(message) < 1000
