#!/usr/bin/env bash
# Runs all of tests/gpu/run.sh with doubles of the device, the driver, CUPTI and PyTorch; all checks
# must pass. With "broken": each step lacks something and must fail.
# Usage: test_gpu_run.sh BIN TESTS FAKE_CUDA CUPTI [broken]; 77 = a requirement is missing
set -u
bin=$(realpath "$1") tests=$(realpath "$2") fake_cuda=$(realpath "$3") cupti=$4
doubles=$tests/doubles
if [ ! -e "$cupti" ]; then
    echo "skipped: no libcupti"
    exit 77
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/test_gpu_run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failures=0
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# double NAME: installs a script from standard input as the tool NAME.
double() {
    { echo '#!/usr/bin/env bash'; cat; } >"$folder/tools/$1"
    chmod +x "$folder/tools/$1"
}

# A build as run.sh --carry packs it. dlprof looks for its libraries in its own folder.
mkdir -p "$folder/tools" "$folder/build/bin" "$folder/build/tests"
cp "$bin"/{dlprof,dlcal,dlsim,libdlprof_inject.so} "$folder/build/bin"
cp "$fake_cuda" "$folder/build/bin/libdlprof_cuda.so"
cp "$tests"/{raw_counts,test_cuda_kernels} "$folder/build/tests"
cp "$doubles/truth_double" "$folder/build/tests/truth"
double nvidia-smi <<'DOUBLE'
case $* in
    -L) for ((g = 0; g < ${FAKE_DEVICES:-1}; g++)); do echo "GPU $g: a double"; done ;;
    *compute_cap*) for ((g = 0; g < ${SHOWN:-${FAKE_DEVICES:-1}}; g++)); do echo "Double, 580.1, 9.0"; done ;;
esac
DOUBLE
double compute-sanitizer <<'DOUBLE'
"${@:3}" && echo "========= ERROR SUMMARY: 0 errors"
DOUBLE
double nothing <<<'exit 0'
cat >"$folder/settings.json" <<END
{"judge_times": false, "tests": ["test_cuda_kernels"], "memcheck": {"test_cuda_kernels": []},
 "sanitizer": "compute-sanitizer", "launches": 300, "torch": ["$doubles/torch_double"],
 "torch_steps": 40, "rounds": 2, "warm_s": 0, "run_s": 0.008,
 "cost": {"mlp": {"batch": 8, "preset": "default", "percent": 2, "options": ["--precision", "double"]}},
 "models": {"mlp": 8}, "precisions": ["double"],
 "predict": {"model": "mlp", "batch": 8, "workers": [1, 2], "intervals": [1, 5], "modes": ["async", "ps"],
             "where": ["cpu", "gpu:0"], "steps": 20, "precision": "double"},
 "bench": ["--quick", "--precision", "double"],
 "shapes": "--quick --workload transformer:layers=2,width=64,heads=4,sequence=32,vocabulary=200,positions=32"}
END

export LD_LIBRARY_PATH=$doubles:$tests/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export DLPROF_CUPTI=$doubles/libcupti_double.so DOUBLE_REAL_CUPTI=$cupti
export SETTINGS=$folder/settings.json BUILD=$folder/build PATH=$folder/tools:$PATH

run() { # wanted exit status, steps...
    local wanted=$1 status=0
    shift
    "$root/tests/gpu/run.sh" "$folder/out" "$@" >"$folder/words" 2>&1 || status=$?
    [ $status -eq "$wanted" ] || fail "status $status, not $wanted: $* $(tail -n 40 "$folder/words")"
}

said() { # pattern, file
    grep -qE -- "$1" "$2" || fail "no '$1' in ${2##*/}: $(cat "$2")"
}

if [ "${5:-}" != broken ]; then
    FAKE_DEVICES=0 run 77
    run 2 --nonsense

    # All steps.
    PACK=$folder/packed run 0
    cat "$folder/out/table.txt"
    [ "$(grep -c ' held ' "$folder/out/table.txt")" -eq 9 ] || fail "not all steps hold"
    said '^several .* left out ' "$folder/out/table.txt"
    for name in truth_full truth_graph; do
        [ -s "$folder/out/fixtures/$name.raw" ] || fail "no fixture $name"
    done
    cat "$folder/packed"/results.tgz.* | tar -tz >"$folder/names" || fail "the archive is damaged"
    for name in table.txt fixtures/truth_full.raw machine.ini predict/costs.ini torch/ddp.json; do
        said "^$name\$" "$folder/names"
    done
    cmp "$folder/out/table.txt" "$folder/packed/table.txt" || fail "another table was packed"

    # With two GPUs: copies between them, NCCL's exchange.
    DOUBLE_GPUS=2 FAKE_DEVICES=2 run 0 inventory truth several
    said '^several .* held ' "$folder/out/table.txt"
    [ $failures -eq 0 ]
    exit
fi

# A step in which nothing is recorded, or something is lost, fails with a message.
broken() { # step, message
    run 1 "$1"
    said "^$1 .* FAILED " "$folder/out/table.txt"
    said "$2" "$folder/out/table.txt"
}
SHOWN=0 broken inventory 'lists no GPU'
export DOUBLE_CUPTI=no-kernels
broken truth 'default_exit: 0 kernels recorded'
broken raw '0 of [0-9]* kernels'
broken cost 'mlp_light: 0 kernels recorded'
broken torch 'eager: 0 kernels recorded'
export DOUBLE_CUPTI=drops
broken truth 'full_exit: dropped_records: 7'
export DOUBLE_CUPTI=lost-times
broken truth 'lost_timestamps'
export DOUBLE_CUPTI=no-copies
broken truth 'memcpy h2d pinned 0: recorded None, true'
unset DOUBLE_CUPTI
TORCH_DOUBLE=silent broken torch 'ddp: the program says nothing'
TORCH_DOUBLE=silent broken beside "PyTorch's step was not timed"
replaced() { # program, step, message
    mv "$folder/build/$1" "$folder/kept"
    cp "$folder/tools/nothing" "$folder/build/$1"
    broken "$2" "$3"
    mv "$folder/kept" "$folder/build/$1"
}
replaced tests/test_cuda_kernels backend 'no test has passed'
replaced bin/dlsim predict '0 of [0-9]* runs were measured and predicted'
replaced bin/dlprof bench 'no figure came of it'
replaced tests/raw_counts raw 'no JSON'
FAKE_DEVICES=2 replaced bin/dlprof several 'allreduce_threads: no step was timed'

# Steps that exceed the time limit are stopped or not run, as the table shows; earlier results are kept.
TORCH_DOUBLE=hangs LIMIT=22 run 1 inventory torch bench
said '^inventory .* held ' "$folder/out/table.txt"
said 'there: stopped after' "$folder/out/table.txt"
said '^bench .*NOT RUN' "$folder/out/table.txt"

[ $failures -eq 0 ]
