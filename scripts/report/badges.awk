# The line under a study's title from its summary.csv: awk -v note=TEXT -f csv.awk -f badges.awk summary.csv
{
    csv_cells($0, c)
    class = c[4]
    gsub(/ /, "-", class)
    printf "<p class=\"badges\"><span class=\"badge %s\">%s</span>", class, c[4]
    if (c[5] + c[6] + c[9] > 0) printf " %d rows fitted, %d unseen", c[5], c[6]
    if (c[6] > 0) printf ": mean error %s&nbsp;%%, largest %s&nbsp;%%", c[7], c[8]
    if (c[14] != "") printf " (%s the bar of 5&nbsp;%% and 12&nbsp;%%)", (c[14] == "within" ? "within" : "<strong>misses</strong>")
    if (c[9] > 0) printf "; %d contradictory row%s apart, largest error %s&nbsp;%%", c[9], (c[9] > 1 ? "s" : ""), c[10]
    if (c[11] > 0) printf "; %d row%s with an error in the source", c[11], (c[11] > 1 ? "s" : "")
    if (c[12] != "") printf "; leave-one-out: mean %s&nbsp;%%, largest %s&nbsp;%%", c[12], c[13]
    else if (note != "") printf "; %s", html(note)
    print "</p>"
}
