"""The magics of `%load_ext artifactflow_nb`: `%%ask` asks what its cell says, `%af` shows and decides.

Both work with the open workbench that was made last, or with the one whose variable `--wb` names, and say which it is
where there are several; `%%ask` makes one where there is none.
"""

import keyword
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from artifactflow_nb.errors import ArtifactFlowError
from artifactflow_nb.text.cards import Code, Table, framed
from artifactflow_nb.text.width import pad

if TYPE_CHECKING:
    from artifactflow_nb.run import Run
    from artifactflow_nb.views import Place
    from artifactflow_nb.workbench import Workbench

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

WB = "wb"
CONTINUE = "continue"
EVERYTHING = "all"
NAMED = "--wb"
OPTIONS = ("--flow", "--model", "--budget", "--conversation", NAMED)
_OF_IPYTHON = frozenset({"In", "Out", "get_ipython", "exit", "quit", "open"})


@dataclass(frozen=True, slots=True)
class Said:
    """A line of `%af` after its first word.

    Attributes:
        wb: The workbench that is meant.
        words: What stands behind the first word.
        variables: The user's variables.
    """

    wb: "Workbench"
    words: Sequence[str]
    variables: Mapping[str, Any]

    def run(self, among: "Sequence[Run]") -> "Run":
        """The run that the first word names, by its id or as a variable; without a word the only one among these."""
        from artifactflow_nb.run import Run

        if self.words:
            value = self.variables.get(self.words[0])
            return value if isinstance(value, Run) else self.wb.run(self.words[0])
        return _only(among, "run", [run.run_id for run in among])

    def place(self) -> "Sequence[Place]":
        """What the first word names, by an id or as a variable; nothing without a word."""
        return [self.variables.get(word, word) for word in self.words[:1]]

    def request_id(self) -> str:
        """The request that the first word names; without a word the only one that is open."""
        open_ids = [request.id for request in self.wb.pending()]
        return self.words[0] if self.words else _only(open_ids, "request", open_ids)


def _only(among: Sequence[T], noun: str, ids: Sequence[str]) -> T:
    """The only one of these; `UsageError` that lists their ids if there are several, or says that there is none."""
    if len(among) == 1:
        return among[0]
    if not among:
        raise UsageError(f"There is no {noun} for which that can be done.")
    raise UsageError(f"There are {len(among)}; name the {noun} that you mean: {', '.join(ids)}.")


@dataclass(frozen=True, slots=True)
class Command:
    """What a first word of `%af` stands for.

    Attributes:
        does: What it does, in a line.
        act: Does it; what it gives is shown in the cell.
        ids: What may stand behind the word; for completion.
        takes: How the rest of its line is written; empty if nothing may stand there.
    """

    does: str
    act: Callable[[Said], Any]
    ids: Callable[["Workbench"], Sequence[str]] = lambda _wb: ()
    takes: str = ""


def _view(method: str, said: Said) -> Any:
    return getattr(said.wb, method)(*said.place())


def _conversation_ids(wb: "Workbench") -> list[str]:
    return [entry.conversation_id for entry in wb.conversations()]


def _run_ids(wb: "Workbench") -> list[str]:
    return [run.run_id for run in wb.runs()]


def _unfinished_ids(wb: "Workbench") -> list[str]:
    return [run.run_id for run in wb.unfinished()]


def _request_ids(wb: "Workbench") -> list[str]:
    return [request.id for request in wb.pending()]


def _repro(said: Said) -> Any:
    if said.words not in ([], [EVERYTHING]):
        raise UsageError(f"%af repro takes {EVERYTHING} or nothing, not {' '.join(said.words)!r}.")
    return said.wb.repro(all=bool(said.words))


