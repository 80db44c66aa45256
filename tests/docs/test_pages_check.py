"""The checks of built pages, ``python -m tests.pages``: each fault is found, and nothing else is."""

from __future__ import annotations

import socket
import struct
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.browser.chromium import NoBrowserError, QuietServer, executable
from tests.pages import __main__ as program
from tests.pages.browser import measure, photograph
from tests.pages.links import Page, of_built_pages, of_texts, outside_problem
from tests.pages.words import too_long, words_of

HEAD = "<!DOCTYPE html><meta name='viewport' content='width=device-width'><body style='margin: 0'>"


@pytest.fixture
def chromium() -> str:
    try:
        return executable()
    except NoBrowserError as error:
        pytest.skip(str(error))


def write(folder: Path, **pages: str) -> Path:
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(HEAD + body, encoding="utf-8")
    return folder


def test_links_inside_have_files_and_anchors(tmp_path: Path) -> None:
    write(
        tmp_path,
        one="<a href='two.html#there'>a</a><a href='two.html#gone'>b</a><a href='three.html'>c</a><a href='#own'>d</a>",
        two="<h2 id='there'>a</h2><a href='#there'>b</a><img src='gone.png'><a href='one.html'>c</a>",
    )
    assert of_built_pages(tmp_path) == [
        "one.html: two.html#gone: there is no such anchor",
        "one.html: three.html: there is no such file",
        "one.html: #own: there is no such anchor",
        "two.html: gone.png: there is no such file",
    ]


def test_a_link_does_not_leave_the_pages(tmp_path: Path) -> None:
    (tmp_path / "beside.txt").touch()
    (tmp_path / "html").mkdir()
    write(tmp_path / "html", one="<a href='../beside.txt'>a</a>")
    assert of_built_pages(tmp_path / "html") == ["one.html: ../beside.txt: it leads out of the folder"]


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("https://spark.apache.org/docs/latest/", None),
        ("mailto:someone@example.org", None),
        ("http://127.0.0.1:4040/jobs", None),
        ("https://spark apache.org/", "it has a space"),
        ("https:///docs", "'' is no host"),
        ("https://spark_apache..org", "'spark_apache..org' is no host"),
        ("htps://spark.apache.org", "the scheme is 'htps', expected one of http, https, mailto"),
    ],
)
def test_addresses_outside_are_read_alone(link: str, problem: str | None) -> None:
    assert outside_problem(link) == problem


def test_headings_of_texts_are_anchors_as_on_github() -> None:
    page = Page.of_markdown(
        "# What `run` does\n\n## A\n\n## A\n\n[b](c.md#d) <img src='e.svg'>\n\n| f |\n|---|\n| [g](h) |\n"
    )
    assert page.anchors == {"what-run-does", "a", "a-1"}
    assert page.links == ["c.md#d", "e.svg", "h"]


def test_texts_link_to_files_and_headings(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One\n\n[elsewhere](gone.md)\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("[a](docs/a.md#one) [b](docs/a.md#two) [c](docs/b.md)", encoding="utf-8")
    assert of_texts(tmp_path, ["README.md"]) == [
        "README.md: docs/a.md#two: there is no such anchor",
        "README.md: docs/b.md: there is no such file",
    ]


def test_pages_of_too_many_words_are_found(tmp_path: Path) -> None:
    long = f"<article>{'word ' * 2_999}<b>two</b><i>more</i></article>"
    write(tmp_path, long=long, short=f"<p>menu</p>{long}".replace("<b>two</b>", ""), tutorial=long)
    assert too_long(tmp_path) == ["long.html: it has 3001 words, and may have 3000; say less, or split it"]
    assert words_of("menu <article>of <code>one</code>.two <p>three</p></article> foot") == 4


def test_what_does_not_fit_is_found(tmp_path: Path, chromium: str) -> None:
    write(
        tmp_path,
        broken=f"<div role=main><h1 style='overflow-wrap: anywhere'>{'x' * 200}</h1></div>",
        crushed=f"<div role=main><table><td style='display:block; width:60px; padding:0'>{'wide ' * 9}</table></div>",
        cut=f"<div role=main><pre style='overflow-x: auto'>{'x' * 400}</pre></div>",
        fits=f"<div role=main><pre>short</pre><div style='overflow-x: auto'><table><td>{'x' * 200}</table></div></div>",
        folded=f"<div role=main><details><pre style='overflow-x: auto'>{'x' * 400}</pre></details></div>",
        members=f"<div role=main><div style='overflow-x: auto'><table class=members><td>{'x' * 90}</table></div></div>",
        wide="<div role=main><p style='width: 900px'>wide</p></div>",
    )
    pages = ["broken", "crushed", "cut", "fits", "folded", "members", "wide"]
    found = measure(tmp_path, [f"{page}.html" for page in pages])
    assert sorted((each.page, each.width, each.problem.partition(":")[0]) for each in found) == [
        ("broken.html", 420, "a word of a heading is broken"),
        ("broken.html", 1280, "a word of a heading is broken"),
        ("crushed.html", 420, "a column is crushed to 60 px"),
        ("crushed.html", 1280, "a column is crushed to 60 px"),
        ("cut.html", 1280, "code is cut, its longest line has 400 columns"),
        ("folded.html", 1280, "code is cut, its longest line has 400 columns"),
        ("members.html", 420, "a table of members is cut"),
        ("wide.html", 420, "it scrolls sideways by 480 px"),
        ("wide.html", 420, "wider than the page by 480 px"),
    ]


def test_pictures_are_of_both_widths_light_and_dark(tmp_path: Path, chromium: str) -> None:
    files = photograph(write(tmp_path, one="<p>one"), ["one.html"], tmp_path / "pictures")
    assert [file.name for file in files] == [
        f"one-{width}-{light}.png" for width in (1280, 420) for light in ("light", "dark")
    ]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


@pytest.mark.parametrize("is_left", [True, False])
def test_a_browser_that_leaves_a_page_is_no_error(capsys: pytest.CaptureFixture[str], is_left: bool) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raise LookupError("of the server's own")

    server = QuietServer(("127.0.0.1", 0), Handler)
    with server, socket.create_connection(("127.0.0.1", server.server_port)) as browser:
        browser.sendall(b"GET /" if is_left else b"GET / HTTP/1.0\r\n\r\n")
        if is_left:
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            browser.close()  # by a reset
        server.process_request_thread(*server.get_request())
    shown = capsys.readouterr().err
    assert shown == "" if is_left else "LookupError: of the server's own" in shown


def test_the_program_tells_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "TEXTS", ())
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    write(tmp_path, one="<a href='two.html'>a</a>")
    assert program.main([str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == "one.html: two.html: there is no such file\n"
    assert "not checked is how the pages are shown: there is no Chromium" in shown.err
    write(tmp_path, two="")
    assert program.main([str(tmp_path)]) == program.NOT_SHOWN != 0
    assert program.main([str(tmp_path), "--only", "three"]) == 2
