#!/usr/bin/env bash
# The command dlprof: exit statuses, messages, files. Usage: test_dlprof.sh DLPROF
set -u
dlprof=$1
tested=$dlprof
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"

small=(--model mlp --batch 16 --data synthetic)

# Help and version
expect 0 "train" --help
expect 0 "dlprof " --version
for command in train bench info machine export; do
    expect 0 "Usage: dlprof $command" $command --help
    expect 0 "dlprof " $command --version
done

# Bad usage exits with 2 and suggests the right word
expect 2 "did you mean 'train'?" trian
expect 2 "did you mean" train --worker-s 2
expect 2 "--workers" train --wrokers 2
expect 2 "--bound: '-1' is out of range" train --sync softsync --bound -1
expect 2 "did you mean 'lenet'?" train --model lanet
expect 2 "did you mean 'average'?" train --sync averge
expect 2 "--steps" train --steps many
expect 2 "--slow" train --slow 3:2 --workers 2
expect 2 "must be cpu, cuda, or cuda:NUMBER" train --device gpu
expect 2 "--batch" bench --batch 32,x
expect 2 "did you mean 'overhead'?" bench overhed
expect 2 "" info
expect 2 "--output" export a.dlt b.dlt
expect 2 "multiple" train "${small[@]}" --workers 3 --steps 1
expect 2 "--dispatch single needs a GPU" train "${small[@]}" --steps 1 --dispatch single
expect 2 "without a GPU (--device cuda), vectors are exchanged in host memory" train "${small[@]}" --where gpu:0
expect 2 "needs a GPU" train "${small[@]}" --precision tf32
expect 2 "parameters are not stored in half precision" train "${small[@]}" --precision half
expect 2 "parameters are not stored in half precision" train "${small[@]}" --precision half --schedule x.csv
expect 2 "parameters are not stored in half precision" bench --quick "${small[@]}" --precision half
expect 2 "1000000 cores; this process may use 1 to" train "${small[@]}" --cores 1000000
expect 2 "1000000 cores; this process may use 1 to" bench --quick "${small[@]}" --cores 1000000
expect 2 "3 server threads; must be 1 to 2" train "${small[@]}" --workers 2 --sync ps --server-threads 3
expect 2 "--average-state cannot be combined with --compress fp16" train "${small[@]}" --sync average \
    --average-state --compress fp16
expect 2 "mode none sends nothing" train "${small[@]}" --compress int8
expect 2 "--inside allreduce needs --sites" train "${small[@]}" --sync average --inside allreduce
expect 2 "--sites needs --inside allreduce" train "${small[@]}" --sync average --sites 2
expect 2 "--sites needs --sync average" train "${small[@]}" --sync ps --inside allreduce --sites 2
expect 0 "average every 4 steps between 2 sites, allreduce inside" train "${small[@]}" --workers 4 --sync average \
    --interval 4 --inside allreduce --sites 2 --steps 8 --no-trace
expect 2 "must be a multiple of the interval of 4" train "${small[@]}" --sync average --interval 4 --steps 10 \
    --interval-by-speed
expect 0 "8 4 by worker" train "${small[@]}" --workers 2 --sync average --interval 4 --steps 8 --interval-by-speed \
    --slow 1:2 --no-trace
expect 2 "--compress topk needs --topk-frac" train "${small[@]}" --sync average --compress topk
expect 2 "--topk-frac needs --compress topk" train "${small[@]}" --sync average --topk-frac 0.1
expect 0 "changes sent as topk of 0.1" train "${small[@]}" --sync average --interval 4 --steps 8 \
    --compress topk --topk-frac 0.1 --no-trace
