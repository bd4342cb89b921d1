"""As much of the Hub's API as its own client asks for when it sends and fetches one small repository."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_standin"
COMMIT = "0" * 40


class StandIn(BaseHTTPRequestHandler):
    """One repository's files, by path; who has no token may read only."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes]
    asked: list[str]

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def answer(self, code: int, content: Any = b"", **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for key, value in {"Content-Length": str(len(body)), "X-Repo-Commit": COMMIT, **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_POST(self) -> None:
        body = self.body()
        self.asked.append(f"POST {self.path}")
        if f"Bearer {TOKEN}" != self.headers.get("Authorization") and "validate-yaml" not in self.path:
            self.answer(401, {"error": "Invalid username or password."})
        elif "/preupload/" in self.path:
            paths = [file["path"] for file in json.loads(body)["files"]]
            modes = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]
            self.answer(200, {"files": modes})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            url = f"http://{self.headers['Host']}/me/agent/commit/{COMMIT}"
            self.answer(200, {"commitUrl": url, "commitOid": COMMIT, "success": True})
        elif self.path.startswith("/api/repos/create"):
            self.answer(
                200, {"url": f"http://{self.headers['Host']}/me/agent", "name": "me/agent", "id": "me/agent"}
            )
        else:
            self.answer(200, {"errors": [], "warnings": []})

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        if self.path.startswith("/api/whoami"):
            known = f"Bearer {TOKEN}" == self.headers.get("Authorization")
            self.answer(
                200 if known else 401,
                {"name": "me", "type": "user", "auth": {"accessToken": {"role": "write"}}},
            )
        elif "/resolve/" in self.path:
            name = self.path.partition("/resolve/")[2].partition("/")[2]
            content = self.files.get(name)
            if content is None:
                self.answer(404, b"", X_Error_Code="EntryNotFound")
            else:
                self.answer(200, content, ETag=f'"{hashlib.sha1(content).hexdigest()}"')
        elif self.path.startswith("/api/models/me/agent"):
            siblings = [{"rfilename": name} for name in self.files]
            tree = [{"type": "file", "path": n, "size": len(c), "oid": "x"} for n, c in self.files.items()]
            about = {
                "id": "me/agent",
                "modelId": "me/agent",
                "sha": COMMIT,
                "siblings": siblings,
                "private": False,
            }
            self.answer(
                200, tree if "/tree/" in self.path else {**about, "tags": [], "downloads": 0, "likes": 0}
            )
        else:
            self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")

    do_HEAD = do_GET


@contextmanager
def hub() -> Iterator[tuple[str, type[StandIn]]]:
    """Its address, and what it holds."""
    handler = type("Hub", (StandIn,), {"files": {}, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()
