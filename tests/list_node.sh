#!/bin/sh -e
# List the packages, holds, files and links of a node, to be compared with a list of before. What is generated again from
# the same content has another checksum and is only named: caches, indices of kernel modules, an initramfs. What belongs
# to the simulated GPUs is left out, and accounts are: Debian keeps those of packages that are gone, gpulab people's.
dpkg-query --show --showformat='${Package} ${Version} ${db:Status-Abbrev}\n'
apt-mark showhold
find /etc -xdev -type f ! -path '*gpulab-simulation*' ! -name ld.so.cache ! -name '*-' ! -regex '/etc/\(g?\(shadow\|passwd\|group\)\|sub[gu]id\)' -exec sha256sum {} + | sort --key=2
find /etc /usr /boot /lib/modules /opt -xdev ! -type d ! -path '*gpulab-simulation*' ! -name '*.pyc' | sort
