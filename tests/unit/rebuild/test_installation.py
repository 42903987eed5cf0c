"""What a captured machine's installer is told, what its new system gets, and what is refused before that."""

import json
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer import plan as plans
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import case, installation, obstacles
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

from unit.capture import hardware
from unit.rebuild import machine as machines
from unit.rebuild.machine import HOST_KEY, KEY, SHADOW, UUID
from unit.storage import nodes

NETWORK = "/etc/systemd/network/10-gpulab-reinstall-eno1.network"


@pytest.fixture
def machine(tmp_path):
    return machines.Machine(tmp_path)


def codes(found):
    return [one.code for one in found.blockers]


def cause(found):
    """Return the cause of the only blocker."""
    (one,) = found.blockers
    return one.cause


# The plan


def test_the_installer_is_told_machine_disk_and_what_must_stay(machine):
    found = machine.plan()
    plan = found.plan
    assert found.blockers == ()
    assert (plan["schema"], plan["host"], plan["capture"]) == (1, "node07", "20261126T132500Z")
    assert plan["machine"] == {"dmi_uuid": UUID}
    assert (plan["disk"]["kind"], plan["disk"]["value"]) == ("serial", hardware.ROOT_SERIAL)
    assert plan["disk"]["size"] == 2 * nodes.TB
    assert set(plan["disk"]["holds"]) == {"ABCD-1234", nodes.ROOT}
    (kept,) = plan["kept"]
    assert (kept["kind"], kept["value"], kept["holds"]) == ("serial", hardware.DATA_SERIAL, [nodes.DATA])
    assert (plan["firmware"], plan["hostname"], plan["minutes"]) == ("uefi", "node07", 15)
    assert [line.split()[0] for line in found.lines] == ["WIPE", "KEEP"]


def test_the_id_is_that_of_the_content(machine):
    plan = machine.plan().plan
    assert list(plans.faults(plan)) == []
    assert plan["id"] == machine.plan().plan["id"]
    assert plan["id"] != machine.plan(minutes=20).plan["id"]
    assert len(plan["id"]) == 16
    assert json.loads(json.dumps(plan)) == plan


@pytest.mark.parametrize("hostname", ["node07\n%post\nreboot", "node07 x", "10.0.0.7", "-n"])
def test_a_captured_hostname_that_is_none_is_refused(machine, hostname):
    """It becomes a line of the installer's files."""
    machine.sections["identity"]["static_hostname"] = hostname
    found = machine.plan()
    assert codes(found) == ["H226"]
    assert cause(found).isprintable()


def test_a_kept_disk_without_a_name_is_known_by_what_is_on_it(tmp_path):
    disks = hardware.plain()
    disks.data(serial=None, number="259:11", holds=hardware.EXT4_DATASETS)
    (kept,) = machines.Machine(tmp_path, disks).plan().plan["kept"]
    assert (kept["kind"], kept["value"], kept["holds"]) == (None, None, [nodes.DATA])


def test_the_consoles_of_the_old_kernel_stay_after_the_screen(machine):
    assert machine.plan().plan["kernel_arguments"] == ["console=tty0", "console=ttyS0,115200n8"]
    machine.sections["boot"]["command_line"] = "console=ttyS0 console=tty0 noconsole=1"
    assert machine.plan().plan["kernel_arguments"] == ["console=ttyS0", "console=tty0"]


def test_ansibles_user_keeps_its_ids_and_its_password(machine):
    assert machine.plan().plan["user"] == {
        "name": "admin",
        "uid": 1000,
        "gid": 1000,
        "group": "admin",
        "gecos": "",
        "home": "/home/admin",
        "shell": "/bin/bash",
        "password": machines.HASH,
    }


def test_a_shell_that_comes_later_is_replaced_until_then(machine):
    machine.sections["users"][1]["shell"] = "/usr/bin/zsh"
    assert machine.plan().plan["user"]["shell"] == "/bin/bash"


