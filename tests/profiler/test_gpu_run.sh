#!/usr/bin/env bash
# tests/gpu/run.sh and capture.sh with doubles of nvidia-smi, CMake, CTest and dlprof: what fails or hangs
# does not stop what follows, the limit is kept, and the results are packed.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/test_gpu_run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failures=0
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# double NAME: the program is the standard input.
double() {
    { echo '#!/usr/bin/env bash'; cat; } >"$folder/bin/$1"
    chmod +x "$folder/bin/$1"
}

mkdir -p "$folder/bin" "$folder/build/bin"
touch "$folder/build/bin/libdlprof_inject.so"
double nvidia-smi <<'DOUBLE'
case $* in
    -L) [ -n "${NO_GPU:-}" ] || echo "GPU 0: a double" ;;
    *compute_cap*) echo 9.0 ;;
    *) echo "$*" ;;
esac
DOUBLE
# Its list of targets is longer than a pipe holds.
double cmake <<'DOUBLE'
case $* in
    *help*) echo "dlprof_inject: phony"; seq 100000 ;;
    --build*) echo "targets: $*" ;;
    *) echo "-- CUDA device: 13.0.88, for $*" ;;
esac
DOUBLE
double ctest <<<'echo "100% tests passed"'
double python3 <<<'exit 1'
double dlprof <<'DOUBLE'
[ "$1" != info ] || { echo '{"p50":1000}'; exit 0; }
if [ "$1" = run ]; then
    [[ $* != *--overhead* ]] || [ -e "$FIGURES" ] || exit 3
    while [ "$1" != -- ]; do
        [ "$1" != -o ] || mkdir -p "$2"
        [ "$1" != --json ] || printf '%s\n' "{\"activities\":{\"kernel\":${KERNELS:-100000}}," \
            "\"dropped_records\":${DROPPED:-0}}" >"$2"
        shift
    done
    shift
    "$@"
    exit
fi
[[ -z ${FAILING:-} || $* != *$FAILING* ]] || exit 1
[[ -z ${HANGING:-} || $* != *$HANGING* ]] || sleep 60
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || echo trace >"$2"
    shift
done
DOUBLE
cp "$folder/bin/dlprof" "$folder/build/bin"

run() { # wanted exit status, arguments...
    local wanted=$1 status=0
    shift
    rm -rf "$folder/out" "$folder/packed"
    BUILD=$folder/build PACK=$folder/packed ROUNDS=2 PATH=$folder/bin:$PATH \
        FIGURES=$folder/out/capture_overhead/overhead.dlt \
        "$root/tests/gpu/run.sh" "$folder/out" "$@" >"$folder/words" 2>&1 || status=$?
    [ $status -eq "$wanted" ] || fail "status $status, not $wanted: $* $(tail -n 30 "$folder/words")"
}

said() { # pattern, what is searched
    grep -qe "$1" "$2" || fail "no '$1' in ${2##*/}: $(tail -n 30 "$2")"
}

NO_GPU=1 run 77
run 2 nonsense

run 0
said '^failed: nothing' "$folder/out/summary.txt"
said 'CUDA_ARCHITECTURES=90' "$folder/out/configure.log"
said 'dlprof_inject' "$folder/out/build.log"
said '^held: resnet50 default' "$folder/out/capture_overhead/capture_cost.txt"
[ "$(find "$folder/packed" -type f | wc -l)" -le 7 ] || fail "packed: $(ls "$folder/packed")"
cat "$folder/packed"/results.tgz.* | tar -tz >"$folder/names" || fail "the archive is damaged"
for name in tests.log machine.ini resnet50_tf32.dlt resnet50_tf32.info.txt run_lenet.dlt bench_resnet50.dlt \
    capture_overhead/capture_cost.txt lenet_softsync_gpu0_w8.dlt; do
    said "^./$name\$" "$folder/names"
done

FAILING=vgg19_bn run 1 train bench
said '^failed: train_vgg19_b32 .*train_vgg19_fp16 bench_vgg19_bn$' "$folder/out/summary.txt"
[ -e "$folder/out/bench_lenet.dlt" ] || fail "a failed training stops what follows"

# A program that ran while nothing of it was recorded, or not all.
KERNELS=0 run 1 profile
said '^failed: recorded_lenet recorded_vgg19_bn recorded_resnet50$' "$folder/out/summary.txt"
said 'NOT HELD: 0 kernels recorded' "$folder/out/recorded_lenet.log"
DROPPED=7 run 1 profile
said 'but "dropped_records":7' "$folder/out/recorded_lenet.log"
KERNELS=0 run 1 overhead
said '^resnet50 default: failed' "$folder/out/capture_overhead/capture_cost.txt"

# Without the figures of its own cost, recording is measured all the same.
FAILING=overhead run 1 overhead
said '^resnet50 default: ' "$folder/out/capture_overhead/capture_cost.txt"

# Ten seconds are kept back, five are the least of a step: the steps before have nine.
begun=$SECONDS
HANGING='--model resnet50' LIMIT=24 run 1 train bench
[ $((SECONDS - begun)) -le 40 ] || fail "the limit of 24 s became $((SECONDS - begun)) s"
said '^failed: train_resnet50_b16$' "$folder/out/summary.txt"
said 'bench_lenet: no time is left' "$folder/packed/summary.txt"
cat "$folder/packed"/results.tgz.* | tar -tz | grep -c train_resnet50_b16.log >/dev/null ||
    fail "the log of what was stopped is not packed"

[ $failures -eq 0 ]
