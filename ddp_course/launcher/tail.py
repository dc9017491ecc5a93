"""Reading what a rank writes while it writes, in bounded memory, also after the file is deleted."""

from __future__ import annotations

import os
from pathlib import Path

_CHUNK = 1 << 16


class Tail:
    """One growing file. `poll()` looks for news; `last_line` is the newest line with something on it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._seen = 0
        self.last_line = ""

    def poll(self) -> bool:
        """Whether there is news. Reads at most the last 64 KiB of it."""
        size = self.size()
        if size == self._seen:
            return False
        start = max(self._seen - _CHUNK // 8, size - _CHUNK, 0)
        text = self.read(start, size - start).decode(errors="replace")
        self._seen = size
        for line in reversed(text.replace("\r", "\n").split("\n")):
            if line.strip():
                self.last_line = line.strip()
                break
        return True

    def size(self) -> int:
        """Bytes in the file now; 0 where it does not exist (yet)."""
        if self._fd is None:
            try:
                self._fd = os.open(self._path, os.O_RDONLY)
            except OSError:
                return 0
        return os.fstat(self._fd).st_size

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from `start`, or as many as there are."""
        return os.pread(self._fd, count, start) if self._fd is not None and count > 0 else b""

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class Excerpt:
    """The first and the last lines of a file, and how many bytes were left out between them."""

    def __init__(self, tail: Tail, lines: int) -> None:
        size = tail.size()
        budget = max(4096, lines * 200)
        if size <= 2 * budget:
            self.head, self.omitted = tail.read(0, size), 0
            self.tail = b""
            kept = self.head.split(b"\n")
            if len(kept) > lines + 1:
                half = lines // 2
                self.head = b"\n".join(kept[:half]) + b"\n"
                self.tail = b"\n".join(kept[len(kept) - half - 1 :])
                self.omitted = size - len(self.head) - len(self.tail)
            return
        half = lines // 2
        self.head = b"\n".join(tail.read(0, budget).split(b"\n")[:half]) + b"\n"
        self.tail = b"\n".join(tail.read(size - budget, budget).split(b"\n")[1:][-half - 1 :])
        self.omitted = size - len(self.head) - len(self.tail)