# The image


@pytest.mark.parametrize(
    ("wishes", "system", "mirror"),
    [
        ({}, "debian-12", ("https://mirror.lab/debian", "https://mirror.lab/security")),
        ({"system": "debian-13"}, "debian-13", ("https://mirror.lab/debian", "https://mirror.lab/security")),
        ({"mirror": "http://own/debian"}, "debian-12", ("http://own/debian", None)),
    ],
)
def test_the_image_is_of_the_nodes_system_and_mirror_unless_set(machine, wishes, system, mirror):
    image = machine.plan(**wishes).image
    assert (image.system, image.firmware) == (system, "uefi")
    assert (image.mirror, image.security_mirror) == mirror


@pytest.mark.parametrize("uri", ["mirror+file:/etc/apt/mirrors/debian.list", "https://***@mirror.lab/debian"])
def test_a_mirror_that_nobody_else_can_use_is_not_taken(machine, uri):
    machine.sections["sources"][0]["uris"] = [uri]
    found = machine.plan()
    assert (found.image.mirror, codes(found)) == (None, ["R076"])
    assert codes(machine.plan(mirror="http://own/debian")) == []


def test_the_mirror_of_another_distribution_is_not_taken(machine):
    machine.machine["system"].update(id="ubuntu", version="24.04", codename="noble")
    machine.sections["sources"][0]["suite"] = "noble"
    assert machine.plan(system="debian-12").image.mirror is None


def test_firmware_of_network_cards_comes_with_the_new_system(machine):
    names = ["firmware-bnx2x", "firmware-amd-graphics", "bash"]
    machine.sections["packages"] = [{"name": name, "version": "1", "architecture": "all"} for name in names]
    assert machine.plan(packages=("tmux",)).image.packages == ["firmware-bnx2x", "tmux"]
    machine.sections["packages"] = None
    assert machine.plan().image.packages == []


# The files of the new system


def test_the_new_system_is_known_by_the_old_keys_and_names(machine):
    files = machine.plan().files
    assert files[HOST_KEY] == NewFile(machines.CONTENTS[HOST_KEY], 0o600, 0, 0)
    assert files[f"{HOST_KEY}.pub"].mode == 0o644
    assert files["/etc/hostname"].content == b"node07\n"
    assert files["/etc/hosts"].content == machines.CONTENTS["/etc/hosts"]
    assert files["/etc/machine-id"] == NewFile(b"5" * 32 + b"\n", 0o444, 0, 0)


def test_ansibles_user_comes_in_and_becomes_root(machine):
    files = machine.plan().files
    keys = files["/home/admin/.ssh/authorized_keys"]
    assert keys == NewFile(KEY.encode(), 0o600, 1000, 1000)
    rule = files["/etc/sudoers.d/gpulab-reinstall"]
    assert rule.mode == 0o440
    assert b"\nadmin ALL=(ALL:ALL) NOPASSWD: ALL\n" in rule.content


def test_root_needs_no_rule_of_sudo(machine):
    machine.found["user"] = "root"
    files = machine.plan().files
    assert "/root/.ssh/authorized_keys" in files
    assert "/etc/sudoers.d/gpulab-reinstall" not in files


def test_sshd_answers_where_it_did_and_with_keys_that_lie_elsewhere(machine):
    assert "/etc/ssh/sshd_config.d/00-gpulab-reinstall.conf" not in machine.plan().files
    machine.sections["ssh"]["options"] = {"Port": ["2222"]}
    machine.sections["ssh"]["host_keys"][0]["path"] = "/srv/keys/host"
    machine.contents["/srv/keys/host"] = b"key"
    text = machine.plan().files["/etc/ssh/sshd_config.d/00-gpulab-reinstall.conf"].content.decode()
    assert text.splitlines()[1:] == ["Port 2222", "HostKey /srv/keys/host"]


