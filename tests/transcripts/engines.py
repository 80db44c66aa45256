"""The engines that run transcripts, by name."""

from __future__ import annotations

from typing import Final

from tests.transcripts.engine import Engine
from tests.transcripts.local import local_run

ENGINES: Final[dict[str, Engine]] = {"local": local_run}
