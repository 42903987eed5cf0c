"""RPM packages out of a few strings, by rpmbuild; see rpm-spec(5)."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

QUIET = {
    "debug_package": "%{nil}",
    "__os_install_post": "%{nil}",
    "_build_id_links": "none",
    "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
}


@dataclass(frozen=True)
class Package:
    """A package for x86_64: relations as in a spec file, files by path, scriptlets by name."""

    name: str
    version: str
    release: str
    epoch: int = 0
    tags: tuple[str, ...] = ()
    files: dict[str, str | bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)

    @property
    def kernel(self) -> str:
        """Return the name of the kernel that a package of this version and release is for."""
        return f"{self.version}-{self.release}.x86_64"

    @property
    def nevra(self) -> str:
        """Return it as module metadata name it."""
        return f"{self.name}-{self.epoch}:{self.version}-{self.release}.x86_64"

    @property
    def file_name(self) -> str:
        """Return what its file is called in a repository."""
        return f"{self.name}-{self.version}-{self.release}.x86_64.rpm"


def build(packages: list[Package], vendor: str, work: Path, repository: Path) -> None:
    """Build packages of different names in one run, and put them into the repository's directory."""
    shutil.rmtree(work, ignore_errors=True)
    root = work / "root"
    for package in packages:
        for path, content in package.files.items():
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
            file.chmod(0o755 if "/bin/" in path else 0o644)
        for path, target in package.links.items():
            link = root / path.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
    root.mkdir(parents=True, exist_ok=True)
    (work / "stubs.spec").write_text(_spec(packages, vendor, root))
    defines = {**QUIET, "_topdir": str(work), "_rpmdir": str(repository)}
    options = [word for name, value in defines.items() for word in ("--define", f"{name} {value}")]
    subprocess.run(["rpmbuild", "--quiet", "-bb", *options, str(work / "stubs.spec")], check=True)


def _spec(packages: list[Package], vendor: str, root: Path) -> str:
    head = (
        "Name: stubs\nVersion: 1\nRelease: 1\nSummary: stand-ins\nLicense: none\nBuildArch: x86_64\n%description\n-\n"
    )
    install = f"%install\nmkdir -p %{{buildroot}}\ncp -a {root}/. %{{buildroot}}/\n"
    return head + "".join(_section(package, vendor) for package in packages) + install


def _section(package: Package, vendor: str) -> str:
    lines = [
        f"%package -n {package.name}",
        f"Version: {package.version}",
        f"Release: {package.release}",
        *([f"Epoch: {package.epoch}"] if package.epoch else []),
        f"Summary: stand-in for {package.name}, for tests",
        f"Vendor: {vendor}",
        "AutoReqProv: no",
        *package.tags,
        f"%description -n {package.name}",
        "-",
        f"%files -n {package.name}",
        *package.files,
        *package.links,
    ]
    for name, script in package.scripts.items():
        lines += [f"%{name} -n {package.name}", script]
    return "\n".join(lines) + "\n"
