# Items on the studies that miss the bar or failed: awk -f csv.awk -f misses.awk overview.csv
NR == 1 { next }
{
    csv_cells($0, c)
    if (c[4] == "failed") what = "could not be simulated"
    else if (c[14] == "missed") what = "mean error " c[7] " %, largest " c[8] " % over " c[6] " unseen rows"
    else next
    printf "<li><a href=\"#%s-%s\">%s</a>: %s.</li>\n", c[1], c[2], html(c[3]), what
}
