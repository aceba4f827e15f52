# Results of dlsim as readers see them, of a study without measurements:
#   awk -f csv.awk -f results_table.awk RESULTS.csv
function time_text(s) {
    if (s == "") return ""
    if (s < 1e-3) return sprintf("%.3g µs", s * 1e6)
    if (s < 1) return sprintf("%.3g ms", s * 1e3)
    return sprintf(s < 1000 ? "%.3g s" : "%.0f s", s)
}
/^#/ || /^$/ { next }
!columns {
    columns = csv_header($0, at, names)
    print "workers,batch,mode,step,samples/s,speedup,mean staleness"
    next
}
{
    csv_cells($0, cell)
    mode = cell[at["sync"]]
    for (i = 1; names[i] != "step_mean_s"; i++)
        if (names[i] !~ /^(cores|workers|batch|sync)$/ && cell[i] != "") mode = mode "; " names[i] " " cell[i]
    failed = cell[at["step_mean_s"]] == ""
    print cell[at["workers"]] "," cell[at["batch"]] "," csv_put(mode) "," \
        (failed ? csv_put(cell[at["error"]]) : time_text(cell[at["step_mean_s"]])) "," \
        (failed ? "" : sprintf(cell[at["throughput_per_s"]] < 1000 ? "%.4g" : "%.0f", cell[at["throughput_per_s"]])) "," \
        (cell[at["speedup"]] == "" ? "" : sprintf(cell[at["speedup"]] < 0.1 ? "%.2g" : "%.2f", cell[at["speedup"]])) "," \
        (cell[at["staleness_mean"]] == "" ? "" : sprintf("%.2f", cell[at["staleness_mean"]]))
}
