"""A node made of files below tmp_path; commands answer what a test says they print."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node


class Canned:
    """Stands in for a started command: what it prints, None where the node does not have it."""

    def __init__(self, printed):
        """Keep what it prints."""
        self._printed = printed

    def output(self):
        """Return it."""
        return self._printed


class Tree:
    """Writes a node's files and links."""

    def __init__(self, root):
        """Write below this root."""
        self.root = root
        self.commands = {}  # the start of a command line: what it prints

    def file(self, path, content=""):
        """Write a file."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self

    def link(self, path, target):
        """Make a symbolic link."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        return self

    def directory(self, path):
        """Make a directory."""
        (self.root / path.lstrip("/")).mkdir(parents=True)
        return self

    def prints(self, command, text):
        """Let a command line that starts so print this."""
        self.commands[command] = text
        return self

    def node(self):
        """Return the node."""

        def start(argv):
            line = " ".join(argv).replace(str(self.root), "")
            return Canned(next((text for start, text in self.commands.items() if line.startswith(start)), None))

        return Node(self.root, start)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return Tree(root)


@pytest.fixture
def start():
    """Return what starts a program, waits until it says that it is ready, and returns it."""
    started = []

    def run(argv, **settings):
        program = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **settings)
        started.append(program)
        assert program.stdout.readline() == "ready\n"
        return program

    yield run
    for program in started:
        program.kill()
        program.wait()
