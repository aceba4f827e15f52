#!/usr/bin/env bash
# scenarios/local_sgd/report.sh on a made table, and, if they are there, on the measured runs in $DL_DATA, whose
# errors stay within what docs/local_sgd.md says. Usage: test_local_sgd_report.sh DLSIM
set -euo pipefail
export DLSIM=$1
source_dir=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report=$source_dir/scenarios/local_sgd/report.sh
fail() { echo "test_local_sgd_report.sh: $*" >&2; exit 1; }

DL_DATA="$work/none" "$report" | grep -q 'skipped, there is no' || fail "not skipped"

# 140 steps after 10 with an average after every 32nd: four of them, the first one among them: 2 s less 4 times
# 0.4 s are 0.4 s. Steps of 24 ms.
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
grep -q 'first_use_ns = 0.5s' "$work/out/mechanism.ini" || fail "the mechanism is calibrated"
! grep -q '^\[tcp\]' "$work/out/ring.ini" || fail "a ring with TCP"

table=${DL_DATA:-$source_dir/data}/scaling/local_sgd/diloco_measured_calibration.csv
[ -f "$table" ] || { echo "skipped on the measured runs: there is no $table"; exit 0; }
text=$(BUILD="$work/out" "$report" "$table")
# within GROUP KIND MEAN MAX: kinds are 1 ring, 2 mechanism, 3 calibrated, 4 left out.
within() {
    awk -v group="$1" -v kind="$2" -v mean="$3" -v most="$4" '
        $1 == group && NF == 10 { seen = $(1 + 2 * kind) <= mean && $(2 + 2 * kind) <= most }
        END { exit !seen }' <<<"$text" || fail "$1: over $3, $4: $text"
}
within localsgd 2 2 5
within diloco 2 5 10
within localsgd 3 2 5
