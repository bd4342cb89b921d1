"""A local server of files that cuts, lies about sizes and serves wrong bytes, as told."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path


class Faults:
    """What goes wrong with the next answers."""

    def __init__(self) -> None:
        self.cut_after: list[int] = []  # bytes sent of each answer in turn before the connection ends
        self.extra = 0  # promised beyond what there is
        self.claimed: int | None = None  # sent and promised, of a file that has more
        self.swap: bytes | None = None  # sent in place of the file
        self.ranges = True
        self.wrong_range = False
        self.tag: str | None = None
        self.sized = True
        self.requests: list[tuple[str, str | None, int]] = []  # path, range, status


class Handler(http.server.BaseHTTPRequestHandler):
    root: Path
    faults: Faults

    def do_GET(self) -> None:
        path, wanted, faults = self.root / self.path.lstrip("/"), self.headers.get("Range"), self.faults
        if not path.is_file():
            self.answer(404, b"", wanted)
            return
        content = (path.read_bytes() if faults.swap is None else faults.swap)[: faults.claimed]
        tag = faults.tag or f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        if not wanted or not faults.ranges or self.headers.get("If-Range") not in (None, tag):
            self.answer(200, content, wanted, ETag=tag)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start >= len(content):
            self.answer(416, b"", wanted)
            return
        span = f"bytes {start + faults.wrong_range}-{len(content) - 1}/{len(content)}"
        self.answer(206, content[start:], wanted, **{"Content-Range": span, "ETag": tag})

    do_HEAD = do_GET

    def answer(self, status: int, body: bytes, wanted: str | None, **headers: str) -> None:
        self.faults.requests.append((self.path, wanted, status))
        self.send_response(status)
        for key, value in {**headers, "X-Repo-Commit": "0" * 40}.items():  # the Hub's client wants a commit
            self.send_header(key, value)
        if self.faults.sized:
            self.send_header("Content-Length", str(len(body) + self.faults.extra))
        self.end_headers()
        if self.command != "HEAD":
            cut = self.faults.cut_after.pop(0) if self.faults.cut_after else None
            self.wfile.write(body[:cut])

    def log_message(self, *words) -> None:
        pass


@contextlib.contextmanager
def serving(root: Path) -> Iterator[tuple[str, Faults]]:
    faults = Faults()
    handler = type("Handler", (Handler,), {"root": root, "faults": faults})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{service.server_port}", faults
        service.shutdown()
