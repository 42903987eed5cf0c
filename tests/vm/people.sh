#!/bin/sh
# What people leave on a machine with two disks; DATA is the disk with the data, in LVM. Nothing here needs a GPU.
set -e
export DEBIAN_FRONTEND=noninteractive
# Emulated, an initramfs with all modules takes minutes; this list has what the machine needs.
echo 'MODULES=list' >/etc/initramfs-tools/conf.d/vm
printf '%s\n' virtio_pci virtio_blk ext4 crc32c_generic >>/etc/initramfs-tools/modules
apt-get update -qq
apt-get install -qq --yes --no-install-recommends at cron lvm2 python3-venv tree >/dev/null

# The administrators' own right to sudo, instead of what the installer left for a rebuild that this system does not get.
echo 'admin ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/lab
rm /etc/sudoers.d/gpulab-reinstall

pvcreate --quiet --yes "$DATA"
vgcreate --quiet lab "$DATA"
lvcreate --quiet --extents 100%FREE --name data lab
mkfs.ext4 -q -L data /dev/lab/data
mkdir /data
echo 'LABEL=data /data ext4 defaults 0 2' >>/etc/fstab
mount /data

# One with a home on the data disk, one on the root disk, one below UID_MIN with data.
groupadd --gid 3000 students
mkdir /data/home
useradd --uid 3001 --gid students --create-home --home-dir /data/home/wei --shell /bin/bash wei
useradd --uid 3002 --create-home --shell /bin/bash li
echo 'li:a password' | chpasswd
usermod --append --groups students li
chage --expiredate 2031-05-01 li
groupadd --gid 640 instrument
useradd --uid 640 --gid 640 --no-create-home --home-dir /data/instrument --shell /usr/sbin/nologin instrument
mkdir /data/instrument
head -c 3000000 /dev/urandom >/data/instrument/run1
chown -R instrument: /data/instrument
echo 'thesis' >/data/home/wei/thesis
chown wei: /data/home/wei/thesis
mkdir -p /home/li/.ssh
echo 'ssh-ed25519 AAAA li@laptop' >/home/li/.ssh/authorized_keys
chown -R li: /home/li
su li -c 'python3 -m venv /home/li/venv'

# Jobs of all kinds; each notes where it ran.
echo '*/5 * * * * echo cron >>/data/ran' | crontab -u root -
printf '[Service]\nExecStart=/usr/local/bin/lab-job\n' >/etc/systemd/system/lab-job.service
printf '[Timer]\nOnCalendar=hourly\n[Install]\nWantedBy=timers.target\n' >/etc/systemd/system/lab-job.timer
printf '#!/bin/sh\necho timer >>/data/ran\n' >/usr/local/bin/lab-job
chmod 755 /usr/local/bin/lab-job
systemctl enable --quiet --now lab-job.timer
systemctl disable --quiet --now atd

# What an administrator changed.
apt-mark hold tree >/dev/null
echo '# ours' >>/etc/bash.bashrc
echo 'PermitRootLogin no' >/etc/ssh/sshd_config.d/lab.conf
timedatectl set-timezone Asia/Shanghai
mkdir /etc/lab
echo 'node of the lab' >/etc/lab/name
setfacl --version >/dev/null 2>&1 && setfacl --modify u:li:r /etc/lab/name || true
