"""Objects that calls give: typed values, which the text protocol gives as JSON."""

from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, model_validator


class Given(BaseModel):
    """An object that a call gives; a text that is a JSON object is that object."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                return orjson.loads(value)
            except ValueError:
                pass
        return value
