"""Small wheels, and an index of them on this machine."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import ssl
import tarfile
import threading
import zipfile
from functools import partial

from stubs.serve import Handler

LOGIN = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><form action='/login'></form></body></html>"

# A stand-in for PyTorch: what the proof asks of it, over plain lists; a product's rows are all the first one.
TORCH = """
__version__ = "{version}"
class version: cuda = {cuda!r}
class tensor(list):
    def __matmul__(self, other):
        first = list.__getitem__(self, 0)
        return tensor([[sum(a * b for a, b in zip(first, column)) for column in zip(*other)]] * len(self))
    def __getitem__(self, n): return tensor(list.__getitem__(self, n))
    def tolist(self): return list(self)
class _C:
    @staticmethod
    def _cuda_getArchFlags(): return "sm_80 sm_90"
class cuda:
    @staticmethod
    def is_available(): return False
    @staticmethod
    def init(): raise RuntimeError("no driver")
"""


def wheel(directory, name, version, text="", requires=()):
    """Write a wheel of one module, and return its path."""
    info = f"{name}-{version}.dist-info"
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {one}" for one in requires),
    ]
    files = {
        f"{name}/__init__.py": text,
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, content in files.items():
        record += f"{path},sha256={digest(content.encode())},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    path = directory / name / f"{name}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for inner, content in files.items():
            archive.writestr(inner, content)
    return path


def digest(content):
    """Return the SHA-256 of bytes as a wheel's list of files has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def source(directory, name, version, built="/dev/null"):
    """Write a source archive, of which an index may have no wheel, and return its path; to build it writes a file."""
    path = directory / name / f"{name}-{version}.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "build"\nbackend-path = ["."]\n',
        "build.py": f"open({str(built)!r}, 'w').close()\n",
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for inner, text in texts.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{inner}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


def torch(directory, version="2.13.0", cuda=None, text=None):
    """Write a wheel of the stand-in for PyTorch."""
    return wheel(directory, "torch", version, TORCH.format(version=version, cuda=cuda) if text is None else text)


def serve(directory, certificate=None):
    """Serve a directory on this machine; return the server, with its address in ``url``.

    certificate is a file with a key and a certificate, by which it is served over TLS.
    """
    return _start(partial(Handler, directory=str(directory)), certificate)


def answer(status, content_type="text/html"):
    """Start what answers every request in the same way, one to a proxy, too; return the server."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(LOGIN)))
            self.end_headers()
            self.wfile.write(LOGIN)

        def do_CONNECT(self):
            self.do_GET()

        def log_message(self, *_message):
            pass

    return _start(Answer)


def _start(handler, certificate=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.url = f"https://localhost:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
