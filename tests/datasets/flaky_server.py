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


@contextlib.contextmanager
def serving(root: Path) -> Iterator[tuple[str, Faults]]:
    faults = Faults()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, wanted = root / self.path.lstrip("/"), self.headers.get("Range")
            if not path.is_file():
                self.answer(404, b"", 0, wanted)
                return
            content = path.read_bytes() if faults.swap is None else faults.swap
            content = content[: faults.claimed]
            tag = faults.tag or f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            same = self.headers.get("If-Range") in (None, tag)
            if wanted and faults.ranges and same:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= len(content):
                    self.answer(416, b"", len(content), wanted)
                    return
                shown = start + 1 if faults.wrong_range else start
                span = f"bytes {shown}-{len(content) - 1}/{len(content)}"
                self.answer(
                    206, content[start:], len(content), wanted, ("Content-Range", span), ("ETag", tag)
                )
            else:
                self.answer(200, content, len(content), wanted, ("ETag", tag))

        def answer(self, status: int, body: bytes, total: int, wanted: str | None, *headers) -> None:
            faults.requests.append((self.path, wanted, status))
            self.send_response(status)
            for key, value in headers:
                self.send_header(key, value)
            if faults.sized:
                self.send_header("Content-Length", str(len(body) + faults.extra))
            self.end_headers()
            cut = faults.cut_after.pop(0) if faults.cut_after else None
            self.wfile.write(body[:cut])

        def log_message(self, *words) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{service.server_port}", faults
        service.shutdown()
