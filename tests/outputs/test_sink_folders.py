"""The folder of a file sink is that of one run, and of those that go on from its checkpoint."""

from __future__ import annotations

import errno
import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from windrow import Pipeline, from_collection
from windrow.errors import SinkError
from windrow.plan import Step
from windrow.sinks import DatabaseSink, JsonFileSink
from windrow_runtime.connectors.files.batch_files import BatchFiles
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.registry import check_owners, claim_targets
from windrow_runtime.outputs.whole_files import checksum

# Claims a folder and waits, as a run does that computes its first batch.
PROGRAM = """
import sys, time
from tests.outputs.test_sink_folders import Path, claim_targets, sinks
claims = claim_targets(sinks(Path(sys.argv[1])), "one", begins=True)
print("claimed", flush=True)
time.sleep(600)
"""


def sinks(*folders: Path, overwrite: bool = False) -> list[Step]:
    numbers = from_collection([1])
    ends = [numbers.sink_to(JsonFileSink(folder, overwrite=overwrite)) for folder in folders]
    return [step for step in Pipeline("files", *ends).steps if step.inputs]


def claim(steps: list[Step], run: str, *, begins: bool) -> None:
    """What a run leaves that claimed its folders and was killed."""
    claim_targets(steps, run, begins=begins).close()


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "part-0.json").write_text("1\n")


def put_batch(folder: Path, batch: int) -> None:
    files = BatchFiles(folder, batch)
    files.begin()
    files.staging.mkdir()
    (files.staging / "part-0.json").write_text("1\n")
    files.publish()


def shown(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name != "_windrow")


def test_a_run_goes_on_in_its_folder_and_others_are_refused(tmp_path: Path) -> None:
    claim(sinks(tmp_path), "one", begins=True)
    put_batch(tmp_path, 0)
    for begins in (True, False):
        claim(sinks(tmp_path, overwrite=True), "one", begins=begins)
        with pytest.raises(SinkError, match=r"another run(.|\n)*_batches/0.files(.|\n)*test_sink_folders.py:\d+"):
            claim(sinks(tmp_path), "two", begins=begins)
    assert shown(tmp_path) == ["_batches", "batch-0-part-0.json"]


def test_nothing_is_changed_where_one_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    put_batch(tmp_path / "b", 10)
    with pytest.raises(SinkError, match=r"_batches/10\.files"):
        claim(sinks(tmp_path / "a", tmp_path / "b"), "one", begins=True)
    assert shown(tmp_path) == ["b"]


def test_a_refused_run_makes_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match=r"cannot be written(.|\n)*Errno 20"):
        claim(sinks(tmp_path / "a", tmp_path / "file" / "b"), "one", begins=True)
    numbers = from_collection([1])
    database = DatabaseSink[int](f"sqlite:///{tmp_path}/no/folder.db", "numbers")
    pipeline = Pipeline("refused", numbers.sink_to(JsonFileSink(tmp_path / "a")), numbers.sink_to(database))
    with pytest.raises(SinkError):
        LocalRunner().run(pipeline)
    assert shown(tmp_path) == ["file"]


def test_files_without_a_list_are_a_batch(tmp_path: Path) -> None:
    put_batch(tmp_path, 3)
    shutil.rmtree(tmp_path / "_batches")
    with pytest.raises(SinkError, match=r"batch-3-part-0\.json"):
        claim(sinks(tmp_path), "one", begins=True)
    claim(sinks(tmp_path, overwrite=True), "one", begins=True)
    assert shown(tmp_path) == []


def test_what_counts_as_no_batch(tmp_path: Path) -> None:
    foreign = ["2026", "batch-", "batch-x", "batch=0", "my batch-0"]
    put(tmp_path, *foreign)
    (tmp_path / "notes.txt").touch()
    claim(sinks(tmp_path), "a run that was killed before its first batch was whole", begins=True)
    put(tmp_path, "_batch-0")
    claim(sinks(tmp_path), "two", begins=True)
    assert shown(tmp_path) == sorted([*foreign, "notes.txt"])


