#!/usr/bin/env bash
# From training on a GPU to a prediction without a hand edit: dlprof train and bench, dlcal fit, dlsim, on
# a machine of which one GPU is used and on one of several.
set -u
dlprof=$(realpath "$1") dlcal=$(realpath "$2") dlsim=$(realpath "$3") library=$(realpath "$4")
machines=$(cd "$(dirname "$0")/../../scenarios/machines" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/test_gpu_chain.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failures=0
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# dlprof looks for the library beside itself.
cp "$dlprof" "$folder/dlprof"
cp "$library" "$folder/libdlprof_cuda.so"
cd "$folder" || exit 1

run() { # command...
    "$@" >words.txt 2>&1 || fail "$* ended with $?: $(tail -n 5 words.txt)"
}

alone=(--device cuda --model mlp --precision double --data synthetic)
chain() { # GPUs
    local measured predicted
    export FAKE_DEVICES=$1
    for batch in 32 128; do
        run ./dlprof train "${alone[@]}" --batch $batch --steps 120 -o b$batch.dlt
    done
    run ./dlprof bench --device cuda --model mlp --precision double --quick -o bench.dlt
    run "$dlcal" fit b32.dlt b128.dlt bench.dlt -o mlp.ini
    grep -q '^per_worker_ns = [0-9]' mlp.ini || fail "$1 GPUs: no [dispatch] in the cost file"
    run "$dlsim" --costs mlp.ini --machine "$machines/dgx1_v100.ini" --workers 1,2,4 --batch 32 \
        --mode none,allreduce,average,async -o rows.csv
    measured=$(./dlprof info --json b32.dlt | tr ',{' '\n' | awk -F: '/^"p50"/ && !found++ { print $2 }')
    predicted=$(awk -F, '/^#/ { next } !head { for (i = 1; i <= NF; i++) at[$i] = i; head = 1; next }
        $at["workers"] == 1 && $at["sync"] == "none" { print 1e9 * $at["step_p50_s"] }' rows.csv)
    awk -v p="${predicted:-0}" -v m="${measured:-1}" 'BEGIN { exit !(p > 0.7 * m && p < 1.5 * m) }' ||
        fail "$1 GPUs: one worker's step is ${predicted:-?} ns, measured ${measured:-?} ns"
}

chain 1
chain 3
[ $failures -eq 0 ]
