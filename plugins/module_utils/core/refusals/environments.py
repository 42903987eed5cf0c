# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about Python environments."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # line is the essential part of what uv, pip or the environment's own interpreter said
    "E001": (
        "{path} exists, but gpulab did not create it",
        "Move it away, or give the environment another name. Nothing was changed.",
    ),
    "E002": (
        "a package index cannot be reached for {name}: {line}",
        "{advice} {former}",
    ),
    "E003": (
        "the checksum of a file for {name} does not match: {line}",
        "A proxy or mirror serves altered files, or the lock is for another system. {former}",
    ),
    "E004": (
        "the packages of {name} conflict with each other: {line}",
        "Change its packages, its channels or its framework's version. {former}",
    ),
    "E005": (
        "the index has no wheel of a package of {name} for its Python: {line}",
        (
            "Check the package's name and version. If the index has a wheel, something else answers at its address,"
            " such as a login page: check the node's proxy and pip.conf. {former}"
        ),
    ),
    "E006": (
        "no Python was found for {name}: {line}",
        "Use the system's Python, or set a mirror of Python builds: environments_python_mirror. {former}",
    ),
    "E007": (
        "a line of a lock does not pin its package: {line}",
        (
            "Write name==version with --hash. In a conda lock, write ADDRESS#SHA256 for a package of a channel, and"
            " name @ git+ADDRESS@COMMIT for one from git. gpulab.lock has examples. Nothing was changed."
        ),
    ),
    "E008": ("{name} was built but does not work: {line}", "Correct the error. {former}"),
    "E009": ("{name} could not be built: {line}", "Read {log} on the node. {former}"),
    "E010": ("{name} is in use by the processes {users}", "Wait for them to end, and run again. Nothing was removed."),
    "E011": (
        "the disk is full, so {name} cannot be built: {line}",
        "Free space on the file system of the environments. {former}",
    ),
    # E012 to E018: conda
    "E012": (
        "a channel cannot be reached for {name}: {line}",
        "{advice} {former}",
    ),
    "E013": (
        "micromamba cannot be fetched from {url}: {detail}",
        "{advice} Or set a mirror: conda_micromamba_url. Nothing was changed.",
    ),
    "E014": (
        "the SHA-256 of {url} is {found}, but {wanted} is expected",
        "A proxy or mirror serves another file, or the version and the SHA-256 do not match. Nothing was installed.",
    ),
    "E015": (
        "the SHA-256 of micromamba {version} for {architecture} is unknown",
        "Set conda_micromamba_sha256 to the value in its release (the file .sha256 beside it). Nothing was changed.",
    ),
    "E016": (
        "{name} uses the channel {channel}, which is not free for everybody, so gpulab does not resolve that name",
        (
            "Set conda_defaults_channel to another channel, such as conda-forge. Or set the environment's channels,"
            " which replace those of its file. Or write the channel's full address there. Nothing was changed."
        ),
    ),
    "E017": (
        "{path} exists, so {directory} is another installation of conda",
        "Choose another directory for gpulab: conda_directory. Nothing was changed.",
    ),
    "E018": ("{file} of the environment {name} cannot be used: {detail}", "{advice} Nothing was changed."),
    # E019 to E022: groups, locks and kernels of Jupyter
    "E019": (
        "environment {name} is for the group {group}, which does not exist on this node",
        "Create the group, or use another one. Nothing was changed.",
    ),
    "E020": (
        "the lock of {name} does not contain {package}, which is requested",
        "Use the lock of an environment that contains it, or remove the request. Nothing was changed.",
    ),
    "E021": (
        "{path} exists, but gpulab did not write it",
        "Move it away, or remove jupyter from the environment of that name. Nothing was changed.",
    ),
    "E022": (
        "{package} cannot be locked: the index gives no SHA-256, and pip before 23.1 does not calculate it",
        "Request pip >=23.1 in the environment, or use an index that gives it. The environment is unchanged.",
    ),
    # E030 to E039: what cannot be fetched, built or locked
    "E030": (
        "{package} cannot be locked: pip installed it from {source}, whose content can change",
        (
            "Request a wheel of it, by its address or from your own index, or a git address with the full commit."
            " The environment is unchanged."
        ),
    ),
    "E031": (
        "no channel of {name} has a package that it needs: {line}",
        "Check its name and version, or add the channel that has it to the environment's channels. {former}",
    ),
    "E032": (
        "the source code of a package of {name} does not build: {line}",
        (
            "It may need a compiler, CUDA or another package that pip does not provide. Request a wheel of it, by its"
            " address or from your own index. {former}"
        ),
    ),
    "E033": (
        "git cannot fetch a package of {name}: {line}",
        (
            "Check its address and commit, and the node's network and proxy. Check that git is one of the"
            " environment's packages. {former}"
        ),
    ),
    "E034": (
        "pip's configuration on the node cannot be read: {path}: {detail}",
        "Correct the file; pip config debug on the node shows what pip reads. Nothing was changed.",
    ),
    "E037": (
        "{path} cannot hold environments: in {directory}, others than root may put another directory in its place",
        (
            "Set a directory below those that only root may write to, such as /opt, or let only root write to"
            " {directory}. Nothing was changed."
        ),
    ),
    # E068 to E077: files of others, and packages that have no wheel
    "E068": (
        "packages of {name} cannot be had as they are asked for: {line}",
        (
            "Set the python or the replace that is named, if one is, in the environment. Otherwise change or remove"
            " these packages. A package that needs a compiler is built if you list it in the environment's setting"
            " compile. If the index has what is missing, something else answers at its address, such as a login page:"
            " check the node's proxy and pip.conf. {former}"
        ),
    ),
    "E069": (
        "the package index has no {package} for {name}: builds named +{build} are in an index of their own",
        (
            "Write the version without +{build}, and set index: {build} in the environment, which takes it from"
            " PyTorch's index of that build. {former}"
        ),
    ),
    "E070": (
        "{file} of the environment {name} is for {system}, not for Linux: {detail}",
        (
            "Use a file that was exported on Linux, or one without builds (conda env export --from-history)."
            " Nothing was changed."
        ),
    ),
    "E071": (
        "{file} of the environment {name} needs Python {needed}, but {python} is planned",
        "Set python in the environment to one that it takes, quoted. Nothing was changed.",
    ),
    "E072": (
        "the lock is a file of {tool}, not a list of packages with hashes",
        (
            "Name it as file, not as lock, in the environment. Or make a list of it: uv export --no-emit-project."
            " Nothing was changed."
        ),
    ),
}
refuse = partial(build, CODES)
