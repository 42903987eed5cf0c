# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store of images of work: one folder for each digest, which people may read and nobody but root may write.

DIRECTORY/sha256-DIGEST/rootfs/      the image, unpacked
DIRECTORY/sha256-DIGEST/image.json   what it is, written last
DIRECTORY/NAME                       a link to a folder
DIRECTORY/.new/                      what comes

An image is unpacked by APT's account for what comes from elsewhere, who can make no device and own no file of others.
Nothing of it has another owner, or rights of its owner's, once people see it.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.containers.work_images import (
    REGISTRY,
    SKOPEO,
    Parts,
    WorkImage,
    blob,
    layout,
)
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath, locks, records
from ansible_collections.gpulab.node.plugins.module_utils.core.files import free_bytes, make_directory
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.work_images import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

RECORD = Path("/var/lib/gpulab/work-images.json")
LOST = "Remove it: the next run writes another one"
CH_RUN, UNPACKER = "/usr/bin/ch-run", "_apt"
AS_NOBODY = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
SPARE = 64 << 20  # bytes that have to stay free
START_SECONDS = 20
FOLDER = re.compile(r"sha256-[0-9a-f]{64}")
# What ch-run mounts over; /.gpulab/host is for the directories of the driver's libraries (roles/work_images/files).
MOUNTED_OVER = ("dev", "proc", "sys", "tmp", "etc", "home", "srv", "scratch", "data", "mnt")
HOSTS = tuple(f".gpulab/host/{number}" for number in range(8))
FILES = ("etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf")


@dataclass
class Kept:
    """An image that the store holds by the inventory."""

    name: str
    digest: str
    driver: str
    test: str


@dataclass
class Record:
    """What gpulab keeps of the store beside it; work-run reads it, too."""

    directory: str = ""
    images: list[Kept] = field(default_factory=list)


def read_record(path: Path | None = None) -> Record:
    """Return the record; an empty one where there is none. Raises Refusal H220."""
    return records.read(path or RECORD, Record, Record(), LOST)


def problem(directory: Path, folder: str) -> str:
    """Return what of an image is not as it has to be, as far as one look tells; empty where all is."""
    top = directory / folder
    for path in (top, top / "rootfs"):
        try:
            status = path.lstat()
        except OSError:
            return f"{path} is gone"
        if not (stat.S_ISDIR(status.st_mode) and beneath.is_roots(status)):
            return f"{path} is not root's alone"
    return "" if (top / "image.json").is_file() else f"{top}/image.json is gone"


