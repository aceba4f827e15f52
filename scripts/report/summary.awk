# One line on a study from its rows, as CSV (the first line of overview.csv names the columns):
#   title=TITLE awk -v group= -v name= [-v failed=1] -f csv.awk -f summary.awk rows.csv
# Verdict: predicted (two unseen rows or more), too few rows (fewer, but not all rows are fitted), reproduced (all
# rows are fitted), no measurement; failed if it could not be simulated. Errors in percent; left out: over all rows, contradictory ones too. The bar for predicted studies: 5 % mean, 12 %
# largest. The title comes from the environment, as awk would take backslashes in -v for escapes.
NR == 1 { csv_header($0, at, names); next }
{
    csv_cells($0, cell)
    use = cell[at["use"]]
    rows[use] += cell[at["runs"]]
    if (use == "error") next
    left = cell[at["left_out_frac"]]
    if (left != "") {
        left = 100 * (left < 0 ? -left : left)
        lefts++
        left_sum += left
        if (left > left_top) left_top = left
    }
    points[use]++
    e = 100 * cell[at["error_frac"]]
    if (e < 0) e = -e
    sum[use] += e
    if (e > top[use]) top[use] = e
}
function figure(use, what) {
    if (!points[use]) return ""
    return sprintf("%.1f", what == "mean" ? sum[use] / points[use] : top[use])
}
END {
    OFS = ","
    unseen = points["unseen"] + 0
    fitted = points["fitted"] + 0
    apart = points["contradiction"] + 0
    verdict = failed ? "failed" : unseen >= 2 ? "predicted" : unseen + apart ? "too few rows" : \
        fitted ? "reproduced" : "no measurement"
    bar = verdict != "predicted" ? "" : \
        sum["unseen"] / unseen <= 5 && top["unseen"] <= 12 ? "within" : "missed"
    print group, name, csv_put(ENVIRON["title"]), verdict, fitted, unseen, figure("unseen", "mean"),
        figure("unseen", "max"), apart, figure("contradiction", "max"), rows["error"] + 0,
        lefts ? sprintf("%.1f", left_sum / lefts) : "", lefts ? sprintf("%.1f", left_top) : "", bar
}
