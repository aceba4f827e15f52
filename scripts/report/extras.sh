#!/usr/bin/env bash
# The report's parts beside the studies, into OUT: answers/GROUP.txt (what a group's answers.sh says from its
# results), accuracy tables and figures, extras/*.txt (tables of other scripts; first line: title, second:
# a sentence). What needs data that is not there says so.
# Usage: extras.sh OUT QUICK GROUP...
set -euo pipefail
# shellcheck source=scripts/report/common.sh
source scripts/report/common.sh
out=$1 quick=$2
shift 2
data=${DL_DATA:-./data}
rm -rf "$out/answers" "$out/extras" "$out"/accuracy.* "$out"/time_to_accuracy_*
mkdir -p "$out/answers" "$out/extras"

for group; do
    [ -x "scenarios/$group/answers.sh" ] || continue
    echo "  answers: $group"
    "scenarios/$group/answers.sh" "$out/studies/$group" >"$out/answers/$group.txt"
done

measured=scenarios/accuracy/measured
if [ -s "$measured/accuracy.csv" ]; then
    echo "  accuracy"
    cp "$measured/accuracy.csv" "$out/accuracy.csv"
    draw accuracy "$out/accuracy" "Accuracy on MNIST" results="$measured/accuracy.csv"
    if [ -s "$measured/curves.csv" ]; then
        column() { awk -v name="$1" -f "$parts/csv.awk" -f "$parts/column.awk" "$measured/curves.csv"; }
        paste -d, <(column model) <(column simulated_s) | sed -n 's/,..*//p' | sort -u | while read -r model; do
            draw time_to_accuracy "$out/time_to_accuracy_$model" "Time to accuracy, $model" \
                results="$measured/curves.csv" model="$model"
        done
    fi
fi

# extra NAME TITLE SENTENCE COMMAND...: what the command prints becomes a part; skipped if it fails.
extra() {
    local file=$out/extras/$1.txt title=$2 sentence=$3
    shift 3
    echo "  ${title,}"
    printf '%s\n%s\n' "$title" "$sentence" >"$file"
    "$@" >>"$file" 2>"$file.log" || printf '%s\nSkipped: %s\n' "$title" "$(tail -n 1 "$file.log")" >"$file"
    rm -f "$file.log"
}
skipped() { # name, title, what is missing
    printf '%s\nSkipped: %s\n' "$2" "$3" >"$out/extras/$1.txt"
}
# kept NAME COMMAND...: prints what the command prints; of an unchanged program and script, what it printed last.
kept() {
    local name=$1 key
    shift
    key=$({ sha256sum "$DLSIM" "$DLCAL"; find "$(dirname "$1")" -type f -print0 | sort -z | xargs -0 sha256sum; } | sha256sum)
    if [ "$(cat "$out/kept/$name.key" 2>/dev/null)" != "$key" ]; then
        [ "$quick" = no ] || { echo "not computed with --quick" >&2; return 1; }
        mkdir -p "$out/kept"
        "$@" >"$out/kept/$name.part"
        mv "$out/kept/$name.part" "$out/kept/$name.txt"
        echo "$key" >"$out/kept/$name.key"
    fi
    cat "$out/kept/$name.txt"
}

if [ -x scenarios/guide/guide.sh ]; then
    extra guide "When one GPU, when several, when to split the model" \
        "The fastest way of each kind that fits, as simulated, and the fewest GPUs that reach 90 % of the fastest one." \
        scenarios/guide/guide.sh
fi
if compgen -G "$data/links/*.log" >/dev/null; then
    extra links "Links: sizes left out of the fits" \
        "Times of collectives and copies, fitted to every second size of benchmark logs and judged on the others." \
        scripts/judge_links.sh
else
    skipped links "Links: sizes left out of the fits" "there are no logs of benchmarks in the data folder."
fi
if [ -d "$data/scaling/pollux" ]; then
    extra pollux "Pollux: placements that were not fitted" \
        "Steps on T4 GPUs: costs fitted on one node and on equal nodes, all other placements predicted, beside simpler models." \
        kept pollux scenarios/pollux/report.sh
else
    skipped pollux "Pollux: placements that were not fitted" "its tables are not in the data folder."
fi
if [ -x scenarios/traces/report.sh ] && [ -d "$data/traces" ]; then
    extra traces "What one trace tells" \
        "Traces of other programs replayed, and one GPU's trace predicted to more GPUs, beside naive answers." \
        kept traces scenarios/traces/report.sh
else
    skipped traces "What one trace tells" "there are no traces in the data folder."
fi
if [ -f scenarios/scaling/measured.csv ]; then
    extra scaling "Costs scaled from one GPU to another" \
        "What scaling compute by data-sheet rates misses, over pairs of GPUs that ran the same model; logarithms of the ratio." \
        awk -f scenarios/scaling/scaling.awk scenarios/scaling/gpus.csv scenarios/scaling/measured.csv
fi
