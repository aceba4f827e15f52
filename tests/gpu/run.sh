#!/usr/bin/env bash
# Everything that takes a GPU, in one go: builds, runs the tests labelled gpu, trains LeNet, VGG-19 and
# ResNet-50 for a few steps, records such runs, measures copies and collectives. Leaves traces, tables
# and logs in OUTDIR. Exit status: 0, 1 if anything failed, 77 if there is no GPU, 2 for bad usage.
#
#   tests/gpu/run.sh OUTDIR            BUILD=folder to build in, default OUTDIR/build
#   tests/gpu/run.sh --fetch FOLDER    downloads the Debian packages of the libraries to FOLDER, for a
#                                      machine without network: there, DL_PACKAGES=FOLDER unpacks them
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)

packages=(libopenblas-dev libopenblas-pthread-dev libopenblas0-pthread libgfortran5 libquadmath0
    libgsl-dev libgsl27 libgslcblas0 libinih-dev libinih1 librandom123-dev libcmocka-dev libcmocka0
    zlib1g-dev libsimdjson-dev libsimdjson14 libsqlite3-dev pkgconf pkgconf-bin libpkgconf3)

usage() {
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

case "${1:-}" in
    --fetch)
        [ $# -eq 2 ] || usage
        mkdir -p "$2" && cd "$2" && exec apt-get download "${packages[@]}"
        ;;
    "" | -*) usage ;;
