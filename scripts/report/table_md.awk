# A CSV table as Markdown: awk -v title=HEADING -f csv.awk -f table_md.awk TABLE
/^# mode: / { title = title " (" substr($0, 9) ")" }
/^#/ || /^$/ { next }
{
    n = csv_cells($0, cell)
    if (!head++ && title != "") printf "# %s\n\n", title
    line = "|"
    rule = "|"
    for (i = 1; i <= n; i++) {
        gsub(/\|/, "\\|", cell[i])
        line = line " " cell[i] " |"
        rule = rule "---|"
    }
    print line
    if (head == 1) print rule
}
