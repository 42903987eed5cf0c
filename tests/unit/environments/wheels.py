"""Small wheels, and an index of them on this machine."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
import zipfile
from functools import partial

from stubs.serve import Handler

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
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    path = directory / name / f"{name}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for inner, content in files.items():
            archive.writestr(inner, content)
    return path


def torch(directory, version="2.13.0", cuda=None, text=None):
    """Write a wheel of the stand-in for PyTorch."""
    return wheel(directory, "torch", version, TORCH.format(version=version, cuda=cuda) if text is None else text)


def serve(directory):
    """Serve a directory on this machine; return the server, with its address in ``url``."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(directory)))
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