def test_in_check_mode_secrets_are_not_read_and_the_rest_is_planned(machine):
    known = {path: data for path, data in machine.contents.items() if path not in (SHADOW, HOST_KEY)}
    captured = case.Captured(machine.manifest(), known.get)
    found = installation.plan(captured, case.Found(**machine.found), case.Wishes(), machines.INSTALLERS)
    assert found.blockers == ()
    assert found.plan["user"]["password"] is None


# What does not come back


def test_what_is_given_up_and_what_is_written_to_deleted_files_is_named(machine):
    machine.more["acknowledged"] = [{"path": "/opt/matlab", "reason": "from the campus server"}]
    machine.more["open_deleted"] = [{"path": "/srv/x", "bytes": 1, "program": "writer", "process": 7}]
    lost = machine.plan(system="debian-13").lost
    assert lost[0] == "/opt/matlab: from the campus server"
    assert lost[1].startswith("/srv/x, deleted, but writer (process 7) writes to it")
    assert "debian-12" in lost[2]
    assert len(machine.plan().lost) == 2


# Refusals


@pytest.mark.parametrize(
    "uuid",
    ["", "Not Settable", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
     "03000200-0400-0500-0006-000700080009"],
)  # fmt: skip
def test_a_machine_whose_firmware_has_no_uuid_of_its_own_is_refused(machine, uuid):
    machine.machine["dmi_uuid"] = machine.found["dmi_uuid"] = uuid
    assert codes(machine.plan()) == ["R003"]


def test_another_machine_at_this_address_is_refused(machine):
    machine.found["dmi_uuid"] = UUID.replace("4c4c", "5d5d")
    assert codes(machine.plan()) == ["R003"]


def test_the_case_of_a_uuid_does_not_count(machine):
    machine.found["dmi_uuid"] = UUID.upper()
    assert codes(machine.plan()) == []


def test_a_disk_that_is_a_copy_of_the_root_disk_is_refused(tmp_path):
    disks = hardware.plain()
    data = disks.data(holds=nodes.GPT, number="259:11")
    disks.part(data, "nvme1n1p2", "259:13", nodes.EXT4, nodes.ROOT)
    found = machines.Machine(tmp_path, disks).plan()
    assert codes(found) == ["R004"]
    assert "same UUIDs" in cause(found)


@pytest.mark.parametrize(("place", "expected"), [("/var", ["R079"]), ("/usr", ["R079"]), ("/var/lib/docker", [])])
def test_a_part_of_the_system_on_a_disk_that_stays_is_refused(tmp_path, place, expected):
    """The new system would find the packages and services of the former one there."""
    disks = hardware.Hardware()
    disks.part(disks.data(), "nvme1n1p1", "259:11", nodes.EXT4, nodes.DATA)
    disks.mounted("259:11", place, "/dev/nvme1n1p1")
    found = machines.Machine(tmp_path, disks).plan()
    assert codes(found) == expected
    if expected:
        assert f"{place} on /dev/nvme1n1" in cause(found)


def test_what_stands_against_any_reinstall_stands_here_too(machine):
    machine.more["remainder"] = [{"path": "/opt/matlab", "files": 1, "bytes": 1, "owner": "root", "why": ""}]
    found = machine.plan()
    assert codes(found) == ["R002"]
    assert found.plan is not None


def test_a_container_is_refused_for_its_disk_alone(tmp_path):
    machine = machines.Machine(tmp_path, hardware.container())
    machine.machine["dmi_uuid"] = ""
    machine.network["interfaces"] = []
    found = machine.plan()
    assert codes(found) == ["R004"]
    assert found.plan is None


@pytest.mark.parametrize("wanted", ["ubuntu-24.04", "debian-11"])
def test_a_system_without_an_installer_is_refused_and_the_known_ones_are_named(machine, wanted):
    found = machine.plan(system=wanted)
    assert codes(found) == ["R010"]
    assert "debian-12, debian-13" in found.blockers[0].remedy


