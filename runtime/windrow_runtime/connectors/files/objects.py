"""Opens, lists and writes the objects of an object store that speaks S3's protocol, with obstore.

An address such as ``s3a://bucket/folder/file.json`` names an object by Hadoop's scheme. A store has no folders: a name
is a key, and what looks like a folder is the common beginning of keys.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, cast

from windrow.addresses.paths import hidden_file, is_hidden, is_object_address, is_read
from windrow.addresses.patterns import WILDCARD
from windrow.addresses.redaction import redact, redact_address
from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError
from windrow_runtime.inputs.checks import path_missing

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ClientConfig, S3Config, S3Store

# Any in this module: obstore's objects, where the extra is not installed.

_READ_AT_ONCE: Final = 8 << 20
"""How many bytes of a text are asked for at once: an answer takes as long to begin as some megabytes take to come."""
_WRITTEN_AT_ONCE: Final = 5 << 20
"""The size of the parts in which a file is uploaded: the smallest that S3 takes, as a task may have 64 files open."""
_BUFFERED: Final = 64 << 10
"""The size of a buffer besides those of the library."""
_COPIED_WITHIN: Final = "10m"
"""How long a store may take to copy an object: 5 GB at some 10 MB a second."""
_AT_ONCE: Final = 16
"""How many requests are under way at the same time."""

Options = Mapping[str, str]
"""The settings of a bucket, by obstore's names such as ``aws_region``."""
ENDPOINT: Final = "aws_endpoint_url_s3"
"""The name of the address of a store, before which no variable of the environment comes."""

_options_of: Callable[[str], Options | None] = lambda bucket: {}  # noqa: E731  an engine puts another one in its place


def use_options(options_of: Callable[[str], Options | None]) -> None:
    """Have an engine say with which settings a bucket is opened; None: the engine itself opens the bucket.

    Without it, the environment does: ``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` and what else Amazon's clients read.
    """
    global _options_of  # noqa: PLW0603  there is one engine that knows of settings
    _options_of = options_of


@cache
def has_objects() -> bool:
    """Returns whether the library is installed that opens object stores."""
    return find_spec("obstore") is not None


@dataclass(frozen=True)
class Bucket:
    """A bucket of an object store, and the settings with which each process opens it; it is sent to workers."""

    name: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # some are secret

    def open(self, *, copies: bool = False) -> S3Store:
        """Returns the store, which a process opens once; for ``copies`` it waits longer for an answer."""
        return _opened(self, _this_process(), copies)


_first_process: int | None = None


def _this_process() -> int:
    """Returns the number of this process; refuses one that was forked from a process which had opened a store."""
    global _first_process  # noqa: PLW0603  the library has threads, which a fork does not take along
    process = os.getpid()
    if _first_process is None:
        _first_process = process
    if process != _first_process:
        raise OSError(
            errno.ENOTSUP,
            "object stores cannot be opened in a process that was forked after one was opened; start it by 'spawn'",
        )
    return process


@lru_cache(maxsize=64)
def _opened(bucket: Bucket, process: int, copies: bool = False) -> S3Store:
    from obstore.store import S3Store

    options = dict(bucket.options)
    client: ClientConfig = {"allow_http": True} if _endpoint(options).startswith("http://") else {}
    if copies:
        client["timeout"] = _COPIED_WITHIN
    provider: dict[str, Any] = {}
    keys = [options.pop(name, None) for name in _KEYS] if {*_KEYS[:2]} <= options.keys() else None
    if keys is not None:
        # The library would take a token of the environment, which is one of other keys.
        credential = dict(zip(("access_key_id", "secret_access_key", "token"), keys, strict=True), expires_at=None)
        provider = {"credential_provider": lambda: credential}
        options["aws_skip_signature"] = "false"
    return S3Store(bucket.name, config=cast("S3Config", options), client_options=client, **provider)


