"""The magics of `%load_ext artifactflow_nb`: `%%ask` asks the question in its cell, `%af` shows runs and decides.

Both magics use the workbench in the variable that `--wb` names, by default the newest open workbench. If several
workbenches are open, a line names the workbench that is used. `%%ask` creates a workbench if there is none.
"""

import keyword
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from artifactflow_nb.core.text.cards import CardTable, Code, card_frame
from artifactflow_nb.core.text.format import did_you_mean
from artifactflow_nb.errors import ArtifactFlowError, brief
from artifactflow_nb.plugins import MAGICS

if TYPE_CHECKING:
    from artifactflow_nb.notebook.references import ConversationLike
    from artifactflow_nb.notebook.run import Run
    from artifactflow_nb.notebook.workbench import Workbench

T = TypeVar("T")

WORKBENCH_NAME = "wb"
RUN_NAME = "run"
CONTINUE = "continue"
ALL_WORD = "all"
WORKBENCH_OPTION = "--wb"
OPTIONS = ("--flow", "--model", "--budget", "--conversation", WORKBENCH_OPTION)
_IPYTHON_NAMES = frozenset({"In", "Out", "get_ipython", "exit", "quit", "open"})


@dataclass(frozen=True, slots=True)
class MagicArguments:
    """The arguments of a command of `%af`.

    Attributes:
        arguments: The words after the name of the command.
    """

    wb: "Workbench"
    arguments: Sequence[str]
    variables: Mapping[str, Any]

    def run(self, candidates: "Sequence[Run]") -> "Run":
        """Return the run of the first argument, an id or a variable; without arguments, the only candidate."""
        from artifactflow_nb.notebook.run import Run

        if self.arguments:
            value = self.variables.get(self.arguments[0])
            return value if isinstance(value, Run) else self.wb.run(self.arguments[0])
        return _only(candidates, "run", [run.run_id for run in candidates])

    def newest_run(self) -> "Run":
        """Return the run of the first argument; without arguments, the newest run."""
        return self.run(self.wb.runs(1))

    @property
    def words(self) -> str:
        """The text after the first argument."""
        return " ".join(self.arguments[1:])

    def conversation(self) -> "ConversationLike | None":
        """Return the value of the first argument, an id or a variable; None without arguments."""
        return self.variables.get(self.arguments[0], self.arguments[0]) if self.arguments else None

    def decide(self, decide: "Callable[[Run, str], Run]") -> "Run":
        """Decide the open request with the id in the first argument; without arguments, the only open request."""
        requests = [request for request in self.wb.pending() if request.id in (self.arguments[:1] or [request.id])]
        if self.arguments and not requests:
            raise UsageError(
                f"No request {brief(self.arguments[0])} waits for a decision. %af pending lists the open requests."
            )
        request = _only(requests, "request", [request.id for request in requests])
        return decide(self.wb.run(request.run_id), request.id)


def _only(values: Sequence[T], noun: str, ids: Sequence[str]) -> T:
    """Return the only value; `UsageError` if there is no value, or with the ids if there are several values."""
    if len(values) == 1:
        return values[0]
    if not values:
        raise UsageError(f"There is no {noun} to which this command applies. Pass an id, or ask a question first.")
    raise UsageError(f"{len(values)} {noun}s match; pass the id of one {noun}: {', '.join(ids)}.")


@dataclass(frozen=True, slots=True)
class MagicCommand:
    """A command of `%af`.

    Attributes:
        handler: Executes the command; the cell displays the result.
        usage: The arguments as shown in the help; empty for a command without arguments.
    """

    description: str
    handler: Callable[[MagicArguments], Any]
    complete_ids: Callable[["Workbench"], Sequence[str]] = lambda _wb: ()
    usage: str = ""


CompleteIds = Callable[["Workbench"], Sequence[str]]
_CONVERSATION: tuple[CompleteIds, str] = (
    lambda wb: [entry.conversation_id for entry in wb.conversations()],
    "[CONVERSATION]",
)
_RUN: tuple[CompleteIds, str] = lambda wb: [run.run_id for run in wb.runs()], "[RUN]"
_UNFINISHED: tuple[CompleteIds, str] = lambda wb: [run.run_id for run in wb.runs(unfinished=True)], "[RUN]"
_ALL: tuple[CompleteIds, str] = lambda _wb: [ALL_WORD], "[all]"


def _request_ids(wb: "Workbench") -> list[str]:
    return [request.id for request in wb.pending()]


