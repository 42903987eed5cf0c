"""The nouveau role, seen from the node."""

import re

KERNEL = "ls /lib/modules | grep cloud"


def test_nouveau_does_not_load_even_when_asked_for(host):
    show = host.run(f"modprobe --show-depends --set-version $({KERNEL}) nouveau")
    assert "insmod" not in show.stdout


def test_the_blacklist_reaches_modprobe(host):
    config = host.check_output("modprobe --showconfig")
    for module in ("nouveau", "nova_core", "nova_drm"):
        assert re.search(rf"^blacklist {module}$", config, re.MULTILINE)
        assert re.search(rf"^install {module} /bin/false$", config, re.MULTILINE)
    assert "options nouveau modeset=0" in config


def test_a_card_in_use_is_left_to_the_reboot(host):
    """The simulated card is still bound to nouveau, as on a machine that booted before the blacklist."""
    drivers = host.check_output(
        "for gpu in /sys/bus/pci/devices/*; do"
        " case $(cat $gpu/class) in 0x030*) basename $(readlink $gpu/driver);; esac; done"
    )
    assert set(drivers.split()) == {"nouveau"}
