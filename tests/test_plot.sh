#!/bin/sh
# Draws one figure from a fixture and checks the picture; exit 77: gnuplot is not installed.
# Usage: test_plot.sh FIGURE PLOTS_FOLDER FIXTURES_FOLDER; writes to a subfolder of the current
# folder.
set -u
figure=$1 plots=$2 fixtures=$3
command -v gnuplot >/dev/null || { echo "gnuplot is not installed (package gnuplot-nox)"; exit 77; }

folder="plot $figure" # tests paths with a space
rm -rf "$folder"
mkdir -p "$folder"
results="$folder/results.csv"
# Four workers, three rates of a port: with averaging, the share of compute is 1 / (1 + 6.25 MB/s /
# (rate x interval)).
if [ "$figure" = utilisation ]; then
    mkdir "$folder/fixtures"
    awk -F, -v OFS=, '/^#/ { print; next }
        !n { for (n = 1; n <= NF; n++) at[$n] = n; print $0, "port_bytes_per_s", "utilisation_frac"; next }
        $at["workers"] != 4 { next }
        { for (rate = 6.25e6; rate < 1e9; rate *= 10)
              print $0, rate, $at["sync"] == "average" ? 1 / (1 + 6.25e6 / rate / $at["interval"]) : "" }' \
        "$fixtures/results.csv" >"$folder/fixtures/results.csv"
    fixtures="$folder/fixtures"
fi
cp "$fixtures/results.csv" "$results"
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# draw VARIABLES: sets $status to the exit status, writes messages to $folder/messages
draw() {
    gnuplot -e "$1" "$plots/$figure.gp" >"$folder/messages" 2>&1
    status=$?
}
draws() { # what, variables, picture
    draw "$2"
    [ $status -eq 0 ] || fail "$1: exit status $status"
    [ -s "$folder/messages" ] && fail "$1: $(cat "$folder/messages")"
    [ -s "$3" ] || fail "$1: no picture"
}
refuses() { # what, exit status, text of the message, variables
    draw "$4"
    [ $status -eq "$2" ] || fail "$1: exit status $status, not $2"
    grep -q -F "$3" "$folder/messages" || fail "$1: message lacks '$3': $(cat "$folder/messages")"
}
without_columns() { # pattern of their names, [value of cores of the rows to keep]
    awk -F, -v pattern="^($1)\$" -v only="${2:-}" -v OFS=, '
        /^#/ { print; next }
        n && only != "" && $1 != only { next }
        !n { for (i = 1; i <= NF; i++) if ($i !~ pattern) keep[++n] = i }
        { line = $keep[1]; for (i = 2; i <= n; i++) line = line OFS $keep[i]; print line }' \
        "$fixtures/results.csv" >"$results"
}

