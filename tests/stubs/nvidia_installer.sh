#!/bin/sh
# Stand-in for nvidia-installer of driver @VERSION@, and by its other name for nvidia-uninstall: see nvidia_runfile.py.
# It knows the options that gpulab gives, refuses all others, and leaves the records that the real one leaves: its log,
# and /var/lib/nvidia/log, by which it uninstalls. It takes the former driver off first, as the real one does with DKMS.
set -eu
version=@VERSION@ fault=@FAULT@
backup=/var/lib/nvidia
libraries=/usr/lib/x86_64-linux-gnu
uninstalling=''
[ "$(basename "$0")" != nvidia-uninstall ] || uninstalling=yes

usage() {
    echo "nvidia-installer:  version $version"
    if [ -z "$uninstalling" ]; then
        for option in dkms kernel-name=KERNEL-NAME kernel-module-type=TYPE no-x-check no-nouveau-check skip-module-load \
            allow-installation-with-running-driver uninstall; do echo "  --$option"; done
    fi
    for option in silent advanced-options skip-module-unload; do echo "  --$option"; done
}

fail() {
    echo "ERROR: $1" | tee -a "$log" >&2
    printf '%s\n' "ERROR: Installation has failed.  Please see the file '$log' for details." | tee -a "$log" >&2
    exit 1
}

uninstall() {
    [ -e $backup/log ] || return 0
    former=$(sed -n '1s/.*(\(.*\))/\1/p' $backup/log)
    dkms remove -m nvidia -v "$former" --all >>"$log" 2>&1 || :
    sed -n 's/^[0-9]*: //p' $backup/log | xargs rm --force --
    rm --recursive --force $backup "/usr/src/nvidia-$former"
    ldconfig
    echo "-> Uninstallation of existing driver: NVIDIA Accelerated Graphics Driver ($former) is complete." >>"$log"
}

put() {  # path, mode; content on standard input
    install -D --mode="$2" /dev/stdin "$1"
    printf '1: %s\n' "$1" >>$backup/log
}

main() {
    silent='' with_dkms='' kernel=$(uname -r) type=proprietary given=$*
    for option in "$@"; do
        case $option in
            -A | --advanced-options) usage; exit 0 ;;
            -s | --silent) silent=yes ;;
            --dkms) with_dkms=yes ;;
            --kernel-name=*) kernel=${option#*=} ;;
            --kernel-module-type=open | --kernel-module-type=proprietary) type=${option#*=} ;;
            --uninstall) uninstalling=yes ;;
            --no-x-check | --no-nouveau-check | --skip-module-load | --allow-installation-with-running-driver) ;;
            --skip-module-unload) ;;
            *) echo "ERROR: unrecognized option '$option'" >&2; exit 1 ;;
        esac
    done
    log=/var/log/nvidia-installer.log
    [ -z "$uninstalling" ] || log=/var/log/nvidia-uninstall.log
    printf "nvidia-installer log file '%s'\ninstaller version: %s\n    %s\n" "$log" "$version" "$given" >"$log"
    [ -n "$silent" ] || fail "Nobody is there to answer: this stand-in wants --silent."
    if [ -n "$uninstalling" ]; then
        uninstall
        exit 0
    fi
    echo "-> Installing NVIDIA driver version $version." >>"$log"
    [ -n "$with_dkms" ] || fail "This stand-in installs with --dkms only."
    uninstall
    [ "$fault" != failing ] || fail "Unable to create a symlink
       that a stand-in should create."
    install --directory --mode=0700 $backup
    (umask 077 && printf '1.0-%s (%s)\nNVIDIA Accelerated Graphics Driver\n' "$(echo "$version" | tr -d .)" "$version" >$backup/log)
    put /usr/bin/nvidia-installer 0755 <"$0"
    put /usr/bin/nvidia-uninstall 0755 <"$0"
    printf '#!/bin/sh\nsleep infinity &\n' | put /usr/bin/nvidia-persistenced 0755
    # The simulated NVML goes by the name of this file. libnvidia-ml.so.1 is not made: nothing could load it.
    [ "$fault" = lossy ] || echo "stand-in for NVIDIA's library" | put "$libraries/libnvidia-ml.so.$version" 0644
    source=kernel
    [ $type != open ] || source=kernel-open
    cp --recursive $source "/usr/src/nvidia-$version"
    ldconfig
    dkms install -m nvidia -v "$version" -k "$kernel" >>"$log" 2>&1 || fail "Failed to install the kernel module through DKMS."
    echo "-> Installation of the NVIDIA Accelerated Graphics Driver for Linux-x86_64 (version: $version) is now complete." >>"$log"
}

main "$@"
exit 0
