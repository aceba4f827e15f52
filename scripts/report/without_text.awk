# A CSV table without its quoted texts (columns options, reason, source).
{
    n = csv_cells($0, cell)
    if (NR == 1) for (i = 1; i <= n; i++) if (cell[i] !~ /^(options|reason|source)$/) keep[++kept] = i
    line = cell[keep[1]]
    for (i = 2; i <= kept; i++) line = line "," cell[keep[i]]
    print line
}