def test_overwriting_removes_the_batches_and_nothing_else(tmp_path: Path) -> None:
    claim(sinks(tmp_path), "one", begins=True)
    put(tmp_path, "_batch-12", "other")
    put_batch(tmp_path, 4)
    foreign = ["batch-4-notes.json", "batch-x-part-0.json", "batch-4-part-0.json.bak"]
    for name in foreign:
        (tmp_path / name).touch()
    put(tmp_path.with_name("elsewhere"), "kept")
    (tmp_path / "_batch-1").symlink_to(tmp_path.with_name("elsewhere"))
    with pytest.raises(SinkError, match="earlier batches of this checkpoint are not there"):
        claim(sinks(tmp_path, overwrite=True), "two", begins=False)
    claim(sinks(tmp_path, overwrite=True), "two", begins=True)
    assert shown(tmp_path) == sorted([*foreign, "other"])
    assert (tmp_path.with_name("elsewhere") / "kept" / "part-0.json").exists()
    put_batch(tmp_path, 0)
    with pytest.raises(SinkError, match="another run"):
        claim(sinks(tmp_path), "one", begins=True)


def test_a_run_whose_folder_was_taken_stops(tmp_path: Path) -> None:
    steps = sinks(tmp_path)
    claim(steps, "one", begins=True)
    check_owners(steps, "one")
    claim(steps, "two", begins=True)
    with pytest.raises(SinkError, match=r"taken the folder(.|\n)*test_sink_folders.py:\d+"):
        check_owners(steps, "one")
    shutil.rmtree(tmp_path / "_windrow")
    check_owners(steps, "one")


def test_a_run_that_computes_its_first_batch_keeps_its_folder(tmp_path: Path) -> None:
    numbers = from_collection([1, 2])
    target = JsonFileSink[int](tmp_path / "numbers", overwrite=True)
    other = Pipeline("other", numbers.sink_to(target))
    refused: list[object] = []

    def slow(number: int) -> int:
        with pytest.raises(SinkError, match="another run writes to the folder") as caught:
            LocalRunner().run(other)
        refused.append(caught.value.where)
        return number * 10

    LocalRunner().run(Pipeline("slow", numbers.map(slow).sink_to(target)))
    assert len(refused) == 2
    assert all("test_sink_folders.py" in str(where) for where in refused)
    assert (tmp_path / "numbers" / "batch-0-part-0.json").read_text() == "10\n20\n"
    LocalRunner().run(other)
    assert (tmp_path / "numbers" / "batch-0-part-0.json").read_text() == "1\n2\n"


def test_a_run_that_is_over_gives_way_though_nobody_has_asked_for_its_end(tmp_path: Path) -> None:
    over = claim_targets(sinks(tmp_path), "one", begins=True, is_live=lambda: False)
    with claim_targets(sinks(tmp_path), "two", begins=True):
        over.close()
        with pytest.raises(SinkError, match="another run writes"):
            claim(sinks(tmp_path), "three", begins=True)
    claim(sinks(tmp_path), "three", begins=True)


def test_a_process_that_is_killed_leaves_the_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "claimed\n"
            with pytest.raises(SinkError, match="another run writes"):
                claim(sinks(tmp_path), "two", begins=True)
        finally:
            holder.kill()
    claim(sinks(tmp_path), "two", begins=True)


def test_nobody_is_refused_where_folders_have_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: int, operation: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", flock)
    first, second = (claim_targets(sinks(tmp_path), run, begins=True) for run in ("one", "two"))
    with first, second, pytest.raises(SinkError, match="has taken the folder"):
        check_owners(sinks(tmp_path), "one")


