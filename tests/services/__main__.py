"""Starts and stops servers by hand.

python -m tests.services kafka start     # tests then use this one, and do not start one of their own
python -m tests.services kafka status
python -m tests.services kafka stop
python -m tests.services kafka fetch     # only brings what it needs into the cache

So it does for hdfs and s3, which keep files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from tests.services import hdfs, kafka, s3
from tests.services.cache import CACHE_VARIABLE, cache_folder
from tests.services.errors import NoServiceError
from tests.services.server import keep_server, kept_server, stop_kept_server

_SERVICES: Final[dict[str, ModuleType]] = {"hdfs": hdfs, "kafka": kafka, "s3": s3}


def main(arguments: Sequence[str]) -> int:
    """Does what the arguments say; returns the exit code: 1 if the service cannot be had or does not run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.services",
        description="Starts and stops servers that tests run against.",
        epilog=f"What they need is in {cache_folder()}; {CACHE_VARIABLE} names another folder.",
    )
    parser.add_argument("service", choices=sorted(_SERVICES))
    parser.add_argument("action", choices=["start", "stop", "status", "fetch"])
    given = parser.parse_args(arguments)
    service = _SERVICES[given.service]
    try:
        if given.action == "fetch":
            service.fetch()
            return 0
        if given.action == "stop":
            was_there = stop_kept_server(given.service)
            print(f"{given.service} was stopped" if was_there else f"{given.service} did not run")
            return 0
        starts = given.action == "start"
        server = keep_server(given.service, service.launch) if starts else kept_server(given.service)
    except NoServiceError as error:
        print(error, file=sys.stderr)
        return 1
    if server is None:
        print(f"{given.service} does not run")
        return 1
    print(f"{given.service} answers at {server.address}; process {server.pid}, log in {server.folder}/log")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
