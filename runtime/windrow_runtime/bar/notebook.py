"""Displays HTML in a notebook, and replaces it there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def notebook_display() -> Callable[[str], None] | None:
    """Returns what shows HTML in the notebook that runs this program; None: no notebook does.

    Each call replaces what the one before has shown, in any thread. IPython in a terminal is no notebook.
    """
    # A notebook has imported IPython before any code of the user's; other programs need not have it.
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    module: Any = import_module("IPython.display")  # Any: IPython need not be installed
    handle: Any = None

    def show(html: str) -> None:
        nonlocal handle
        if handle is not None:
            handle.update(module.HTML(html))
        elif html:
            handle = module.display(module.HTML(html), display_id=True)

    return show
