"""pyinfra's deploy of what a node's receipts name: its files, packages, holds and enabled units; for run.py."""

import json
import os
from pathlib import Path

from pyinfra.operations import apt, files, server, systemd

STATE = Path(os.environ["GPULAB_STATE"])  # of run.py: state.json, and the content of files beside it
known = json.loads((STATE / "state.json").read_text())

for path, (content, mode) in known["files"].items():
    files.put(name=path, src=str(STATE / content), dest=path, user="root", group="root", mode=mode, _sudo=True)
apt.packages(name="packages", packages=known["packages"], present=True, no_recommends=True, _sudo=True)
server.shell(name="holds", commands=[f"apt-mark hold {' '.join(known['holds'])} >/dev/null"], _sudo=True)
for unit in known["units"]:
    systemd.service(name=unit, service=unit, enabled=True, running=None, _sudo=True)