_KEYS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def _endpoint(options: Options) -> str:
    """Returns the address of the store, "" for Amazon's; refuses one that the library takes, and fails at later."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    endpoints = [options.get(ENDPOINT), *map(os.environ.get, names)]
    endpoint = next(filter(None, endpoints), "")
    if endpoint and not re.match("https?://[^/]", endpoint):
        raise OSError(errno.EINVAL, f"{redact(endpoint)} is no address of an object store; one is http://host:9000")
    return endpoint


def bucket_of(address: str) -> Bucket | None:
    """Returns the bucket of an address that windrow opens; None: it is another address, or others open it."""
    if not is_object_address(address) or not has_objects():
        return None
    name = address.partition("://")[2].partition("/")[0]
    options = _options_of(name)
    # Hadoop refuses an address with a password as well, and says what to do.
    return None if options is None or not name or "@" in name else Bucket(name, tuple(sorted(options.items())))


def not_opened(address: str, given: str, where: str) -> UnsupportedOperationError:
    """Returns the error for files at an address that only Spark opens."""
    is_missing = is_object_address(address) and not has_objects()
    return UnsupportedOperationError(
        "a library is missing that opens s3a://" if is_missing else "only Spark opens files of this file system",
        given=f"{given}, without obstore" if is_missing else given,
        expected=None if is_missing else "a path, a file: URI, or an address s3a://",
        where=where,
        hint=opening_hint(address),
    )


def opening_hint(address: str, otherwise: str = "run the pipeline with SparkRunner") -> str:
    """Returns what users can do about an address that windrow does not open."""
    if address.startswith(("s3://", "s3n://")):
        return "write s3a:// for this bucket"
    if not is_object_address(address):
        return otherwise
    if "@" in address.partition("://")[2].partition("/")[0]:
        return "leave the password out of the address: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY have it"
    return otherwise if has_objects() else install_hint("s3")


@contextmanager
def object_errors(address: str) -> Iterator[None]:
    """Raises an ``OSError`` in the place of each error of the library."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no such object", redact_address(address)) from None
    except FileExistsError:
        raise
    except (BaseError, PermissionError, ValueError, NotImplementedError) as error:
        # What follows are the library's own structures.
        said = " ".join(str(error).partition("Debug source:")[0].split())
        answer = re.search("<Code>(.*?)</Code>(?:.*?<Message>(.*?)</Message>)?", said)
        if answer is not None:  # the store has said it in XML
            said = ": ".join(filter(None, answer.groups()))
        is_refused = isinstance(error, PermissionError) or type(error).__name__ in _REFUSALS
        raise OSError(errno.EACCES if is_refused else errno.EIO, redact(said), redact_address(address)) from None


_REFUSALS: Final = ("PermissionDeniedError", "UnauthenticatedError")


class ObjectPath:
    """The address of an object, or of what looks like a folder; its methods do what those of ``Path`` do."""

    def __init__(self, bucket: Bucket, url: str) -> None:
        self.bucket = bucket
        self.url = url.rstrip("/")

    @classmethod
    def of(cls, address: str) -> Self | None:
        """Returns the path of an address; None: windrow does not open it."""
        bucket = bucket_of(address)
        return None if bucket is None else cls(bucket, address)

    def __repr__(self) -> str:
        return redact_address(self.url)

    def __fspath__(self) -> str:
        return self.url

    @property
    def key(self) -> str:
        """The name of the object in its bucket."""
        return _key(self.url)

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        return self._at(self.url.rpartition("/")[0])

    def __truediv__(self, name: str, /) -> Self:
        return self._at(f"{self.url}/{name}")

    def _at(self, url: str) -> Self:
        return type(self)(self.bucket, url)

    def _of_key(self, key: str) -> Self:
        return self._at(f"{self.url.partition('://')[0]}://{self.bucket.name}/{key}")

    def exists(self) -> bool:
        """Returns whether there is an object of the name, or one below it."""
        return self.is_object() or any(True for _ in self.rglob("*"))

    def is_object(self) -> bool:
        """Returns whether there is an object of the name."""
        with object_errors(self.url), suppress(FileNotFoundError):
            if self.key:  # else the store would say whether there is the bucket
                self.bucket.open().head(self.key)
                return True
        return False

    def glob(self, pattern: str, /) -> Iterator[Self]:
        import obstore

        with object_errors(self.url):
            listed = obstore.list_with_delimiter(self.bucket.open(), self.key)
        keys = [*listed["common_prefixes"], *(each["path"] for each in listed["objects"])]
        # An object that stands for an empty folder has the folder's own name.
        yield from (self._of_key(key) for key in keys if key != self.key and fnmatchcase(_last(key), pattern))

    def rglob(self, pattern: str, /) -> Iterator[Self]:
        for each in listed_below(self):
            if fnmatchcase(_last(each.key), pattern):
                yield self._of_key(each.key)

    def read_bytes(self) -> bytes:
        with object_errors(self.url):
            return bytes(self.bucket.open().get(self.key).bytes())

    def write(self, content: bytes) -> None:
        """Replace the whole object at once: others see its old content or the new one."""
        with object_errors(self.url):
            self.bucket.open().put(self.key, content, use_multipart=False)

    rewrite = write

    def write_once(self, content: bytes, *, whole: bool = True, tries: int = 3) -> bool:
        """Write an object unless it exists; returns whether it has this content, which no other writer has."""
        from obstore.exceptions import AlreadyExistsError

        # Where the answer was lost, the library asks again, and finds its own object.
        with object_errors(self.url), suppress(AlreadyExistsError):
            self.bucket.open().put(self.key, content, mode="create", use_multipart=False)
            return True
        try:
            return self.read_bytes() == content
        except FileNotFoundError:  # a store may also refuse because of another writer, who then fails
            if tries == 1:
                raise
        return self.write_once(content, whole=whole, tries=tries - 1)

    def unlink(self, missing_ok: bool = False) -> None:
        if not missing_ok and not self.exists():
            raise FileNotFoundError(errno.ENOENT, "there is no such object", str(self))
        with object_errors(self.url):
            self.bucket.open().delete(self.key)

    def rename(self, target: ObjectPath) -> None:
        """Copy an object within the store to a name that nothing has, and delete it; none is copied over another one.

        Raises:
            OSError: If there is nothing to move, or the name is taken.
        """
        with object_errors(self.url):
            store = self.bucket.open()
            with suppress(FileNotFoundError):
                store.head(target.key)
                raise FileExistsError(errno.EEXIST, "there is an object of that name", str(target))
            self.bucket.open(copies=True).copy(self.key, target.key)
            store.delete(self.key)

    def clear(self) -> None:
        """Delete what is below a name, and the object of the name."""
        self.delete([each.key for each in listed_below(self)] + [self.key])

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects of the bucket, many with one request."""
        with object_errors(self.url):
            self.bucket.open().delete(keys)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Does nothing: a store has no folders."""

    def open(self, mode: str = "r", *, encoding: str | None = None, newline: str | None = None) -> Any:
        """Opens a new object for writing, as text or, if the mode says so, as bytes; it appears when it is closed."""
        assert mode in ("x", "xb"), "objects are read by ObjectFiles"
        content = io.BufferedWriter(_Upload(self), _BUFFERED)
        return content if mode == "xb" else io.TextIOWrapper(content, encoding=encoding, newline=newline)


