"""Reads hybrid sources on Spark: a log in the checkpoint has the files that were there when the stream began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from windrow.connectors import CustomSource
from windrow.connectors.hybrid import HybridSource
from windrow.sources import CollectionSource, FileSource, Source
from windrow_runtime.inputs.files import ParquetReader, file_reader
from windrow_runtime.inputs.hybrid import FileReads, HybridReads, list_files
from windrow_runtime.inputs.listing import FileOrder
from windrow_runtime.inputs.text_blocks import text_block_reader
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.spark.checkpoint.file_log import FileLog
from windrow_runtime.spark.checkpoint.stored_file import damaged_file
from windrow_runtime.spark.sources.custom import check_own, scan_reads
from windrow_runtime.spark.sources.file_plans import TaskShares
from windrow_runtime.spark.sources.scan import Scan, ScanContext
from windrow_runtime.storage.values import StateCodec

# Any in this module: elements of every type.


def scan_hybrid(source: HybridSource[Any], context: ScanContext) -> Scan:
    """Scans the parts of a hybrid source, one after the other."""
    for part in source.parts:
        if isinstance(part, CustomSource) or not isinstance(part, Source):
            what = "the source" if isinstance(part, Source) else "the function that makes a source"
            check_own(part, context.step, what)
    files, elements = partial(_files, context), partial(_elements, context)
    return scan_reads(HybridReads.of(source, context.step, files, elements), context)


def _files(context: ScanContext, source: FileSource[Any], place: int) -> FileReads:
    with errors_at(context.step.where):
        by_blocks = text_block_reader(source)
        reader = file_reader(source) if isinstance(by_blocks, str) else by_blocks
    if isinstance(reader, ParquetReader):
        reader = replace(reader, only=context.columns)
    order = FileOrder.of(source, context.step)
    return FileReads.of(source, order, reader, _listed(context, order, place), TaskShares.of(context).divide)


def _listed(context: ScanContext, order: FileOrder, place: int) -> Callable[[], Sequence[str]]:
    """Returns what lists the files of a part: the first run writes their names into the checkpoint."""
    checkpoint = context.checkpoint
    if checkpoint is None:
        files = list_files(order, context.step)
        return lambda: files
    log = checkpoint.log_of_files(f"{checkpoint.folder_of(context.step).name}.{place}")
    if not log.exists():
        if checkpoint.has_run():
            raise damaged_file(log.path, "it is gone, and batches have run")
        log.begin([list_files(order, context.step)])
    if not checkpoint.is_mounted:
        log.update(1)  # the planner, which cannot open it, gets what it has
    return partial(_logged, log)


def _logged(log: FileLog) -> Sequence[str]:
    if not log.entries:
        log.update(1)
    return log.entries[0]


def _elements(context: ScanContext, source: CollectionSource[Any]) -> Callable[[], Sequence[Any]]:
    with errors_at(context.step.where):
        return partial(_decoded, context.codec, context.codec.dumps(list(source.elements)))


def _decoded(codec: StateCodec, stored: bytes) -> Sequence[Any]:
    # A collection may have one object twice, which is decoded as one.
    return own_all(codec.loads(stored))
