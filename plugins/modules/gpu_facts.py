#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read everything gpulab knows about a GPU node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: Read everything gpulab knows about a GPU node
version_added: 0.1.0
description:
  - Reads GPUs on the PCI bus, processors, memory and disks, kernels and the NVIDIA driver built for each, loaded
    modules, nouveau, the driver on disk, CUDA libraries, what NVML says of each GPU, who uses them, filesystems,
    container engines, what NCCL is told, limits of programs, and whether a reboot is due.
  - Changes nothing of the system, needs nothing but Python on the node, and works on a node without a driver, NVML or
    a GPU.
  - Never hangs. A driver that does not answer is the fact C(nvml.state=unresponsive).
options:
  timeout:
    description: Seconds that the driver has to answer.
    type: int
    default: 5
  work:
    description:
      - V(begin) says that the run starts to work on the node. It is refused where another run works (GPULAB-S010),
        and where a variable with the prefix of a gpulab role is unknown (GPULAB-I001).
      - V(look) is refused in the same cases, and does not hold the node.
      - V(end) seals the receipts that the roles of this run have written, and releases the node. A run that ended
        without V(end) holds the node until another run of the same machine finds that its process has ended, or until
        it has given no sign of life for five minutes.
      - In check mode, a run does not hold the node.
    type: str
    choices: [look, begin, go on, end]
    default: go on
  run:
    description: The run that this task belongs to. The action plugin sets it. Leave it out.
    type: dict
  kernel_values:
    description: Names of C(tuning_overrides), of which the plan has to know. The action plugin sets it. Leave it out.
    type: list
    elements: str
    default: []
  own_paths:
    description: >-
      Files and directories of gpulab's own, of which a preview has to know whether they are there. The action plugin
      sets it. Leave it out.
    type: list
    elements: str
    default: []
  dead:
    description: A run that is known to have ended. The action plugin sets it. Leave it out.
    type: dict
  program:
    description: >-
      A digest of gpulab's code that reads the facts. With V(look) and V(end) that code stays on the node, compiled, for
      the next run, which then brings none. The action plugin sets it. Leave it out.
    type: str
extends_documentation_fragment: [gpulab.node.attributes.facts, gpulab.node.attributes.platform]
notes:
  - Run it as root. Another user does not see whose processes hold a GPU, nor the boot loader's menu.
"""

EXAMPLES = r"""
- name: Read the node
  gpulab.node.gpu_facts:

- name: Show the GPUs
  ansible.builtin.debug:
    msg: "{{ ansible_facts['gpulab']['nvml']['gpus'] | map(attribute='name') | list }}"
"""

RETURN = r"""
ansible_facts:
  description: The facts, below the key C(gpulab).
  returned: always
  type: dict
  contains:
    gpulab:
      description:
        - "C(schema) is 1. C(simulated) is V(false), or the simulator's own line where GPUs are simulated."
        - "C(system), C(pci), C(hardware), C(kernels), C(modules), C(nouveau), C(forbidden), C(module_options),
          C(driver), C(cuda), C(libraries), C(nvml), C(users_of_gpus), C(filesystems), C(engines), C(containers),
          C(network), C(infiniband), C(ofed), C(imex), C(nccl), C(nccl_files), C(nccl_own), C(group), C(monitoring),
          C(limits), C(services), C(long_steps), C(fence), C(slurm), C(accounts), C(directory), C(model_store),
          C(work_images),
          C(kernel_log), C(storage), C(own_files), C(gpu_settings), C(tuning), C(data_loading), C(receipts) hold what
          was read; V(null) is what could not be."
        - "The file C(docs/facts.schema.json) of the collection describes every field."
        - "C(nvml.state) is one of V(ok), V(absent), V(not_loaded), V(mismatch), V(unresponsive), V(no_devices),
          V(error)."
        - "A reading below C(nvml.gpus) is a value, or C(unsupported) with NVML's reason where this board or driver has
          none, or C(error) with NVML's reason and C(code) where reading it failed."
        - "C(reboot.reasons) is empty where the driver on disk needs no reboot; C(reboot.loadable) is true where
          modprobe alone brings it."
      returned: always
      type: dict
      sample:
        schema: 1
        simulated: false
        system: {id: debian, version: "12", kernel: 6.1.0-50-amd64}
        pci: {gpus: [{address: "0000:19:00.0", device: "10de:2330", driver: nvidia}], nvswitches: []}
        nvml: {state: ok, driver_version: "535.261.03"}
        reboot: {reasons: [], loadable: false}
    gpulab_check_mode:
      description:
        - Whether this task ran in check mode, by C(--check) or by a play's own C(check_mode). Ansible's
          C(ansible_check_mode) does not show the latter.
      returned: always
      type: bool
      sample: false
    gpulab_missing:
      description: Those of O(own_paths) that are not there. In check mode, nobody asks for them again.
      returned: always
      type: list
      elements: str
      sample: [/etc/modprobe.d/gpulab-nouveau.conf]
    gpulab_software_trial:
      description: The last trial of M(gpulab.node.software_proof) in which nothing failed, where nothing that it
        depends on has changed since.
      returned: with O(work=look) and O(work=end)
      type: dict
refusal:
  description: >-
    Code, cause and remedy where another run works on the node, or where one of gpulab's records on the node is
    damaged.
  returned: on failure
  type: dict
holder:
  description: The run that works on the node.
  returned: on failure
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.reading import program
from ansible_collections.gpulab.node.plugins.module_utils.reading.look import look


def main() -> None:
    """Read and return."""
    module = AnsibleModule(argument_spec=program.ARGUMENTS, supports_check_mode=True)
    result = look(module.params, check_mode=module.check_mode)
    (module.fail_json if result.get("failed") else module.exit_json)(**result)


if __name__ == "__main__":
    main()
