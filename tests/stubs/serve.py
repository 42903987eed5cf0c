#!/usr/bin/env python3
"""Serve a directory over HTTP in the background, for as long as it exists: tests/stubs/serve.py DIRECTORY ADDRESS PORT.

Does nothing where it is served already.
"""

from __future__ import annotations

import errno
import hashlib
import http.server
import io
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files and keeps quiet."""

    def list_directory(self, path: str) -> io.BytesIO:
        """Return the page of a directory, with the SHA-256 of each wheel, as package indexes write it."""
        links = []
        for one in sorted(Path(path).iterdir()):
            digest = f"#sha256={hashlib.sha256(one.read_bytes()).hexdigest()}" if one.suffix == ".whl" else ""
            links.append(f'<a href="{one.name}{"/" * one.is_dir()}{digest}">{one.name}</a>\n')
        page = "".join(links).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        return io.BytesIO(page)

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        """Return the type of a file; clients of a registry ask for an image's manifest by it."""
        return MANIFEST if "/manifests/" in str(path) else super().guess_type(path)

    def log_message(self, *_message: object) -> None:
        """Nobody reads it."""


def main() -> None:
    """Bind, go to the background, serve until the directory is gone."""
    directory, address, port = Path(sys.argv[1]).resolve(strict=True), sys.argv[2], int(sys.argv[3])
    try:
        server = http.server.ThreadingHTTPServer((address, port), partial(Handler, directory=str(directory)))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return
        raise
    if os.fork():
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while directory.is_dir():
        time.sleep(1)


if __name__ == "__main__":
    main()
