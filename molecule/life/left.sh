# List what a node has beside what packages bring: which packages somebody chose, which could go, what is held; files of no
# package, with their contents below /etc, and conffiles that differ; units that are enabled; what gpulab keeps. What packages'
# scripts and the node itself make again is left out, as in tests/list_node.sh.
set -e
apt-mark showmanual | sed 's/^/manual /'
apt-get --simulate autoremove | sed -n 's/^Remv \([^ ]*\).*/not needed \1/p'
apt-mark showhold | sed 's/^/held /'
dpkg-query --show --showformat='${db:Status-Abbrev} ${Package}\n' | sed -n '/^ii/!s/^/half there /p'
dpkg-query --show --showformat='${Conffiles}\n' | sed -n 's#^ \(/[^ ]*\) \([0-9a-f]\{32\}\)$#\2  \1#p' |
    md5sum --check --quiet 2>/dev/null || true
sed 's#^/\(bin\|sbin\|lib\|lib64\)/#/usr/\1/#' /var/lib/dpkg/info/*.list | sort --unique >/tmp/owned
find /etc /usr /boot /opt /srv -xdev ! -type d ! -path '*gpulab-simulation*' ! -name '*.pyc' ! -name '*-' \
    ! -name ld.so.cache ! -regex '/etc/g?\(shadow\|passwd\|group\)' ! -regex '/etc/sub[gu]id' ! -path '/etc/rc?.d/*' \
    ! -path '/etc/alternatives/*' ! -lname '/etc/alternatives/*' | sort | comm -23 - /tmp/owned >/tmp/unowned
cat /tmp/unowned
find /etc/alternatives -xtype l
grep '^/etc/' /tmp/unowned | tr '\n' '\0' | xargs --null sh -c 'for file; do test -L "$file" || sha256sum "$file"; done' sh
systemctl list-unit-files --no-legend --state=enabled | sed 's/ .*//; s/^/enabled /'
find /var/lib/gpulab -type f ! -path '*/steps/*' 2>/dev/null || true
rm /tmp/owned /tmp/unowned
