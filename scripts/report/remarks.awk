# What is to be said of single rows, and where they come from: awk -f csv.awk -f remarks.awk rows.csv
NR == 1 { csv_header($0, at, names); next }
{
    csv_cells($0, cell)
    source = html(cell[at["source"]])
    where = cell[at["workers"]] " workers, batch " cell[at["batch"]]
    if (cell[at["reason"]] != "") remark[++remarks] = where ": contradictory; " html(cell[at["reason"]]) "."
    if (cell[at["use"]] == "error") remark[++remarks] = where ": an error in the source."
    if (source != "" && !(source in seen)) { seen[source] = 1; order[++sources] = source }
}
END {
    if (remarks) {
        print "<ul class=\"remarks\">"
        for (i = 1; i <= remarks; i++) print "<li>" remark[i] "</li>"
        print "</ul>"
    }
    if (!sources) exit
    printf "<p class=\"sources\">Source%s: ", (sources > 1 ? "s" : "")
    for (i = 1; i <= sources; i++) printf "%s%s", order[i], (i < sources ? "; " : ".</p>\n")
}
