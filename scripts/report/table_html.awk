# A CSV table as HTML: awk -v caption=TEXT -f csv.awk -f table_html.awk TABLE
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
    lines++
    n = csv_cells($0, cell)
    if (n > columns) columns = n
    for (i = 1; i <= n; i++) {
        text[lines, i] = cell[i]
        if (lines > 1 && cell[i] != "" && cell[i] !~ /^[-+0-9.]+(e[-+]?[0-9]+)?( (µs|ms|s|%))?$/ && cell[i] != "error")
            words[i] = 1
    }
}
END {
    printf "<thead><tr>"
    for (i = 1; i <= columns; i++)
        printf "<th scope=\"col\"%s>%s</th>", (i in words ? "" : " class=\"number\""), escaped(text[1, i])
    print "</tr></thead>\n<tbody>"
    for (line = 2; line <= lines; line++) {
        last = text[line, columns]
        sub(/ .*/, "", last)
        printf "<tr%s>", (last ~ /^(fitted|unseen|contradiction|error|missed|within)$/ ? " class=\"" last "\"" : "")
        for (i = 1; i <= columns; i++)
            printf i == 1 ? "<th scope=\"row\"%s>%s</th>" : "<td%s>%s</td>", \
                (i in words ? "" : " class=\"number\""), put(text[line, i])
        print "</tr>"
    }
    print "</tbody>\n</table>\n</div>"
}
