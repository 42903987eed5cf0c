"""A connection to this machine that is dead from the moment at which the module DIES_AT is to run."""

import os
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = """
name: dies
short_description: Die when a module is to run
description: As the connection local until then.
author: The gpulab founders
"""
TIMED_OUT = "ssh: connect to host node07 port 22: Connection timed out"


class Connection(Local):
    """Each task has a process of its own, so that the death is a file, DIES_MARK."""

    transport = "dies"

    def exec_command(self, cmd, in_data=None, sudoable=True):  # noqa: FBT002 - Ansible's signature
        """Run the command, unless the machine is dead."""
        mark = Path(os.environ["DIES_MARK"])
        if os.environ["DIES_AT"] in cmd + (in_data or b"").decode(errors="replace"):
            mark.touch()
        if mark.exists():
            raise AnsibleConnectionFailure(TIMED_OUT)
        return super().exec_command(cmd, in_data, sudoable)
