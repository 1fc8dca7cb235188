"""The catalogue of each language: complete, without unused texts, with the placeholders of the English texts."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
from conftest import OpenEngine

import artifactflow_nb as af
from artifactflow_nb.core.approvals import BUDGET_KIND
from artifactflow_nb.core.language import LANGUAGES, NAMES, catalogue
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.widgets.page.elements import STATUS_MARKS

PACKAGE = Path(af.__file__).parent
TRANSLATED = [language for language in LANGUAGES if language != "en"]
HAN = re.compile("[一-鿿]")
UNCHANGED = {"{list} {number}", "… {lines}"}
"""Texts that only place others next to each other."""


def placeholders(text: str) -> Counter[str]:
    return Counter(name for _, name, _, _ in Formatter().parse(text) if name)


def literals(node: ast.expr | None) -> Iterator[str]:
    """The texts that an expression may be: a literal, the branches of a condition, the elements of a collection."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*literals(body), *literals(orelse))
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Dict(values=elements):
            for element in elements:
                yield from literals(element)
        case ast.Starred(value=value):
            yield from literals(value)
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, default]):
            yield from literals(default)


def is_marked(annotation: ast.expr | None) -> bool:
    return annotation is not None and "EnglishText" in ast.unparse(annotation)


@cache
def modules() -> list[tuple[Path, list[ast.AST]]]:
    """Return the nodes of the modules that have texts."""
    sources = ((path, path.read_text("utf-8")) for path in PACKAGE.rglob("*.py"))
    return [
        (path, list(ast.walk(ast.parse(source))))
        for path, source in sources
        if "translate" in source or "EnglishText" in source
    ]


@dataclass
class EnglishTexts:
    """The English texts of the package.

    Attributes:
        calls: Key and names of the parts of each literal that `translate` and `translate_count` get.
        marked: Texts of variables, fields, parameters and arguments that are annotated with `EnglishText`.
        parameters: The parameters with this annotation, by function or class: place and name.
    """

    calls: list[tuple[str, set[str]]] = field(default_factory=list)
    marked: set[str] = field(default_factory=set)
    parameters: dict[str, set[tuple[int, str]]] = field(default_factory=dict)

    def declare(self, node: ast.AST) -> None:
        """Collect the marked texts and parameters of a definition."""
        if isinstance(node, ast.AnnAssign) and is_marked(node.annotation):
            has_keys = isinstance(node.value, ast.Dict) and re.match(r"\w+\[EnglishText,", ast.unparse(node.annotation))
            self.mark(*(node.value.keys if has_keys else [node.value]))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args]
            defaults = [*[None] * (len(arguments) - len(node.args.defaults)), *node.args.defaults]
            self._parameters(node.name, arguments, defaults)
        elif isinstance(node, ast.ClassDef):
            fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
            places = enumerate(fields)
            marked = {(place, line.target.id) for place, line in places if is_marked(line.annotation)}
            if marked:
                self.parameters.setdefault(node.name, set()).update(marked)

    def _parameters(self, name: str, arguments: list[ast.arg], defaults: list[ast.expr | None]) -> None:
        for place, (argument, default) in enumerate(zip(arguments, defaults, strict=True)):
            if is_marked(argument.annotation):
                self.mark(default)
                self.parameters.setdefault(name, set()).add((place, argument.arg))

    def mark(self, *nodes: ast.expr | None) -> None:
        """Collect the literals of expressions; a text without letters is a symbol beside a text."""
        self.marked |= {text for node in nodes for text in literals(node) if re.search("[A-Za-z]", text)}

    def read_call(self, call: ast.Call) -> None:
        """Collect the texts that a call passes."""
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if isinstance(call.func, ast.Attribute) and name == "translate":  # of a string
            return
        parts = {keyword.arg or "" for keyword in call.keywords} - {"context"}
        if name == "translate" and call.args:
            context = "".join(text for each in call.keywords if each.arg == "context" for text in literals(each.value))
            for text in literals(call.args[0]):
                self.calls.append((f"{context}|{text}" if context else text, parts))
        elif name == "translate_count":
            self.calls += [(f"{{n}} {noun}", {"n"}) for noun in literals(call.args[1])]
        else:
            for place, parameter in self.parameters.get(name, ()):
                self.mark(
                    *call.args[place : place + 1], *(each.value for each in call.keywords if each.arg == parameter)
                )


