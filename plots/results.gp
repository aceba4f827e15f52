# Reads a results file of dlsim, and groups its rows into panels and series.
#
# Set by the figure before loading this file:
#   figure    its name, for messages; folder   the folder of its script, for loading
#   needed    required columns, separated by spaces
#   apart     the column along the axis, which does not distinguish series
#   prepare   (optional) commands to run after the results are read, before the first wanted(0)
#   wanted(unused)   whether the figure draws the current row
#   wanted_what      message if no row is wanted
# Set by the caller:
#   results   results file (.csv)
#   output    picture to write: SVG if the name ends in .svg, else PNG
#   title     (optional) heading
#
# Set by this file, for "using" in the figure:
#   number(c), text(c), known(x)   see columns.gp
#   panel_count, in_panel(p)     p = 1.. over the machines, distinguished by their cores; whether
#                                the row belongs to panel p
#   panel_title(p)               "2 cores", "one core per worker"
#   series_count, in_series(s)   s = 1.. over the combinations of all other settings that vary
#   along                        "placement 22, 44": settings that change with the axis, or ""
#   series_label[s]              "average every 10 steps", "async"
#   label_px                     approximate width of the longest label in pixels
#   in_machine(p)                as in_panel, for unwanted rows and other tables too
# Rows that are not wanted belong to no panel.

set encoding utf8
if (!exists("results") || !exists("output")) {
    printerr sprintf("usage: gnuplot -e \"results='results.csv'; output='%s.png'\" %s%s.gp", \
        figure, folder, figure)
    printerr "       optional: title='heading'; SVG is written when the output's name ends in .svg"
    exit status 2
}

table = results
load folder."columns.gp"
results_name = results
results = table
if (exists("prepare")) { eval prepare }

# In weak scaling the batch grows with the workers; the setting is then the batch per worker.
batches = ""
batches_each = ""
batch_each(unused) = sprintf("%g", number("batch") / number("workers"))
note_batch(t, each) = (batches = add(batches, t), batches_each = add(batches_each, each), 0)
stats results using (note_batch(text("batch"), batch_each(0))) nooutput
is_weak = words(batches_each) < words(batches)

# Settings that a scenario may sweep: all columns before the first result, these first; each with
# the text that distinguishes its values, and its label in the key.
settings = "sync where interval algorithm n bound k accumulate lag compress"
is_result(c) = is_in("step_mean_s step_p50_s throughput_per_s speedup staleness_mean", c)
add_settings(i) = i > header_cells || is_result(word(header_names, i)) ? 0 : \
    (settings = is_in("cores batch workers", word(header_names, i)) ? settings : \
    add(settings, word(header_names, i)), add_settings(i + 1))
dummy = add_settings(1)
settings = settings." batch workers"
setting(c) = c eq "batch" && is_weak ? batch_each(0) : text(c)
spaced(t) = strstrt(t, "_") == 0 ? t : spaced(t[1:strstrt(t, "_") - 1]." ".t[strstrt(t, "_") + 1:])
every(t) = t eq "1" ? "every step" : "every ".t." steps"
put(c, t) = t eq "" || c eq "sync" ? t : c eq "interval" ? every(t) : \
    c eq "workers" ? t.(t eq "1" ? " worker" : " workers") : \
    c eq "batch" ? "batch ".t.(is_weak ? " each" : "") : spaced(c)." ".t

# Workers on GPUs have no cores; their cells are empty.
has_cores = 0
note_cores(t) = t eq "" ? 0 : (has_cores = 1)
if (has("cores")) { stats results using (note_cores(text("cores"))) nooutput }

# One panel for each number of cores, and one for the rows with a core per worker. A file
# distinguishes the two only by numbers: a core count is a machine if some row combines it with a
# different number of workers.
machines = ""
per_worker = 0
note_machine(cores) = number("cores") != number("workers") ? \
    (machines = add(machines, cores), 0) : 0
note_per_worker(cores) = is_in(machines, cores) ? 0 : (per_worker = 1)
if (has_cores) {
    stats results using (wanted(0) ? note_machine(text("cores")) : 0) nooutput
    stats results using (wanted(0) ? note_per_worker(text("cores")) : 0) nooutput
}
machines = sorted(machines)
panel_count = has_cores ? words(machines) + per_worker : 1
in_machine(p) = !has_cores || (p > words(machines) ? \
    number("cores") == number("workers") : text("cores") eq word(machines, p))
in_panel(p) = wanted(0) && in_machine(p)
panel_title(p) = !has_cores ? "" : p > words(machines) ? "one core per worker" : \
    word(machines, p).(word(machines, p) eq "1" ? " core" : " cores")

# Settings with several values distinguish series. A setting that the value along the axis
# determines (a placement for each number of workers) belongs to the axis; `along` lists its values.
varying = ""
along = ""
do for [c in settings] {
    if (has(c) && c ne apart) {
        seen = "\n"
        pairs = "\n"
        axis = "\n"
        list = ""
        distinct = 0
        ticks_seen = 0
        pairs_seen = 0
        note_value(t) = strstrt(seen, "\n".t."\n") ? 0 : \
            (seen = seen.t."\n", list = list.(distinct ? ", " : "").t, distinct = distinct + 1)
        note_tick(t) = strstrt(axis, "\n".t."\n") ? 0 : (axis = axis.t."\n", ticks_seen = ticks_seen + 1)
        note_pair(t) = strstrt(pairs, "\n".t."\n") ? 0 : (pairs = pairs.t."\n", pairs_seen = pairs_seen + 1)
        stats results using (wanted(0) ? (note_value(setting(c)), note_tick(text(apart)), \
            note_pair(text(apart)."\t".setting(c)), 0) : 0) nooutput
        if (distinct > 1) {
            if (pairs_seen > ticks_seen || is_in("sync interval batch workers", c)) { varying = joined(varying, c) } \
            else { along = along.(along eq "" ? "" : "; ").spaced(c)." ".list }
        }
    }
}
between(a, b, c) = a eq "" || b eq "" ? "" : c eq "interval" ? " " : ", "
row_label_to(i) = i < 1 ? "" : append(row_label_to(i - 1), word(varying, i))
append(label, c) = label.between(label, put(c, setting(c)), c).put(c, setting(c))
# If only some rows have a setting ("lag 1"), the others are labelled "without lag".
without(label) = label ne "" ? label : "without ".spaced(word(varying, 1))
row_label(unused) = words(varying) == 0 ? "predicted" : without(row_label_to(words(varying)))

array series_label[256]
series_count = 0
series_seen = "\n"
note_series(k) = strstrt(series_seen, "\n".k."\n") ? 0 : \
    (series_seen = series_seen.k."\n", series_count = series_count + 1, \
    series_label[series_count] = k, 0)
stats results using (wanted(0) ? note_series(row_label(0)) : 0) nooutput
in_series(s) = row_label(0) eq series_label[s]
series_from(s) = in_series(s) ? s : series_from(s + 1)
if (series_count == 0) {
    printerr sprintf("%s: '%s' has no row to draw: %s", figure, results_name, wanted_what)
    exit status 1
}

label_px = 0.0
do for [s = 1:series_count] {
    this_px = strlen(series_label[s]) * 8.3
    label_px = this_px > label_px ? this_px : label_px
}
