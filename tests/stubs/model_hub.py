"""Stand in for the hub of Hugging Face: its list of files, its redirects to another host, ranges, tokens and gates.

python model_hub.py DIRECTORY PORT [CERTIFICATE KEY]: DIRECTORY/{models,datasets}/ORG/NAME/REVISION/FILE is what it has.
Those with gated in their name want the token in DIRECTORY/token, those with closed a licence that nobody has accepted.
What was asked with which token stands in DIRECTORY/asked. With DIRECTORY/slow, 300 kB come in a second; with
DIRECTORY/break, the next large file breaks off.
"""

import hashlib
import http.server
import json
import re
import ssl
import sys
import threading
import time
from pathlib import Path

BLOCK = 1 << 16
LARGE = 1000  # bytes from which a file is one of Git LFS
API = re.compile(r"/api/(models|datasets)/(.+)/revision/([^/?]+)\?blobs=true")
FILE = re.compile(r"/(?:(datasets)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the hub does; below /cdn it is the other host that large files come from."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """Answer."""
        top, token = self.server.directory, self.headers.get("Authorization", "")
        with (top / "asked").open("a") as stream:
            stream.write(f"{self.path} {self.headers.get('Range')} {token}\n")
        if self.path.startswith("/cdn/"):
            self.send_file(top / self.path[len("/cdn/") :])
        elif found := API.fullmatch(self.path):
            self.send_list(top.joinpath(*found.groups()), found[3])
        elif found := FILE.fullmatch(self.path):
            path = top.joinpath(found[1] or "models", *found.groups()[1:])
            is_known = token == f"Bearer {(top / 'token').read_text()}" if "gated" in found[2] else True
            if not is_known or "closed" in found[2]:
                self.answer(401 if not is_known else 403, b"", **{"X-Error-Code": "GatedRepo"})
            elif path.is_file() and path.stat().st_size >= LARGE:
                self.answer(302, b"", Location=f"{self.server.elsewhere}/cdn/{path.relative_to(top)}")
            else:
                self.send_file(path)
        else:
            self.answer(404, b"")

    def send_list(self, top, revision):
        """Send the list of files."""
        if not top.is_dir():
            self.answer(404, b"", **{"X-Error-Code": "RepoNotFound"})
            return
        siblings = []
        for path in sorted(one for one in top.rglob("*") if one.is_file()):
            data = path.read_bytes()
            git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
            large = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            sibling = {"rfilename": str(path.relative_to(top)), "size": len(data), "blobId": git}
            siblings.append({**sibling, "lfs": large} if len(data) >= LARGE else sibling)
        self.answer(200, json.dumps({"sha": revision, "siblings": siblings}).encode())

    def send_file(self, path):
        """Send a file, or what of it is asked for; broken off in the middle where DIRECTORY/break says so."""
        if not path.is_file():
            self.answer(404, b"", **{"X-Error-Code": "EntryNotFound"})
            return
        data, begin = path.read_bytes(), 0
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            begin = int(asked[1])
        broken = self.server.directory / "break"
        more = {"Accept-Ranges": "bytes"}
        if begin:
            more["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        if broken.exists() and len(data) - begin >= LARGE:
            broken.unlink()
            self.answer(206 if begin else 200, data[begin:], cut=(len(data) - begin) // 2, **more)
        else:
            self.answer(206 if begin else 200, data[begin:], **more)

    def answer(self, status, data, cut=None, **headers):
        """Send an answer, of which cut is the length that really comes."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for start in range(0, len(data[:cut]), BLOCK):
            self.wfile.write(data[:cut][start : start + BLOCK])
            if (self.server.directory / "slow").exists():
                time.sleep(0.2)
        self.close_connection = self.close_connection or cut is not None

    def log_message(self, *_):
        """Say nothing."""


def serve(directory, port=0, elsewhere="", context=None, host="127.0.0.1"):
    """Serve a directory beside the caller's other work; return the server, which has an address."""
    server = http.server.ThreadingHTTPServer((host, port), Handler)
    server.directory, server.daemon_threads = Path(directory), True
    scheme = "http"
    if context:
        server.socket, scheme = context.wrap_socket(server.socket, server_side=True), "https"
    server.address = f"{scheme}://{host}:{server.server_port}"
    server.elsewhere = elsewhere or server.address
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


if __name__ == "__main__":
    place, at, *pair = sys.argv[1:]
    tls = None
    if pair:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*pair)
    # The other host of large files is this machine by another name.
    serve(place, int(at), "http://127.0.0.1:8099", tls, "0.0.0.0" if pair else "127.0.0.1")  # noqa: S104
    serve(place, 8099)
    threading.Event().wait()
