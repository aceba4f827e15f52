#!/usr/bin/env bash
# Prints wall time and processor time of dlsim in seconds for each scenario of a folder, the slowest
# first, and the number of scenarios that take longer than 2 s.
# Usage: bench_seeds.sh DLSIM FOLDER
set -euo pipefail
dlsim=$1 folder=$2 TIMEFORMAT='%R %U %S'
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for file in "$folder"/*.ini; do
    grep -q '^\[scenario\]' "$file" || continue
    { time "$dlsim" "$file" --quiet --journal off --output "$out/results.csv" >"$out/text" 2>&1; } 2>"$out/time" ||
        { cat "$out/text"; exit 1; }
    echo "$(tail -n 1 "$out/time") $(basename "$file")"
done | sort -rn | awk '
    NR == 1 { printf "%8s %8s  scenario\n", "wall [s]", "cpu [s]" }
    { printf "%8.2f %8.2f  %s\n", $1, $2 + $3, $4; wall += $1; cpu += $2 + $3; slow += $1 > 2 }
    END { printf "%8.2f %8.2f  all %d; longer than 2 s: %d\n", wall, cpu, NR, slow }'
