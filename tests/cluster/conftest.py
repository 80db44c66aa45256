from __future__ import annotations

# The program that is submitted finds its module beside it, as the main program of a process does.
collect_ignore = ["app"]