expect 2 "not --threads 2" train "${small[@]}" --threads 2 --csv rows.csv
expect 2 "2 threads for each of 200 workers" train "${small[@]}" --workers 200 --batch 200 --threads 2
expect 0 "workers     1 with 3 threads each" train "${small[@]}" --threads 3 --steps 2 --no-trace
expect 2 "--fragments needs --sync average" train "${small[@]}" --sync ps --fragments 2
expect 2 "must divide the interval of 5 steps" train "${small[@]}" --sync average --interval 5 --fragments 2
expect 2 "--mixing needs --lag" train "${small[@]}" --sync average --interval 4 --mixing 0.2
expect 0 "every 4 steps, in 2 fragments, merged 3 steps later, mixing 0.2, changes sent as int8" train \
    "${small[@]}" --sync average --interval 4 --fragments 2 --lag 3 --mixing 0.2 --compress int8 --steps 8 --no-trace
expect 2 "--interval needs --sync average or async_average, not none" train "${small[@]}" --interval 5
expect 2 "--outer needs --sync average or async_average" train "${small[@]}" --sync ps --outer nesterov
expect 0 "every 4 steps, outer optimizer nesterov, rate 0.7, momentum 0.9" train "${small[@]}" --sync average \
    --interval 4 --outer nesterov --steps 8 --no-trace
expect 2 "--average-state needs --sync average" train "${small[@]}" --sync ps --average-state
expect 2 "--server-threads needs --sync ps or average, not allreduce" train "${small[@]}" \
    --workers 2 --sync allreduce --server-threads 2
expect 2 "--n needs --sync softsync, not async" train "${small[@]}" --workers 2 --sync async --n 2
expect 2 "--bound needs --sync softsync or async_average, not async" train "${small[@]}" --sync async --bound 2
expect 2 "--quorum needs --sync async_average, not average" train "${small[@]}" --workers 2 --sync average --quorum 2
expect 2 "quorum 3; must be 1 to 2" train "${small[@]}" --workers 2 --sync async_average --quorum 3
expect 2 "evaluated at the end only" train "${small[@]}" --sync async_average --curve c.csv --evaluate-every 5
expect 0 "uploads     8: 8 applied (100.0 %), 0 too stale, 0 superseded, 0 unmerged; 4 merges, mean weight 1.000" train \
    "${small[@]}" --workers 2 --sync async_average --interval 2 --quorum 2 --wait-s 600 --weight-power 1 --steps 8 --no-trace
expect 2 "--staleness-rate needs --sync async or softsync, not ps" train "${small[@]}" --sync ps --staleness-rate
expect 2 "--curve is the same file as --output" train "${small[@]}" --curve x --output x
[ -z "$(ls)" ] || { echo "FAIL: bad usage left files: $(ls)"; failures=$((failures + 1)); }

# A failed run exits with 1
expect 1 "no_folder" train "${small[@]}" --steps 1 -o no_folder/x.dlt
expect 1 "no_folder" train "${small[@]}" --steps 1 --data mnist --data-folder no_folder
# Without a GPU the message suggests --device cpu; CUDA_VISIBLE_DEVICES hides the GPUs of this machine.
CUDA_VISIBLE_DEVICES='' expect 1 "; --device cpu uses the processor" train "${small[@]}" --device cuda
CUDA_VISIBLE_DEVICES='' expect 1 "; --device cpu uses the processor" bench --device cuda
expect 1 "nothing.dlt" info nothing.dlt
expect 1 "nothing.dlt" export nothing.dlt
echo "no trace" >text.dlt
expect 1 "text.dlt" info text.dlt

# Without the BLAS library only training fails.
mkdir empty_library
: >empty_library/libopenblas.so.0
LD_LIBRARY_PATH=$PWD/empty_library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    expect 1 "cannot load OpenBLAS" train "${small[@]}" --steps 1 --no-trace
LD_LIBRARY_PATH=$PWD/empty_library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} expect 0 "dlprof " --version