def test_a_node_of_a_system_without_an_installer_is_refused(machine):
    machine.machine["system"].update(id="rocky", version="9.4")
    assert codes(machine.plan()) == ["R010"]
    assert codes(machine.plan(system="debian-12", mirror="http://own/debian")) == []


def test_the_image_is_for_the_processor_of_the_machine(machine):
    machine.machine["system"]["architecture"] = "aarch64"
    machine.sections["boot"]["firmware"] = "uefi"
    assert machine.plan(system="debian-12").image.architecture == "aarch64"


@pytest.mark.parametrize(("architecture", "firmware"), [("riscv64", "uefi"), ("aarch64", "bios")])
def test_a_machine_that_no_installer_starts_on_is_refused(machine, architecture, firmware):
    machine.machine["system"]["architecture"] = architecture
    machine.sections["boot"]["firmware"] = firmware
    found = machine.plan(system="debian-12")
    assert codes(found) == ["R010"]
    assert f"debian-12 on {architecture} with {firmware.upper()}" in cause(found)
    assert found.blockers[0].remedy.startswith("Install the system by hand")


@pytest.mark.parametrize(("memory", "least_disk"), [(2 << 30, 1), (4 << 30, 1 << 30)])
def test_a_machine_that_is_too_small_is_refused(machine, memory, least_disk):
    machine.found["memory"] = memory
    machine.installers = [replace(machines.INSTALLERS[0], least_disk_mib=least_disk)]
    assert codes(machine.plan()) == ["R025"]


@pytest.mark.parametrize(
    ("on_root_disk", "users", "expected"),
    [(False, ["10.0.0.9"], ["R026"]), (True, ["10.0.0.9"], ["R016"]), (False, [], [])],
)
def test_exports_in_use_are_refused_whatever_disk_they_are_on(machine, on_root_disk, users, expected):
    machine.sections["disks"]["exports"] = [
        {"path": "/data", "client": "*", "options": [], "on_root_disk": on_root_disk, "users": users}
    ]
    found = machine.plan()
    assert codes(found) == expected
    assert all("10.0.0.9" in one.cause for one in found.blockers)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "bond"}, "bond"),
        ({"kind": "bridge"}, "bridge"),
        ({"kind": "vlan"}, "vlan"),
        ({"kind": "wireless"}, "wireless"),
        ({"link_layer": "infiniband"}, "infiniband"),
        ({"master": "br0"}, "br0"),
        ({"mac": None}, "hardware address"),
        ({"addresses": []}, "no address"),
    ],
)
def test_a_network_that_plain_files_cannot_make_is_refused(machine, change, words):
    machine.network["interfaces"] = [machines.interface(**change)]
    found = machine.plan()
    assert codes(found) == ["R023"]
    assert words in cause(found)


def test_files_of_the_inventory_make_any_network(machine):
    machine.network["interfaces"] = [machines.interface("bond0", kind="bond")]
    found = machine.plan(network={"10-bond0.netdev": "[NetDev]\n"})
    assert codes(found) == []
    assert found.files["/etc/systemd/network/10-bond0.netdev"].content == b"[NetDev]\n"
    assert found.files["/etc/resolv.conf"].content == b"nameserver 10.0.0.3\nsearch lab\n"


def test_an_account_that_only_a_directory_knows_is_refused(machine):
    machine.found["user"] = "wei"
    found = machine.plan()
    assert codes(found) == ["R027"]
    assert "wei" in cause(found)


def test_a_user_without_a_key_and_without_a_password_is_refused(machine):
    machine.found["authorized_keys"] = " \n"
    assert codes(machine.plan()) == []
    machine.sections["users"][1]["password"] = "locked"  # noqa: S105
    assert codes(machine.plan()) == ["R027"]


def test_root_without_a_key_is_refused_whatever_its_password(machine):
    machine.found.update(user="root", authorized_keys="")
    assert codes(machine.plan()) == ["R027"]


