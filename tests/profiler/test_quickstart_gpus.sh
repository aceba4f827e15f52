#!/usr/bin/env bash
# ./quickstart on a machine with 1 and 4 GPUs, with doubles of the device, the driver, NVML and CUPTI:
# the numbers of GPUs that are trained, predicted and recorded, and the contents of the report.
# Usage: test_quickstart_gpus.sh BIN TESTS FAKE_CUDA CUPTI; 77 = no libcupti
set -u
bin=$(realpath "$1") tests=$(realpath "$2") fake_cuda=$(realpath "$3") cupti=$4
[ -e "$cupti" ] || { echo "skipped: no libcupti"; exit 77; }
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/test_quickstart_gpus.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failures=0
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# dlprof looks for its libraries in its own folder.
mkdir "$folder/bin" "$folder/tools"
cp "$bin"/{dlprof,dlcal,dlsim,libdlprof_inject.so} "$folder/bin"
cp "$fake_cuda" "$folder/bin/libdlprof_cuda.so"
cat >"$folder/tools/nvidia-smi" <<'DOUBLE'
#!/usr/bin/env bash
for ((g = 0; g < ${SMI_DEVICES:-$FAKE_DEVICES}; g++)); do
    case $* in
        -L) echo "GPU $g: a double (UUID: GPU-00000000-0000-0000-0000-000000000000)" ;;
        *compute_cap*) echo "Double, 580.1, 9.0" ;;
    esac
done
DOUBLE
chmod +x "$folder/tools/nvidia-smi"
export PATH=$folder/tools:$PATH DLSCALE_SHARE=$root DLPROF_CUPTI=$tests/doubles/libcupti_double.so
export DOUBLE_REAL_CUPTI=$cupti LD_LIBRARY_PATH=$tests/doubles:$tests/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

run() { # GPUs, wanted exit status, options...
    local wanted=$2 status=0
    export FAKE_DEVICES=$1
    "$root/scripts/quickstart_gpus.sh" "$folder/bin" "$folder/out" --model mlp --batch 8 --precision double \
        --steps 12 --bench --quick "${@:3}" >"$folder/words" 2>&1 || status=$?
    [ $status -eq "$wanted" ] || fail "$1 GPUs: status $status, not $wanted: $(tail -n 20 "$folder/words")"
}

# Prints workers and mode of the results' measured rows, sorted.
compared() {
    awk -F, '/^#/ { next } !head { for (i = 1; i <= NF; i++) at[$i] = i; head = 1; next }
        $at["measured_per_s"] > 0 && $at["throughput_per_s"] > 0 { printf "%s%s ", $at["workers"], substr($at["sync"], 1, 2) }' \
        "$folder/out/results.csv"
}

check() { # GPUs, compared rows, rounds measured, omitted parts, options...
    local report=$folder/out/gpus.report.txt rounds=$3 failed=$4
    run "$1" 0 --rounds 2 "${@:5}"
    [ "$(compared)" = "$2" ] || fail "$1 GPUs: compared are $(compared), not $2"
    [ "$(grep -c ',dlprof train$' "$folder/out/measured.csv")" -eq $((rounds * $(wc -w <<<"$2"))) ] ||
        fail "$1 GPUs: rows measured: $(cat "$folder/out/measured.csv")"
    for n in ${2//[a-z]/}; do
        grep -q "^## recorded by CUPTI, $n GPUs" "$report" || fail "$1 GPUs: no record of $n"
    done
    # The last record has lines of the all-reduce kernel.
    [ "$(sed -n "/^## recorded by CUPTI, $1 GPUs/,\$p" "$report" | grep -c '^all_reduce ')" -ge 1 ] || [ "$1" -eq 1 ] ||
        fail "$1 GPUs: no all-reduce was recorded"
    [ "$(sed -n '/^## failed/,/^## predicted/p' "$report" | sed '/^$/d; /^##/d; s/ after .*//')" = "$failed" ] ||
        fail "$1 GPUs: $(sed -n '/^## failed/,/^## predicted/p' "$report")"
    for part in '^dlsim [0-9]' '^GPU: Double, 580.1' '^model = mlp' 'measured/s' '^\[gpu_model' '^\[op ' '^error over'; do
        grep -q -- "$part" "$report" || fail "$1 GPUs: no '$part' in the report"
    done
    # The report does not identify the machine or its user.
    for name in "$folder" "$(uname -n)" "$(id -un)" GPU-0000; do
        grep -nw -- "$name" "$report" && fail "$1 GPUs: the report names $name"
    done
    [ "$(wc -l <"$folder/words")" -le 48 ] || fail "$1 GPUs: $(wc -l <"$folder/words") lines, more than two screens"
    grep -q '^learnt: .*predicted from one GPU, ' "$folder/words" || fail "$1 GPUs: nothing is learnt"
    [ -s "$folder/out/gpus.html" ] || fail "$1 GPUs: no page"
}
check 4 "1al 1av 2al 2av 4al 4av " 2 ""
cat "$folder/words"
# No time for a second round, and CUDA shows one of four GPUs.
export SMI_DEVICES=4
check 1 "1al 1av " 1 "round 2 was not begun" --seconds 0
unset SMI_DEVICES
# The report is written even if a run fails, and names that run.
run 1 1 --rounds 1 --model nonsense
grep -q '^one_8: exit status 2:.*nonsense' "$folder/out/gpus.report.txt" || fail "a failed run is not named"
# A machine file is also written if the GPUs cannot be measured, and the program says why.
if ! FAKE_DEVICES=2 FAKE_FAILS=0 "$folder/bin/dlprof" machine --measure -o "$folder/box.ini" >"$folder/words" 2>&1 ||
    ! grep -q '^copies of GPUs: fake device . broke' "$folder/words" || ! grep -q '^\[gpu_model' "$folder/box.ini"; then
    fail "GPUs that break: $(cat "$folder/words")"
fi
run 2 2 --nonsense 1
SMI_DEVICES=1 run 0 1
grep -q "no fake device.*--cores" "$folder/words" || fail "no reason why CUDA shows no GPU: $(cat "$folder/words")"
[ $failures -eq 0 ]
