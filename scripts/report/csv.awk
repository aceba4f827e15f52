# Functions for CSV, loaded before other scripts (awk -f csv.awk -f ...).

# Cells of a line into out[1..n], without their quotes; returns n. Cells that look like numbers compare as
# numbers (split() makes them so, substr() does not).
function csv_cells(line, out,    n, cell, at, one) {
    n = 0
    line = line ","
    while (line != "") {
        if (substr(line, 1, 1) == "\"") {
            cell = ""
            line = substr(line, 2)
            while ((at = index(line, "\"")) > 0) {
                cell = cell substr(line, 1, at - 1)
                line = substr(line, at + 1)
                if (substr(line, 1, 1) != "\"") break
                cell = cell "\"" # a doubled quote
                line = substr(line, 2)
            }
            line = substr(line, 2) # the comma after the quote
        } else {
            at = index(line, ",")
            cell = substr(line, 1, at - 1)
            line = substr(line, at + 1)
        }
        split(cell, one, SUBSEP)
        out[++n] = cell == "" ? "" : one[1]
    }
    return n
}

# A cell as it stands in a file.
function csv_put(cell) {
    gsub(/[\r\n]+/, " ", cell)
    if (cell !~ /[",]/) return cell
    gsub(/"/, "\"\"", cell)
    return "\"" cell "\""
}

# Reads a header line: at[name] = number of its column, name[number]; returns their number.
function csv_header(line, at, name,    n, i) {
    n = csv_cells(line, name)
    for (i = 1; i <= n; i++) at[name[i]] = i
    return n
}

# A text as it stands in HTML, in attributes too.
function html(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    gsub(/"/, "\\&quot;", text)
    return text
}
