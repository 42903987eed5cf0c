# What people do on a node.
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --yes --no-install-recommends python3-venv cron >/dev/null

# A home with keys, settings and work; a venv of her own.
useradd --uid 2001 --create-home --shell /bin/bash ada
echo 'ada:only for this scenario' | chpasswd
install --directory --owner=ada --group=ada --mode=0700 /home/ada/.ssh
install --directory --owner=ada --group=ada /home/ada/thesis /srv/data/ada
echo 'ssh-ed25519 AAAA ada@laptop' >/home/ada/.ssh/authorized_keys
echo 'chapter one' >/home/ada/thesis/one.tex
echo 'export EDITOR=vi' >>/home/ada/.bashrc
chown -R ada: /home/ada
runuser --login ada --command 'python3 -m venv ~/venv && ~/venv/bin/pip --quiet install six'

# A dataset on a disk of its own, what writes it every minute, and a service of the lab's.
head -c 10000000 /dev/urandom >/srv/data/ada/dataset
touch /srv/data/ada/ticks
chown ada: /srv/data/ada/dataset /srv/data/ada/ticks
echo '* * * * * date >>/srv/data/ada/ticks' | crontab -u ada -
printf '[Service]\nExecStart=/usr/local/bin/camera\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/lab-camera.service
printf '#!/bin/sh\nexec sleep infinity\n' >/usr/local/bin/camera
chmod 755 /usr/local/bin/camera
systemctl daemon-reload
systemctl enable --quiet --now lab-camera.service

# What nobody has accounted for.
mkdir -p /opt/vendor
printf . >/opt/vendor/stray
head -c 2000 /dev/zero >/srv/model.bin
echo measured >/home/ada/results.csv
chown ada: /home/ada/results.csv
