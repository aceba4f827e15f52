#!/usr/bin/env bash
# Errors in the output of scenarios/traces/report.sh on the traces in $DL_DATA are within the
# method's bounds.
# Usage: test_traces_report.sh DLCAL DLSIM SOURCE_FOLDER
set -euo pipefail
dlcal=$1 dlsim=$2 source=$3
[ -d "${DL_DATA:-./data}/traces/kineto" ] || { echo "no traces in DL_DATA: skipped"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "test_traces_report.sh: $*" >&2; cat "$folder/out" >&2; exit 1; }
BUILD=$folder/traces DLCAL=$dlcal DLSIM=$dlsim "$source/scenarios/traces/report.sh" >"$folder/out"

# Every trace with device work is replayed with an error of at most 1 %.
awk '/^trace .*maximum/ { table = 1; next }
     table && NF == 0 { exit }
     table && /%/ && NF > 5 { rows++; if ($4 + 0 > 1) { print "over 1 %: " $0; bad = 1 } }
     END { exit bad || rows < 20 }' "$folder/out" || fail "replay"
# The step with modelled collectives: mean error at most 3 %, largest 8 %.
awk '/^modelled: mean error/ { found = $4 <= 3 && $7 <= 8 } END { exit !found }' "$folder/out" || fail "strip"
# The ends of a collective on all ranks are within 50 us.
awk '/^farthest end:/ { found = $4 == "us" && $3 <= 50 } END { exit !found }' "$folder/out" || fail "ranks"
# The ratios of 2 to 16 GPUs are within 2 points of the published ones.
awk '/^predicted: mean error/ { found = $7 <= 2 } END { exit !found }' "$folder/out" || fail "scaling"
[ "$(grep -cE '^ +(2|4|8|16) +[+-]' "$folder/out")" = 4 ] || fail "rows of GPUs"
! grep -qiE 'nan|inf[^o]' "$folder/out" || fail "not a number"
[ -s "$folder/traces/report.txt" ] || fail "no report.txt"
