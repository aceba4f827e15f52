# rows.csv as readers see it: awk -f csv.awk -f rows_table.awk rows.csv
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
NR == 1 {
    csv_header($0, at, names)
    print "workers,batch,mode,measured step,predicted step,error,left out,row"
    next
}
{
    csv_cells($0, cell)
    mode = cell[at["sync"]] (cell[at["options"]] == "" ? "" : "; " cell[at["options"]])
    use = cell[at["use"]]
    print cell[at["workers"]] "," cell[at["batch"]] "," csv_put(mode) "," \
        (use == "error" ? "error" : time_text(cell[at["measured_step_s"]])) "," \
        time_text(cell[at["step_s"]]) "," percent(cell[at["error_frac"]]) "," \
        percent(cell[at["left_out_frac"]]) "," csv_put(use (cell[at["runs"]] > 1 ? " (" cell[at["runs"]] " runs)" : ""))
}
