# rows.csv as readers see it; a mode that all rows share stands above: awk -f csv.awk -f rows_table.awk rows.csv
function time_text(s) {
    if (s == "" || s == "error") return s
    if (s < 1e-3) return sprintf("%.3g µs", s * 1e6)
    if (s < 1) return sprintf("%.3g ms", s * 1e3)
    return sprintf(s < 1000 ? "%.3g s" : "%.0f s", s)
}
function percent(x) {
    if (x == "") return ""
    return x > -0.0005 && x < 0.0005 ? "0.0 %" : sprintf("%+.1f %%", 100 * x)
}
NR == 1 { csv_header($0, at, names); next }
{
    csv_cells($0, cell)
    rows++
    mode[rows] = cell[at["sync"]] (cell[at["options"]] == "" ? "" : "; " cell[at["options"]])
    if (mode[rows] != mode[1]) modes = 1
    use = cell[at["use"]]
    before[rows] = cell[at["workers"]] "," cell[at["batch"]]
    after[rows] = (use == "error" ? "error" : time_text(cell[at["measured_step_s"]])) "," \
        time_text(cell[at["step_s"]]) "," percent(cell[at["error_frac"]]) "," \
        percent(cell[at["left_out_frac"]]) "," csv_put(use (cell[at["runs"]] > 1 ? " (" cell[at["runs"]] " runs)" : ""))
}
END {
    if (!modes) print "# mode: " mode[1]
    print "workers,batch" (modes ? ",mode" : "") ",measured step,predicted step,error,left out,row"
    for (row = 1; row <= rows; row++) print before[row] (modes ? "," csv_put(mode[row]) : "") "," after[row]
}
