"""Plots of frames with matplotlib, and the waterfall of a run as SVG."""
