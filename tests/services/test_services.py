"""Services for tests: where they are kept, what is said when there are none, and how they end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.services import hdfs, kafka, s3
from tests.services.__main__ import main
from tests.services.cache import CACHE_VARIABLE, cache_folder
from tests.services.errors import NoServiceError
from tests.services.jars import Jars
from tests.services.server import Server, free_ports, recorded, start_server
from tests.support.thorough import thorough

ROOT = Path(__file__).parents[2]
SLEEPS = "import sys, time; print('here', flush=True); time.sleep(600)"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))
    return folder


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)


def test_where_the_cache_is(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == cache
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "windrow-services"


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ({}, "no Kafka: java is not on PATH (apt-get install openjdk-17-jre-headless)"),
        ({"java": "exit 1"}, "no Kafka: mvn is not on PATH (apt-get install maven)"),
        (
            {"java": "exit 1", "mvn": "echo '[ERROR] Unknown host repo.maven.apache.org'; exit 1"},
            "no Kafka: Maven cannot fetch it: [ERROR] Unknown host repo.maven.apache.org",
        ),
    ],
)
@pytest.mark.usefixtures("cache")
def test_what_is_missing_is_named(
    programs: dict[str, str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in programs.items():
        program(tmp_path, name, text)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["kafka", "start"]) == 1
    assert capsys.readouterr().err == f"{reason}\n"


def test_jars_are_fetched_once_and_whole(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    # The last argument names the folder.
    program(
        tmp_path, "mvn", f'echo . >> {calls}; for last; do :; done; mkdir "${{last#*=}}"; : > "${{last#*=}}/one.jar"'
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    jars = Jars("it", ("a.group:thing:1",))
    assert jars.fetch() == jars.fetch() == [jars.folder / "one.jar"]
    assert calls.read_text() == ".\n"
    assert [each.name for each in cache.iterdir()] == [jars.folder.name]
    assert Jars("it", ("a.group:thing:2",)).folder != jars.folder


def sleeper(folder: Path, answers: Callable[[], bool]) -> Server:
    command = [sys.executable, "-c", SLEEPS, str(folder)]
    return start_server("sleeper", command, folder, address="nowhere", answers=answers)


@pytest.mark.usefixtures("cache")
def test_a_server_runs_until_it_is_killed(tmp_path: Path) -> None:
    server = sleeper(tmp_path, lambda: "here" in (tmp_path / "log").read_text())
    server.record()
    assert recorded("sleeper") == server
    assert server.is_running
    # Another process has the number by now.
    assert not Server("sleeper", server.pid, "nowhere", str(tmp_path / "other")).is_running
    server.kill()
    assert not server.is_running
    assert recorded("sleeper") is None


@pytest.mark.usefixtures("cache")
def test_a_server_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    text = (
        "import os, sys; from pathlib import Path; from tests.services.test_services import sleeper\n"
        "folder = Path(sys.argv[1]); print(sleeper(folder, lambda: 'here' in (folder / 'log').read_text()).pid)\n"
        "sys.stdout.flush(); os._exit(1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    server = Server("sleeper", int(done.stdout), "nowhere", str(tmp_path))
    end = time.monotonic() + 10
    while server.is_running:
        assert time.monotonic() < end


def test_a_server_that_ends_shows_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such setting')", str(tmp_path)]
    with pytest.raises(RuntimeError, match="its log ends in\nno such setting"):
        start_server("it", command, tmp_path, address="nowhere", answers=lambda: False)


def test_ports_are_free_and_differ() -> None:
    assert len(set(free_ports(5))) == 5
    assert not kafka.answers(("127.0.0.1", free_ports(1)[0]))


@pytest.mark.server
@pytest.mark.parametrize(
    "service", [s3, thorough(hdfs, reason="tests/crash/test_crash.py has its files, and the other case the commands")]
)
def test_file_systems_answer_until_they_are_stopped(
    service: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        service.fetch()
    except NoServiceError as error:
        pytest.skip(str(error))
    for each in cache_folder().iterdir():
        if each.is_dir():
            (tmp_path / each.name).symlink_to(each)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    name = service.__name__.rpartition(".")[2]
    assert main([name, "status"]) == 1
    with service.running() as server:
        server.record()
        capsys.readouterr()
        assert main([name, "start"]) == 0
        assert f"{name} answers at {server.address}" in capsys.readouterr().out
    assert not Path(server.folder).exists()
    assert main([name, "status"]) == 1


@pytest.mark.server
def test_a_broker_that_was_started_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        kafka.BROKER.fetch()
    except NoServiceError as error:
        pytest.skip(str(error))
    (tmp_path / kafka.BROKER.folder.name).symlink_to(kafka.BROKER.folder)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    command = [sys.executable, "-m", "tests.services", "kafka"]
    subprocess.run([*command, "start"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        assert main(["kafka", "status"]) == 0
        said = capsys.readouterr().out
        with kafka.running_kafka() as server:
            assert f"kafka answers at {server.address}; process {server.pid}" in said
            host, _, port = server.address.partition(":")
            assert kafka.answers((host, int(port)))
    finally:
        assert main(["kafka", "stop"]) == 0
    assert not Path(server.folder).exists()
    assert main(["kafka", "status"]) == 1
