"""The tools of those who write a project."""

from artifactflow_nb.tools.block_structure import STRUCTURE_TOOLS
from artifactflow_nb.tools.block_texts import TEXT_TOOLS
from artifactflow_nb.tools.evaluation import EVALUATION_TOOLS
from artifactflow_nb.tools.outline import OUTLINE_TOOLS
from artifactflow_nb.tools.personas import PERSONA_TOOLS
from artifactflow_nb.tools.research import RESEARCH_TOOLS
from artifactflow_nb.tools.skills import SKILL_TOOLS

COMPOSE_TOOLS = (
    *TEXT_TOOLS,
    *STRUCTURE_TOOLS,
    *OUTLINE_TOOLS,
    *RESEARCH_TOOLS,
    *PERSONA_TOOLS,
    *SKILL_TOOLS,
    *EVALUATION_TOOLS,
)
