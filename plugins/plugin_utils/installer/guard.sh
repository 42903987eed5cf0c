#!/bin/sh
# Runs in a distribution's installer before anything partitions. Goes on where this is the planned machine and exactly one
# disk is the planned one; then every other disk has left the kernel. Else the machine goes off, and nothing was written.
# Needs no more than busybox and udev have. Nothing here may run in the background: debconf would wait for it.
# Before this come: HOST, INSTALLER, MACHINE, FIRMWARE, KIND, VALUE, SIZE, HOLDS, KEPT (lines: kind|value|size|UUIDs).

ROOT=${GPULAB_ROOT:-}
BLOCK=$ROOT/sys/block

say() {
    for console in console tty0 ttyS0; do
        if [ -e "$ROOT/dev/$console" ]; then
            echo "gpulab: $1" >"$ROOT/dev/$console" || true
        fi
    done 2>/dev/null
}

refuse() {
    say "REFUSED for $HOST: $1. Nothing was written. This machine goes off in 20 seconds."
    sleep 20
    echo o >"$ROOT/proc/sysrq-trigger"
    while :; do sleep 60; done
}

lower() { tr A-Z a-z; }  # the classes of tr are not in every busybox

properties() { udevadm info --query=property --name="/dev/$1" 2>/dev/null; }

disks() {
    for path in "$BLOCK"/*; do
        name=${path##*/}
        case $name in
            loop*|ram*|zram*|sr*|fd*|md*|dm-*|nbd*|nvme*c*n*) continue ;;
        esac
        if [ -e "$path/size" ] && [ "$(cat "$path/size")" != 0 ]; then
            echo "$name"
        fi
    done
}

bytes() { echo $(($(cat "$BLOCK/$1/size") * 512)); }

# Print every name that a disk has of this kind, one in a line.
names() {
    if [ "$2" = serial ]; then
        properties "$1" | sed -n -e 's/^SCSI_IDENT_SERIAL=//p' -e 's/^ID_SCSI_SERIAL=//p' \
            -e 's/^ID_SERIAL_SHORT=//p' -e 's/^ID_SERIAL=//p'
        cat "$BLOCK/$1/serial" "$BLOCK/$1/device/serial" 2>/dev/null
    else
        properties "$1" | sed -n -e 's/^ID_WWN_WITH_EXTENSION=//p' -e 's/^ID_WWN=//p'
        cat "$BLOCK/$1/wwid" "$BLOCK/$1/device/wwid" 2>/dev/null
    fi | sed -e 's/^[[:space:]]*//' -e 's/[[:space:]]*$//'
}

# Print the disks that have this name.
named() {
    for disk in $(disks); do
        if names "$disk" "$1" | grep -qxF -e "$2"; then
            echo "$disk"
        fi
    done
}

# Print the UUIDs of a disk's partition table, of its partitions, and of what is on them.
uuids() {
    for path in "$BLOCK/$1" "$BLOCK/$1/$1"*; do
        if [ -e "$path" ]; then
            properties "${path##*/}" | sed -n -e 's/^ID_PART_TABLE_UUID=//p' -e 's/^ID_PART_ENTRY_UUID=//p' \
                -e 's/^ID_FS_UUID=//p'
        fi
    done | lower
}

# Tell whether a disk has one of these UUIDs.
has() {
    present=$(uuids "$1")
    for uuid in $2; do
        if echo "$present" | grep -qxF -e "$uuid"; then
            return 0
        fi
    done
    return 1
}

# Print what takes a disk out of the kernel: a file that takes a 1. Nothing where there is no such file.
way_out() {
    device=$(readlink -f "$BLOCK/$1/device")
    case $1 in
        nvme*)
            for controller in "$device"/nvme[0-9]*; do  # the controllers of a subsystem, where the kernel makes one
                if [ -e "$controller/device/remove" ]; then
                    readlink -f "$controller/device/remove"
                fi
            done
            if [ -e "$device/device/remove" ]; then
                readlink -f "$device/device/remove"
            fi ;;
        *)
            if [ -e "$device/delete" ]; then
                echo "$device/delete"
            elif [ -e "${device%/*}/remove" ]; then
                echo "${device%/*}/remove"
            fi ;;
    esac | sort -u
}

mounted() { grep -qE "^/dev/$1(p?[0-9]+)? " "$ROOT/proc/mounts"; }

machine=$(lower <"$ROOT/sys/class/dmi/id/product_uuid" 2>/dev/null)
if [ "$machine" != "$MACHINE" ]; then
    refuse "this is another machine: its DMI UUID is ${machine:-unknown}, planned is $MACHINE"
