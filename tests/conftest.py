"""Which tests can run here: `browser` needs Chromium, `gpu` needs two GPUs and an NCCL build of torch."""

from __future__ import annotations

import os
import shutil

import pytest

from ddp_course.launcher import gpus

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Where Chromium is, if it is."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where Chromium is, for Playwright's `executable_path`.

    Without one the test is skipped, or fails where DDP_COURSE_REQUIRE_BROWSER is set, as in CI.
    """
    if found := find_chromium():
        return found
    missing = f"no Chromium: none of {', '.join(BROWSERS)} is on PATH, and CHROMIUM names none"
    if os.environ.get("DDP_COURSE_REQUIRE_BROWSER"):
        pytest.fail(missing)
    pytest.skip(missing)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if len(gpus.find().devices) >= 2:
        return
    skip = pytest.mark.skip(reason="needs two GPUs")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)
