"""Spark's part of a checkpoint, as it lies in files: what is refused, and what is cleared away."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from windrow.errors import CheckpointError
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.spark_files import (
    batch_that_reads,
    check_source_logs,
    check_spark_files,
    clear_leftovers,
    has_settled,
)


def lay(folder: Path, *files: str, offset: str = '{"logOffset":1}') -> Path:
    """Makes files; those of ``offsets`` say how far the only source was read, those of ``sources`` which files."""
    for name in files:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        content = ""
        if name == "metadata":
            content = '{"id":"6ff2a2b6-4e5a-44cf-8f0a-0d9b5f6d9d5b"}'
        elif name.startswith("offsets/"):
            content = f"v1\n{{}}\n{offset}\n"
        elif name.startswith("sources/"):
            content = entries(file.name)
        file.write_text(content)
    return folder


def entries(name: str) -> str:
    """An entry of the log of a source of files, or a compact one, as Spark writes it."""
    last = int(name.removesuffix(".compact"))
    first = 0 if name.endswith(".compact") else last
    files = [{"path": f"file:///in/{number}", "timestamp": 1, "batchId": number} for number in range(first, last + 1)]
    return "\n".join(["v1", *map(json.dumps, files)])


WHOLE = ("metadata", "offsets/3", "offsets/4", "commits/3", "state/0/0/4.changelog")


@pytest.mark.parametrize("newest", [-1, 3, 4])
def test_a_whole_folder_passes(tmp_path: Path, newest: int) -> None:
    lay(tmp_path, *WHOLE, "sources/0/0", "sources/0/1")
    check_spark_files(tmp_path, newest, stateful=True)
    check_source_logs(tmp_path, 1)


def check_damaged(check: Callable[[], object], where: Path) -> None:
    with pytest.raises(CheckpointError, match="the checkpoint is damaged") as caught:
        check()
    assert caught.value.where == str(where)
    assert "as a whole from a copy" in str(caught.value.hint)


@pytest.mark.parametrize("missing", WHOLE)
def test_a_file_that_is_gone_is_named(tmp_path: Path, missing: str) -> None:
    lay(tmp_path, *(name for name in WHOLE if name != missing))
    where = "state" if missing.startswith("state") else missing
    check_damaged(lambda: check_spark_files(tmp_path, 4, stateful=True), tmp_path / where)


@pytest.mark.parametrize("content", ["", "{}", '{"id":"1"}', '{"id":1}', pytest.param("[" * 100_000, id="deep")])
def test_an_identity_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    lay(tmp_path, *WHOLE)
    (tmp_path / "metadata").write_text(content)
    check_damaged(lambda: check_spark_files(tmp_path, 4, stateful=True), tmp_path / "metadata")


def test_a_folder_that_is_gone_is_refused_only_if_a_batch_has_run(tmp_path: Path) -> None:
    check_spark_files(tmp_path / "spark", -1, stateful=True)
    with pytest.raises(CheckpointError, match="it is gone, and batches have run") as caught:
        check_spark_files(tmp_path / "spark", 0, stateful=True)
    assert caught.value.where == str(tmp_path / "spark" / "offsets" / "0")


@pytest.mark.parametrize(
    ("offset", "log", "missing"),
    [
        ('{"logOffset":1}', ["0", "1", "2"], None),
        ('{"logOffset":1}', ["0"], "1"),
        ('{"logOffset":1}', [], "0"),
        ('{"logOffset":2}', ["0", "2"], "1"),
        ('{"logOffset":11}', ["9.compact", "10", "11"], None),
        ('{"logOffset":11}', ["9.compact", "10"], "11"),
        ('{"logOffset":19}', ["9.compact", *map(str, range(10, 19))], "19"),
        ('{"logOffset":9}', ["9.compact", "19.compact"], None),
        ('{"topic":{"0":5}}', ["0"], None),
        ('{"topic":{"0":5}}', [], "0"),
        ('{"logOffset":{"0":5}}', ["0"], None),  # a topic may have the name of Spark's field
        ("17", [], "0"),
        ('{"reservoirVersion":3}', [], None),
        ("-", [], None),
    ],
)
def test_what_a_source_has_read_is_noted(tmp_path: Path, offset: str, log: list[str], missing: str | None) -> None:
    lay(tmp_path, "offsets/7", *(f"sources/0/{name}" for name in log), offset=offset)
    if missing is None:
        check_source_logs(tmp_path, 1)
        return
    with pytest.raises(CheckpointError, match="batch 7 has read the source beyond") as caught:
        check_source_logs(tmp_path, 1)
    assert caught.value.where == str(tmp_path / "sources" / "0" / missing)


def changed(line: int, **fields: object) -> Callable[[str], str]:
    """Gives a file one of whose lines has other fields."""

    def change(content: str) -> str:
        lines = content.splitlines()
        lines[line] = json.dumps({**json.loads(lines[line]), **fields})
        return "\n".join(lines)

    return change


CHANGES: dict[str, Callable[[str], str]] = {
    "empty": lambda content: "",
    "head": lambda content: "v1",
    "line": lambda content: "v1\n",
    "version": lambda content: content.replace("v1", "v2"),
    "cut off": lambda content: content[:-1],
    "last file": lambda content: content.rpartition("\n")[0],
    "deep": lambda content: content + "\n" + "[" * 100_000,
    "another entry": changed(1, batchId=11),
    "text": changed(1, batchId="9"),
    "infinite": changed(1, batchId=math.inf),
    "no path": changed(1, path=None),
}


@pytest.mark.parametrize("name", ["9.compact", "10"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_entry_without_the_files_that_were_read_is_refused(
    tmp_path: Path, name: str, change: Callable[[str], str]
) -> None:
    # Spark takes the files for new ones and reads them again, without a word.
    lay(tmp_path, "offsets/7", "sources/0/9.compact", "sources/0/10", offset='{"logOffset":10}')
    check_source_logs(tmp_path, 1)
    file = tmp_path / "sources/0" / name
    file.write_text(change(file.read_text()))
    check_damaged(lambda: check_source_logs(tmp_path, 1), file)


@pytest.mark.parametrize(
    "last", ["null", "1e999", '"x"', "true", "1.5", "1" * 5_000, "[" * 100_000], ids=lambda last: last[:9]
)
def test_an_offset_that_is_no_number_is_refused(tmp_path: Path, last: str) -> None:
    lay(tmp_path, "offsets/7", "sources/0/0", offset=f'{{"logOffset":{last}}}')
    check_damaged(lambda: check_source_logs(tmp_path, 1), tmp_path / "offsets/7")


def test_files_that_only_look_like_numbers_are_none_of_spark_s(tmp_path: Path) -> None:
    lay(tmp_path, *WHOLE, "sources/0/0", "sources/0/1")
    for name in ("offsets/²", "commits/٣", f"offsets/{'9' * 200}", "sources/0/1x.compact", "sources/0/2 "):
        (tmp_path / name).touch()
    check_spark_files(tmp_path, 4, stateful=True)
    check_source_logs(tmp_path, 1)
    clear_leftovers(tmp_path)


def test_sources_that_cannot_be_told_apart_are_left_to_spark(tmp_path: Path) -> None:
    lay(tmp_path, "offsets/7")
    check_source_logs(tmp_path, 2)


LEFT = ("offsets/.0.5bb3.tmp", "offsets/..0.5bb3.tmp.crc", "offsets/.0.crc", "commits/.0.5bb3.tmp")


def test_what_was_prepared_for_a_first_batch_is_cleared(tmp_path: Path) -> None:
    lay(tmp_path, *LEFT, ".metadata.crc", "state/0/_metadata/metadata", "sources/0/0")
    (tmp_path / "metadata").touch()
    clear_leftovers(tmp_path)
    clear_leftovers(tmp_path)
    files = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]
    assert files == ["sources/0/0"]


def test_the_identity_of_a_query_is_kept(tmp_path: Path) -> None:
    lay(tmp_path, "metadata", ".metadata.crc")
    clear_leftovers(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".metadata.crc", "metadata"]


def test_what_belongs_to_a_batch_is_kept(tmp_path: Path) -> None:
    kept = (*WHOLE, "offsets/.4.crc", "commits/.3.crc")
    lay(tmp_path, *kept, "offsets/.5.5bb3.tmp", "commits/.4.crc")
    clear_leftovers(tmp_path)
    files = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert files == set(kept)


def test_state_without_a_plan_is_no_leftover(tmp_path: Path) -> None:
    lay(tmp_path, "state/0/0/1.zip")
    with pytest.raises(CheckpointError, match=r"there is state in state/0/0/1\.zip"):
        clear_leftovers(tmp_path)
    assert (tmp_path / "state/0/0/1.zip").exists()


def test_nothing_is_removed_behind_a_link_or_under_another_name(tmp_path: Path) -> None:
    checkpoint, other = tmp_path / "checkpoint", tmp_path / "other"
    lay(checkpoint, *WHOLE)
    lay(other, ".secret", ".0.5bb3.tmp", ".profile.tmp")
    (checkpoint / "commits").rename(tmp_path / "moved")
    (checkpoint / "commits").symlink_to(other)
    with pytest.raises(CheckpointError, match=r"damaged(.|\n)*it is a link(.|\n)*commits"):
        clear_leftovers(checkpoint)
    assert sorted(os.listdir(other)) == [".0.5bb3.tmp", ".profile.tmp", ".secret"]
    (checkpoint / "commits").unlink()
    other.rename(checkpoint / "commits")
    clear_leftovers(checkpoint)
    assert sorted(os.listdir(checkpoint / "commits")) == [".profile.tmp", ".secret"]


@pytest.mark.parametrize(
    ("planned", "done", "settled"),
    [
        ('{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{}}', '{"nextBatchWatermarkMs":5}', True),
        ('{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{}}', '{"nextBatchWatermarkMs":6}', False),
        ('{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{}}', "{}", False),  # another format of Spark's
        ('{"batchTimestampMs":9}', '{"nextBatchWatermarkMs":5}', False),
        ("", "", False),
    ],
)
def test_a_query_by_the_watermark_wakes_for_one_that_has_moved(
    tmp_path: Path, planned: str, done: str, settled: bool
) -> None:
    checkpoint = Checkpoint.at(tmp_path)
    checkpoint.control_folder.mkdir()
    spark = Path(checkpoint.spark_path)
    lay(spark, "offsets/7", "commits/7")
    (spark / "offsets/7").write_text(f"v1\n{planned}\n-\n")
    (spark / "commits/7").write_text(f"v1\n{done}")
    assert has_settled(spark, 7) is settled
    checkpoint.wake(by_watermark=True)
    assert [line.name for line in checkpoint.control_folder.glob("*")] == ([] if settled else ["wake-8"])
    checkpoint.wake()
    assert [line.name for line in checkpoint.control_folder.glob("*")] == ["wake-8"]


def test_a_batch_that_is_left_to_do_needs_no_line(tmp_path: Path) -> None:
    checkpoint = Checkpoint.at(tmp_path)
    checkpoint.control_folder.mkdir()
    checkpoint.wake(by_watermark=True)
    lay(Path(checkpoint.spark_path), "offsets/7", "offsets/8", "commits/7")
    checkpoint.wake(by_watermark=True)
    checkpoint.wake()
    assert [*checkpoint.control_folder.glob("*")] == []


def test_the_batch_that_reads_a_file_of_the_control_folder(tmp_path: Path) -> None:
    assert batch_that_reads(tmp_path, Path("control/9")) == -1  # no batch
    lay(tmp_path, *(f"sources/1/{number}" for number in range(7)))
    for batch, read in enumerate((-1, 1, 4, 5, 5)):
        lay(tmp_path, f"offsets/{batch}", offset="-\n-" if read < 0 else f'"any"\n{{"logOffset":{read}}}')
    found = {name: batch_that_reads(tmp_path, Path("control") / name) for name in map(str, range(8))}
    # Files 2 to 4 came in one batch; 6 is noted and not planned; 7 is unknown.
    assert list(found.values()) == [1, 1, 2, 2, 2, 3, -1, -1]
    # Spark puts earlier entries together, and deletes old offsets.
    for number in range(5):
        (tmp_path / f"sources/1/{number}").unlink()
    lay(tmp_path, "sources/1/4.compact")
    (tmp_path / "offsets" / "0").unlink()
    assert [batch_that_reads(tmp_path, Path("control") / name) for name in ("0", "3", "5")] == [1, 2, 3]
