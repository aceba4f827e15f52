# Cells of one column: awk -v name=COLUMN -f csv.awk -f column.awk TABLE
/^#/ || /^$/ { next }
!columns { columns = csv_header($0, at, names); next }
{ csv_cells($0, cell); if (name in at) print cell[at[name]] }
