# The table of scenarios/accuracy/tables.sh as readers see it: awk -f csv.awk -f accuracy_table.awk accuracy.csv
/^#/ || /^$/ { next }
!columns {
    columns = csv_header($0, at, names)
    print "model,mode,workers,order of updates,mean staleness,runs,accuracy,standard error"
    next
}
{
    csv_cells($0, c)
    mode = c[at["sync"]]
    if (c[at["interval"]] != "") mode = mode " every " c[at["interval"]]
    if (c[at["n"]] != "") mode = c[at["n"]] "-" mode
    if (c[at["staleness_rate"]] + 0) mode = mode ", rate / staleness"
    print c[at["model"]] "," csv_put(mode) "," c[at["workers"]] "," (c[at["simulated"]] + 0 ? "simulated" : "real") "," \
        (c[at["staleness_mean"]] == "" ? "" : sprintf("%.2f", c[at["staleness_mean"]])) "," c[at["runs"]] "," \
        sprintf("%.4f", c[at["accuracy"]]) "," (c[at["accuracy_se"]] == "" ? "" : sprintf("%.4f", c[at["accuracy_se"]]))
}
