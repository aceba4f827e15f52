/* Notes on the traces that costs are from, and on their measured collectives. */
#include "sim/report/notes.h"

#include <math.h>
#include <stdio.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/step_collectives.h"
#include "sim/traced.h"

/* Returns "rank 3 of 8 (dlrm.json.gz)", or "resnet.json.gz" for a single rank; the caller frees
 * it. */
static char *name_trace(const dl_cost_trace *trace)
{
    const char *file = trace->file != NULL ? trace->file : "a trace";
    if (trace->ranks < 2) return dl_strdup(file);
    char rank[32] = "one rank";
    if (trace->rank >= 0) snprintf(rank, sizeof rank, "rank %lld", (long long)trace->rank);
    return dl_format("%s of %lld (%s)", rank, (long long)trace->ranks, file);
}

/* Returns " (recording is taken to have added 9.01 ms to the host's part)" or ""; the caller frees
 * it. */
static char *name_recording(const dl_cost_trace *trace)
{
    if (!trace->recording_ns.known) return dl_strdup("");
    return dl_format(" (recording is taken to have added %s to the host's part)",
                     DL_NS_TEXT(trace->recording_ns.value));
}

/* Adds a note on steps of multi-rank traces that cannot be compared with the variant. */
static void add_other_step(dl_notes *list, const dl_variant *variant)
{
    for (size_t i = 0; i < variant->costs.trace_count; i++) {
        const dl_cost_trace *trace = &variant->costs.traces[i];
        if (trace->ranks < 2 || !trace->step_ns.known) continue;
        DL_AUTOFREE char *name = name_trace(trace);
        dl_notes_add(list,
                     "%s is of %s, where a step of %lld samples a rank took %s: not compared "
                     "here, as the GPUs or the exchange are others",
                     dl_note_file(&variant->costs), name, (long long)trace->batch,
                     DL_NS_TEXT(trace->step_ns.value));
    }
}

/* Adds a note on the traced step that is predicted worst, with its prediction; if no traced step
 * can be predicted, calls add_other_step. */
static void add_own_step(dl_notes *list, const dl_variant *variant)
{
    double error_frac;
    const dl_cost_trace *trace = dl_traced_worst(variant, &error_frac);
    if (trace == NULL) {
        add_other_step(list, variant);
        return;
    }
    DL_AUTOFREE char *name = name_trace(trace), *recording = name_recording(trace);
    const double traced_ns = trace->step_ns.value;
    const bool contradicts = dl_traced_contradicts(trace, error_frac);
    const char *why =
        contradicts && error_frac > 0
            ? ". All rows with ! lack the parts of the trace's step that are not predicted: "
              "waits for other ranks, links slower than the machine file's (dlcal info "
              "shows the rates of the trace's collectives), collectives that are left out"
        : contradicts
            ? ". Rows with ! are too slow by as much: exchange may take less than is assumed"
            : "";
    dl_notes_add(list,
                 "%s is of %s, where a step took %s%s; predicted there are %s, samples/s "
                 "%+.1f %%%s",
                 dl_note_file(&variant->costs), name, DL_NS_TEXT(traced_ns), recording,
                 DL_NS_TEXT(traced_ns / (1 + error_frac)), 100 * error_frac, why);
}

/* Lists the trace's collectives that a prediction of the row leaves out (left_out) or includes: "7
 * AlltoAll (80.5 MB, 21.0 ms)"; NULL if there are none. *ns: their total time. */
static char *list_collectives(const dl_variant *variant, const dl_row *row,
                              const dl_cost_trace *trace, bool left_out, double *ns)
{
    char *list = NULL;
    *ns = 0;
    for (size_t i = 0; i < trace->collective_count; i++) {
        const dl_traced_collective *c = &trace->collectives[i];
        if (dl_traced_is_left_out(variant, &row->point, trace, c) != left_out) continue;
        dl_join_format(&list, ", ", "%.3g %s (%s, %s)", c->calls, c->name,
                       c->bytes > 0 ? DL_BYTES_TEXT(c->bytes) : "bytes unknown", DL_NS_TEXT(c->ns));
        *ns += c->ns;
    }
    return list;
}