@cache
def english_texts() -> EnglishTexts:
    """Return the texts of all modules."""
    nodes = [node for _, nodes in modules() for node in nodes]
    texts = EnglishTexts(marked={text for names in NAMES.values() for text in names.values()})
    for node in nodes:
        texts.declare(node)
    for node in nodes:
        if isinstance(node, ast.Call):
            texts.read_call(node)
    return texts


@cache
def texts_of_scripts() -> set[str]:
    """Return the texts of the scripts and of the page of the server."""
    paths = [*(PACKAGE / "widgets/static").glob("*.js"), *(PACKAGE / "server/static").glob("*.js")]
    scripts = "\n".join(path.read_text("utf-8") for path in paths)
    calls = re.findall(r"\btranslate\(((?:[^()\"]|\"[^\"]*\")*)", scripts)
    quoted = {json.loads(text) for call in calls for text in re.findall(r'"[^"]*"', call.partition(", {")[0])}
    page = "".join(path.read_text("utf-8") for path in (PACKAGE / "server/static").glob("*.html"))
    return quoted | set(re.findall(r"\{\{(.+?)\}\}", page)) - {"language"}


def texts_without_context(keys: set[str]) -> set[str]:
    return {key.rpartition("|")[2] for key in keys}


def property_names(schema: object) -> Iterator[str]:
    """The names of the parameters in a JSON schema, with the names of the parameters of objects in lists."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        for part in schema.values():
            yield from property_names(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from property_names(part)


async def labels(open_engine: OpenEngine) -> set[str]:
    """Return the keys of the names of tools, parameters, agents and statuses, and of deciders."""
    engine = await open_engine()
    agents = {name for flow in engine.flows for name in engine.agent_registry.agents_of_flow(flow)}
    names = {
        "tool": {tool.name for tool in engine.tools} | {BUDGET_KIND},
        "agent": agents | {USER, "policy", "passage_scorer", "query_rewriter"},
        "parameter": {name for tool in engine.tools for name in property_names(tool.params.model_json_schema())},
        "status": {*STATUS_MARKS, "approved", "edited", "instructed", "denied"},
    }
    return {f"{kind}|{NAMES[kind].get(name) or name.replace('_', ' ')}" for kind in names for name in names[kind]}


@pytest.mark.parametrize("language", TRANSLATED)
async def test_catalogue_has_exactly_the_texts_of_the_code(open_engine: OpenEngine, language: str) -> None:
    """Every text that code, scripts or the server's page translate has a translation, and every translation is used."""
    texts, keys = english_texts(), set(catalogue(language))
    exact = {key for key, _ in texts.calls} | texts_of_scripts()
    assert sorted(exact - keys) == []
    assert sorted(texts.marked - texts_without_context(keys)) == []
    names = await labels(open_engine)
    unused = {key for key in keys - exact - names if key.rpartition("|")[2] not in texts.marked}
    assert sorted(unused) == []
    assert sorted(names - keys) == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_translations_have_the_placeholders_of_the_english_texts(language: str) -> None:
    """A translation is in its language; calls pass exactly the parts that the text has."""
    for key, translation in catalogue(language).items():
        text = key.rpartition("|")[2]
        assert translation.strip()
        assert placeholders(text) == placeholders(translation), key
        assert not HAN.search(text), key
        if text not in UNCHANGED:
            assert re.search(r"[^\x00-\x7f]", translation), key
    for key, parts in english_texts().calls:
        assert set(placeholders(key)) - {"n"} <= parts, key


def test_catalogues_are_sorted() -> None:
    """Sorted keys keep the differences of edits small, and a key occurs once."""
    for language in TRANSLATED:
        text = (PACKAGE / f"core/language/{language}.json").read_text("utf-8")
        assert text == json.dumps(dict(sorted(catalogue(language).items())), ensure_ascii=False, indent=1) + "\n"


def test_calls_translate_literals() -> None:
    """A formatted string is a different text each time: the parts belong into placeholders."""
    for path, nodes in modules():
        for node in nodes:
            match node:
                case (
                    ast.Call(func=ast.Name(id="translate"), args=[text, *_])
                    | ast.Call(func=ast.Name(id="translate_count"), args=[_, text])
                ):
                    assert not isinstance(text, ast.JoinedStr | ast.BinOp), (path, node.lineno)
