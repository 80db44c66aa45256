"""Shows a pipeline while it runs: in a terminal, in a notebook, and as a page for a browser of this machine."""

from windrow_tools.view import (
    Dashboard,
    OpenWindows,
    RunHistory,
    Running,
    Sample,
    Snapshot,
    StepSnapshot,
    dashboard,
    watch,
)

__all__ = [
    "Dashboard",
    "OpenWindows",
    "RunHistory",
    "Running",
    "Sample",
    "Snapshot",
    "StepSnapshot",
    "dashboard",
    "watch",
]
