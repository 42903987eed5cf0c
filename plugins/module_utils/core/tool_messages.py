# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: COM819, E501
"""What tools print when they fail. `make docs` writes this from catalog/tool_messages.yml, which says more."""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """A record: code is that of its refusal, else it has cause and remedy."""

    id: str
    tool: str
    patterns: tuple[str, ...]
    code: str = ""
    cause: str = ""
    remedy: str = ""
    driver: bool = False
    weak: bool = False
    follows: bool = False


# fmt: off
# how a tool is known in a text that somebody pasted
SPEAKERS: dict[str, tuple[str, ...]] = {
    "apt": ("^(?:#\\d+ [\\d.]+ )?(?:[EW]: \\S|Err:\\d+ \\S|dpkg(?:-\\w+)?: \\S)", "The following packages have unmet dependencies|\\bbut it is not (?:going to be installed|installable)\\b",),
    "dnf": ("^(?:#\\d+ [\\d.]+ )?(?: *Problem(?: \\d+)?: |\\[MIRROR\\] |Error: (?:Unable to find a match|Failed to download|GPG check FAILED|Transaction ))", "package \\S+\\.(?:x86_64|aarch64|noarch|i686)\\b|Last metadata expiration check|No match for argument: |Curl error \\(\\d+\\)",),
    "dkms": ("\\bDKMS\\b|/dkms/|\\bdkms (?:install|build|autoinstall|apport)\\b|^Error! \\w",),
    "build": ("/dkms/|\\bkernel-open\\b|\\bCONFTEST\\b|\\b(?:modpost|objtool)\\b|\\bCC \\[M\\]|Makefile\\.(?:build|mod\\w+)", "/lib/modules/\\S+/build\\b|linux-(?:headers|kbuild)-\\d|common/inc/nv-|\\bnvidia(?:-\\w+)?/(?:nv|uvm)[-_\\w]*\\.[ch]\\b",),
}
MESSAGES: tuple[Message, ...] = (
    Message("apt-lock", "apt", ("Could not get lock (?P<lock>\\S+?)\\. It is held by process (?P<pid>\\d+) \\((?P<command>[^)]*)\\)",), code="H040"),
    Message("apt-interrupted", "apt", ("dpkg was interrupted",), code="H047"),
    Message("apt-space", "apt", ("No space left on device", "You don't have enough free space in \\S+", "Disk quota exceeded",), code="H046"),
    Message("apt-read-only", "apt", ("Read-only file system",), code="H216"),
    Message("apt-memory", "apt", ("^(?:E: |dpkg).*Cannot allocate memory", "Sub-process \\S+ received signal 9",), code="H299"),
    Message("apt-settings", "apt", ("Conflicting values set for option|is not known on line \\d+ in source list|Malformed \\w+ \\d+ in \\w+", "No priority \\(or zero\\) specified for pin|Invalid record in the preferences file", "^E: Syntax error \\S+:\\d+|method driver \\S+ could not be found|Unsupported proxy configured", "The list of sources could not be read",), code="H213"),
    Message("apt-state", "apt", ("package lists or status file could not be parsed or opened|files list file for package .* is missing", "parsing file '/var/lib/dpkg/\\S+'|Problem with MergeList|Encountered a section with no Package: header", "Unable to parse package file",), code="H217"),
    Message("apt-headers", "apt", ("Unable to locate package (?P<package>(?:linux|proxmox|pve)-headers-(?P<kernel>\\d\\S*))",), code="H211"),
    Message("apt-unknown", "apt", ("Unable to locate package|has no installation candidate|Version '[^']*' for '[^']*' was not found",), code="H049"),
    Message("apt-clock", "apt", ("Release file for .* (?:is not valid yet|is expired)",), code="H045"),
    Message("apt-login-page", "apt", ("Clearsigned file isn't valid, got '\\w+'",), code="H228"),
    Message("apt-server", "apt", ("^(?:E: Failed to fetch \\S+)?  (?:4(?!04)\\d\\d|5\\d\\d)  \\w|HTTP code \\d+ from proxy|Invalid response from proxy", "Redirection loop|Redirection from \\S+ to \\S+ is forbidden|Bad header (?:line|data)|sent an invalid reply header",), code="H214"),
    Message("apt-network", "apt", ("Temporary failure resolving|Could not resolve|Could not connect to|Connection (?:refused|reset|failed)", "[Cc]onnection timed out|Unable to connect to|Network is unreachable|No route to host|Cannot initiate the connection", "[Cc]ertificate verif(?:ication|y) failed|SSL connection failed|Could not handshake|gnutls_handshake\\(\\) failed|No system certificates available",), code="H041"),
    Message("apt-changed-source", "apt", ("^E: Repository .* changed its .* value from .*",), code="H300"),
    Message("apt-no-verification", "apt", ("Splitting up \\S+ into data and signature failed|Couldn't create temporary file|gnupg\\d? do not seem to be", "At least one invalid signature|Could not execute '(?:apt-key|\\S*gpgv?)'|Sub-process gpgv received",), code="H212"),
    Message("apt-bad-signature", "apt", ("BADSIG|Bad GPG signature",), code="H229"),
    Message("apt-key", "apt", ("NO_PUBKEY|SIG [0-9A-F]{8,}|Missing key|not considered secure|GPG error|could(?:n't| not) be verified",), code="H044"),
    Message("apt-not-signed", "apt", ("is not signed|OpenPGP signature verification failed",), code="H044"),
    Message("apt-size", "apt", ("File has unexpected size|Mirror sync in progress",), code="H230"),
    Message("apt-digest", "apt", ("Hash Sum mismatch|Hashes of received file",), code="H043"),
    Message("apt-damaged-package", "apt", ("not a Debian format archive|compressed data is corrupt|corrupted filesystem tarfile|short read on buffer", "unexpected end of file in",), code="H043"),
    Message("apt-gone", "apt", ("404 +[A-Z]|does not (?:no longer )?have a Release file|Unable to find expected entry", "Failed to stat - stat \\(2",), code="H042"),
    Message("apt-held", "apt", ("Held packages were changed",), code="H057"),
    Message("apt-broken", "apt", ("(?:Try|might want to run) 'apt(?:-get)? (?:--fix-broken|-f) install'",), code="H215"),
    Message("apt-file-conflict", "apt", ("error processing archive \\S+.*\\n trying to overwrite",), code="H291"),
    Message("apt-architecture", "apt", ("package architecture \\(\\S+\\) does not match system",), code="H298"),
    Message("apt-not-allowed", "apt", ("was used without --allow-downgrades|were downgraded and -y was used|was used without --allow-remove-essential",), code="H296"),
    Message("apt-not-installable", "apt", ("Depends: (?:\\S+(?: \\([^)]*\\))? but it is not installable or\\n +)*\\S+(?: \\([^)]*\\))? but it is not installable$", "\\S+ (?:Pre)?Depends .*\\n +but none of the choices are installable:\\n +\\[no choices\\]",), code="H292"),
    Message("apt-other-version", "apt", ("Depends: \\S+ \\([^)]*\\) but \\S+ is (?:to be )?installed",), code="H295"),
    Message("apt-conflict", "apt", ("^ *\\S+ : (?:Conflicts|Breaks): .*",), code="H048"),
    Message("apt-unmet", "apt", ("^ *\\S+ : (?:Pre)?Depends: .*",), code="H048"),
    Message("apt-unmet-summary", "apt", ("unmet dependencies|held broken packages|Unmet dependencies|Unable to correct problems|Resolve generated breaks", "Unable to satisfy dependencies",), code="H048"),
    Message("apt-path", "apt", ("error processing archive \\S+.*\\n unable to .*", "unable to (?:create|open|install|make|stat|remove|clean up|delete) .*(?:Operation not permitted|Permission denied|Is a directory|Not a directory)", "error creating (?:directory|symbolic link|hard link|device|pipe) '.*",), code="H297"),
    Message("apt-script", "apt", ("(?:installed|new|old) (?P<package>\\S+) package (?P<script>\\S+) script subprocess (?:returned error|failed with) exit status \\d+",), code="H052", follows=True),
    Message("apt-unconfigured", "apt", ("dependency problems prevent configuration of \\S+:\\n .*\\n.*",), code="H215", follows=True),
    Message("dnf-lock", "dnf", ("can't create transaction lock|Failed to obtain .*lock",), code="H040"),
    Message("dnf-space", "dnf", ("No space left on device|needs \\d+[KMGT]?B more space on|At least \\d+[KMGT]?B more space needed|Curl error \\(23\\)", "needs \\d+ more inodes on|Disk quota exceeded",), code="H046"),
    Message("dnf-read-only", "dnf", ("Read-only file system",), code="H216"),
    Message("dnf-memory", "dnf", ("Cannot allocate memory|^MemoryError",), code="H299"),
    Message("dnf-settings", "dnf", ("Config error|Error parsing '|Parsing file \\S+ failed|failed loading '|Unknown repo|no enabled repo", "Cannot find a valid baseurl|Curl error \\((?:1|3)\\)",), code="H213"),
    Message("dnf-state", "dnf", ("rpmdb open failed|BDB\\d+|cannot open Packages|db5 error",), code="H217"),
    Message("dnf-modular", "dnf", ("filtered out by modular filtering",), code="H294"),
    Message("dnf-excluded", "dnf", ("filtered out by exclude filtering",), code="H293"),
    Message("dnf-headers", "dnf", ("Unable to find a match: .*?(?P<package>kernel-(?:\\w+-)?devel-(?P<kernel>\\d\\S*))",), code="H211"),
    Message("dnf-unknown", "dnf", ("Unable to find a match",), code="H049"),
    Message("dnf-bad-signature", "dnf", ("Bad (?:GPG|PGP|OpenPGP) signature|does not verify: .*[Ss]ignature.*: BAD",), code="H229"),
    Message("dnf-server", "dnf", ("Status code: (?:4(?!04)\\d\\d|5\\d\\d)|HTTP code \\d+ from proxy",), code="H214"),
    Message("dnf-key", "dnf", ("does not verify: .*(?:NOKEY|NOTTRUSTED)|is not signed|Public key for .* is not installed|GPG signature|GPG check FAILED|GPG keys listed for", "OpenPGP check for|Signature verification failed|Signing key not found|Curl error \\(37\\)|[Kk]ey import failed",), code="H044"),
    Message("dnf-size", "dnf", ("Inconsistent server data", "Server reports Content-Length: \\d+ but expected size",), code="H230"),
    Message("dnf-digest", "dnf", ("checksum doesn't match|has incorrect checksum|payload digest|header digest|does not verify: .*digest",), code="H043"),
    Message("dnf-network", "dnf", ("Curl error \\((?:5|6|7|28|35|52|56|58|60|77)\\)|Could(?:n.t| not) resolve (?:host|proxy)", "Failed to connect|Connection refused|Timeout was reached",), code="H041"),
    Message("dnf-login-page", "dnf", ("(?:repomd\\.xml|mirrorlist).*[Pp]arse|xmlParse|[Ss]tart ?[Tt]ag(?: expected|: invalid)|Opening and ending tag mismatch",), code="H228"),
    Message("dnf-gone", "dnf", ("Status code: 404", "No URLs in mirrorlist", "Failed to download metadata|ll mirrors were (?:already )?tried|No more mirrors",), code="H042"),
    Message("dnf-file-conflict", "dnf", ("conflicts with file from package|conflicts between attempted installs of",), code="H291"),
    Message("dnf-not-allowed", "dnf", ("removing the following protected packages",), code="H296"),
    Message("dnf-nothing-provides", "dnf", ("nothing provides (?!(?:requested )?module\\()\\S+",), code="H292"),
    Message("dnf-architecture", "dnf", ("does not have a compatible architecture|is intended for a different (?:architecture|operating system)",), code="H298"),
    Message("dnf-other-version", "dnf", ("cannot install both \\S+ .*and \\S+",), code="H295"),
    Message("dnf-conflict", "dnf", ("package \\S+ .*(?:conflicts with|obsoletes) .* provided by",), code="H048"),
    Message("dnf-unmet", "dnf", ("but none of the providers can be installed",), code="H048"),
    Message("dnf-no-module", "dnf", ("nothing provides (?:requested )?module\\(",), code="H294"),
    Message("dnf-problem", "dnf", ("^ *Problem(?: \\d+)?: .*|conflicting requests",), code="H048"),
    Message("dnf-headers-5", "dnf", ("No match for argument: (?P<package>kernel-(?:\\w+-)?devel-(?P<kernel>\\d\\S*))",), code="H211"),
    Message("dnf-unknown-5", "dnf", ("No match for argument",), code="H049"),
    Message("dnf-script", "dnf", ("Error in (?P<script>\\S+) scriptlet in rpm package (?P<package>\\S+)|scriptlet failed, exit status",), code="H052", follows=True),
    Message("dnf-path", "dnf", ("unpacking of archive failed|^Error unpacking rpm package",), code="H297"),
    Message("dnf-registration", "dnf", ("not registered with an entitlement server",), code="H213"),
    Message("dkms-headers", "dkms", ("Your kernel headers for kernel \\S+ cannot be found at .*",), cause="the node does not have the headers of that kernel", remedy="Install linux-headers-VERSION or kernel-devel-VERSION of that kernel; if no server has it, boot a newer kernel first"),
    Message("dkms-exclusive", "dkms", ("includes a BUILD_EXCLUSIVE directive which does not match this kernel",), cause="the module's own dkms.conf says that it is not made for this kernel", remedy="Boot a kernel that it is made for, or take another version of the module", driver=True),
    Message("dkms-patch", "dkms", ("Application of patch \\S+ failed", "Patch \\S+ as specified in dkms\\.conf cannot be\\s.*",), cause="a patch that the module's dkms.conf names does not fit its source", remedy="Reinstall the package of the module; if somebody has put that patch there, remove it from dkms.conf"),
    Message("dkms-source", "dkms", ("Could not locate dkms\\.conf file\\.\\s.*", "Bad conf file\\.\\s.*", "does not appear to have module source located",), cause="the source of the module, which DKMS compiles, is not there or damaged", remedy="Reinstall the package of the module, or, if it is not wanted any more, remove it from DKMS (dkms remove NAME/VERSION --all)"),
    Message("dkms-not-made", "dkms", ("Build of \\S+ failed for: .*",), cause="the compiler reported no error, but a module that dkms.conf names was not made", remedy="Reinstall the package of the module, whose dkms.conf and source do not fit each other"),
    Message("out-of-space", "build", ("No space left on device|Disk quota exceeded",), cause="the file system of the build is full", remedy="Free space in /tmp, /var/lib/dkms and /lib/modules (df -h, df -i), and run again"),
    Message("out-of-memory", "build", ("Killed signal terminated program", "virtual memory exhausted", "Cannot allocate memory", "out of memory allocating \\d+ bytes",), cause="the node had too little memory to compile", remedy="Stop programs that need memory, or add swap space, and run again"),
    Message("read-only", "build", ("Read-only file system",), cause="a file system that the build writes to is read-only", remedy="Look for disk errors there (dmesg), then remount it", weak=True),
    Message("pci-resize", "build", ("to function .pci_resize_resource",), cause="pci_resize_resource takes a further argument on this kernel", remedy="Take driver 580.126.09, 590.48.01 or newer, or set nvidia_driver_kernel_modules to proprietary where every GPU allows it", driver=True),
    Message("vm-flags", "build", ("has no member named .__vm_flags",), cause="the driver is older than this kernel, in which struct vm_area_struct has other members", remedy="Boot a kernel older than 6.19, or take driver 580.178.04, 595.91.07 or newer (nvidia_driver_source nvidia)", driver=True),
    Message("in-irq", "build", ("function .in_irq",), cause="the driver is older than this kernel, which has no function in_irq any more", remedy="Boot an older kernel, or take driver 580.178.04, 595.91.07 or newer (nvidia_driver_source nvidia)", driver=True),
    Message("strncpy", "build", ("function .strncpy",), cause="the driver is older than this kernel, which has no function strncpy any more", remedy="Boot a kernel older than 7.2, or take driver 580.178.04, 595.91.07 or newer (nvidia_driver_source nvidia)", driver=True),
    Message("follow-pfn", "build", ("function .follow_pfn",), cause="the driver is older than this kernel, which has no function follow_pfn any more", remedy="Boot an older kernel, or take a newer branch of the driver where the GPUs allow it", driver=True),
    Message("gpl-only", "build", ("GPL-incompatible module \\S+ uses GPL-only symbol .*",), cause="this kernel gives that symbol to modules under the GPL only", remedy="Set nvidia_driver_kernel_modules to open where every GPU allows it, or take a newer driver or an older kernel", driver=True),
    Message("older-compiler", "build", ("unrecognized (?:command[- ]line option|argument in option)",), cause="the compiler is older than the one that the kernel was built with", remedy="Install the compiler that /proc/version names, and make cc point to it"),
    Message("gcc-plugin", "build", ("cannot load plugin|incompatible gcc/plugin versions", "failed to initialize plugin",), cause="a plug-in of the compiler, which this kernel was built with, is not there for the compiler of the node", remedy="Install the compiler that /proc/version names, and the headers of this kernel that belong to it"),
    Message("newer-headers", "build", ("version .GLIBC_[\\d.]+. not found",), cause="the headers of this kernel were made for a newer system, so their programs do not run on this one", remedy="Boot a kernel of this system and remove this one, or install headers of this kernel that were made for this system"),
    Message("newer-kbuild", "build", ("asm/orc_header\\.h",), cause="linux-kbuild is newer than the headers of this kernel", remedy="Boot the newest kernel of its series, whose headers fit, and remove this one with its headers"),
    Message("missing-library", "build", ("error while loading shared libraries: (?P<tool>[^:\\s]+): cannot open shared object file",), cause="a program of the kernel's headers or of the compiler needs the library {tool}, which the node does not have", remedy="Install the package of {tool} (libelf.so.1 is in libelf1 or libelf1t64, on Red Hat's family in elfutils-libelf)"),
    Message("headers-missing", "build", ("/lib/modules/\\S+/build: No such file or directory",), cause="the node does not have the headers of this kernel", remedy="Install linux-headers-VERSION or kernel-devel-VERSION of this kernel; if no server has it, boot a newer kernel first"),
    Message("headers-incomplete", "build", ("Kernel configuration is invalid\\.\\s.*|autoconf\\.h: No such file", "The Module\\.symvers file is missing", "No rule to make target .(?:scripts|tools|arch|modules)", "(?:objtool|modpost|fixdep|genksyms|sign-file|recordmcount|resolve_btfids): (?:not found|No such file or directory)",), cause="the headers of this kernel are not complete", remedy="Reinstall them (apt-get install --reinstall linux-headers-VERSION and its linux-kbuild; dnf reinstall kernel-devel-VERSION)"),
    Message("headers-not-executable", "build", ("(?:sh|make\\S*): .*Permission denied", "cannot execute(?: binary file)?|Exec format error",), cause="a program that the build needs must not be run, or is made for another architecture", remedy="Look whether its file system is mounted with noexec (findmnt), and reinstall the headers of this kernel"),
    Message("xen", "build", ("The kernel you are installing for is a Xen kernel",), cause="NVIDIA's driver is not made for kernels of Xen's kind", remedy="Boot a kernel of the distribution without Xen", driver=True),
    Message("real-time", "build", ("The kernel you are installing for is a PREEMPT_RT kernel",), cause="NVIDIA's driver is not made for real-time kernels", remedy="Boot the ordinary kernel of the distribution, and remove the real-time one", driver=True),
    Message("no-compiler", "build", ("The C compiler .* does not appear to be able to\\s.*",), cause="the compiler of this kernel is not on the node, or cannot compile", remedy="Install the compiler that /proc/version names, with libc6-dev (on Red Hat's family glibc-devel)"),
    Message("compiler-crash", "build", ("internal compiler error: .*",), cause="the compiler itself crashed", remedy="Run again with more free memory; if it crashes at the same place, update the compiler, if at others, test the memory of the node"),
    Message("undefined-symbol", "build", ("ERROR: modpost: .*undefined!",), cause="the module uses a symbol that this kernel does not have, or that the Module.symvers of its headers leaves out", remedy="Reinstall the headers of this kernel; if it stays so, take a newer driver or another kernel", driver=True),
    Message("older-driver", "build", ("(?:/dkms/|kernel-open|common/inc/|\\bnvidia|\\buvm_|\\bnv[-_])\\S*:\\d+:\\d+: error: (?:implicit declaration of|call to undeclared|use of undeclared|unknown type name|no member named|conflicting types for)", "(?:/dkms/|kernel-open|common/inc/|\\bnvidia|\\buvm_|\\bnv[-_])\\S*:\\d+:\\d+: error: (?:too (?:few|many) arguments|.{1,3}\\w+.{1,3} undeclared|.* has no member named|.*\\bincompatible\\b.*(?:type|pointer))",), cause="the source of the module uses the kernel in a way that this kernel does not know; mostly the module is older than the kernel", remedy="Take a newer version of the driver that is made for this kernel, or boot an older kernel", driver=True),
    Message("compiler-check", "build", ("compile the kernel:\\s+[^\\n]+\\s+does not match the compiler used here:\\s+[^\\n]+", "Failed CC version check\\. Bailing out",), cause="this kernel was built with another compiler than the module is", remedy="Install the compiler that the message names first, and make cc point to it", weak=True),
    Message("missing-tool", "build", (": (?!pahole)(?P<tool>[A-Za-z][\\w.+-]*): (?:command )?not found", "make\\S*: (?P<program>[A-Za-z][\\w.+-]*): No such file or directory",), cause="the node does not have the program {tool}", remedy="Install {tool} on the node (the package of g++ is g++, on Red Hat's family gcc-c++)", weak=True),
    Message("dkms-build", "dkms", ("Bad return status for module build on kernel: .*",), cause="the module did not compile for that kernel; what the compiler said is in its make.log", remedy="Look for the first error there (grep -m1 -i 'error' /var/lib/dkms/NAME/VERSION/build/make.log)", driver=True, weak=True),
)
