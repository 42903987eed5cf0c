"""Names, SSH, network and boot of a node; never a key, a password or a token."""

import json
import subprocess
from dataclasses import asdict

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import system
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok

CANARY = "canary"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL0XQ+vRVXVJQqAmKp8l0sX0pVkR1ZJb5Z2m9yVZ0Zc1 root@node07"


def read(tree):
    return asdict(system.read(tree.node()))


def test_names(tree):
    tree.file("/proc/sys/kernel/hostname", "node07\n").file("/etc/hostname", "node07\n").file(
        "/etc/machine-id", "3d12\n"
    )
    tree.file("/etc/hosts", "127.0.0.1 localhost\n# node07 x.y\n10.0.0.7 node07 node07.lab.example # ours\n")
    tree.link("/etc/localtime", "/usr/share/zoneinfo/Asia/Shanghai").file("/etc/timezone", "Etc/UTC\n")
    tree.file("/etc/default/locale", 'LANG="zh_CN.UTF-8"\n').file("/etc/default/keyboard", '# x\nXKBLAYOUT="de"\n')
    assert read(tree)["identity"] == {
        "hostname": "node07",
        "static_hostname": "node07",
        "fqdn": "node07.lab.example",
        "machine_id": "3d12",
        "timezone": "Asia/Shanghai",
        "locale": {"LANG": "zh_CN.UTF-8"},
        "keyboard": {"XKBLAYOUT": "de"},
    }


def test_names_on_rhel(tree):
    tree.file("/etc/locale.conf", "LANG=en_US.UTF-8\n").file("/etc/vconsole.conf", "KEYMAP=us\n")
    tree.link("/etc/localtime", "../usr/share/zoneinfo/Europe/Berlin")
    found = read(tree)["identity"]
    assert (found["locale"], found["keyboard"]) == ({"LANG": "en_US.UTF-8"}, {"KEYMAP": "us"})
    assert found["timezone"] == "Europe/Berlin"


def test_fingerprints_of_host_keys_are_those_of_ssh_keygen(tree):
    home = tree.directory("/etc/ssh").root / "etc/ssh"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / "ssh_host_ed25519_key"], check=True)
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", home / "ssh_host_ed25519_key"], check=True, capture_output=True, text=True
    )
    found = read(tree)["ssh"]["host_keys"]
    assert found == [
        {
            "path": "/etc/ssh/ssh_host_ed25519_key",
            "type": "ssh-ed25519",
            "fingerprint": listed.stdout.split()[1],
            "private": True,
        }
    ]
    text = json.dumps(found)
    lines = [
        *(home / "ssh_host_ed25519_key").read_text().splitlines(),
        (home / "ssh_host_ed25519_key.pub").read_text().split()[1],
    ]
    assert not any(line in text for line in lines)


def test_host_keys_without_one_half_and_elsewhere(tree):
    tree.file("/etc/ssh/ssh_host_rsa_key", CANARY).file("/etc/ssh/ssh_host_ecdsa_key.pub", "ecdsa not/base64!\n")
    tree.file("/etc/ssh/sshd_config", "HostKey /srv/keys/host\n").file("/srv/keys/host.pub", KEY)
    found = read(tree)["ssh"]["host_keys"]
    assert [(key["path"], key["type"], key["private"]) for key in found] == [
        ("/etc/ssh/ssh_host_ecdsa_key", None, False),
        ("/etc/ssh/ssh_host_rsa_key", None, True),
        ("/srv/keys/host", "ssh-ed25519", False),
    ]
    assert CANARY not in json.dumps(found)


def test_options_of_sshd(tree):
    tree.file(
        "/etc/ssh/sshd_config",
        "#Port 1\nport 22\nX11Forwarding yes\nMatch User wei\n  PasswordAuthentication=yes # x\n",
    )
    tree.file(
        "/etc/ssh/sshd_config.d/10-lab.conf", 'Port 2222\nAllowUsers wei mia\nAuthorizedKeysFile "/etc/ssh/keys/%u"\n'
    )
    tree.file("/etc/ssh/sshd_config.d/10-lab.conf.rpmsave", "Port 1\n")
    found = read(tree)["ssh"]
    assert found["files"] == ["/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d/10-lab.conf"]
    assert found["options"] == {
        "Port": ["2222", "22"],
        "AuthorizedKeysFile": ["/etc/ssh/keys/%u"],
        "PasswordAuthentication": ["yes"],
        "AllowUsers": ["wei mia"],
    }


