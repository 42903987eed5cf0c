# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixed vocabulary of remedies, and the sentence that a user reads for each."""

from __future__ import annotations

REMEDIES = {
    "none": "Nothing to do.",
    "repeat_proof": "Repeat the proof on the idle node alone: ansible-playbook gpulab.node.verify -l <host>"
    " -e verify_level=standard.",
    "restart_app": "Restart the program that used the GPU. If the error returns, look for its cause in that program.",
    "stop_app": "Wait for the programs that use the GPU, or ask their users to end them.",
    "reset_gpu": "Once nobody uses this GPU, reset it (nvidia-smi --gpu-reset -i <bus id>), or reboot the idle node.",
    "reboot": "Reboot the node when its GPUs are idle.",
    "power_cycle": "Power the node off, wait a minute, and power it on again.",
    "install_driver": "Install the NVIDIA driver: ansible-playbook gpulab.node.provision.",
    "reinstall_driver": "Reinstall the NVIDIA driver, all packages in one version.",
    "upgrade_driver": "Upgrade to a driver version with the security fixes.",
    "upgrade_software": "Upgrade to the version named.",
    "install_software": "Install the software named.",
    "rebuild_module": "Install the kernel's headers, then build the driver's own version of the module: "
    "dkms install <module>/<version> -k <kernel> (dkms status lists them).",
    "other_modules": "Install the driver with the other kernel modules (open or proprietary). gpulab chooses them"
    " unless nvidia_driver_kernel_modules is set.",
    "allow_module": "Remove the named line from its file. Remove a kernel argument from GRUB_CMDLINE_LINUX in "
    "/etc/default/grub and run update-grub, or run grubby --remove-args; then reboot.",
    "take_back_gpu": "Remove the node from the group gpu-nodes, or detach the GPU from the virtual machine and from "
    "the driver that holds it.",
    "install_grid": "Install the GRID driver that the operator of the hypervisor or cloud provides.",
    "license_vgpu": "Give the guest its licence: the token in /etc/nvidia/ClientConfigToken, FeatureType in"
    " /etc/nvidia/gridd.conf, then systemctl restart nvidia-gridd. The operator of the hypervisor has the token.",
    "rebuild_initramfs": "Rebuild the initramfs (update-initramfs -u -k <kernel>, or dracut --force), then reboot.",
    "enroll_key": "Enrol the module's signing key (mokutil --import <key>, then confirm at the console), or turn"
    " Secure Boot off in the firmware.",
    "sign_again": "Build the module again, so that the enrolled key signs it: dkms remove <module>/<version> -k"
    " <kernel>, then dkms install with the same (dkms status lists them).",
    "repair_packages": "Finish the interrupted installation: dpkg --configure -a, then apt-get -f install.",
    "rebuild_environment": "Remove its link in the directory of the environments, and run "
    "ansible-playbook gpulab.node.provision.",
    "configure": "Set it to the expected value: ansible-playbook gpulab.node.provision.",
    "set_by_hand": "Set it to the expected value in the file named, and restart what reads it. gpulab did not write it,"
    " and leaves it.",
    "another_docker": "Use a Docker of packages. Save what its images and volumes hold, remove the other one"
    " (snap remove docker, or the --config-file of its unit), then run ansible-playbook gpulab.node.provision.",
    "mend_docker": "Mend what Docker says; journalctl -u docker says more. Restart Docker when none of its containers"
    " is needed.",
    "allow_devices": "Allow it for all containers (setsebool -P container_use_devices on), or for one:"
    " --security-opt label=disable.",
    "start_service": "Start and enable the service named.",
    "start_fabricmanager": "Install nvidia-fabricmanager in the driver's exact version. Enable and start it.",
    "check_rack": "Check the NVLink switches of the rack, or ask its operator (NMX-Controller). They assign each"
    " GPU to a partition; no package on the node can.",
    "start_imex": "Read journalctl -u nvidia-imex. Every node needs the same list of addresses, nvidia-imex in"
    " its driver's version, and TCP port 50000 open to the others.",
    "clear_peer_path": "Turn ACS off on the bridges above the GPUs, and the IOMMU off or set iommu=pt. Until"
    " then, run programs with NCCL_P2P_DISABLE=1.",
    "check_seating": "Power the node off. Reseat the card, its riser and its cables. Try another slot.",
    "check_cooling": "Check fans, air flow, dust and the room's temperature.",
    "check_power": "Check the power supplies and the GPU's power cables.",
    "firmware_setting": "In the firmware's setup, turn Above 4G decoding (and Resizable BAR) on. Update the firmware"
    " if that does not help.",
    "online_movable": "Boot the kernel with memhp_default_state=online_movable. The role tuning sets it on boards with"
    " such memory: ansible-playbook gpulab.node.provision --tags tuning, then reboot.",
    "check_network": "Check the network between the nodes: NCCL's interface (nccl_interface), addresses,"
    " firewall, cables, switches.",
    "set_interface": "Give the interface named its address, its MTU or its state where your system keeps them (netplan,"
    " NetworkManager, systemd-networkd, ifupdown); gpulab does not set them. Peers and switches need the same MTU.",
    "save_disk": "Save what is on no other disk. dmesg -T says what failed, smartctl -a or nvme smart-log whether the"
    " disk is dying: then replace it. Else let fsck check the file system while it is not mounted, which also ends"
    " this finding; / is checked at a reboot.",
    "check_storage": "Check the mount, the file server and the network between. umount -l releases one that"
    " never comes back; what was not yet written there is lost.",
    "check_exports": "Check systemctl status nfs-server and exportfs -s. Then run the role storage again.",
    "lift_fence": "Mend the node and go on with the change: ansible-playbook gpulab.node.rollout. Or bring it back as"
    " it is: ansible-playbook gpulab.node.fence -e fence_state=absent.",
    "set_up_slurm": "Set Slurm up again, on the node and its controller: ansible-playbook gpulab.node.slurm.",
    "close_door": "Close it again: ansible-playbook gpulab.node.slurm; then let people log in again, or reboot. For"
    " cron, at and sshd, their files in /etc/pam.d need pam_systemd.so (package libpam-systemd). Replace systemd-cron"
    " by cron. Take people out of the group named, and let them run containers in jobs, without root.",
    "give_people": "Give the node its people again: ansible-playbook gpulab.node.users. Where a limit stays as it is,"
    " systemctl cat user-NUMBER.slice shows which file sets it.",
    "make_room": "Let the person remove or move files: writes fail there as on a full disk. Or give more room,"
    " by users_quota, quota of the person, or users_directories.",
    "mend_directory": "Look at journalctl -u sssd and getent group NAME: whether a server answers, whether the name is"
    " the directory's, whether directory_base holds it. Then: ansible-playbook gpulab.node.provision --tags directory.",
    "part_numbers": "Give one of the two another number, and its files to it, before somebody of the directory logs in."
    " Until then, a larger min_id in directory_settings leaves such numbers out.",
    "mend_pam": "pam-auth-update --force writes the files of /etc/pam.d again."
    " Keep what was changed there by hand first.",
    "refill_models": "Let the files come again: ansible-playbook gpulab.node.provision --tags model_store. Where it"
    " happens again, look at the disk (smartctl -a, and the kernel's log).",
    "refill_images": "Bring the images again: ansible-playbook gpulab.node.provision --tags work_images."
    " A folder that is damaged is replaced.",
    "read_models": "Look why the nights do not read the store: systemctl status gpulab-models.timer, and"
    " gpulab-models.service.",
    "list_people": "getent passwd NUMBER names the account. Put the person into users_people, with state: leaving where"
    " somebody has left.",
    "resume_node": "Mend what the reason says and prove the node. Then run: scontrol update nodename=NAME"
    " state=resume.",
    "check_disk": "Look at the disk: its link (lspci -vv), its heat and wear (smartctl -a), and what else reads from"
    " it.",
    "feed_gpus": "Move the data to a faster tier (scratch on NVMe), pack small files into few large ones, or prepare"
    " the samples beforehand. More processor cores per GPU help where the processors limit.",
    "replace_memory": "Run a memory test on the module named, reseat it, and replace it if the errors return.",
    "set_clock": "Let both clocks be kept in time: timedatectl set-ntp true on the node and on the controller, or"
    " chronyc makestep where chrony keeps it.",
    "remove_kernel": "Do not reboot into that kernel. Remove its packages (apt-get remove) until a driver builds for"
    " it: ansible-playbook gpulab.node.provision names them.",
    "free_space": "Free disk space on the file system named.",
    "own_check": "The check is the lab's own: see the reason, and the file of verify_own_checks that it comes from.",
    "rma": "Have the board replaced under warranty.",
    "contact_support": "Collect nvidia-bug-report.sh and contact the vendor.",
}
