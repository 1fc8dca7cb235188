"""Settings: their sources, their precedence and their errors."""

import copy
import json
import pickle
from pathlib import Path

import pytest

import artifactflow_nb as af
from artifactflow_nb.core.budget import Budget, Price
from artifactflow_nb.engine.factories import make_model
from artifactflow_nb.engine.settings import ENVIRONMENT_VARIABLES, SETTINGS_FILE, Settings
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.scripted import ScriptedModel

KEY = "sk-very-secret-key"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in ENVIRONMENT_VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def test_defaults_need_no_configuration():
    """No endpoint is configured, the person is asked, and the store is in the working directory."""
    settings = Settings.load()
    assert not settings.endpoint_configured
    assert (settings.approvals, settings.data_dir, settings.timeout_s) == ("ask", Path.cwd() / ".artifactflow", 600.0)


def test_arguments_override_the_environment_and_it_overrides_the_file(folder, monkeypatch):
    (folder / SETTINGS_FILE).write_text('model = "file"\ntimeout_s = 1\ndata_dir = "from-file"\n')
    monkeypatch.setenv("AF_MODEL", "environment")
    monkeypatch.setenv("AF_TIMEOUT_S", "2")
    settings = Settings.load(model="argument")
    assert (settings.model, settings.timeout_s, settings.data_dir) == ("argument", 2.0, folder / "from-file")


def test_none_as_an_argument_leaves_a_setting_to_the_environment(monkeypatch):
    """Callers can pass on their own optional arguments."""
    monkeypatch.setenv("AF_APPROVALS", "deny")
    assert Settings.load(approvals=None).approvals == "deny"


def test_empty_variable_is_ignored(monkeypatch):
    """An empty variable does not configure an endpoint."""
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert not Settings.load().endpoint_configured


def test_variables_of_other_programs_are_not_read(monkeypatch):
    """MODEL, for example, is not documented and has no effect."""
    monkeypatch.setenv("MODEL", "somebody-elses")
    assert Settings.load().model is None


@pytest.mark.parametrize(
    "values", [{"base_url": "http://localhost:1/v1"}, {"api_key": KEY}, {"base_url": "https://h/v1", "api_key": KEY}]
)
def test_an_address_or_a_key_configures_an_endpoint(values):
    """A key alone implies the client's default address."""
    settings = Settings.load(model="m", **values)
    assert settings.endpoint_configured
    assert settings.base_url == values.get("base_url")


def test_error_for_an_endpoint_without_a_model_has_advice(workbench):
    """The error says where to set the model's name; a key for other programs does not concern a model object."""
    with pytest.raises(UsageError, match="Set AF_MODEL to the name of a model at the endpoint, or pass model="):
        make_model(Settings.load(api_key=KEY))
    wb = workbench(model=ScriptedModel(["Fine."]), api_key=KEY)
    assert wb.ask("Well?").wait().response == "Fine."


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("base_url", "localhost:8000", "begins with http:// or https://"),
        ("approvals", "yes", "'ask', 'approve' or 'deny'"),
        ("timeout_s", "soon", "a number of seconds above 0"),
        ("timeout_s", -1, "a number of seconds above 0"),
        ("timeout_s", float("inf"), "a number of seconds above 0"),
        ("temperature", 3, "a number from 0 to 2"),
        ("model", "", "a text that is not empty"),
        ("data_dir", 3, "the path of a folder"),
    ],
)
def test_error_for_a_bad_value_lists_allowed_values(name, value, allowed):
    """The error names the setting, its variable and the value."""
    with pytest.raises(UsageError) as caught:
        Settings.load(**{name: value})
    for part in (name, ENVIRONMENT_VARIABLES[name], repr(value), allowed):
        assert part in str(caught.value)


def test_all_bad_values_are_in_one_error(folder, monkeypatch):
    """Two mistakes in an allowed file are both named."""
    monkeypatch.setenv("AF_TRUST_FOLDER", "1")
    (folder / SETTINGS_FILE).write_text('timeout_s = "soon"\napprovals = "yes"\n')
    with pytest.raises(UsageError, match=r"(?s)timeout_s.*approvals"):
        Settings.load()