def interface(tree, name, mac, number=1, **files):
    for file, text in {"type": number, "address": mac, "operstate": "up", "uevent": "", "mtu": 1500, **files}.items():
        tree.file(f"/sys/class/net/{name}/{file}", f"{text}\n")


def test_interfaces(tree):
    interface(tree, "eno1", "aa:00:00:00:00:01", mtu=9000)
    tree.link("/sys/class/net/eno1/device/driver", "../../bus/pci/drivers/ice")
    tree.file("/sys/class/net/eno1/bonding_slave/perm_hwaddr", "aa:00:00:00:00:02\n")
    interface(tree, "veth12", "bb:00:00:00:00:01")
    interface(tree, "wg0", "", 65534)
    addresses = [
        {
            "ifname": "eno1",
            "master": "bond0",
            "addr_info": [
                {"scope": "global", "local": "10.0.0.7", "prefixlen": 24, "dynamic": True},
                {"scope": "global", "local": "fd00::7", "prefixlen": 64},
                {"scope": "global", "local": "fd00::abcd", "prefixlen": 64, "temporary": True, "dynamic": True},
                {"scope": "link", "local": "fe80::1", "prefixlen": 64},
            ],
        },
        {"ifname": "wg0", "addr_info": [{"scope": "global", "local": "10.9.0.1", "prefixlen": 32}]},
        {},
    ]
    tree.prints("ip -json address", json.dumps(addresses))
    found = {one["name"]: one for one in read(tree)["network"]["interfaces"]}
    assert sorted(found) == ["eno1", "wg0"]
    eno1 = found["eno1"]
    assert (eno1["mac"], eno1["permanent_mac"], eno1["driver"]) == ("aa:00:00:00:00:01", "aa:00:00:00:00:02", "ice")
    assert (eno1["mtu"], eno1["master"], eno1["kind"]) == (9000, "bond0", "physical")
    assert eno1["addresses"] == [
        {"address": "10.0.0.7/24", "dynamic": True},
        {"address": "fd00::7/64", "dynamic": False},
    ]


def test_routes(tree):
    hops = [{"gateway": "10.0.0.2", "dev": "eno1"}, {"gateway": "10.0.0.3", "dev": "eno2"}]
    routes = [
        {"dst": "default", "gateway": "10.0.0.1", "dev": "eno1", "protocol": "dhcp", "metric": 100},
        {"dst": "10.0.0.0/24", "dev": "eno1", "protocol": "kernel"},
        {"dst": "10.1.0.0/16", "protocol": "static", "nexthops": hops},
    ]
    tree.prints("ip -json -4 route", json.dumps(routes)).prints("ip -json -6 route", "not JSON")
    found = read(tree)["network"]["routes"]
    assert found[0] == {"to": "default", "via": "10.0.0.1", "interface": "eno1", "metric": 100, "by": "dhcp"}
    assert [(route["to"], route["via"], route["interface"]) for route in found[1:]] == [
        ("10.1.0.0/16", "10.0.0.2", "eno1"),
        ("10.1.0.0/16", "10.0.0.3", "eno2"),
    ]


def test_name_servers(tree):
    tree.file(
        "/etc/resolv.conf", "# x\nnameserver 10.0.0.53\nnameserver fd00::53\nsearch lab.example\noptions edns0 rotate\n"
    )
    assert read(tree)["network"]["dns"] == {
        "servers": ["10.0.0.53", "fd00::53"],
        "search": ["lab.example"],
        "options": ["edns0", "rotate"],
        "managed_by": None,
    }


def test_name_servers_behind_resolved(tree):
    tree.link("/etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")
    tree.file("/run/systemd/resolve/stub-resolv.conf", "nameserver 127.0.0.53\n").file(
        system.RESOLVED, "nameserver 10.0.0.53\n"
    )
    found = read(tree)["network"]["dns"]
    assert (found["servers"], found["managed_by"]) == (["10.0.0.53"], "systemd")


def states(**active):
    """Return what systemctl show prints."""
    return (
        "\n\n".join(f"Id={name.replace('_', '-')}.service\nActiveState={state}" for name, state in active.items())
        + "\n"
    )


