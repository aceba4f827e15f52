#!/usr/bin/env bash
# Everything that takes a GPU: builds, runs the tests labelled gpu, trains LeNet, VGG-19 and ResNet-50
# for a few steps, records such runs, measures copies, collectives and the cost of recording. Leaves
# traces, tables and logs in OUTDIR. Exit status: 0, 1 if anything failed, 77 if there is no GPU, 2 for
# bad usage.
#
#   tests/gpu/run.sh OUTDIR [PART...]  PARTs of: tests machine train profile bench overhead modes torch; all, in
#                                      this order, if none is named. What they need is built first.
#   tests/gpu/run.sh --fetch FOLDER    downloads the Debian packages of the libraries to FOLDER, for a
#                                      machine without network: there, DL_PACKAGES=FOLDER unpacks them
#
# Environment: BUILD=folder to build in, default OUTDIR/build. LIMIT=seconds for everything: what does
# not fit is left out, and said so. PACK=folder that gets the results too, after every part: at most
# seven files of 15 MB, for a machine that hands back only so much (cat results.tgz.* | tar xz).
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)

packages=(libopenblas-dev libopenblas-pthread-dev libopenblas0-pthread libgfortran5 libquadmath0
    libgsl-dev libgsl27 libgslcblas0 librandom123-dev libcmocka-dev libcmocka0
    zlib1g-dev libsimdjson-dev libsimdjson14 libsqlite3-dev libsqlite3-0 pkgconf pkgconf-bin libpkgconf3)

usage() {
    sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

case "${1:-}" in
    --fetch)
        [ $# -eq 2 ] || usage
        mkdir -p "$2" && cd "$2" && exec apt-get download "${packages[@]}"
        ;;
    "" | -*) usage ;;
