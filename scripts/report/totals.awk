# Counts and errors over all studies, as shell assignments: awk -f csv.awk -f totals.awk overview.csv rows.csv
FNR == 1 { file++; for (name in at) delete at[name]; csv_header($0, at, names); next }
{ csv_cells($0, c) }
file == 1 {
    count["studies"]++
    verdict = c[at["verdict"]]
    gsub(/ /, "_", verdict)
    count[verdict]++
    if (c[at["bar"]] != "") count[c[at["bar"]]]++
    next
}
{
    use = c[at["use"]]
    count["rows"] += c[at["runs"]]
    count[use "_rows"]++
    if (use == "error") next
    e = 100 * c[at["error_frac"]]
    if (e < 0) e = -e
    sum[use] += e
    if (e > top[use]) top[use] = e
    left = c[at["left_out_frac"]]
    if (left == "") next
    left = 100 * (left < 0 ? -left : left)
    lefts++
    left_sum += left
    if (left > left_top) left_top = left
}
END {
    split("studies predicted reproduced too_few_rows no_measurement failed within missed rows fitted_rows unseen_rows contradiction_rows error_rows", label, " ")
    for (i = 1; i in label; i++) printf "total_%s=%d\n", label[i], count[label[i]]
    n = split("fitted unseen contradiction", label, " ")
    for (i = 1; i <= n; i++)
        printf "mean_%s=%.1f\nlargest_%s=%.1f\n", label[i],
            count[label[i] "_rows"] ? sum[label[i]] / count[label[i] "_rows"] : 0, label[i], top[label[i]]
    printf "left_rows=%d\nleft_mean=%.1f\nleft_largest=%.1f\n", lefts, lefts ? left_sum / lefts : 0, left_top
}