COMMANDS: Mapping[str, Command] = {
    "runs": Command("the newest runs", lambda said: said.wb.runs()),
    "tree": Command("a conversation as a tree", partial(_view, "tree"), _conversation_ids, "[CONVERSATION]"),
    "artifacts": Command(
        "what was written, in all versions", partial(_view, "artifact_panel"), _conversation_ids, "[CONVERSATION]"
    ),
    "metrics": Command("what a run cost", lambda said: said.run(said.wb.runs(1)).metrics, _run_ids, "[RUN]"),
    "pending": Command("what waits for your decision", lambda said: said.wb.pending()),
    "approve": Command(
        "approve a request: its call runs", lambda said: said.wb.approve(said.request_id()), _request_ids, "[REQUEST]"
    ),
    "deny": Command(
        "deny a request: its call does not run",
        lambda said: said.wb.deny(said.request_id(), " ".join(said.words[1:])),
        _request_ids,
        "[REQUEST [why ...]]",
    ),
    "cancel": Command("end a run", lambda said: said.run(said.wb.unfinished()).cancel(), _unfinished_ids, "[RUN]"),
    "chat": Command("ask and read in a panel", partial(_view, "chat"), _conversation_ids, "[CONVERSATION]"),
    "timeline": Command(
        "what a run did when", lambda said: said.wb.timeline(said.run(said.wb.runs(1))), _run_ids, "[RUN]"
    ),
    "repro": Command("what is recorded, replayed, live or changed", _repro, lambda _wb: [EVERYTHING], "[all]"),
    "help": Command("this list", lambda _said: Help()),
}


class Help:
    """The commands of `%af`, as a list."""

    def __repr__(self) -> str:
        lines = [f"  {pad(f'%af {word} {command.takes}', 34)}{command.does}" for word, command in COMMANDS.items()]
        end = (
            "RUN and CONVERSATION are ids or variables. Where they are left out, the newest or the only one is meant;\n"
            "%af chat begins a new conversation. Of several workbenches the one made last is meant, or the one that\n"
            f"{NAMED} names: %af {NAMED} NAME runs."
        )
        return "\n".join([*lines, end, "%%ask? says how to ask."])

    def _repr_html_(self) -> str:
        rows = [(Code(f"%af {word} {command.takes}".rstrip()), command.does) for word, command in COMMANDS.items()]
        return framed(Table(("command", "shows or does"), rows).html())

    def _repr_markdown_(self) -> str:
        rows = [(Code(f"%af {word} {command.takes}".rstrip()), command.does) for word, command in COMMANDS.items()]
        return Table(("command", "shows or does"), rows).markdown()


def _with_options(magic: F) -> F:
    """The magic with its options, in the order in which its help lists them."""
    described: Any = argument  # IPython types neither
    whole: Any = magic_arguments
    options = [
        described("name", nargs="?", default="run", help="the variable that the run is bound to; run if left out"),
        described("--flow", default="research", help="which flow"),
        described("--model", help="a model's name at the endpoint, for this run"),
        described("--budget", metavar="TOKENS", help="how many tokens the run may spend, as in 50000 or 50_000"),
        described("--conversation", metavar="ID", help="what to go on with: an id, or continue for the last one"),
        described(NAMED, metavar="NAME", help="the variable of a workbench; the one made last if left out"),
    ]
    decorated: F = whole("%ask")(reduce(lambda done, option: option(done), reversed(options), magic))
    return decorated


