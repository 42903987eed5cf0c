"""Boot loaders as files: PE files with sections, of which .sbat says what shim may revoke."""

import struct

LOADER = (
    b"sbat,1,SBAT Version,sbat,1,https://example.org/SBAT.md\ngrub,3,FSF,grub,2.06,x\ngrub.debian,4,Debian,grub2,2,x\n"
)


def loader(sbat=LOADER, name=b".sbat"):
    """Return a PE file with two sections, the second of this name and content."""
    start, optional = 0x80, 112
    header = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 2, 0, 0, 0, optional, 0)
    data = start + len(header) + optional + 2 * 40
    sections = [(b".text", b"code"), (name, sbat)]
    table = b""
    for title, content in sections:
        size = 4096  # of each on the disk, padded
        table += struct.pack("<8sIIIIIIHHI", title, len(content), 0, size, data, 0, 0, 0, 0, 0)
        data += size
    stub = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", start)
    contents = b"".join(content.ljust(4096, b"\0") for _title, content in sections)
    return stub.ljust(start, b"\0") + header + bytes(optional) + table + contents
