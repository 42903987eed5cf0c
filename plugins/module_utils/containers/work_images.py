# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of work as the inventory names them: which files one consists of, judged before the first of them comes.

A digest is that of a manifest, or of a list with one manifest for each architecture. All that is read here is compared
with the digest that leads to it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.processors import OF_IMAGES
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.work_images import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REGISTRY = "docker://"
MOST = 4 << 20  # bytes of a manifest or a configuration
SECONDS = 120
UNPACKED = 3  # times the size of a layer that is packed, at most as a rule
SKOPEO = "/usr/bin/skopeo"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_OCI = "application/vnd.oci.image."

Read = "Callable[[str], bytes]"  # from a digest to what has it


@dataclass(frozen=True)
class WorkImage:
    """An image of the inventory; driver is the least that it needs, test a program that shows that it starts."""

    name: str
    source: str
    digest: str
    driver: str
    test: str

    @property
    def folder(self) -> str:
        """Return the name of its directory in the store."""
        return self.digest.replace(":", "-")


@dataclass
class Parts:
    """The files of an image by digest and size in bytes, and what its configuration says."""

    manifest: str
    architecture: str
    layers: list[tuple[str, int, bool]]  # digest, size, whether it is packed
    config: tuple[str, int]
    environment: list[str]
    directory: str

    @property
    def digests(self) -> list[str]:
        """Return the digests of all files but the manifest."""
        return [self.config[0], *dict.fromkeys(digest for digest, _size, _packed in self.layers)]

    @property
    def space(self) -> int:
        """Return how many bytes are needed until it is unpacked."""
        return self.config[1] + sum(size * (1 + UNPACKED if packed else 2) for _digest, size, packed in self.layers)


def step_of(name: str) -> str:
    """Return the name of the step by which an image of this name, or pattern of names, comes."""
    return f"image-{name}"


def check(images: list[WorkImage], driver: str) -> None:
    """Raise Refusal K001, K003 or K013 for what the settings alone say; driver is the node's, empty without one."""
    names = [image.name for image in images]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise refuse("K013", problem=f"work_images_list names twice: {', '.join(twice)}")
    for image in images:
        if not DIGEST.fullmatch(image.digest):
            raise refuse("K001", name=image.name, digest=image.digest)
        if image.driver and not reaches(driver, image.driver):
            raise refuse("K003", name=image.name, needed=image.driver, driver=driver or "none")


def reaches(driver: str, least: str) -> bool:
    """Tell whether a driver is at least another one. Of one that is known by its branch alone, that counts."""
    have, needed = (tuple(int(part) for part in re.findall(r"\d+", text)) for text in (driver, least))
    return have >= needed[: len(have)] if len(have) == 1 else have >= needed


def parts(image: WorkImage, machine: str) -> Parts:
    """Return the files of an image for a machine, in the kernel's words. Raises Refusal K002, K009 and K011."""
    read = _registry(image) if image.source.startswith(REGISTRY) else _folder(image)
    architecture = OF_IMAGES.get(machine, machine)
    try:
        manifest, digest = _json(image, read(image.digest), image.digest), image.digest
        if "manifests" in manifest:
            digest = _child(image, manifest["manifests"], architecture)
            manifest = _json(image, read(digest), digest)
        config = manifest["config"]
        found = _json(image, read(f"config {digest} {config['digest']}"), config["digest"])
        if found["architecture"] != architecture:
            raise refuse("K002", name=image.name, architecture=architecture, others=found["architecture"])
        given = found.get("config") or {}
        layers = [(_digest(layer), int(layer["size"]), "gzip" in layer["mediaType"]) for layer in manifest["layers"]]
        return Parts(
            digest,
            architecture,
            layers,
            (_digest(config), int(config["size"])),
            [line for line in given.get("Env") or [] if line.isprintable()],
            given.get("WorkingDir") or "/",
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise refuse("K011", name=image.name, detail=f"its manifest cannot be read ({error!r})") from error


def layout(found: Parts) -> dict[str, str]:
    """Return the small files of an OCI layout of these parts, in which the image is called "image", by path.

    What a registry has may be in Docker's form, which umoci does not read: the manifest is rewritten.
    """
    layers = [
        {"mediaType": f"{_LAYER}{'+gzip' if packed else ''}", "digest": digest, "size": size}
        for digest, size, packed in found.layers
    ]
    config = {"mediaType": f"{_OCI}config.v1+json", "digest": found.config[0], "size": found.config[1]}
    kind = f"{_OCI}manifest.v1+json"
    text = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers})
    name = hashlib.sha256(text.encode()).hexdigest()
    manifest = {"mediaType": kind, "digest": f"sha256:{name}", "size": len(text)}
    manifest["annotations"] = {"org.opencontainers.image.ref.name": "image"}
    return {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}),
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [manifest]}),
        f"blobs/sha256/{name}": text,
    }


def _digest(described: dict[str, Any]) -> str:
    if not DIGEST.fullmatch(described["digest"]):
        message = f"{described['digest']!r} is no digest"
        raise ValueError(message)
    return str(described["digest"])


def _child(image: WorkImage, listed: list[dict[str, Any]], architecture: str) -> str:
    """Return the digest of a list's manifest for an architecture. Raises Refusal K002."""
    platforms = {one["platform"]["architecture"]: one for one in reversed(listed) if one["platform"]["os"] == "linux"}
    if architecture not in platforms:
        raise refuse("K002", name=image.name, architecture=architecture, others=", ".join(sorted(platforms)))
    return _digest(platforms[architecture])


def _json(image: WorkImage, data: bytes, digest: str) -> dict[str, Any]:
    """Return what data holds that has to have this digest. Raises Refusal K011."""
    found = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if found != digest:
        raise refuse("K011", name=image.name, detail=f"{digest} is wanted, and {found} came")
    value = json.loads(data)
    return value if isinstance(value, dict) else {}


def _folder(image: WorkImage) -> Callable[[str], bytes]:
    """Return what reads a file of an OCI layout."""

    def read(digest: str) -> bytes:
        path = blob(image.source, digest.rsplit(maxsplit=1)[-1])
        try:
            with path.open("rb") as stream:
                return stream.read(MOST)
        except OSError as error:
            detail = f"{path.name} is not in its blobs/sha256 ({error.strerror})"
            raise refuse("K009", name=image.name, source=image.source, detail=detail) from error

    return read


def blob(source: str, digest: str) -> Path:
    """Return where an OCI layout has what has a digest."""
    return Path(source, "blobs", *digest.split(":", 1))


def _registry(image: WorkImage) -> Callable[[str], bytes]:
    """Return what asks a registry; "config MANIFEST DIGEST" is the configuration that a manifest names."""

    def read(digest: str) -> bytes:
        options = ["--config"] if digest.startswith("config ") else []
        name = digest.split()[1] if options else digest
        argv = [SKOPEO, "inspect", "--raw", *options, f"{image.source}@{name}"]
        try:
            run = subprocess.run(argv, capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            raise refuse("K009", name=image.name, source=image.source, detail=str(error)) from error
        if run.returncode:
            detail = one_line((run.stderr.decode("utf-8", "replace").strip() or "no answer").splitlines()[-1])
            raise refuse("K009", name=image.name, source=image.source, detail=detail)
        return run.stdout[:MOST]

    return read
