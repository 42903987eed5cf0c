"""List what the registries have and the catalog does not: Python packages, Debian's archive, NVIDIA's repositories.

pip is asked as it is set up here, APT by its lists, and NVIDIA's repositories at the addresses of the catalog. What
cannot be reached is said, and not taken for an answer. Then uv resolves every framework x CUDA x Python cell of the
catalog and its package sets, which takes minutes; one that is not as the catalog says ends the check with 1.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "unit")]
import conftest  # noqa: F401  it makes this checkout importable as a collection

# isort: split
import catalog_cells
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import branch_of, version_key

if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS = 60
OPEN_MODULES = "https://github.com/NVIDIA/open-gpu-kernel-modules"
FRAMEWORKS = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}
LIBRARIES = {
    "cudnn": ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13"),
    "nccl": ("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
    "tensorrt": ("tensorrt-cu12", "tensorrt-cu13"),
}


@dataclass
class Report:
    """What was found, and what could not be asked."""

    news: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)

    def add(self, where: str, known: Iterable[str], found: Iterable[str] | None) -> None:
        """Note what is newer than all that is known; found is None where nobody answered."""
        if found is None:
            self.unreached.append(where)
        else:
            newer = newer_than(known, found)
            self.news += [f"{where}: {', '.join(newer)}"] if newer else []


def newer_than(known: Iterable[str], found: Iterable[str]) -> list[str]:
    """Return the versions that are newer than all known ones, the newest first.

    Numbers that the newest known one does not have, such as a build's, do not make a version newer.
    """
    last = max((version_key(version) for version in known), default=())
    news = {version for version in found if not last or version_key(version)[: len(last)] > last}
    return sorted(news, key=version_key, reverse=True)


def of_pip(output: str) -> list[str]:
    """Read what `pip index versions` prints; pre-releases and local builds are left out."""
    line = re.search(r"^Available versions: (.*)$", output, re.MULTILINE)
    return [version for version in (line.group(1).split(", ") if line else ()) if re.fullmatch(r"[\d.]+", version)]


def of_madison(output: str) -> list[str]:
    """Read the upstream versions that `apt-cache madison` prints."""
    versions = [line.split("|")[1].strip() for line in output.splitlines() if line.count("|") > 1]
    return [re.sub(r"^\d+:|[-+~].*", "", version) for version in versions]


def of_tags(output: str) -> list[str]:
    """Read the releases that `git ls-remote --tags` prints."""
    return re.findall(r"refs/tags/(\d{3}(?:\.\d+)+)$", output, re.MULTILINE)


def of_repository(index: str) -> tuple[list[str], list[str]]:
    """Read the drivers and the CUDA toolkits out of NVIDIA's list of packages."""
    drivers = re.findall(r"^Package: nvidia-driver-pinning-(\d{3}(?:\.\d+)+)$", index, re.MULTILINE)
    toolkits = re.findall(r"^Package: cuda-toolkit-(\d+)-(\d+)$", index, re.MULTILINE)
    return drivers, [f"{major}.{minor}" for major, minor in toolkits]


