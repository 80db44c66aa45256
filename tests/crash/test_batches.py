"""Which files a batch took, from notes as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.crash.batches import give_next, given, taken, write_taken


def note(file: Path, *lines: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["v1", *(line if isinstance(line, str) else json.dumps(line) for line in lines)]))


#  source 0 gives     a   b   c   d        notes 0 and 1 are in the file that holds both
#  source 1 gives     a   b   c
#  batch              0   1 1 2            the third batch takes nothing of source 0; d waits
def test_batches_of_several_files_and_of_none(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{name} 1.json").write_text(f"{name}\n")

    def entry(name: str, number: int) -> dict[str, object]:
        return {"path": f"file://{tmp_path}/in/{name}%201.json", "timestamp": 1, "batchId": number}

    note(tmp_path / "sources" / "0" / "0", entry("a", 0))
    note(tmp_path / "sources" / "0" / "1.compact", entry("a", 0), entry("b", 1))
    note(tmp_path / "sources" / "0" / "2", entry("c", 2))
    note(tmp_path / "sources" / "0" / "3", entry("d", 3))
    for number, name in enumerate("abc"):
        note(tmp_path / "sources" / "1" / str(number), entry(name, number))
    metadata = {"batchWatermarkMs": 0}
    note(tmp_path / "offsets" / "0", metadata, {"logOffset": 0}, {"logOffset": 0}, "-")
    note(tmp_path / "offsets" / "1", metadata, {"logOffset": 2}, {"logOffset": 1}, "-")
    note(tmp_path / "offsets" / "2", metadata, {"logOffset": 2}, {"logOffset": 2}, "-")
    note(tmp_path / "offsets" / "3", metadata, {"logOffset": 2}, {"logOffset": 2}, "-")
    (tmp_path / "offsets" / ".3.crc").write_bytes(b"")

    names = [[[file.name[0] for file in batch] for batch in taken(tmp_path, source)] for source in (0, 1)]
    assert names == [[["a"], ["b", "c"], [], []], [["a"], ["b"], ["c"], []]]
    assert sorted(given(tmp_path, 0)) == [0, 1, 2, 3]

    # As after a kill: d is given, and no batch takes it yet.
    give_next(tmp_path, 1, tmp_path / "in")
    assert [file.name for file in given(tmp_path, 1)[3]] == ["d 1.json"]
    assert taken(tmp_path, 1)[-1] == []

    assert write_taken(tmp_path, [tmp_path / "first", tmp_path / "second"]) == 1
    texts = [[file.read_text() for file in sorted((tmp_path / folder).iterdir())] for folder in ("first", "second")]
    assert texts == [["a\n", "b\nc\n", ""], ["a\n", "b\n", "c\n"]]
