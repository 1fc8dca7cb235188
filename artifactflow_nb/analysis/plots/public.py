"""Plots of frames as matplotlib `Axes`, which can be restyled, composed and saved.

matplotlib comes with the extra `artifactflow-nb[plots]` and is imported by the first plot.
"""

from artifactflow_nb.analysis.plots.canvas import alt_text
from artifactflow_nb.analysis.plots.figures import cost, latency, timeline, tokens

__all__ = ["alt_text", "cost", "latency", "timeline", "tokens"]