def _repro(magic: MagicArguments) -> Any:
    if magic.arguments not in ([], [ALL_WORD]):
        raise UsageError(f"%af repro accepts only the argument {ALL_WORD}, not {brief(' '.join(magic.arguments))}.")
    return magic.wb.repro(all=bool(magic.arguments))


COMMANDS: Mapping[str, MagicCommand] = {
    "runs": MagicCommand("the newest runs", lambda magic: magic.wb.runs()),
    "tree": MagicCommand("a conversation as a tree", lambda magic: magic.wb.tree(magic.conversation()), *_CONVERSATION),
    "artifacts": MagicCommand(
        "the artifacts of a branch, in all versions",
        lambda magic: magic.wb.artifact_panel(magic.conversation()),
        *_CONVERSATION,
    ),
    "metrics": MagicCommand("tokens, times and costs of a run", lambda magic: magic.newest_run().metrics, *_RUN),
    "pending": MagicCommand("the requests for your decision", lambda magic: magic.wb.pending()),
    "approve": MagicCommand(
        "approve a request: its call runs",
        lambda magic: magic.decide(lambda run, request_id: run.approve(request_id)),
        _request_ids,
        "[REQUEST]",
    ),
    "deny": MagicCommand(
        "deny a request: its call does not run",
        lambda magic: magic.decide(lambda run, request_id: run.deny(magic.words, request_id)),
        _request_ids,
        "[REQUEST [reason ...]]",
    ),
    "answer": MagicCommand(
        "answer a question of a run",
        lambda magic: magic.decide(lambda run, request_id: run.answer(magic.words, request_id)),
        _request_ids,
        "[REQUEST answer ...]",
    ),
    "cancel": MagicCommand(
        "cancel a run", lambda magic: magic.run(magic.wb.runs(unfinished=True)).cancel(), *_UNFINISHED
    ),
    "chat": MagicCommand("ask and read in a panel", lambda magic: magic.wb.chat(magic.conversation()), *_CONVERSATION),
    "timeline": MagicCommand(
        "the durations of a run's steps", lambda magic: magic.wb.timeline(magic.newest_run()), *_RUN
    ),
    "repro": MagicCommand("the runs that are recorded, replayed, live or changed", _repro, *_ALL),
    "verify": MagicCommand(
        "execute a run again from its recording and compare", lambda magic: magic.newest_run().verify(), *_RUN
    ),
    "help": MagicCommand("this list", lambda _magic: MagicHelp()),
}


class MagicHelp:
    """The commands of `%af`, as a list."""

    def __init__(self) -> None:
        rows = [(Code(f"%af {name} {each.usage}".rstrip()), each.description) for name, each in COMMANDS.items()]
        rows += [(Code(f"%af {name} {usage}"), description) for name, (_, description, usage) in MAGICS.items()]
        self._table = CardTable(("command", "shows or does"), rows)

    def __repr__(self) -> str:
        return (
            f"{self._table.plain()}\n"
            "RUN and CONVERSATION are ids or variables, by default the newest or the only possible run. %af chat\n"
            "starts a new conversation. The commands use the newest workbench, or the workbench in a variable:\n"
            f"%af {WORKBENCH_OPTION} NAME runs. %%ask? explains how to ask."
        )

    def _repr_html_(self) -> str:
        return card_frame(self._table.html())


def _free_name(name: str, variables: Mapping[str, object], own: Mapping[str, object]) -> str:
    """Return the first of `name`, `name2` and so on that is unset or still has the value in `own`."""
    numbered = (name if number == 1 else f"{name}{number}" for number in count(1))
    return next(free for free in numbered if free not in variables or (free in own and variables[free] is own[free]))


def _with_options(magic: Any) -> Any:
    """Add the options of `%%ask`, in the order of the help."""
    add: Any = argument  # IPython types neither `argument` nor `magic_arguments`
    options = (
        add("name", nargs="?", help="the variable for the run; run by default, or run2 and so on if run has a value"),
        add("--flow", help="the name of a flow"),
        add("--model", help="the name of the model for this run"),
        add("--budget", metavar="TOKENS", help="the limit of tokens for this run, such as 50000 or 50_000"),
        add("--conversation", metavar="ID", help="the conversation to continue: an id, or continue for the newest"),
        add(
            WORKBENCH_OPTION,
            dest="workbench",
            metavar="NAME",
            help="the variable of a workbench; the newest by default",
        ),
    )
    for option in reversed(options):
        magic = option(magic)
    return magic_arguments("%ask")(magic)  # type: ignore[no-untyped-call]


