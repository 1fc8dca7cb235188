"""No secret gets into a cassette, whatever it looks like and wherever it stands; prose stays as it is."""

import base64
import json
import time
from dataclasses import replace
from pathlib import Path
from pydoc_data.topics import topics
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings.generated import START, a_call, a_run, a_turn, runs
from recordings.secret_corpus import BODY, OTHERS, PLAIN, SECRETS, VARIABLES
from spent import no_collection

import artifactflow_nb as af
from artifactflow_nb.approvals import Decision
from artifactflow_nb.messages import Message, ToolCall, ToolResult
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.cassette_file import CassetteFile
from artifactflow_nb.recordings.pieces import Piece
from artifactflow_nb.recordings.secret_names import MASK, is_secret_variable
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.values import Failure, Prompt, RecordedAsk, RecordedRun

ROOT = Path(af.__file__).parents[1]
KNOWN = ("plain words and ümlauts", "tavily/key+with=odd&signs", 'quotes " and \\ too', "ABCDEFGH")


def planted(secret: str, text: str) -> RecordedRun:
    """A run that has a text in all the places that a text can have."""
    params = {"url": text, "more": [{text: text}], "password": secret}
    call = a_call(
        args=params,
        unreadable=text,
        result=ToolResult(success=False, data=text, error=text, metadata={"headers": {"note": text}}),
        ask=RecordedAsk(
            "tool", text, START, START, Decision(approved=True, instruction=text, params={"x": text}), settled=True
        ),
    )
    turn = a_turn(content=text, calls=(call,))
    messages = (Message("system", text), Message("assistant", "", (ToolCall("t", params, text),)))
    prompt = Prompt(messages, "m", tools=(params,))
    assert turn.reply is not None
    reply = replace(turn.reply, reasoning=text, calls=(ToolCall("t", params),))
    failed = a_turn(step=2, failure=Failure("ModelUnavailable", text, text))
    return a_run(
        question=text,
        response=text,
        settings={"note": text},
        error_message=text,
        manifest={"environment": [text]},
        budget_asks=(RecordedAsk("budget", text, START),),
        turns=(replace(turn, prompt=prompt, reply=reply), replace(failed, reply=None, pieces=())),
    )


def recorded(path: Path, run: RecordedRun, masker: Masker | None = None) -> bytes:
    with CassetteFile(path, masker) as file:
        file.add(run)
    assert Cassette.open(path).run(run.run_id) == (masker or Masker()).run(run)
    return path.read_bytes()


def spellings(secret: str) -> list[bytes]:
    forms = [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, safe="")]
    return [form.encode() for form in forms] + [base64.b64encode(secret.encode())]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:12])
def test_secrets_that_show_themselves_are_not_in_the_file(tmp_path: Path, secret: str) -> None:
    """Keys of well-known forms, headers, addresses and parameters are masked in every place; the rest stays."""
    text = SECRETS[secret].format(secret)
    content = recorded(tmp_path / "x.jsonl", planted(secret, text))
    assert [form for form in spellings(secret) if form in content] == []
    before, _, after = text.partition(secret)
    assert Masker().text(text) == f"{before}{MASK}{after}"


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:12])
def test_a_secret_is_masked_alike_however_its_text_is_written(secret: str) -> None:
    """In a call as JSON or as XML writes it, what is masked is what is masked in the parameter that is read of it."""
    text = SECRETS[secret].format(secret)
    written = json.dumps({"note": text})
    assert json.loads(Masker().text(written)) == {"note": Masker().text(text)}
    xml = "<tool_call><name>t</name><params><note><![CDATA[{}]]></note></params></tool_call>"
    assert Masker().text(xml.format(text)) == xml.format(Masker().text(text))


@pytest.mark.parametrize("secret", KNOWN)
def test_known_secrets_are_not_in_the_file(tmp_path: Path, secret: str) -> None:
    """A secret that is known is masked as it is and as JSON, addresses, HTML and base64 write it."""
    spelled = [form.decode() for form in spellings(secret)]
    text = " ".join([f"It is {secret}!", *spelled, json.dumps({"a": json.dumps(secret)})])
    content = recorded(tmp_path / "x.jsonl", planted(secret, text), Masker([secret]))
    assert [form for form in spellings(secret) if form in content] == []


