#!/bin/sh
# The first process of a machine that makes its disks as LAYOUT (an argument of the kernel) says, and copies its tree,
# which is all in memory, there. The disks are known by their serial numbers. Programs and files are those of the image.
set -eux
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=0755 run /run
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
/usr/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=subsystems --action=add
udevadm trigger --type=devices --action=add
udevadm settle

NEW=/mnt
KEYS=/etc/keys
DISK=/dev/disk/by-id/virtio

uuid() {
    blkid --probe --match-tag UUID --output value "$1"
}

# A small boot partition that BIOS and GRUB can read, and the rest.
partitioned() {
    printf 'label: gpt\nsize=2MiB, type=21686148-6449-6E6F-744E-656564454649\nsize=512MiB\n-\n' | sfdisk --quiet "$1"
    udevadm settle
}

# A volume of LUKS that a key in a file opens; the few rounds are for an emulated machine.
encrypted() {
    mkdir -p -m 0700 "${3%/*}"
    head -c 64 /dev/urandom >"$3"
    chmod 0600 "$3"
    cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file "$3" "$1"
    cryptsetup open --key-file "$3" "$1" "$2"
}

data() {
    mkdir -p "$1"
    head -c 3000000 /dev/urandom >"$1/run1"
    chown 1234:1235 "$1/run1"
}

case " $(cat /proc/cmdline) " in
*" layout=luks "*) # as Debian's installer makes it: /boot, then LVM on LUKS; the data disk is LUKS, too
    partitioned $DISK-SYSTEM1
    encrypted $DISK-SYSTEM1-part3 cryptroot $KEYS/root.key
    pvcreate --quiet /dev/mapper/cryptroot
    vgcreate --quiet node /dev/mapper/cryptroot
    lvcreate --quiet --yes --size 7G --name root node
    lvcreate --quiet --yes --size 512M --name home node
    lvcreate --quiet --yes --size 256M --name swap node
    for one in root home; do mkfs.ext4 -q /dev/node/$one; done
    mkfs.ext4 -q $DISK-SYSTEM1-part2
    mkswap /dev/node/swap
    mount /dev/node/root $NEW
    mkdir $NEW/home $NEW/boot
    mount /dev/node/home $NEW/home
    mount $DISK-SYSTEM1-part2 $NEW/boot
    encrypted $DISK-DATA1 data /root/keys/data.key
    mkfs.ext4 -q -L data /dev/mapper/data
    mkdir /data
    mount /dev/mapper/data /data
    data /data/home
    umount /data
    mkdir -p /etc/cryptsetup-initramfs
    echo "KEYFILE_PATTERN=$KEYS/root.key" >>/etc/cryptsetup-initramfs/conf-hook
    echo 'UMASK=0077' >>/etc/initramfs-tools/initramfs.conf
    cat >/etc/crypttab <<END
cryptroot UUID=$(uuid $DISK-SYSTEM1-part3) $KEYS/root.key luks
data UUID=$(uuid $DISK-DATA1) /root/keys/data.key luks
END
    cat >/etc/fstab <<END
/dev/mapper/node-root / ext4 errors=remount-ro 0 1
UUID=$(uuid $DISK-SYSTEM1-part2) /boot ext4 defaults 0 2
/dev/mapper/node-home /home ext4 defaults 0 2
/dev/mapper/node-swap none swap sw 0 0
/dev/mapper/data /data ext4 defaults 0 2
END
    printf '%s\n' dm_crypt dm_mod dm_snapshot aesni_intel xts ecb sha256_generic >>/etc/initramfs-tools/modules
    GRUB_ON=$DISK-SYSTEM1
    ;;
*" layout=btrfs "*) # subvolumes on the system disk and on a data disk, an array of two further disks, and XFS
    partitioned $DISK-SYSTEM1
    mkfs.ext4 -q $DISK-SYSTEM1-part2 # GRUB cannot write to Btrfs, as it must to start something once
    mkfs.btrfs -q $DISK-SYSTEM1-part3
    mount $DISK-SYSTEM1-part3 $NEW
    for one in @ @home; do btrfs subvolume create "$NEW/$one"; done
    umount $NEW
    mount -o subvol=@ $DISK-SYSTEM1-part3 $NEW
    mkdir $NEW/home $NEW/boot
    mount -o subvol=@home $DISK-SYSTEM1-part3 $NEW/home
    mount $DISK-SYSTEM1-part2 $NEW/boot
    mkfs.btrfs -q -L pool $DISK-DATA1
    mkfs.xfs -q $DISK-DATA4
    mkdir /data /scratch /array /archive
    mount $DISK-DATA1 /data
    for one in data scratch; do btrfs subvolume create "/data/$one"; done
    data /data/data/home
    data /data/scratch/li
    umount /data
    mdadm --create /dev/md/tank --run --quiet --level=1 --metadata=1.0 --raid-devices=2 $DISK-DATA2 $DISK-DATA3
    mkfs.ext4 -q /dev/md/tank
    mount /dev/md/tank /array
    data /array/runs
    umount /array
    mount $DISK-DATA4 /archive
    data /archive/runs
    umount /archive
    mdadm --detail --scan >>/etc/mdadm/mdadm.conf
    cat >/etc/fstab <<END
