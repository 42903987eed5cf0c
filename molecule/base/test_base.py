"""The base role, seen from the node."""

import pytest


@pytest.fixture(autouse=True)
def lists(host):
    """Bring the package lists; a bare node has none."""
    update = host.run("apt-get update")
    assert update.rc == 0
    assert "configured multiple times" not in update.stdout + update.stderr


def targets(host, field):
    """Return the pairs (component, field) of what APT reads."""
    lines = host.check_output(f"apt-get indextargets --format '$(COMPONENT) $({field})'").splitlines()
    return {tuple(line.split()) for line in lines}


def test_https_works_with_the_nodes_own_trust_store(host):
    """The lab's way out may be a proxy with an authority of its own; pip shows whether the node trusts it."""
    host.check_output("apt-get install --yes --no-install-recommends python3-pip python3-venv")
    host.check_output("python3 -m venv /tmp/trust")
    host.check_output("/tmp/trust/bin/pip download --no-deps --dest /tmp/trust six")


def test_the_wanted_component_is_enabled_and_no_other(host):
    components = {component for component, _repository in targets(host, "REPO_URI")}
    assert components == {"main", "contrib"}


def test_the_mirror_is_the_nodes_own(host):
    found = targets(host, "REPO_URI")
    assert {uri for component, uri in found if component == "contrib"} == {
        uri for component, uri in found if component == "main"
    }
