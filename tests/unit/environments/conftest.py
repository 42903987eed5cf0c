"""A laboratory of virtual environments, made by the real uv from wheels that the tests write."""

import subprocess
import sys
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.environments import builds, venv, venv_host

from . import wheels

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Laboratory:
    """A node's environments, and the steps that a controller would take."""

    def __init__(self, root, index, uv):
        """Use the uv that is there; settings are those of this index alone."""
        self.index, self.url = index, None
        self.settings = {}
        self.root, self._uv = root, uv

    @property
    def venvs(self):
        """Return the environments."""
        settings = {"UV_DEFAULT_INDEX": self.url, "UV_HTTP_RETRIES": "0", **self.settings}
        venvs = venv_host.Venvs(self.root, venv_host.Tool("0", "0"), settings)
        venvs.uv = self._uv
        return venvs

    def wish(self, *requirements, **more):
        """Return what is wanted of the environment lab."""
        return replace(venv.Wanted("lab", PYTHON, requirements), **more)

    def run(self, argv):
        """Run a step, refused where it fails; the step has no terminal, and its log is one."""
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise venv.classify(done.stdout, "lab", "/log")

    def make(self, *requirements, **more):
        """Make the environment, as the action plugin does."""
        wish = self.wish(*requirements, **more)
        argv = self.venvs.lock(wish)
        if argv:
            self.run(argv)
        self.run(self.venvs.make(wish))
        return self.venvs.finish(wish)

    def python(self, code):
        """Run a line in the environment's interpreter."""
        argv = [str(self.root / "lab/bin/python"), "-I", "-c", code]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Return the directory of an index with a few packages."""
    directory = tmp_path_factory.mktemp("index")
    wheels.wheel(directory, "alpha", "1.0", "version = 1")
    wheels.wheel(directory, "alpha", "2.0", "version = 2")
    wheels.wheel(directory, "beta", "1.0", requires=["alpha<2"])
    wheels.wheel(directory, "gamma", "1.0", requires=["alpha>=2"])
    wheels.torch(directory)
    wheels.torch(directory, "2.14.0", text="raise ImportError('libcudart.so.13: cannot open shared object file')")
    return directory


@pytest.fixture(scope="module")
def server(index):
    """Serve the index."""
    server = wheels.serve(index)
    yield server
    server.shutdown()


@pytest.fixture
def lab(tmp_path, index, server, monkeypatch):
    """Return a laboratory with nothing in it."""
    uv = pytest.importorskip("uv").find_uv_bin()
    monkeypatch.setattr(builds, "PIP_FILES", ())
    laboratory = Laboratory(tmp_path / "venvs", index, venv_host.Path(uv))
    laboratory.url = server.url
    return laboratory
