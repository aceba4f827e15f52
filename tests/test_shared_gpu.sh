#!/usr/bin/env bash
# 2, 4 and 8 workers of LeNet that share one H200: mean and largest error of predictions from
# recorded traces of one worker and a recorded bench (tests/fixtures/shared_gpu), against measured
# runs.
# Usage: test_shared_gpu.sh DLCAL DLSIM
set -u
dlcal=$(realpath "$1") dlsim=$(realpath "$2")
recorded=$(cd "$(dirname "$0")/fixtures/shared_gpu" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/test_shared_gpu.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

rows() { # CSV: workers, mode, interval, predicted, measured, error in %, of each measured row
    awk -F, '/^#/ { next } !head { for (i = 1; i <= NF; i++) at[$i] = i; head = 1; next }
        $at["measured_per_s"] > 0 { printf "%d %s %s %.0f %.0f %+.1f\n", $at["workers"], $at["sync"],
            $at["interval"] == "" ? "-" : $at["interval"], $at["throughput_per_s"], $at["measured_per_s"],
            100 * ($at["throughput_per_s"] / $at["measured_per_s"] - 1) }' "$1"
}

# predict BATCH ROWS MEAN MAX TRACE...: fails if the mean or largest error in % is higher.
predict() {
    local batch=$1 count=$2 mean=$3 most=$4 where place
    "$dlcal" fit "${@:5}" -o "costs_$batch.ini" >words.txt 2>&1 || fail "batch $batch: $(tail -n 3 words.txt)"
    for where in cpu gpu; do
        place=$where
        [ $where = gpu ] && place=gpu:0
        printf '%s\n' '[scenario]' 'replicates = 8' '[machine]' "file = $recorded/machine.ini" 'gpus = 0' \
            'workers = 2, 4, 8' '[workload]' "costs = costs_$batch.ini" "batch_per_worker = $batch" '[sync]' \
            'mode = average, async, softsync, ps' 'interval = 1, 5, 10' "where = $place" '[noise]' \
            'kind = trace' '[measured]' "file = $recorded/${where}_$batch.csv" >$where.ini
        "$dlsim" $where.ini -o $where.csv >words.txt 2>&1 || fail "batch $batch, $where: $(tail -n 3 words.txt)"
        rows $where.csv | sed "s/^/$batch $where /"
    done >table.txt
    cat table.txt
    awk -v batch="$batch" -v count="$count" -v mean="$mean" -v most="$most" '
        { e = $NF < 0 ? -$NF : $NF; sum += e; if (e > max) max = e }
        END { if (NR > 0) sum /= NR
            printf "batch %d: %d rows, mean error %.1f %%, largest %.1f %% (at most %g, %g)\n",
                batch, NR, sum, max, mean, most
            exit !(NR == count && sum <= mean && max <= most) }' table.txt ||
        fail "batch $batch: not $count rows, or errors are larger"
}

echo "batch where workers mode interval predicted measured error%"
predict 64 36 7 22 "$recorded"/lenet_{32,64,128}.dlt "$recorded/bench_64.dlt"
predict 256 14 3.2 8.5 "$recorded"/second_{128,256,512}.dlt "$recorded/bench_256.dlt"
[ $failures -eq 0 ]
