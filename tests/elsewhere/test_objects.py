"""Objects of a store: names, listings, uploads and moves, two runs of one batch, and the settings of a session."""

from __future__ import annotations

import contextvars
import io
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from tests.services.s3 import BUCKET
from windrow import Pipeline, from_collection, from_source
from windrow.errors import SinkError, SourceError, UnsupportedOperationError, WindrowError
from windrow.plan import Step
from windrow.sinks import JsonFileSink
from windrow.sources import JsonFileSource, TextFileSource
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.connectors.files import objects
from windrow_runtime.connectors.files.object_folder import ObjectFolder
from windrow_runtime.connectors.files.objects import ENDPOINT, ObjectFiles, ObjectPath, bucket_of
from windrow_runtime.connectors.files.staged import StagedBatch
from windrow_runtime.local import LocalRunner
from windrow_spark.connectors.files.buckets import bucket_options, options_of
from windrow_spark.connectors.files.writer import ObjectPartSink
from windrow_spark.run.background import BackgroundCall
from windrow_spark.session import keep_session

# Any in this module: what a child process returns.


@dataclass(frozen=True)
class Row:
    value: int


@pytest.fixture
def folder(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectPath]:
    """A new folder on the server, whose settings are in the environment."""
    settings = {"ENDPOINT_URL": f"http://{s3}", "REGION": "us-east-1", "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(objects, "_options_of", lambda bucket: {})
    objects._opened.cache_clear()
    path = ObjectPath.of(f"s3a://{BUCKET}/objects-{uuid4().hex[:8]}")
    assert path is not None
    yield path
    objects._opened.cache_clear()


NAMES = [
    "a b",
    "ü",
    "100%",
    "a%20b",
    "a#b",
    "x:y",
    "st*r",
    "q?",
    "br{a}",
    "[c]",
    "back\\slash",
    "~^|",
    "day=x",
    "'\"",
    "a+b&c",
]


SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, Signature=any"}


def test_names_are_what_they_are(folder: ObjectPath) -> None:
    for name in NAMES:
        (folder / "in" / name).write(f"{name}\n".encode())
        (folder / "in" / name).rename(folder / "moved" / name)
    assert {file.name for file in (folder / "moved").glob("*")} == set(NAMES)
    assert not (folder / "in").exists()
    assert sorted(from_source(TextFileSource(f"{folder.url}/moved")).collect()) == sorted(NAMES)
    for name in ("a%20b", "x:y"):
        assert from_source(TextFileSource(f"{folder.url}/moved/{name}")).collect() == [name]
    assert from_source(TextFileSource(f"{folder.url}/moved/q\\?")).collect() == ["q?"]


def test_an_object_appears_when_it_is_closed_and_a_folder_may_be_empty(folder: ObjectPath, s3: str) -> None:
    opened = (folder / "late").open("xb")
    opened.write(b"x" * (6 << 20))
    assert not (folder / "late").exists()
    opened.close()
    assert len((folder / "late").read_bytes()) == 6 << 20
    with pytest.raises(SourceError, match="the path does not exist"):
        from_source(TextFileSource(f"{folder.url}/nothing")).collect()
    # What Hadoop leaves where a folder was made.
    urlopen(Request(f"http://{s3}/{BUCKET}/{folder.key}/empty/", b"", SIGNED, method="PUT")).close()
    assert from_source(TextFileSource(f"{folder.url}/empty")).collect() == []


def test_an_object_is_written_once_and_moved_to_a_free_name(folder: ObjectPath) -> None:
    one, other = folder / "one", folder / "other"
    assert one.write_once(b"1")
    assert one.write_once(b"1")
    assert not one.write_once(b"2")
    other.write(b"3")
    with pytest.raises(FileExistsError):
        one.rename(other)
    with pytest.raises(FileNotFoundError):
        (folder / "none").rename(folder / "new")
    with pytest.raises(FileNotFoundError):
        (folder / "none").unlink()
    with pytest.raises(FileNotFoundError):
        (folder / "none").read_bytes()
    assert list(map(ObjectPath.is_object, (one, other, folder))) == [True, True, False]
    one.unlink()
    folder.clear()
    assert not folder.exists()


def test_an_object_is_written_where_a_store_refused_it_because_of_a_writer_that_failed(
    folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def refuse(path: ObjectPath) -> bytes:
        refused.append(path.name)
        path.unlink()
        return read_bytes(path)

    read_bytes = ObjectPath.read_bytes
    (folder / "one").write(b"0")
    monkeypatch.setattr(ObjectPath, "read_bytes", refuse)
    assert (folder / "one").write_once(b"1")
    assert refused == ["one"]
    assert read_bytes(folder / "one") == b"1"


def test_a_store_may_take_long_to_copy(folder: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    def open_store(*given: Any) -> Any:
        opened.append(original(*given))
        return opened[-1]

    original = objects._opened
    (folder / "one").write(b"1")
    with monkeypatch.context() as patched:
        patched.setattr(objects, "_opened", open_store)
        (folder / "one").rename(folder / "other")
    assert [store.client_options["timeout"] for store in opened if "timeout" in store.client_options] == ["10m"]


def test_ranges_are_read_as_of_a_file(folder: ObjectPath) -> None:
    content = bytes(range(256)) * 5000
    (folder / "bytes").write(content)
    files = ObjectFiles.of(folder.url)
    assert files is not None
    with files.open((folder / "bytes").url) as opened:
        assert opened.seek(0, os.SEEK_END) == len(content)
        assert opened.read(1) == b""
        for place, size in ((0, 3), (len(content) - 2, 9), (70_000, 100_000), (5, 0)):
            opened.seek(place)
            assert opened.read(size) == content[place : place + size]
        opened.seek(-4, io.SEEK_CUR)
    assert files.sizes([(folder / "bytes").url, (folder / "none").url]) == {
        (folder / "bytes").url: len(content),
        (folder / "none").url: 0,
    }


def test_texts_come_in_few_requests(folder: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches: list[int] = []

    def fetch(download: objects._Download, end: int) -> None:
        fetches.append(end)
        original(download, end)

    original = objects._Download._fetch
    monkeypatch.setattr(objects._Download, "_fetch", fetch)
    lines = ["x" * 99] * 100_000
    (folder / "1.txt").write("\n".join(lines).encode())
    assert from_source(TextFileSource(folder.url)).collect() == lines
    assert len(fetches) == 2


def test_a_small_text_takes_one_request(folder: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "1.txt").write(b"one")
    (folder / "empty").write(b"")
    files = ObjectFiles.of(folder.url)
    assert files is not None

    class Store:
        asked: list[str] = []  # noqa: RUF012  # of one instance

        def __getattr__(self, name: str) -> Any:
            self.asked.append(name)
            return getattr(store, name)

    store = folder.bucket.open()
    monkeypatch.setattr(objects.Bucket, "open", lambda bucket: Store())
    with files.open((folder / "1.txt").url) as opened:
        assert opened.read() == b"one"
    assert Store.asked == ["get"]
    with files.open((folder / "empty").url) as opened:
        assert opened.read() == b""
    with pytest.raises(FileNotFoundError), files.open((folder / "none").url) as opened:
        opened.read()


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(folder: ObjectPath) -> None:
    (folder / "1.txt").write(b"a" * (9 << 20))
    files = ObjectFiles.of(folder.url)
    assert files is not None
    with files.open((folder / "1.txt").url) as opened:
        opened.read(1)
        (folder / "1.txt").write(b"b" * (9 << 20))
        with pytest.raises(OSError, match="the object was replaced while it was read"):
            opened.read()


def test_a_bucket_is_a_folder(s3: str, folder: ObjectPath) -> None:
    bucket = f"bucket-{uuid4().hex[:8]}"
    urlopen(Request(f"http://{s3}/{bucket}", b"", SIGNED, method="PUT")).close()
    root = f"s3a://{bucket}"
    assert from_source(TextFileSource(root)).collect() == []
    rows = from_collection([Row(1)], Row)
    for url in (root, f"{root}/"):
        LocalRunner().run(Pipeline("rows", rows.sink_to(JsonFileSink(url, overwrite=True))))
        assert from_source(JsonFileSource(url, Row)).collect() == [Row(1)]


def test_a_hidden_object_is_refused_where_it_is_named_itself(folder: ObjectPath) -> None:
    (folder / "_in" / "1.txt").write(b"a\n")
    (folder / "_1.txt").write(b"b\n")
    assert from_source(TextFileSource(f"{folder.url}/_in")).collect() == ["a"]
    with pytest.raises(SourceError, match="a file of that name is passed over"):
        from_source(TextFileSource(f"{folder.url}/_1.txt")).collect()


def sink_of_workers(folder: ObjectPath) -> ObjectPartSink:
    rows = from_collection([Row(1)], Row).sink_to(JsonFileSink(folder.url))
    step: Step = Pipeline("rows", rows).steps[-1]
    return ObjectPartSink(step, folder, record_type(Row), "query")


def write(sink: ObjectPartSink, batch: int, *values: int) -> list[bytes]:
    task = sink.task(batch)
    task.write([Row(value) for value in values])
    names = [*task.take_names()]
    task.close()
    return names


def read(folder: ObjectPath) -> list[int]:
    return sorted(row.value for row in from_source(JsonFileSource(folder.url, Row)).collect())


def test_of_two_runs_of_a_batch_one_is_published(folder: ObjectPath) -> None:
    one, other = sink_of_workers(folder), sink_of_workers(folder)
    for sink in (one, other):
        sink.check(0, "", again=False)
        sink.begin(0)
    by_one, by_other = write(one, 0, 1, 2), write(other, 0, 1, 2)
    write(one, 0, 7)  # of a task that failed
    one.publish(0, by_one)
    other.publish(0, by_other)
    assert read(folder) == [1, 2]
    names = [file.name for file in folder.rglob("*")]
    assert sorted(names) == sorted(["batch-0", "_SUCCESS", by_one[0].decode()])


def test_a_batch_that_was_listed_is_finished_and_not_written_again(
    folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sink_of_workers(folder)
    names = write(first, 3, 1) + write(first, 3, 2)
    moved: list[str] = []

    def die(path: ObjectPath, target: ObjectPath) -> None:
        if moved:
            raise KeyboardInterrupt
        moved.append(path.name)
        rename(path, target)

    rename = ObjectPath.rename
    with monkeypatch.context() as patched:
        patched.setattr(ObjectPath, "rename", die)
        with pytest.raises(KeyboardInterrupt):
            first.publish(3, names)
    again = sink_of_workers(folder)
    again.check(3, "", again=True)
    again.begin(3)
    assert read(folder) == [1, 2]
    again.publish(3, write(again, 3, 1, 2))
    assert read(folder) == [1, 2]
    assert not StagedBatch(folder, "query", 3).parts.exists()
    older = sink_of_workers(folder)
    with pytest.raises(SinkError, match="the checkpoint is older"):
        older.check(2, "", again=True)


def test_a_folder_is_of_one_run(folder: ObjectPath) -> None:
    def pipeline(*, overwrite: bool = False) -> Pipeline:
        return Pipeline("rows", from_collection([Row(1)], Row).sink_to(JsonFileSink(folder.url, overwrite=overwrite)))

    LocalRunner().run(pipeline())
    with pytest.raises(SinkError, match="holds the batches of another run"):
        LocalRunner().run(pipeline())
    LocalRunner().run(pipeline(overwrite=True))
    assert read(folder) == [1]


def folder_of_run(folder: ObjectPath, *, overwrite: bool) -> ObjectFolder:
    rows = from_collection([Row(1)], Row).sink_to(JsonFileSink(folder.url, overwrite=overwrite))
    return ObjectFolder(Pipeline("rows", rows).steps[-1], folder)


def test_a_run_takes_the_batches_of_its_own_folder_alone(folder: ObjectPath) -> None:
    rows = from_collection([Row(2)], Row)
    LocalRunner().run(Pipeline("rows", rows.sink_to(JsonFileSink(f"{folder.url}/others"))))
    for name in ("a.txt", "raw/windrow_batch=1/a.json", "windrow_batch=1/a.json", "day=1/windrow_batch=1/a.json"):
        (folder / name).write(b"{}")
    folder_of_run(folder, overwrite=True).take_over("run")
    assert {file.key.removeprefix(f"{folder.key}/") for file in folder.rglob("*")} == {
        "_windrow/owner",
        "a.txt",
        "raw/windrow_batch=1/a.json",
        "others/_windrow/batch-0",
        "others/_windrow/owner",
        "others/windrow_batch=0/_SUCCESS",
        "others/windrow_batch=0/part-0.json",
    }


def test_a_run_that_lives_is_refused_before_its_files_are_deleted(
    folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "windrow_batch=0" / "a.json").write(b"{}")
    before = folder_of_run(folder, overwrite=True)
    before.take_over("before")
    (folder / "windrow_batch=0" / "a.json").write(b"{}")

    def die(path: ObjectPath, keys: Sequence[str]) -> None:
        with pytest.raises(SinkError, match="another run has taken the folder"):
            before.check_owner("before")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ObjectPath, "delete", die)
        with pytest.raises(KeyboardInterrupt):
            folder_of_run(folder, overwrite=True).take_over("after")
    after = folder_of_run(folder, overwrite=True)
    after.check_free("after", begins=True)
    after.take_over("after")
    assert {file.name for file in folder.rglob("*")} == {"owner"}


def test_of_two_runs_that_begin_at_once_none_deletes_what_the_other_wrote(folder: ObjectPath) -> None:
    one, other = (folder_of_run(folder, overwrite=False) for _ in range(2))
    one.check_free("one", begins=True)
    other.check_free("other", begins=True)
    one.take_over("one")
    (folder / "windrow_batch=0" / "a.json").write(b"{}")
    with pytest.raises(SinkError, match=r"holds the batches of another run(.|\n)*a\.json"):
        other.take_over("other")
    one.check_owner("one")
    assert (folder / "windrow_batch=0" / "a.json").exists()


def test_errors_name_the_object_and_no_secret(folder: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {ENDPOINT: "http://127.0.0.1:1", "aws_secret_access_key": "hunter2", "aws_access_key_id": "a"}
    monkeypatch.setattr(objects, "_options_of", lambda bucket: options)
    path = ObjectPath.of("s3a://else/in")
    assert path is not None
    assert "hunter2" not in repr(path.bucket)
    refused = replace(path.bucket, options=(*path.bucket.options, ("aws_nonsense", "1")))
    with pytest.raises(OSError, match="s3a://else/in") as caught:
        ObjectPath(refused, path.url).read_bytes()
    assert "hunter2" not in str(caught.value)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "has_objects", lambda: False)
    rows = from_collection([Row(1)], Row).sink_to(JsonFileSink("s3a://bucket/out"))
    attempts: list[Callable[[], object]] = [
        lambda: from_source(JsonFileSource("s3a://bucket/in", Row)).collect(),
        lambda: LocalRunner().run(Pipeline("rows", rows)),
    ]
    for attempt in attempts:
        with pytest.raises(UnsupportedOperationError) as caught:
            attempt()
        assert "a library is missing" in str(caught.value)
        assert "[s3]" in str(caught.value.hint)


def _opens(url: str) -> str:
    bucket = bucket_of(url)
    assert bucket is not None
    try:
        bucket.open()
    except OSError as error:
        return str(error)
    return "opened"


def test_a_forked_process_is_told_why_it_cannot_open_a_store(folder: ObjectPath) -> None:
    assert not (folder / "none").exists()  # the library's threads run now
    answers: dict[str, Any] = {}
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            answers[method] = pool.apply(_opens, [folder.url])
    assert "start it by 'spawn'" in answers["fork"]
    assert answers["spawn"] == "opened"


def test_files_of_a_bucket_are_sent_without_what_was_listed(folder: ObjectPath) -> None:
    (folder / "in").write(b"1\n")
    files = ObjectFiles.of(folder.url)
    assert files is not None
    assert set(files.find(folder.url, *files.split(folder.url))) == {(folder / "in").url}
    sent = pickle.loads(pickle.dumps(files))
    assert sent == files
    assert sent.modified([(folder / "in").url]) == files.modified([(folder / "in").url])


DEFAULT = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider, org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider, "
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider, "
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"endpoint": "http://127.0.0.1:9000", "path.style.access": "true", "access.key": "a", "secret.key": "b"},
            {
                "aws_endpoint_url_s3": "http://127.0.0.1:9000",
                "aws_region": "us-east-1",
                "aws_virtual_hosted_style_request": "false",
                "aws_access_key_id": "a",
                "aws_secret_access_key": "b",
            },
        ),
        (
            {"endpoint": "store.example:9000/", "connection.ssl.enabled": "false", "endpoint.region": "here"},
            {
                "aws_endpoint_url_s3": "http://bucket.store.example:9000",
                "aws_region": "here",
                "aws_virtual_hosted_style_request": "true",
            },
        ),
        ({"endpoint": "s3.eu-west-1.amazonaws.com"}, {"aws_region": "eu-west-1"}),
        ({"endpoint.region": "eu-west-2", "session.token": "t"}, {"aws_region": "eu-west-2", "aws_session_token": "t"}),
        ({}, None),  # Hadoop's client finds out the region
        ({"endpoint.region": "x", "proxy.host": "proxy"}, None),
        ({"endpoint.region": "x", "aws.credentials.provider": "com.example.OwnProvider"}, None),
        (
            {
                "endpoint.region": "x",
                "aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
            },
            {"aws_region": "x", "aws_skip_signature": "true"},
        ),
        (
            {"endpoint.region": "x", "encryption.algorithm": "SSE-KMS", "encryption.key": "k"},
            {"aws_region": "x", "aws_server_side_encryption": "aws:kms", "aws_sse_kms_key_id": "k"},
        ),
        ({"endpoint.region": "x", "encryption.algorithm": "SSE-C", "encryption.key": "k"}, None),
        ({"endpoint.region": "x", "requester.pays.enabled": "true"}, {"aws_region": "x", "aws_request_payer": "true"}),
    ],
)
def test_settings_of_hadoop_are_translated_or_left_to_spark(
    settings: dict[str, str], expected: dict[str, str] | None
) -> None:
    settings = {"aws.credentials.provider": DEFAULT, **settings}

    def get(name: str) -> str:
        return settings.get(name, "")

    assert options_of("bucket", get, get, {}) == expected
    if not settings.keys() - {"aws.credentials.provider"}:
        assert options_of("bucket", get, get, {"AWS_REGION": "there"}) == {"aws_region": "there"}


