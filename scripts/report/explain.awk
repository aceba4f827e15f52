# What a result file of dlsim says about the shape of its study: three lines, the number of the row with
# most workers (for dlsim --point), that of the row with most workers up to 8, and a sentence on which
# part of the step grows to the former.
#
#   awk -f csv.awk -f explain.awk RESULTS.csv
#
# Rows that differ in workers only (and, in weak scaling, in the batch as much) belong together. Of these
# series the one with most measured rows is taken, then the one with most workers.
function time_text(s) {
    if (s < 1e-3) return sprintf("%.3g µs", s * 1e6)
    if (s < 1) return sprintf("%.3g ms", s * 1e3)
    return sprintf(s < 1000 ? "%.3g s" : "%.0f s", s)
}
/^# settings:/ { is_weak = /scaling=weak/ }
/^#/ || /^$/ { next }
!columns { columns = csv_header($0, at, names); next }
{
    row++
    csv_cells($0, cell)
    if (cell[at["step_mean_s"]] == "") next # a point that could not run
    workers = cell[at["workers"]] + 0
    has_cores = has_cores || cell[at["cores"]] != ""
    key = label = ""
    for (i = 1; names[i] != "step_mean_s"; i++) {
        value = cell[i]
        if (names[i] == "workers" || names[i] == "cores" && value == cell[at["workers"]]) continue
        if (names[i] == "batch" && is_weak) value = value / workers
        key = key SUBSEP value
        if (value != "" && names[i] != "cores") label = label (label == "" ? "" : ", ") \
            (names[i] == "batch" ? "batch " value (is_weak ? " each" : "") : names[i] == "sync" ? value : names[i] " " value)
    }
    if (!(key in size)) { order[++keys] = key; about[key] = label }
    n = ++size[key]
    at_row[key, n] = row
    at_workers[key, n] = workers
    step[key, n] = cell[at["step_mean_s"]]
    speedup[key, n] = cell[at["speedup"]]
    if (cell[at["error_frac"]] != "") measured[key]++
    if (workers > top[key]) top[key] = workers
    for (p = split("compute dispatch input communication averaging waiting", part, " "); p; p--)
        share[key, n, p] = cell[at[part[p] "_frac"]] * cell[at["step_mean_s"]]
}
function most_below(key, limit,    i, best) {
    best = 0
    for (i = 1; i <= size[key]; i++)
        if (at_workers[key, i] < limit && (!best || at_workers[key, i] > at_workers[key, best])) best = i
    return best
}
# The parts that changed by 3 % of the step or more, largest first.
function changes(key, n, m,    whole, p, best, done, text, much) {
    whole = step[key, n] > step[key, m] ? step[key, n] : step[key, m]
    while (1) {
        best = 0
        for (p = 1; p <= 6; p++) {
            much[p] = share[key, m, p] - share[key, n, p]
            if (much[p] < 0) much[p] = -much[p]
            if (!(p in done) && much[p] >= 0.03 * whole && (!best || much[p] > much[best])) best = p
        }
        if (!best) return text
        done[best] = 1
        text = text (text == "" ? "" : ", ") part[best] " " time_text(share[key, n, best]) " → " \
            time_text(share[key, m, best])
    }
}
function shares(key, n,    p, text) {
    for (p = 1; p <= 6; p++)
        if (share[key, n, p] >= 0.005 * step[key, n])
            text = text (text == "" ? "" : ", ") part[p] sprintf(" %.0f %%", 100 * share[key, n, p] / step[key, n])
    return text
}
END {
    if (!keys) { print 0; print 0; print "No point of this scenario could run."; exit }
    best = order[1]
    for (k = 2; k <= keys; k++) {
        key = order[k]
        if (measured[key] + 0 > measured[best] + 0 ||
            measured[key] + 0 == measured[best] + 0 && top[key] > top[best]) best = key
    }
    m = most_below(best, 1e9)
    small = most_below(best, 9)
    n = most_below(best, at_workers[best, m])
    what = has_cores ? "workers" : "GPUs"
    print at_row[best, m]
    print at_row[best, small ? small : m]
    if (!n) {
        printf "A step of %d %s (%s) takes %s: %s.\n", at_workers[best, m],
            at_workers[best, m] == 1 ? substr(what, 1, length(what) - 1) : what, about[best],
            time_text(step[best, m]), shares(best, m)
        exit
    }
    found = changes(best, n, m)
    printf "From %d to %d %s (%s) a worker's step goes from %s to %s%s%s.\n", at_workers[best, n],
        at_workers[best, m], what, about[best], time_text(step[best, n]), time_text(step[best, m]),
        found == "" ? "; no part of it changes by 3 % of the step" : ": " found,
        speedup[best, m] < 0.01 || speedup[best, n] < 0.01 ? "" : sprintf("; the speedup over one worker goes from %.2f to %.2f",
                                              speedup[best, n], speedup[best, m])
}
