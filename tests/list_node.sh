#!/bin/sh -e
# List the packages, holds and files of a node, to be compared with a list of before. What is generated anew from the
# same content has another checksum and is only named: caches, indices of kernel modules, an initramfs.
dpkg-query --show --showformat='${Package} ${Version} ${db:Status-Abbrev}\n'
apt-mark showhold
find /etc -xdev -type f ! -name ld.so.cache ! -name '*-' -exec sha256sum {} + | sort --key=2
find /etc /usr /boot /lib/modules /opt -xdev ! -name '*.pyc' ! -name __pycache__ | sort
