"""Charts of frames, each as a Vega-Lite specification, an SVG and a table in one value."""
