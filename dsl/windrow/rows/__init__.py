"""Functions by key that keep rows: the newest, what repeats, and changes of tables."""
