#!/bin/sh
# Runs in a distribution's installer at its end, with the place of the installed system: accounts and files as they were.
# Before this come: FILES (where they lie), PLAN, CAPTURE, HOST, and for an account NAME, USER_ID, GROUP, GROUP_ID, GECOS,
# USER_HOME, USER_SHELL, PASSWORD; NAME is empty where it is root.

set -e
TARGET=$1

if [ -n "$NAME" ]; then
    if ! grep -q "^[^:]*:[^:]*:$GROUP_ID:" "$TARGET/etc/group"; then
        chroot "$TARGET" groupadd -g "$GROUP_ID" "$GROUP"
    fi
    if ! grep -q "^$NAME:" "$TARGET/etc/passwd"; then
        chroot "$TARGET" useradd -m -u "$USER_ID" -g "$GROUP_ID" -c "$GECOS" -d "$USER_HOME" -s "$USER_SHELL" \
            -p "${PASSWORD:-!}" "$NAME"
    fi
fi

if [ -n "$(ls "$FILES"/target/etc/ssh/ssh_host_* 2>/dev/null)" ]; then
    rm -f "$TARGET"/etc/ssh/ssh_host_*
fi
while read -r mode uid gid path; do
    directory=$TARGET${path%/*}
    if [ ! -d "$directory" ]; then
        mkdir -p "$directory"
        chown "$uid:$gid" "$directory"
        case $mode in
            *00) chmod 0700 "$directory" ;;
        esac
    fi
    rm -f "$TARGET$path"
    cp "$FILES/target$path" "$TARGET$path"
    chown "$uid:$gid" "$TARGET$path"
    chmod "$mode" "$TARGET$path"
done <"$FILES/files"

# The network is that of the files, where the system has what reads them.
if [ -n "$(ls "$FILES"/target/etc/systemd/network/* 2>/dev/null)" ] && [ -e "$TARGET/lib/systemd/systemd-networkd" ]; then
    chroot "$TARGET" systemctl enable systemd-networkd
    rm -f "$TARGET"/etc/netplan/*.yaml
    if [ -e "$TARGET/etc/network/interfaces" ]; then
        printf 'auto lo\niface lo inet loopback\n' >"$TARGET/etc/network/interfaces"
    fi
fi

: >"$TARGET/boot/gpulab-$PLAN" # by which GRUB on the media knows that this is done
printf '{"plan": "%s", "capture": "%s", "host": "%s", "installed": "%s"}\n' \
    "$PLAN" "$CAPTURE" "$HOST" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >"$TARGET/etc/gpulab-installed-by"