png="$folder/a.png" svg="$folder/a.svg"
draws "PNG" "results='$results'; output='$png'" "$png"
[ "$(head -c 8 "$png" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] || fail "not a PNG"
draws "SVG" "results='$results'; output='$svg'; title='heading_1'" "$svg"
grep -q '<svg' "$svg" && grep -q '</svg>' "$svg" || fail "not a whole SVG"

# A table of any size is read completely (gnuplot cuts the output of system() at 1 MiB).
large="$folder/large.csv"
{ seq -f '# line %g, of no interest, in a table of over 1 MiB' 30000; cat "$results"; } >"$large"
draws "a large table" "results='$large'; output='$folder/large.svg'; title='heading_1'" "$folder/large.svg"
cmp -s "$svg" "$folder/large.svg" || fail "a large table is drawn otherwise"

# No text in a table, a name or a title is ever executed: lines that end a here-document, commands,
# substitutions. A quoted cell of several lines is one cell.
touches="system('touch ran.1') \`touch ran.2\` \$(touch ran.3) @ran_4 '.system('touch ran.5').' '; system('touch ran.6'); '"
awk -v OFS=, -v cell="$touches" '/^#/ { print; next } !head { head = 1; print $0, "note"; next }
    { printf "%s,\"%s\nEND_OF_TABLE\n%s\n\"\n", $0, cell, cell }
    END { print "END_OF_TABLE"; print cell }' "$fixtures/results.csv" >"$results"
odd="$folder/it's \`touch ran.7\` \$(touch ran.8) | <.csv"
cp "$results" "$odd"
quoted=$(printf %s "$odd" | sed "s/'/''/g")
draw "results='$quoted'; output='$folder/odd.svg'; title='$(printf %s "$touches" | sed "s/'/''/g")'"
cp "$fixtures/results.csv" "$folder/<touch ran.9"
(cd "$folder" && gnuplot -e "results='<touch ran.9'; output='|touch ran.10'" "$plots/$figure.gp" >/dev/null 2>&1)
for ran in ran.* "$folder"/ran.*; do [ -e "$ran" ] && fail "$ran: a table, a name or a title was run"; done
awk -F, -v OFS=, '/^#/ { print; next } !head { head = 1; print $0, "measured_source"; next }
    { printf "%s,\"a text\nEND_OF_TABLE\nof three, lines\"\n", $0 }' "$fixtures/results.csv" >"$results"
draws "cells of several lines" "results='$results'; output='$folder/lines.svg'; title='heading_1'" "$folder/lines.svg"
cmp -s "$svg" "$folder/lines.svg" || fail "cells of several lines: another picture"
cp "$fixtures/results.csv" "$results"

# Required texts of the figure: heading, axes, key, panels.
case $figure in
    speedup) words="average every step|average every 20 steps|allreduce|async|ideal|measured|workers|speedup" ;;
    interval) words="1 worker|16 workers|95 % interval|measured|throughput (samples/s)" ;;
    staleness) words="workers − 1|± standard deviation|measured|workers|staleness (updates" ;;
    breakdown)
        words="average every step|async|compute|input|dispatch|communication|averaging|waiting"
        words="$words|share of the step (%)" ;;
    utilisation) words="average every step|average every 20 steps|allreduce|rate of a port (Mb/s)|compute utilisation (%)|50|5000" ;;
esac
echo "heading_1|2 cores|one core per worker|$words" | tr '|' '\n' >"$folder/words"
while read -r text; do
    grep -q -F ">$text" "$svg" || fail "SVG lacks '$text'"
done <"$folder/words"

# The order of rows does not matter: with larger numbers of workers first the picture is the same.
# (Only for figures in which rows do not determine the order in the key or on the page.)
if [ "$figure" = speedup ] || [ "$figure" = staleness ]; then
    awk -F, '/^#/ { print "0," $0; next }
        !w { for (i = 1; i <= NF; i++) if ($i == "workers") w = i; print "0," $0; next }
        { print -$w "," $0 }' "$fixtures/results.csv" >"$folder/keyed.csv"
    { grep '^0,' "$folder/keyed.csv"; grep -v '^0,' "$folder/keyed.csv" | sort -s -t, -k1,1n; } |
        cut -d, -f2- >"$results"
    draws "rows by falling workers" \
        "results='$results'; output='$folder/b.svg'; title='heading_1'" "$folder/b.svg"
    cmp -s "$svg" "$folder/b.svg" || fail "rows by falling workers: another picture"
fi

# The distribution, from a histogram next to the results.
if [ "$figure" = staleness ]; then
    cp "$fixtures/results.csv" "$results"
    cp "$fixtures/histogram.csv" "$folder/histogram.csv"
    histogram="$folder/histogram.csv"
    draws "histogram" \
        "results='$results'; histogram='$histogram'; output='$folder/e.svg'" "$folder/e.svg"
    for text in "2 workers" "16 workers" "2 cores" "predicted share" "measured mean" \
        "gradients (%)"; do
        grep -q -F ">$text" "$folder/e.svg" || fail "histogram: SVG lacks '$text'"
    done
    sed 's/,count,/,number,/' "$fixtures/histogram.csv" >"$histogram"
    refuses "histogram without count" 1 "lacks the column count" \
        "results='$results'; histogram='$histogram'; output='$folder/d.png'"
