# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog: what works with what, read from the YAML files of C(catalog/) and looked up by name.

A file is read when it is first asked for, and once per process.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import boards

ROOT = Path(__file__).parents[3] / "catalog"

Record = dict[str, Any]

# What an error text is: the cause, what only follows from another one, or nothing that needs to be done
CAUSE, FOLLOWS, HARMLESS = "cause", "follows", "harmless"

# libyaml reads ten times as fast, but is not built into every PyYAML
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Catalog:
    """The files of one catalog directory, indexed for the resolver."""

    def __init__(self, root: Path = ROOT) -> None:
        """Take the directory; nothing is read yet."""
        self.root = root
        self._files: dict[str, Record] = {}  # copies of this catalog share it

    def read(self, name: str) -> Record:
        """Read one file of the catalog, name without its ending."""
        if name not in self._files:
            text = (self.root / f"{name}.yml").read_text(encoding="utf-8")
            self._files[name] = yaml.load(text, LOADER)  # noqa: S506  LOADER is safe
        return self._files[name]

    def read_all(self) -> None:
        """Read every file of the catalog."""
        for path in (*self.root.glob("*.yml"), *self.root.glob("error_texts/*.yml")):
            self.read(path.relative_to(self.root).with_suffix("").as_posix())

    @cached_property
    def _gpus(self) -> Record:
        return self.read("gpus")

    @cached_property
    def _platforms(self) -> Record:
        return self.read("platforms")

    @cached_property
    def gpus(self) -> dict[str, Record]:
        """GPUs by PCI id, such as "10de:2330"."""
        return boards.records(self._gpus["architectures"], self.read("boards")["boards"], self._gpus["gpus"])

    @cached_property
    def architectures(self) -> dict[str, Record]:
        """What holds for a whole architecture, by its name."""
        return {
            record["architecture"]: {
                **record,
                "compute_capabilities": list(dict.fromkeys(chip["compute_capability"] for chip in record["chips"])),
            }
            for record in self._gpus["architectures"]
        }

    @cached_property
    def nvswitches(self) -> dict[str, Record]:
        """NVSwitches by PCI id."""
        return {record["pci_id"]: record for record in self._gpus["nvswitches"]}

    @cached_property
    def branches(self) -> dict[str, Record]:
        """Driver branches by their number as text, oldest first."""
        return {record["branch"]: record for record in self.read("driver_branches")["branches"]}

    @cached_property
    def platforms(self) -> dict[tuple[str, str], Record]:
        """Platforms by (distribution, version)."""
        return {(record["distribution"], record["version"]): record for record in self._platforms["platforms"]}

    @property
    def driver_packages(self) -> list[str]:
        """Names and globs of the packages that are held at the version of the driver."""
        return list(self._platforms["driver_packages"])

    @property
    def display_packages(self) -> list[str]:
        """Names and globs of the packages that a driver has for a display, whoever made it."""
        return list(self._platforms["display_packages"])

    @property
    def rdma_packages(self) -> dict[str, list[str]]:
        """Names of the packages for InfiniBand and RoCE, by the systems' family."""
        return {family: list(record["packages"]) for family, record in self._platforms["rdma_packages"].items()}

    @cached_property
    def repositories(self) -> dict[str, Record]:
        """Package repositories by id."""
        return {record["id"]: record for record in self._platforms["repositories"]}

    @cached_property
    def toolkits(self) -> dict[str, Record]:
        """CUDA toolkits by major.minor, oldest first."""
        return {record["cuda"]: record for record in self.read("cuda_toolkits")["toolkits"]}

    @cached_property
    def cuda_wheels(self) -> dict[str, Record]:
        """The toolkits that are made of NVIDIA's wheels, by major.minor, oldest first."""
        return {record["cuda"]: record for record in self.read("cuda_wheels")["toolkits"]}

    @cached_property
    def min_drivers(self) -> dict[str, str]:
        """The oldest driver that runs code of a CUDA major, by that major."""
        return {cuda.partition(".")[0]: record["min_driver"] for cuda, record in self.toolkits.items()}

    @cached_property
    def libraries(self) -> dict[str, Record]:
        """cuDNN, NCCL and TensorRT by name."""
        return {record["library"]: record for record in self.read("cuda_libraries")["libraries"]}

    @cached_property
    def container_toolkit(self) -> Record:
        """The NVIDIA Container Toolkit."""
        return self.read("container_toolkit")

    @cached_property
    def frameworks(self) -> dict[str, dict[str, Record]]:
        """Releases by framework and version, oldest first."""
        frameworks: dict[str, dict[str, Record]] = {}
        for record in self.read("frameworks")["releases"]:
            frameworks.setdefault(record["framework"], {})[record["version"]] = record
        return frameworks

    @cached_property
    def package_sets(self) -> dict[str, Record]:
        """Sets of Python packages by name."""
        return {record["name"]: record for record in self.read("package_sets")["sets"]}

    @cached_property
    def micromamba(self) -> Record:
        """micromamba, which makes conda environments."""
        return self.read("micromamba")

    @cached_property
    def uv(self) -> Record:
        """uv, which makes virtual environments."""
        return self.read("uv")

    @cached_property
    def recipes(self) -> list[Record]:
        """Wrong recipes, each with its pattern compiled."""
        return [
            {**record, "pattern": re.compile(record["pattern"], re.IGNORECASE)}
            for record in self.read("recipes")["recipes"]
        ]

    @cached_property
    def recipe_options(self) -> tuple[str, ...]:
        """The options in which a wrong recipe may stand."""
        return tuple(dict.fromkeys(place.partition(".")[0] for recipe in self.recipes for place in recipe["in"]))

    @cached_property
    def disk(self) -> list[Record]:
        """How much space what takes, and where."""
        return self.read("disk")["needs"]

    @cached_property
    def profiles(self) -> dict[str, Record]:
        """What is expected of a board, by its PCI id."""
        return boards.profiles(self.gpus, self.read("profiles")["profiles"])

    @cached_property
    def tuning(self) -> list[Record]:
        """What the host around the GPUs is tuned to."""
        return self.read("tuning")["settings"]

    @cached_property
    def kernel_values(self) -> list[Record]:
        """What values the kernel takes, by name or pattern."""
        return self.read("kernel_values")["values"]

    @cached_property
    def host_types(self) -> dict[str, Record]:
        """What each host type sets, by its name, which is that of a group."""
        return {record["name"]: record for record in self.read("host_types")["host_types"]}

    @cached_property
    def installers(self) -> dict[str, Record]:
        """What an installer is made of, by the id of the platform that it installs."""
        return {record["system"]: record for record in self.read("installers")["installers"]}

    @cached_property
    def known_issues(self) -> list[Record]:
        """Pairs of driver and kernel that are known not to work."""
        return self.read("known_issues")["issues"]

    @cached_property
    def error_texts(self) -> list[Record]:
        """Errors of the field's programs, each with its pattern compiled, its role, and its sources' addresses."""
        found = []
        for path in sorted((self.root / "error_texts").glob("*.yml")):
            document = self.read(f"error_texts/{path.stem}")
            for record in document["errors"]:
                forms = record["pattern"]
                pattern = re.compile(forms if isinstance(forms, str) else "|".join(forms), re.IGNORECASE | re.MULTILINE)
                sources = [document["sources"][source] for source in record["source"]]
                found.append({"role": CAUSE, **record, "pattern": pattern, "source": sources})
        return found

    def platform(self, distribution: str, version: str | None) -> Record | None:
        """Return the platform of an os-release id and version: ("rocky", "9.5") is that of RHEL 9.

        A rolling release, such as Debian's sid or Arch, has no version; gpulab has no platform for it.
        """
        distribution = self._platforms["same_as"].get(distribution, distribution)
        release = version or ""
        of_release = self.platforms.get((distribution, release))
        return of_release or self.platforms.get((distribution, release.partition(".")[0]))


@lru_cache(maxsize=1)
def load() -> Catalog:
    """Return the catalog this collection ships."""
    return Catalog()