esac
[ $# -eq 1 ] || usage

mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
build=${BUILD:-$out/build}
failed=()
skipped=()

skip() { # reason
    echo "skipped: $1"
    skipped+=("$1")
}

# Runs a command with its output in a log; a failure is told at the end.
step() { # name, command...
    local name=$1
    shift
    echo "== $name: $*"
    if "$@" >"$out/$name.log" 2>&1; then
        tail -n 12 "$out/$name.log"
    else
        echo "FAILED with status $?"
        tail -n 40 "$out/$name.log"
        failed+=("$name")
        return 1
    fi
}

finish() {
    {
        echo "skipped: ${skipped[*]:-nothing}"
        echo "failed: ${failed[*]:-nothing}"
    } | tee "$out/summary.txt"
    [ ${#failed[@]} -eq 0 ] || exit 1
    exit 0
}

# A GPU, or none: the driver's own program says so without anything built.
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
    echo "no GPU here: nvidia-smi is missing or lists none"
    exit 77
fi
nvidia-smi >"$out/nvidia-smi.txt" 2>&1
nvidia-smi topo -m >"$out/topology.txt" 2>&1
gpus=$(nvidia-smi -L | grep -c '^GPU ')

# Libraries from packages that were carried here, in a folder of their own.
if [ -n "${DL_PACKAGES:-}" ]; then
    prefix=$out/prefix
    mkdir -p "$prefix"
    for package in "$DL_PACKAGES"/*.deb; do
        dpkg-deb -x "$package" "$prefix" || failed+=("unpack $package")
    done
    triplet=$(gcc -dumpmachine)
    [ -d "$prefix/usr/lib/$triplet" ] || triplet=x86_64-linux-gnu
    lib=$prefix/usr/lib/$triplet
    # OpenBLAS lies where Debian's alternatives would link to.
    export PATH=$PATH:$prefix/usr/bin
    export LD_LIBRARY_PATH=$lib:$lib/openblas-pthread${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LIBRARY_PATH=$lib:$lib/openblas-pthread
    export PKG_CONFIG_PATH=$lib/pkgconfig:$lib/openblas-pthread/pkgconfig:$prefix/usr/share/pkgconfig
    export PKG_CONFIG_SYSROOT_DIR=$prefix
    export CMAKE_PREFIX_PATH=$prefix/usr
fi
for library in gsl simdjson sqlite3 hwloc; do
    pkg-config --exists $library 2>/dev/null || skip "what needs $library"
done

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
step configure cmake -S "$source_dir" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DDL_ALLOW_MISSING=ON || finish
if ! grep -q '^-- CUDA device: [0-9]' "$out/configure.log"; then
    grep -e '^-- CUDA device' "$out/configure.log"
    failed+=("no CUDA device in this build")
    finish
fi
targets=(dlprof dlprof_cuda test_backend_cuda test_device test_train_device)
cmake --build "$build" --target help 2>/dev/null | grep -q 'dlprof_inject' && targets+=(dlprof_inject)
cmake --build "$build" --target help 2>/dev/null | grep -q '\bdlcal\b' && targets+=(dlcal)
step build cmake --build "$build" -j "$(nproc)" --target "${targets[@]}" || finish
dlprof=$build/bin/dlprof

# Each test that takes a GPU must run here, not skip itself.
step tests ctest --test-dir "$build" -R '^test_(backend_cuda|device|train_device)$' \
    --output-on-failure --no-tests=error
if grep -q 'Skipped' "$out/tests.log"; then failed+=("a test of the GPU skipped itself"); fi

# On one GPU, then on all; every way to exchange; both ways to issue. Workers that share a GPU are
# marked so in their traces.
train() { # name, options...
    local name=$1
    shift
    step "train_$name" "$dlprof" train --device cuda --data synthetic -o "$out/$name.dlt" \
        --csv "$out/measured.csv" "$@"
}
for batch in 16 64 256; do train "lenet_b$batch" --model lenet --batch $batch --steps 200; done
for batch in 32 128; do train "vgg19_b$batch" --model vgg19_bn --batch $batch --steps 30; done
for batch in 16 64; do train "resnet50_b$batch" --model resnet50 --batch $batch --steps 15; done
train resnet50_tf32 --model resnet50 --batch 64 --steps 15 --precision tf32
workers=$gpus
[ "$workers" -gt 1 ] || workers=2
for sync in none average ps async; do
    train "vgg19_${sync}_w$workers" --model vgg19_bn --sync $sync --workers "$workers" \
        --batch $((32 * workers)) --steps 20
done
train "vgg19_interval5_w$workers" --model vgg19_bn --sync average --interval 5 --average-state \
    --workers "$workers" --batch $((32 * workers)) --steps 20
train "vgg19_pageable_w$workers" --model vgg19_bn --sync average --host-memory pageable \
    --workers "$workers" --batch $((32 * workers)) --steps 20
train "vgg19_single_w$workers" --model vgg19_bn --sync average --dispatch single \
    --workers "$workers" --batch $((32 * workers)) --steps 20
if [ "$gpus" -gt 1 ]; then
    for dispatch in threads single; do
        train "vgg19_allreduce_$dispatch" --model vgg19_bn --sync allreduce --workers "$gpus" \
            --batch $((32 * gpus)) --steps 20 --dispatch $dispatch
    done
else
    skip "allreduce between GPUs: there is one"
fi
# Where vectors meet: the host, a GPU, between GPUs; and what is sent. GPUs are shared where there are
# fewer than workers.
for shared in 2 4 8; do
    for interval in 1 5 10; do
        train "lenet_cpu_i${interval}_w$shared" --model lenet --sync average --interval $interval \
            --where cpu --workers $shared --batch $((64 * shared)) --steps 100
    done
    for sync in average ps allreduce async softsync; do
        train "lenet_${sync}_gpu0_w$shared" --model lenet --sync $sync --where gpu:0 \
            --workers $shared --batch $((64 * shared)) --steps 100
    done
done
for compress in fp16 1bit; do
    for where in cpu gpu:0; do
        train "vgg19_ps_${compress}_${where%:0}_w$workers" --model vgg19_bn --sync ps \
            --where $where --compress $compress --workers "$workers" \
            --batch $((32 * workers)) --steps 20
    done
done
train lenet_slow --model lenet --sync average --workers 2 --batch 128 --steps 100 --slow 1:1.5
for precision in fp32 tf32 fp16; do
    train "vgg19_$precision" --model vgg19_bn --batch 128 --steps 30 --precision $precision
done
if [ "$gpus" -gt 1 ]; then
    train vgg19_average_nccl --model vgg19_bn --sync average --interval 5 --where allreduce \
        --workers "$gpus" --batch $((32 * gpus)) --steps 20
fi
train allreduce_w1 --model lenet --sync allreduce --steps 20

# The injected library in the same runs: what CUPTI sees of them.
if [ -e "$build/bin/libdlprof_inject.so" ]; then
    for model in lenet vgg19_bn resnet50; do
        rm -rf "$out/run_$model"
        step "run_$model" "$dlprof" run -o "$out/run_$model" -- \
            "$dlprof" train --device cuda --data synthetic --model $model --batch 32 --steps 12 \
            -o "$out/run_$model.dlt"
    done
    dlcal=$build/bin/dlcal
    [ -x "$dlcal" ] || dlcal=
    step capture "$source_dir/tests/gpu/capture.sh" "$out/capture" "$dlprof" ${dlcal:+"$dlcal"}
    cat "$out/capture/capture_cost.txt"
else
    skip "dlprof run: this build has no injected library"
fi

step bench "$dlprof" bench --device cuda --seconds 60 -o "$out/bench.dlt"

for trace in "$out"/*.dlt "$out"/run_*/*.dlt; do
    [ -e "$trace" ] || continue
    "$dlprof" info "$trace" >"${trace%.dlt}.info.txt" 2>&1 || failed+=("info of ${trace##*/}")
done
finish
