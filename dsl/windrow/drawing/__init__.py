"""Draws SVG and tables in HTML, with colours for light and dark backgrounds: for pictures of plans and of runs."""
