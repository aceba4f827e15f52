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
$2 >= 1.01 || $2 <= 0.99 { line[++lines] = sprintf("%.2f times with %s", $2, what[$1]) }
END {
    if (!lines) { print "No single cost of exchange, input or issue changes that throughput by 1 %."; exit }
    printf "If one thing were different, throughput with that many would be "
    for (i = 1; i <= lines; i++) printf "%s%s", line[i], (i < lines ? ", " : ".\n")
}