# A run that cannot start leaves the files of an earlier one unchanged
mkdir kept
echo trace >kept/x.dlt
echo curve >kept/x.csv
echo "a,b" >kept/rows.csv
cp -r kept before
expect 2 "multiple" train "${small[@]}" --workers 3 -o kept/x.dlt --curve kept/x.csv
expect 2 "cores" bench --quick "${small[@]}" --cores 1000000 -o kept/x.dlt
expect 1 "rows.csv: has other columns" train "${small[@]}" -o kept/x.dlt --csv kept/rows.csv
expect 1 "no_folder" train "${small[@]}" -o kept/x.dlt --csv no_folder/rows.csv
expect 1 "no_folder" train "${small[@]}" -o kept/x.dlt --curve no_folder/x.csv
diff -r kept before || { echo "FAIL: a run that cannot start changed files"; failures=$((failures + 1)); }

# Training, with a trace and a row of results
expect 0 "staleness" train "${small[@]}" --workers 2 --sync async --steps 30 -o run.dlt --csv rows.csv
expect 0 "every 10 steps" train "${small[@]}" --workers 2 --sync average --interval 10 --steps 20 \
    --no-trace --csv rows.csv -o none.dlt
expect 0 "accuracy" train "${small[@]}" --steps 5 --no-trace --evaluate
expect 0 ": the training diverged" train "${small[@]}" --steps 5 --learning-rate 1e6 -o none.dlt \
    --curve diverged.csv
expect 0 "diverged" info none.dlt
grep -q "# diverged" diverged.csv || { echo "FAIL: $(cat diverged.csv)"; failures=$((failures + 1)); }
rm none.dlt
expect 0 "a worker in" train "${small[@]}" --batch 30000 --epochs 1 --no-trace
[ "$(grep -vc '^#' rows.csv)" -eq 3 ] || { echo "FAIL: rows.csv: $(cat rows.csv)"; failures=$((failures + 1)); }
[ ! -e none.dlt ] || { echo "FAIL: --no-trace wrote a trace"; failures=$((failures + 1)); }
expect 0 "async" info run.dlt
mkdir traces empty
cp run.dlt traces/a.dlt
cp run.dlt traces/b.dlt
echo other >traces/summary.txt
[ "$("$dlprof" info traces | grep -c '^trace .*traces/[ab].dlt$')" = 2 ] || { echo "FAIL: not both traces of a folder"; failures=$((failures + 1)); }
expect 1 "empty: is an empty folder" info empty
expect 0 "run.json" export run.dlt
expect 0 "out.json" export run.dlt -o out.json

# Python's JSON reader accepts the output
"$dlprof" info --json run.dlt >info.json
"$dlprof" info --json run.dlt run.dlt >two.json
for json in run.json info.json two.json; do
    python3 -m json.tool $json >/dev/null ||
        { echo "FAIL: $json is no JSON"; failures=$((failures + 1)); }
done

# await_bytes BYTES FILE PROCESS: waits until the file is longer than BYTES, or the process has ended.
await_bytes() {
    until [ -e "$2" ] && [ "$(stat -c %s "$2")" -gt "$1" ]; do
        kill -0 "$3" 2>/dev/null || return
        sleep 0.1
    done
}

# kill -9 during a run leaves a readable trace, as chunks are written every half second.
"$dlprof" train "${small[@]}" --workers 2 --sync allreduce --steps 4000000 -o killed.dlt >/dev/null &
victim=$!
await_bytes 20000 killed.dlt $victim
kill -9 $victim
wait $victim 2>/dev/null
expect 0 "incomplete" info killed.dlt
expect 0 "killed.json" export killed.dlt

# A memory limit that is too small for the buffers of the BLAS library, which retries their allocation
# endlessly, then one that is too small for the data. Sanitizers need more address space to start.
limited() { # KiB, text, arguments...
    local kib=$1 text=$2
    shift 2
    output=$(ulimit -v "$kib" && timeout -s KILL 250 "$dlprof" "$@" 2>&1)
    status=$?
    [ $status -eq 1 ] && [[ $output == *"$text"* ]] ||
        { echo "FAIL: ulimit -v $kib, $*: exit $status: $output"; failures=$((failures + 1)); }
}
if (ulimit -v 150000 && timeout -s KILL 60 "$dlprof" --version) >/dev/null 2>&1; then
    limited 400000 "out of memory: matrix products on 4 threads need buffers of " \
        train "${small[@]}" --workers 4 --steps 20 --no-trace
    limited 400000 "the limit of 409600000 bytes (ulimit -v)" train "${small[@]}" --workers 4 --steps 20 --no-trace
    limited 150000 "out of memory: " train --model vgg19_bn --batch 512 --data synthetic --steps 1 --no-trace