def test_settings_and_environment_say_what_is_secret() -> None:
    """Both keys of the settings, and variables whose names and values say so."""
    given = af.Settings.load(base_url="http://h/v1", model="m", api_key="abc-123", tavily_key="def-456")
    masker = Masker.of(given, VARIABLES | OTHERS)
    assert masker.text(f"abc-123 def-456 {' '.join(VARIABLES.values())}") == " ".join([MASK] * (len(VARIABLES) + 2))
    assert "abc-123" not in repr(masker)


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_that_are_secret(name: str) -> None:
    """Each of whole words that say so, with a value that no text has by chance."""
    assert is_secret_variable(name, VARIABLES[name])


@pytest.mark.parametrize("name", OTHERS)
def test_variables_that_are_not(name: str) -> None:
    """Counts, paths, words and what is only told of a secret do not blot out texts."""
    assert not is_secret_variable(name, OTHERS[name])


@pytest.mark.parametrize("secret", ["", " ", "k", "EMPTY", "none", "[secret]", "secret"])
def test_placeholders_are_no_secrets(secret: str) -> None:
    """What people write where no key is needed does not blot out words."""
    text = "An EMPTY key k is none, and [secret] stands for a secret."
    assert Masker([secret]).text(text) == text


def test_a_secret_that_came_in_pieces_is_masked_in_all_of_them(tmp_path: Path) -> None:
    """The pieces make up the masked text; those that only held a part of the secret are empty, and their times stay."""
    secret = next(iter(SECRETS))
    content = f"Use {secret} now, and `{secret}` then."
    for size in (1, 3, 50):
        parts = [content[at : at + size] for at in range(0, len(content), size)]
        pieces = tuple(Piece("answer", "", part, START, seq) for seq, part in enumerate(parts))
        raw = Piece("call", "t", f'{{"api_key": "{secret}"}}', START, 99)
        turn = replace(a_turn(content=content), pieces=(*pieces, raw))
        masked = Masker().run(a_run(turns=[turn])).turns[0]
        said = "".join(piece.text for piece in masked.pieces if piece.kind == "answer")
        assert masked.reply is not None
        assert said == masked.reply.content == f"Use {MASK} now, and `{MASK}` then."
        assert [(piece.at, piece.seq) for piece in masked.pieces] == [(piece.at, piece.seq) for piece in turn.pieces]
        assert masked.pieces[-1].text == f'{{"api_key": "{MASK}"}}'
        assert secret.encode() not in recorded(tmp_path / f"{size}.jsonl", a_run(turns=[turn]))


def test_a_masked_reply_is_read_as_the_masked_call() -> None:
    """A parameter is masked alike in the text of a reply and in the call that was read from it."""
    xml = "<tool_call><name>t</name><params><api_key><![CDATA[{}]]></api_key></params></tool_call>"
    for value in ("hunter2", "a text", "OPENAI_API_KEY", "sk-proj-aB3dE5gH7jK9mN1pQ3sT5", "", "abc"):
        turn = a_turn(content=xml.format(value), calls=(a_call(args={"api_key": value}),))
        masked = Masker().run(a_run(turns=[turn]))
        reply, call = masked.turns[0].reply, masked.turns[0].calls[0]
        assert reply is not None
        assert reply.content == xml.format(call.args["api_key"])


def test_a_prompt_is_masked_as_its_recording_is() -> None:
    """So a request that is made again finds its recording."""
    run = planted("hunter2", "password='hunter2'")
    masker = Masker(["sources-secret"])
    assert masker.masked(run.turns[0].prompt) == masker.run(run).turns[0].prompt != run.turns[0].prompt
    plain = a_run()
    assert masker.run(plain) is plain


# --- what stays ------------------------------------------------------------------------------------------------------

