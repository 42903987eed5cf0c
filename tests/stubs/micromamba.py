#!/usr/bin/env python3
"""A stand-in for micromamba 2.8: real solves and installs by py-rattler, micromamba's command line and JSON.

It knows what gpulab asks of micromamba, and no more: create (of specs, of an explicit lock, --dry-run), list, env list,
shell hook. py-rattler lies in LIBRARIES, or is this interpreter's own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path

LIBRARIES = "/opt/micromamba-stand-in"
sys.path.insert(0, LIBRARIES)
from rattler import Channel, Gateway, PrefixRecord, VirtualPackage, VirtualPackageOverrides, install, solve

VERSION = "2.8.1"
HOOK = 'micromamba() { if [ "$1" = activate ]; then PATH="$MAMBA_ROOT_PREFIX/envs/$2/bin:$PATH"; fi; }'


def records(prefix: Path) -> list[PrefixRecord]:
    """Return what is installed in a prefix."""
    return [PrefixRecord.from_path(path) for path in sorted(prefix.glob("conda-meta/*.json"))]


def entry(record: PrefixRecord) -> dict[str, str]:
    """Return a package as micromamba's JSON has it."""
    build = json.loads(record.to_json())["build"]
    return {
        "name": record.name.normalized,
        "version": str(record.version),
        "build_string": build,
        "url": str(record.url),
    }


async def of_lock(text: str, gateway: Gateway) -> list[PrefixRecord]:
    """Return the packages of an explicit lock, which must be those that the channels have."""
    lines = [line.strip().partition("#") for line in text.splitlines() if line.strip() and line[0] not in "#@"]
    wanted = {url: digest.removeprefix("sha256:") for url, _sign, digest in lines}
    channels = sorted({url.rsplit("/", 2)[0] for url in wanted})
    names = sorted({url.rsplit("/", 1)[1].rsplit("-", 2)[0] for url in wanted})
    groups = await gateway.query([Channel(one) for one in channels], ["linux-64", "noarch"], names, recursive=False)
    found = [record for group in groups for record in group if str(record.url) in wanted]
    for record in found:
        if wanted[str(record.url)] not in ("", record.sha256.hex()):
            message = f"File not valid: SHA256 sum doesn't match expectation {record.file_name}"
            raise ValueError(message)
    if len(found) != len(wanted):
        message = f"package not found: {sorted(set(wanted) - {str(record.url) for record in found})}"
        raise ValueError(message)
    return found


async def chosen(given: argparse.Namespace) -> list[PrefixRecord]:
    """Return the packages that an environment is to hold."""
    gateway = Gateway(show_progress=False)
    if given.text:
        return await of_lock(given.text, gateway)
    virtual = [one.into_generic() for one in VirtualPackage.detect(VirtualPackageOverrides.from_env())]
    channels = [Channel(one) for one in given.channel]
    platforms = ["linux-64", "noarch"]
    return await solve(channels, given.specs, platforms=platforms, gateway=gateway, virtual_packages=virtual)


async def create(given: argparse.Namespace) -> int:
    """Make an environment, or tell what would be in it; both as JSON."""
    prefix = Path(given.prefix)
    try:
        found = await chosen(given)
        if not given.dry_run:
            await install(found, prefix, show_progress=False, cache_dir=Path(os.environ["CONDA_PKGS_DIRS"]))
            listed = Path.home() / ".conda/environments.txt"
            listed.parent.mkdir(parents=True, exist_ok=True)
            with listed.open("a", encoding="utf-8") as stream:
                stream.write(f"{prefix}\n")
    except Exception as error:  # noqa: BLE001 - whatever py-rattler raises is told as micromamba would
        told = [str(error)]
        while error.__cause__:
            error = error.__cause__
            told.append(str(error))
        history = [{"level": "critical", "message": ": ".join(told)}]
        print(json.dumps({"log_history": history, "success": False}, indent=4))
        return 1
    link = {"LINK": [entry(record) for record in found]}
    actions = {"FETCH": [], "PREFIX": str(prefix), **link}
    result = {"actions": actions, "dry_run": given.dry_run, "log_history": [], "prefix": str(prefix), "success": True}
    print(json.dumps(result, indent=4))
    return 0


def env_list() -> None:
    """Print the environments of root's list and of the root prefix, as micromamba does."""
    listed = Path.home() / ".conda/environments.txt"
    found = set(listed.read_text(encoding="utf-8").splitlines() if listed.exists() else ())
    found |= {str(path) for path in Path(os.environ["MAMBA_ROOT_PREFIX"], "envs").glob("*")}
    print(json.dumps({"envs": sorted(path for path in found if Path(path, "conda-meta").is_dir())}))


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("create")
    one.add_argument("--prefix", required=True)
    one.add_argument("--file")
    one.add_argument("--channel", action="append", default=[])
    for flag in ("--yes", "--json", "--dry-run", "--override-channels"):
        one.add_argument(flag, action="store_true")
    one.add_argument("specs", nargs="*")
    one = commands.add_parser("list")
    one.add_argument("--prefix", required=True)
    one.add_argument("--json", action="store_true")
    one = commands.add_parser("env")
    one.add_argument("what", choices=["list"])
    one.add_argument("--json", action="store_true")
    one = commands.add_parser("shell")
    one.add_argument("what", choices=["hook"])
    one.add_argument("--shell")
    given = parser.parse_args()
    given.text = Path(given.file).read_text(encoding="utf-8") if getattr(given, "file", None) else ""
    return given


def main() -> int:
    """Do what is asked."""
    given = arguments()
    if given.command == "create":
        return asyncio.run(create(given))
    if given.command == "list":
        print(json.dumps({"packages": [entry(record) for record in records(Path(given.prefix))]}))
    elif given.command == "env":
        env_list()
    else:
        print(HOOK)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # py-rattler's threads can crash an interpreter that takes its time to end
