#!/bin/sh
# What people and programs leave on a node in the course of a year. CANARY marks what is secret.
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --yes --no-install-recommends python3-venv cron at acl libcap2-bin docker.io \
    $(apt-cache show docker-cli 2>/dev/null | sed -n '1s/Package: //p') >/dev/null

# People: one with data whose id is below UID_MIN, one whose home is on the root disk.
groupadd --gid 640 instrument
useradd --uid 640 --gid 640 --no-create-home --home-dir /srv/instrument --shell /usr/sbin/nologin instrument
mkdir -p /srv/instrument
head -c 100000 /dev/zero >/srv/instrument/run1
chown -R instrument: /srv/instrument
useradd --uid 2001 --create-home --shell /bin/bash li
echo 'li:CANARY-li' | chpasswd
loginctl enable-linger li 2>/dev/null || touch /var/lib/systemd/linger/li
mkdir -p /home/li/.ssh /home/li/thesis
echo 'ssh-ed25519 AAAA li@laptop' >/home/li/.ssh/authorized_keys
printf -- '-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY-key\n' >/home/li/.ssh/id_ed25519
echo 'machine example.org login li password CANARY-netrc' >/home/li/.netrc
echo 'chapter one' >/home/li/thesis/one.tex
python3 -m venv /home/li/venv
/home/li/venv/bin/pip --quiet install six
echo 'print("mine")' >/home/li/venv/mine.py
chown -R li: /home/li

# Jobs of all kinds.
echo '@reboot /usr/local/bin/start' | crontab -u li -
printf 'MAILTO=root\n17 3 * * 0 root curl https://li:CANARY-cron@example.org/\n' >/etc/cron.d/weekly-report
printf '#!/bin/sh\n' >/etc/cron.daily/rotate-data
chmod 755 /etc/cron.daily/rotate-data
printf '[Service]\nExecStart=/usr/local/bin/start\n[Install]\nWantedBy=multi-user.target\n' \
    >/etc/systemd/system/lab-camera.service
mkdir -p /etc/systemd/system/cron.service.d
printf '[Service]\nNice=5\n' >/etc/systemd/system/cron.service.d/lab.conf
systemctl daemon-reload
systemctl enable --quiet lab-camera.service
printf '#!/bin/sh\n' >/usr/local/bin/start
chmod 755 /usr/local/bin/start

# Packages: a changed conffile, a hold, a pin, a source of a third party with its key.
echo '# mine' >>/etc/bash.bashrc
apt-mark hold cron >/dev/null
printf 'Package: linux-image-*\nPin: version 6.1*\nPin-Priority: 900\n' >/etc/apt/preferences.d/kernel
cp /usr/share/keyrings/debian-archive-keyring.gpg /etc/apt/keyrings/lab.gpg
printf 'Types: deb\nURIs: https://packages.example.org/\nSuites: stable\nComponents: main\nSigned-By: %s\n' \
    /etc/apt/keyrings/lab.gpg >/etc/apt/sources.list.d/lab.sources

# File systems, as fstab knows them.
cat >>/etc/fstab <<'END'
UUID=0f5c1b52-0000-4000-8000-000000000000 /data ext4 defaults,nofail 0 2
LABEL=scratch /scratch xfs noauto 0 0
server:/export/home /mnt/home nfs4 noauto,_netdev 0 0
tmpfs /mnt/tmp tmpfs noauto,size=1m 0 0
/srv/instrument /mnt/bound none bind,noauto 0 0
END

# A container's image without a registry, and a named volume with something in it.
mkdir -p /tmp/image
docker info >/dev/null 2>&1 || systemctl start docker
tar --create --directory /tmp/image . | docker import - lab/own:1 >/dev/null
docker volume create results >/dev/null
echo measured >/var/lib/docker/volumes/results/_data/results.csv

# Odd files.
mkdir /etc/odd
printf x >"/etc/odd/new
line"
printf x >"$(printf '/etc/odd/\377\376')"
truncate --size 1M /etc/odd/sparse
printf x >/etc/odd/one
ln /etc/odd/one /etc/odd/two
setfacl --modify user:li:r /etc/odd/one
printf x >/etc/odd/able
setcap cap_net_raw+p /etc/odd/able
(umask 077 && echo 'CANARY-token' >/etc/odd/token)
mkdir -p /opt/vendor/empty
printf . >/opt/vendor/stray
mkdir -p /mnt/bound && mount --bind /srv/instrument /mnt/bound
systemd-run --quiet --unit=writer sh -c 'exec 3>/var/tmp/.unnamed; head -c 4096 /dev/zero >&3; rm /var/tmp/.unnamed; exec sleep 86400'