esac
all_parts=(tests machine train profile bench overhead modes torch)
given=$1
shift
parts=("$@")
[ $# -gt 0 ] || parts=("${all_parts[@]}")
for part in "${parts[@]}"; do
    [[ " ${all_parts[*]} " == *" $part "* ]] || usage
done

mkdir -p "$given" || exit 1
out=$(cd "$given" && pwd)
build=${BUILD:-$out/build}
limit=${LIMIT:-86400}
end_s=10 # kept back to pack the results
failed=()
skipped=()

skip() { # reason
    echo "skipped: $1"
    skipped+=("$1")
}

# Runs a command with its output in a log, for $step_s seconds at most and no longer than the limit;
# a failure is told at the end.
step() { # name, command...
    local name=$1 allowed=${step_s:-60} left=$((limit - end_s - SECONDS)) status=0
    shift
    if [ "$left" -lt 5 ]; then
        skip "$name: no time is left"
        return 1
    fi
    [ "$left" -ge "$allowed" ] || allowed=$left
    echo "== $name at $SECONDS s: $*"
    timeout --kill-after=5 "$allowed" "$@" >"$out/$name.log" 2>&1 || status=$?
    if [ $status -eq 0 ]; then
        tail -n 12 "$out/$name.log"
        return 0
    fi
    [ $status -ne 124 ] || echo "stopped after $allowed s" >>"$out/$name.log"
    echo "FAILED with status $status"
    tail -n 40 "$out/$name.log"
    failed+=("$name")
    return 1
}

write_summary() {
    echo "skipped: ${skipped[*]:-nothing}"
    echo "failed: ${failed[*]:-nothing}"
} >"$out/summary.txt"

# Logs first: they are there even if the rest is too large.
pack() {
    write_summary
    [ -n "${PACK:-}" ] || return 0
    local made=$out/packed
    rm -rf "$made" && mkdir -p "$made" "$PACK" || return
    (cd "$out" && find . \( -path ./build -o -path ./prefix -o -path ./wheels -o -path ./packed \) -prune \
        -o -type f -printf '%s %p\n' | sort -n | cut -d ' ' -f 2- >packed/names &&
        tar -cz --no-recursion -T packed/names) | head -c 75000000 |
        split -b 15000000 -d - "$made/results.tgz."
    cp "$out/summary.txt" "$made"
    [ ! -e "$out/tests.log" ] || cp "$out/tests.log" "$made"
    rm -f "$made/names" "$PACK"/results.tgz.*
    mv -f "$made"/* "$PACK"
}

finish() {
    pack
    cat "$out/summary.txt"
    [ ${#failed[@]} -eq 0 ] || exit 1
    exit 0
}
trap 'failed+=("stopped by a signal"); finish' INT TERM

# A GPU, or none: the driver's own program says so without anything built.
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
if [ "$gpus" -eq 0 ]; then
    echo "no GPU here: nvidia-smi is missing or lists none"
    exit 77
fi
nvidia-smi >"$out/nvidia-smi.txt" 2>&1
nvidia-smi topo -m >"$out/topology.txt" 2>&1

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

# Of CUDA's libraries, what the toolkit lacks may be there as wheels of Python, which come without the
# links that a linker needs.
toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
[ ! -d "$toolkit/bin" ] || export PATH=$PATH:$toolkit/bin
use_wheel() { # header, library
    local header library
    [ -z "$(find -L "$toolkit" /usr/include -maxdepth 3 -name "$1" -print -quit 2>/dev/null)" ] || return 0
    header=$(find "${wheels[@]}" -name "$1" -print -quit 2>/dev/null)
    library=$(find "${wheels[@]}" -name "$2.so.*" -print -quit 2>/dev/null)
    [ -n "$header" ] && [ -n "$library" ] || return 0
    echo "$1 and $library are Python's"
    mkdir -p "$out/wheels/include" "$out/wheels/lib"
    ln -sf "$(dirname "$header")"/* "$out/wheels/include"
    ln -sf "$(dirname "$library")"/*.so* "$out/wheels/lib"
    ln -sf "$library" "$out/wheels/lib/$2.so"
}
mapfile -t wheels < <(python3 -c 'import importlib.util as u
found = u.find_spec("nvidia")
print(*(found.submodule_search_locations if found else []), sep="\n")' 2>/dev/null)
if [ -n "${wheels[*]}" ]; then
    use_wheel cudnn.h libcudnn
    use_wheel nccl.h libnccl
    use_wheel cublas_v2.h libcublas
    use_wheel cupti.h libcupti
fi
export CMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH:+$CMAKE_PREFIX_PATH:}$out/wheels
for library in gsl simdjson sqlite3 hwloc; do
    pkg-config --exists $library 2>/dev/null || skip "what needs $library"
done

# For the GPUs of this machine alone, which takes less time than for all.
build_all() {
    local generator=() capabilities targets known
    command -v ninja >/dev/null && generator=(-G Ninja)
    capabilities=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | tr -d '. ' | grep -x '[0-9]*' |
        sort -u | paste -sd ';')
    step_s=120 step configure cmake -S "$source_dir" -B "$build" "${generator[@]}" \
        -DCMAKE_BUILD_TYPE=Release -DDL_ALLOW_MISSING=ON \
        ${capabilities:+"-DCMAKE_CUDA_ARCHITECTURES=$capabilities"} || return
    if ! grep -q '^-- CUDA device: [0-9]' "$out/configure.log"; then
        grep -e '^-- CUDA device' "$out/configure.log"
        failed+=("no CUDA device in this build")
        return 1
    fi
    targets=(dlprof dlprof_cuda test_backend_cuda test_device test_train_device)
    # Read to its end: a pipe that is closed early would look like a failure.
    known=$(cmake --build "$build" --target help 2>/dev/null)
    [[ $known != *dlprof_inject* ]] || targets+=(dlprof_inject)
    [[ ! $known =~ (^|[^a-z_])dlcal([^a-z_]|$) ]] || targets+=(dlcal)
    step_s=400 step build cmake --build "$build" -j "$(nproc)" --target "${targets[@]}"
}
dlprof=$build/bin/dlprof

part_tests() {
    # Each test that takes a GPU must run here, not skip itself.
    step_s=300 step tests ctest --test-dir "$build" -R '^test_(backend_cuda|device|train_device)$' \
        --output-on-failure --no-tests=error
    if grep -q 'Skipped' "$out/tests.log"; then failed+=("a test of the GPU skipped itself"); fi
}

# The machine file of this machine; what it could not find out is listed in the log.
part_machine() {
    step machine "$dlprof" machine --measure -o "$out/machine.ini"
}

# Workers that share a GPU are marked so in their traces.
train() { # name, options...
    local name=$1
    shift
    step "train_$name" "$dlprof" train --device cuda --data synthetic -o "$out/$name.dlt" \
        --csv "$out/measured.csv" "$@"
}

workers=$gpus
[ "$workers" -gt 1 ] || workers=2

# Alone, on all GPUs through NCCL, and each precision.
part_train() {
    local batch precision dispatch
    # LeNet's step is well below a millisecond: seconds, after a tenth of warm-up, in which the clock rises.
    for batch in 64 16 256; do train "lenet_b$batch" --model lenet --batch "$batch" --steps 5000; done
    for batch in 32 128; do train "vgg19_b$batch" --model vgg19_bn --batch "$batch" --steps 30; done
    for batch in 16 64; do train "resnet50_b$batch" --model resnet50 --batch "$batch" --steps 15; done
    train resnet50_tf32 --model resnet50 --batch 64 --steps 15 --precision tf32
    for precision in fp32 tf32 fp16; do
        train "vgg19_$precision" --model vgg19_bn --batch 128 --steps 30 --precision "$precision"
    done
    train allreduce_w1 --model lenet --sync allreduce --steps 20
    if [ "$gpus" -eq 1 ]; then
        skip "allreduce between GPUs: there is one"
        return
    fi
    for dispatch in threads single; do
        train "vgg19_allreduce_$dispatch" --model vgg19_bn --sync allreduce --workers "$gpus" \
            --batch $((32 * gpus)) --steps 20 --dispatch "$dispatch"
    done
    train vgg19_average_nccl --model vgg19_bn --sync average --interval 5 --where allreduce \
        --workers "$gpus" --batch $((32 * gpus)) --steps 20
}

# The injected library in such runs: what CUPTI sees of them.
part_profile() {
    local model
    for model in lenet vgg19_bn resnet50; do
        rm -rf "$out/run_$model"
        step "run_$model" "$dlprof" run -o "$out/run_$model" --json "$out/run_$model.json" -- \
            "$dlprof" train --device cuda --data synthetic --model "$model" --batch 32 --steps 12 \
            -o "$out/run_$model.dlt" || continue
        # dlprof run has the program's exit status, whatever it recorded. A step has a kernel and more.
        step "recorded_$model" "$source_dir/tests/gpu/recorded.sh" "$out/run_$model.json" 12
    done
}

part_bench() {
    local model
    for model in lenet vgg19_bn resnet50; do # a fit takes the benchmark of its own model only
        step_s=90 step "bench_$model" "$dlprof" bench --device cuda --data synthetic --model "$model" \
            --seconds "${SECONDS_BENCH:-20}" -o "$out/bench_$model.dlt"
    done
}

# capture.sh keeps to the limit by itself, and so has a result then.
capture() { # what
    local left=$((limit - end_s - 10 - SECONDS)) dlcal=$build/bin/dlcal
    [ -x "$dlcal" ] || dlcal=
    LIMIT=$left step_s=$((left + 10)) step "$1" "$source_dir/tests/gpu/capture.sh" "$out/capture_$1" \
        "$dlprof" "$dlcal" "$1"
    cat "$out/capture_$1/capture_cost.txt" 2>/dev/null
}

part_torch() {
    if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
        capture torch
    else
        skip "PyTorch: python3 has no torch with a GPU"
    fi
}

# Every way to exchange; both ways to issue. Where vectors meet: the host, a GPU; and what is sent.
# GPUs are shared where there are fewer than workers.
part_modes() {
    local sync interval shared compress where
    local vgg=(--model vgg19_bn --workers "$workers" --batch $((32 * workers)) --steps 20)
    for sync in average ps none async; do train "vgg19_${sync}_w$workers" "${vgg[@]}" --sync "$sync"; done
    train "vgg19_interval5_w$workers" "${vgg[@]}" --sync average --interval 5 --average-state
    train "vgg19_pageable_w$workers" "${vgg[@]}" --sync average --host-memory pageable
    train "vgg19_single_w$workers" "${vgg[@]}" --sync average --dispatch single
    for compress in fp16 1bit; do
        for where in cpu gpu:0; do
            train "vgg19_ps_${compress}_${where%:0}_w$workers" "${vgg[@]}" --sync ps --where "$where" \
                --compress "$compress"
        done
    done
    train lenet_slow --model lenet --sync average --workers 2 --batch 128 --steps 100 --slow 1:1.5
    for shared in 2 4 8; do
        for interval in 1 5 10; do
            train "lenet_cpu_i${interval}_w$shared" --model lenet --sync average --interval "$interval" \
                --where cpu --workers "$shared" --batch $((64 * shared)) --steps 100
        done
        for sync in average ps allreduce async softsync; do
            train "lenet_${sync}_gpu0_w$shared" --model lenet --sync "$sync" --where gpu:0 \
                --workers "$shared" --batch $((64 * shared)) --steps 100
        done
    done
}

describe_traces() {
    local trace
    for trace in "$out"/*.dlt "$out"/run_*/*.dlt; do
        [ -e "$trace" ] || continue
        if [ "${trace%.dlt}.info.txt" -nt "$trace" ]; then continue; fi
        timeout 20 "$dlprof" info "$trace" >"${trace%.dlt}.info.txt" 2>&1 ||
            failed+=("info of ${trace##*/}")
    done
}

build_all || finish
pack
for part in "${parts[@]}"; do
    if [[ $part =~ ^(profile|overhead|torch)$ ]] && [ ! -e "$build/bin/libdlprof_inject.so" ]; then
        skip "$part: this build has no injected library"
        continue
    fi
    case $part in
        tests) part_tests ;;
        machine) part_machine ;;
        train) part_train ;;
        profile) part_profile ;;
        bench) part_bench ;;
        overhead) capture overhead ;;
        modes) part_modes ;;
        torch) part_torch ;;
    esac
    describe_traces
    pack
done
finish
