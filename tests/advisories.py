"""Make catalog/advisories.yml from NVIDIA's security bulletins.

``python tests/advisories.py REPOSITORY`` reads the CSAF files at HEAD of a git directory of NVIDIA/product-security on
GitHub. NVIDIA writes the affected versions as sentences; those of our products on Linux are read. One that ``bound``
does not know, a bulletin or a product that catalog/advisory_packages.yml does not name, a digest that does not fit and
a bulletin that is no final one stop the making, and are named; nothing is written then.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

sys.path.insert(0, str(Path(__file__).parent))
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories.versions import key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CATALOG = Path(__file__).parents[1] / "catalog"
NUMBER = r"v?(\d+(?:\.\d+)+)(?:\.x)?(?:(?: Update |U)(\d+)| ?(rc\d+))?"
_OF = r"(?:CUDA Toolkit |nvJPEG2000 |nvJPEG |nvTIFF )?"
_CONDITION = r"(?P<condition>\([^()]+\))?"
BEFORE, UPTO, TO = "before", "upto", "to"  # the last is either, as what is fixed says
SENTENCES = {
    BEFORE: [
        rf"All (?:drivers? )?versions? prior to {_OF}{NUMBER} ?{_CONDITION}",
    ],
    UPTO: [
        rf"All versions up to and including {_OF}{NUMBER} ?{_CONDITION}",
        NUMBER,
    ],
    TO: [rf"All versions up to {_OF}{NUMBER}", rf"v?0(?:\.0)? *(?:to|-|\u2013) *{NUMBER}"],
}
FIXED = re.compile(rf"{_OF}{NUMBER}(?: and {NUMBER} \(latest\))?")
_TITLE = re.compile(r"Security Bulletin\W+(?:NVIDIA\W+)*(.+?)\s+\W\s+\w+\s+\d{4}")


class UnknownError(Exception):
    """What this program does not understand."""

    def __init__(self, value: object, what: str) -> None:
        """Name it."""
        super().__init__(f"{what}: {value!r}")


class Bound(NamedTuple):
    """Until where a sentence calls versions affected, and under what condition."""

    kind: str
    version: str
    condition: str | None = None


class Range(NamedTuple):
    """The affected versions of a product; branch is that of a driver."""

    product: str
    branch: str | None
    kind: str
    version: str
    fixed: str | None
    condition: str | None


def bound(sentence: str) -> Bound:
    """Return what a sentence says. Raises UnknownError."""
    text = sentence.strip()
    for kind, forms in SENTENCES.items():
        for form in forms:
            if found := re.fullmatch(form, text):
                return Bound(kind, _number(found), (found.groupdict().get("condition") or "").strip("() ") or None)
    raise UnknownError(sentence, "a sentence")


def _number(found: re.Match[str]) -> str:
    number, update, candidate = found.group(1, 2, 3)
    return f"{number}.{update}" if update else f"{number}{candidate or ''}"


def fixed_version(text: str) -> str:
    """Return the first version that a text calls fixed. Raises UnknownError."""
    found = FIXED.fullmatch(text.strip())
    if not found:
        raise UnknownError(text, "a fixed version")
    return _number(found)


def subject(title: str) -> str:
    """Return what a bulletin is about: "Container Toolkit". Raises UnknownError."""
    found = _TITLE.fullmatch(title.strip())
    if not found:
        raise UnknownError(title, "a title")
    return found.group(1)


def _leaves(branch: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield each product below a branch with its path: vendor, system, product."""
    here = (*path, branch["name"])
    if "product" in branch:
        yield here, branch["product"]
    for below in branch.get("branches", ()):
        yield from _leaves(below, here)


class Bulletin:
    """A CSAF file, and what it says of products of gpulab's."""

    def __init__(self, document: dict[str, Any], packages: dict[str, Any]) -> None:
        """Take the file, and catalog/advisory_packages.yml."""
        self.csaf = document
        self._of_name = {name: one["product"] for one in packages["products"] for name in one["names"]}
        self._conditions = {one["product"]: one.get("conditions", {}) for one in packages["products"]}
        self._aside = set(packages["names_aside"])
        self._products = {
            product["product_id"]: (*path, product["name"])
            for top in document["product_tree"]["branches"]
            for path, product in _leaves(top)
            if product["name"] != path[-1]  # the others are the product itself
        }

    def ranges(self, vulnerability: dict[str, Any]) -> list[Range]:
        """Return what of our products on Linux a vulnerability affects, one range a branch. Raises UnknownError."""
        status = vulnerability["product_status"]
        if unknown := status.keys() - {"fixed", "known_affected"}:
            raise UnknownError(sorted(unknown), "a status")
        fixed: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for place, text in self._ours(status.get("fixed", ())):
            fixed[place].add(fixed_version(text))
        found: dict[tuple[str, str | None, str | None], Range] = {}
        for place, sentence in self._ours(status.get("known_affected", ())):
            said = bound(sentence)
            condition = said.condition or self._conditions[place[1]].get(said.version)
            one = _range(place[1], said._replace(condition=condition), fixed[place])
            known = found.setdefault((one.product, one.branch, one.condition), one)
            # Families of boards share a branch: the highest number counts
            if key(known.version) < key(one.version):
                found[one.product, one.branch, one.condition] = one
        return sorted(found.values(), key=lambda one: (one.product, key(one.branch or "0"), key(one.version)))

    def _ours(self, listed: Iterable[str]) -> Iterator[tuple[tuple[str, str], str]]:
        """Yield (system, our product) and the text about its versions."""
        for product_id in listed:
            if product_id not in self._products:
                raise UnknownError(product_id, "a product without versions")
            _vendor, system, name, text = self._products[product_id]
            if name not in self._of_name and name not in self._aside:
                raise UnknownError(name, "a product")
            if name in self._of_name and re.search(r"\bLinux\b|\bAll\b", system):
                yield (system, self._of_name[name]), text


