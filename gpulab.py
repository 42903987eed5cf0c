#!/usr/bin/env python3
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `gpulab`: checks this machine, prints the line of ansible-playbook that a command stands for, runs it.

It decides nothing else: whoever types the printed line gets the same. It runs in a checkout of gpulab, by any Python
from 3.9 on: as ./gpulab.py, or as gpulab once installed (uvx --from . gpulab, pipx install .).
"""

from __future__ import annotations

import argparse
import difflib
import json
import locale
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

PLAYBOOKS = {
    "plan": ("playbooks/plan.yml", "show what would change and why; change nothing"),
    "apply": ("site.yml", "provision the nodes and prove them"),
    "verify": ("playbooks/verify.yml", "prove the nodes; change nothing"),
    "diagnose": ("playbooks/diagnose.yml", "say why a program fails, hangs, is slow or has no memory"),
    "capture": ("playbooks/capture.yml", "keep what a reinstall would lose"),
    "reinstall": ("playbooks/reinstall.yml", "install the nodes' system anew"),
    "rebuild": ("playbooks/rebuild.yml", "bring back what a capture keeps"),
    "rollout": ("playbooks/rollout.yml", "change node by node, behind a fence"),
    "history": ("playbooks/history.yml", "show what the proofs of the past nights found"),
    "remove": ("playbooks/remove.yml", "remove from the nodes what gpulab did"),
}
OTHERS = {
    "doctor": "check this machine: Python, Ansible, locale, rights, inventory",
    "init": "write a first inventory",
    "lab": "start two nodes with simulated GPUs here, and provision them",
    "completion": "print the completion of a shell: bash or zsh",
}
TYPES = ("workstations", "shared_workstations", "training_servers", "inference_servers")
INVENTORY = Path("inventory/hosts.yml")
HERE = Path("examples/here/hosts.yml")
NEEDED_PYTHON, NEEDED_CORE = (3, 11), (2, 19)
INSTALL = "python3 -m venv .venv && .venv/bin/pip install -r requirements/run.txt"


class Problem(NamedTuple):
    """What keeps gpulab from running on this machine, and what helps."""

    cause: str
    remedy: str


def main(argv: list[str] | None = None) -> None:
    """Run one command; a problem of this machine ends it before anything else with exit status 1."""
    options, passed_on = parser().parse_known_args(argv)
    if options.command == "completion":
        print(completion(options.shell))
        return
    os.chdir(checkout())
    if options.command == "init":
        print(init(options.nodes, options.type, options.user))
        return
    use_environment_of_checkout()
    doctor = options.command == "doctor"
    # The inventory is read by Ansible, which may be what is missing.
    problems = check() or (check_inventory() if doctor else check_limit(options) if "limit" in options else [])
    if problems:
        print("\n".join(map(doctors_line, problems)))
        sys.exit(1)
    if doctor:
        print("This machine can run gpulab.")
    elif options.command == "lab":
        run(["make", "lab"])
    else:
        run(command_line(options, passed_on))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line. What it does not know goes on to ansible-playbook."""
    top = argparse.ArgumentParser(
        prog="gpulab",
        description="From a bare Linux machine to a deep-learning GPU node that is proven to work.",
        allow_abbrev=False,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (playbook, what) in PLAYBOOKS.items():
        other = f"Other options go to ansible-playbook {playbook} as they are."
        command = commands.add_parser(name, help=what, epilog=other, allow_abbrev=False)
        command.add_argument("-l", "--limit", metavar="NODES", help="only these nodes")
        command.add_argument(
            "-i", "--inventory", action="append", default=[], metavar="FILE", help="instead of inventory/"
        )
        command.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", type=setting, help="a setting, null too"
        )
        command.add_argument("--here", action="store_true", help="this machine has the GPUs; it is a workstation")
    for name, what in OTHERS.items():
        command = commands.add_parser(name, help=what)
        if name == "init":
            command.add_argument("nodes", nargs="*", metavar="NODE", help="names of the nodes, as SSH knows them")
            command.add_argument("--type", choices=TYPES, default=TYPES[0], help="what they are for")
            command.add_argument("--user", help="as whom SSH logs in")
        if name == "completion":
            command.add_argument("shell", choices=("bash", "zsh"))
    return top


