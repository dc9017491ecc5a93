"""`make lab`, as a learner's browser sees it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from browser import browser
from jupyterlab_server.workspaces_handler import WorkspacesManager

from ddp_course.exercises import bookkeeping, of_lesson
from ddp_course.jupyter import welcome

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("[0-9]*.ipynb"))


@pytest.fixture(scope="module")
def busy() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def address(busy: int) -> Iterator[str]:
    """JupyterLab's address, token included, as `make lab` prints it where its port is busy."""
    server = subprocess.Popen(
        ["make", "lab", f"ARGS=--no-browser --port {busy}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(server.stdout.readline, "")), daemon=True)  # type: ignore[union-attr]
    reader.start()
    try:
        deadline = time.monotonic() + 120
        pattern = re.compile(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+")
        while not (found := pattern.search("".join(lines))) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        assert found, "make lab printed no address:\n" + "".join(lines)
        yield found.group()
    finally:
        kernels = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)
        psutil.wait_procs(kernels, timeout=15)


@pytest.fixture(scope="module")
def page(address: str, chromium: str) -> Iterator[Any]:
    """What the browser shows some seconds after it has opened that address."""
    with browser(chromium) as window:
        shown = window.new_page(viewport={"width": 1280, "height": 900})
        shown.goto(address)
        shown.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
        shown.wait_for_timeout(3000)  # the question about news came about a second after the page
        yield shown


@pytest.mark.browser
def test_lesson_1_opens_and_nothing_asks_about_news(page: Any) -> None:
    assert page.get_by_role("tab", name=LESSONS[0].name).first.is_visible()
    assert page.locator(".jp-Notebook h1").first.inner_text().startswith("Lesson 1 · ")
    text = page.locator("body").inner_text()
    assert "Jupyter news" not in text
    assert "Build Recommended" not in text
    assert page.locator(".jp-Dialog, .Toastify__toast").count() == 0


@pytest.mark.browser
def test_a_welcome_shows_the_lessons_their_times_and_the_progress(page: Any) -> None:
    rows = page.locator(".jp-MarkdownViewer tbody tr")
    assert rows.count() == len(LESSONS)
    for path, row in zip(LESSONS, rows.all(), strict=True):
        lesson, minutes, done, left = row.locator("td").all_inner_texts()
        assert lesson.startswith(f"{int(path.name[:2])} · ")
        assert 60 <= int(minutes) <= 120 and int(left) >= 0
        assert re.fullmatch(r"\d+ of \d+", done)
    pane = page.locator(".jp-MarkdownViewer .jp-RenderedMarkdown")
    assert pane.evaluate("e => e.scrollHeight <= e.clientHeight"), "the welcome is cut off"


@pytest.mark.browser
def test_a_lesson_opens_from_the_welcome(page: Any) -> None:
    page.locator(".jp-MarkdownViewer tbody a").last.click()
    page.get_by_role("tab", name=LESSONS[-1].name).first.wait_for()
    page.locator(".jp-NotebookPanel:visible h1", has_text=f"Lesson {len(LESSONS)} · ").first.wait_for()


def test_a_busy_port_gives_the_next_one(address: str, busy: int) -> None:
    port = int(re.search(r":(\d+)/", address).group(1))  # type: ignore[union-attr]
    assert busy < port <= busy + 5


def test_jupyterlab_keeps_its_token_and_listens_on_loopback_only(address: str) -> None:
    port = int(re.search(r":(\d+)/", address).group(1))  # type: ignore[union-attr]
    listeners = [c.laddr.ip for c in psutil.net_connections("inet") if c.status == "LISTEN" and c.laddr.port == port]
    assert listeners == ["127.0.0.1"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/lab") as answer:
        assert "/login" in answer.url, "without the token JupyterLab asks for it"


# The page and the workspace


def test_a_lesson_that_is_damaged_and_a_folder_that_is_a_file_leave_jupyterlab_to_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (("01_a.ipynb", b"{"), ("02_b.ipynb", b"[1]"), ("03_c.ipynb", b"\xff")):
        (tmp_path / name).write_bytes(content)
    assert welcome.main([]) == 0
    rows = (tmp_path / welcome.PAGE).read_text().splitlines()[4:7]
    assert rows == [
        f"| {name}: cannot be read as a notebook | – | – | – |"
        for name in sorted(os.listdir())
        if "_" in name and name.endswith("nb")
    ]
    shutil.rmtree(".ddp_course")
    (tmp_path / ".ddp_course").write_text("")
    assert welcome.main([]) == 0
    assert "ddp-course welcome: no welcome page." in capsys.readouterr().err


def test_the_welcome_follows_the_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, *rest = of_lesson("01")
    before = welcome.page(LESSONS, bookkeeping.progress())
    bookkeeping.record(first.name, "done")
    after = welcome.page(LESSONS, bookkeeping.progress())
    assert f"({LESSONS[0].name}) | " in before and " | 0 of " in before.splitlines()[4]
    assert " | 1 of " in after.splitlines()[4]
    assert f"section {first.section}, {first.name}" in before
    assert f"{rest[0].name}." in after


def test_the_workspace_is_where_jupyterlab_looks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / LESSONS[0].name).write_bytes(LESSONS[0].read_bytes())
    assert welcome.main([]) == 0
    stored = WorkspacesManager(".ddp_course/jupyterlab").load(welcome.WORKSPACE)
    assert stored["data"] == welcome.workspace(LESSONS[0].name)["data"]
    assert (tmp_path / welcome.PAGE).is_file()


def test_a_folder_without_lessons_gets_no_welcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert welcome.main([]) == 0
    assert list(tmp_path.iterdir()) == []