def test_key_is_never_shown(folder, monkeypatch):
    """Neither the repr nor an error nor the cause of an error contains the key."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    settings = Settings.load(model="m")
    assert "**********" in repr(settings)
    assert KEY not in repr(settings) + str(settings)
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("AF_TRUST_FOLDER", "1")
    (folder / SETTINGS_FILE).write_text(f'api_key = ["{KEY}"]\ntimeout_s = 0\n')
    with pytest.raises(UsageError) as caught:
        Settings.load()
    assert KEY not in str(caught.value)
    assert caught.value.__suppress_context__


def test_unknown_key_in_the_file_lists_known_keys(folder):
    """The error names the key and the file."""
    (folder / SETTINGS_FILE).write_text('modell = "m"\n')
    with pytest.raises(UsageError) as caught:
        Settings.load()
    for part in (SETTINGS_FILE, "'modell'", *ENVIRONMENT_VARIABLES):
        assert part in str(caught.value)


def test_unknown_argument_lists_known_arguments():
    """A misspelt argument is not ignored: the error proposes the nearest argument, if any is near."""
    with pytest.raises(UsageError, match=r"'modle'\. Did you mean model\? Known: base_url, api_key, model"):
        Settings.load(modle="m")
    with pytest.raises(UsageError, match=r"'xyz'\. Known: base_url"):
        Settings.load(xyz="m")


@pytest.mark.parametrize("content", [b'model = "m\n', b'model = "\xff"\n'])
def test_unreadable_file_is_named(folder, content):
    """The error has the path of the file."""
    (folder / SETTINGS_FILE).write_bytes(content)
    with pytest.raises(UsageError, match=r"artifactflow\.toml cannot be read"):
        Settings.load()


def test_home_folder_is_expanded(folder, monkeypatch):
    """`~` in the data folder is expanded in each source of settings."""
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("AF_DATA_DIR", "~/kept")
    assert Settings.load().data_dir == folder / "kept"


def test_password_in_an_address_is_never_shown():
    """Neither the settings nor the error for an unusable address show the password."""
    settings = Settings.load(base_url="http://ada:hunter2@127.0.0.1/v1", model="m")
    assert "hunter2" not in repr(settings) + str(settings)
    assert settings.base_url == "http://ada:hunter2@127.0.0.1/v1"
    with pytest.raises(UsageError) as refused:
        Settings.load(base_url="ftp://ada:hunter2@127.0.0.1/v1", model="m")
    assert "hunter2" not in str(refused.value)


def test_no_form_of_the_settings_contains_a_secret():
    """Texts, dumps, copies and pickles lack keys, logins, secret fields of requests and arguments of programs."""
    secret = KEY
    servers = {
        "files": {"command": "npx", "args": ["--token", secret, f"--key={secret}"], "env": {"TOKEN": secret}},
        "web": {
            "url": f"https://u:{secret}@m.example/x?key={secret}",
            "headers": {"Authorization": f"Bearer {secret}"},
        },
    }
    settings = Settings.load(
        base_url=f"https://bob:{secret}@h.example/v1?api-key={secret}",
        api_key=secret,
        searxng_url=f"http://u:{secret}@s.example",
        extra_body={"api_key": secret, "top_p": 0.5, "inner": [{"authorization": f"Bearer {secret}"}]},
        mcp=servers,
    )
    forms = [str, repr, Settings.model_dump, Settings.model_dump_json, pickle.dumps]
    assert [form.__name__ for form in forms if secret in str(form(settings))] == []
    assert secret not in str([vars(copy.copy(settings)), vars(copy.deepcopy(settings))])
    for server in settings.mcp.values():
        assert not [form for form in (str, repr, type(server).model_dump) if secret in str(form(server))]
        with pytest.raises(UsageError, match="cannot be pickled"):
            pickle.dumps(server)
    model = af.OpenAIModel(f"https://bob:{secret}@h.example/v1", secret, "m", extra_body={"api_key": secret})
    assert secret.encode() not in pickle.dumps(model)
    dumped = settings.model_dump()
    assert (dumped["base_url"], dumped["extra_body"]["top_p"]) == ("https://h.example/v1", 0.5)
    assert settings.model_copy(update={"model": "m"}).base_url == settings.base_url


def test_prices_and_budget_from_each_source(folder, monkeypatch):
    """Tables in the file, JSON in the environment and values as arguments give the same settings."""
    prices, budget = {"m": {"input": 2.5, "output": 10.0}}, {"tokens": 1000, "when_spent": "ask"}
    settings = Settings.load(prices=prices, budget=budget)
    (folder / SETTINGS_FILE).write_text(
        '[budget]\ntokens = 1000\nwhen_spent = "ask"\n[prices.m]\ninput = 2.5\noutput = 10.0\n'
    )
    assert Settings.load() == settings
    (folder / SETTINGS_FILE).unlink()
    monkeypatch.setenv("AF_PRICES", json.dumps(prices))
    monkeypatch.setenv("AF_BUDGET", json.dumps(budget))
    assert Settings.load() == settings
    assert (settings.prices["m"], settings.budget) == (
        Price(input=2.5, output=10),
        Budget(tokens=1000, when_spent="ask"),
    )


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AF_BUDGET", "lots", r"budget \(AF_BUDGET\) is 'lots': it must be some of these, as in"),
        ("AF_BUDGET", '{"tokens": -5}', r"budget\.tokens \(AF_BUDGET\) is -5"),
        ("AF_BUDGET", '{"token": 5}', r"budget\.token \(AF_BUDGET\) is 5"),
        ("AF_PRICES", '{"m": {"input": 1}}', r"prices\.m\.output \(AF_PRICES\)"),
        ("AF_TOOL_PROTOCOL", "json", r"tool_protocol \(AF_TOOL_PROTOCOL\) is 'json': it must be 'auto', 'xml' or "),
    ],
)
def test_error_for_a_nested_setting_names_its_part(folder, monkeypatch, variable, value, message):
    """The error names the setting, the part, its value and the expected form."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=message):
        Settings.load()
