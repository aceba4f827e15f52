#!/usr/bin/env bash
# scenarios/local_sgd/report.sh and table4.sh on generated tables, and, if available, on those in
# $DL_DATA, where errors are within the bounds of docs/local_sgd.md. Usage: test_local_sgd_report.sh
# DLSIM
set -euo pipefail
export DLSIM=$1
source_dir=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report=$source_dir/scenarios/local_sgd/report.sh
fail() { echo "test_local_sgd_report.sh: $*" >&2; exit 1; }

DL_DATA="$work/none" "$report" | grep -q 'skipped, there is no' || fail "not skipped"

# 140 steps after the first 10, with an average after every 32nd: four averages, including the first
# one, which took 2 s - 4 x 0.4 s = 0.4 s longer. Steps take 24 ms.
head='run,algorithm,H,world,params,bw_requested_bps,bw_measured_bps,nccl_bw_bps,n_steps_telemetry,n_sync'
head+=',sync_s,total_s,median_sync_step_ms'
{
    echo "$head"
    echo "cu_grid-a,localsgd,32,4,30846720,1000000000,992600000,1,140,4,2,5.36,400"
    echo "cu_grid-b,ddp,1,4,30846720,,,14000000000,90,90,9,11.16,100"
} >"$work/made.csv"
rows=$(awk -f "$source_dir/scenarios/local_sgd/rows.awk" "$work/made.csv")
[ "$rows" = "a localsgd 32 1000000000 0.0382857 yes 140 10 0.4 0.4
b ddp 1 1.4e+10 0.124 no 90 1 - 0.1" ] || fail "rows: $rows"
text=$(BUILD="$work/out" "$report" "$work/made.csv")
grep -q '^ddp, not shaped  *1 ' <<<"$text" || fail "no group of DDP: $text"
grep -q '^localsgd H=32  *1 ' <<<"$text" || fail "no group of local SGD: $text"
grep -q 'first_use_ns = 0.4000s' "$work/out/calibrated.ini" || fail "the first average is not calibrated"
# One row of an algorithm does not determine the slowest node, and rows of all-reduce do not
# determine averages.
[ "$(cat "$work/out/calibrated.slow")" = 1.00000 ] || fail "a slow node from one row"
grep -q '^latency_ns  = 25us' "$work/out/calibrated.unshaped.ini" || fail "a hop's latency from no row"
grep -q 'first_use_ns = 0.5s' "$work/out/mechanism.ini" || fail "the mechanism is calibrated"
! grep -q '^\[tcp\]' "$work/out/ring.ini" || fail "a ring with TCP"
# Averages after every step and after every eighth, which waits 7 ms longer: 1 ms per step of 24.57
# ms. The row over an unshaped port takes longer than predicted, so the hop's latency is larger.
{
    echo "$head"
    echo "cu_grid-a,localsgd,1,4,30846720,,,15000000000,100,100,13,16,130"
    echo "cu_grid-b,localsgd,8,4,30846720,,,15000000000,80,10,1.37,4,137"
} >"$work/made.csv"
BUILD="$work/out" "$report" "$work/made.csv" >"$work/text"
[ "$(cat "$work/out/calibrated.slow")" = 1.04070 ] || fail "the slowest node: $(cat "$work/out/calibrated.slow")"
awk '$1 > 35 && $1 < 60 { seen = 1 } END { exit !seen }' "$work/out/hop" || fail "a hop: $(cat "$work/out/hop")"

# Required rates in Gb/s for 16 Gbit each way and steps of 0.1 s: an average every 100 steps may
# take 10 s x (1 - u) / u; of the gradients of 24 layers, sent during the backward pass, the last
# 16/24 Gbit may take 0.1 s / 99.
table4=$source_dir/scenarios/local_sgd/table4.sh
DL_DATA="$work/none" "$table4" | grep -q 'skipped, there is no' || fail "table 4 is not skipped"
{
    echo "params_B,layers,step_s,method,gbit_s_cu50,cu80,cu90,cu95,cu99"
    echo "1,24,0.1,DiLoCo,1.6,6.4,14.4,30.4,100"
    echo "1,24,0.1,data-parallel,80,160,200,230,660"
} >"$work/table4.csv"
text=$(BUILD="$work/table4" "$table4" "$work/table4.csv")
awk '$4 == "DiLoCo" { split("1.6 6.4 14.4 30.4 158.4", expected, " ")
        for (i = 1; i <= 5; i++) if ($(9 + i) / expected[i] < 0.999 || $(9 + i) / expected[i] > 1.001) bad = 1 }
    $4 == "data-parallel" && ($14 < 659 || $14 > 661) { bad = 1 }
    END { exit bad || NR != 2 }' "$work/table4/solved" || fail "rates needed: $(cat "$work/table4/solved")"
# The cell of 100 ends at 100.05 x 1.2068 = 120.7, 31.2 % below 158.4.
grep -q '^ *1 DiLoCo  *99  *100.0  *120.7  *158.40  *31.2  *97.03  *-2.9$' <<<"$text" || fail "compared: $text"
grep -q '^DiLoCo  *5  *4  *4  *1$' <<<"$text" || fail "counted: $text"

published=${DL_DATA:-$source_dir/data}/scaling/local_sgd/streaming_diloco_table4.csv
if [ -f "$published" ]; then
    text=$(BUILD="$work/table4" "$table4" "$published")
    read -r _ cells _ near rules < <(grep '^all ' <<<"$text")
    [ "$cells" -eq 75 ] && [ "$near" -ge 40 ] && [ "$rules" -ge 69 ] || fail "table 4: $text"
    awk '/closed form of its own rules/ { seen = $(NF - 2) < 1 } END { exit !seen }' <<<"$text" ||
        fail "the solver is not as fine as the table's grid: $text"
fi

table=${DL_DATA:-$source_dir/data}/scaling/local_sgd/diloco_measured_calibration.csv
[ -f "$table" ] || { echo "skipped on the measured runs: there is no $table"; exit 0; }
text=$(BUILD="$work/out" "$report" "$table")
# within GROUP KIND MEAN MAX: KIND is 1 ring, 2 mechanism, 3 calibrated, 4 left out.
within() {
    awk -v group="$1" -v kind="$2" -v mean="$3" -v most="$4" '
        $1 == group && NF == 10 { seen = $(1 + 2 * kind) <= mean && $(2 + 2 * kind) <= most }
        END { exit !seen }' <<<"$text" || fail "$1: over $3, $4: $text"
}
within localsgd 2 3 7
within diloco 2 5 10
within localsgd 3 3 7
within diloco 3 1.5 5
within diloco 4 3 7
