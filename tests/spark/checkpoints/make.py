"""Makes a checkpoint to keep: ``python -m tests.spark.checkpoints.make``, once for each format of stored state.

The pipeline of :mod:`tests.spark.checkpoints.kept` runs half way, and its checkpoint goes into an archive beside this
file, named by the versions of windrow and Spark. Archives of released versions are never made again.

Spark notes absolute paths in its checkpoints. They are replaced by a mark, and Spark's checksums, which would no longer
fit, are left out.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

from tests.spark.checkpoints.kept import COLLECTED, FOLDER, HALF, READINGS, ROOT, pipeline
from windrow_runtime.spark import SparkRunner


def main() -> None:
    archive = FOLDER / f"windrow-{metadata.version('windrow')}-spark-{metadata.version('pyspark')}.tar.xz"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "checkpoint").resolve()
        plan, outputs = pipeline(READINGS[:HALF])
        result = SparkRunner(checkpoint=folder, partitions=2).run(plan, drain=False)
        with tarfile.open(archive, "w:xz") as tar:
            add(tar, COLLECTED, json.dumps(outputs.of(result)).encode(), 0)
            for file in sorted(folder.rglob("*")):
                if file.is_file() and not (file.name.startswith(".") and file.suffix == ".crc"):
                    add(
                        tar,
                        str(file.relative_to(folder)),
                        without_root(file.read_bytes(), folder),
                        file.stat().st_mtime,
                    )
    print(f"{archive.name}: {archive.stat().st_size} bytes")


def add(tar: tarfile.TarFile, name: str, content: bytes, modified: float) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mtime = int(modified)  # Spark takes files in this order
    tar.addfile(entry, io.BytesIO(content))


def without_root(content: bytes, folder: Path) -> bytes:
    root = str(folder).encode()
    if root not in content:
        return content
    content.decode()  # a length may precede the path in a binary file, so only text may be changed
    return content.replace(root, ROOT.encode())


if __name__ == "__main__":
    main()
