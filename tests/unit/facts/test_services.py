"""The state of services, as systemctl show tells it."""

from ansible_collections.gpulab.node.plugins.module_utils.facts.services import units

SHOWN = """\
Id=docker.service
Names=docker.service
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled

Id=gdm.service
Names=gdm3.service display-manager.service gdm.service
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=static
"""


def test_a_unit_of_many_names_has_the_one_that_was_asked_for():
    assert {name: unit["active"] for name, unit in units(SHOWN).items()} == {
        "docker": "active",
        "display-manager": "active",
    }
