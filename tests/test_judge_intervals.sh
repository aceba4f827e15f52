#!/usr/bin/env bash
# scripts/judge_intervals.sh on a generated table with a row inside its interval and a row outside.
# Usage: test_judge_intervals.sh DLSIM
set -euo pipefail
export DLSIM=$1
script=$(cd "$(dirname "$0")/../scripts" && pwd)/judge_intervals.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "test_judge_intervals.sh: $*" >&2; exit 1; }

text=$(DL_DATA="$work/none" "$script" -q hkbu)
grep -q '^hkbu: skipped' <<<"$text" || fail "missing data are not said: $text"
code=0
"$script" nothing >/dev/null 2>&1 || code=$?
[ "$code" = 2 ] || fail "an unknown set gives $code"

# From one GPU's rate: rows of scenarios/scaling/boxes.csv.
text=$("$script" -q lambda dlperf nvidia)
grep -q '^nvidia  *6 ' <<<"$text" || fail "rows of boxes.csv: $text"
# The README quotes the number of rows and the mean error.
read -r _ rows _ _ mean _ < <(grep '^all ' <<<"$text")
grep -q "| the throughput of one GPU | $rows | $mean |" "$(dirname "$script")/../README.md" || fail "README.md has not $rows, $mean: $text"

# The predicted rate of four GPUs is inside; ten times this rate is outside.
mkdir -p "$work/scaling"
"$DLSIM" -q --workload resnet50:layout=nchw --machine 8x4xrtx2080ti@100ib --arithmetic fp32 --workers 4 \
    --batch-per-worker 64 -o "$work/row.csv"
per_s=$(grep -v '^#' "$work/row.csv" | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { print $at["throughput_per_s"] }')
for factor in 1 10; do
    { echo "network,method,gpus,images_per_s"
      echo "100GbIB with RDMA,MG-WFBP,4,$(awk -v x="$per_s" -v f=$factor 'BEGIN { print f * x }')"
    } >"$work/scaling/hkbu_resnet50.csv"
    text=$(DL_DATA="$work" "$script" hkbu)
    total=$(sed -n 's/^all  *//p' <<<"$text" | tr -s ' ')
    case $factor in 1) want='1 100.0 ' mark=' in ' ;; *) want='1 0.0 ' mark=' OUT ' ;; esac
    [ "${total#"$want"}" != "$total" ] || fail "times $factor: '$total'"
    grep -q "$mark" <<<"$text" || fail "times $factor: no '$mark'"
done