def start(rootfs: Path, test: str, seconds: float = START_SECONDS) -> str:
    """Start a program in an image as nobody, without a GPU; return what goes wrong, empty where nothing does."""
    environment = {"USER": "nobody", "HOME": "/", "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    argv = [*(AS_NOBODY if os.geteuid() == 0 else ()), CH_RUN, "--private-tmp", str(rootfs), "--", test]
    try:
        run = subprocess.run(
            argv, env=environment, capture_output=True, timeout=seconds, check=False, cwd="/", stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        return one_line(str(error))
    lines = run.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if run.returncode == 0 else one_line(lines[-1] if lines else f"{test} ends with {run.returncode}")


def give(image: WorkImage, rootfs: Path) -> None:
    """Let all of a tree be root's, for everybody to read, without rights of an owner's. Raises Refusal K011."""
    unpacker, given = pwd.getpwnam(UNPACKER).pw_uid, set()
    for directory, names, files in os.walk(rootfs):
        for path in (Path(directory), *(Path(directory, name) for name in (*names, *files))):
            status = path.lstat()
            if status.st_uid != unpacker and (status.st_dev, status.st_ino) not in given:
                raise refuse("K011", name=image.name, detail=f"{path} belongs to somebody else")
            given.add((status.st_dev, status.st_ino))
            os.chown(path, 0, 0, follow_symlinks=False)
            if not stat.S_ISLNK(status.st_mode):
                runs = 0o111 if stat.S_ISDIR(status.st_mode) or status.st_mode & 0o111 else 0
                path.chmod(status.st_mode & 0o755 | 0o444 | runs)


class WorkStore:
    """The store in a directory."""

    def __init__(self, directory: Path) -> None:
        """Read nothing yet."""
        self.directory = directory
        self.new = directory / ".new"

    def check_place(self) -> None:
        """Raise Refusal K013 where others than root may change names on the way to the store."""
        lent = beneath.lent(self.directory)
        if lent is not None:
            raise refuse("K013", problem=f"others than root may change names in {lent}")

    def has(self, image: WorkImage) -> bool:
        """Tell whether an image is there."""
        return not problem(self.directory, image.folder)

    def leads(self, image: WorkImage) -> bool:
        """Tell whether the name of an image leads to it."""
        link = self.directory / image.name
        return link.is_symlink() and os.readlink(link) == image.folder  # noqa: PTH115 - a text

    def names(self) -> dict[str, str]:
        """Return the folders to which names lead."""
        if not self.directory.is_dir():
            return {}
        links = {path.name: os.readlink(path) for path in self.directory.iterdir() if path.is_symlink()}  # noqa: PTH115
        return {name: folder for name, folder in sorted(links.items()) if FOLDER.fullmatch(folder)}

    def folders(self) -> list[str]:
        """Return the folders that are there."""
        found = self.directory.iterdir() if self.directory.is_dir() else ()
        return sorted(path.name for path in found if FOLDER.fullmatch(path.name))

    def check_space(self, needed: int) -> None:
        """Raise Refusal K005 where the disk has not so many bytes for what comes."""
        free = free_bytes(self.directory)
        if needed + SPARE > free:
            raise self.full(needed + SPARE, free)

    def full(self, needed: int, free: int) -> Refusal:
        """Return Refusal K005; needed is 0 where only the disk itself said so."""
        shown = f"{needed / 1e9:.1f} GB" if needed else "more bytes"
        return refuse("K005", needed=shown, directory=self.directory, free=f"{free / 1e9:.1f} GB")

    # what comes

    def prepare(self, image: WorkImage, found: Parts) -> list[str]:
        """Write what brings and unpacks an image, in place of what an earlier run has left; return its argv."""
        self.drop_new()
        make_directory(self.directory)
        self.new.mkdir(mode=0o711)
        for name, text in layout(found).items():
            make_directory((self.new / "layout" / name).parent)
            (self.new / "small" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.new / "small" / name).write_text(text, encoding="utf-8")
        bundle = self.new / "bundle"
        bundle.mkdir()
        bundle.chmod(0o700)
        owner = pwd.getpwnam(UNPACKER)
        os.chown(bundle, owner.pw_uid, owner.pw_gid)
        sums = "".join(f"{digest.split(':')[1]}  {digest.split(':')[1]}\n" for digest in found.digests)
        (self.new / "sums").write_text(sums, encoding="utf-8")
        told = {"digest": image.digest, "architecture": found.architecture, "environment": found.environment}
        text = json.dumps({**told, "directory": found.directory}, indent=1)
        (self.new / "image.json").write_text(text, encoding="utf-8")
        script = self.new / "script"
        script.write_text(self._script(image, found), encoding="utf-8")
        return ["/bin/sh", str(script)]

    def _script(self, image: WorkImage, found: Parts) -> str:
        """Return the shell script that brings, compares and unpacks an image."""
        new, blobs = shlex.quote(str(self.new)), shlex.quote(f"{self.new}/layout/blobs/sha256")
        if image.source.startswith(REGISTRY):
            come = [
                f"{SKOPEO} copy --preserve-digests {image.source}@{found.manifest} dir:{self.new}/layout/blobs/sha256"
            ]
        else:
            places = [shlex.quote(str(blob(image.source, digest))) for digest in found.digests]
            come = [f"cp --dereference -- {place} {blobs}" for place in places]
        rootless = f"setpriv --reuid={UNPACKER} --regid={pwd.getpwnam(UNPACKER).pw_gid} --clear-groups --no-new-privs"
        over = " ".join((*MOUNTED_OVER, *HOSTS))
        return "\n".join(
            [
                "set -e",
                "umask 022",
                *come,
                f"(cd {blobs} && sha256sum --check --quiet {new}/sums)",
                f"cp -r {new}/small/. {new}/layout/",
                f"cd {new}/bundle",
                f"export HOME={new}/bundle",
                f"{rootless} umoci unpack --rootless --image {new}/layout:image {new}/bundle/image",
                f"cd {new}/bundle/image/rootfs",
                f"{rootless} sh -c 'mkdir -p {over} && touch -a {' '.join(FILES)}'",
                f"rm -r {new}/layout",
                "",
            ]
        )

    def seal(self, image: WorkImage) -> None:
        """Give what was unpacked to root, try it and show it; nothing else stays. Raises Refusal K011 and K012."""
        try:
            self._seal(image)
        finally:
            self.drop_new()

    def _seal(self, image: WorkImage) -> None:
        self.new.chmod(0o700)  # who unpacked it comes there no more
        made, rootfs = self.new / "bundle/image", self.new / image.folder / "rootfs"
        give(image, made / "rootfs")
        rootfs.parent.mkdir()
        (made / "rootfs").replace(rootfs)
        rootfs.parent.chmod(0o755)
        self.new.chmod(0o755)
        wrong = start(rootfs, image.test)
        if wrong:
            raise refuse("K012", name=image.name, detail=wrong)
        (self.new / "image.json").replace(rootfs.parent / "image.json")
        os.sync()
        if (self.directory / image.folder).exists():  # a damaged one, of which nothing is used by name
            (self.directory / image.folder).replace(self.new / "former")
        rootfs.parent.replace(self.directory / image.folder)

    def drop_new(self) -> None:
        """Remove what an earlier run has left."""
        if self.new.is_dir():
            shutil.rmtree(self.new)

    def link(self, image: WorkImage) -> None:
        """Let the name of an image lead to it."""
        draft = self.directory / ".link"
        draft.unlink(missing_ok=True)
        draft.symlink_to(image.folder)
        draft.replace(self.directory / image.name)

    # what goes

    def users(self, folder: str, proc: Path = Path("/proc")) -> list[str]:
        """Return who runs programs in an image."""
        try:
            top = (self.directory / folder / "rootfs").stat()
        except OSError:
            return []
        found = []
        for process in (one for one in proc.iterdir() if one.name.isdigit()):
            try:
                root = (process / "root").stat()
            except OSError:  # it ended meanwhile
                continue
            if (root.st_dev, root.st_ino) == (top.st_dev, top.st_ino):
                who = locks.holder(process, self.directory / folder)
                found.append(f"process {who.pid} ({who.command[: locks.COMMAND_LENGTH]}, user {who.user})")
        return found

    def check_use(self, name: str, folder: str) -> None:
        """Raise Refusal K007 where somebody runs programs in an image."""
        users = self.users(folder)
        if users:
            raise refuse("K007", name=name, holders="; ".join(users))

    def remove(self, name: str) -> None:
        """Remove the name of an image."""
        (self.directory / name).unlink(missing_ok=True)

    def tidy(self) -> list[str]:
        """Remove the images that no name leads to any more, but for those in use; return these."""
        used = set(self.names().values())
        stays = []
        for folder in self.folders():
            if folder in used:
                continue
            if self.users(folder):
                stays.append(folder)
                continue
            self.drop_new()
            (self.directory / folder).replace(self.new)  # a kill leaves no half image at its name
            self.drop_new()
        return stays


def record_of(store: WorkStore, images: list[WorkImage]) -> Record:
    """Return the record that says that a store holds these images."""
    return Record(str(store.directory), [Kept(one.name, one.digest, one.driver, one.test) for one in images])


def keep(store: WorkStore, images: list[WorkImage]) -> None:
    """Write down what the store holds now, for the proof and for work-run."""
    record = record_of(store, images)
    records.keep(RECORD, asdict(record) if images or store.names() else None)
