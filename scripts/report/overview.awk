# The overview of all studies as readers see it, from overview.csv: awk [-v links=1] -f csv.awk -f overview.awk
NR == 1 {
    print "study,verdict,fitted rows,unseen rows,mean error,largest error,left out: mean,left out: largest,rows apart,bar"
    next
}
function any(count) { return count + 0 ? count : "" }
function percent(x) { return x == "" ? "" : x " %" }
{
    csv_cells($0, c)
    apart = c[9] + 0 ? c[9] " contradictory (" c[10] " %)" : ""
    if (c[11] + 0) apart = apart (apart == "" ? "" : "; ") c[11] " with an error in the source"
    print csv_put(c[3] (links ? "|#" c[1] "-" c[2] : "")) "," c[4] "," any(c[5]) "," any(c[6]) "," \
        percent(c[7]) "," percent(c[8]) "," percent(c[12]) "," percent(c[13]) "," apart "," c[14]
}
