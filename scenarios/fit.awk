# The rows of a measured table that a list names: awk -v scenario=NAME -f csv.awk -f fit.awk fitted.csv TABLE
# The list: scenario, then key columns of the table (an empty cell fits any).
/^#/ || /^$/ { next }
FNR == 1 || !columns[FILENAME] {
    for (name in at) delete at[name]
    columns[FILENAME] = csv_header($0, at, names)
    if (FNR != NR) print
    else for (i = 1; i <= columns[FILENAME]; i++) key[i] = names[i]
    keys = keys ? keys : columns[FILENAME]
    next
}
FNR == NR { if (csv_cells($0, cell) && cell[1] == scenario) list[++listed] = $0; next }
{
    csv_cells($0, cell)
    for (row = 1; row <= listed; row++) {
        csv_cells(list[row], wanted)
        fits = 1
        for (i = 2; i <= keys; i++)
            if (wanted[i] != "" && cell[at[key[i]]] != wanted[i]) fits = 0
        if (fits) { print; break }
    }
}
