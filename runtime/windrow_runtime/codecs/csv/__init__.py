"""Elements as rows of CSV."""
