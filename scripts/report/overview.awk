# The overview of all studies as readers see it, from overview.csv: awk [-v links=1] -f csv.awk -f overview.awk
NR == 1 {
    print "study,verdict,fitted,unseen,mean error,largest,contradictory,their largest,source errors,left out: mean,left out: largest,bar"
    next
}
function percent(x) { return x == "" ? "" : x " %" }
{
    csv_cells($0, c)
    print csv_put(c[3] (links ? "|#" c[1] "-" c[2] : "")) "," c[4] "," c[5] "," c[6] "," percent(c[7]) "," \
        percent(c[8]) "," (c[9] ? c[9] : "") "," percent(c[10]) "," (c[11] ? c[11] : "") "," percent(c[12]) "," percent(c[13]) "," c[14]
}
