#!/usr/bin/env bash
# What recording costs on a GPU: dlprof bench overhead; then the steps of LeNet (batch 128) and of
# ResNet-50 (batch 64), bare and under dlprof run --preset light and default, in alternating order; the
# same in PyTorch where that is installed, beside PyTorch's own profiler, whose kernel times are
# compared too. Leaves tables and traces in OUTDIR.
# Exit status: 0 if every recording holds kernels and lost none, default costs at most 2 % of ResNet-50's step and light at most 5 % of LeNet's, neither
# more than PyTorch's profiler, and kernel times agree within 1 %; else 1.
#
#   tests/gpu/capture.sh OUTDIR DLPROF [DLCAL [overhead | torch]]      both, or one of them alone
#
# Environment: ROUNDS=7 runs of each kind, fewer where they do not fit into LIMIT=seconds for
# everything; DEVICE=cuda.
set -uo pipefail
[ $# -ge 2 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
dlprof=$2
dlcal=${3:-}
what=${4:-overhead torch}
rounds=${ROUNDS:-7}
device=${DEVICE:-cuda}
limit=${LIMIT:-86400}
table=$out/capture_cost.txt
bad=0
: >"$table"

say() {
    echo "$*" | tee -a "$table"
}

# Median of the numbers in the standard input, one a line.
median() {
    sort -g | awk '{ v[NR] = $1 } END { if (NR) print (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) }'
}

# One run: its steps' median in ns is added to NAME.VARIANT.ns.
run_steps() { # name, variant, command that prints the ns...
    local name=$1 variant=$2 ns
    shift 2
    rm -rf "$out/$name.$variant"
    ns=$("$@" 2>"$out/$name.$variant.log") || { say "$name $variant: failed, see $name.$variant.log"; bad=1; return; }
    echo "$ns" >>"$out/$name.$variant.ns"
}

# shellcheck disable=SC2317 # called by its name
# Prints the median step of dlprof train, recorded as the variant says.
train_step() { # variant, model, batch, steps
    local recorded=() known=() trace=$out/$2.$1.train.dlt
    [ ! -e "$out/overhead.dlt" ] || known=(--overhead "$out/overhead.dlt")
    case $1 in
        light | default) recorded=("$dlprof" run -q -p "$1" "${known[@]}" -o "$out/$2.$1"
            --json "$out/$2.$1.json" --) ;;
    esac
    "${recorded[@]}" "$dlprof" train --device "$device" --data synthetic --model "$2" --batch "$3" \
        --steps "$4" -o "$trace" >&2 || return 1
    [ ${#recorded[@]} -eq 0 ] || "$here/recorded.sh" "$out/$2.$1.json" "$4" >&2 || return 1
    "$dlprof" info --json "$trace" | tr ',{' '\n' | awk -F: '/^"p50"/ && !found++ { print $2 }'
}

# shellcheck disable=SC2317 # called by its name
# The same in PyTorch; the variant "torch" is its own profiler.
torch_step() { # variant, model, batch, steps
    local recorded=() own=()
    case $1 in
        light | default) recorded=("$dlprof" run -q -p "$1" -o "$out/torch_$2.$1"
            --json "$out/torch_$2.$1.json" --) ;;
        torch) own=(--profile "$out/torch_$2.json") ;;
    esac
    "${recorded[@]}" python3 "$here/torch_step.py" --model "$2" --batch "$3" --steps "$4" \
        --device "$device" "${own[@]}" || return 1
    [ ${#recorded[@]} -eq 0 ] || "$here/recorded.sh" "$out/torch_$2.$1.json" "$4" >&2
}

# In one round forwards, in the next backwards: a drift of the clock touches all alike.
# Ends after the round that leaves no time for another one until `deadline`, in seconds of this script.
alternate() { # name, function, variants, deadline, model, batch, steps
    local name=$1 function=$2 deadline=$4 round i variant order begun=$SECONDS
    read -ra order <<<"$3"
    shift 4
    rm -f "$out/$name".*.ns
    for ((round = 0; round < rounds; round++)); do
        if ((round > 0 && SECONDS + (SECONDS - begun) / round > deadline)); then break; fi
        for ((i = 0; i < ${#order[@]}; i++)); do
            variant=${order[$((round % 2 ? ${#order[@]} - 1 - i : i))]}
            run_steps "$name" "$variant" "$function" "$variant" "$@"
        done
    done
}

# Prints what a variant adds to the bare step in %: the median over the rounds, then least and most.
shares() { # name, variant
    paste "$out/$1.bare.ns" "$out/$1.$2.ns" 2>/dev/null |
        awk 'NF == 2 { print 100 * ($2 / $1 - 1) }' | sort -g >"$out/$1.$2.percent"
    [ -s "$out/$1.$2.percent" ] || return 1
    echo "$(median <"$out/$1.$2.percent") $(head -n 1 "$out/$1.$2.percent") $(tail -n 1 "$out/$1.$2.percent")"
}

report() { # name, variants
    local name=$1 variant found
    say "$name: bare step $(median <"$out/$name.bare.ns") ns"
    for variant in $2; do
        read -ra found <<<"$(shares "$name" "$variant")"
        [ ${#found[@]} -eq 3 ] || { say "$name $variant: not measured"; bad=1; continue; }
        say "$name $variant: ${found[0]} % (least ${found[1]}, most ${found[2]}, of $(wc -l <"$out/$name.$variant.percent") rounds)"
    done
}

# The median share must not be more than a bound.
at_most() { # name, variant, bound in %, what the bound is
    local share
    share=$(median <"$out/$1.$2.percent" 2>/dev/null)
    if [ -z "$share" ] || awk -v s="$share" -v b="$3" 'BEGIN { exit !(s > b) }'; then
        say "NOT HELD: $1 $2 costs ${share:-?} %, more than $4 ($3 %)"
        bad=1
    else
        say "held: $1 $2 costs $share %, at most $4 ($3 %)"
    fi
}

measure_own() { # deadline
    local model recorded
    "$dlprof" bench overhead --model lenet --batch 64 --data synthetic --seconds "${SECONDS_OVERHEAD:-60}" \
        -o "$out/overhead.dlt" | tee -a "$table" || bad=1
    if grep -q 'launches are not measured' "$table"; then bad=1; fi

    alternate lenet train_step "bare light default" $((SECONDS + (limit - SECONDS) / 3)) lenet 128 "${LENET_STEPS:-2000}"
    alternate resnet50 train_step "bare light default" "$1" resnet50 64 "${RESNET_STEPS:-60}"
    for model in lenet resnet50; do report $model "light default"; done
    at_most lenet light 5 "the bound for LeNet"
    at_most resnet50 default 2 "the bound for ResNet-50"
    for recorded in "$out"/lenet.default "$out"/resnet50.default; do
        "$dlprof" info "$recorded"/*.dlt 2>/dev/null | sed -n '/^recorded as/,/^$/p' | tee -a "$table"
    done
}

measure_torch() {
    local model sizes deadline bound variant
    if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
        say "PyTorch is not measured: python3 has no torch with a GPU"
        return
    fi
    for model in lenet resnet50; do
        [ $model = lenet ] && sizes=(128 500) || sizes=(64 30)
        deadline=$limit
        [ $model = resnet50 ] || deadline=$((SECONDS + (limit - SECONDS) / 2))
        alternate torch_$model torch_step "bare light default torch" "$deadline" $model "${sizes[@]}"
        report torch_$model "light default torch"
        bound=$(median <"$out/torch_$model.torch.percent" 2>/dev/null)
        for variant in light default; do
            at_most torch_$model $variant "${bound:-0}" "PyTorch's own profiler"
        done
        if [ -z "$dlcal" ] || [ ! -x "$dlcal" ]; then
            say "kernel times of torch_$model are not compared: no dlcal in this build"
            continue
        fi
        "$dlcal" info --json "$out/torch_$model.json" >"$out/torch_$model.torch.summary.json" &&
            "$dlcal" info --json "$out/torch_$model.default"/*.dlt >"$out/torch_$model.dlprof.summary.json" &&
            python3 "$here/compare_kernels.py" "$out/torch_$model.torch.summary.json" \
                "$out/torch_$model.dlprof.summary.json" 0.01 | tee -a "$table" || bad=1
    done
}

case $what in
    overhead) measure_own "$limit" ;;
    torch) measure_torch ;;
    *)
        measure_own $((limit / 2))
        measure_torch
        ;;
esac
exit $bad
