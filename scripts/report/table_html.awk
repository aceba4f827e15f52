# A CSV table as HTML: caption=TEXT awk [-v links=1] -f csv.awk -f table_html.awk TABLE
# The first column heads its row. With links, a cell "text|#anchor" becomes a link; numbers are aligned right.
function put(text,    at) {
    if (!links || !match(text, /\|#[^|]*$/)) return html(text)
    return "<a href=\"" html(substr(text, RSTART + 1)) "\">" html(substr(text, 1, RSTART - 1)) "</a>"
}
BEGIN {
    printf "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n<table>\n<caption>%s</caption>\n", \
        html(ENVIRON["caption"]), html(ENVIRON["caption"])
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
        printf "<th scope=\"col\"%s>%s</th>", (i in words ? "" : " class=\"number\""), html(text[1, i])
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
