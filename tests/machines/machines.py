"""Machines made on this one, by namespaces of Linux: their addresses, host names, processes, folders and clocks.

They share no more than machines of a cluster do: the image (the operating system, Python and Spark, which nobody can
write to), a network, and one folder if they are given one. What else a machine writes lies in its own memory, and is
gone when the machine is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Final

from tests.services.cache import cache_folder
from tests.spark_home import home_without_zip, options_with_classes

__all__ = [
    "DRIVER",
    "ROOT",
    "SERVICES",
    "SHARED",
    "Machine",
    "Network",
    "NoMachinesError",
    "eventually",
    "inside",
    "refusal",
]

ROOT: Final = Path(__file__).parents[2]
SHARED: Final = "/srv/shared"
"""Where each machine has the shared folder."""
SERVICES: Final = "10.77.0.254"
"""Where services answer: the address of the bridge, which is that of this program."""
DRIVER: Final = "only-the-driver"
"""The driver's host name, and a part of the paths of all folders that no other machine has."""

_ADDRESSES: Final = {"master": "10.77.0.1", **{f"worker-{n}": f"10.77.0.1{n}" for n in (1, 2, 3)}, DRIVER: "10.77.0.50"}
_NAMESPACES: Final = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
_NUMBERS: Final = count(1)
_STARTED: Final = "the machine runs"

# What nobody shares is mounted last, as the shared folder may lie in /tmp. The first process of a machine has to take
# leave of those whose parents have died.
_START: Final = r"""set -e
name=$1 address=$2 own=$3 code=$4 jars=$5 hosts=$6 shared=$7 python=$8
hostname "$name"
mount -t tmpfs tmpfs /srv
mkdir -p "$own/code" "$own/jars" "$own/home" "$own/scratch" "$own/work"
mount --bind -o ro "$code" "$own/code"
mount --bind -o ro "$jars" "$own/jars"
if [ -n "$shared" ]; then mkdir /srv/shared; mount --bind "$shared" /srv/shared; fi
mount --bind -o ro "$hosts" /etc/hosts
mount -o remount,bind,ro /
for folder in /var/tmp /dev/shm /tmp; do mount -t tmpfs tmpfs $folder; done
ip link set lo up
until ip link show eth0 > /dev/null 2>&1; do sleep 0.02; done
ip address add "$address/24" dev eth0
ip link set eth0 up
cd "$own/home"
exec "$python" -c "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print('the machine runs', flush=True)
while True: signal.pause()"
"""


class NoMachinesError(Exception):
    """Machines cannot be made here; the text says why."""


