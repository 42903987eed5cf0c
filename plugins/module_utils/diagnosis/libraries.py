# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every copy of CUDA, cuDNN and NCCL that a program can find, in the order in which the linker and Python look.

Nothing is executed: environments are read from their files, whoever owns them.
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import of_wheels
from ansible_collections.gpulab.node.plugins.module_utils.cuda.strays import PROFILES, SESSION_FILES, settings_of
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import (
    CudaLibrary,
    Linked,
    PythonEnvironment,
    SearchedDirectory,
    Setting,
    Toolkit,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts import cuda
from ansible_collections.gpulab.node.plugins.module_utils.facts.libraries import paths

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

LIBRARIES = ("cudnn", "nccl", "cudart", "cublas", "nvJitLink", "cusparse", "nvrtc", "cuda")
VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "PYTHONPATH", "PYTHONNOUSERSITE")
USER_FILES = (".profile", ".bash_profile", ".bash_login", ".bashrc", ".zshenv", ".zshrc")
_FILE = re.compile(rf"lib({'|'.join(LIBRARIES)})\.so\.(\d+)\Z")
_VERSION = re.compile(r"\.so\.(\d{1,4}(?:\.\d{1,4}){1,3})\Z")
_SETTING = re.compile(rf"^\s*(?:export\s+|setenv\s+)?({'|'.join(VARIABLES)})[= ](.*)$")
_TORCH_CUDA = re.compile(r"^cuda(?:\s*:[^=]*)?\s*=\s*['\"]?([\d.]+|None)", re.MULTILINE)
_KNOWN = re.compile(
    r"(?:torch|torchvision|torchaudio|tensorflow|tf-keras|jax|jaxlib|jax-cuda.*|triton|numpy|opencv.*|nvidia-.*)\Z"
)
_MOST_DIRECTORIES = 64


def read(node: Node, prefixes: list[str], home: str | None, searched: list[str], emit: Emit) -> None:
    """Emit {"settings"}, {"toolkits"}, {"linker"}, {"directories"} and {"environments"}, lists of what shapes.py has.

    prefixes are Python environments, home is the user's, searched are the directories of processes' LD_LIBRARY_PATH.
    """
    found = settings(node, home)
    emit({"settings": [asdict(one) for one in found]})
    emit({"toolkits": [asdict(one) for one in toolkits(node)]})
    for prefix in prefixes:
        emit({"environments": [asdict(environment(node, prefix, home))]})
    own = [part for one in found if one.name == "LD_LIBRARY_PATH" for part in directories(one.value)]
    unique = list(dict.fromkeys([*searched, *own]))[:_MOST_DIRECTORIES]
    emit({"directories": [asdict(SearchedDirectory(path, node.is_dir(path), within(node, path))) for path in unique]})
    emit({"linker": [asdict(one) for one in linker(node, node.start(["ldconfig", "-p"]).output() or "")]})


def directories(value: str) -> list[str]:
    """Return the directories that LD_LIBRARY_PATH names; parts that a shell computes are left out."""
    return [part.rstrip("/") for part in value.strip("\"'").split(":") if part.startswith("/") and "$" not in part]


def within(node: Node, directory: str) -> list[CudaLibrary]:
    """List the libraries in a directory; version is None where no name tells."""
    matches = filter(None, map(_FILE.match, node.names(directory)))
    paths = ((match, f"{directory}/{match[0]}") for match in matches)
    return [CudaLibrary(match[1], match[2], path, _version(node, path)) for match, path in paths]


def _version(node: Node, path: str) -> str | None:
    """Return the version in the name of the file to which a path leads."""
    version = _VERSION.search(posixpath.basename(node.resolve(path)))
    return version[1] if version else None


def linker(node: Node, linked: str) -> list[Linked]:
    """List the libraries that the linker finds without any variable; linked is what ``ldconfig -p`` printed."""
    return [
        Linked(
            library,
            posixpath.basename(path).rpartition(".")[2],
            path,
            _version(node, path),
            _beside(node, path, library) if path.startswith("/usr/local/") else [],
        )
        for library in LIBRARIES
        for path in paths(linked, f"lib{library}")
    ]


def _beside(node: Node, path: str, library: str) -> list[str]:
    """Return all files of a library where one of them lies, by the name of the directory that is no link."""
    directory = os.path.realpath(node.path(posixpath.dirname(path)))[len(str(node.root).rstrip("/")) :]
    names = (name for name in node.names(directory) if re.match(rf"lib{library}(?:_\w+)?\.(?:so|a)\b", name))
    return [f"{directory}/{name}" for name in names]


