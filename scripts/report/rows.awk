# Measured rows of one result file of dlsim, each with its use, as CSV (its columns: the BEGIN block below).
#
#   awk -v scenario=NAME [-v group=GROUP] [-v mark=1] -f csv.awk -f rows.awk \
#       list=fitted fitted.csv list=contradiction contradictions.csv list= RESULTS.csv
#
# With mark: the result file itself with a last column `use`, which figures show.
# The lists: scenario, then columns of the results (an empty cell fits any), and perhaps `reason`. Both
# may be missing. error_frac: predicted over measured samples per second, minus 1, as dlsim writes it.
# Use: fitted (in the first list), contradiction (in the second one only), unseen, or error where the
# source has no value.
BEGIN {
    OFS = ","
    if (!mark) print "scenario,workers,batch,step_s,measured_step_s,error_frac,use,sync,options,measured_per_s,runs,group,reason,source"
}
/^#/ || /^$/ { next }
list != last { columns = 0; last = list }
!columns {
    for (name in at) delete at[name]
    columns = csv_header($0, at, names)
    if (mark && list == "") print $0 ",use"
    next
}
list != "" {
    csv_cells($0, cell)
    if (cell[at["scenario"]] != scenario) next
    row = ++listed[list]
    for (i = 1; i <= columns; i++)
        if (names[i] == "reason") why[list, row] = cell[i]
        else if (names[i] != "scenario") wanted[list, row, names[i]] = cell[i]
    for (i = 1; i <= columns; i++) key[list, i] = names[i]
    keys[list] = columns
    next
}
function in_list(which,    row, i, name, fits) {
    for (row = 1; row <= listed[which]; row++) {
        fits = 1
        for (i = 1; i <= keys[which]; i++) {
            name = key[which, i]
            if (name == "scenario" || name == "reason" || wanted[which, row, name] == "") continue
            if (!(name in at)) {
                print "rows.awk: " which " names a column that the results lack: " name >"/dev/stderr"
                exit 1
            }
            if (cell[at[name]] != wanted[which, row, name]) fits = 0
        }
        if (fits) return row
    }
    return 0
}
# The settings of the row that the table's other columns do not hold.
function options(    i, text) {
    text = ""
    for (i = 1; names[i] != "step_mean_s"; i++) {
        if (names[i] ~ /^(cores|workers|batch|sync)$/ || cell[i] == "") continue
        text = text (text == "" ? "" : "; ") names[i] " " cell[i]
    }
    return text
}
{
    csv_cells($0, cell)
    is_error = cell[at["measured_per_s"]] == "error"
    if (!is_error && cell[at["error_frac"]] == "") {
        if (mark) print $0 ","
        next
    }
    contradicts = in_list("contradiction")
    use = is_error ? "error" : in_list("fitted") ? "fitted" : contradicts ? "contradiction" : "unseen"
    if (mark) { print $0 "," use; next }
    print scenario, cell[at["workers"]], cell[at["batch"]], cell[at["step_mean_s"]],
        cell[at["measured_step_s"]], cell[at["error_frac"]], use, cell[at["sync"]], csv_put(options()),
        cell[at["measured_per_s"]], is_error ? 1 : cell[at["measured_runs"]], group,
        csv_put(contradicts ? why["contradiction", contradicts] : ""), csv_put(cell[at["measured_source"]])
}