KEYS = {"access.key": "a", "secret.key": "b", "session.token": "t"}
OTHERS = {"AWS_ACCESS_KEY_ID": "other"}


@pytest.mark.parametrize(
    ("providers", "environment", "expected"),
    [
        ("Temporary", {}, {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"}),
        ("Simple", OTHERS, {"aws_access_key_id", "aws_secret_access_key"}),
        ("Anonymous", OTHERS, {"aws_skip_signature"}),
        ("IAMInstance", {}, set()),
        ("IAMInstance", OTHERS, None),
        ("EnvironmentVariable", OTHERS, set()),
    ],
)
def test_credentials_are_found_where_the_classes_of_hadoop_look(
    providers: str, environment: dict[str, str], expected: set[str] | None
) -> None:
    ending = "CredentialsProvider" if providers in ("IAMInstance", "EnvironmentVariable") else "AWSCredentialsProvider"
    settings = {"endpoint.region": "x", "aws.credentials.provider": f"a.b.{providers}{ending}"}
    found = options_of("bucket", lambda name: settings.get(name, ""), lambda name: KEYS.get(name, ""), environment)
    assert (None if found is None else found.keys() - {"aws_region"}) == expected


def session_with_key(key: str) -> Any:
    """What stands for a session of Spark that has a setting of Hadoop's."""
    settings = {"fs.s3a.endpoint.region": "here"}
    state = SimpleNamespace(
        newHadoopConf=lambda: SimpleNamespace(get=settings.get, getPassword={"fs.s3a.access.key": [key]}.get)
    )
    java = SimpleNamespace(sessionState=lambda: state)
    return SimpleNamespace(_jsparkSession=java, _sc=SimpleNamespace(_jsc=java))


def test_a_bucket_has_the_settings_of_the_session_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    active, own = session_with_key("active"), session_with_key("own")
    monkeypatch.setattr(SparkSession, "active", lambda: active)

    def keys(session: Any = None) -> list[str | None]:
        if session is not None:
            keep_session(session)
        found = [bucket_options("bucket")]
        thread = BackgroundCall(lambda: found.append(bucket_options("bucket")))
        thread.start()
        thread.wait()
        return [None if each is None else each["aws_access_key_id"] for each in found]

    assert contextvars.Context().run(keys) == ["active", "active"]
    assert contextvars.Context().run(keys, own) == ["own", "own"]
    own._sc._jsc = None  # it was stopped
    assert contextvars.Context().run(keys, own) == ["active", "active"]


def test_settings_come_before_those_of_the_environment(folder: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, str]] = []

    class Store(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            sent.append({name.lower(): value for name, value in self.headers.items()})
            self.send_error(HTTPStatus.NOT_FOUND)

        def log_message(self, *given: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Store)
    Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "SESSION_TOKEN": "t",
        "SKIP_SIGNATURE": "true",
        "ENDPOINT_URL_S3": "http://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    address = f"http://127.0.0.1:{server.server_port}"
    keys = (("aws_access_key_id", "own"), ("aws_secret_access_key", "b"))
    own = replace(folder.bucket, options=((ENDPOINT, address), *keys))
    try:
        assert not ObjectPath(own, folder.url).is_object()
    finally:
        server.shutdown()
        server.server_close()
    (headers,) = sent
    assert "Credential=own/" in headers["authorization"]
    assert "x-amz-security-token" not in headers


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "http://", "ftp://ann:s3cret@host"])
def test_an_endpoint_that_is_no_address_is_an_error(
    folder: ObjectPath, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    objects._opened.cache_clear()
    with pytest.raises(SourceError, match="is no address of an object store") as caught:
        from_source(TextFileSource(folder.url)).collect()
    assert "s3cret" not in str(caught.value)


def test_an_address_with_a_password_is_left_to_spark_which_refuses_it() -> None:
    assert bucket_of("s3a://ann:s3cret@bucket/x") is None
    with pytest.raises(WindrowError) as caught:
        from_source(TextFileSource("s3a://ann:s3cret@bucket/x")).collect()
    assert "s3cret" not in str(caught.value)


def test_what_the_store_says_is_told_in_its_words(folder: ObjectPath) -> None:
    with pytest.raises(SourceError, match="NoSuchBucket: The specified bucket does not exist") as caught:
        from_source(TextFileSource("s3a://no-such-bucket/in")).collect()
    assert "<" not in str(caught.value.given)
    assert "the endpoint and the credentials" in str(caught.value.hint)
    rows = from_collection([Row(1)], Row).sink_to(JsonFileSink("s3a://no-such-bucket/out"))
    with pytest.raises(SinkError, match="NoSuchBucket") as refused:
        LocalRunner().run(Pipeline("rows", rows))
    assert "the endpoint and the credentials" in str(refused.value.hint)
    for other in ("s3://bucket/in", "s3n://bucket/in"):
        with pytest.raises(UnsupportedOperationError) as written:
            from_source(TextFileSource(other)).collect()
        assert written.value.hint == "write s3a:// for this bucket"
