# Of lines "run algorithm interval rate shaped measured ring mechanism calibrated left_out": the rows, and mean
# and largest error by group, in % of the measured step.
function off(predicted) { return 100 * (predicted / measured - 1) }
function add(group, kind, error) {
    if (error < 0) error = -error
    sum[group, kind] += error
    if (error > most[group, kind]) most[group, kind] = error
}
BEGIN {
    print "A step in ms, measured and predicted; errors of the predicted step in %"
    printf "%-34s %10s %10s %8s %10s %10s %9s\n", "run", "measured", "mechanism", "ring", "mechanism",
        "calibrated", "left out"
    split("ring mechanism calibrated left_out", kinds, " ")
}
{
    measured = $6
    printf "%-34s %10.1f %10.1f %8.1f %10.1f %10.1f %9.1f\n", $1, 1000 * measured, 1000 * $8, off($7), off($8),
        off($9), off($10)
    group = $2 " H=" $3
    if ($2 == "ddp") group = $5 == "yes" ? "ddp, shaped" : "ddp, not shaped"
    all = $2
    n = split(group "|" (all == "ddp" ? "" : all), groups, "|")
    for (g = 1; g <= n; g++) {
        if (groups[g] == "") continue
        if (!(groups[g] in count)) order[++many] = groups[g]
        count[groups[g]]++
        for (k = 1; k <= 4; k++) add(groups[g], k, off($(6 + k)))
    }
}
END {
    printf "\n%-22s %5s", "mean, largest", "runs"
    for (k = 1; k <= 4; k++) printf " %16s", kinds[k]
    print ""
    for (i = 1; i <= many; i++) {
        group = order[i]
        printf "%-22s %5d", group, count[group]
        for (k = 1; k <= 4; k++) printf " %8.1f %7.1f", sum[group, k] / count[group], most[group, k]
        print ""
    }
}