def toolkits(node: Node) -> list[Toolkit]:
    """List the CUDA toolkits of the facts."""
    return [
        Toolkit(**toolkit, own=node.exists(f"{prefix}/bin/cuda-uninstaller"), settings=settings_of(node, [prefix]))
        for toolkit in cuda.read(node)["toolkits"]
        for prefix in [toolkit["prefix"]]
    ]


def settings(node: Node, home: str | None) -> list[Setting]:
    """Find where sessions get VARIABLES from, in the order in which shells read."""
    files = [*SESSION_FILES, *(f"{PROFILES}/{name}" for name in node.names(PROFILES) if name.endswith(".sh"))]
    files += [f"{home}/{name}" for name in USER_FILES] if home else []
    found = []
    for file in files:
        for number, line in enumerate(node.text(file).splitlines(), 1):
            match = _SETTING.match(line)
            if match:
                value = match[2].split(";")[0].partition(" #")[0].strip().strip("\"'")
                found.append(Setting(match[1], value, file, number))
    return found


def environment(node: Node, prefix: str, home: str | None) -> PythonEnvironment:
    """Describe a Python environment: what it has of frameworks and NVIDIA's libraries, and whether it can compile."""
    python = _python(node, prefix)
    sites = _sites(prefix, python)
    config = node.text(f"{prefix}/pyvenv.cfg")
    base = re.search(r"^home\s*=\s*(\S+)", config, re.MULTILINE)
    included = posixpath.dirname(base[1]) if base else prefix
    user = f"{home}/.local/lib/{python}/site-packages" if home and python else None
    packages: dict[str, str] = {}
    libraries = within(node, f"{prefix}/lib") if prefix != "/usr" else []
    for site in sites:
        here = distributions(node, site)
        packages = {**here, **packages}
        libraries += wheels(node, site, here)
    isolated = bool(config) and "include-system-site-packages = true" not in config.lower()
    return PythonEnvironment(
        prefix=prefix,
        python=python,
        conda=node.is_dir(f"{prefix}/conda-meta"),
        packages=packages,
        torch_cuda=next(filter(None, (_torch_cuda(node, site) for site in sites)), None),
        libraries=libraries,
        user_site=user,
        user_packages=distributions(node, user) if user and not isolated else {},
        headers=node.exists(f"{included}/include/{python}/Python.h") if python else True,
    )


def _python(node: Node, prefix: str) -> str | None:
    """Return the Python of an environment, as its directory of packages calls it."""
    versions = [name for name in node.names(f"{prefix}/lib") if re.fullmatch(r"python3\.\d+", name)]
    own = [name for name in versions if node.is_dir(f"{prefix}/lib/{name}/site-packages")] or versions
    return own[-1] if own else None


def _sites(prefix: str, python: str | None) -> list[str]:
    """Return the directories of packages of an environment, the first first."""
    sites = [f"{prefix}/lib/{python}/{kind}-packages" for kind in ("site", "dist")] if python else []
    if prefix == "/usr":
        sites += [f"{prefix}/lib/python3/dist-packages", f"{prefix}/local/lib/{python}/dist-packages"]
    return sites


def distributions(node: Node, site: str) -> dict[str, str]:
    """Return the versions of frameworks and NVIDIA's wheels in a directory of packages, by their names with dashes."""
    return {name: version for name, version in of_wheels(node.names(site)).items() if _KNOWN.match(name)}


def wheels(node: Node, site: str, packages: dict[str, str]) -> list[CudaLibrary]:
    """List the libraries of NVIDIA's wheels and of PyTorch's own directory; a wheel tells its library's version."""
    found = within(node, f"{site}/torch/lib")
    for part in node.names(f"{site}/nvidia"):
        for one in within(node, f"{site}/nvidia/{part}/lib"):
            name = f"nvidia-{part.replace('_', '-')}"
            version = next((value for key, value in packages.items() if key.startswith(name)), None)
            found.append(replace(one, version=one.version or version))
    return found


def _torch_cuda(node: Node, site: str) -> str | None:
    """Return the CUDA that a PyTorch was built for, "None" where it was built without."""
    match = _TORCH_CUDA.search(node.text(f"{site}/torch/version.py"))
    return match[1] if match else None