fi

# All ticks of an axis have the same prefix.
if [ "$figure" = interval ]; then
    awk -F, -v OFS=, '/^#/ { print; next }
        !head { for (i = 1; i <= NF; i++) scaled[i] = $i ~ /throughput.*_per_s$/; head = 1; print; next }
        { for (i = 1; i <= NF; i++) if (scaled[i] && $i != "") $i *= 150; print }' \
        "$fixtures/results.csv" >"$results"
    draws "a million samples/s" "results='$results'; output='$svg'" "$svg"
    grep -q -F ">0.2M<" "$svg" && grep -q -F ">1M<" "$svg" || fail "no ticks in millions"
    grep -q '>[0-9.]*k<' "$svg" && fail "ticks in thousands beside those in millions"
fi

# Parts of a step that no bar shows are not in the key.
if [ "$figure" = breakdown ]; then
    awk -F, -v OFS=, '/^#/ { print; next }
        !n { for (n = 1; n <= NF; n++) if ($n == "dispatch_frac") at = n; print; next } { $at = 0.0004; print }' \
        "$fixtures/results.csv" >"$results"
    draws "no dispatch" "results='$results'; output='$svg'" "$svg"
    grep -q -F ">input" "$svg" || fail "no dispatch: SVG lacks 'input'"
    grep -q -F ">dispatch" "$svg" && fail "no dispatch: it is in the key"
    # Three digits, in the unit that they have after rounding.
    awk -F, -v OFS=, '/^#/ { print; next }
        !n { for (n = 1; n <= NF; n++) if ($n == "step_mean_s") at = n; print; next }
        { $at = NR % 3 == 0 ? 0.0009996 : NR % 3 == 1 ? 0.9999 : 0.00999; print }' "$fixtures/results.csv" >"$results"
    draws "rounded times" "results='$results'; output='$svg'" "$svg"
    for time in "1.00 ms" "1.00 s" "9.99 ms"; do
        grep -q -F ">$time" "$svg" || fail "rounded times: no $time"
    done
    grep -q -F ">1000" "$svg" && fail "rounded times: 1000"
fi

# Optional columns: spread, measurements, machine.
without_columns 'measured_.*|throughput_low_per_s|throughput_high_per_s|cores' 2
draws "few columns" "results='$results'; output='$folder/c.svg'" "$folder/c.svg"
grep -q -F ">measured" "$folder/c.svg" && fail "few columns: still says 'measured'"

# Workers on GPUs have no cores.
awk -F, -v OFS=, '/^#/ { print; next }
    !c { for (i = 1; i <= NF; i++) if ($i == "cores") c = i; print; next }
    $c == 2 { $c = ""; print }' "$fixtures/results.csv" >"$results"
draws "no cores" "results='$results'; output='$folder/f.svg'" "$folder/f.svg"
grep -q -F "cores" "$folder/f.svg" && fail "no cores: still says 'cores'"

# Micro-batches and lag also distinguish series.
if [ "$figure" = speedup ]; then
    awk -v OFS=, '/^#/ { print; next } !head { head = 1; print "accumulate", "lag", $0; next }
        { print "", "", $0; print 4, 1, $0 }' "$fixtures/results.csv" >"$results"
    draws "micro-batches and lag" "results='$results'; output='$svg'" "$svg"
    for text in ">allreduce<" ">allreduce, accumulate 4, lag 1<"; do
        grep -q -F "$text" "$svg" || fail "SVG lacks '$text'"
    done
    awk -F, '/^#/ { print; next } !head { head = 1; print "lag," $0; next }
        $4 == "allreduce" { print "," $0; print 1 "," $0 }' "$fixtures/results.csv" >"$results"
    draws "with and without lag" "results='$results'; output='$svg'" "$svg"
    for text in ">without lag<" ">lag 1<"; do
        grep -q -F "$text" "$svg" || fail "with and without lag: SVG lacks '$text'"
    done
