"""What systemctl says of units: names, lists, blocks that are cut off, and a node without systemd."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.unit_states import (
    Unit,
    by_name,
    file_states,
    parse,
    properties,
    show,
)

DOCKER = "Id=docker.service\nNames=docker.service\nLoadState=loaded\nActiveState=active\nSubState=running\n"


@pytest.mark.parametrize(
    ("text", "units"),
    [
        pytest.param(DOCKER, [Unit("docker.service", ("docker.service",), "loaded", "active", "running")], id="one"),
        pytest.param(
            "ActiveState=inactive\nId=a.service\n \t\nId=b.service\nUnitFileState=\n",
            [Unit("a.service", active_state="inactive"), Unit("b.service")],
            id="several",
        ),
        pytest.param(
            "Id=b.service\nTriggeredBy=b.timer b.path\nWantedBy=\nBusName=org.b\nFragmentPath=/etc/a=b c.service\n",
            [Unit("b.service", triggered_by=("b.timer", "b.path"), bus_name="org.b", path="/etc/a=b c.service")],
            id="lists-and-an-equals-sign",
        ),
        pytest.param(
            "Id=数据\\x2da.service\nDescription=x\n", [Unit("数据\\x2da.service")], id="what-nobody-asked-for"
        ),
        pytest.param("ActiveState=active\n\nId=\nType=oneshot\n", [], id="without-a-name"),
        pytest.param("Failed to connect to bus\n", [], id="an-error"),
        pytest.param("\n\n", [], id="nothing"),
    ],
)
def test_units(text, units):
    assert parse(text) == units


def test_each_field_is_asked_for_by_systemds_name():
    asked = ("names", "sub_state", "file_state", "path", "bus_name", "upheld_by")
    words = "Id,Names,SubState,UnitFileState,FragmentPath,BusName,UpheldBy"
    assert show(asked, "-odd.service") == ["systemctl", "show", f"--property={words}", "--", "-odd.service"]
    text = "\n".join(f"{name}=it" for name in words.split(","))
    assert parse(text) == [
        Unit("it", ("it",), sub_state="it", file_state="it", path="it", bus_name="it", upheld_by=("it",))
    ]


def test_a_unit_goes_by_all_its_names():
    text = "Id=sshd.service\nNames=sshd.service ssh.service\n\nId=a.service\n"
    assert {name: unit.id for name, unit in by_name(text).items()} == {
        "sshd.service": "sshd.service",
        "ssh.service": "sshd.service",
        "a.service": "a.service",
    }


def test_properties_of_systemd_itself():
    assert properties("DefaultLimitNOFILE=524288\nEnvironment=A=b\n\nno property\n") == {
        "DefaultLimitNOFILE": "524288",
        "Environment": "A=b",
    }


@pytest.mark.parametrize(
    ("listed", "states"),
    [
        ("ssh.service enabled enabled\nx.service masked -\n", {"ssh.service": "enabled", "x.service": "masked"}),
        ("a.mount static -\ncut\n\nb@.service  disabled\n", {"b@.service": "disabled"}),
        ("", {}),
        (None, None),
    ],
)
def test_states_of_unit_files(listed, states):
    assert file_states(listed) == states
