# A sentence from lines of worth.awk.
BEGIN {
    what["dispatch"] = "a host that issues work in no time"
    what["input"] = "batches that are ready at once"
    what["copy"] = "copies in no time"
    what["contention"] = "links that are not shared"
    what["average"] = "averaging in no time"
    what["update"] = "a server that updates in no time"
    what["overlap"] = "compute that copies do not slow down"
}
# A cost that is nearly all of the step is worth so much that only other small costs set the ratio.
function times(ratio) { return ratio >= 100 ? "over 100" : sprintf(ratio >= 10 ? "%.0f" : "%.2f", ratio) }
$2 >= 1.01 || $2 <= 0.99 { line[++lines] = times($2) " times with " what[$1] }
END {
    if (!lines) { print "No single cost of exchange, input or issue changes that throughput by 1 %."; exit }
    printf "If one thing were different, throughput with that many would be "
    for (i = 1; i <= lines; i++) printf "%s%s", line[i], (i < lines ? ", " : ".\n")
}
