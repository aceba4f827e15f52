# One line on a study from its rows, as CSV (the first line of overview.csv names the columns):
#   awk -v group= -v name= -v title= -f csv.awk -f summary.awk rows.csv
# Verdict: predicted (two unseen rows or more), reproduced (measured rows, fewer unseen ones), no
# measurement. Errors in percent; left out: over all rows, contradictory ones too. The bar for predicted studies: 5 % mean, 12 % largest.
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
    verdict = unseen >= 2 ? "predicted" : unseen + fitted + apart ? "reproduced" : "no measurement"
    bar = verdict != "predicted" ? "" : \
        sum["unseen"] / unseen <= 5 && top["unseen"] <= 12 ? "within" : "missed"
    print group, name, csv_put(title), verdict, fitted, unseen, figure("unseen", "mean"),
        figure("unseen", "max"), apart, figure("contradiction", "max"), rows["error"] + 0,
        lefts ? sprintf("%.1f", left_sum / lefts) : "", lefts ? sprintf("%.1f", left_top) : "", bar
}