PROSE = [
    *[ROOT / "README.md", ROOT / "CHANGELOG.md"],
    *sorted((ROOT / "artifactflow_nb").rglob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
    *sorted((ROOT / "data").rglob("*.md")),
]

MASKER = Masker(["sk-of-nobody-0123456789", "a-password-of-nobody"])


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_ordinary_prose_stays(path: Path) -> None:
    """What is written about keys and tokens is no secret."""
    text = path.read_text(encoding="utf-8")
    assert MASKER.text(text) == text


def test_the_reference_of_python_stays() -> None:
    """Half a megabyte about a language full of keys, tokens and addresses has no secret in it."""
    assert [name for name, text in topics.items() if MASKER.text(text) != text] == []


@pytest.mark.parametrize("text", PLAIN, ids=lambda text: text[:20])
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    """Words, names of variables and of parameters stay, hashes and pictures too; also where JSON writes them."""
    assert MASKER.text(text) == text
    assert MASKER.text(json.dumps({"note": text})) == json.dumps({"note": text})


# --- properties ------------------------------------------------------------------------------------------------------

parts = st.sampled_from(
    [
        *SECRETS,
        *KNOWN,
        *(form.format(secret) for secret, form in SECRETS.items()),
        *(
            "[secret]",
            "[sec",
            "ret]",
            "://",
            "@",
            ":",
            "=",
            "?token=",
            "&",
            "Bearer ",
            "Authorization: ",
            '"',
            "'",
            "\\",
        ),
        *("api_key", "password", "<api_key>", "<![CDATA[", "]]>", "</api_key>", "sk-", "eyJ", " "),
        "-----BEGIN PRIVATE KEY-----",
    ]
) | st.text(max_size=5)


@given(st.lists(parts, max_size=12).map("".join))
@settings(max_examples=400, deadline=None)
def test_masking_again_changes_nothing(text: str) -> None:
    """What is masked has no secret left, however secrets and parts of them are joined."""
    masker = Masker(KNOWN)
    once = masker.text(text)
    assert masker.text(once) == once
    assert not [secret for secret in KNOWN if secret in once]


@given(runs())
@settings(max_examples=25, deadline=None)
def test_masking_a_run_again_changes_nothing(run: RecordedRun) -> None:
    """A masked run is masked as itself, its pieces included."""
    masker = Masker(KNOWN)
    once = masker.run(run)
    assert masker.run(once) == once


PARTS = (
    *("a", "a=a=a=", "eyJ", "sk-", "://", "://a:", "?key=", "Bearer ", "authorization:", "cookie: a=", "AKIA", BODY),
    *("-----BEGIN PRIVATE KEY-----\n", "api_key='", "<api_key>", "<api_key><![CDATA[", "password", "password=", "A"),
    *("\\n" + "A" * 40, "a-", "x_", "[secret]", "password: a-", "password=aaaa host=a ", 'token=\\"', "\\nkey="),
)


@pytest.mark.parametrize("part", PARTS)
def test_the_time_grows_with_the_length_of_the_text(part: str) -> None:
    """A megabyte of whatever begins a secret takes about four times as long as a quarter of it."""
    for end in ("", "!", "\n-----END"):
        text = f"-----BEGIN PRIVATE KEY-----{part * (1_000_000 // len(part))}{end}"
        with no_collection():
            assert _seconds(text) < 10 * _seconds(text[:250_000]) + 0.1


@pytest.mark.parametrize("part", ["a", "a=a=a=", "=", "0:", "[secret]"])
def test_two_megabytes_take_little_longer_than_a_copy_of_them(part: str) -> None:
    """Text without line breaks in which no secret can begin, against a copy letter by letter."""
    text = (part * 2_000_000)[:2_000_000]
    with no_collection():
        started = time.process_time()
        assert "".join(letter for letter in text) == text
        assert _seconds(text) < 10 * (time.process_time() - started)


def _seconds(text: str) -> float:
    started = time.process_time()
    Masker(["sk-of-nobody-0123456789"]).text(text)
    return time.process_time() - started
