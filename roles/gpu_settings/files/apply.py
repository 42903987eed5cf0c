"""Bring the GPUs to the settings in /etc/gpulab/gpu-settings.conf: the program of gpulab-gpu-settings.service."""

import sys
from pathlib import Path

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import host, plan

try:
    done, failed = host.at_boot(Path(plan.FILE).read_text(encoding="utf-8"))
except Refusal as refusal:
    sys.exit(str(refusal))
sys.stdout.write("".join(f"{line}\n" for line in done))
sys.exit("\n".join(failed) or 0)
