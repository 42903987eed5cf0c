# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual environments: what one holds, what is wanted of it, and what it takes to get there. No I/O happens here.

An environment NAME is the link DIRECTORY/NAME to one of its builds, DIRECTORY/.builds/NAME/NUMBER. A change makes a new
build beside the others and then moves the link; a build itself is never changed. A build holds, besides what every
virtual environment does, RECORD (what it was made of) and LOCK (the exact packages with their hashes).
"""

from __future__ import annotations

import configparser
import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import normalized
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.environments import refuse

if TYPE_CHECKING:
    from pathlib import PurePath

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

FORMER = "The former environment stays in use."
RECORD = "gpulab.json"
NO_ANSWER = {"failure": "the test wrote no result"}
LOCK = "gpulab.lock"
ANY = "any"  # as the CUDA of a plan: the framework's version is that of a file, and so is the CUDA that it is built for
NOT_ASKED_FOR = (
    "it is a build without CUDA, which nothing asks for: ask for one with CUDA, by conda with a package such as"
    " pytorch=*=cuda*, or for this one, by conda with one such as pytorch=*=cpu*, else by index: cpu"
)
LATER = ("constraints", "overrides", "compile", "prereleases")
VARIABLES = "gpulab_variables.pth"
CAPTURED = Path("/var/lib/gpulab/locks")

_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;\\]+)")
_ADDRESSED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*@\s*(?:https?|file)://\S*?([^/\s]*)(?=\s)")
_OPTION_OF_LOCK = re.compile(
    r"^--(?:(?:index-url|extra-index-url|find-links|no-index|trusted-host|only-binary|prefer-binary|pre|require-hashes)\b)"
)
_NAMED = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(?=[^;]*$)")  # where no marker says that it may be left out
_ERROR = re.compile(r"^ *error: .*(?:\n(?:\s+cause: |\s+).*)*", re.MULTILINE)

_LOCAL = re.compile(r"there is no version of (\w[\w.-]*?(?:==|@)[^\s+]+\+((?:cu|cpu|rocm)[\w.]*))")
_NOTHING = r"\(from versions: none\)"  # which pip says of an index that it does not reach, too

# What uv or pip printed, and the refusal that it means; the first that is found counts.
CAUSES = [
    ("E068", r"(?m)^gpulab: "),
    ("E011", r"No space left on device|Disk quota exceeded"),
    ("E003", r"Hash mismatch|DO NOT MATCH THE HASHES|have a hash, but none were provided"),
    ("E006", r"python-build-standalone|No interpreter found|No download found for"),
    ("E002", rf"(?s)(?:connection broken by|Skipping page|is not a trusted or secure host).*{_NOTHING}"),
    ("E002", r"Failed to fetch|error sending request|ssl-verification-failed|Unsupported `Content-Type`"),
    ("E002", r"could not be queried|returned a 403 Forbidden|HTTP (?:status .*)?error"),
    ("E033", r"Cannot find command 'git'|Git operation failed|\bgit \w+.* did not run successfully"),
    (
        "E032",
        r"subprocess-exited-with-error|metadata-generation-failed|pyproject_hooks|[Ff]ailed (?:to build|building)",
    ),
    ("E005", r"No matching distribution found|no usable wheels|has no wheels|no source distribution|--no-build"),
    ("E005", r"was not found in the package registry|there are no versions of|Building source .* is disabled"),
    ("E004", r"No solution found|ResolutionImpossible"),
    ("E002", r"Failed to establish|Max retries exceeded|timed out"),
]
_STATUS = r"(?<![:\w]){}\b"  # of HTTP; after a colon it is a port
# Why an index, a channel or a server cannot be reached, and the remedy.
OBSTACLES = [
    (
        r"CERTIFICATE_VERIFY_FAILED|ssl-verification-failed|invalid peer certificate|SSL (?:peer )?certificate",
        "Its certificate is not trusted: add its authority, such as that of your proxy, to base_ca_certificates.",
    ),
    (
        _STATUS.format("407") + "|proxy authorization required",
        "The proxy requires a user and a password: set them in base_https_proxy, or as proxy in the node's pip.conf.",
    ),
    (
        r"Tunnel connection failed|tunnel error|CONNECT (?:tunnel failed|aborted)|response 403 .*proxy",
        "The proxy blocks this address: have the proxy allow it, or set a mirror that the proxy allows.",
    ),
    (
        r"Name or service not known|in name resolution|Failed to resolve|dns error|[Cc]ould(?: not|n't) resolve",
        "Its name cannot be resolved: check the address and the node's DNS. Behind a proxy, set base_https_proxy.",
    ),
    (_STATUS.format("404"), "That file does not exist: check the address."),
    (r"Content-Type", "Something else answers there, such as a proxy's login page: check the address and the proxy."),
    (_STATUS.format("40[13]"), "It denies this node access: check the address, and the user and password in it."),
    (r"not a trusted or secure host", "Use its https address, or set it as trusted-host in the node's pip.conf."),
]


@dataclass(frozen=True)
class Wanted:
    """What is wanted of an environment.

    requirements are as pip takes them; index is the address of an index of packages that come from nowhere else;
    lock is the text of a requirements file with hashes, and stands in for the requirements; variables are set in every
    interpreter of the environment where its user has not set them. framework, version and cuda are what the plan says;
    ANY is any CUDA. constraints and overrides are as uv takes them; compile names packages whose source code may need a
    compiler. prereleases tells whether versions before a release are taken.
    """

    name: str
    python: str
    requirements: tuple[str, ...] = ()
    index: str | None = None
    index_packages: tuple[str, ...] = ()
    lock: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    framework: str | None = None
    version: str | None = None
    cuda: str | None = None
    constraints: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    compile: tuple[str, ...] = ()
    prereleases: bool = False

    @property
    def fingerprint(self) -> str:
        """Return a digest of all that decides what a build holds: of an index the last part, cu126, not the server.

        What came with a later gpulab counts where it is set, so that an update of gpulab rebuilds nothing.
        """
        given = {key: value for key, value in asdict(self).items() if value or key not in LATER}
        given["index"] = (self.index or "").rstrip("/").rpartition("/")[2]
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()

    def expected(self) -> dict[str, Any]:
        """Return what the proof compares with."""
        return {key: getattr(self, key) for key in ("framework", "version", "cuda", "python", "variables")}


@dataclass(frozen=True)
class Build:
    """A build as it is found: its number, its record, the names in its site-packages, whether its Python is there.

    sizes are those of files that are never changed.
    """

    number: int
    record: dict[str, Any]
    names: tuple[str, ...]
    python: bool
    sizes: dict[str, int] = field(default_factory=dict)


def captured_lock(path: PurePath) -> Path:
    """Return where the lock of an environment waits that was there before a reinstall."""
    return CAPTURED / f"{str(path).lstrip('/')}.lock"


def locked(text: str) -> dict[str, str]:
    """Return the version of each package of a lock.

    Raises Refusal E007 for a line that pins nothing, E072 for a lock of another form.
    """
    tables = re.search(r"^\[\[(packages?)\]\]$", text, re.MULTILINE)
    if tables:
        raise refuse("E072", tool="uv (uv.lock)" if tables[1] == "package" else "the form pylock.toml")
    found = {}
    for line in text.replace("\\\n", " ").splitlines():
        requirement = line.strip()
        if not requirement or requirement.startswith("#") or _OPTION_OF_LOCK.match(requirement):
            continue
        match = _PINNED.match(requirement) or _ADDRESSED.match(requirement)
        if not match or "--hash=" not in requirement:
            raise refuse("E007", line=requirement.split(" --hash")[0])
        found[normalized(match[1])] = _version(match[2])
    return found


def told(name: str, record: dict[str, Any]) -> list[str]:
    """Return what a build cost in versions, as warnings: what was taken because of source code that does not build."""
    older = record.get("notes", {}).get("older", [])
    return [
        f"{name}: {one['name']} {one['version']} is taken, not {one['newer']}, because {one['because']}"
        for one in older
    ]


def _version(pinned: str) -> str:
    """Return the version that a lock pins: the one that it names, or that of the wheel whose address it has."""
    file = pinned.partition("#")[0]
    return unquote(file[: -len(".whl")].split("-")[1]) if file.endswith(".whl") and "-" in file else pinned


def check_lock(wanted: Wanted) -> None:
    """Raise Refusal E007 for a lock that pins nothing, E020 for one without a package that the requirements name."""
    if wanted.lock is None:
        return
    pinned = locked(wanted.lock)
    for requirement in wanted.requirements:
        match = _NAMED.match(requirement)
        if match and normalized(match[0]) not in pinned:
            raise refuse("E020", name=wanted.name, package=match[0])


def reasons(build: Build | None, wanted: Any) -> list[str]:
    """Return why an environment must be rebuilt; nothing where it is as it is wanted."""
    if build is None:
        return ["it does not exist"]
    if not build.python:
        return ["its Python no longer exists"]
    if build.record.get("fingerprint") != wanted.fingerprint:
        return ["its definition has changed"]
    then, now = set(build.record["names"]), set(build.names)
    gone = [f"{name} no longer exists" for name in sorted(then - now)]
    return gone + [f"{name} was installed by hand" for name in sorted(now - then)]


def steps(before: dict[str, str], after: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the packages that are added and removed, with their versions, and changed, with both."""
    return {
        "added": {name: after[name] for name in sorted(set(after) - set(before))},
        "removed": {name: before[name] for name in sorted(set(before) - set(after))},
        "changed": {
            name: [before[name], after[name]]
            for name in sorted(set(before) & set(after))
            if before[name] != after[name]
        },
    }


