#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that are missing, and says which. Does nothing, and needs no
# rights, when all are there. Usage: install_packages.sh
set -euo pipefail
case "${1:-}" in
    "") ;;
    -h | --help) sed -n '2,3s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "install_packages.sh: takes no argument; see $0 --help" >&2; exit 2 ;;
esac

packages=(
    build-essential cmake ninja-build pkg-config  # build
    libopenblas-dev                               # layers on the CPU
    libgsl-dev                                    # fits, statistics, distributions
    libinih-dev                                   # INI files
    librandom123-dev                              # random streams
    libsimdjson-dev                               # traces of PyTorch
    libarchive-dev                                # traces in .tar archives
    libsqlite3-dev                                # traces of Nsight Systems
    zlib1g-dev                                    # .gz data, checksums of traces
    libhwloc-dev                                  # dlprof machine
    libcmocka-dev                                 # tests
    gnuplot-nox                                   # plots
)

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "missing packages: ${missing[*]}" >&2
        echo "neither root nor sudo: install them with 'apt-get install ${missing[*]}' and run again" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "installing with apt-get: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update -qq &&
       DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq \
           --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install the packages above" >&2
    exit 1
fi
