#!/usr/bin/env bash
# Fits the costs of the seeds' scenarios again, by `dlcal table` to the rows that fitted.csv lists, and
# prints the values beside those of scenarios/costs, which were taken from there and rounded. Takes
# some minutes. Results: build/seeds/fit (reports, cost files).
#
# Usage: scenarios/seeds/fit.sh [SCENARIO...]    needs bin/dlcal in build/release (or $DLCAL)
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
dlcal=${DLCAL:-build/release/bin/dlcal}
seeds=scenarios/seeds
out=build/seeds/fit
[ -x "$dlcal" ] || { echo "fit.sh: no $dlcal; build it, or name it in DLCAL" >&2; exit 2; }
mkdir -p "$out"

# What the rows of each scenario tell. Forward and backward always run together, so that one of the two
# can be told: the backward pass.
declare -A costs=(
    [beeva_mxnet_p2_lenet]="[op network.backward] fixed_ns, [op network.backward] per_sample_ns, dispatch.serial_ns, dispatch.per_worker_ns"
    [beeva_mxnet_p2_mlp]="[op network.backward] fixed_ns, dispatch.serial_ns, dispatch.per_worker_ns"
    [beeva_mxnet_gce8_lenet]="[op input] per_sample_ns, dispatch.per_worker_ns"
    [beeva_mxnet_azure_lenet]="[op network.backward] fixed_ns, [op network.backward] per_sample_ns"
    [beeva_tensorflow_p2]="[op network.backward] per_sample_ns, dispatch.serial_ns, dispatch.per_worker_ns"
    [navid_keras]="[op network.backward] per_sample_ns, dispatch.per_worker_ns"
    [navid_pytorch]="[op network.backward] per_sample_ns"
)

# setting SCENARIO SECTION KEY: the path that the scenario names, relative to the root.
setting() {
    awk -v section="[$2]" -v key="$3" -v folder="$seeds" '
        /^\[/ { inside = $0 == section }
        inside && $1 == key { print folder "/" $3 }' "$seeds/$1.ini"
}

# values FILE: "section key value" of each cost.
values() {
    awk '/^\[/ { section = $0 } /_ns =/ { sub(/,.*/, "", $3); print section "\t" $1 "\t" $3 }' "$1"
}

[ $# -gt 0 ] || mapfile -t names < <(printf '%s\n' "${!costs[@]}" | sort)
[ $# -eq 0 ] || names=("$@")
for name in "${names[@]}"; do
    [ -n "${costs[$name]:-}" ] || { echo "fit.sh: nothing is fitted for '$name'" >&2; exit 2; }
    awk -F, -v scenario="$name" '
        FNR == NR { if ($1 == scenario) want[$2, $3] = 1; next }
        /^#/ { next }
        !named++ || ($1, $2) in want' "$seeds/fitted.csv" "$(setting "$name" measured file)" >"$out/$name.csv"
    "$dlcal" table "$out/$name.csv" --scenario "$seeds/$name.ini" --fit "${costs[$name]}" \
        --output "$out/$name.ini" >"$out/$name.txt"
    printf '%s\n' "$name"
    awk -F'\t' -v fitted=", ${costs[$name]}," '
        FNR == NR { file[$1, $2] = $3; next }
        index(fitted, ", " $1 " " $2 ",") || index(fitted, ", " substr($1, 2, length($1) - 2) "." $2 ",") {
            printf "  %-40s cost file %10.0f  fitted %10.0f  %+5.1f %%\n", $1 " " $2, file[$1, $2], $3,
                100 * ($3 / file[$1, $2] - 1)
        }' <(values "$(setting "$name" workload costs)") <(values "$out/$name.ini")
done