def test_all_four_tools_of_the_network(tree):
    secret = f"psk={CANARY}\n"
    tree.file("/etc/netplan/50-cloud-init.yaml", secret).file("/etc/netplan/x.yaml.save", secret)
    tree.file("/etc/network/interfaces", "auto lo\n").file("/etc/network/interfaces.d/eno1", secret)
    tree.directory("/etc/network/interfaces.d/former").file("/etc/network/if-up.d/x", "").file("/etc/network/fan", "")
    tree.file("/etc/NetworkManager/system-connections/lab.nmconnection", secret)
    tree.file("/etc/sysconfig/network-scripts/ifcfg-eno1", "").file("/etc/sysconfig/network-scripts/readme.txt", "")
    tree.file("/etc/systemd/network/10-eno1.network", "").file("/etc/systemd/network/10-mac.link", "")
    tree.prints("systemctl show", states(NetworkManager="active", systemd_networkd="inactive", networking="active"))
    found = read(tree)["network"]["tools"]
    assert found == [
        {"name": "netplan", "files": ["/etc/netplan/50-cloud-init.yaml"], "active": None},
        {"name": "ifupdown", "files": ["/etc/network/interfaces", "/etc/network/interfaces.d/eno1"], "active": True},
        {
            "name": "NetworkManager",
            "files": [
                "/etc/NetworkManager/system-connections/lab.nmconnection",
                "/etc/sysconfig/network-scripts/ifcfg-eno1",
            ],
            "active": True,
        },
        {
            "name": "networkd",
            "files": ["/etc/systemd/network/10-eno1.network", "/etc/systemd/network/10-mac.link"],
            "active": False,
        },
    ]
    assert CANARY not in json.dumps(found)


def test_a_tool_that_runs_without_files(tree):
    tree.prints("systemctl show", states(NetworkManager="active"))
    assert read(tree)["network"]["tools"] == [{"name": "NetworkManager", "files": [], "active": True}]


@pytest.mark.parametrize(
    ("active", "ufw", "on"),
    [
        ({}, "", None),
        ({"firewalld": "active", "nftables": "active"}, "", "firewalld"),
        ({"nftables": "active"}, "", "nftables"),
        ({"netfilter_persistent": "active"}, "", "iptables"),
        ({"iptables": "active"}, "", "iptables"),
        ({"nftables": "inactive"}, "ENABLED=yes\n", "ufw"),
        ({"nftables": "active"}, "ENABLED=no\n", "nftables"),
    ],
)
def test_firewalls(tree, active, ufw, on):
    if ufw:
        tree.file("/usr/sbin/ufw").file("/etc/ufw/ufw.conf", ufw)
    tree.file("/etc/nftables.conf").prints("systemctl show", states(**active))
    assert read(tree)["network"]["firewall"] == {
        "there": ["ufw"] if ufw else [],
        "on": on,
        "files": ["/etc/nftables.conf"],
    }


MENU = "menuentry 'Debian' {\n linux /vmlinuz-6.1.0-50-amd64 root=UUID=0f6b1a3e-1111-2222-3333-444455556666 quiet\n}\n"


def test_kernels_and_their_arguments(tree):
    tree.file(
        "/proc/cmdline",
        f"BOOT_IMAGE=/vmlinuz root=UUID=0f6b1a3e-1111-2222-3333-444455556666 rd.iscsi.password={CANARY} ro\n",
    )
    tree.file("/proc/sys/kernel/osrelease", "6.1.0-49-amd64\n").file("/boot/grub/grub.cfg", MENU)
    tree.file("/boot/vmlinuz-6.1.0-49-amd64").file("/boot/vmlinuz-6.1.0-50-amd64").directory(
        "/lib/modules/5.10.0-1-amd64"
    )
    tree.file("/etc/modprobe.d/lab.conf").file("/etc/modules-load.d/lab.conf")
    found = read(tree)["boot"]
    assert (
        found["command_line"]
        == "BOOT_IMAGE=/vmlinuz root=UUID=0f6b1a3e-1111-2222-3333-444455556666 rd.iscsi.password=*** ro"
    )
    assert found["next_kernel"] == "6.1.0-50-amd64"
    assert found["next_arguments"] == "root=UUID=0f6b1a3e-1111-2222-3333-444455556666 quiet"
    assert found["kernels"] == [
        {"version": "6.1.0-49-amd64", "running": True},
        {"version": "6.1.0-50-amd64", "running": False},
    ]
    assert found["files"] == ["/etc/modprobe.d/lab.conf", "/etc/modules-load.d/lab.conf"]
    assert (found["firmware"], found["entries"], found["esp"]) == ("bios", [], None)