def setting(text: str) -> tuple[str, object]:
    """Return the name and the value of name=value: true, yes, null and JSON are as they look, the rest is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        message = f"{text!r} is no setting: write --set name=value"
        raise argparse.ArgumentTypeError(message)
    if name.endswith("_password"):
        message = f"{name} would stand in the list of processes, which everybody here can read: keep it in a vault"
        raise argparse.ArgumentTypeError(message)
    words = {"true": True, "yes": True, "false": False, "no": False, "null": None, "none": None, "~": None}
    if value.lower() in words:
        return name, words[value.lower()]
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def command_line(options: argparse.Namespace, passed_on: list[str]) -> list[str]:
    """Return the line that a command stands for. This machine needs root, and cannot be rebooted by a run on it."""
    argv = ["ansible-playbook", *inventories(options), PLAYBOOKS[options.command][0]]
    limit = options.limit or ("gpu-nodes" if options.command == "apply" else None)
    argv += ["-l", limit] if limit else []
    settings = dict(options.set)
    if options.here:
        settings.setdefault("reboot_policy", "never")
        argv += ["--ask-become-pass"] if os.geteuid() and not sudo_asks_nothing() else []
    argv += ["-e", json.dumps(settings)] if settings else []
    return argv + [word for word in passed_on if word != "--"]


def inventories(options: argparse.Namespace) -> list[str]:
    """Return the options of Ansible that name the inventory, where it is not that of ansible.cfg."""
    return [word for name in [str(HERE)] * options.here + options.inventory for word in ("-i", name)]


def sudo_asks_nothing() -> bool:
    """Return whether sudo works here without a password."""
    return shutil.which("sudo") is not None and not subprocess.call(["sudo", "-n", "true"], stderr=subprocess.DEVNULL)


def run(argv: list[str]) -> None:
    """Print the line and become it, so that its exit status and its signals are ansible-playbook's own."""
    print(f"$ {shlex.join(argv)}")
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        sys.exit(f"gpulab: {argv[0]} is not installed")


def checkout() -> Path:
    """Return the checkout: where the command was called, this file's, or the one that it was installed from."""
    chosen = [Path(__file__).resolve().parent]
    try:
        source = json.loads(metadata.distribution("gpulab").read_text("direct_url.json") or "{}").get("url", "")
        chosen.append(Path(source.replace("file://", "", 1)))
    except metadata.PackageNotFoundError:
        pass
    for place in (Path.cwd(), *Path.cwd().parents, *chosen):
        if (place / "site.yml").is_file() and (place / "collections/ansible_collections/gpulab").is_dir():
            if place in chosen or is_of_the_caller(place):
                return place
            sys.exit(f"gpulab: {place} is another user's, whose code would run. If you trust it: {place}/gpulab.py")
    sys.exit("gpulab: there is no checkout of gpulab here. Change into it, then run this again.")


def is_of_the_caller(place: Path) -> bool:
    """Return whether what lies in a directory is root's or of whoever calls this, by sudo too."""
    status, callers = place.stat(), (0, os.geteuid(), int(os.environ.get("SUDO_UID") or 0))
    return status.st_uid in callers and not status.st_mode & stat.S_IWOTH


def use_environment_of_checkout() -> None:
    """Go on with the Python of .venv where this one has no Ansible, and let its programs be found."""
    own = Path(".venv/bin").resolve()
    if not version_of_core() and (own / "ansible-playbook").is_file() and Path(sys.prefix) != own.parent:
        os.execv(own / "python", [str(own / "python"), __file__, *sys.argv[1:]])  # noqa: S606
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def version_of_core() -> str:
    """Return the version of ansible-core that this Python has; empty where it has none."""
    try:
        return metadata.version("ansible-core")
    except metadata.PackageNotFoundError:
        return ""


def check() -> list[Problem]:
    """Return what keeps a run from starting on this machine, or would let it end without a word."""
    return [problem for look in (check_ansible, check_locale, check_rights, check_reports) for problem in look()]


def check_ansible() -> list[Problem]:
    """Return whether Python or Ansible are missing or too old."""
    core = version_of_core()
    if not core and shutil.which("ansible-playbook"):
        return []  # it has a Python of its own: the run says whether that is too old
    if sys.version_info[:2] < NEEDED_PYTHON:
        cause = f"Python {sys.version.split()[0]} is too old: gpulab needs 3.11 or later on this machine"
        return [
            Problem(
                cause, "uvx --from . gpulab doctor   (uv brings a Python), or install python3.11 and python3.11-venv"
            )
        ]
    if not core:
        return [Problem("ansible-core is not installed", f"{INSTALL}   or: uvx --from . gpulab")]
    if tuple(int(number) for number in re.findall(r"\d+", core)[:2]) < NEEDED_CORE:
        return [Problem(f"ansible-core {core} is too old: gpulab needs 2.19 or later", INSTALL)]
    return []


def check_locale() -> list[Problem]:
    """Return whether Ansible would refuse the locale."""
    try:
        locale.setlocale(locale.LC_ALL, "")
        if locale.getpreferredencoding(do_setlocale=False).lower().replace("-", "") == "utf8":
            return []
    except locale.Error:
        pass
    return [Problem("the locale's encoding is not UTF-8, which Ansible needs", "export LC_ALL=C.UTF-8")]