/* Adds a note on the trace's collectives that the row includes and leaves out, and on an upper
 * bound of its step time with those left out. */
static void add_collectives(dl_notes *list, const dl_variant *variant, const dl_row *row)
{
    const dl_cost_trace *trace = dl_step_collectives_trace(&variant->costs);
    double has_ns, lacks_ns;
    DL_AUTOFREE char *name = name_trace(trace);
    DL_AUTOFREE char *has = list_collectives(variant, row, trace, false, &has_ns);
    DL_AUTOFREE char *lacks = list_collectives(variant, row, trace, true, &lacks_ns);
    const double step_ns = dl_s_to_ns(row->mean.step_mean_s);
    if (has != NULL) {
        dl_notes_add(list,
                     "each step of allreduce is preceded by other collectives of the step "
                     "of %s, at the machine's rates and without overlap: %s, where times "
                     "are the trace's, with waits for other ranks",
                     name, has);
    }
    if (lacks != NULL) {
        dl_notes_add(list,
                     "rows with + leave out collectives of the step of %s: %s, %.0f %% of the %s "
                     "that it took, waits for other ranks among them. If none of it "
                     "overlaps computing, a step with %d workers takes %s in place of %s",
                     name, lacks, 100 * lacks_ns / trace->step_ns.value,
                     DL_NS_TEXT(trace->step_ns.value), row->point.workers,
                     DL_NS_TEXT(step_ns + lacks_ns), DL_NS_TEXT(step_ns));
    }
}

/* Returns the variant's row with the most workers, preferring rows that leave out collectives; NULL
 * if no row has several workers. */
static const dl_row *largest_of(const dl_sweep *sweep, size_t variant)
{
    const dl_row *largest = NULL;
    for (size_t r = 0; r < sweep->row_count; r++) {
        const dl_row *row = &sweep->rows[r];
        if (row->variant != variant || row->error != NULL || row->point.workers < 2) continue;
        const bool lacks = !isnan(row->left_out_s);
        const bool before = largest != NULL && !isnan(largest->left_out_s);
        if (largest == NULL || lacks > before ||
            (lacks == before && row->point.workers > largest->point.workers))
            largest = row;
    }
    return largest;
}

/* Adds a note on the measured collectives if none of them matches a row's exchange, because of
 * other numbers of ranks or nodes or another algorithm. Skipped if a row has a split model. */
static void add_unused_collectives(dl_notes *list, const dl_variant *variant, const dl_sweep *sweep,
                                   size_t number)
{
    const dl_costs *costs = &variant->costs;
    bool exchanges = false;
    DL_AUTOFREE char *which = NULL;
    for (size_t r = 0; r < sweep->row_count; r++) {
        const dl_row *row = &sweep->rows[r];
        if (row->variant != number || row->error != NULL) continue;
        if (dl_point_is_split(&row->point) || row->mean.usage.timed_frac > 0) return;
        exchanges |= row->point.workers > 1;
    }
    for (size_t c = 0; c < costs->collective_count; c++) {
        char name[64];
        if (costs->collectives[c].kind < 0) continue;
        snprintf(name, sizeof name, "%s of %d ranks",
                 dl_collective_kind_names[costs->collectives[c].kind], costs->collectives[c].ranks);
        dl_join(&which, ", ", name);
    }
    if (exchanges && which != NULL && variant->scenario.gpu != NULL)
        dl_notes_add(list,
                     "no row has a collective that was measured (%s, for [exchange] "
                     "algorithm = auto and as many nodes): all exchange is simulated",
                     which);
}

void dl_traced_notes(dl_notes *notes, const dl_study *study, const dl_sweep *sweep)
{
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *variant = &study->variants[v];
        const dl_row *row = largest_of(sweep, v);
        add_own_step(notes, variant);
        add_unused_collectives(notes, variant, sweep, v);
        if (row != NULL && dl_step_collectives_trace(&variant->costs) != NULL)
            add_collectives(notes, variant, row);
    }
}