@pytest.mark.parametrize(
    "argument",
    [
        "rd.iscsi.password={}",
        'rd.iscsi.password="{0} {0}"',
        "netroot=iscsi:wei:{}@10.0.0.1::::iqn",
        "systemd.set_credential=passwd.hashed-password.root:{}",
        "lab.options=user=wei,password={}",
        "ds=nocloud;s=http://wei:{}@lab/",
    ],
)
def test_secrets_of_the_kernels_arguments(tree, argument):
    tree.file("/proc/cmdline", f"quiet {argument.format(CANARY)} ro\n")
    line = read(tree)["boot"]["command_line"]
    assert line.startswith("quiet ")
    assert line.endswith(" ro")
    assert CANARY not in line


FIRMWARE = f"""\
BootCurrent: 0003
Timeout: 1 seconds
BootOrder: 0003,0001
Boot0001  UEFI PXE\tPciRoot(0x0)/MAC(aa,1)/Uri(https://wei:{CANARY}@lab/x.efi)
Boot0003* debian\tHD(1,GPT,0f6b1a3e-1111-2222-3333-444455556666,0x800,0x100000)/File(\\EFI\\DEBIAN\\SHIMX64.EFI)
      dp: 04 01 2a
"""


def test_firmware(tree):
    tree.directory(mok.EFIVARS).prints("efibootmgr -v", FIRMWARE)
    tree.file(
        "/proc/self/mountinfo", "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 8:1 / /boot/efi rw - vfat /dev/sda1 rw\n"
    )
    tree.directory("/boot/efi/EFI/debian").directory("/boot/efi/EFI/BOOT")
    tree.file(f"{mok.EFIVARS}/SbatLevelRT-{mok.SHIM}", b"\x06\0\0\0sbat,1,2024010900\nshim,4\n")
    found = read(tree)["boot"]
    assert (found["firmware"], found["sbat_level"]) == ("uefi", "sbat,1,2024010900\nshim,4\n")
    assert (found["order"], found["current"]) == (["0003", "0001"], "0003")
    assert [(entry["id"], entry["label"], entry["active"]) for entry in found["entries"]] == [
        ("0001", "UEFI PXE", False),
        ("0003", "debian", True),
    ]
    assert "0f6b1a3e-1111-2222-3333-444455556666" in found["entries"][1]["path"]
    assert found["esp"] == {"mount": "/boot/efi", "source": "/dev/sda1", "loaders": ["BOOT", "debian"]}
    assert CANARY not in json.dumps(found)


def test_a_system_partition_on_boot(tree):
    tree.file("/proc/self/mountinfo", "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 8:1 / /boot rw - vfat /dev/sda1 rw\n")
    assert read(tree)["boot"]["esp"] == {"mount": "/boot", "source": "/dev/sda1", "loaders": []}


def test_the_key_that_dkms_signs_with(tree):
    tree.file("/etc/os-release", "ID=ubuntu\n").directory(mok.EFIVARS)
    tree.file(mok.OF_UBUNTU.private, CANARY).file(mok.OF_UBUNTU.certificate, b"certificate")
    tree.file(f"{mok.EFIVARS}/MokListRT-{mok.SHIM}", b"\0\0\0\0list certificate list")
    found = read(tree)["boot"]
    assert found["mok"] == {
        "certificate": mok.OF_UBUNTU.certificate,
        "fingerprint": mok.fingerprint(b"certificate"),
        "standing": "enrolled",
    }
    assert CANARY not in json.dumps(found)


def test_a_node_of_which_nothing_can_be_read(tree):
    found = read(tree)
    json.dumps(found)
    assert found["ssh"] == {"host_keys": [], "files": [], "options": {}}
    assert found["network"]["interfaces"] == found["network"]["routes"] == found["network"]["tools"] == []
    assert found["boot"]["mok"] == {"certificate": None, "fingerprint": None, "standing": "missing"}


def test_damaged_files(tree):
    for path in (
        system.SSHD,
        system.RESOLV,
        "/etc/hosts",
        "/proc/cmdline",
        "/etc/ssh/ssh_host_a_key.pub",
        "/etc/locale.conf",
    ):
        tree.file(path, b'\xff=\0"x\n= =\n"\n HostKey \xfe')
    for text in ("{}", "[1, null]", '[{"ifname": null, "addr_info": null, "nexthops": [3]}]', '[{"addr_info": [{}]}]'):
        tree.prints("ip -json", text).prints("efibootmgr", "BootOrder:\n\xff")
        json.dumps(read(tree))
