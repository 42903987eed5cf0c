"""Which captured files come back with packages and jobs; all others are the module restore's."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import software_files

APT = ["/etc/apt", "/etc/apt/sources.list", "/etc/apt/auth.conf.d/lab.conf"]
JOBS = [
    "/etc/crontab",
    "/etc/cron.d/weekly-report",
    "/etc/cron.daily/rotate-data",
    "/etc/anacrontab",
    "/etc/at.deny",
    "/var/spool/cron/crontabs/li",
    "/var/spool/at/spool",
    "/etc/systemd/system/lab-camera.service",
    "/etc/systemd/system/multi-user.target.wants/lab-camera.service",
    "/etc/systemd/user/sync.timer",
    "/usr/local/lib/systemd/system/a.service",
    "/usr/lib/systemd/system/a.service",
    "/var/lib/systemd/linger/li",
]
OTHERS = [
    "/etc/aptly.conf",
    "/etc/fstab",
    "/etc/cronyx",
    "/etc/systemd/journald.conf",
    "/etc/systemd/network/10-lan.network",
    "/home/li/.config/systemd/user/sync.service",
    "/usr/lib/systemd/network/80-lab.network",
]


@pytest.mark.parametrize("path", APT + JOBS)
def test_what_comes_back_with_the_software(path):
    assert software_files.is_of_software(path)
    assert software_files.of_apt({"path": path}) == (path in APT)
    assert software_files.of_jobs({"path": path}) == (path in JOBS)


@pytest.mark.parametrize("path", OTHERS)
def test_what_comes_back_with_all_other_files(path):
    assert not software_files.is_of_software(path)
