#!/usr/bin/env bash
# From training on a GPU to a prediction without manual edits: dlprof train and bench, dlcal fit, dlsim, with
# one GPU and with several; and with workers that share one.
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

# dlprof looks for the library in its own folder.
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
        run ./dlprof train "${alone[@]}" --batch $batch --steps 60 -o b$batch.dlt
    done
    run ./dlprof bench --device cuda --model mlp --precision double --quick --batch 32 \
        --workers-max 4 -o bench.dlt
    run "$dlcal" fit b32.dlt b128.dlt bench.dlt -o mlp.ini
    grep -q '^per_worker_ns = [0-9]' mlp.ini || fail "$1 GPUs: no [dispatch] in the cost file"
    # Operations of k copies take (k + 1) / 2 times as long: 1.5 / 2, 2.5 / 4.
    awk '/^copies_[24] / { k = substr($1, 8); d = $3 - (k + 1) / 2 / k; n += d < 1e-6 && d > -1e-6 }
        END { exit n != 2 }' mlp.ini || fail "$1 GPUs: $(grep '^copies' mlp.ini)"
    # The fake device has no time between operations, so a pass takes the time that training measured.
    tr -s '\n ' ' ' <words.txt | grep -q 'waits for at most 0.0 % of a pass' ||
        fail "$1 GPUs: gaps between launches"
    grep -q '^precision = double' mlp.ini || fail "$1 GPUs: no precision in the cost file"
    run "$dlsim" --costs mlp.ini --machine "$machines/dgx1_v100.ini" --workers 1,2,4 --batch 32 \
        --mode none,allreduce,average,async -o rows.csv
    # Other processes may slow the bench and the training differently.
    measured=$(./dlprof info --json b32.dlt | tr ',{' '\n' | awk -F: '/^"p50"/ && !found++ { print $2 }')
    predicted=$(awk -F, '/^#/ { next } !head { for (i = 1; i <= NF; i++) at[$i] = i; head = 1; next }
        $at["workers"] == 1 && $at["sync"] == "none" { print 1e9 * $at["step_p50_s"] }' rows.csv)
    awk -v p="${predicted:-0}" -v m="${measured:-1}" 'BEGIN { exit !(p > 0.4 * m && p < 2.5 * m) }' ||
        fail "$1 GPUs: one worker's step is ${predicted:-?} ns, measured ${measured:-?} ns"
}

column() { # NAME: prints workers, sync and that column of rows.csv
    awk -F, -v name="$1" '/^#/ { next } !head { for (i = 1; i <= NF; i++) at[$i] = i; head = 1; next }
        { print $at["workers"], $at["sync"], $at[name] }' rows.csv
}

