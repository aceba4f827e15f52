#!/usr/bin/env bash
# Runs all tests that need a GPU in ten minutes, in steps (steps.py), each with a budget and with checks
# that fail if nothing was recorded or something was lost. After each step OUT has its logs and traces,
# and table.txt the results so far; fixtures/ has CUPTI's raw records, for
# tests/profiler/fixtures/raw.
#
#   tests/gpu/run.sh OUT [STEP...]     inventory backend truth raw torch cost beside predict bench
#                                      several; all, in this order, if none is named
#   tests/gpu/run.sh --carry FILE      builds here, for A100, H100 and later, and packs programs and
#                                      libraries (.tar.xz); DL_CARRIED=FILE on the GPU machine runs them
#   tests/gpu/run.sh --fetch FOLDER    downloads the Debian packages of the libraries; on the GPU
#                                      machine, DL_PACKAGES=FOLDER unpacks them, to build offline
#
# Environment: BUILD=folder with the build, default OUT/build. LIMIT=seconds for everything, default
# 600. PACK=folder that also gets the results, after every step, in at most six files of 15 MB, for a
# machine with limited output (cat results.tgz.* | tar xz). SETTINGS=file that replaces some of the
# settings in steps.py.
# Exit status: 0 if all checks passed, 1 if not, 77 if there is no GPU, 2 for bad usage.
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
targets=(dlprof dlcal dlsim dlprof_cuda dlprof_inject test_backend_cuda test_device test_train_device
    truth raw_counts)
packages=(libopenblas-dev libopenblas-pthread-dev libopenblas0-pthread libgfortran5 libquadmath0
    libgsl-dev libgsl27 libgslcblas0 libboost1.74-dev librandom123-dev libcmocka-dev libcmocka0
    libhwloc-dev libhwloc15 zlib1g-dev libsimdjson-dev libsimdjson14 libsqlite3-dev libsqlite3-0 pkgconf pkgconf-bin libpkgconf3)

