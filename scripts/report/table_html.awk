# A CSV table as HTML: awk -v caption=TEXT [-v rows_with=ID] -f csv.awk -f table_html.awk TABLE
# The first column heads its row. A cell "text|#anchor" becomes a link; numbers stand to the right.
function escaped(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    return text
}
function put(text,    at) {
    at = index(text, "|#")
    if (!at) return escaped(text)
    return "<a href=\"" substr(text, at + 1) "\">" escaped(substr(text, 1, at - 1)) "</a>"
}
BEGIN {
    printf "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n<table>\n<caption>%s</caption>\n", \
        escaped(caption), escaped(caption)
}
/^#/ || /^$/ { next }
{
    n = csv_cells($0, cell)
    if (!head++) {
        printf "<thead><tr>"
        for (i = 1; i <= n; i++) printf "<th scope=\"col\">%s</th>", escaped(cell[i])
        print "</tr></thead>\n<tbody>"
        next
    }
    last = cell[n]
    sub(/ .*/, "", last)
    printf "<tr%s>", last ~ /^(fitted|unseen|contradiction|error|missed|within)$/ ? " class=\"" last "\"" : ""
    for (i = 1; i <= n; i++) {
        class = cell[i] ~ /^[-+0-9.]+( (µs|ms|s|%))?$/ ? " class=\"number\"" : ""
        printf i == 1 ? "<th scope=\"row\"%s>%s</th>" : "<td%s>%s</td>", class, put(cell[i])
    }
    print "</tr>"
}
END { print "</tbody>\n</table>\n</div>" }
