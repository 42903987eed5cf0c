"""The base role, seen from the node."""

import pytest
from scenario import CONVERGE, playbook

PROXY = "http://127.0.0.1:8888"
PROXY_CONF = "Port 8888\nListen 127.0.0.1\nLogLevel Connect\nConnectPort 443\n"


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


@pytest.fixture
def proxy(host):
    """Run a proxy on the node; return a function that tells what was requested of it since it was last called."""
    host.check_output("apt-get install --yes --no-install-recommends tinyproxy-bin")
    host.check_output("printf %%s %s > /tmp/proxy.conf", PROXY_CONF)
    host.check_output("systemd-run --unit=proxy --property=User=nobody tinyproxy -d -c /tmp/proxy.conf")

    def seen():
        host.check_output("journalctl --sync")
        said = host.check_output("journalctl --unit=proxy --output=cat --cursor-file=/tmp/proxy.cursor")
        return [line for line in said.splitlines() if "Request (" in line]

    yield seen
    host.check_output("systemctl stop proxy")


def test_apt_pip_and_sessions_go_through_the_proxies_while_they_are_requested(host, proxy):
    node = f"--limit={host.backend.host}"
    fetch = "/tmp/trust/bin/pip download --no-cache-dir --no-deps --dest /tmp/trust six"

    def went_through():
        proxy()
        host.check_output("rm -rf /var/lib/apt/lists /tmp/trust/*.whl")
        host.check_output("apt-get update")
        apt = proxy()
        host.check_output(fetch)
        return bool(apt), bool(proxy())

    run = playbook(CONVERGE, node, base_http_proxy=PROXY, base_https_proxy=PROXY)
    assert run.status == 0, run.output
    assert went_through() == (True, True)
    session = host.check_output("bash --login -c 'echo $http_proxy $HTTPS_PROXY $no_proxy'").split()
    assert session == [PROXY, PROXY, "localhost,127.0.0.1,172.16.0.0/12"]
    run = playbook(CONVERGE, node)
    assert run.status == 0, run.output
    assert went_through() == (False, False)


def test_the_wanted_component_is_enabled_and_no_other(host):
    components = {component for component, _repository in targets(host, "REPO_URI")}
    assert components == {"main", "contrib"}


def test_the_mirror_is_the_nodes_own(host):
    found = targets(host, "REPO_URI")
    assert {uri for component, uri in found if component == "contrib"} == {
        uri for component, uri in found if component == "main"
    }
