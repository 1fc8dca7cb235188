"""How agents manage what belongs to a project and is known by a name: one way for every kind of it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, Field

from artifactflow_nb.belongings import Held, Kind, Named, changed, named
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.belongings import BelongingStore
from artifactflow_nb.text.lines import fenced_diff
from artifactflow_nb.text.markdown import portable_line
from artifactflow_nb.tools.base import ToolContext, ToolPermission
from artifactflow_nb.tools.block_access import authorship, refusing, told
from artifactflow_nb.tools.given import Given

V = TypeVar("V", bound=Named)

_DONE = {"create": "is kept", "update": "is changed", "remove": "is removed"}


class NamedData(Given):
    """What a call gives of one of a project's belongings; what is left out of a change stays as it is."""

    name: Annotated[str, Field(description="Its name.", min_length=1)]
    new_name: Annotated[str | None, Field(description="With update: another name.")] = None

    @property
    def fields(self) -> dict[str, str | None]:
        """What it sets, by the names of the value's fields."""
        given = self.model_dump(exclude={"name", "new_name"})
        return {"name": self.new_name, **given}


@dataclass(frozen=True, slots=True)
class Managing(Generic[V]):
    """Manages a kind of belongings in the calls of a tool.

    Attributes:
        kind: The kind.
        make: Makes one of its fields.
        param: The parameter of the tool that says which one, and what it is.
    """

    kind: Kind[V]
    make: Callable[..., V]
    param: str

    async def held(self, ctx: ToolContext) -> list[Held[V]]:
        """Those that the run's branch has."""
        return await ctx.service(BelongingStore).all(ctx.conversation_id, ctx.message_id, self.kind)

    async def permission(self, ctx: ToolContext, args: BaseModel) -> ToolPermission:
        """What is taken away, and what a person wrote and is overwritten, the person has to agree to."""
        one, action = await self._meant(ctx, args), getattr(args, "action", "")
        if one is None or action not in {"update", "remove"} or (action == "update" and self._after(one, args) is None):
            return ToolPermission.AUTO
        is_asked = action == "remove" or one.created_by == USER
        return ToolPermission.CONFIRM if is_asked else ToolPermission.AUTO

    async def preview(self, ctx: ToolContext, args: BaseModel) -> str:
        """What a call would change; empty for one that is refused."""
        one = await self._meant(ctx, args)
        if one is None:
            return ""
        name = one.value.name
        if getattr(args, "action", "") == "remove":
            return f"Removes the {self.kind.noun} {portable_line(name)}; its versions are kept."
        if (after := self._after(one, args)) is None:
            return ""
        before = self.kind.write(one.value)
        return await asyncio.to_thread(fenced_diff, before, self.kind.write(after), name, f"{name} as proposed")

    def _after(self, one: Held[V], args: BaseModel) -> V | None:
        """What a change would make of one; None for what the tool itself will refuse."""
        try:
            return changed(one.value, getattr(args, self.param).fields)
        except UsageError:
            return None

    async def _meant(self, ctx: ToolContext, args: BaseModel) -> Held[V] | None:
        """The one that a call names; None for what the tool itself will refuse."""
        data = getattr(args, self.param)
        try:
            return None if data is None else named(await self.held(ctx), data.name, self.kind.noun)
        except UsageError:
            return None

    async def act(self, ctx: ToolContext, action: str, data: NamedData | None) -> ToolResult:
        """Create, update or remove one; `ToolError` for what cannot be."""
        if data is None:
            raise ToolError(f"Say in {self.param} which {self.kind.noun} is meant.")
        store, by = ctx.service(BelongingStore), authorship(ctx, f"manage_{self.kind.noun}: {action}")
        if action == "create":
            value = self._made(data.fields | {"name": data.name})
            written = await refusing(store.create(by, self.kind, value))
        elif action == "update":
            given = data.fields
            written = await refusing(store.update(by, self.kind, data.name, lambda value: changed(value, given)))
        else:
            written = await refusing(store.remove(by, self.kind, data.name))
        return told(ctx, written, f"The {self.kind.noun} {data.name!r} {_DONE[action]}.")

    def _made(self, given: Mapping[str, Any]) -> V:
        try:
            return self.make(**{name: value for name, value in given.items() if value is not None})
        except UsageError as error:
            raise ToolError(str(error)) from None
        except TypeError:
            missing = [name for name, value in given.items() if value is None]
            raise ToolError(f"A {self.kind.noun} needs more: {', '.join(missing)} can be given.") from None
