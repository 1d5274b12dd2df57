"""A copied hub tree, served on this machine as the hub serves it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

REPO = "someone/texts"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 1000
"""Files from this size on are listed with their sha256, as on the hub."""


@dataclass
class Hub:
    """What the server serves, and what it has been asked."""

    tree: Path
    address: str = ""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and range of each download."""
    cut_after: int | None = None
    """Break the next download off after so many bytes, and stay silent until it is cut."""
    hang: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serve(tree: Path) -> Iterator[Hub]:
    """Serve `tree` as data set REPO at COMMIT."""
    hub = Hub(tree)
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        hub.hang.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        listing, resolve = f"/api/datasets/{REPO}/tree/", f"/datasets/{REPO}/resolve/"
        if path.startswith(listing):
            self._at_commit(path.removeprefix(listing), self._list)
        elif path.startswith(resolve):
            self._at_commit(path.removeprefix(resolve), self._send)
        else:
            self._refuse("RepoNotFound")

    def _at_commit(self, path: str, answer) -> None:  # type: ignore[no-untyped-def]
        commit, _, rest = path.partition("/")
        if commit == COMMIT:
            answer(rest)
        else:
            self._refuse("RevisionNotFound")

    def _list(self, folder: str) -> None:
        if not (self.hub.tree / folder).is_dir():
            self._refuse("EntryNotFound")
            return
        files = sorted(p for p in (self.hub.tree / folder).rglob("*") if p.is_file())
        body = json.dumps([_entry(self.hub.tree, file) for file in reversed(files)]).encode()
        self._head(200, len(body), {"Content-Type": "application/json"})
        self.wfile.write(body)

    def _send(self, name: str) -> None:
        span = self.headers.get("Range")
        self.hub.requests.append((name, span))
        content = (self.hub.tree / name).read_bytes()
        start = int(span.removeprefix("bytes=").rstrip("-")) if span else 0
        more = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        self._head(206 if span else 200, len(content) - start, more if span else {})
        cut, self.hub.cut_after = self.hub.cut_after, None
        self.wfile.write(content[start:][:cut])
        if cut is not None:
            self.wfile.flush()
            self.hub.hang.wait()
            self.close_connection = True

    def _refuse(self, code: str) -> None:
        self._head(404, 0, {"X-Error-Code": code, "X-Error-Message": code})

    def _head(self, status: int, length: int, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), "X-Repo-Commit": COMMIT, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def _entry(tree: Path, file: Path) -> dict[str, object]:
    content = file.read_bytes()
    header = f"blob {len(content)}\0".encode()
    entry: dict[str, object] = {
        "type": "file",
        "path": file.relative_to(tree).as_posix(),
        "size": len(content),
        "oid": hashlib.sha1(header + content).hexdigest(),
    }
    if len(content) >= LARGE:
        digest = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
    return entry
