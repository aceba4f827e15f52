# Finds the columns of a table of dlsim by name; exits if a needed one is missing.
#
# Set by the caller before loading this file:
#   table     CSV file
#   needed    required columns, separated by spaces
#   figure    name for messages
#
# Set by this file:
#   table                   the file's lines as gnuplot reads them, replacing the file name
#   number(c), text(c)      for "using": the current row's cell in column c; NaN or "" if empty
#   header_names            names of the columns in order, separated by spaces
#   known(x)                whether x is a number
# and functions for lists of words, and the options that gnuplot needs to read the table.

# Lists of words in a string.
is_in(list, item) = strstrt(" ".list." ", " ".item." ") > 0
joined(a, b) = a eq "" ? b : b eq "" ? a : a." ".b
add(list, item) = is_in(list, item) ? list : joined(list, item)
# The smallest number in the list above `low`; NaN if there is none.
next_from(list, low, i, best) = i > words(list) ? best : next_from(list, low, i + 1, \
    word(list, i) + 0 > low && !(word(list, i) + 0 >= best) ? word(list, i) + 0 : best)
sorted_from(list, low) = next_from(list, low, 1, NaN) > low ? \
    joined(sprintf("%g", next_from(list, low, 1, NaN)), \
    sorted_from(list, next_from(list, low, 1, NaN))) : ""
sorted(list) = sorted_from(list, -1e300)

table_name = table
# The name is always that of a file, never a command or one of gnuplot's special tables.
if (strlen(table) > 0 && strstrt("<|-+$@'\"", table[1:1]) > 0) { table = "./".table }
set datafile separator comma
set datafile commentschars "#"
unset datafile columnheaders
stats table using (1) nooutput
if (!exists("STATS_records")) {
    printerr sprintf("%s: cannot read '%s'", figure, table)
    exit status 1
}
# Cells are data, whatever they contain: the table is read, never executed. gnuplot ends a quoted
# text at its first comma and at the end of the line, so these become ';' and a space.
shell_quoted(t) = strstrt(t, "'") == 0 ? t : \
    t[1:strstrt(t, "'") - 1]."'\\''".shell_quoted(t[strstrt(t, "'") + 1:])
quoted_cells = ":line; /^([^\"]*\"[^\"]*\")*[^\"]*\"[^\"]*$/{N; s/\\n/ /; b line\n}; "
commas = ":cell; s/^(([^\"]*\"[^\"]*\")*[^\"]*\"[^\",]*),/\\1;/; t cell"
table = sprintf("< sed -E '%s%s' <'%s'", quoted_cells, commas, shell_quoted(table))
stats table using (1) nooutput
header_cells = STATS_columns
header = ","
header_names = ""
read_header(i) = i > header_cells ? 0 : (header = header.stringcolumn(i).",", \
    header_names = joined(header_names, stringcolumn(i)), read_header(i + 1))
stats table every ::0::0 using (read_header(1)) nooutput
has(c) = strstrt(header, ",".c.",") > 0

absent = ""
do for [c in needed] { if (!has(c)) { absent = joined(absent, c) } }
if (absent ne "") {
    printerr sprintf("%s: '%s' lacks the column%s %s", figure, table_name, \
        words(absent) > 1 ? "s" : "", absent)
    exit status 1
}
set datafile columnheaders
number(c) = has(c) ? column(c) : NaN
text(c) = has(c) ? stringcolumn(c) : ""
known(x) = x == x