fi
started=bios
if [ -d "$ROOT/sys/firmware/efi" ]; then
    started=uefi
fi
if [ "$started" != "$FIRMWARE" ]; then
    refuse "it was started by $started, planned is $FIRMWARE"
fi

udevadm settle
found=$(named "$KIND" "$VALUE")
count=$(echo "$found" | grep -c .)
if [ "$count" != 1 ]; then
    refuse "$count disks have the $KIND $VALUE"
fi
if [ "$(bytes "$found")" != "$SIZE" ]; then
    refuse "the disk with the $KIND $VALUE has $(bytes "$found") bytes, planned is $SIZE"
fi
if [ -n "$HOLDS" ] && ! has "$found" "$HOLDS"; then
    refuse "the disk with the $KIND $VALUE holds nothing of what it held when the node was captured"
fi
if mounted "$found"; then
    refuse "the disk with the $KIND $VALUE is mounted"
fi

while IFS='|' read -r kind value size held; do
    if [ -z "$size" ]; then
        continue
    fi
    if has "$found" "$held"; then
        refuse "the disk with the $KIND $VALUE holds what was on a disk that is kept ($kind $value)"
    fi
    there=
    for disk in $(disks); do
        if [ "$disk" = "$found" ] || [ "$(bytes "$disk")" != "$size" ]; then
            continue
        fi
        if [ -n "$kind" ] && ! names "$disk" "$kind" | grep -qxF -e "$value"; then
            continue
        fi
        if [ -z "$held" ] || has "$disk" "$held"; then
            there="$there $disk"
        fi
    done
    if [ -z "$there" ]; then
        refuse "a disk that is kept is missing: ${kind:-size} ${value:-$size}"
    fi
done <<KEPT_DISKS
$KEPT
KEPT_DISKS

# Nothing that is made of disks may be at work when they go: an array would note a member as failed.
swapoff -a 2>/dev/null || true
vgchange -an >/dev/null 2>&1 || true
for state in "$BLOCK"/md*/md/array_state; do
    if [ -e "$state" ]; then
        echo inactive >"$state" 2>/dev/null || true
    fi
done
for path in "$BLOCK"/md* "$BLOCK"/dm-*; do
    if [ -e "$path" ] && [ -n "$(ls "$path/slaves" 2>/dev/null)" ]; then
        refuse "${path##*/} is at work and cannot be stopped"
    fi
done

stays=$(way_out "$found")
for disk in $(disks); do
    if [ "$disk" = "$found" ] || mounted "$disk"; then
        continue  # what is mounted is the installer's own medium
    fi
    way=$(way_out "$disk")
    if [ -z "$way" ]; then
        refuse "$disk cannot be taken out of the kernel"
    fi
    for file in $way; do
        if echo "$stays" | grep -qxF -e "$file"; then
            refuse "$disk cannot be taken out of the kernel without the planned disk"
        fi
    done
    for file in $way; do
        echo 1 >"$file"
    done
    seconds=0
    while [ -e "$BLOCK/$disk" ]; do
        if [ "$seconds" = 10 ]; then
            refuse "$disk does not leave the kernel"
        fi
        sleep 1
        seconds=$((seconds + 1))
    done
    say "$disk was taken out"
done
udevadm settle
say "$HOST will be installed on the disk with the $KIND $VALUE"

case $INSTALLER in
    preseed)
        debconf-set partman-auto/disk "/dev/$found"
        debconf-set grub-installer/bootdev "/dev/$found" ;;
    autoinstall)
        name=$(properties "$found" | sed -n 's/^ID_SERIAL=//p')
        if [ -z "$name" ]; then
            refuse "udev knows no ID_SERIAL of the planned disk"
        fi
        # What means more to the installer's matching, to sed or to YAML becomes one character of any kind.
        name=$(printf %s "$name" | sed 's/[^A-Za-z0-9_.:-]/?/g')
        sed -i "s/gpulab-planned-disk/$name/" "$ROOT/autoinstall.yaml" ;;
    kickstart)
        name=
        for link in "$ROOT"/dev/disk/by-id/*; do
            if [ "$(readlink -f "$link")" = "$ROOT/dev/$found" ]; then
                name=${link##*/}
            fi
        done
        if [ -z "$name" ]; then
            refuse "the planned disk has no name in /dev/disk/by-id"
        fi
        sed "s|@DISK@|$name|" "$ROOT/run/gpulab/storage.ks" >"$ROOT/tmp/gpulab-storage.ks" ;;
esac