def ask(*command: str) -> str | None:
    """Run a program; None where it does not answer."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout if run.returncode == 0 and run.stdout else None


def on_pip(package: str, *pythons: str) -> list[str] | None:
    """Return the versions of a package on the index that pip uses here, for this Python and for others."""
    command = (sys.executable, "-m", "pip", "index", "versions", package)
    others = [(*command, "--only-binary=:all:", "--python-version", python) for python in pythons]
    outputs = [output for one in (command, *others) if (output := ask(*one))]
    return [version for output in outputs for version in of_pip(output)] if outputs else None


def fetched(url: str) -> str | None:
    """Return the list of packages of a repository; None where it cannot be had."""
    try:
        with urllib.request.urlopen(f"{url}Packages.gz", timeout=SECONDS) as answer:  # noqa: S310  an address of the catalog
            return gzip.decompress(answer.read()).decode()
    except (OSError, EOFError, ValueError):
        return None


def ask_pip(known: catalog.Catalog, report: Report) -> None:
    """Compare toolkits, libraries, frameworks and uv."""
    found = on_pip("cuda-toolkit")
    minors = None if found is None else {".".join(version.split(".")[:2]) for version in found}
    report.add("CUDA toolkits (pip: cuda-toolkit)", known.toolkits, minors)
    releases = [record["release"] for record in known.cuda_wheels.values()]
    report.add("CUDA toolkits of wheels (pip: cuda-toolkit)", releases, found)
    for library, names in LIBRARIES.items():
        versions = [release["to"] for release in known.libraries[library]["releases"]]
        for name in names:
            report.add(f"{library} (pip: {name})", versions, on_pip(name))
    for framework, name in FRAMEWORKS.items():
        releases = known.frameworks[framework]
        newest_python = max((release["python"]["max"] for release in releases.values()), key=version_key)
        report.add(f"{framework} (pip: {name})", releases, on_pip(name, newest_python))
    report.add("uv (pip: uv)", [known.uv["version"]], on_pip("uv"))


def ask_apt(known: catalog.Catalog, report: Report) -> None:
    """Compare what this machine's distribution carries, where the catalog has the distribution."""
    release = dict(
        re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE)
    )
    platform = known.platform(release.get("ID", ""), release.get("VERSION_ID", ""))
    if platform is None or platform["family"] != "debian":
        report.unreached.append("APT's lists (this system is not one of the catalog's with APT)")
        return
    record = platform["driver_sources"].get("distribution", {"package_sets": []})
    for names in record["package_sets"]:
        for flavour, version in names.get("newest", {}).items():
            package = names["kernel_package"][flavour]
            _ask_madison(report, f"{platform['name']}: {package}", package, [version])
    if "cuda_toolkit" in platform:
        _ask_madison(report, f"{platform['name']}: CUDA", "nvidia-cuda-toolkit", [platform["cuda_toolkit"]["version"]])
    for engine in known.container_toolkit["engines"].values():
        here = engine["distribution"].get(platform["id"])
        if here:
            _ask_madison(report, f"{platform['name']}: {here['packages'][0]}", here["packages"][0], [here["version"]])


def _ask_madison(report: Report, where: str, package: str, known: list[str]) -> None:
    output = ask("apt-cache", "madison", package)
    report.add(f"{where} (APT)", known, of_madison(output) if output else None)


def ask_nvidia(known: catalog.Catalog, report: Report) -> None:
    """Compare the drivers and toolkits of NVIDIA's repositories, as far as they can be reached from here."""
    for repository in known.repositories.values():
        if "driver_packages" not in repository:  # of APT, and with a driver in it
            continue
        for name in repository["architectures"].values():
            _ask_repository(known, report, f"{repository['id']}, {name}", repository["url"].format(architecture=name))


def _ask_repository(known: catalog.Catalog, report: Report, where: str, url: str) -> None:
    index = fetched(url)
    drivers, toolkits = of_repository(index) if index else (None, None)
    report.add(f"CUDA toolkits ({where})", known.toolkits, toolkits)
    if drivers is None:
        report.unreached.append(f"drivers ({where})")
        return
    for branch in sorted({branch_of(version) for version in drivers}):
        latest = known.branches.get(branch, {}).get("latest")
        of_branch = [version for version in drivers if branch_of(version) == branch]
        report.add(f"driver branch {branch} ({where})", [latest] if latest else [], of_branch)


def ask_boards(known: catalog.Catalog, report: Report) -> None:
    """Compare the lists of boards that boards.yml was written from: the open modules' releases, Debian's driver."""
    sources = known.read("boards")["sources"]
    tags = ask("git", "ls-remote", "--tags", OPEN_MODULES)
    of_modules = re.findall(r"\d{3}(?:\.\d+)+", sources["ogkm"])
    report.add("boards (open kernel modules)", of_modules, of_tags(tags) if tags else None)
    of_driver = re.findall(r"\d{3}(?:\.\d+)+", sources["supported-gpus"])
    _ask_madison(report, "boards: nvidia-driver", "nvidia-driver", of_driver)


def main() -> None:
    """Ask them all, and print what is new and who did not answer."""
    known, report = catalog.load(), Report()
    for question in (ask_pip, ask_apt, ask_nvidia, ask_boards):
        question(known, report)
    print("Newer than the catalog:", *(f"  {line}" for line in report.news or ["nothing that was found"]), sep="\n")
    print("Not reached, so not compared:", *(f"  {line}" for line in report.unreached or ["nothing"]), sep="\n")
    print("Asking for every framework x CUDA x Python cell takes minutes.", flush=True)
    faults, count, unanswered = catalog_cells.compare(known)
    print(f"Not as the catalog says, of {count} cells, of which {unanswered} were not reached:")
    print(*(f"  {line}" for line in faults or ["nothing that was found"]), sep="\n")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
