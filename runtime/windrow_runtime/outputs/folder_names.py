"""Refuses texts that would give the folder of a table's partition a longer name than a mounted file system takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pyarrow.compute as pc

from windrow_runtime.codecs.malformed import UnfitError, misfit
from windrow_runtime.codecs.text_forms import MAX_NAME_BYTES
from windrow_runtime.codecs.value_type import RecordField, RecordType


# Any: an array.
def check_folder_names(
    record_type: RecordType, field: RecordField, partition: str, texts: Any, elements: Sequence[object]
) -> None:
    """Refuses the first element whose text is too long.

    Args:
        record_type: The type of the elements.
        field: The field whose texts name folders.
        partition: The name of the partition, which folders have before the text.
        texts: The column of the field.
        elements: The elements, in the same order.
    """
    most = MAX_NAME_BYTES - len(f"{quote(partition, safe='')}=")
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest * len("%3A") <= most:
        return
    for text, element in zip(texts.to_pylist(), elements, strict=True):
        # The libraries escape every other byte than those of letters, digits and -._~ in a folder's name.
        size = 0 if text is None else len(quote(text, safe=""))
        if size > most:
            reason = f"a text of {size} bytes, with special characters as %3A, is too long to name a folder"
            fault = UnfitError(f"{record_type.name}.{field.name}", reason, f"at most {most} bytes")
            raise misfit(element, fault, record_type.name, "partition by a shorter field, such as a hash")
