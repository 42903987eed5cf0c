"""A build backend that needs nothing (PEP 517, PEP 660): the directory that it lies in is one module and a program."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def write_wheel(directory: str, name: str, files: dict[str, str]) -> str:
    """Write a wheel, version 0.3, with a program of the same name, and return its file name."""
    info = f"{name}-0.3.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.3\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    file = f"{name}-0.3-py3-none-any.whl"
    Path(directory).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(f"{directory}/{file}", "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return file


def build_wheel(directory: str, _settings: object = None, _metadata: object = None) -> str:
    """Build a wheel of the module."""
    name = Path.cwd().name
    return write_wheel(directory, name, {f"{name}.py": "def main(): print('yes')\n"})


def build_editable(directory: str, _settings: object = None, _metadata: object = None) -> str:
    """Build a wheel that leads to the module's directory."""
    name = Path.cwd().name
    return write_wheel(directory, name, {f"__editable__.{name}.pth": f"{Path.cwd()}\n"})
