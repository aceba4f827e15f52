# The sentences of the page: sourced by page.sh, which has the counts and errors of totals.awk and the
# folder of the report in $out.
# shellcheck shell=bash disable=SC2154

# Of no rows there is no error: nothing is said.
error_words() {
    local fitted="" unseen=""
    [ "$total_fitted_rows" -eq 0 ] || fitted="Rows that costs were fitted to: mean $mean_fitted %, largest $largest_fitted %. "
    [ "$total_unseen_rows" -eq 0 ] || unseen="Unseen rows: mean $mean_unseen %, largest $largest_unseen %."
    echo "$fitted$unseen" # one line: it becomes an attribute
}
contradiction_words() {
    [ "$total_contradiction_rows" -eq 0 ] || echo "Contradictory rows: mean $mean_contradiction %, largest $largest_contradiction %."
}
unseen_words() {
    [ "$total_unseen_rows" -eq 0 ] || echo "Over the $total_unseen_rows rows that no cost was fitted to the error is $mean_unseen % on average and $largest_unseen % at most."
}
version() { "$(program dlsim)" --version | escape; }
left_words() {
    [ "$left_rows" -eq 0 ] || echo "With each row left out of the fit in turn, $left_rows rows are off by $left_mean % on average and $left_largest % at most, contradictory ones among them."
}

header_text() {
    cat <<EOF
<p>What published studies of distributed training measured, simulated by $(version), and why speedup is what it is:
$total_studies studies, $total_rows measured rows. $(unseen_words)</p>
EOF
}

method_text() {
    cat <<EOF
<section id="method"><h2>Method</h2>
<p>Each study is a scenario: a machine, the costs of a workload on it, and a way to synchronise. Its costs are determined
by the fewest measured rows with the smallest numbers of GPUs that determine them (<i>fitted</i>: $total_fitted_rows rows,
mean error $mean_fitted %, largest $largest_fitted %); all other rows are <i>unseen</i> and judge the prediction. Costs that
the rows do not tell come from data sheets or from another table of the same machine; the cost files say which.</p>
<p>A study counts as <i>predicted</i> with two unseen rows or more; one unseen row, or contradictory ones only, are <i>too
few rows</i> to judge; if its costs were fitted to all of its rows it is <i>reproduced</i>. Where nothing was
published it is <i>no measurement</i>, and its figures are predictions only. Predicted studies are held to 5 % mean and
12 % largest error on unseen rows. Every row counts in the totals, whatever the verdict of its study. Rows that contradict others of their table or its source ($total_contradiction_rows)
are shown, named and counted apart; so are rows whose source has an error ($total_error_rows).</p>
<p>Error: predicted over measured throughput, minus 1. Left out: the same with the row itself left out of a fit to all
others. How a framework overlaps its work was chosen from its documentation and source where these tell; where a study's
text says that it was chosen by what fits, the errors judge its costs and not that choice.</p>
</section>
EOF
}

overview_text() {
    cat <<EOF
<p>$total_predicted studies are predicted, of which $total_within meet the bar and $total_missed miss it; $total_reproduced are reproduced, $total_too_few_rows have
too few rows to judge, $total_no_measurement have no measurement. $(contradiction_words) $(left_words)</p>
EOF
}

accuracy_text() {
    cat <<EOF
<p>What the averaging interval, the number of workers and staleness do to accuracy is not simulated: networks are trained
for real. Beyond this machine’s cores the order of the updates comes from a simulated run, and the gradients are real.
How it was measured: $(sed -n '/^#/s/^# //p' "$out/accuracy.csv" | escape | paste -sd';' | sed 's/;/; /g').</p>
EOF
}

# The studies that miss the bar or could not run; why is said in their parts.
limits_text() {
    local misses
    misses=$(awk -f "$parts/csv.awk" -f "$parts/misses.awk" "$out/overview.csv")
    [ -z "$misses" ] || printf '<p>Studies that miss the bar of 5 %% and 12 %%, or could not run (their parts say why, as far as it is known):</p>\n<ul>\n%s\n</ul>\n' "$misses"
    echo '<p>Of the programs:</p>'
}
