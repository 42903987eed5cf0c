"""Debian packages out of a few strings; see deb(5)."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Package:
    """A package for amd64: control fields beside the usual ones, files by path, maintainer scripts by name."""

    name: str
    version: str
    fields: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Return what its file is called in a repository."""
        return f"{self.name}_{self.version}_amd64.deb"

    def control(self) -> str:
        """Return its control paragraph."""
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "amd64",
            "Maintainer": "Stub of NVIDIA <stub@example.org>",
            **self.fields,
            "Description": f"stand-in for {self.name}, for tests",
        }
        return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def build(package: Package) -> bytes:
    """Return the package as a .deb file."""
    control = {"control": (package.control(), 0o644)}
    control.update({name: (script, 0o755) for name, script in package.scripts.items()})
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": _tar(control),
        "data.tar.gz": _tar({path.lstrip("/"): (text, _mode(path)) for path, text in package.files.items()}),
    }
    archive = b"!<arch>\n"
    for name, content in members.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n"
        archive += header.encode() + content + b"\n" * (len(content) % 2)
    return archive


def _mode(path: str) -> int:
    return 0o755 if "/bin/" in path else 0o644


def _tar(files: dict[str, tuple[str, int]]) -> bytes:
    """Return a tar.gz of these files, with the directories above them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        directories = {
            "/".join(parts[:depth]) for parts in (path.split("/") for path in files) for depth in range(1, len(parts))
        }
        for directory in sorted(directories):
            entry = tarfile.TarInfo(f"./{directory}/")
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for path, (text, mode) in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(f"./{path}")
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
