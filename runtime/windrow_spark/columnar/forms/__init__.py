"""Defines the forms in which steps take columns, and the routes by which columns get to them."""
