#!/usr/bin/env python3
"""Make a small conda channel, and wheels for pip: tests/stubs/conda_channel.py DIRECTORY VERSION [PYTHON WHEELS].

VERSION is that of its Python, whose files are below PYTHON (bin/python3.X and lib/python3.X) or, where that is left
out, stay those of this interpreter. Its packages are packed by conda-package-handling and indexed by py-rattler.
"""

from __future__ import annotations

import asyncio
import ensurepip
import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from conda_package_handling import api
from rattler.index import index_fs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from unit.environments import wheels

PLACEHOLDER = "/opt/placeholder-of-the-prefix"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "test", "tests", "idlelib", "config-3*", "*.a", "*-packages")


def package(channel: Path, name: str, version: str, source: Path | dict[str, str], **more) -> Path:
    """Write a package of a directory, or of texts by their paths; return its file.

    more is what info/index.json has beside name and version; noarch is python, generic, or absent.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        if isinstance(source, Path):
            shutil.copytree(source, root, symlinks=True, dirs_exist_ok=True)
        for path, text in source.items() if isinstance(source, dict) else ():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
            (root / path).chmod(0o755 if path.startswith("bin/") else 0o644)
        build = more.pop("build", "0")
        noarch = more.get("noarch")
        subdir = "noarch" if noarch else "linux-64"
        paths = [described(root, path) for path in sorted(root.rglob("*")) if path.is_symlink() or path.is_file()]
        index = {"name": name, "version": version, "build": build, "build_number": 0, "subdir": subdir, "depends": []}
        machine = {"arch": None, "platform": None} if noarch else {"arch": "x86_64", "platform": "linux"}
        entry_points = {"link.json": {"noarch": {"type": "python"}, "package_metadata_version": 1}}
        info = {
            "index.json": {**index, **machine, "license": "MIT", "timestamp": 1700000000000, **more},
            "about.json": {},
            "paths.json": {"paths": paths, "paths_version": 1},
            **(entry_points if noarch == "python" else {}),
        }
        (root / "info").mkdir()
        for file, content in info.items():
            (root / "info" / file).write_text(json.dumps(content), encoding="utf-8")
        (root / "info/files").write_text("".join(f"{one['_path']}\n" for one in paths), encoding="utf-8")
        (channel / subdir).mkdir(parents=True, exist_ok=True)
        file = channel / subdir / f"{name}-{version}-{build}.conda"
        names = [str(path.relative_to(root)) for path in sorted(root.rglob("*")) if path.is_symlink() or path.is_file()]
        api.create(str(root), names, str(file), compression_level=1)
        return file


def described(root: Path, path: Path) -> dict[str, object]:
    """Return what info/paths.json says of a file."""
    link, data = path.is_symlink(), b"" if path.is_symlink() else path.read_bytes()
    found = {
        "_path": str(path.relative_to(root)),
        "path_type": "softlink" if link else "hardlink",
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_in_bytes": len(data),
    }
    return {
        **found,
        **({"file_mode": "text", "prefix_placeholder": PLACEHOLDER} if PLACEHOLDER.encode() in data else {}),
    }


def python(channel: Path, version: str, files: Path | None) -> None:
    """Write the package of Python: a virtual environment over the interpreter, which is in the package or this one.

    That finds its libraries wherever it lies, and makes nothing of what a distribution changed in the search path.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root, release = Path(scratch), ".".join(version.split(".")[:2])
        home = Path(sys.base_prefix, "bin")
        if files:
            home = Path(PLACEHOLDER, "opt/python/bin")
            shutil.copytree(files / f"lib/python{release}", root / f"opt/python/lib/python{release}", ignore=LEFT_OUT)
            (root / "opt/python/bin").mkdir()
            shutil.copy2(files / f"bin/python{release}", root / "opt/python/bin")
        (root / "bin").mkdir()
        if files:
            (root / f"bin/python{release}").symlink_to(f"../opt/python/bin/python{release}")
        else:  # a copy, so that a process that runs it is known by its file
            shutil.copy2(home / f"python{release}", root / "bin")
        for name in ("python3", "python"):
            (root / "bin" / name).symlink_to(f"python{release}")
        site = root / f"lib/python{release}/site-packages"
        site.mkdir(parents=True)
        (site / "README.txt").write_text("Packages lie here.\n", encoding="utf-8")
        (root / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n", encoding="utf-8")
        package(channel, "python", version, root, build="0_cpython")


def pip(channel: Path) -> None:
    """Write the package of pip, from the wheel that Python brings; distributions keep it elsewhere."""
    wheels_of_python = sysconfig.get_config_var("WHEEL_PKG_DIR") or Path(ensurepip.__file__).parent / "_bundled"
    wheel = next(Path(wheels_of_python).glob("pip-*.whl"))
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(wheel) as archive:
        archive.extractall(Path(scratch, "site-packages"))
        package(channel, "pip", wheel.name.split("-")[1], Path(scratch), noarch="python", depends=["python"])


def module(channel: Path, name: str, version: str, text: str | None = None, imported: str = "", **more) -> None:
    """Write the package of one Python module."""
    imported = imported or name
    files = {f"site-packages/{imported}.py": f"version = '{version}'\n" if text is None else text}
    depends = ["python", *more.pop("depends", [])]
    package(channel, name, version, files, noarch="python", depends=depends, **more)


def fill(channel: Path, python_version: str, python_files: Path | None = None) -> None:
    """Write the channel's packages and its index."""
    python(channel, python_version, python_files)
    pip(channel)
    module(channel, "six", "1.16.0")
    module(channel, "six", "1.17.0")
    module(
        channel,
        "ipykernel",
        "6.0",
        "import sys\n\nprint('stand-in for a kernel in', sys.prefix)\n",
        "ipykernel_launcher",
    )
    module(channel, "old", "1.0", depends=["six <1.17"])
    says = f"#!/bin/sh\necho from {PLACEHOLDER}\n"
    package(channel, "hello", "1.0", {"bin/hello": says}, depends=["__glibc >=2.17"])
    package(channel, "hello", "1.1", {"bin/hello": says, "share/big": "x" * 1000}, depends=["__glibc >=2.17"])
    package(channel, "git", "2.0", {"bin/git": '#!/bin/sh\nexec /usr/bin/git "$@"\n'}, noarch="generic")
    package(channel, "big", "1.0", {"share/zeros": "0" * 2**26})
    package(channel, "cuda-version", "12.8", {"share/cuda": "12.8"}, noarch="generic")
    cpu, cuda = (wheels.TORCH.format(version="2.13.0", cuda=one) for one in (None, "12.8"))
    module(channel, "pytorch", "2.13.0", cpu, "torch", build="cpu_0")
    module(
        channel,
        "pytorch",
        "2.13.0",
        cuda,
        "torch",
        build="cuda128_1",
        build_number=1,
        depends=["__cuda", "cuda-version"],
    )
    module(channel, "pytorch", "2.14.0", "raise ImportError('libcudart.so.13')\n", "torch", depends=["cuda-version"])
    asyncio.run(index_fs(channel, write_zst=True, write_shards=False))


if __name__ == "__main__":
    fill(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]) if sys.argv[3:] else None)
    for release in ("1.0", "2.0") if sys.argv[4:] else ():
        wheels.wheel(Path(sys.argv[4]), "alpha", release, f"version = {release[0]}")
    os._exit(0)  # py-rattler's threads can crash an interpreter that takes its time to end
