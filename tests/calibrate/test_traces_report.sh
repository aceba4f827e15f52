#!/usr/bin/env bash
# scenarios/traces/report.sh on the traces in $DL_DATA: what it finds stays within what the method is
# good for. Usage: test_traces_report.sh DLCAL DLSIM SOURCE_FOLDER
set -euo pipefail
dlcal=$1 dlsim=$2 source=$3
[ -d "${DL_DATA:-./data}/traces/kineto" ] || { echo "no traces in DL_DATA: skipped"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "test_traces_report.sh: $*" >&2; cat "$folder/out" >&2; exit 1; }
BUILD=$folder/traces DLCAL=$dlcal DLSIM=$dlsim "$source/scenarios/traces/report.sh" >"$folder/out"

# Every trace with device work is replayed within 1 %.
awk '/^trace .*maximum/ { table = 1; next }
     table && NF == 0 { exit }
     table && /%/ && NF > 5 { rows++; if ($4 + 0 > 1) { print "over 1 %: " $0; bad = 1 } }
     END { exit bad || rows < 20 }' "$folder/out" || fail "replay"
# The step with modelled collectives: mean 3 %, largest 8 %.
awk '/^modelled: mean error/ { found = $4 <= 3 && $7 <= 8 } END { exit !found }' "$folder/out" || fail "strip"
# Ends of collectives of all ranks within 50 us.
awk '/^farthest end:/ { found = $4 == "us" && $3 <= 50 } END { exit !found }' "$folder/out" || fail "ranks"
# 2 to 16 GPUs within 2 points of the published ratios, which no slowdown misses.
awk '/^predicted: mean error/ { found = $7 <= 2 } END { exit !found }' "$folder/out" || fail "scaling"
[ "$(grep -cE '^ +(2|4|8|16) +[+-]' "$folder/out")" = 4 ] || fail "rows of GPUs"
! grep -qiE 'nan|inf[^o]' "$folder/out" || fail "not a number"
[ -s "$folder/traces/report.txt" ] || fail "no report.txt"
