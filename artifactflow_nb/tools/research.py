"""The tool that has something researched for a document: the call is a run of the research flow, begun by the flow."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from artifactflow_nb.projects import RUN_RESEARCH
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.block_access import CATEGORY, overwriting

ResearchType = Literal["consumer", "general"]


class RunResearch(BaseModel):
    """The parameters of `run_research`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    query: Annotated[str, Field(description="The question, in a sentence that stands alone.", min_length=1)]
    research_type: Annotated[
        ResearchType, Field(description="`consumer`: those for whom it is written; `general`: everything else.")
    ] = "general"
    field_name: Annotated[str, Field(description="The block that the report goes into; a new one if left out.")] = ""


run_research = Tool(
    RUN_RESEARCH,
    "Have something researched by a run of its own: its report and the sources that it read become blocks. Use it for "
    "every text in a phase of research, and whenever a fact is needed that no block holds; `consumer` for what the "
    "readers need, know and say, `general` for facts about the subject.",
    RunResearch,
    None,
    overwriting,
    CATEGORY,
    idempotent=True,
)

RESEARCH_TOOLS = (run_research,)
