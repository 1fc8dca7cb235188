"""The tools whose calls are jobs of other agents, or runs: such a call lasts as long as what was done for it."""

from artifactflow_nb.plans import PLAN_CREATE
from artifactflow_nb.projects import EVALUATE, GENERATE, GRADE_FIELD, MODIFY, OUTLINE, RUN_RESEARCH

DELEGATING = ("call_subagent", PLAN_CREATE, GENERATE, MODIFY, OUTLINE, EVALUATE, GRADE_FIELD, RUN_RESEARCH)
"""Their names."""