@magics_class
class ArtifactFlowMagics(Magics):
    """`%%ask` and `%af` in one shell."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._shell = shell
        self._bound: dict[str, object] = {}
        """The runs that `%%ask` has bound, by name; `%%ask` may replace these runs."""

        def matcher(context: CompletionContext) -> SimpleMatcherResult:
            return self.completions(context)

        self.matcher: Any = context_matcher(priority=100, identifier="artifactflow_nb")(matcher)

    @_with_options
    @cell_magic
    def ask(self, line: str, cell: str) -> None:
        """Ask the question in the cell.

        The run is displayed, continues while other cells compute, and is assigned to a variable. The text of the cell
        is not changed: {name} and $name have no meaning in the cell. In the line of options, IPython replaces {name}
        and $name with the values of variables.
        """
        from artifactflow_nb.notebook.run import Run
        from artifactflow_nb.notebook.workbench import Workbench

        try:
            options: Any = parse_argstring(ArtifactFlowMagics.ask, line)  # type: ignore[no-untyped-call]  # IPython types it in part
        except (UsageError, ValueError) as error:
            message = f"%%ask: {error}. Known: {', '.join(OPTIONS)} and the name of a variable; see %%ask?"
            raise UsageError(message) from None
        for option, text in vars(options).items():
            # IPython splits the line at quotes and leaves them in the words.
            if text is not None and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
                setattr(options, option, text[1:-1])
        variables = self._shell.user_ns
        name = options.name or _free_name(RUN_NAME, variables, self._bound)
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"%%ask: {brief(name)} is not a name for a variable, to which the run would be bound.")
        if isinstance(variables.get(name), Workbench) or name in _IPYTHON_NAMES:
            owner = "a workbench" if isinstance(variables.get(name), Workbench) else "IPython's own"
            raise UsageError(f"%%ask: the run would be bound to {name}, which is {owner}. Choose another name.")
        if not isinstance(variables.get(name), Run | None):
            kind = type(variables[name]).__name__
            raise UsageError(f"%%ask: {name} is a variable of yours ({kind}) and is not replaced. Choose another name.")
        wb = self._select_workbench(options.workbench)
        if wb is None:  # create a workbench in the variable `wb`, or in `wb2` and so on if `wb` has a value
            variable = _free_name(WORKBENCH_NAME, variables, {})
            variables[variable] = wb = Workbench()
            print(f"There was no workbench, so one was made: {variable} = {wb!r}")  # noqa: T201 - for the reader of the cell
        conversation_id = options.conversation
        if conversation_id == CONTINUE:
            if not (newest := wb.conversations(limit=1)):
                raise UsageError("%%ask: there is no conversation to continue yet. Remove --conversation.")
            conversation_id = newest[0].conversation_id
        try:
            budget = None if options.budget is None else {"tokens": int(options.budget)}
        except ValueError:
            raise UsageError(
                f"%%ask: --budget is {brief(options.budget)}; it must be a number of tokens, as in 50000."
            ) from None
        run = wb.ask(cell, conversation_id=conversation_id, flow=options.flow, model=options.model, budget=budget)
        variables[name] = self._bound[name] = run
        if options.name is None and name != RUN_NAME:
            print(f"{RUN_NAME} is a variable of yours, so the run is bound to {name}.")  # noqa: T201 - for the reader of the cell
        display(run)  # type: ignore[no-untyped-call]  # the same

    @line_magic
    def af(self, line: str) -> Any:
        """Show runs, conversations and requests, and decide requests: `%af help` lists the commands."""
        variable, words = _split_workbench(line.split())
        name, *arguments = words or ["help"]
        if name in MAGICS:
            return resolve_name(MAGICS[name][0])(arguments, self._shell.user_ns)
        if name not in COMMANDS:
            names = [*COMMANDS, *MAGICS]
            raise UsageError(f"There is no %af {name}.{did_you_mean(name, names)} Known: {', '.join(names)}.")
        if arguments and not COMMANDS[name].usage:
            raise UsageError(f"%af {name} takes no arguments. Remove {brief(' '.join(arguments))}.")
        if name == "help":
            return MagicHelp()
        wb = self._select_workbench(variable)
        if wb is None:
            raise UsageError("There is no workbench yet. Ask something with %%ask, or create one: wb = af.Workbench()")
        return COMMANDS[name].handler(MagicArguments(wb, arguments, self._shell.user_ns))

    def _workbenches(self) -> "dict[str, Workbench]":
        """Return the workbenches in variables, without duplicates, by creation time; closed workbenches first."""
        if "artifactflow_nb.notebook.workbench" not in sys.modules:  # no workbench exists; completion must be fast
            return {}
        from artifactflow_nb.notebook.workbench import Workbench

        newest_first = reversed(self._shell.user_ns.items())
        variables = [(name, value) for name, value in newest_first if not name.startswith("_")]
        by_id = {id(value): (name, value) for name, value in variables if isinstance(value, Workbench)}
        return dict(sorted(by_id.values(), key=lambda entry: (entry[1].is_open, entry[1].created_at)))

    def _find_workbench(self, name: str | None = None) -> "Workbench | None":
        """Return the workbench in this variable, by default the newest workbench; None if there is no workbench.

        Errors: `UsageError` for a variable without a workbench.
        """
        workbenches = self._workbenches()
        if name is None:
            return next(reversed(workbenches.values()), None)
        value = self._shell.user_ns.get(name)
        if not any(value is wb for wb in workbenches.values()):
            names = ", ".join(workbenches) or "none"
            raise UsageError(
                f"{WORKBENCH_OPTION} is {brief(name)}, which is not a variable with a workbench. Workbenches: {names}."
            )
        workbench: Workbench = value
        return workbench

    def _select_workbench(self, name: str | None) -> "Workbench | None":
        """Find a workbench; if no workbench is named and several are open, print which workbench is used."""
        workbench = self._find_workbench(name)
        names = [variable for variable, wb in self._workbenches().items() if wb.is_open]
        if name is None and len(names) > 1:
            *others, last = names
            older = ", ".join(others)
            print(f"Of {len(names)} workbenches, the newest is used: {last}. {WORKBENCH_OPTION} can name {older}.")  # noqa: T201 - for the reader of the cell
        return workbench

    def completions(self, context: CompletionContext) -> SimpleMatcherResult:
        """Return the completions at the cursor in a line of a magic; empty in other lines."""
        words = context.text_until_cursor.split()
        before = words[:-1] if context.token else words
        possible: Sequence[str] = ()
        with suppress(ArtifactFlowError, UsageError):  # a closed workbench, for example
            if before and before[-1] == WORKBENCH_OPTION and before[0] in {"%af", "%%ask"}:
                possible = [name for name, wb in self._workbenches().items() if wb.is_open]
            else:
                variable, before = _split_workbench(before)
                match before:
                    case ["%af"]:
                        possible = [*COMMANDS, *MAGICS]
                    case ["%af", name] if name in COMMANDS and (wb := self._find_workbench(variable)):
                        possible = COMMANDS[name].complete_ids(wb)
                    case ["%%ask", *options] if context.cursor_line == 0:
                        wb, option = self._find_workbench(variable), options[-1] if options else ""
                        values: Mapping[str, Callable[[], Sequence[str]]] = {
                            "--flow": lambda: wb.flows if wb else (),
                            "--model": lambda: wb.models(ask_endpoint=False) if wb else (),
                            "--conversation": lambda: [CONTINUE, *(_CONVERSATION[0](wb) if wb else ())],
                            "--budget": tuple,
                        }
                        possible = values[option]() if option in values else OPTIONS
        matches = [SimpleCompletion(text=text) for text in possible if text.startswith(context.token)]
        return SimpleMatcherResult(completions=matches, suppress=bool(matches), ordered=True)


def _split_workbench(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the variable after `--wb` or None, and the other words; `UsageError` if no word follows `--wb`."""
    rest = list(words)
    if WORKBENCH_OPTION not in rest:
        return None, rest
    index = rest.index(WORKBENCH_OPTION)
    if index + 1 == len(rest):
        raise UsageError(f"{WORKBENCH_OPTION} is the last word; the name of a variable with a workbench must follow.")
    return rest[index + 1], rest[:index] + rest[index + 2 :]


def load(shell: Any) -> None:
    """Add the magics, with completion, to an IPython shell."""
    unload(shell)
    magics = ArtifactFlowMagics(shell)
    shell.register_magics(magics)
    shell.Completer.custom_matchers.append(magics.matcher)


def unload(shell: Any) -> None:
    """Remove the magics and the completion, if loaded."""
    manager = shell.magics_manager
    magics = manager.registry.pop(ArtifactFlowMagics.__name__, None)
    if magics is not None:
        del manager.magics["cell"]["ask"], manager.magics["line"]["af"]
        shell.Completer.custom_matchers.remove(magics.matcher)
