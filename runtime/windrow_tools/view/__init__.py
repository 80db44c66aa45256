"""Shows a pipeline while it runs: in a terminal, in a notebook, and as a page for a browser of this machine."""

from windrow_tools.view.dashboard import Dashboard, dashboard
from windrow_tools.view.follow import Running
from windrow_tools.view.history import RunHistory
from windrow_tools.view.snapshot import OpenWindows, Sample, Snapshot, StepSnapshot
from windrow_tools.view.watch import watch

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
