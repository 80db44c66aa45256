"""The engines that run transcripts, by name."""

from __future__ import annotations

from typing import Final

from tests.transcripts.local import local_run
from tests.transcripts.running import Engine

ENGINES: Final[dict[str, Engine]] = {"local": local_run}
