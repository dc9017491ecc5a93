"""`make lab`, as a learner's browser sees it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parent.parent
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """JupyterLab's address, token included, as `make lab` prints it."""
    server = subprocess.Popen(
        ["make", "lab", "ARGS=--no-browser --port 0"],
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
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)


@pytest.mark.browser
def test_lesson_1_opens_and_nothing_asks_about_news(address: str, chromium: str, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET.split())
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.goto(address)
        lessons = sorted(file.name for file in (ROOT / "lessons").glob("*.ipynb"))
        if lessons:
            page.get_by_role("tab", name=lessons[0]).first.wait_for()
        page.locator("#jp-bottom-panel").wait_for(state="attached")
        page.wait_for_timeout(3000)  # the question came about a second after the page
        text = page.locator("body").inner_text()
        browser.close()
    assert "Jupyter news" not in text
    assert "Build Recommended" not in text


def test_jupyterlab_keeps_its_token_and_listens_on_loopback_only(address: str) -> None:
    port = int(re.search(r":(\d+)/", address).group(1))  # type: ignore[union-attr]
    listeners = [c.laddr.ip for c in psutil.net_connections("inet") if c.status == "LISTEN" and c.laddr.port == port]
    assert listeners == ["127.0.0.1"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/lab") as answer:
        assert "/login" in answer.url, "without the token JupyterLab asks for it"
