"""Figures of a run, one module a family. Each function returns :class:`viz.figures.style.Figure`."""
