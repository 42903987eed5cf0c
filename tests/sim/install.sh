#!/bin/sh
# Make a simulated GPU node of the system below ROOT (of this one: /), with a model of models/ (h100-sxm-8, ...).
#   tests/sim/install.sh ROOT MODEL
# It takes effect at that system's next boot. Needs gcc and Python here, nothing but Python and kmod there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${1%/} model=$2

libraries=$root/usr/lib/gpulab-simulation
python3 "$here/build.py" "$libraries"
mkdir -p "$libraries/sim"
cp "$here/settings.py" "$here/hardware.py" "$here/simulate.py" "$libraries/sim/"
install -D -m 0644 "$here/models/$model.conf" "$root/etc/gpulab-simulation/gpu.conf"
install -D -m 0755 "$here/gpulab-simulate" "$root/usr/local/sbin/gpulab-simulate"
install -D -m 0755 "$here/dmesg" "$root/usr/local/bin/dmesg"
install -D -m 0755 "$here/nvidia_smi.py" "$root/usr/local/bin/nvidia-smi"
for daemon in persistenced fabricmanager; do
    install -D -m 0644 "$here/$daemon.conf" \
        "$root/etc/systemd/system/nvidia-$daemon.service.d/gpulab-simulation.conf"
done
install -D -m 0644 "$here/gpulab-simulation.service" "$root/etc/systemd/system/gpulab-simulation.service"
mkdir -p "$root/etc/systemd/system/sysinit.target.wants"
ln -sf ../gpulab-simulation.service "$root/etc/systemd/system/sysinit.target.wants/"