def listing(found: dict[str, str]) -> str:
    """Return packages one a line, for a diff."""
    return "".join(f"{name} {version}\n" for name, version in sorted(found.items()))


def project(wanted: Wanted) -> str:
    """Return a pyproject.toml that asks for the requirements, each from the index that it is to come from."""
    lines = [
        "[project]",
        f"name = {json.dumps(f'gpulab-{wanted.name}')}",
        'version = "0"',
        f"requires-python = {json.dumps(f'=={wanted.python}.*')}",
        f"dependencies = {json.dumps(list(wanted.requirements))}",
    ]
    if wanted.index:
        lines += ["[[tool.uv.index]]", 'name = "plan"', f"url = {json.dumps(wanted.index)}", "explicit = true"]
        lines += ["[tool.uv.sources]", *(f'{name} = {{ index = "plan" }}' for name in wanted.index_packages)]
    return "\n".join(lines) + "\n"


def startup_file(variables: dict[str, str]) -> str:
    """Return a .pth file, which Python reads at each start.

    It sets variables where the user has not, and lets a job that was started through the link of the environment go on
    with the build that this named then, for what it imports and for the interpreters that it starts.
    """
    stay = (
        "import os, sys; sys.path[:] = [os.path.realpath(one) if one else one for one in sys.path]; "
        "sys.executable = sys.executable and os.path.join(os.path.realpath(os.path.dirname(sys.executable)), "
        "os.path.basename(sys.executable))\n"
    )
    lines = [f"os.environ.setdefault({name!r}, {value!r})" for name, value in sorted(variables.items())]
    return stay + (f"import os; {'; '.join(lines)}\n" if lines else "")


