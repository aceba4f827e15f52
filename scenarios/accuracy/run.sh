#!/usr/bin/env bash
# What interval, number of workers and staleness do to the accuracy on MNIST: trains for real, on this
# machine's cores and by schedules of 30 simulated workers, and sums up over seeds.
#
# Usage: scenarios/accuracy/run.sh [OPTIONS]
#   --seeds COUNT      runs of each setting, seeds 1 ... COUNT (3)
#   --epochs COUNT     of each run (12, as BEEVA's)
#   --groups LIST      of: mlp, lenet, lenet_more, mlp30, lenet30, mlp_batches, lenet_batches,
#                      mlp_messages, lenet_messages, by commas
#                      (mlp,mlp30,lenet: an hour of a core; each of the others but mlp_batches takes
#                      longer than that; scenarios/accuracy/batches is of lenet_batches)
#   --only REGEX       of them, the settings whose names match
#   --work FOLDER      curves of the single runs; those that are there are not run again
#                      (build/accuracy)
#   --output FOLDER    where the tables go (scenarios/accuracy/measured)
#   --data SET         auto, or synthetic for a try without MNIST (auto)
#   --pause-while FILE hold all runs while that file is there
#
# Needs bin/dlprof and bin/dlsim in build/release, or $DLPROF and $DLSIM, and MNIST ($DL_DATA).
# Settings that no run changes, from MXNet's train_mnist.py, which BEEVA ran (apache/mxnet@75e0997,
# example/image-classification: lr .05, lr_step_epochs 10; common/fit.py: sgd, mom 0.9, lr_factor 0.1;
# its weight decay of 1e-4 is left out: there is none here); batch 128 in all, as most of BEEVA's rows.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
seeds=3 epochs=12 groups=mlp,mlp30,lenet work=$root/build/accuracy output=$here/measured data=auto pause= only=.
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,19s/^# \{0,1\}//p' "$0"; exit 0 ;;
        --seeds | --epochs | --groups | --only | --work | --output | --data) declare "${1#--}=${2:?}"; shift 2 ;;
        --pause-while) pause=${2:?}; shift 2 ;;
        *) echo "run.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    esac
done
dlprof=${DLPROF:-$root/build/release/bin/dlprof} dlsim=${DLSIM:-$root/build/release/bin/dlsim}
for program in "$dlprof" "$dlsim"; do
    [ -x "$program" ] || { echo "run.sh: no $program; build it, or name it in DLPROF, DLSIM" >&2; exit 2; }
done
mkdir -p "$work" "$output"
work=$(cd "$work" && pwd) output=$(cd "$output" && pwd)
fixed="--learning-rate 0.05 --momentum 0.9 --rate-drop 10 --data $data"

# The settings: group, name, how it runs (core: what is computed does not depend on time, one core is
# enough; cores: threads on all cores; a number: point of workers_30.ini; one: one_worker.ini), options.
settings() {
    for model in mlp lenet; do
        # LeNet takes 35 times as long: the group lenet has what shows most.
        local more=$([ $model = lenet ] && echo lenet_more || echo mlp)
        echo "$model one core --workers 1"
        for interval in 1 10 50; do
            echo "$more average-2-$interval core --sync average --workers 2 --interval $interval"
            echo "$model average-4-$interval core --sync average --workers 4 --interval $interval"
        done
        for rate in "" -rate; do
            echo "$more async-2$rate cores --sync async --workers 2 ${rate:+--staleness-rate}"
            echo "$model async-4$rate cores --sync async --workers 4 ${rate:+--staleness-rate}"
            echo "$more softsync-2-1$rate cores --sync softsync --n 1 --workers 2 ${rate:+--staleness-rate}"
            echo "$more softsync-4-2$rate cores --sync softsync --n 2 --workers 4 ${rate:+--staleness-rate}"
        done
        echo "$model softsync-4-1 cores --sync softsync --n 1 --workers 4"
        echo "$more softsync-4-1-rate cores --sync softsync --n 1 --workers 4 --staleness-rate"
        # What is sent of an average.
        for interval in 10 50; do
            for message in none fp16 int8 fp4 1bit topk-0.1 topk-0.01; do
                local sent="--compress ${message%%-*}"
                [ "${message%%-*}" = topk ] && sent+=" --topk-frac ${message#*-}"
                echo "${model}_messages average-4-$interval-$message core --sync average --workers 4 --interval $interval $sent"
            done
        done
        # Batches of BEEVA's rows, in all: workers with allreduce compute the same as one with all of it.
        for batch in 64 256 512 1024 2048; do
            echo "${model}_batches batch-$batch core --workers 1 --batch $batch"
        done
        echo "${model}30 s1-one one"
        echo "${model}30 s30-hardsync 1"
        for rate in "" -rate; do
            echo "${model}30 s30-softsync-1$rate 2 ${rate:+--staleness-rate}"
            echo "${model}30 s30-softsync-15$rate 3 ${rate:+--staleness-rate}"
            echo "${model}30 s30-softsync-30$rate 4 ${rate:+--staleness-rate}"
        done
    done
}