def _range(product: str, said: Bound, fixed: Iterable[str]) -> Range:
    """Return a range: the first release that is fixed is that of the same branch, of a driver."""
    branch = said.version.partition(".")[0] if product == "driver" else None
    of_branch = [one for one in fixed if branch in (None, one.partition(".")[0])]
    kind = said.kind
    if kind == TO:
        kind = BEFORE if said.version in of_branch else UPTO
    later = [one for one in of_branch if key(one) >= key(said.version)]
    return Range(product, branch, kind, said.version, min(later, key=key, default=None), said.condition)


def read(document: dict[str, Any], digest: str, promised: str, packages: dict[str, Any]) -> dict[str, Any] | None:
    """Return the record of a bulletin, None where it concerns nothing that gpulab installs. Raises UnknownError.

    digest is that of the file, promised the one that NVIDIA keeps beside it.
    """
    title, tracking = document["document"]["title"], document["document"]["tracking"]
    about = subject(title)
    if any(fnmatchcase(about, form) for form in packages["titles_aside"]):
        return None
    if about not in {title for one in packages["products"] for title in one["titles"]}:
        raise UnknownError(about, "the subject of a bulletin")
    if tracking["status"] != "final":
        raise UnknownError(tracking["status"], "the state of a bulletin")
    if digest not in (promised, packages["digests_aside"].get(tracking["id"])):
        raise UnknownError(digest, "a digest that does not fit")
    bulletin = Bulletin(document, packages)
    affects: dict[tuple[Range, ...], dict[str, float]] = {}
    for vulnerability in document["vulnerabilities"]:
        if ranges := tuple(bulletin.ranges(vulnerability)):
            score = max(score["cvss_v3"]["baseScore"] for score in vulnerability["scores"])
            affects.setdefault(ranges, {})[vulnerability["cve"]] = float(score)
    if not affects:  # of Windows only
        return None
    return {
        "bulletin": tracking["id"],
        "about": about,
        "published": tracking["initial_release_date"][:10],
        "revised": tracking["current_release_date"][:10],
        "sha256": digest,
        "affects": affects,
    }


HEAD = """\
# NVIDIA's security bulletins of what gpulab installs. Written by tests/advisories.py; a change by hand is lost.
# Affected is each version before `before`, or up to `upto`, which is affected itself. fixed is the first release
# without the hole, where NVIDIA names one that is not `before`. branch is that of a driver, and what is said holds for
# it alone. condition is what NVIDIA adds, which a person has to read.
---
as_of: "{date}"

sources:
  csaf: github:NVIDIA/product-security, {count} bulletins
source: csaf
commit: {commit}

bulletins:
"""


def text(records: list[dict[str, Any]], commit: str, date: str, count: int) -> str:
    """Return the catalog file; a range is a line."""
    lines = [HEAD.format(date=date, commit=commit, count=count)]
    for record in records:
        lines.append(
            f'  - bulletin: "{record["bulletin"]}"\n    about: {record["about"]}\n'
            f'    published: "{record["published"]}"\n    revised: "{record["revised"]}"\n'
            f"    sha256: {record['sha256']}\n    affects:\n"
        )
        for ranges, cves in record["affects"].items():
            lines.append("      - cves:\n" + "".join(f"          {cve}: {cves[cve]}\n" for cve in sorted(cves)))
            lines.append("        ranges:\n" + "".join(f"          - {{{_line(one)}}}\n" for one in ranges))
    return "".join(lines)


def _line(one: Range) -> str:
    fields = {"product": one.product, "branch": one.branch, one.kind: one.version, "fixed": one.fixed}
    if one.kind == BEFORE and one.fixed == one.version:
        del fields["fixed"]
    quoted = [f"{name}: {value if name == 'product' else json.dumps(value)}" for name, value in fields.items() if value]
    return ", ".join([*quoted, *([f"condition: {json.dumps(one.condition)}"] if one.condition else [])])


def _git(repository: str, *arguments: str) -> bytes:
    return subprocess.run(["git", "--git-dir", repository, *arguments], capture_output=True, check=True).stdout


def main(repository: str) -> int:
    """Write the catalog file; return the exit status."""
    packages = yaml.safe_load((CATALOG / "advisory_packages.yml").read_text(encoding="utf-8"))
    commit, date = _git(repository, "log", "-1", "--format=%H %cs").decode().split()
    listed = _git(repository, "ls-tree", "-r", "--name-only", "HEAD").decode().splitlines()
    names = sorted(name for name in listed if re.fullmatch(r"\d{4}/(\d+)/\1\.json", name))
    records, unknown = [], []
    for name in names:
        content = _git(repository, "show", f"HEAD:{name}")
        digest = hashlib.sha256(content).hexdigest()
        try:
            promised = _git(repository, "show", f"HEAD:{name}.sha256").decode().strip()
            if record := read(json.loads(content), digest, promised, packages):
                records.append(record)
        except UnknownError as error:
            unknown.append(f"{name}: {error}")
    made = CATALOG / "advisories.yml"
    held = yaml.safe_load(made.read_text(encoding="utf-8"))["as_of"] if made.exists() else ""
    if date < held:
        unknown.append(f"a repository of {date}: those of {held} are here")
    for line in unknown:
        print(f"unknown: {line}")
    if unknown:
        return 1
    made.write_text(text(records, commit, date, len(names)), encoding="utf-8")
    cves = {cve for record in records for cves in record["affects"].values() for cve in cves}
    print(f"{len(records)} of {len(names)} bulletins, {len(cves)} CVEs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
