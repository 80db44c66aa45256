"""The forms in which steps take columns, and the routes on which these get there."""
