# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.installer_media: plan from captures, and write installation media; no node is connected to.

Each host is planned by itself, so that what stands against one does not stop the others. The media of all of them are
then written at once; the plans are made again for that, so that no secret is in a result, a fact or a log.
"""

from __future__ import annotations

import getpass
import socket
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils import distro
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.processors import AMD64
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import encodable
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import cipher_of
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import image, media, media_parts, mirror
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import installation, obstacles, planned
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import Wishes
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import Captured, Installer

IMAGE, DISTRIBUTION = "image", "distribution"
ARGUMENTS: dict[str, Any] = {
    "work": {"type": "str", "choices": ["plan", "write"], "required": True},
    "captures": {"type": "path", "default": "captures"},
    "age_identity": {"type": "path"},
    "unsigned": {"type": "str"},
    "system": {"type": "str"},
    "mirror": {"type": "str"},
    "security_mirror": {"type": "str"},
    "packages": {"type": "list", "elements": "str", "default": []},
    "network_files": {"type": "list", "elements": "path", "default": []},
    "minutes": {"type": "int", "default": 15},
    "allow": {"type": "list", "elements": "str", "default": []},
    "installer": {"type": "str", "choices": [IMAGE, DISTRIBUTION], "default": IMAGE},
    "netboot": {"type": "path"},
    "secrets": {"type": "bool", "default": True},
    "confirmed": {"type": "raw"},
    "hosts": {"type": "list", "elements": "raw", "default": []},
    "directory": {"type": "path", "default": "media"},
}
_OF_A_HOST = tuple(name for name in ARGUMENTS if name not in {"work", "confirmed", "hosts", "directory"})


class ActionModule(ActionBase):
    """Plan one host, or write the media of several."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the plan or what was written, or the refusal."""
        super().run(tmp, task_vars)
        self._variables = task_vars or {}
        _validated, args = self.validate_argument_spec(ARGUMENTS)
        try:
            found = self.plan(args) if args["work"] == "plan" else self.write(args)
        except Refusal as refusal:
            return failure([refusal])
        return {"changed": False, **encodable(found)}

    def plan(self, args: dict[str, Any]) -> dict[str, Any]:
        """Say what the media would do to this host, and what stands against it."""
        host = self._variables["inventory_hostname"]
        confirmed = args["confirmed"]
        blockers = obstacles.unconfirmed(host, confirmed, args["hosts"]) if confirmed else []
        settings = {name: args[name] for name in _OF_A_HOST}
        settings |= {"host": host, "user": self._user(), "server": self._server(), "unattended": bool(confirmed)}
        made = _planned(settings)
        blockers = [*made.blockers, *blockers]
        if not blockers:
            media.check_programs()
            if made.image:
                media.check_loaders(host, made.image.sbat_level)
            if args["installer"] == DISTRIBUTION:
                _of_distribution(settings, made)
                _check_mirror(settings, made)
        lines = [*_from(made), *made.lines, *(f"LOST {one}" for one in made.lost), *_secure_boot(settings, made)]
        image_of = asdict(made.image) if made.image and args["installer"] == IMAGE else None
        refusals = [asdict(one) for one in blockers]
        return {"lines": lines, "refusals": refusals, "image": image_of, "settings": settings}

    def write(self, args: dict[str, Any]) -> dict[str, Any]:
        """Write the media of all hosts; in check mode, say whether they would change."""
        directory = Path(args["directory"])
        wanted = _media(args["hosts"])
        if wanted is None:
            changed = True
        elif self._task.check_mode:
            changed = not media.is_current(directory, wanted)
        else:
            changed = media.write(directory, wanted)
        hosts = [one["host"] for one in args["hosts"]]
        lines = [f"{directory.absolute()}: media for {', '.join(hosts)}; README.txt there says how to use them"]
        if any(one["secrets"] for one in args["hosts"]):
            lines.append("They hold private host keys and hashes of passwords: keep them like a key to the machines")
        return {"changed": changed, "path": str(directory.absolute()), "lines": lines}

    def _user(self) -> str:
        """Return who Ansible will connect as."""
        return str(self._variables.get("ansible_user") or self._play_context.remote_user or getpass.getuser())

    def _server(self) -> str:
        """Return the address that Ansible will connect to; nothing where nobody knows it."""
        name = str(self._variables.get("ansible_host") or self._variables["inventory_hostname"])
        try:
            return str(socket.getaddrinfo(name, None, proto=socket.IPPROTO_TCP)[0][4][0])
        except OSError:
            return ""