def refusal() -> str | None:
    """Why machines cannot be made here; None: they can."""
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            return f"no machines: {program} is not on PATH (apt-get install util-linux iproute2)"
    if home_without_zip() is None or shutil.which("java") is None:
        return "no machines: Spark or Java is missing"
    for folder in (sys.prefix, home_without_zip() or "", sys.base_prefix):
        if folder.startswith(("/tmp/", "/var/tmp/", "/srv/")):
            return f"no machines: {folder} lies in a folder that each machine has of its own"
    tried = ["ip link add bridge type bridge && ip link add veth-1 type veth peer name eth0 && mount -t tmpfs x /srv"]
    done = subprocess.run(
        ["unshare", *_NAMESPACES, "sh", "-c", *tried], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0:
        return f"no machines: namespaces cannot be made, which takes root: {done.stderr.strip()[-200:]}"
    return None


@cache
def clock_library() -> str | None:
    """The library that gives a machine a clock of its own, by its name in the cache; None: there is no compiler."""
    # With libfaketime Java wakes again and again, and if the clock of the boot is the real one, `time.sleep` fails.
    source = Path(__file__).with_name("clock.c")
    library = cache_folder() / f"clock-{blake2b(source.read_bytes(), digest_size=4).hexdigest()}.so"
    if not library.exists():
        if shutil.which("cc") is None:
            return None
        unfinished = library.with_suffix(f".{os.getpid()}")
        _run("cc", "-O1", "-shared", "-fPIC", "-o", str(unfinished), str(source), "-ldl")
        unfinished.rename(library)
    return library.name


def inside(module: str, arguments: Sequence[str]) -> list[str]:
    """The command of a module with a network of its own; whatever it starts ends with it."""
    return ["unshare", *_NAMESPACES, sys.executable, "-m", module, *arguments]


@dataclass
class Process:
    """A process on a machine, and its log.

    Attributes:
        log: The file of its output.
    """

    log: Path
    _popen: subprocess.Popen[bytes]

    @property
    def text(self) -> str:
        """What it has said so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def code(self) -> int | None:
        """Its exit code; None: it runs."""
        return self._popen.poll()

    def wait(self, seconds: float) -> int | None:
        """Waits for its end; returns the exit code, or None if it goes on running."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close_input(self) -> None:
        """Ends its standard input."""
        if self._popen.stdin is not None:
            self._popen.stdin.close()


@dataclass
class Machine:
    """A machine, which can be killed and comes back with nothing that it had.

    Attributes:
        name: Its host name.
        network: What it is attached to.
        clock: By how many seconds its clock is ahead.
    """

    name: str
    network: Network
    clock: float = 0.0
    _unshare: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _device: str = field(default="", init=False)

    @property
    def address(self) -> str:
        return _ADDRESSES[self.name]

    @property
    def own(self) -> str:
        """The folder in which its files are."""
        return f"/srv/{DRIVER if self.name == DRIVER else 'machine'}"

    def boot(self) -> None:
        """Makes the machine, and waits until it is attached to the network."""
        log = self.network.logs / f"{self.name}-boot.log"
        shared = "" if self.network.shared is None else str(self.network.shared)
        paths = [self.own, str(ROOT), str(cache_folder()), str(self.network.hosts), shared, sys.executable]
        with log.open("wb") as out:
            self._unshare = subprocess.Popen(
                ["unshare", *_NAMESPACES, "sh", "-c", _START, "sh", self.name, self.address, *paths],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        eventually(lambda: bool(self._first()) or self._unshare is None, f"{self.name} has no process")
        self._device = device = f"veth-{next(_NUMBERS)}"
        # Others keep the hardware's address of a machine for a while.
        hardware = "02:00:" + ":".join(f"{int(part):02x}" for part in self.address.split("."))
        _run(
            "ip",
            "link",
            "add",
            device,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "address",
            hardware,
            "netns",
            self._first(),
        )
        _run("ip", "link", "set", device, "master", "bridge", "up")
        eventually(lambda: _STARTED in log.read_text(), f"{self.name} does not start: {log.read_text()}")

    def _first(self) -> str:
        """The number of the machine's first process, as this program sees it; empty: there is none yet."""
        assert self._unshare is not None, f"{self.name} does not run"
        pid = self._unshare.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()

    @property
    def is_up(self) -> bool:
        return self._unshare is not None

    def kill(self, *, silently: bool = False) -> None:
        """Ends all its processes by SIGKILL; ``silently``: as a power failure does, which closes no connection."""
        if self._unshare is not None:
            if silently:
                _run("ip", "link", "delete", self._device)
            self._unshare.kill()
            self._unshare.wait()
            self._unshare = None

    def processes(self) -> list[int]:
        """The numbers of its processes but for the first one, as this program sees them."""
        first = self._first()
        place = os.readlink(f"/proc/{first}/ns/pid")
        found = []
        for each in Path("/proc").iterdir():
            if each.name.isdigit() and each.name != first:
                try:
                    if os.readlink(each / "ns" / "pid") == place:
                        found.append(int(each.name))
                except OSError:
                    continue  # it has ended
        return found

    def start(self, name: str, command: Sequence[str], **variables: str) -> Process:
        """Starts a process, whose log goes on where the last one of this name ended; its input can be closed."""
        log = self.network.logs / f"{name}.log"
        environment = {**self.environment(), **variables}
        entered = ["nsenter", "--target", self._first(), "--all", "sh", "-c", 'cd "$HOME" && exec "$@"', "sh"]
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*entered, *command], env=environment, stdin=subprocess.PIPE, stdout=out, stderr=out
            )
        return Process(log, process)

    def environment(self) -> Mapping[str, str]:
        """The variables of its processes."""
        code = f"{self.own}/code"
        shared = {name: os.environ[name] for name in ("JAVA_HOME", "PATH") if name in os.environ}
        library = clock_library()
        fake = {"LD_PRELOAD": f"{self.own}/jars/{library}", "CLOCK_AHEAD": f"{self.clock * 1000:.0f}"}
        return {
            **shared,
            **(fake if self.clock and library is not None else {}),
            "HOME": f"{self.own}/home",
            "LANG": "C.UTF-8",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([f"{code}/dsl", f"{code}/runtime", code]),
            "SPARK_DAEMON_JAVA_OPTS": options_with_classes(),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(home_without_zip()),
            "SPARK_LOCAL_DIRS": f"{self.own}/scratch",
            "SPARK_LOCAL_IP": self.address,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_SUBMIT_OPTS": options_with_classes(),
        }


@dataclass
class Network:
    """The network of the machines.

    Attributes:
        logs: The folder of their logs.
        shared: The folder that all machines have as :data:`SHARED`; None: there is none.
        hosts: The file of their names.
    """

    logs: Path
    shared: Path | None
    hosts: Path

    @staticmethod
    @contextmanager
    def made(folder: Path, *, shared: bool) -> Iterator[Network]:
        """A new network without machines, which this program is attached to; see :func:`inside`."""
        hosts, logs = folder / "hosts", folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in _ADDRESSES.items())]
        hosts.write_text("".join(f"{line}\n" for line in lines))
        if shared:
            (folder / "shared").mkdir(exist_ok=True)
        for command in (
            ("link", "set", "lo", "up"),
            ("link", "add", "bridge", "type", "bridge"),
            ("address", "add", f"{SERVICES}/24", "dev", "bridge"),
            ("link", "set", "bridge", "up"),
        ):
            _run("ip", *command)
        cache_folder().mkdir(parents=True, exist_ok=True)
        yield Network(logs, folder / "shared" if shared else None, hosts)

    def machine(self, name: str, clock: float = 0.0) -> Machine:
        """A machine that has booted."""
        machine = Machine(name, self, clock)
        machine.boot()
        return machine


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def eventually(condition: Callable[[], bool], failure: str, seconds: float = 120) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{failure}, after {seconds:.0f} s")
        time.sleep(0.05)
