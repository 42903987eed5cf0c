"""A lab for each file of tests, of the nodes that its NODES names.

GPULAB_LAB_KEEP=1 keeps the nodes for a closer look, and the next run takes them as they are.
"""

import os

import pytest
from laboratory import DIRECTORY, Lab


@pytest.fixture(scope="session", autouse=True)
def _removes_when_terminated(request):
    request.getfixturevalue("removes_when_terminated")


@pytest.fixture(scope="module")
def lab(request, say):
    """Start the nodes that the test module names, and remove them after its last test, whatever happens."""
    name = request.module.__name__.replace("test_", "gpulab-test-").replace("_", "-")
    started = Lab(name, say)
    keep = bool(os.environ.get("GPULAB_LAB_KEEP"))
    try:
        if not (keep and started.inventory.exists()):
            started.up(request.module.NODES)
        yield started
    finally:
        if not keep:
            started.down()


def pytest_configure(config):
    """Name our marker."""
    config.addinivalue_line("markers", "story: each test goes on where the one before ended; after a failure, stop")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Say where the logs are, and remember that a story broke."""
    report = yield
    if report.failed:
        report.sections.append(("Logs", f"{DIRECTORY}/logs"))
        item.parent.broken = item.name
    return report


def pytest_runtest_setup(item):
    """Do not go on with a broken story."""
    broken = getattr(item.parent, "broken", None)
    if broken and item.get_closest_marker("story"):
        pytest.skip(f"{broken} failed")