def test_host_keys_that_are_not_captured_are_refused(machine):
    del machine.contents[HOST_KEY]
    found = machine.plan()
    assert codes(found) == ["R027"]
    assert HOST_KEY in cause(found)
    machine.sections["ssh"]["host_keys"] = []
    assert codes(machine.plan()) == ["R027"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["/home/admin/.ssh/authorized_keys", "/home/admin/.ssh/authorized_keys2"]),
        ({"AuthorizedKeysFile": ["/etc/ssh/keys/%u .ssh/authorized_keys"]},
         ["/etc/ssh/keys/admin", "/home/admin/.ssh/authorized_keys"]),
        ({"AuthorizedKeysFile": ["%h/keys%%"]}, ["/home/admin/keys%"]),
        ({"AuthorizedKeysFile": ["none"]}, []),
    ],
)  # fmt: skip
def test_keys_are_looked_for_where_sshd_does(machine, options, expected):
    machine.sections["ssh"]["options"] = options
    captured = case.Captured(machine.manifest(), machine.contents.get)
    assert captured.authorized_keys("admin") == expected
    assert captured.authorized_keys("nobody") == []


# Confirmation


@pytest.mark.parametrize(
    ("confirmed", "hosts"),
    [("node07", ["node07"]), (["node07"], ["node07"]), (["node08", "node07"], ["node07", "node08"])],
)
def test_hosts_that_are_confirmed_by_name_are_reinstalled(confirmed, hosts):
    assert obstacles.unconfirmed("node07", confirmed, hosts) == []


@pytest.mark.parametrize(
    ("confirmed", "hosts"),
    [
        (None, ["node07"]),
        ("", ["node07"]),
        ("node08", ["node07"]),
        ("node07", ["node07", "node08"]),
        (["node07", "node08"], ["node07"]),
        ("all", ["node07"]),
        (True, ["node07"]),
        ([True], ["node07"]),
        ({"node07": True}, ["node07"]),
        ("node", ["node07"]),
    ],
)
def test_every_other_confirmation_is_refused(confirmed, hosts):
    (found,) = obstacles.unconfirmed("node07", confirmed, hosts)
    assert found.code == "R008"


def test_the_refusal_says_what_to_type():
    (one,) = obstacles.unconfirmed("node07", None, ["node07"])
    assert "-e reinstall_confirm=node07." in one.remedy
    (one,) = obstacles.unconfirmed("node07", "node07", ["node07", "node08"])
    assert """-e '{"reinstall_confirm": ["node07", "node08"]}'""" in one.remedy


# The network until the rebuild


def lines(machine, path=NETWORK):
    return machine.plan().files[path].content.decode().splitlines()


def test_a_fixed_address_stays_with_its_route_and_is_bound_to_the_hardware_address(machine):
    assert lines(machine)[1:] == [
        *("[Match]", f"MACAddress={machines.MAC}", "Type=ether"),
        *("", "[Link]", "RequiredForOnline=yes"),
        *("", "[Network]", "DHCP=no", "IPv6AcceptRA=no", "Address=10.0.0.7/24"),
        *("", "[Route]", "Gateway=10.0.0.1"),
    ]


def test_an_address_by_dhcp_is_asked_for_again_as_the_same_client(machine):
    machine.network["interfaces"][0]["addresses"] = [{"address": "10.0.0.7/24", "dynamic": True}]
    machine.network["routes"][0]["by"] = "dhcp"
    found = lines(machine)
    assert "DHCP=ipv4" in found
    assert not any(line.startswith(("Address=", "Gateway=")) for line in found)
    assert found[found.index("[DHCPv4]") + 1 :] == ["ClientIdentifier=mac", "RequestAddress=10.0.0.7"]
    machine.network["tools"] = [{"name": "networkd", "files": [], "active": True}]
    assert "ClientIdentifier=mac" not in lines(machine)