fi

# Ctrl-C, or SIGTERM of a batch system, ends the run at the next exchange with a summary and a complete
# trace. (Job control is on, as background commands of a shell ignore SIGINT otherwise.)
interrupt() { # signal, exit status, the file that shows that it runs, arguments...
    local signal=$1 expected=$2 output=$3
    shift 3
    set -m
    "$dlprof" "$@" >words.txt 2>&1 &
    victim=$!
    set +m
    await_bytes 1000 "$output" $victim
    kill -s "$signal" $victim
    wait $victim
    status=$?
    [ $status -eq "$expected" ] || { echo "FAIL: $*: exit $status, not $expected: $(cat words.txt)"; failures=$((failures + 1)); }
}
interrupt INT 130 asked.dlt train "${small[@]}" --workers 2 --sync allreduce --steps 4000000 -o asked.dlt
grep -q "then stopped by SIGINT" words.txt || { echo "FAIL: $(cat words.txt)"; failures=$((failures + 1)); }
"$dlprof" info asked.dlt | grep -q incomplete && { echo "FAIL: asked.dlt is incomplete"; failures=$((failures + 1)); }
# So does SIGINT before the first step, while dlprof opens the trace: a pipe waits there for its reader.
mkfifo early.dlt
set -m
"$dlprof" train "${small[@]}" --steps 4000000 -o early.dlt >words.txt 2>&1 &
victim=$!
set +m
for ((i = 0; i < 600; i++)); do # until dlprof, not the shell before it, catches SIGINT, the second bit
    awk '$1 == "Name:" && $2 == "dlprof" { runs = 1 } $1 == "SigCgt:" && /[2367abef]$/ { caught = 1 }
         END { exit !(runs && caught) }' /proc/$victim/status 2>/dev/null && break
    sleep 0.1
done
kill -s INT $victim
timeout 60 cat early.dlt >early_read.dlt
wait $victim
grep -q "then stopped by SIGINT" words.txt || { echo "FAIL: early: $(cat words.txt)"; failures=$((failures + 1)); }
expect 0 "SIGINT" info early_read.dlt
"$dlprof" info early_read.dlt | grep -q incomplete && { echo "FAIL: early_read.dlt is incomplete"; failures=$((failures + 1)); }
interrupt TERM 143 told.dlt train "${small[@]}" --steps 4000000 -o told.dlt
grep -q "then stopped by SIGTERM" words.txt || { echo "FAIL: $(cat words.txt)"; failures=$((failures + 1)); }
expect 0 "SIGTERM" info told.dlt
"$dlprof" info told.dlt | grep -q incomplete && { echo "FAIL: told.dlt is incomplete"; failures=$((failures + 1)); }
interrupt INT 130 begun.dlt bench --seconds 600 --model mlp --batch 8 --data synthetic -o begun.dlt
grep -q "stopped by SIGINT" words.txt || { echo "FAIL: $(cat words.txt)"; failures=$((failures + 1)); }
"$dlprof" info begun.dlt | grep -q incomplete && { echo "FAIL: begun.dlt is incomplete"; failures=$((failures + 1)); }

# The command bench
expect 0 "wakeup" bench --quick --model mlp --batch 8 --data synthetic --workers-max 2 -o bench.dlt
expect 0 "slice" info bench.dlt
expect 0 "recording adds" bench overhead --quick --model mlp --batch 8 --data synthetic -o overhead.dlt
expect 0 "record_high_ns" info overhead.dlt

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