usage() {
    sed -n '2,21s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

# build FOLDER [CMAKE_OPTION...]
build() {
    local folder=$1 generator=()
    command -v ninja >/dev/null && generator=(-G Ninja)
    cmake -S "$source_dir" -B "$folder" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release "${@:2}" &&
        cmake --build "$folder" -j "$(nproc)" --target "${targets[@]}"
}

# Prints the libraries that the programs need, except those of CUDA, MPI and the compiler, of which the
# GPU machine must use its own, perhaps newer, versions.
libraries_of() { # programs...
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -vE \
        '/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda|cudart|cublas|cublasLt|cudnn|nccl|cupti|mpi|open-rte|open-pal)\.so'
}

carry() { # FILE
    local made
    made=$(mktemp -d) || exit 1
    build "$made/build" '-DCMAKE_CUDA_ARCHITECTURES=80;90' >"$made/log" 2>&1 || { tail -n 40 "$made/log"; exit 1; }
    mkdir -p "$made/carried/bin" "$made/carried/tests" "$made/carried/lib"
    cp "$made"/build/bin/{dlprof,dlcal,dlsim,*.so} "$made/carried/bin"
    (cd "$made/build/tests" && cp truth raw_counts test_backend_cuda test_device test_train_device \
        "$made/carried/tests")
    libraries_of "$made"/carried/bin/* "$made"/carried/tests/* | xargs -I{} cp -L {} "$made/carried/lib"
    tar -cJf "$1" -C "$made/carried" . && ls -l "$1"
    rm -rf "$made"
}

case "${1:-}" in
    --carry) [ $# -eq 2 ] || usage; carry "$2"; exit ;;
    --fetch) [ $# -eq 2 ] || usage; mkdir -p "$2" && cd "$2" && exec apt-get download "${packages[@]}" ;;
    "" | -*) usage ;;
esac
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
shift
build=${BUILD:-$out/build}
export DLSCALE_SHARE=$source_dir # machines by name, also for programs that were carried here

# nvidia-smi shows whether there is a GPU before anything is built.
if [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')" -eq 0 ]; then
    echo "no GPU here: nvidia-smi is missing or lists none"
    exit 77
fi

# Libraries from packages, unpacked to a separate folder; OpenBLAS' alternatives are not set up there.
if [ -n "${DL_PACKAGES:-}" ]; then
    prefix=$out/prefix
    for package in "$DL_PACKAGES"/*.deb; do dpkg-deb -x "$package" "$prefix"; done
    lib=$prefix/usr/lib/$(uname -m)-linux-gnu
    export PATH=$PATH:$prefix/usr/bin
    export LD_LIBRARY_PATH=$lib:$lib/openblas-pthread${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LIBRARY_PATH=$lib:$lib/openblas-pthread
    export PKG_CONFIG_PATH=$lib/pkgconfig:$lib/openblas-pthread/pkgconfig:$prefix/usr/share/pkgconfig
    export PKG_CONFIG_SYSROOT_DIR=$prefix CMAKE_PREFIX_PATH=$prefix/usr
fi

# CUDA libraries that the toolkit lacks may be installed as Python wheels, without the symbolic links
# that a linker needs.
toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
[ ! -d "$toolkit/bin" ] || export PATH=$PATH:$toolkit/bin
mkdir -p "$out/wheels/include" "$out/wheels/lib"
mapfile -t wheels < <(python3 -c 'import importlib.util as u
found = u.find_spec("nvidia")
print(*(found.submodule_search_locations if found else []), sep="\n")' 2>/dev/null)
use_wheel() { # header, library
    local header library
    header=$(find "${wheels[@]}" -name "$1" -print -quit 2>/dev/null)
    library=$(find "${wheels[@]}" -name "$2.so.*" -print -quit 2>/dev/null)
    [ -n "$library" ] || return 0
    [ -z "$header" ] || ln -sf "$(dirname "$header")"/* "$out/wheels/include"
    ln -sf "$(dirname "$library")"/*.so* "$out/wheels/lib"
    ln -sf "$library" "$out/wheels/lib/$2.so"
}
in_toolkit() { # header
    [ -n "$(find -L "$toolkit" /usr/include -maxdepth 3 -name "$1" -print -quit 2>/dev/null)" ]
}
if [ -n "${wheels[*]}" ]; then
    for pair in cudnn.h:libcudnn nccl.h:libnccl cublas_v2.h:libcublas cupti.h:libcupti \
        cuda_runtime_api.h:libcudart; do
        in_toolkit "${pair%:*}" || use_wheel "${pair%:*}" "${pair#*:}"
    done
fi
export CMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH:+$CMAKE_PREFIX_PATH:}$out/wheels
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$out/wheels/lib:$toolkit/lib64:$toolkit/extras/CUPTI/lib64

# Uses the carried build if it works on this GPU; otherwise builds for this machine's GPUs only.
works() {
    local status=0
    [ -x "$build/tests/truth" ] || return
    { "$build/bin/dlprof" --version && ldd "$build/bin/libdlprof_cuda.so" && "$build/tests/truth" exit 10; } \
        >"$out/works.log" 2>&1 || status=$?
    [ $status -eq 3 ] && ! grep 'not found' "$out/works.log"
}
if [ -n "${DL_CARRIED:-}" ]; then
    mkdir -p "$build" && tar -xf "$DL_CARRIED" -C "$build"
    export LD_LIBRARY_PATH=$build/lib:$LD_LIBRARY_PATH
fi
if ! works; then
    [ -z "${DL_CARRIED:-}" ] || tail -n 3 "$out/works.log"
    capabilities=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | tr -d '. ' |
        grep -x '[0-9]*' | sort -u | paste -sd ';')
    build=$out/built
    build "$build" ${capabilities:+"-DCMAKE_CUDA_ARCHITECTURES=$capabilities"} >"$out/build.log" 2>&1 ||
        { tail -n 40 "$out/build.log"; exit 1; }
    works || { cat "$out/works.log"; exit 1; }
fi
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$source_dir/tests/gpu/steps.py" --limit $((${LIMIT:-600} - SECONDS)) \
    ${SETTINGS:+--settings "$SETTINGS"} "$out" "$build" "$@"
