"""Let the tests import this checkout as ``ansible_collections.gpulab.node``, and the slow ones say what goes on."""

import os
import signal
import time
from pathlib import Path

import pytest
from ansible.plugins.loader import init_plugin_loader
from hypothesis import settings

# A busy machine is no fault of what is tested. CI tries the same examples every time: it is red for a change only.
settings.register_profile("gpulab", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("gpulab")
init_plugin_loader([str(Path(__file__).parents[1] / "collections")])


@pytest.fixture(scope="session")
def say(request):
    """Return a function that tells the person who waits what goes on, past pytest's capturing."""
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    started = time.monotonic()

    def tell(text):
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"{time.monotonic() - started:5.0f} s  {text}")
            reporter.flush()

    return tell


@pytest.fixture(scope="session")
def removes_when_terminated():
    """Let a run that is ended from outside remove its nodes and machines."""
    former = signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", 143))
    yield
    signal.signal(signal.SIGTERM, former)


@pytest.fixture
def narrow_umask():
    """Let nobody but the owner see what is made without saying who may."""
    before = os.umask(0o077)
    yield
    os.umask(before)
