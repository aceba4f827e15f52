#!/usr/bin/env bash
# Prints the rates at which one core of this machine compresses vectors to messages and reads them, and the
# rates that dlsim assumes if a cost file has none (QUANTISE_RULES in sim/costs/assume.c). Geometric means
# over the parameters of the MLP and LeNet (0.4 and 1.7 MB), as measured by dlprof bench; in processor
# time if other programs used the core.
#
# Usage: scripts/quantise_rates.sh
#
# Needs dlprof and dlcal in build/release/bin (or $BIN).
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
    "") ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "quantise_rates.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
esac
bin=${BIN:-build/release/bin} out=build/quantise
mkdir -p "$out"
for model in mlp lenet; do
    "$bin/dlprof" bench --model $model --batch 32,64 --workers-max 1 --data synthetic --seconds 3 -o "$out/$model.dlt" \
        >"$out/last.txt"
    "$bin/dlcal" fit "$out/$model.dlt" -o "$out/$model.ini" >"$out/$model.txt"
done
lscpu 2>/dev/null | sed -n 's/^Model name: */on /p'
cat "$out/mlp.ini" "$out/lenet.ini" | awk '
    FILENAME != "-" && /^ *QUANTISE_RULES\("/ {
        split($0, a, /[(, )"]+/)
        assumed[a[3] "_encode"] = a[5]
        assumed[a[3] "_decode"] = a[6]
    }
    FILENAME != "-" && /COMPRESSES\("learned/ { split($0, a, /[(, )"]+/); assumed["learned_rate"] = a[7] }
    FILENAME != "-" { next }
    /^\[/ { section = $0; gsub(/[][]/, "", section); next }
    section ~ /^quantise/ && $2 == "=" {
        kind = section; sub(/^quantise */, "", kind);
        name = $1; sub(/_bytes_per_s/, "", name); name = kind == "" ? name "_rate" : kind "_" name
        value = $3 / 1e9
        if (!(name in logs)) order[++n] = name
        logs[name] += log(value); count[name]++
    }
    END {
        printf "%-14s %10s %10s %8s\n", "GB/s", "measured", "assumed", "ratio"
        for (i = 1; i <= n; i++) {
            m = exp(logs[order[i]] / count[order[i]])
            printf "%-14s %10.3g %10s %8.2f\n", order[i], m, assumed[order[i]], m / assumed[order[i]]
        }
        if (!n) { print "no rates were measured"; exit 1 }
    }' sim/costs/assume.c -
