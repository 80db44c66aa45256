"""Files of text: decompressed by the ends of their names, and decoded so that bytes that are no characters are seen."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import BinaryIO, Final, cast

from windrow.distribution import install_hint
from windrow.errors import SourceError, UnsupportedOperationError
from windrow_runtime.codecs.malformed import MalformedRecord

UTF_8: Final = "utf-8"

# Undecodable bytes become halves of surrogate pairs, which no text has that was decoded, whatever the encoding.
_MARK: Final = "windrow-mark"
_MARKED: Final = re.compile("[\udc00-\udcff]")
_BYTE_ORDER_MARK: Final = "\ufeff"
# The mark says in which order the bytes are; files without it are taken as Python's decode() takes them here.
_MARKED_ENCODINGS: Final = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_MARK, _mark)


def decoded(data: bytes, encoding: str) -> str:
    """The text of some bytes; those that are no characters are found by :func:`wrong_bytes`."""
    return data.decode(encoding, _MARK)


def wrong_bytes(text: str, encoding: str) -> MalformedRecord | None:
    r"""The fault of a decoded text that has bytes that are no characters, which are shown as ``\xff``."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        found = [f"0x{ord(mark) - 0xDC00:02x}" for mark in _MARKED.findall(text)]
        listed = ", ".join(found[:4]) + ("..." if len(found) > 4 else "")
        shown = _MARKED.sub(lambda mark: f"\\x{ord(mark.group()) - 0xDC00:02x}", text).rstrip("\r\n")
        return MalformedRecord(shown, f"not {'UTF-8' if encoding == UTF_8 else encoding}: {listed}", None)
    return None


def check_pyarrow(use: str) -> None:
    """Raises an ``UnsupportedOperationError`` that names the use of pyarrow, where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UnsupportedOperationError(f"{use} by pyarrow", expected="pyarrow", hint=install_hint("spark")) from error


def check_parquet() -> None:
    """Raises an ``UnsupportedOperationError`` where Parquet can be neither read nor written: without pyarrow."""
    check_pyarrow("Parquet files are read and written")


def _zstd(file: BinaryIO) -> BinaryIO:
    check_pyarrow("files in Zstandard are decompressed")
    import pyarrow as pa

    return cast(BinaryIO, io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")))


_OPENERS: Final[dict[str, Callable[[BinaryIO], BinaryIO]]] = {
    ".gz": lambda file: cast(BinaryIO, gzip.GzipFile(fileobj=file)),
    ".bz2": lambda file: cast(BinaryIO, bz2.BZ2File(file)),
    ".deflate": lambda file: io.BytesIO(zlib.decompress(file.read())),
    ".zst": _zstd,
}
# Hadoop has formats of its own for these, and Spark reads them as nothing where they are no such files.
_REFUSED: Final = (".snappy", ".lz4", ".lzo")


def is_compressed(name: str) -> bool:
    """Returns whether a file of that name is decompressed before it is read."""
    return os.path.splitext(name)[1] in _OPENERS


@contextmanager
def open_lines(
    name: str, file: BinaryIO, encoding: str, *, newline: str | None, begins: bool = True
) -> Iterator[Iterator[str]]:
    """The lines of a file with their ends, without a byte order mark; its name says how it is compressed.

    Bytes that are no characters are found by :func:`wrong_bytes`. Only bytes that are those from the beginning of the
    file, as ``begins`` says, may have a byte order mark. A file that is damaged is a ``SourceError``, here or where the
    text is read.
    """
    ending = os.path.splitext(name)[1]
    if ending in _REFUSED:
        raise UnsupportedOperationError(
            "a file is compressed in a way that is not read",
            given=name,
            expected=f"names that end in {', '.join(_OPENERS)}, or text that is not compressed",
            hint="compress it in another way, or give it another name",
        )
    with unreadable(name, "a whole file, compressed as its name says"):
        plain = file
        # A file without a byte has no lines: somebody made it, and has not written it. Spark does not list it.
        if ending in _OPENERS and file.read(1):
            file.seek(0)
            plain = _OPENERS[ending](file)
        if encoding in _MARKED_ENCODINGS:
            buffered = io.BufferedReader(cast(io.RawIOBase, plain))
            plain = cast(BinaryIO, buffered)
            if not buffered.peek(4).startswith(_MARKED_ENCODINGS[encoding]):
                encoding = f"{encoding}-le"
        with io.TextIOWrapper(plain, encoding=encoding, errors=_MARK, newline=newline) as text:
            first = text.readline()
            if begins:
                first = first.removeprefix(_BYTE_ORDER_MARK)
            yield chain([first] if first else [], text)


@contextmanager
def unreadable(file: str, expected: str, *others: type[Exception]) -> Iterator[None]:
    """Raises a ``SourceError`` in the place of an ``OSError``, an error of decompressing, or one of the others."""
    kinds: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, *others)
    try:
        yield
    except kinds as error:
        raise SourceError(
            "a file cannot be read",
            given=f"{file}: {' '.join(str(error).split())}",
            expected=expected,
            hint="let the user who runs the pipeline read the file"
            if isinstance(error, PermissionError)
            else "put a whole file in its place; write files elsewhere, and move them when they are whole",
        ) from error
