# rows.csv with a column more, left_out_frac, from leave_out.csv:
#   awk -v fitted=COSTS -f csv.awk -f join_left_out.awk [leave_out.csv] rows.csv
# Where no cost is fitted (fitted is empty) every row is predicted without itself.
FNR == 1 { for (name in at) delete at[name]; columns = csv_header($0, at, names); is_rows = "use" in at }
!is_rows { if (FNR > 1) { csv_cells($0, cell); error[id()] = cell[at["error_frac"]] } next }
# Several runs of a point have a median, which the table of single rows need not have: then no error.
function id() {
    return cell[at["workers"]] SUBSEP cell[at["batch"]] SUBSEP cell[at["sync"]] SUBSEP \
        sprintf("%.4g", cell[at["measured_per_s"]])
}
FNR == 1 { print $0 ",left_out_frac"; next }
{
    csv_cells($0, cell)
    print $0 "," (fitted == "" ? cell[at["error_frac"]] : error[id()])
}
