"""A real race: while a home comes back, a process of its owner swaps what appears there for links to root's files."""

import hashlib
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import files_host
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import Asked

from unit import swaps
from unit.filled import typed

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")]
TIMES = 20
DATA = b"/home/wei/evil.so\n"
HOME = "home/wei"
# What comes back, and where the person's links lead instead.
DIRECTORIES = {"x": "etc", "y": "etc", "y/cron.d": "etc/cron.d", ".ssh": "etc"}
FILES = {**{f"x/{number:02}": "etc/shadow" for number in range(12)}, "x/ld.so.preload": "etc/ld.so.preload"}
FILES |= {"shadow": "etc/shadow", "y/zz": "etc/shadow", ".ssh/authorized_keys": "etc/shadow"}


def entries():
    common = {"owner": "wei", "uid": swaps.WEI, "group": "wei", "gid": swaps.WEI}
    for name in DIRECTORIES:
        yield {"path": f"/{HOME}/{name}", "kind": "directory", "mode": "0777", "size": 0, **common}
    for name in FILES:
        file = {"size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
        yield {"path": f"/{HOME}/{name}", "kind": "file", "mode": "0666", **file, **common}


def race(victims):
    """Swap what appears below the present directory for a link, and swap it back, until somebody ends this."""
    os.setgroups([])
    os.setgid(swaps.WEI)
    os.setuid(swaps.WEI)
    targets = list({**DIRECTORIES, **FILES}.items())
    while True:
        name, target = random.choice(targets)  # noqa: S311 - any will do
        try:
            aside = Path(name).rename(f"{name}.old")
            Path(name).symlink_to(victims / target)
            time.sleep(random.random() / 2000)  # noqa: S311
            Path(name).unlink()
            aside.rename(name)
        except OSError:
            pass


@pytest.mark.parametrize("number", range(TIMES))
def test_no_race_is_won(tmp_path, number):
    root, state = tmp_path / "root", tmp_path / f"state{number}"
    (root / HOME).mkdir(parents=True)
    os.chown(root / HOME, swaps.WEI, swaps.WEI)
    for name, text in (("os-release", "ID=debian\n"), ("passwd", f"wei:x:{swaps.WEI}:{swaps.WEI}::/{HOME}:/bin/sh\n")):
        (root / "etc").mkdir(exist_ok=True)
        (root / "etc" / name).write_text(text)
    victims = swaps.Victims(root / "victims")
    (state / "content").mkdir(parents=True)
    (state / "content" / hashlib.sha256(DATA).hexdigest()).write_bytes(DATA)
    at_home = os.open(root / HOME, os.O_RDONLY)
    racing = os.fork()
    if not racing:
        os.fchdir(at_home)
        tmp_path.chmod(0o755)
        race(root / "victims")
    try:
        asked = typed({"host": "n", "user": "root", "entries": list(entries())}, Asked)
        found = files_host.restore(Node(root), asked, check=False, state=state)
    finally:
        os.kill(racing, signal.SIGKILL)
        os.waitpid(racing, 0)
        os.close(at_home)
    assert victims.changed(root) == []
    named = {one["name"] for one in found["missing"]}
    whys = {one["why"] for one in found["missing"]}
    assert named <= {one["path"] for one in entries()}
    assert all("changed while" in why or "cannot be written" in why for why in whys), whys
    shutil.rmtree(tmp_path)
