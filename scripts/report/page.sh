#!/usr/bin/env bash
# The report as one self-contained page, OUT/index.html, from what the other scripts left in OUT.
# Usage: page.sh OUT
set -euo pipefail
# shellcheck source=scripts/report/common.sh
source scripts/report/common.sh
out=$1
mapfile -t groups < <(cut -d' ' -f1 "$out/studies.txt" | uniq)
reported() { awk -v group="$1" '$1 == group { print $2 }' "$out/studies.txt"; } # group: its studies
eval "$(awk -f "$parts/csv.awk" -f "$parts/totals.awk" "$out/overview.csv" "$out/rows.csv")"
# shellcheck source=scripts/report/page_text.sh
source "$parts/page_text.sh"

html_table() { caption=$1 awk -v links="${2:-}" -f "$parts/csv.awk" -f "$parts/table_html.awk"; } # caption, [1: with links]
has_extras() { compgen -G "$out/extras/*.txt" >/dev/null; }
extra_title() { sed -n 1p "$1"; } # of a text in extras: its first line

contents() {
    echo '<nav aria-label="Contents"><details open><summary>Contents</summary><ul>'
    echo '<li><a href="#method">Method</a></li><li><a href="#overview">Overview</a></li>'
    for group in "${groups[@]}"; do
        printf '<li><a href="#%s">%s</a><details><summary>%d studies</summary><ul>\n' "$group" \
            "$(group_title "$group" | escape)" "$(reported "$group" | wc -l)"
        for name in $(reported "$group"); do
            printf '<li><a href="#%s-%s">%s</a></li>\n' "$group" "$name" \
                "$(setting "scenarios/$group/$name.ini" scenario name | escape)"
        done
        [ ! -s "$out/answers/$group.txt" ] || printf '<li><a href="#%s-answers">What follows from them</a></li>\n' "$group"
        echo '</ul></details></li>'
    done
    ! has_extras || echo '<li><a href="#accuracy">Accuracy</a></li><li><a href="#more">Traces, links and machines</a></li>'
    echo '<li><a href="#limits">Known limits</a></li></ul></details></nav>'
}

overview() {
    echo '<section id="overview"><h2>Overview</h2>'
    overview_text
    awk -v links=1 -f "$parts/csv.awk" -f "$parts/overview.awk" "$out/overview.csv" | html_table "All studies" 1
    echo '<div class="figures">'
    picture "$out/errors_by_group" "Errors of all measured rows, a line per group of studies. $(error_words)" \
        'Error of each measured row, a line per group of studies; bands of ±5 % and ±10 %.'
    picture "$out/errors_by_workers" "Errors of all measured rows over the number of workers. $(error_words)" \
        'The same errors over the number of workers: does it get worse where nothing was fitted?'
    echo '</div></section>'
}

group_part() { # group
    printf '<section id="%s"><h2>%s</h2>\n' "$1" "$(group_title "$1" | escape)"
    if [ "$(reported "$1" | wc -l)" -gt 1 ]; then
        echo '<div class="figures">'
        picture "$out/errors_$1" "Errors of this group's measured rows, a line per study." \
            'Error of each measured row, a line per study; bands of ±5 % and ±10 %.'
        echo '</div>'
    fi
    for name in $(reported "$1"); do cat "$out/studies/$1/$name/study.html"; done
    if [ -s "$out/answers/$1.txt" ]; then
        printf '<div id="%s-answers">\n' "$1"
        awk -f "$parts/text_html.awk" "$out/answers/$1.txt"
        echo '</div>'
    fi
    echo '</section>'
}

accuracy() {
    echo '<section id="accuracy"><h2>Accuracy</h2>'
    if [ ! -s "$out/accuracy.csv" ]; then
        echo '<p>No table of accuracies is there: scenarios/accuracy/run.sh makes it, and needs MNIST and hours. Skipped.</p></section>'
        return
    fi
    accuracy_text
    picture "$out/accuracy" 'Test error against the averaging interval and against the mean staleness, with standard errors over the seeds.' \
        'Test error against the interval between averagings, and against staleness; bars are standard errors over the seeds.'
    local file
    for file in "$out"/time_to_accuracy_*.svg; do
        case "$file" in *.page.svg) continue ;; esac
        [ -s "$file" ] || continue
        picture "${file%.svg}" "Test error against simulated time, a line per way to synchronise: $(basename "${file%.svg}" | sed 's/.*_//')" \
            "Time to accuracy, $(basename "${file%.svg}" | sed 's/.*_//'): test error, measured with real gradients, against simulated seconds."
    done
    awk -f "$parts/csv.awk" -f "$parts/accuracy_table.awk" "$out/accuracy.csv" |
        html_table "Accuracy on MNIST, mean over seeds"
    echo '</section>'
}

more() {
    echo '<section id="more"><h2>Traces, links and machines</h2>'
    local file
    for file in "$out"/extras/*.txt; do
        [ -s "$file" ] || continue
        printf '<h3>%s</h3>\n' "$(extra_title "$file" | escape)"
        sed -n '2s#.*#<p>&</p>#p' <(escape <"$file")
        [ "$(wc -l <"$file")" -gt 2 ] || continue
        printf '<div class="scroll" role="region" tabindex="0" aria-label="%s"><pre>' "$(extra_title "$file" | escape)"
        sed '1,2d' "$file" | escape
        echo '</pre></div>'
    done
    echo '</section>'
}

limits() {
    echo '<section id="limits"><h2>Known limits</h2>'
    limits_text
    awk '/^## / { inside = $0 == "## Known limits"; next } inside' README.md | tr -d '`*' |
        awk -f "$parts/text_html.awk"
    echo '</section>'
}

{
    cat <<EOF
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>dlscale: measured and predicted</title>
<style>
$(cat "$parts/page.css")
</style>
</head>
<body>
<a class="skip" href="#overview">To the overview</a>
<header>
<h1>Distributed training, measured and predicted</h1>
EOF
    header_text
    echo '</header>'
    contents
    echo '<main>'
    method_text
    overview
    for group in "${groups[@]}"; do group_part "$group"; done
    if has_extras; then accuracy; more; fi
    limits
    echo '</main></body></html>'
} >"$out/index.html"