def check_rights() -> list[Problem]:
    """Return whether Ansible would pass over ansible.cfg, since everybody may write to the checkout."""
    if not Path.cwd().stat().st_mode & stat.S_IWOTH or os.environ.get("ANSIBLE_CONFIG"):
        return []
    cause = f"everybody may write to {Path.cwd()}, so Ansible does not read its ansible.cfg"
    return [Problem(cause, "chmod o-w .   (a shared folder, WSL's /mnt: keep the checkout elsewhere)")]


def check_reports() -> list[Problem]:
    """Return the folders of results that whoever calls this may not write to."""
    locked = [
        name for name in ("reports", "captures", "rollouts") if Path(name).is_dir() and not os.access(name, os.W_OK)
    ]
    cause = f"{', '.join(locked)} {'belongs' if len(locked) == 1 else 'belong'} to another user"
    return [Problem(cause, f"sudo chown -R $USER {' '.join(locked)}")] if locked else []


def check_inventory() -> list[Problem]:
    """Return whether the inventory cannot be read or has no node."""
    asked = graph("gpu-nodes")
    if asked.returncode:
        return [Problem(asked.stderr.strip().splitlines()[0].replace("[ERROR]: ", ""), f"$EDITOR {INVENTORY}")]
    if "--" in asked.stdout.replace("--@", ""):
        return []
    return [Problem(f"{INVENTORY} has no node", "gpulab init   or, for this machine: gpulab apply --here")]


def check_limit(options: argparse.Namespace) -> list[Problem]:
    """Return what -l names and the inventory does not have. Ansible names no others, and says nothing of some."""
    if not options.limit or not re.fullmatch(r"[\w.,:!&-]+", options.limit) or "::" in options.limit:
        return []
    asked = graph(*inventories(options))
    names = re.findall(r"^[| -]*@?(.+?):?$", asked.stdout, re.MULTILINE)
    unknown = set(re.split(r"[,:!&]+", options.limit)) - {"", "localhost", *names}
    problems = []
    for name in sorted(unknown) if not asked.returncode else ():
        near = difflib.get_close_matches(name, names, 1)
        advice = f"did you mean -l {near[0]}?" if near else f"there are {', '.join(dict.fromkeys(names))}"
        problems.append(Problem(f"the inventory has no host or group {name}", advice))
    return problems


def graph(*words: str) -> subprocess.CompletedProcess[str]:
    """Return what ansible-inventory says of groups and hosts."""
    return subprocess.run(["ansible-inventory", "--graph", *words], capture_output=True, text=True, check=False)


def init(nodes: list[str], kind: str, user: str | None) -> str:
    """Write the nodes under their type into the inventory, and return what was done. An inventory with nodes is kept.

    Without names it asks for them. Raises SystemExit where there is nothing to write or the inventory is in use.
    """
    text = INVENTORY.read_text(encoding="utf-8")
    if "hosts:" in text:
        sys.exit(f"gpulab: {INVENTORY} has nodes already; add others by hand")
    if not nodes and sys.stdin.isatty():
        nodes = input("Names of the nodes, as SSH knows them: ").split()
        kind = input(f"What are they for? ({', '.join(TYPES)}) [{kind}]: ").strip() or kind
    if not nodes or kind not in TYPES:
        sys.exit("gpulab: name the nodes and their type, as in: gpulab init --type training_servers node01 node02")
    if wrong := [name for name in nodes if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name)]:
        sys.exit(f"gpulab: {', '.join(wrong)} is no name of a host")
    variables = f" {{ansible_user: {json.dumps(user)}}}" if user else ""
    hosts = "".join(f"        {name}:{variables}\n" for name in nodes)
    INVENTORY.write_text(
        re.sub(rf"^    {kind}:\n", f"    {kind}:\n      hosts:\n{hosts}", text, flags=re.MULTILINE), "utf-8"
    )
    return f"{INVENTORY} has {', '.join(nodes)} as {kind}. Next: gpulab plan"


def completion(shell: str) -> str:
    """Return what the shell reads to complete commands and options."""
    words = " ".join([*PLAYBOOKS, *OTHERS])
    options = "--limit --set --here --check --diff --ask-become-pass --tags --forks"
    if shell == "zsh":
        return f"""_gpulab() {{ if (( CURRENT == 2 )); then compadd {words}; else compadd -- {options}; fi }}
compdef _gpulab gpulab gpulab.py"""
    return f"""_gpulab() {{
    if [ "$COMP_CWORD" = 1 ]; then set -- "{words}"; else set -- "{options}"; fi
    COMPREPLY=($(compgen -W "$1" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -F _gpulab gpulab gpulab.py"""


def doctors_line(problem: Problem) -> str:
    """Return a problem and its remedy in two lines."""
    return f"gpulab: {problem.cause}\n  -> {problem.remedy}"


if __name__ == "__main__":
    main()