@magics_class
class ArtifactFlowMagics(Magics):
    """`%%ask` and `%af` in one shell."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._shell = shell

        def matcher(context: CompletionContext) -> SimpleMatcherResult:
            return self.completions(context)

        self.matcher: Any = context_matcher(priority=100, identifier="artifactflow_nb")(matcher)

    @_with_options
    @cell_magic
    def ask(self, line: str, cell: str) -> None:
        """Ask what the cell says.

        The run is displayed, goes on while other cells compute, and is bound to a variable. The text of the cell is
        taken as it is: {name} and $name stand for themselves there. In the line of options, IPython puts the values
        of variables in their place.
        """
        chosen = self._options(line)
        wb = self._chosen(chosen.wb) or self._made()
        run = wb.ask(
            cell,
            conversation_id=_conversation_id(wb, chosen.conversation),
            flow=chosen.flow,
            model=chosen.model,
            budget=None if chosen.budget is None else {"tokens": _tokens(chosen.budget)},
        )
        self._shell.user_ns[chosen.name] = run
        display(run)  # type: ignore[no-untyped-call]  # IPython types it in part

    @line_magic
    def af(self, line: str) -> Any:
        """Look at what the workbench holds, and decide what waits: `%af help` lists how."""
        name, words = _named(line.split())
        word, *words = words or ["help"]
        if word not in COMMANDS:
            raise UsageError(f"There is no %af {word}. Known are: {', '.join(COMMANDS)}.")
        if words and not COMMANDS[word].takes:
            raise UsageError(f"%af {word} takes nothing. Leave {' '.join(words)!r} out.")
        if word == "help":
            return Help()
        wb = self._chosen(name)
        if wb is None:
            raise UsageError("There is no workbench yet. Ask something with %%ask, or make one: wb = af.Workbench()")
        return COMMANDS[word].act(Said(wb, words, self._shell.user_ns))

    def _options(self, line: str) -> Any:
        try:
            chosen = parse_argstring(ArtifactFlowMagics.ask, line)  # type: ignore[no-untyped-call]  # the same
        except (UsageError, ValueError) as error:
            told = f"%%ask: {error}. Known are {', '.join(OPTIONS)} and the name of a variable; see %%ask?"
            raise UsageError(told) from None
        for option, written in vars(chosen).items():
            setattr(chosen, option, _unquoted(written))
        self._check_name(chosen.name)
        return chosen

    def _check_name(self, name: str) -> None:
        """Refuse a name that is none, or whose value the cells to come depend on."""
        from artifactflow_nb.workbench import Workbench

        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"%%ask: {name!r} is no name for a variable, to which the run would be bound.")
        held = self._shell.user_ns.get(name)
        if isinstance(held, Workbench) or name in _OF_IPYTHON:
            what = "a workbench" if isinstance(held, Workbench) else "IPython's own"
            raise UsageError(f"%%ask: the run would be bound to {name}, which is {what}. Choose another name.")

    def _bound(self) -> "dict[str, Workbench]":
        """The workbenches among the user's variables, each once, the one made last at the end; closed ones before."""
        if "artifactflow_nb.workbench" not in sys.modules:  # then there is none, and completion must not wait
            return {}
        from artifactflow_nb.workbench import Workbench

        newest_first = reversed(self._shell.user_ns.items())
        shown = [(name, value) for name, value in newest_first if not name.startswith("_")]
        bound = {id(value): (name, value) for name, value in shown if isinstance(value, Workbench)}
        return dict(sorted(bound.values(), key=lambda one: (one[1].is_open, one[1].made_at)))

    def _found(self, name: str | None = None) -> "Workbench | None":
        """The workbench of this name; without one, the last."""
        bound = self._bound()
        if name is None:
            return next(reversed(bound.values()), None)
        value = self._shell.user_ns.get(name)
        if not any(value is wb for wb in bound.values()):
            known = ", ".join(bound) or "none"
            raise UsageError(f"{NAMED} is {name!r}, which is no variable with a workbench. There are: {known}.")
        found: Workbench = value
        return found

    def _chosen(self, name: str | None) -> "Workbench | None":
        """The same; where none is named and several are open, the cell says which it is."""
        found = self._found(name)
        names = [each for each, wb in self._bound().items() if wb.is_open]
        if name is None and len(names) > 1:
            *others, last = names
            known = ", ".join(others)
            print(f"Of {len(names)} workbenches {last} is meant, made last; {NAMED} names another: {known}.")  # noqa: T201 - the cell says so
        return found

    def _made(self) -> "Workbench":
        """A new workbench, bound to `wb`, or to `wb2` and so on where that is something else."""
        from artifactflow_nb.workbench import Workbench

        names = (WB if number == 1 else f"{WB}{number}" for number in count(1))
        name = next(name for name in names if name not in self._shell.user_ns)
        self._shell.user_ns[name] = wb = Workbench()
        print(f"There was no workbench, so one was made: {name} = {wb!r}")  # noqa: T201 - the cell says so
        return wb

    def completions(self, context: CompletionContext) -> SimpleMatcherResult:
        """What may stand at the cursor in a line of one of the magics; elsewhere nothing."""
        words = context.text_until_cursor.split()
        before = words[:-1] if context.token else words
        possible: Sequence[str] = ()
        with suppress(ArtifactFlowError, UsageError):  # a closed workbench, say, has nothing to offer
            possible = self._possible(before, is_first_line=context.cursor_line == 0)
        found = [SimpleCompletion(text=text) for text in possible if text.startswith(context.token)]
        return SimpleMatcherResult(completions=found, suppress=bool(found), ordered=True)

    def _possible(self, before: Sequence[str], *, is_first_line: bool) -> Sequence[str]:
        """What may follow these words."""
        if before and before[-1] == NAMED and before[0] in {"%af", "%%ask"}:
            return [name for name, wb in self._bound().items() if wb.is_open]
        name, before = _named(before)
        match before:
            case ["%%ask", *rest] if is_first_line:
                return self._of_ask(name, rest[-1] if rest else "")
            case ["%af"]:
                return list(COMMANDS)
            case ["%af", word] if word in COMMANDS and (wb := self._found(name)):
                return COMMANDS[word].ids(wb)
        return ()

    def _of_ask(self, name: str | None, before: str) -> Sequence[str]:
        """What may follow a word in the line of `%%ask`."""
        if before not in OPTIONS:
            return OPTIONS
        wb = self._found(name)
        if before == "--conversation":
            return [CONTINUE, *_conversation_ids(wb)] if wb else [CONTINUE]
        if wb is None or before == "--budget":
            return ()
        return wb.flows if before == "--flow" else wb.known_models()