def _captured(settings: Mapping[str, Any]) -> Captured:
    host = settings["host"]
    place = captures.place(Path(settings["captures"]), host)
    capture = captures.latest(place, settings["unsigned"])
    if capture is None:
        raise refuse("R001", host=host, what="capture", path=place)
    capture.verify()
    return planned.captured(capture, capture.secrets(cipher_of(host, capture.archive.name, settings["age_identity"])))


def _from(made: installation.Installation) -> list[str]:
    """Say what the media bring back: unlike playbooks/reinstall.yml, they do not capture the node again."""
    if not made.plan:
        return []
    return [f"FROM the capture of {made.plan['made']}: what changed on the system disk since then is lost"]


def _secure_boot(settings: Mapping[str, Any], made: installation.Installation) -> list[str]:
    """Say where Secure Boot does not accept the media: their boot loader is that of the controller's distribution."""
    here = distro.id()
    if made.image is None or _captured(settings).manifest.sections.boot.secure_boot != "enabled":
        return []
    system = made.image.system
    if here == system.partition("-")[0] or not system.startswith(("debian-", "ubuntu-")):
        return []
    return [f"NOTE Secure Boot is on, and the media have the boot loader of {here}: switch it off to install {system}"]


def _planned(settings: Mapping[str, Any]) -> installation.Installation:
    captured = _captured(settings)
    architecture = captured.manifest.machine.system.architecture
    if architecture != AMD64:
        way = "Run the playbook reinstall while the node still answers, or install"
        raise refuse("R010", host=settings["host"], system=f"{architecture}: media are for {AMD64} only", way=way)
    records = planned.installers()
    if settings["installer"] == DISTRIBUTION:
        records = [*records, *media_parts.WITHOUT_IMAGE]
    wishes = Wishes(
        settings["system"],
        settings["mirror"],
        settings["security_mirror"],
        tuple(settings["packages"]),
        settings["minutes"],
        planned.network_files(settings["host"], settings["network_files"]),
        tuple(settings["allow"]),
    )
    found = planned.found_in(captured, settings["user"], settings["server"])
    return installation.plan(captured, found, wishes, records)


def _ready(settings: Mapping[str, Any], made: installation.Installation) -> media_parts.Ready:
    if made.plan is None:
        raise AssertionError  # without a plan there are blockers
    ready = media_parts.Ready(file_name(settings["host"]), made.plan, made.files, settings["unattended"])
    if settings["secrets"]:
        return ready
    return ready.without_secrets(one.path for one in _captured(settings).manifest.sections.ssh.host_keys)


def _of_distribution(settings: Mapping[str, Any], made: installation.Installation) -> media.Part | media.Volume:
    if made.image is None or made.image.mirror is None:
        raise AssertionError  # as above
    ready, system, address = _ready(settings, made), made.image.system, made.image.mirror
    if not system.startswith("debian-"):
        return media_parts.of_others(ready, system, address)
    return media_parts.of_debian(ready, _record(system), address, media_parts.netboot(system, settings["netboot"]))


def _check_mirror(settings: Mapping[str, Any], made: installation.Installation) -> None:
    """Ask the mirror for what Debian's installer will ask for. Raises Refusal R050 to R052."""
    if made.image is None or made.image.mirror is None:
        raise AssertionError  # as above
    system = made.image.system
    if system.startswith("debian-"):
        kernel, _initrd = media_parts.netboot(system, settings["netboot"])
        mirror.check(made.image.mirror, _record(system).codename, mirror.kernel_version(kernel))


def _record(system: str) -> Installer:
    return next(one for one in planned.installers() if one.system == system)


def _media(hosts: list[dict[str, Any]]) -> media.Media | None:
    """Return the media of hosts; None where an image is not made yet, as in check mode. Raises Refusal."""
    parts, volumes = [], []
    for settings in hosts:
        made = _planned(settings)
        if made.blockers:  # the capture is another one since the host was planned
            raise made.blockers[0]
        if settings["installer"] == DISTRIBUTION:
            part = _of_distribution(settings, made)
        elif Path(settings["image"]).is_dir():
            part = media_parts.of_image(_ready(settings, made), image.read(Path(settings["image"])))
        else:
            return None
        if isinstance(part, media.Volume):
            volumes.append(part)
        else:
            parts.append(part)
    return media.Media(parts, volumes, any(one["secrets"] for one in hosts))