# Workers that share the first of one or three GPUs.
share() { # GPUs MODE...
    export FAKE_DEVICES=$1
    rm -f measured.csv
    local modes=("${@:2}") list
    list=$(IFS=, && echo "${modes[*]}")
    for n in 1 2; do
        for mode in "${modes[@]}"; do
            local options=()
            [ "$mode" = average ] && options=(--interval 5)
            run ./dlprof train "${alone[@]}" --gpus 1 --workers $n --batch $((32 * n)) --steps 10 \
                --sync "$mode" "${options[@]}" --no-trace --csv measured.csv
        done
    done
    local scenario=(--costs mlp.ini --machine "$machines/dgx1_v100.ini" --gpus 0
        --batch-per-worker 32 --noise none)
    run "$dlsim" "${scenario[@]}" --workers 1,2 --mode "$list" --interval 5 \
        --measured measured.csv -o rows.csv
    grep -q 'copies_' words.txt && fail "$1 GPUs: sharing was measured: $(grep copies_ words.txt)"
    [ "$(column measured_per_s | awk '$3 > 0' | wc -l)" -eq $((2 * ${#modes[@]})) ] ||
        fail "$1 GPUs: not all runs are compared: $(column measured_per_s)"
    run "$dlsim" "${scenario[@]}" --workers 1,2,4 --mode none -o rows.csv
    # A step is the host's time, n copies of the batch over one link, and (n + 1) / 2 times the GPU's time.
    column step_p50_s | awk '$2 == "none" { step[$1] = $3 }
        END { d = (step[4] - step[2]) / (step[2] - step[1]); exit !(d > 1.99 && d < 2.01) }' ||
        fail "$1 GPUs: steps of workers that share a GPU: $(column step_p50_s)"
    # Measured runs with another setting are refused.
    "$dlsim" "${scenario[@]}" --workers 1,2 --mode "$list" --interval 5 \
        --set machine.pageable=yes --measured measured.csv >words.txt 2>&1 &&
        fail "$1 GPUs: rows of pinned memory judge pageable memory"
    grep -q 'host_memory is pinned' words.txt || fail "$1 GPUs: $(cat words.txt)"
    "$dlsim" "${scenario[@]}" --workers 2 --mode allreduce >words.txt 2>&1 &&
        fail "$1 GPUs: two ranks of a collective on one GPU"
    grep -q 'workers share 1 GPU' words.txt || fail "$1 GPUs: $(cat words.txt)"
    run "$dlcal" fit b32.dlt b128.dlt -o plain.ini
    run "$dlsim" "${scenario[@]}" --costs plain.ini --workers 2 --mode none -o rows.csv
    grep -q 'copies_2 = 1' words.txt || fail "$1 GPUs: what is assumed: $(cat words.txt)"
    grep -q 'copies_2.*take turns' rows.csv || fail "$1 GPUs: the assumption's source: $(head rows.csv)"
}

# Overhead of recording on the GPU, which the fit subtracts.
overhead() {
    export FAKE_DEVICES=1
    run ./dlprof bench overhead --device cuda --model mlp --precision double --batch 32 \
        --data synthetic --quick -o overhead.dlt
    grep -q 'recording adds' words.txt || fail "bench overhead: $(cat words.txt)"
    run "$dlcal" fit b32.dlt b128.dlt bench.dlt overhead.dlt -o less.ini
    grep -q 'recording: ' words.txt || fail "recording was not taken off: $(cat words.txt)"
}

# Kernels by shape and a layer, in dlsim's terms. The double computes in double on the processor, and its
# clock counts operations: only that the numbers arrive is checked.
shapes() {
    export FAKE_DEVICES=1
    local net=transformer:layers=2,width=64,heads=4,sequence=32,vocabulary=200,positions=32
    run ./dlprof bench shapes --quick --device cuda --workload "$net" -o shapes.dlt
    run "$dlcal" shapes shapes.dlt --machine 1xrtx3090 -o shapes.ini
    grep -q 'a layer in a loop without its attention takes 1.000 times the sum' words.txt ||
        fail "bench shapes: the layer: $(cat words.txt)"
    grep -q '^launch_ns = .*, measured' shapes.ini || fail "bench shapes: $(cat shapes.ini)"
    sed -i 's/^launch_ns = .*/launch_ns = 1ms, measured/' shapes.ini
    run "$dlsim" --workload "$net" --machine shapes.ini --batch 8 --workers 1 \
        --set workload.arithmetic=fp32 -o shapes.csv
    grep -q '1e+03 us each, as a program in C takes' shapes.csv ||
        fail "bench shapes: launches: $(grep dispatch shapes.csv)"
}

# The command lines of docs/profiling.md, with shorter runs and the double's numbers.
as_documented() {
    export FAKE_DEVICES=1
    mkdir -p documented/bin
    cp dlprof libdlprof_cuda.so documented/bin
    ln -s "$dlcal" documented/bin/dlcal
    ln -s "$dlsim" documented/bin/dlsim
    sed -n '/^## One GPU/,/^## What/p' "$machines/../../docs/profiling.md" | sed -n '/^```console/,/^```$/p' |
        sed -e '/^```/d' -e 's/^\$ //' -e 's/--device cuda/& --precision double/' \
            -e 's/--steps 200/--steps 20/' -e 's/dlprof bench/& --quick --workers-max 2/' >documented/lines
    [ "$(grep -c '^dl' documented/lines)" -eq 6 ] || fail "lines of the page: $(cat documented/lines)"
    (cd documented && PATH=$PWD/bin:$PATH DLSCALE_SHARE=$machines/../.. bash -e lines >words.txt 2>&1) ||
        fail "as documented: $(tail -n 5 documented/words.txt)"
    grep -q 'error over 1 measured point' documented/words.txt ||
        fail "as documented: nothing is compared: $(cat documented/words.txt)"
}

chain 1
as_documented
share 1 none average async softsync
overhead
shapes
chain 3
share 3 average
[ $failures -eq 0 ]