def _key(url: str) -> str:
    return url.partition("://")[2].partition("/")[2].rstrip("/")


def _last(key: str) -> str:
    return key.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a store lists it; the time is in milliseconds since 1970."""

    key: str
    size: int
    modified: int


def listed_below(path: ObjectPath) -> Iterator[Listed]:
    """Yields the objects below a path, without those that stand for empty folders."""
    with object_errors(path.url):
        for page in path.bucket.open().list(path.key or None):
            for each in page:
                # Hadoop makes such an object, whose key ends with a slash, which the library takes away.
                if each["size"] or each["path"] != path.key:
                    yield Listed(each["path"], each["size"], int(each["last_modified"].timestamp() * 1000))


class _Upload(io.RawIOBase):
    """Uploads an object in parts, which the store makes one object of at the end."""

    def __init__(self, path: ObjectPath) -> None:
        import obstore

        self._path = path
        with object_errors(path.url):
            store = path.bucket.open()
            self._writer = obstore.open_writer(store, path.key, buffer_size=_WRITTEN_AT_ONCE, max_concurrency=2)

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        with object_errors(self._path.url):
            return int(self._writer.write(bytes(content)))

    def close(self) -> None:
        if not self.closed:
            super().close()
            with object_errors(self._path.url):
                self._writer.close()


class _Download(io.RawIOBase):
    """Reads an object by ranges of bytes, each at least of a size, if it is not replaced meanwhile.

    The answer to a read at the beginning tells the object's size and version, so a small text takes one request.
    """

    def __init__(self, path: ObjectPath, at_least: int = 0) -> None:
        self._path = path
        self._at = 0
        self._at_least = at_least
        self._content = memoryview(b"")
        self._begin = 0  # of the content
        self._known_size: int | None = None
        self._version: str | None = None
        with object_errors(path.url):
            self._store = path.bucket.open()

    @property
    def _size(self) -> int:
        if self._known_size is None:
            with object_errors(self._path.url):
                head = self._store.head(self._path.key)
            self._known_size, self._version = int(head["size"]), head["e_tag"]
        return self._known_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        begin = 0 if whence == io.SEEK_SET else self._at if whence == io.SEEK_CUR else self._size
        self._at = max(0, begin + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        length = max(len(buffer), self._at_least)
        if self._at == 0 and self._known_size is None and length:
            self._fetch(length)
        if self._at >= self._size:
            return 0
        if not self._begin <= self._at < self._begin + len(self._content):
            self._fetch(min(self._size, self._at + length))
        content = self._content[self._at - self._begin :][: len(buffer)]
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def _fetch(self, end: int) -> None:
        from obstore.exceptions import BaseError, PreconditionError

        options: GetOptions = {"range": (self._at, end)}
        if self._version is not None:
            options["if_match"] = self._version
        self._content, self._begin = memoryview(b""), self._at  # the next bytes come into the same memory
        with object_errors(self._path.url):
            try:
                answer = self._store.get(self._path.key, options=options)
                self._content = memoryview(answer.bytes())
            except PreconditionError:
                raise OSError(errno.ESTALE, "the object was replaced while it was read", str(self._path)) from None
            except BaseError:
                if self._known_size is None and self._size == 0:
                    return  # a store refuses each range of an object without bytes
                raise
        self._known_size, self._version = int(answer.meta["size"]), answer.meta["e_tag"]


@dataclass(frozen=True)
class ObjectFiles:
    """The objects of one bucket, as a :class:`~windrow_runtime.connectors.files.systems.FileSystem`."""

    scheme: str  # as the address of the source has it
    bucket: Bucket
    _listed: dict[str, Listed] = field(default_factory=dict, compare=False, repr=False)  # by file

    @classmethod
    def of(cls, address: str) -> ObjectFiles | None:
        """Returns the files of the bucket of an address; None: windrow does not open it."""
        bucket = bucket_of(address)
        return None if bucket is None else cls(address.partition("://")[0], bucket)

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectFiles, (self.scheme, self.bucket)  # what was listed stays with who listed it

    def split(self, path: str) -> tuple[str, str]:
        begin = len(self.scheme) + len("://")
        wildcard = WILDCARD.search(path, begin)
        named = ObjectPath(self.bucket, path)
        if wildcard is None or named.exists():
            if is_hidden(named.name) and named.is_object():
                raise hidden_file(path)
            return path, ""
        begin = path.rfind("/", 0, wildcard.start()) + 1
        return path[:begin], path[begin:]

    def find(self, path: str, literal: str, pattern: str) -> set[str]:
        folder = ObjectPath(self.bucket, literal)
        if not pattern and folder.key:
            with suppress(FileNotFoundError), object_errors(literal):
                return {folder.url} if folder.bucket.open().head(folder.key)["size"] else set()
        whole = folder.url if not pattern else literal + pattern
        self._listed.clear()
        is_empty = True
        for each in listed_below(folder):
            is_empty = False
            file = f"{self.scheme}://{self.bucket.name}/{each.key}"
            # An object without a byte may stand for a folder, and has no elements.
            if each.size and is_read(whole, pattern, file):
                self._listed[file] = each
        # An object may stand for an empty folder, which is seen from above alone.
        is_missing = is_empty and not pattern and folder.key
        if is_missing and folder.name not in {each.name for each in folder.parent.glob("*")}:
            raise path_missing(path)
        return set(self._listed)

    def modified(self, files: Collection[str]) -> dict[str, int]:
        return {file: each.modified for file, each in self._known(files).items()}

    def sizes(self, files: Collection[str]) -> dict[str, int]:
        return {file: each.size for file, each in self._known(files).items()}

    def _known(self, files: Collection[str]) -> dict[str, Listed]:
        """Returns what the last listing said of files, and asks the store for the others."""
        others, asked = [file for file in files if file not in self._listed], dict[str, Listed]()
        if others:
            self.bucket.open()
            with ThreadPoolExecutor(_AT_ONCE, "windrow-objects") as pool:
                asked = dict(zip(others, pool.map(self._head, others), strict=True))
        return {file: self._listed[file] if file in self._listed else asked[file] for file in files}

    def _head(self, file: str) -> Listed:
        key = _key(file)
        try:
            with object_errors(file):
                head = self.bucket.open().head(key)
        except FileNotFoundError:
            return Listed(key, 0, 0)  # the worker that opens it says what is wrong
        return Listed(key, head["size"], int(head["last_modified"].timestamp() * 1000))

    def open(self, file: str) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(_Download(ObjectPath(self.bucket, file), _READ_AT_ONCE), _BUFFERED))

    def open_columns(self, file: str) -> Any:
        return _Download(ObjectPath(self.bucket, file))