def write_list(folder: Path, batch: int, *names: str) -> None:
    """Writes the list of a batch, an entry for each name, with its checksum, which anybody may compute."""
    entries = [name.replace("part-0.json", "json-0") for name in names]
    for name in [*entries, f"checksum-{checksum(str(batch), chr(10).join(sorted(names)).encode())}"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


HOSTILE = [
    "part-0.json", "q=a/part-0.json", "p=a/q=b/part-0.json", "_p=a/part-0.json", "=a/part-0.json", "p=a/notes.txt",
    "p/part-0.json", "p=a/batch-0-part-0.json", "p=/part-0.json", "p=a/batch-0", "p=a/part-0.sh", "p=a/x-0",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("ending", [".files", ".begun"])
def test_lists_name_files_of_the_sink_alone(tmp_path: Path, name: str, ending: str) -> None:
    (tmp_path / "p=a").mkdir()
    (tmp_path / "p=a" / "notes.txt").touch()
    write_list(tmp_path / "_batches" / f"0{ending}", 0, name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OSError, match=rf"list of the files of a batch is damaged.*_batches/0{ending}"):
        BatchFiles(tmp_path, 0, ("p",)).withdraw()
    assert [path for path in sorted(tmp_path.rglob("*")) if "_batch-0" not in path.parts] == before


CONTENTS = [b"", b"[]", b'["../other/batch-0-part-0.json"]', b"\xff\n[]"]


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", ["0.files", "0.begun", "1.files", "1.begun"])
def test_a_list_of_another_form_is_refused(tmp_path: Path, content: bytes, name: str) -> None:
    steps = sinks(tmp_path, overwrite=True)
    claim(steps, "one", begins=True)
    put_batch(tmp_path, 0)
    place = tmp_path / "_batches" / name
    if place.exists():
        shutil.rmtree(place)
    place.write_bytes(content)
    # A run that goes on reads the lists of whole batches alone.
    for run, begins in (("two", True), ("one", False)) if name.endswith(".files") else (("two", True),):
        with pytest.raises(SinkError, match=rf"damaged(.|\n)*_batches/{name}(.|\n)*test_sink_folders.py:\d+"):
            claim(steps, run, begins=begins)
    if name.startswith("0."):
        with pytest.raises(OSError, match="damaged"):
            put_batch(tmp_path, 0)


@pytest.mark.parametrize("change", ["lost", "more", "of another batch"])
def test_a_list_with_another_checksum_is_refused(tmp_path: Path, change: str) -> None:
    steps = sinks(tmp_path, overwrite=True)
    claim(steps, "one", begins=True)
    for batch in (0, 1):
        put_batch(tmp_path, batch)
    place = tmp_path / "_batches" / "1.files"
    if change == "lost":
        (place / "json-0").unlink()
    elif change == "more":
        (place / "json-1").touch()
    else:
        shutil.rmtree(place)
        shutil.copytree(tmp_path / "_batches" / "0.files", place)
    with pytest.raises(OSError, match="damaged"):
        put_batch(tmp_path, 1)
    with pytest.raises(SinkError, match=r"damaged(.|\n)*_batches/1.files"):
        claim(steps, "two", begins=True)


@pytest.mark.parametrize("link", ["_batches", "_batches/0.files", "_batches/0.begun", "p=a"])
def test_links_are_not_followed(tmp_path: Path, link: str) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    files = BatchFiles(out, 0, ("p",))
    (files.staging / "p=a").mkdir(parents=True)
    (files.staging / "p=a" / "part-0.json").write_text("mine")
    files.publish()
    elsewhere.mkdir()
    if link == "_batches/0.begun":
        write_list(elsewhere / "target", 0, "p=a/part-0.json")
    else:
        (out / link).rename(elsewhere / "target")
    (out / link).symlink_to(elsewhere / "target")
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(OSError, match=r"link|is no folder"):
        BatchFiles(out, 0, ("p",)).withdraw()
    assert sorted(elsewhere.rglob("*")) == before


def test_a_link_where_a_batch_is_written_aside_is_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    put(elsewhere, "kept")
    out = tmp_path / "out"
    out.mkdir()
    (out / "_batch-0").symlink_to(elsewhere)
    put_batch(out, 0)
    assert (out / "batch-0-part-0.json").read_text() == "1\n"
    assert shown(elsewhere) == ["kept"]


def test_the_note_of_the_owner_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "precious").touch()
    out = tmp_path / "out"
    out.mkdir()
    (out / "_windrow").symlink_to(tmp_path / "secret")
    with pytest.raises(SinkError, match="_windrow"):
        claim(sinks(out), "one", begins=True)
    assert (tmp_path / "secret" / "precious").exists()