def pip_settings(texts: list[str]) -> dict[str, str]:
    """Return uv's environment variables for what pip's configuration files say; a later file wins over an earlier one.

    uv reads none of pip's settings by itself.
    """
    parser = configparser.RawConfigParser(strict=False)
    for text in texts:
        parser.read_string(text)
    values: dict[str, str] = {}
    for section in ("global", "install"):
        items = parser.items(section) if parser.has_section(section) else ()
        values.update((name.lstrip("-").replace("_", "-"), value) for name, value in items)
    settings = {}
    for option, variable in (
        ("index-url", "UV_DEFAULT_INDEX"),
        ("extra-index-url", "UV_INDEX"),
        ("trusted-host", "UV_INSECURE_HOST"),
        ("cert", "SSL_CERT_FILE"),
        ("timeout", "UV_HTTP_TIMEOUT"),
        ("proxy", "HTTPS_PROXY"),
    ):
        if values.get(option):
            settings[variable] = " ".join(values[option].split())
    if values.get("find-links"):
        settings["UV_FIND_LINKS"] = ",".join(values["find-links"].split())
    if "UV_INDEX" in settings:
        # pip takes the best version of all indexes; uv by default stops at the first index that has the name
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if "HTTPS_PROXY" in settings:
        settings["HTTP_PROXY"] = settings["HTTPS_PROXY"]
    return settings


