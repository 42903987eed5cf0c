"""Read a cpio archive of the form newc, by its description alone: https://docs.kernel.org/driver-api/early-userspace/."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Read:
    """A member of an archive."""

    inode: int
    mode: int
    owner: tuple[int, int]
    links: int
    time: int
    device: tuple[int, int]
    data: bytes


def read(archive):
    """Return the members by name, in their order; all of the archive has to be used."""
    found, place = {}, 0
    while True:
        assert archive[place : place + 6] == b"070701"
        fields = [int(archive[place + start : place + start + 8], 16) for start in range(6, 110, 8)]
        inode, mode, uid, gid, links, time, size, _major, _minor, major, minor, length, check = fields
        assert check == 0
        name, end = archive[place + 110 : place + 110 + length], place + 110 + length
        assert name.endswith(b"\0")
        start = end + -end % 4
        place = start + size + -size % 4
        if name == b"TRAILER!!!\0":
            assert place == len(archive)
            return found
        assert name[:-1] not in found
        found[name[:-1]] = Read(inode, mode, (uid, gid), links, time, (major, minor), archive[start : start + size])
