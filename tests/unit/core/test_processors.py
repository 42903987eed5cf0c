"""A program for another processor is told from one of this node, and from what is no program."""

import platform

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import first_container
from ansible_collections.gpulab.node.plugins.module_utils.core import processors
from ansible_collections.gpulab.node.plugins.module_utils.environments.venv_host import Tool, Venvs

BOTH = sorted(processors.ELF_MACHINES)


@pytest.mark.parametrize("of", BOTH)
@pytest.mark.parametrize("machine", BOTH)
def test_a_program_is_foreign_where_it_is_for_another_processor(tmp_path, of, machine):
    program = tmp_path / "program"
    program.write_bytes(first_container.program(of))
    assert processors.is_foreign(program, machine) is (of != machine)


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\nexit\n", b"\x7fEL", bytes(64)])
def test_what_is_no_program_is_not_foreign(tmp_path, content):
    script = tmp_path / "script"
    script.write_bytes(content)
    assert not processors.is_foreign(script, "aarch64")
    assert not processors.is_foreign(tmp_path / "missing", "aarch64")


@pytest.mark.parametrize(("of_another", "fetched"), [(False, False), (True, True)])
def test_uv_for_another_processor_is_fetched_again(tmp_path, of_another, fetched):
    """A directory of environments that several nodes share, or that a backup brought."""
    here = platform.machine()
    other = next(one for one in BOTH if one != here)
    venvs = Venvs(tmp_path, Tool("1.0", "0" * 64), {})
    venvs.uv.parent.mkdir(parents=True)
    venvs.uv.write_bytes(first_container.program(other if of_another else here))
    assert (venvs.fetch_tool() is not None) is fetched