def test_ipv6_by_router_and_fixed_stand_together(machine):
    machine.network["interfaces"][0]["addresses"] = [
        {"address": "2001:db8::7/64", "dynamic": True},
        {"address": "10.0.0.7/24", "dynamic": False},
    ]
    found = lines(machine)
    assert "IPv6AcceptRA=yes" in found
    assert "DHCP=no" in found
    assert "Address=10.0.0.7/24" in found


def test_routes_of_all_forms_come_back(machine):
    machine.network["routes"] = [
        {"to": "default", "via": "10.9.9.1", "interface": "eno1", "metric": 100, "by": "static"},
        {"to": "172.16.0.0/12", "via": "10.0.0.254", "interface": "eno1", "metric": None, "by": "boot"},
        {"to": "192.0.2.0/24", "via": None, "interface": "eno1", "metric": None, "by": "static"},
        {"to": "198.51.100.0/24", "via": "10.0.0.254", "interface": "other", "metric": None, "by": "static"},
    ]
    text = "\n".join(lines(machine))
    assert "[Route]\nGateway=10.9.9.1\nGatewayOnLink=yes\nMetric=100\n" in text
    assert "[Route]\nDestination=172.16.0.0/12\nGateway=10.0.0.254\n" in text
    assert "[Route]\nDestination=192.0.2.0/24\nScope=link" in text
    assert "198.51.100" not in text


def test_a_changed_hardware_address_and_large_frames_come_back(machine):
    machine.network["interfaces"][0].update(permanent_mac="b8:ca:3a:00:00:99", mtu=9000)
    found = lines(machine)
    assert "PermanentMACAddress=b8:ca:3a:00:00:99" in found
    assert found[found.index("[Link]") + 1 :][:2] == [f"MACAddress={machines.MAC}", "MTUBytes=9000"]


def test_a_second_network_comes_back_and_nobody_waits_for_it(machine):
    other = machines.interface("eno2", default_route=False, ipv4="10.1.0.7", mac="b8:ca:3a:00:00:02")
    other["addresses"] = [{"address": "10.1.0.7/24", "dynamic": False}]
    machine.network["interfaces"].append(other)
    found = lines(machine, NETWORK.replace("eno1", "eno2"))
    assert "RequiredForOnline=no" in found
    assert "RequiredForOnline=yes" in lines(machine)


def bond():
    """Return the interface of a network for data, with the default route."""
    addresses = [{"address": "10.1.0.7/24", "dynamic": False}]
    return machines.interface("bond0", kind="bond", ipv4="10.1.0.7", addresses=addresses)


def test_another_network_with_the_default_route_is_needed_only_by_a_client_from_elsewhere(machine):
    machine.network["interfaces"] = [machines.interface(default_route=False), bond()]
    assert codes(machine.plan()) == []
    machine.found["client"] = "192.0.2.1"
    assert codes(machine.plan()) == ["R023"]


def test_where_nobody_knows_the_connection_the_default_route_counts(machine):
    machine.found.update(server="", client="")
    assert codes(machine.plan()) == []
    machine.network["interfaces"] = [machines.interface(default_route=False)]
    assert codes(machine.plan()) == ["R023"]


def test_servers_for_names_on_the_node_itself_are_left_out(machine):
    machine.network["dns"]["servers"] = ["127.0.0.53", "::1", "10.0.0.3"]
    assert machine.plan().files["/etc/resolv.conf"].content == b"nameserver 10.0.0.3\nsearch lab\n"
    machine.network["dns"]["servers"] = ["127.0.0.53"]
    assert "/etc/resolv.conf" not in machine.plan().files


def test_an_encryption_that_is_given_up_is_said_to_be_lost(tmp_path):
    machine = machines.Machine(tmp_path, hardware.encrypted_root())
    assert codes(machine.plan()) == ["R080"]
    found = machine.plan(allow=("unencrypted",))
    assert (codes(found), found.lost) == ([], ("the encryption of /",))
