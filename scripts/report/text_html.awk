# Plain text as HTML: blank lines part paragraphs, lines that begin with "- " are items of a list, lines
# that are indented stand as they are, a line above one of dashes is a heading: awk -f text_html.awk
function escaped(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    return text
}
function finish() {
    if (block == "p") print text "</p>"
    if (block == "li") print text "</li>"
    if (block == "pre") print text "</pre></div>"
    block = text = ""
}
function end_list() { if (in_list) print "</ul>"; in_list = 0 }
{ line[NR] = escaped($0) }
END {
    for (i = 1; i <= NR; i++) {
        if (line[i] == "") { finish(); end_list(); continue }
        if (line[i + 1] ~ /^---+$/) { finish(); end_list(); print "<h3>" line[i] "</h3>"; i++; continue }
        if (line[i] ~ /^- /) {
            finish()
            if (!in_list) print "<ul>"
            in_list = 1
            block = "li"
            text = "<li>" substr(line[i], 3)
        } else if (line[i] ~ /^  / && block != "li") {
            if (block == "pre") text = text "\n" line[i]
            else { finish(); block = "pre"; text = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"text\"><pre>" line[i] }
        } else if (block == "p" || block == "li") {
            sub(/^ +/, "", line[i])
            text = text "\n" line[i]
        } else { finish(); end_list(); block = "p"; text = "<p>" line[i] }
    }
    finish()
    end_list()
}