fi

# Any setting of a scenario distinguishes series, even if its values contain commas, unless it
# follows the axis. Rows with equal settings are rejected.
if [ "$figure" = speedup ]; then
    swept() { # file, three values for the first sweep of the workers, three for the second
        awk -F, -v OFS=, -v values="$2" 'BEGIN { split(values, value, "|") }
            /^#/ { print; next }
            !head { head = 1; print "cores,workers,sync,gpus,input_cores,step_mean_s,throughput_per_s,speedup"; next }
            rows++ < 6 { r = rows - 1; print "", 2 ^ (r % 3), "ps", "\"" value[rows] "\"", 4, 1, 1, 1 + r }' \
            "$fixtures/results.csv" >"$1"
    }
    swept "$results" "0, 1|0, 1|0, 1|0, 4|0, 4|0, 4"
    draws "a list of GPUs" "results='$results'; output='$svg'" "$svg"
    for text in ">gpus 0; 1<" ">gpus 0; 4<" ">workers<"; do
        grep -q -F "$text" "$svg" || fail "a list of GPUs: SVG lacks '$text'"
    done
    swept "$folder/twice.csv" "0|0, 1|2|0|0, 1|2"
    { head -n 8 "$folder/twice.csv"; } >"$results" # comments, header, one sweep of the workers
    draws "GPUs that follow the workers" "results='$results'; output='$svg'" "$svg"
    grep -q -F ">workers (gpus 0, 0; 1, 2)<" "$svg" || fail "GPUs that follow the workers: SVG lacks them"
    refuses "rows of equal settings" 1 "several rows of 'predicted' at workers 1" \
        "results='$folder/twice.csv'; output='$folder/d.png'"
fi

# Rates between sites are accepted like those of ports; without either there is nothing to draw.
# Asynchronous workers have no utilisation.
if [ "$figure" = utilisation ]; then
    grep -q -F ">async" "$svg" && fail "asynchronous rows without a utilisation are drawn"
    sed 's/,port_bytes_per_s,/,site_bytes_per_s,/' "$fixtures/results.csv" >"$results"
    draws "sites" "results='$results'; output='$folder/s.svg'" "$folder/s.svg"
    grep -q -F ">rate between sites (Mb/s)" "$folder/s.svg" || fail "sites: another axis"
    without_columns port_bytes_per_s
    refuses "without a rate" 1 "no row has a utilisation and a swept rate" "results='$results'; output='$folder/d.png'"
fi

# Missing required columns are named.
case $figure in
    speedup) needed="workers throughput_per_s speedup" ;;
    interval) needed="workers interval throughput_per_s" ;;
    staleness) needed="workers sync staleness_mean staleness_sd" ;;
    utilisation) needed="workers sync compute_frac" ;;
    breakdown) needed="workers step_mean_s compute_frac input_frac dispatch_frac communication_frac
        averaging_frac waiting_frac" ;;
esac
for column in $needed; do
    without_columns "$column"
    refuses "without $column" 1 "lacks the column $column" \
        "results='$results'; output='$folder/d.png'"
done

grep '^#' "$fixtures/results.csv" >"$results"
grep -v '^#' "$fixtures/results.csv" | head -n 1 >>"$results"
refuses "no rows" 1 "has no row" "results='$results'; output='$folder/d.png'"
refuses "no file" 1 "cannot read" "results='$folder/none.csv'; output='$folder/d.png'"
refuses "no output" 2 "usage: gnuplot" "results='$fixtures/results.csv'"
refuses "no results" 2 "usage: gnuplot" "output='$folder/d.png'"
[ -e "$folder/d.png" ] && fail "a refused figure leaves a picture behind"

[ $failures -eq 0 ] || exit 1
echo "$figure: drawn and looked at"