def _named(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The name that follows `--wb`, and the words without both; None if there is no such name."""
    rest = list(words)
    if NAMED not in rest:
        return None, rest
    at = rest.index(NAMED)
    if at + 1 == len(rest):
        raise UsageError(f"{NAMED} is the last word; the name of a variable with a workbench must follow it.")
    return rest[at + 1], rest[:at] + rest[at + 2 :]


def _conversation_id(wb: "Workbench", said: str | None) -> str | None:
    if said != CONTINUE:
        return said
    if not (newest := wb.conversations(limit=1)):
        raise UsageError("%%ask: there is no conversation to continue yet. Leave --conversation out.")
    return newest[0].conversation_id


def _unquoted(written: str | None) -> str | None:
    """What was written, without the quotes around it: IPython splits a line at them, and leaves them there."""
    if written is not None and len(written) > 1 and written[0] == written[-1] and written[0] in "'\"":
        return written[1:-1]
    return written


def _tokens(said: str) -> int:
    try:
        return int(said)
    except ValueError:
        raise UsageError(f"%%ask: --budget is {said!r}; it must be a number of tokens, as in 50000.") from None


def load(shell: Any) -> None:
    """Add the magics and their completion to a shell of IPython."""
    unload(shell)
    magics = ArtifactFlowMagics(shell)
    shell.register_magics(magics)
    shell.Completer.custom_matchers.append(magics.matcher)


def unload(shell: Any) -> None:
    """Take them away again, as far as they are there."""
    manager = shell.magics_manager
    magics = manager.registry.pop(ArtifactFlowMagics.__name__, None)
    if magics is not None:
        del manager.magics["cell"]["ask"], manager.magics["line"]["af"]
        shell.Completer.custom_matchers.remove(magics.matcher)