# Writes the schedule of a point with that seed, unless it is there.
schedule() { # file, scenario, point, model, seed
    [ -s "$1" ] && return
    sed "s/^steps .*/steps = $((epochs * 60000 / 120))/; s#^costs .*#costs = $here/$4.costs.ini#" \
        "$here/$2.ini" >"$1.ini"
    "$dlsim" --quiet "$1.ini" -o "$1.results" --seed "$5" --point "$3" --schedule "$1.part"
    mv "$1.part" "$1"
}

# Runs a command, but not while the pause file is there.
hold() {
    "$@" &
    local child=$! stopped=
    while kill -0 $child 2>/dev/null; do
        if [ -n "$pause" ] && [ -e "$pause" ]; then
            [ -n "$stopped" ] || { kill -STOP $child; stopped=1; }
        elif [ -n "$stopped" ]; then
            kill -CONT $child
            stopped=
        fi
        sleep 0.2
    done
    wait $child
}

run() { # core or -, group, name, how, seed, options...
    local core=$1 model=${2%_*} name=${2%_*}-$3-$5 how=$4 seed=$5 from=() on=()
    shift 5
    model=${model%30}
    [ -s "$work/$name.csv" ] && return
    case $how in
        core | cores) from=(--batch 128 --epochs "$epochs" --no-trace) ;;
        one) schedule "$work/one-$model-$seed.schedule" one_worker 1 "$model" "$seed"
            from=(--schedule "$work/one-$model-$seed.schedule") ;;
        *) schedule "$work/$how-$model-$seed.schedule" workers_30 "$how" "$model" "$seed"
            from=(--schedule "$work/$how-$model-$seed.schedule") ;;
    esac
    [ "$core" = - ] || on=(taskset -c "$core")
    [ "$how" = cores ] || from+=(--cores 1)
    # shellcheck disable=SC2086
    hold "${on[@]}" "$dlprof" train --model "$model" "${from[@]}" "$@" $fixed --seed "$seed" \
        --evaluate-every 1epochs --curve "$work/$name.part" >"$work/$name.txt"
    mv "$work/$name.part" "$work/$name.csv"
}

# All runs: those that need one core side by side, then those that need all.
cores=$(nproc)
list=$work/runs.list
for group in ${groups//,/ }; do
    settings | awk -v group="$group" '$1 == group' | grep . >/dev/null ||
        { echo "run.sh: no group '$group'" >&2; exit 2; }
    for ((seed = 1; seed <= seeds; seed++)); do
        settings | awk -v group="$group" -v seed="$seed" -v only="$only" '$1 == group && $2 ~ only {
            line = $1 " " $2 " " $3 " " seed
            for (i = 4; i <= NF; i++) line = line " " $i
            print line }'
    done >"$list"
    lane() { # number: the lane-th of each `cores` runs, on one core
        awk -v lane="$1" -v lanes="$cores" '$3 != "cores" && n++ % lanes == lane' "$list" |
            while read -r -a words; do run "$1" "${words[@]}" </dev/null || exit 1; done
    }
    lanes=()
    for ((core = 0; core < cores; core++)); do lane $core & lanes+=($!); done
    for pid in "${lanes[@]}"; do wait "$pid"; done
    awk '$3 == "cores"' "$list" |
        while read -r -a words; do run - "${words[@]}" </dev/null || exit 1; done
done
"$here/tables.sh" "$work" "$output" "$("$dlprof" --version)" "$seeds" "$epochs"
