# Rows of the JSON report of `dlcal table`, as CSV: workers,batch,sync,measured_per_s,error_frac.
function field(text, name,    at) {
    at = index(text, "\"" name "\":")
    if (!at) return ""
    text = substr(text, at + length(name) + 3)
    sub(/^"/, "", text)
    match(text, /^[^,"}]*/)
    text = substr(text, 1, RLENGTH)
    return text == "null" ? "" : text
}
BEGIN { OFS = ","; print "workers,batch,sync,measured_per_s,error_frac" }
{
    count = split($0, row, "{\"line\":")
    for (i = 2; i <= count; i++)
        if (field(row[i], "failed") != "true" && field(row[i], "left_out_error_frac") != "")
            print field(row[i], "workers"), field(row[i], "batch"), field(row[i], "sync"),
                field(row[i], "measured_per_s"), field(row[i], "left_out_error_frac")
}
