# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each path of a node's root file systems belongs: exactly one bin, so that nothing is left over unseen."""

from __future__ import annotations

PACKAGE = "package"  # a package brings it back, unchanged
CHANGED = "changed"  # a package's, but not as the package brought it: captured
GPULAB = "gpulab"  # a run of gpulab brings it back
CAPTURED = "captured"
LOCK = "lock"  # of an environment or a container image, which its lock or digest brings back
CACHE = "cache"  # catalog/ephemeral.yml says why nobody misses it
RECEIPT = "receipt"  # a backup has it
ACKNOWLEDGED = "acknowledged"  # the lab said that it may be lost
BINS = (PACKAGE, CHANGED, GPULAB, CAPTURED, LOCK, CACHE, RECEIPT, ACKNOWLEDGED)
