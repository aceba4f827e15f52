# A CSV table as Markdown: title=HEADING awk -f csv.awk -f table_md.awk TABLE
function plain(text) { # no HTML, which Markdown would pass on
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    return text
}
BEGIN { title = ENVIRON["title"] }
/^# mode: / { title = title " (" substr($0, 9) ")" }
/^#/ || /^$/ { next }
{
    n = csv_cells($0, cell)
    if (!head++ && title != "") printf "# %s\n\n", plain(title)
    line = "|"
    rule = "|"
    for (i = 1; i <= n; i++) {
        gsub(/\|/, "\\|", cell[i])
        line = line " " plain(cell[i]) " |"
        rule = rule "---|"
    }
    print line
    if (head == 1) print rule
}
