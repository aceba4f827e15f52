# The rows of rows.csv that belong to one group: awk -v group=GROUP -f csv.awk -f rows_of_group.awk rows.csv
NR == 1 { csv_header($0, at, names); print; next }
{ csv_cells($0, cell); if (cell[at["group"]] == group) print }