UUID=$(uuid $DISK-SYSTEM1-part3) / btrfs subvol=@ 0 0
UUID=$(uuid $DISK-SYSTEM1-part3) /home btrfs subvol=@home 0 0
UUID=$(uuid $DISK-SYSTEM1-part2) /boot ext4 defaults 0 2
UUID=$(uuid $DISK-DATA1) /data btrfs subvol=data 0 0
UUID=$(uuid $DISK-DATA1) /scratch btrfs subvol=scratch,noatime 0 0
/dev/md/tank /array ext4 defaults 0 2
UUID=$(uuid $DISK-DATA4) /archive xfs defaults 0 0
END
    printf '%s\n' btrfs raid1 >>/etc/initramfs-tools/modules
    GRUB_ON=$DISK-SYSTEM1
    ;;
*" layout=md "*) # / on an array of two disks, with GRUB on both
    for disk in SYSTEM1 SYSTEM2; do partitioned $DISK-$disk; done
    mdadm --create /dev/md/root --run --quiet --level=1 --metadata=1.2 --raid-devices=2 \
        $DISK-SYSTEM1-part3 $DISK-SYSTEM2-part3
    mkfs.ext4 -q /dev/md/root
    mount /dev/md/root $NEW
    mdadm --detail --scan >>/etc/mdadm/mdadm.conf
    mkfs.ext4 -q $DISK-DATA1
    echo "UUID=$(uuid /dev/md/root) / ext4 errors=remount-ro 0 1" >/etc/fstab
    echo "UUID=$(uuid $DISK-DATA1) /data ext4 defaults 0 2" >>/etc/fstab
    mkdir /data
    printf '%s\n' raid1 >>/etc/initramfs-tools/modules
    GRUB_ON="$DISK-SYSTEM1 $DISK-SYSTEM2"
    ;;
esac

# The system: this tree, with the account and the files that Ansible needs.
echo node07 >/etc/hostname
echo 'MODULES=list' >/etc/initramfs-tools/conf.d/vm
printf '%s\n' virtio_pci virtio_blk ext4 crc32c_generic >>/etc/initramfs-tools/modules
printf 'GRUB_TIMEOUT=0\nGRUB_TERMINAL=console\nGRUB_CMDLINE_LINUX="console=ttyS0 no_timer_check"\n' >/etc/default/grub
groupadd --gid 1235 lab
useradd --uid 1234 --gid lab --create-home --shell /bin/bash admin
systemctl enable systemd-networkd systemd-resolved
for path in /*; do
    case $path in
    /dev | /gpulab | /mnt | /proc | /run | /sys | /tmp | /data | /scratch | /array | /archive | /layouts.sh) ;;
    *) cp --archive --one-file-system "$path" $NEW ;;
    esac
done
mkdir -p $NEW/dev $NEW/proc $NEW/run $NEW/sys $NEW/data $NEW/scratch $NEW/array $NEW/archive $NEW/mnt
mkdir -m 1777 $NEW/tmp
ln -sf ../run/systemd/resolve/stub-resolv.conf $NEW/etc/resolv.conf
python3 -I -c '
import sys
sys.path.insert(0, "/gpulab/lib")
from pathlib import Path
from ansible_collections.gpulab.node.plugins.module_utils.installer.install import place_files
place_files(Path("/gpulab/target"), Path(sys.argv[1]))' $NEW
mv $NEW/etc/sudoers.d/gpulab-reinstall $NEW/etc/sudoers.d/lab
for one in dev proc sys run; do mount --rbind /$one $NEW/$one; done
chroot $NEW update-initramfs -u
for disk in $GRUB_ON; do chroot $NEW grub-install --target=i386-pc "$disk"; done
chroot $NEW update-grub
sync
for one in dev proc sys run; do umount --recursive --lazy $NEW/$one; done

# What a snapshot keeps of the time before, and what lies in no subvolume.
case " $(cat /proc/cmdline) " in
*" layout=luks "*) lvcreate --quiet --yes --snapshot --size 128M --name home-before node/home ;;
*" layout=btrfs "*)
    mkdir /top
    mount -o subvolid=5 $DISK-SYSTEM1-part3 /top
    btrfs subvolume snapshot -r /top/@home /top/@home-before
    echo notes >/top/notes
    umount /top
    ;;
esac
umount --recursive $NEW
sync
echo 'LAYOUT MADE'
echo o >/proc/sysrq-trigger
sleep 60
