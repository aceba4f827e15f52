#!/usr/bin/env bash
# Installs missing Debian or Ubuntu packages, and prints their names. Does nothing, and needs no rights,
# if none is missing. If it cannot install (neither root nor sudo, no apt-get), it lists the missing
# packages and succeeds: libraries elsewhere are found through CMAKE_PREFIX_PATH, and CMake names a
# library that it does not find.
# Usage: install_packages.sh
set -euo pipefail
case "${1:-}" in
    "") ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "install_packages.sh: takes no argument; see $0 --help" >&2; exit 2 ;;
esac

# package, parts of the project that need it
packages=(
    "build-essential   build"
    "cmake             build"
    "ninja-build       build; without it make is used"
    "pkg-config        build: finds the libraries"
    "libopenblas-dev   layers on the CPU"
    "libgsl-dev        fits of dlcal"
    "libboost-dev      distributions (headers only)"
    "librandom123-dev  random streams"
    "libsimdjson-dev   traces of PyTorch"
    "libarchive-dev    traces in .tar archives (optional)"
    "libsqlite3-dev    traces of Nsight Systems"
    "zlib1g-dev        .gz data, checksums of traces"
    "libhwloc-dev      dlprof machine (optional)"
    "libopenmpi-dev    sweeps and training over several machines (optional)"
    "openmpi-bin       the same: mpirun"
    "libcmocka-dev     tests (optional)"
    "python3           tests (optional)"
    "gnuplot-nox       figures (optional)"
)

missing=() lines=()
for line in "${packages[@]}"; do
    package=${line%% *}
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [ "$status" != "install ok installed" ] || continue
    missing+=("$package")
    lines+=("$line")
done
[ ${#missing[@]} -gt 0 ] || exit 0

go_on() { # why nothing was installed
    {
        echo "$1; packages that are missing:"
        printf '    %s\n' "${lines[@]}"
        if [ -n "${CMAKE_PREFIX_PATH:-}" ]; then
            echo "going on with what is there and in CMAKE_PREFIX_PATH ($CMAKE_PREFIX_PATH)"
        else
            echo "going on with what is there; set CMAKE_PREFIX_PATH to where these libraries are installed otherwise"
        fi
    } >&2
    exit 0
}

as_root=()
command -v apt-get >/dev/null || go_on "no apt-get on this system"
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || go_on "neither root nor sudo: cannot install"
    as_root=(sudo)
fi
echo "installing with apt-get: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update -qq &&
       DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq \
           --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    go_on "apt-get could not install"
fi