def classify(printed: str, name: str, log: str) -> Refusal:
    """Return the refusal that says why uv or pip failed; printed is the end of what it said, log where all of it is."""
    text = essence(printed)
    local = _LOCAL.search(printed)
    if local:
        return refuse("E069", name=name, package=local[1], build=local[2], former=FORMER)
    for code, pattern in CAUSES:
        if re.search(pattern, printed):
            advice = advice_on(printed, "Check the node's network, proxy and pip.conf, and the addresses of the index.")
            return refuse(code, name=name, line=text, log=log, advice=advice, former=FORMER)
    return refuse("E009", name=name, line=text or "it printed nothing", log=log, former=FORMER)


def advice_on(told: str, otherwise: str) -> str:
    """Return the remedy for a server that cannot be reached, by the reason that was printed."""
    return next((advice for pattern, advice in OBSTACLES if re.search(pattern, told)), otherwise)


def essence(printed: str) -> str:
    """Return the essential part of what uv or pip printed: its errors, and why pip found nothing."""
    own = re.findall(r"^gpulab: (.*)", printed, re.MULTILINE)
    if own:
        return "; ".join(own)
    found = [
        *_ERROR.findall(printed),
        *re.findall(r"^(?:ERROR: (?!Exception:)|hint: An index|╰─> ).*", printed, re.MULTILINE),
    ]
    broken = re.findall(
        r"connection broken by '(.*)'|^WARNING: (Skipping page .*|The repository .*)", printed, re.MULTILINE
    )
    if broken and re.search(_NOTHING, printed):
        found = [re.sub(r"<[^>]*>: ", "", "".join(broken[-1])), *found[-1:]]
    return " ".join(" ".join(found or printed.strip().splitlines()[-1:]).split()).replace(" cause: ", ": ")


def faults(answer: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return what an environment's own interpreter answered (see probe) that is not as it is to be."""
    if answer["failure"]:
        return [f"{expected['framework']} cannot be imported: {answer['failure']}"]
    found = []
    version = answer["version"].partition("+")[0]
    if expected["version"] and version != expected["version"]:
        found.append(f"{expected['framework']} is {version}, but {expected['version']} is planned")
    if expected["cuda"] == ANY:
        if answer["cuda"] is None:
            found.append(NOT_ASKED_FOR)
    elif not _same_release(answer["cuda"], expected["cuda"]):
        found.append(f"it is built for {_cuda(answer['cuda'])}, but {_cuda(expected['cuda'])} is planned")
    if not answer["cpu_matmul"]:
        found.append("a matrix multiplication on the CPU gave wrong results")
    for path, reason in answer.get("broken", {}).items():
        found.append(f"{path} cannot be loaded: {reason}")
    return found


def _same_release(one: str | None, other: str | None) -> bool:
    """Tell whether two versions agree as far as both go: JAX names only the major one."""
    if one is None or other is None:
        return one is other
    return all(a == b for a, b in zip(one.split("."), other.split(".")))


def _cuda(version: str | None) -> str:
    return f"CUDA {version}" if version else "no CUDA"
