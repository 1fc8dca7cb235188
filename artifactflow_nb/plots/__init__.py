"""Charts over the frames: each as a Vega-Lite specification, as an SVG and as a table, in one value."""
