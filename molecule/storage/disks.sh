#!/bin/sh
# The disks of a node: disks.sh make DIRECTORY NODE UUID prints {name: loop device} as JSON, disks.sh drop DIRECTORY
# detaches all loop devices below it.
# UUID is that of the filesystem with data.
set -eu
program=$(readlink -f "$0")
stubs=${program%/molecule/*}/tests/stubs

make() {  # name, size
    truncate --size="$2" "$directory/$node-$1"
}

case $1 in
    make)
        directory=$2 node=$3
        mkdir -p "$directory/$node-tree/imagenet"
        seq 1 50000 > "$directory/$node-tree/imagenet/labels"
        make blank 400M
        for name in data ext4; do
            make "$name" 64M
        done
        mkfs.ext4 -q -U "$4" -d "$directory/$node-tree" "$directory/$node-data"
        mkfs.ext4 -q -d "$directory/$node-tree" "$directory/$node-ext4"
        make swap 64M
        mkswap -q "$directory/$node-swap" 2>/dev/null
        for kind in partition_table array volume_group zfs_pool encrypted nobodys; do
            make "$kind" 64M
            python3 "$stubs/disk_signatures.py" "$kind" "$directory/$node-$kind"
        done
        make several 64M
        mkswap -q "$directory/$node-several" 2>/dev/null
        python3 "$stubs/disk_signatures.py" zfs_pool "$directory/$node-several"
        make empty 64M
        separator='{'
        for file in "$directory/$node"-*; do
            [ -f "$file" ] || continue
            printf '%s"%s": "%s"' "$separator" "${file##*/"$node"-}" "$(losetup --find --show "$file")"
            separator=', '
        done
        echo '}'
        ;;
    drop)
        # The files may be gone already; the kernel still knows where they were.
        losetup --list --noheadings --output NAME,BACK-FILE |
            awk -v directory="$2/" 'index($2, directory) == 1 { print $1 }' | xargs -r -n 1 losetup --detach
        ;;
esac
