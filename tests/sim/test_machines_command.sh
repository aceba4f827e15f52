#!/usr/bin/env bash
# Tests --machine NAME and the catalogue of machines. Usage: test_machines_command.sh DLSIM
set -u
tested=$(realpath "$1")
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
column() { awk -F, -v name="$2" '/^[^#]/ && !n { for (i = 1; i <= NF; i++) if ($i == name) n = i; next }
                                 n { print $n }' "$1"; }

expect 0 "a100                NVSwitch" --machines
expect 0 "5.67 2024" --machines
expect 0 "BM.GPU.MI300X.8         1    8 mi300x              xgmi        48 2026-09 OCI" --machines
expect 0 "114 2026-09 EC2" --machines
expect 0 "rtx3090            24GiB    936  35.6  35.6" --machines

wide=$("$tested" --machines | awk 'length > 80')
[ -z "$wide" ] || fail "over 80 columns: $wide"

run=(--workload resnet50 --batch-per-worker 32 --steps 10)
expect 0 "3 points" "${run[@]}" --machine 4xrtx3090
expect 0 "9 points" "${run[@]}" --machine 4xrtx3090,4xa6000,8xt4 -o many.csv
expect 0 "5 points" "${run[@]}" --machine 2xg5.48xlarge
expect 0 "2 points" "${run[@]}" --machine 2xrtx3090+nvlink
expect 0 "7 points" "${run[@]}" --machine 8xH100@8x400ib --workers 1,2,4,8,16,32,64
expect 0 "2 points" "${run[@]}" --machine 4xdgx1_v100@100ib --workers 8,32
# The machine file written for a name gives equal results: boxes, cloud instances, files, nodes added for --workers.
for machine in 8xh100 2xrtx4090@1gbe 2xg5.12xlarge dgx_a100 2xdgx1_v100@100ib 1xrtx3090@1gbe+2x2xt4@10gbe; do
    rm -f saved.ini
    expect 0 "2 points" "${run[@]}" --workers 2,4 --machine "$machine" -o by_name.csv --save-machine saved.ini
    expect 0 "2 points" "${run[@]}" --workers 2,4 --machine saved.ini -o by_file.csv
    diff <(grep -v '^# scenario' by_name.csv) <(grep -v '^# scenario' by_file.csv) || fail "$machine: its file differs"
done
# A machine alone needs no workload to be written or drawn.
rm -f alone.ini alone.dot
expect 0 "" --machine 2xg5.12xlarge --save-machine alone.ini --draw-machine alone.dot
expect 0 "2 points" "${run[@]}" --workers 2,4 --machine 2xg5.12xlarge -o by_name.csv
expect 0 "2 points" "${run[@]}" --workers 2,4 --machine alone.ini -o by_file.csv
diff <(grep -v '^# scenario' by_name.csv) <(grep -v '^# scenario' by_file.csv) || fail "the file of a machine alone differs"
grep -q '^graph\|^digraph' alone.dot || fail "no drawing of a machine alone"
# With a scenario that is only checked, it needs no batch.
expect 0 "" --check --machine 2xg5.12xlarge --workload gpt2 --save-machine checked.ini
cmp -s checked.ini alone.ini || fail "the machine of a checked scenario differs from that alone"
expect 2 "is missing" --check --machine 2xg5.12xlarge --workload gpt2
expect 1 "8xnothing" --machine 8xnothing --save-machine alone.ini
expect 2 "--save-machine would overwrite the machine file" --machine alone.ini --save-machine ./alone.ini
# Without --workers: 1, 2, 4, ... and all GPUs, of the machine or of --gpus.
expect 0 "4 points" "${run[@]}" --machine 6xrtx3090
expect 0 "2 points" "${run[@]}" --machine 8xv100@10gbe --gpus 0,3
expect 0 "3 points" "${run[@]}" --machine 8xv100@10gbe --gpus 0,3,5
expect 2 "--save-machine: the scenario has several machines, 4xrtx3090 and 8xt4" "${run[@]}" \
    --machine 4xrtx3090,8xt4 --save-machine saved.ini
expect 2 "--save-machine would overwrite the machine file" "${run[@]}" --machine saved.ini --save-machine saved.ini
# Of an asynchronous server over 0.1 Gb/s, the worker on its node makes nearly all steps, which a note says. The step of
# the other one is its computing, 0.1 s, and 102.2 MB each way at 11.25 MB/s, 18.2 s.
expect 0 "1 of 2 workers makes 98 % of the steps, the fastest one in 0.29" --workload resnet50 --batch-per-worker 64 --machine 2x1xrtx4090@0.1gbe \
    --workers 2 --mode async --steps 40 --set scenario.per_worker=yes -o async.csv
column async.csv step_mean_s_by_worker |
    awk -F';' '!($1 > 0.1 && $1 < 0.4 && $2 > 18.27 && $2 < 18.6) { exit 1 }' ||
    fail "steps of an asynchronous server's workers: $(column async.csv step_mean_s_by_worker)"
"$tested" "${run[@]}" --machine 4xrtx3090 --workers 4 --mode async -o equal.csv | grep "of the steps" &&
    fail "equal steps are noted"
# A node is charged in full, however many of its GPUs are used.
expect 0 "3 points" "${run[@]}" --machine g5.12xlarge -o price.csv
[ "$(column price.csv usd_per_hour | tr '\n' ' ')" = "5.672 5.672 5.672 " ] ||
    fail "prices: $(column price.csv usd_per_hour)"

# The node's hourly price sets the price of an epoch, and the advice picks the cheaper of two machines.
epoch=(--set workload.samples_per_epoch=1281167)
expect 0 "1 point" "${run[@]}" "${epoch[@]}" --machine BM.GPU.MI300X.8 --workers 8 -o epoch.csv
awk -v s="$(column epoch.csv epoch_s)" -v usd="$(column epoch.csv usd_per_epoch)" \
    'BEGIN { ratio = s / 3600 * 48 / usd; exit !(usd > 0 && ratio > 0.9999 && ratio < 1.0001) }' ||
    fail "price of an epoch: $(column epoch.csv usd_per_epoch)"
expect 0 "--machine p4d.24xlarge" "${run[@]}" "${epoch[@]}" --machine p4d.24xlarge,p4de.24xlarge \
    --workers 8 --advise --for cost --max-points 20 -o advice.csv

# The user sets a price; the advice table shows prices even if only some machines have one.
expect 1 "--budget: 8xrtx3090 has no price: --set machine.price_usd_per_hour=USD gives a node's" \
    "${run[@]}" "${epoch[@]}" --machine 8xrtx3090 --advise --budget 100 --epochs 1
expect 0 "1 point" "${run[@]}" "${epoch[@]}" --machine 2xrtx3090@10gbe --workers 4 \
    --set machine.price_usd_per_hour=24 -o epoch.csv
awk -v s="$(column epoch.csv epoch_s)" -v usd="$(column epoch.csv usd_per_epoch)" \
    'BEGIN { ratio = s / 3600 * 48 / usd; exit !(usd > 0 && ratio > 0.9999 && ratio < 1.0001) }' ||
    fail "price of an epoch of one's own: $(column epoch.csv usd_per_epoch)"
expect 0 "USD/h" "${run[@]}" --machine 8xrtx3090,p4d.24xlarge --workers 2 --advise --max-points 40 \
    -o advice.csv

# A machine's name works in a scenario file, also in another folder, and --save writes it there.
mkdir elsewhere
expect 0 "3 points" "${run[@]}" --machine 4xrtx3090 --save elsewhere/scenario.ini -o here.csv
grep -q '^file = 4xrtx3090$' elsewhere/scenario.ini || fail "saved: $(grep file elsewhere/scenario.ini)"
expect 0 "3 points" elsewhere/scenario.ini -o there.csv
cmp -s <(grep -v '^#' here.csv) <(grep -v '^#' there.csv) || fail "the saved scenario differs"

# --save keeps a machine's name as a name, also when the scenario comes from another folder.
expect 0 "" -q "${run[@]}" --machine dgx_a100 --workers 2 -o here.csv
sed -i 's#^file = .*#file = dgx_a100#' elsewhere/scenario.ini
expect 0 "" -q elsewhere/scenario.ini --workers 2 -o named.csv --save saved.ini
grep -q '^file = dgx_a100$' saved.ini || fail "saved: $(grep file saved.ini)"
# The advice names a machine as the user typed it, and draws random errors of estimated compute.
expect 0 " --machine 4xrtx3090" "${run[@]}" --machine 4xrtx3090,2xrtx3090 --workers 2 --advise \
    --max-points 30 -o advice.csv
expect 0 "ahead in" "${run[@]}" --machine 4xrtx3090 --workers 4 --advise --max-points 30 -o advice.csv
"$tested" "${run[@]}" --machine 4xrtx3090 --workers 4 --advise --max-points 30 -o advice.csv |
    grep -q 'Nothing varies' && fail "estimated compute varies"

# Errors in the user's own machine tables are reported by column and value, or by file.
mkdir -p share/scenarios/machines
cp "$(dirname "$0")"/../../scenarios/machines/*.csv share/scenarios/machines
sed -i 's/,pcie4x16,/,pcie9x16,/' share/scenarios/machines/gpus.csv
DLSCALE_SHARE=$PWD/share expect 1 "bus: unexpected 'pcie9x16'" "${run[@]}" --machine 4xrtx3090
rm share/scenarios/machines/gpus.csv
DLSCALE_SHARE=$PWD/share expect 1 "gpus.csv: cannot open" "${run[@]}" --machine 4xrtx3090

# With gpu_price_usd_per_hour, only the GPUs in use are charged.
{
    echo "[machine]"; echo "schema = 1"; echo "name = parts"; echo "peer = none"
    echo "gpu_price_usd_per_hour = 0.5, catalogue"
    echo "[gpu_model a6000]"; echo "memory_bytes = 48GB"; echo "memory_bytes_per_s = 768GB/s"
    echo "fp32_flop_per_s = 38.7Tflop/s"
    echo "[link pcie]"; echo "bytes_per_s = 26GB/s"; echo "latency_ns = 1us"
    echo "[host]"; echo "memory_bytes_per_s = 200GB/s"
    echo "[gpus 0-3]"; echo "model = a6000"; echo "parent = socket0"; echo "link = pcie"
    echo "[protocol simple]"; echo "launch_ns = 8us"; echo "hop_ns = 5us"
    echo "network_hop_ns = 14us"; echo "bandwidth_frac = 1"
} >parts.ini
expect 0 "3 points" "${run[@]}" --machine parts.ini -o parts.csv
[ "$(column parts.csv usd_per_hour | tr '\n' ' ')" = "0.5 1 2 " ] ||
    fail "prices: $(column parts.csv usd_per_hour)"
cp parts.ini rented.ini
sed -i '/^gpu_price/a price_usd_per_hour = 2' parts.ini
expect 0 "Advised" "${run[@]}" --machine rented.ini --advise --for cost --max-points 20 -o advice.csv
expect 1 "price_usd_per_hour is given too" "${run[@]}" --machine parts.ini

# Of eight notes, the first six are shown.
expect 0 "2 more notes: --notes shows them" --samples-per-s 334 --parameters 25.6M --machine dgx1_v100 \
    --batch-per-worker 32 --steps 20

# A run that does not fit into memory has no times, and no note on absences.
large=(--workload gpt2_xl --batch-per-worker 1 --machine 8xrtx3090 --workers 8)
expect 3 "does not fit: a GPU needs" "${large[@]}" -o large.csv
expect 3 "optimizer 12.5 GB" "${large[@]}" -o large.csv
expect 3 "exchange.sharded=optimizer (16.4 GB)" "${large[@]}" -o large.csv
"$tested" "${large[@]}" -o large.csv 2>&1 | grep -q 'away' && fail "absences of what was not simulated"
expect 0 "samples/s" "${large[@]}" --set exchange.sharded=parameters --set exchange.bucket_bytes=125MB -o large.csv
# A row that does not fit has no timeline and no schedule; the results of the other rows are written.
both=("${large[@]}" --set exchange.sharded=parameters,none --set exchange.bucket_bytes=125MB -o both.csv)
expect 3 "--timeline: not written: row 2 does not fit" "${both[@]}" --timeline t.json
[ -s both.csv ] && [ ! -e t.json ] || fail "no results, or a timeline: $(ls)"
expect 3 "--schedule: not written: row 2 does not fit" "${both[@]}" --schedule t.csv
expect 0 "samples/s" "${both[@]}" --timeline t.json --point 1
[ -s t.json ] || fail "no timeline of row 1"

# The header of the results lists each given [exchange] key that appears in no column and no other header line.
expect 0 "samples/s" "${large[@]}" --set exchange.sharded=parameters --set exchange.reshard_after_forward=no,yes \
    --set exchange.reduce_dtype=bf16 --set exchange.bucket_bytes=125MB -o head.csv
grep -q '^# exchange: .* sharded=parameters reduce_dtype=bf16$' head.csv || fail "head: $(grep '^# ' head.csv)"
expect 2 "this needs copies = gpu" "${run[@]}" --machine 4xrtx3090 --mode ps --set exchange.copy_threads=2

# A speedup of thousands is written in full.
expect 0 ", 2048 times one" "${run[@]}" --machine 256x8xa100@8x200ib --mode none --workers 2048
expect 2 "did you mean '4xrtx3090'" "${run[@]}" --machine 4xrtx309
expect 2 "expected 1 to 16 GPUs in a box; several boxes have a network, as 4x8xrtx3090@100gbe" "${run[@]}" --machine 99xrtx3090
exit $((failures > 0))
