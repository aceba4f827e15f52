#include "trace/activity/steps.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/step_marks.h"
#include "trace/activity/steps_internal.h"
#include "trace/distribution.h"

/* See WARM-UP in steps.h. */
#define WARMUP_FACTOR 1.25
#define WARMUP_STEPS_MAX 10

DL_ORDER(by_number, uint32_t, DL_COMPARE(*a, *b));

/* Returns the sorted numbers of the streams with work other than copies, which may repeat; the
 * caller frees them. */
static uint32_t *list_busy(const dl_step_line *line, const dl_activity *activities, size_t *count)
{
    uint32_t *busy = dl_calloc(line->work_count, sizeof *busy, "streams");
    *count = 0;
    for (size_t i = 0; i < line->work_count; i++) {
        const dl_activity *work = &activities[line->work[i]];
        if (work->kind == DL_ACTIVITY_MEMCPY || (*count > 0 && busy[*count - 1] == work->stream))
            continue;
        busy[(*count)++] = work->stream;
    }
    qsort(busy, *count, sizeof *busy, by_number);
    return busy;
}

static void find_prefetched(dl_step_line *line, const dl_activity *activities)
{
    size_t count;
    DL_AUTOFREE uint32_t *busy = list_busy(line, activities, &count);
    free(line->prefetched);
    line->prefetched = dl_calloc(line->work_count, 1, "copies");
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *step = &line->steps[s];
        bool others = false;
        for (size_t i = step->first; i < step->first + step->count; i++) {
            const dl_activity *work = &activities[line->work[i]];
            line->prefetched[i] =
                bsearch(&work->stream, busy, count, sizeof *busy, by_number) == NULL;
            others = others || !line->prefetched[i];
        }
        if (!others) memset(line->prefetched + step->first, 0, step->count);
    }
}

bool dl_step_line_begins(const dl_step_line *line, size_t work)
{
    return line->prefetched == NULL || !line->prefetched[work];
}

const dl_activity_step *dl_regular_step_at(const dl_step_line *line, int64_t time_ns)
{
    size_t after = 0; /* first step that starts later */
    DL_BISECT(after, line->count, line->steps[after].start_ns <= time_ns);
    const dl_activity_step *step = after > 0 ? &line->steps[after - 1] : NULL;
    return step != NULL && step->label == DL_STEP_REGULAR &&
                   time_ns < step->start_ns + step->duration_ns
               ? step
               : NULL;
}

/* Sets the times of line->steps, whose work is known. */
static void set_times(dl_step_line *line, const dl_activity *activities)
{
    int64_t before_ns = INT64_MIN;
    for (size_t s = 0; s < line->count; s++) {
        dl_activity_step *step = &line->steps[s];
        step->start_ns = INT64_MAX;
        for (size_t i = step->first; i < step->first + step->count; i++) {
            const dl_activity *work = &activities[line->work[i]];
            int64_t end_ns = work->start_ns + work->duration_ns;
            if (work->start_ns < step->start_ns && dl_step_line_begins(line, i))
                step->start_ns = work->start_ns;
            if (end_ns > step->work_end_ns) step->work_end_ns = end_ns;
        }
        if (step->start_ns < before_ns) step->start_ns = before_ns;
        before_ns = step->start_ns;
        if (s > 0) step[-1].duration_ns = step->start_ns - step[-1].start_ns;
    }
    if (line->count == 0) return;
    dl_activity_step *last = &line->steps[line->count - 1];
    last->duration_ns = last->work_end_ns > last->start_ns ? last->work_end_ns - last->start_ns : 0;
}

/* Labels slow leading regular steps as WARM-UP. */
static void step_line_flag_warmup(dl_step_line *line)
{
    DL_AUTOFREE double *durations_ns = dl_calloc(line->count, sizeof *durations_ns, "step times");
    size_t regular = 0;
    for (size_t i = 0; i < line->count; i++) {
        if (line->steps[i].label == DL_STEP_REGULAR)
            durations_ns[regular++] = (double)line->steps[i].duration_ns;
    }
    if (regular > 0) {
        dl_distribution all = dl_distribution_of(durations_ns, regular);
        size_t most = (regular + 9) / 10, flagged = 0;
        if (most > WARMUP_STEPS_MAX) most = WARMUP_STEPS_MAX;
        for (size_t i = 0; i < line->count && flagged < most; i++) {
            dl_activity_step *step = &line->steps[i];
            if (step->label != DL_STEP_REGULAR) continue;
            double duration_ns = (double)step->duration_ns;
            if (duration_ns <= WARMUP_FACTOR * all.p50 || duration_ns <= all.p90) break;
            step->label = DL_STEP_WARMUP;
            flagged++;
        }
    }
}

/* Counts the regular steps; sets the similarity from the parts (NULL: none). */
static void step_line_measure(dl_step_line *line, const dl_step_part *parts)
{
    line->regular_count = 0;
    for (size_t i = 0; i < line->count; i++) {
        if (line->steps[i].label != DL_STEP_REGULAR) continue;
        line->regular_count++;
        if (parts != NULL) line->similarity += parts[i].alike;
    }
    if (line->regular_count > 0) line->similarity /= (double)line->regular_count;
}

/* Sets times and slow warm-up of line->steps, and the line's figures from the usual
 * content of `period`. parts[line->count] are the same steps in symbols; sets their `alike`. */
static void step_line_finish(dl_step_line *line, const dl_activity *activities,
                             const dl_symbol_line *symbols, dl_step_part *parts,
                             const dl_period *period)
{
    dl_sequence sequence = dl_symbols_sequence(symbols);
    line->lag_match = period->lag_match;
    line->order_match = period->order_match;
    for (uint32_t kind = 0; kind < sequence.kind_count; kind++)
        line->updates |= period->content[kind] > 0 && sequence.roles[kind] & DL_ROLE_UPDATE;
    dl_step_parts_compare(parts, line->count, symbols->count, &sequence, period->content,
                          period->length);
    find_prefetched(line, activities);
    set_times(line, activities);
    step_line_flag_warmup(line);
    step_line_measure(line, parts);
}

/* Conditions for launches of one graph to be steps. */
#define GRAPH_COUNT_MIN 3
#define GRAPH_TIME_MIN 0.5
#define GRAPH_ORDER_MIN 0.9
#define GRAPH_EXPLAINED_MIN 0.75

/* Data shared by all devices of the trace. */
typedef struct step_search {
    const dl_trace *trace;
    const dl_step_hints *hints;
    dl_step_marks marks;
    const dl_launches *launches;
    dl_phase_hints phases;
    dl_cpu_operators operators; /* used without device work */
} step_search;

const char *dl_step_label_name(dl_step_label label)
{
    static const char *const names[DL_STEP_LABEL_END] = {"step", "warm-up", "other"};
    return (unsigned)label < DL_STEP_LABEL_END ? names[label] : "unknown";
}

const char *dl_step_method_name(dl_step_method method)
{
    static const char *const names[DL_STEPS_METHOD_END] = {
        "none",           "given marks", "given period",          "given as one", "marks",
        "graph launches", "period",      "period without shapes", "optimizer"};
    return (unsigned)method < DL_STEPS_METHOD_END ? names[method] : "unknown";
}

void dl_step_options(dl_step_hints *hints, dl_option *table)
{
    const dl_option own[DL_STEP_OPTION_COUNT] = {
        DL_OPT_REGEX("step-marks", 0, &hints->marks, "REGEX",
                     "Extended regular expression of the ranges and marks that are training "
                     "steps.",
                     .group = "Reading traces"),
        DL_OPT_INT("step-period", 0, &hints->period, 0, UINT32_MAX, "COUNT",
                   "Number of kernels, copies and graph launches per training step, without "
                   "collectives, within a quarter (default: detected)."),
        DL_OPT_FLAG("one-step", 0, &hints->one_step, "Treat the trace as a single training step."),
    };
    memcpy(table, own, sizeof own);
}

/* Makes steps of the period's units; returns false, without steps, if none is regular. */
static bool take_period(dl_step_line *line, const step_search *search,
                        const dl_symbol_line *symbols, const dl_period *period,
                        dl_step_method method)
{
    dl_sequence sequence = dl_symbols_sequence(symbols);
    DL_AUTOFREE dl_step_part *parts = dl_step_parts(period, &sequence, &line->count);
    line->steps = dl_calloc(line->count, sizeof *line->steps, "steps");
    for (size_t i = 0; i < line->count; i++) {
        size_t first = symbols->first[parts[i].first];
        size_t end = i + 1 < line->count ? symbols->first[parts[i + 1].first] : line->work_count;
        line->steps[i] =
            (dl_activity_step){.label = parts[i].label, .first = first, .count = end - first};
    }
    step_line_finish(line, search->trace->activities, symbols, parts, period);
    line->method = method;
    if (line->regular_count > 0) return true;
    free(line->steps);
    line->steps = NULL;
    line->count = 0;
    line->method = DL_STEPS_NONE;
    line->reason = "no repeated work holds together as steps";
    return false;
}

/* Returns the graph whose launches take most of the device's time; kind_count if none takes
 * enough. */
static uint32_t find_graph(const step_search *search, const dl_symbol_line *symbols)
{
    double *busy_ns = dl_calloc(symbols->kind_count, sizeof *busy_ns, "time of graphs"), all_ns = 0;
    uint32_t best = 0;
    for (size_t s = 0; s < symbols->count; s++) {
        for (size_t i = symbols->first[s]; i < symbols->first[s + 1]; i++) {
            double duration_ns = (double)search->trace->activities[symbols->work[i]].duration_ns;
            all_ns += duration_ns;
            if (symbols->kind_roles[symbols->symbols[s]] & DL_ROLE_GRAPH)
                busy_ns[symbols->symbols[s]] += duration_ns;
        }
    }
    for (uint32_t kind = 1; kind < symbols->kind_count; kind++)
        best = busy_ns[kind] > busy_ns[best] ? kind : best;
    bool enough = symbols->kind_count > 0 && (symbols->kind_roles[best] & DL_ROLE_GRAPH) != 0 &&
                  busy_ns[best] >= GRAPH_TIME_MIN * all_ns;
    free(busy_ns);
    return enough ? best : symbols->kind_count;
}

/* Share of the symbols from the first cut that the units explain. Earlier symbols are ignored: a
 * step before the graph's capture has many symbols, a launch of the graph is one. */
static double explained_after(const dl_sequence *sequence, const size_t *cuts, size_t count)
{
    const dl_sequence rest = dl_sequence_from(sequence, cuts[0]);
    DL_AUTOFREE size_t *moved = dl_calloc(count, sizeof *moved, "cuts");
    for (size_t i = 0; i < count; i++)
        moved[i] = cuts[i] - cuts[0];
    DL_SCOPED(dl_period) period = {0};
    dl_period_of_cuts(&period, &rest, moved, count);
    return period.explained;
}

static bool find_by_graph(dl_step_line *line, const step_search *search,
                          const dl_symbol_line *symbols)
{
    uint32_t graph = find_graph(search, symbols);
    if (graph == symbols->kind_count) return false;
    size_t *cuts = dl_calloc(symbols->count, sizeof *cuts, "cuts"), count = 0;
    for (size_t s = 0; s < symbols->count; s++) {
        if (symbols->symbols[s] == graph) cuts[count++] = s;
    }
    DL_SCOPED(dl_period) period = {0};
    dl_sequence sequence = dl_symbols_sequence(symbols);
    bool found = false;
    if (count >= GRAPH_COUNT_MIN) {
        dl_period_of_cuts(&period, &sequence, cuts, count);
        if (period.order_match >= GRAPH_ORDER_MIN &&
            explained_after(&sequence, cuts, count) >= GRAPH_EXPLAINED_MIN) {
            dl_period_rotate(&period, &sequence);
            dl_period_measure(&period, &sequence);
            found = take_period(line, search, symbols, &period, DL_STEPS_GRAPH);
        }
    }
    free(cuts);
    return found;
}

/* Rejects units without a phase of training found in the work: they are layers, micro-batches or
 * parts of an update. Steps then end with the updates if these give whole units. */
static dl_step_method check_phases(dl_period *period, const dl_sequence *sequence,
                                   dl_step_method method, bool late)
{
    if (period->cut_count > 0 && dl_period_is_whole(period, sequence)) return method;
    const bool partial = period->cut_count > 0;
    dl_period ended = {0};
    if (!late && dl_period_find_updates(&ended, sequence) && dl_period_is_whole(&ended, sequence)) {
        dl_period_free(period);
        *period = ended;
        return DL_STEPS_OPTIMIZER;
    }
    dl_period_free(&ended);
    if (!partial) return method;
    dl_period_free(period);
    period->reason = "the repeating work is part of a step (a layer or micro-batch): it lacks a "
                     "forward pass, a backward pass or an update that the trace contains";
    return method;
}

static bool find_by_period(dl_step_line *line, const step_search *search,
                           const dl_symbol_line *symbols, dl_step_method method, bool late)
{
    DL_SCOPED(dl_period) period = {0};
    dl_sequence sequence = dl_symbols_sequence(symbols);
    const size_t given = method == DL_STEPS_GIVEN_PERIOD ? (size_t)search->hints->period : 0;
    if (late) {
        dl_period_find_late(&period, &sequence, given);
    } else {
        dl_period_find(&period, &sequence, given);
    }
    if (late && given > 0 && period.cut_count == 0) dl_period_find_given(&period, &sequence, given);
    if (given == 0) method = check_phases(&period, &sequence, method, late);
    /* For parts of the work, the reason is the same as for the whole. */
    if (!late) line->reason = period.reason;
    bool found = period.cut_count > 0 && take_period(line, search, symbols, &period, method);
    if (found) line->reason = NULL;
    return found;
}

/* Starts a part of the line at work number `first`; replaces a part that starts there. */
static void add_step(dl_step_line *line, size_t first, dl_step_label label)
{
    if (line->count > 0 && line->steps[line->count - 1].first == first) line->count--;
    line->steps[line->count++] = (dl_activity_step){.label = label, .first = first};
}

/* Returns the time at which the host launched the work. If its call is unknown, returns `guess_ns`;
 * if the trace has no calls, or guess_ns is INT64_MIN, the start of the work. */
static int64_t launch_of(const step_search *search, const dl_activity *work, int64_t guess_ns)
{
    if (search->launches->call_count == 0) return work->start_ns;
    const dl_activity *call = dl_launches_find(search->launches, work->correlation);
    if (call != NULL) return call->start_ns;
    return guess_ns == INT64_MIN ? work->start_ns : guess_ns;
}

/* Makes one part of each run of work launched inside a mark, and of each run outside the marks. */
static void cut_at_marks(dl_step_line *line, const step_search *search)
{
    const dl_step_marks *marks = &search->marks;
    line->steps = dl_calloc(2 * marks->count + 1, sizeof *line->steps, "steps");
    int64_t now_ns = INT64_MIN; /* launches of several threads are slightly out of order */
    size_t mark = 0, part = SIZE_MAX;
    for (size_t i = 0; i < line->work_count; i++) {
        const dl_activity *work = &search->trace->activities[line->work[i]];
        int64_t launch_ns = launch_of(search, work, now_ns);
        if (launch_ns > now_ns) now_ns = launch_ns;
        while (mark < marks->count && marks->ends_ns[mark] <= now_ns)
            mark++;
        bool inside = mark < marks->count && marks->starts_ns[mark] <= now_ns;
        size_t here = 2 * mark + inside;
        if (here == part) continue;
        part = here;
        dl_step_label between = mark == 0 ? DL_STEP_WARMUP : DL_STEP_OTHER;
        add_step(line, i, inside ? DL_STEP_REGULAR : between);
    }
    for (size_t i = 0; i < line->count; i++) {
        size_t end = i + 1 < line->count ? line->steps[i + 1].first : line->work_count;
        line->steps[i].count = end - line->steps[i].first;
    }
}

/* Removes the steps of a line. */
static void drop_steps(dl_step_line *line)
{
    free(line->prefetched);
    free(line->steps);
    free(line->marks);
    *line =
        (dl_step_line){.device = line->device, .work = line->work, .work_count = line->work_count};
}

/* Takes the steps from marks; with `whole`, only if the usual step contains all phases of training
 * found in the work, and one update of each model. */
static bool find_by_marks(dl_step_line *line, const step_search *search,
                          const dl_symbol_line *symbols, bool whole)
{
    if (search->marks.count == 0) return false;
    cut_at_marks(line, search);
    size_t symbol = 0;
    DL_AUTOFREE dl_step_part *parts = dl_calloc(line->count, sizeof *parts, "steps");
    DL_AUTOFREE size_t *cuts = dl_calloc(line->count, sizeof *cuts, "cuts");
    for (size_t i = 0; i < line->count; i++) {
        while (symbol < symbols->count && symbols->first[symbol] < line->steps[i].first)
            symbol++;
        parts[i] = (dl_step_part){.first = symbol, .label = line->steps[i].label};
        cuts[i] = symbol;
    }
    DL_SCOPED(dl_period) period = {0};
    dl_sequence sequence = dl_symbols_sequence(symbols);
    dl_period_of_cuts(&period, &sequence, cuts, line->count);
    const bool several = whole && dl_parts_hold_steps(&sequence, cuts, line->count, NULL, 0, NULL);
    const bool taken = !whole || (dl_period_is_whole(&period, &sequence) && !several);
    if (taken && search->hints->marks == NULL) {
        dl_step_parts_compare(parts, line->count, symbols->count, &sequence, period.content,
                              period.length);
        dl_step_parts_set_apart(parts, line->count);
        for (size_t i = 0; i < line->count; i++)
            line->steps[i].label = parts[i].label;
    }
    if (taken) {
        step_line_finish(line, search->trace->activities, symbols, parts, &period);
        line->method = search->hints->marks != NULL ? DL_STEPS_GIVEN_MARKS : DL_STEPS_MARKS;
        line->marks = dl_strdup(search->marks.text);
    } else {
        drop_steps(line);
    }
    line->marks_hold_steps = several;
    return taken;
}

/* Takes all work of the line as one step. */
static void take_one_step(dl_step_line *line, const step_search *search,
                          const dl_symbol_line *symbols)
{
    const size_t begin = 0;
    DL_SCOPED(dl_period) period = {0};
    dl_sequence sequence = dl_symbols_sequence(symbols);
    drop_steps(line);
    dl_period_of_cuts(&period, &sequence, &begin, symbols->count > 0);
    if (symbols->count > 0) take_period(line, search, symbols, &period, DL_STEPS_GIVEN_ONE);
    if (line->count > 0 && line->steps[0].duration_ns == 0) {
        drop_steps(line);
        line->reason = "all of its work takes no time";
    }
}

/* Takes the steps from the program's marks if the period found at least 3/4 as many: the marks then
 * delimit steps, even if some lack a phase of training, and not micro-batches, of which a step has
 * at least two. */
static void prefer_marks(dl_step_line *line, const step_search *search,
                         const dl_symbol_line *symbols)
{
    if (4 * line->count < 3 * search->marks.count || search->marks.count == 0 ||
        line->marks_hold_steps)
        return;
    drop_steps(line);
    find_by_marks(line, search, symbols, false);
}

/* Takes steps that end with an update, of marks that each hold several. */
static bool find_by_updates(dl_step_line *line, const step_search *search,
                            const dl_symbol_line *symbols)
{
    DL_SCOPED(dl_period) period = {0};
    dl_sequence sequence = dl_symbols_sequence(symbols);
    return dl_period_find_updates(&period, &sequence) && dl_period_is_whole(&period, &sequence) &&
           take_period(line, search, symbols, &period, DL_STEPS_OPTIMIZER);
}

/* Finds the steps of one device; `plain` holds its symbols without shapes, created on first use. */
static void find_line(dl_step_line *line, const step_search *search, dl_symbol_line *symbols,
                      dl_symbols *plain, size_t device_index)
{
    if (search->hints->marks == NULL && search->hints->period > 0) {
        if (!find_by_period(line, search, symbols, DL_STEPS_GIVEN_PERIOD, false))
            find_by_period(line, search, symbols, DL_STEPS_GIVEN_PERIOD, true);
        return;
    }
    if (find_by_marks(line, search, symbols, search->hints->marks == NULL) ||
        (line->marks_hold_steps && find_by_updates(line, search, symbols)) ||
        find_by_graph(line, search, symbols)) {
        return;
    }
    if (find_by_period(line, search, symbols, DL_STEPS_PERIOD, false)) {
        prefer_marks(line, search, symbols);
        return;
    }
    if (plain->lines == NULL)
        dl_symbols_init(plain, search->trace, &search->phases, DL_SYMBOL_NAMES);
    const dl_symbol_line *names = &plain->lines[device_index];
    const bool found = find_by_period(line, search, names, DL_STEPS_PERIOD_NAMES, false) ||
                       (search->marks.count == 0 &&
                        (find_by_period(line, search, symbols, DL_STEPS_PERIOD, true) ||
                         find_by_period(line, search, names, DL_STEPS_PERIOD_NAMES, true)));
    if (found) {
        prefer_marks(line, search, symbols);
    } else if (find_by_marks(line, search, symbols, false)) {
        line->reason = NULL;
    }
}

/* Makes steps from starts_ns[count] to ends_ns[count], each with the operators that start in it.
 * Steps with a validation become OTHER, unless the caller's expression selected the marks. */
static void take_host_steps(dl_step_line *line, const step_search *search, dl_step_method method,
                            const int64_t *starts_ns, const int64_t *ends_ns, size_t count)
{
    const dl_cpu_operators *operators = &search->operators;
    line->method = method;
    line->count = count;
    line->steps = dl_calloc(count, sizeof *line->steps, "steps");
    for (size_t i = 0, item = 0; i < count; i++) {
        dl_activity_step *step = &line->steps[i];
        *step = (dl_activity_step){.start_ns = starts_ns[i],
                                   .duration_ns = ends_ns[i] - starts_ns[i],
                                   .work_end_ns = ends_ns[i]};
        while (item < line->work_count && operators->items[item]->start_ns < starts_ns[i])
            item++;
        step->first = item;
        while (item < line->work_count && operators->items[item]->start_ns < ends_ns[i])
            item++;
        step->count = item - step->first;
    }
    if (search->hints->marks == NULL) dl_cpu_operators_set_apart(operators, line->steps, count);
    step_line_flag_warmup(line);
    step_line_measure(line, NULL);
}

/* Returns whether most marks that follow one of the updates' ends cuts_ns[count] lie between
 * forward and backward pass, as those of profiler.step() in Lightning's training_step: at least
 * four times as many operators without a role between update and mark as between mark and backward
 * pass, and there fewer than an eighth of those from there to the next update's end. */
static bool marks_cut_passes(const step_search *search, const int64_t *cuts_ns, size_t count)
{
    const dl_cpu_operators *o = &search->operators;
    size_t inside = 0, marks = 0, mark = 0, item = 0;
    for (size_t c = 0; c + 1 < count; c++) {
        size_t before = 0, between = 0, after = 0;
        bool updated = false, is_late = false; /* late: the mark follows the start of the pass */
        while (mark < search->marks.count && search->marks.starts_ns[mark] < cuts_ns[c])
            mark++;
        if (mark == search->marks.count) break;
        if (search->marks.starts_ns[mark] >= cuts_ns[c + 1]) continue;
        while (item < o->count && o->items[item]->start_ns < cuts_ns[c])
            item++;
        for (; item < o->count && o->items[item]->start_ns < cuts_ns[c + 1]; item++) {
            const uint8_t roles = o->roles[o->items[item]->name];
            const bool marked = o->items[item]->start_ns >= search->marks.starts_ns[mark];
            is_late |= roles == DL_ROLE_BACKWARD && !marked;
            after += roles == DL_ROLE_BACKWARD || after > 0;
            updated |= roles == DL_ROLE_UPDATE && marked;
            before += roles == 0 && !marked && after == 0;
            between += roles == 0 && marked && after == 0;
        }
        marks++;
        inside += updated && !is_late && after > 0 && before >= 4 * between && before > 0 &&
                  8 * between < after;
    }
    return 2 * inside > marks;
}

/* Finds the steps of a process without a device: from its marks if they delimit steps, else from
 * its operators. */
static void find_host_line(dl_step_line *line, const step_search *search,
                           const dl_symbol_line *symbols)
{
    const dl_sequence sequence = dl_symbols_sequence(symbols);
    const dl_step_marks *marks = &search->marks;
    size_t count = 0, updates = 0;
    const bool given = search->hints->marks != NULL;
    DL_AUTOFREE double *gradients =
        dl_cpu_operators_gradients(&search->operators, search->trace, &sequence);
    DL_AUTOFREE int64_t *cuts =
        given || sequence.count == 0
            ? NULL
            : dl_cpu_operators_cuts(&search->operators, &sequence, gradients, &count, &updates);
    /* Marks of micro-batches, of which a step has at least two, are not steps. */
    const bool by_update = updates > 0;
    const bool parts = by_update && 4 * updates * count < 3 * marks->count;
    const bool cut = by_update && marks->count > 0 && marks_cut_passes(search, cuts, count);
    const bool several = by_update && marks->count > 0 &&
                         dl_cpu_operators_hold_steps(&sequence, gradients, marks->starts_ns,
                                                     marks->count, cuts, count);
    if (marks->count > 0 && !parts && !cut && !several) {
        int64_t last_ns = 0, *end_ns = &marks->ends_ns[marks->count - 1]; /* INT64_MAX for an
                                                                           * instant */
        for (size_t i = 0; i < search->trace->activity_count; i++) {
            const dl_activity *a = &search->trace->activities[i];
            last_ns =
                a->start_ns + a->duration_ns > last_ns ? a->start_ns + a->duration_ns : last_ns;
        }
        *end_ns = *end_ns < last_ns ? *end_ns : last_ns;
        take_host_steps(line, search, given ? DL_STEPS_GIVEN_MARKS : DL_STEPS_MARKS,
                        marks->starts_ns, marks->ends_ns, marks->count);
        line->marks = dl_strdup(marks->text);
    } else if (count > 0) {
        /* The work before the first cut may be a partial step. */
        take_host_steps(line, search, by_update ? DL_STEPS_OPTIMIZER : DL_STEPS_PERIOD, cuts,
                        cuts + 1, count - 1);
        line->marks_cut_passes = cut;
        line->marks_hold_steps = several;
    } else {
        line->reason =
            "no marks, fewer than three optimizer's updates and no operators that repeat";
    }
}

/* Takes all of each line as one step. */
static void take_one_step_each(dl_activity_steps *steps, const step_search *search,
                               const dl_symbols *symbols)
{
    for (size_t i = 0; i < steps->count; i++)
        take_one_step(&steps->lines[i], search, &symbols->lines[i]);
}

/* Returns the sorted launch times of all device work; the work's start if its call is unknown. */
static int64_t *sorted_launches(const step_search *search, size_t *launch_count)
{
    int64_t *sorted = dl_calloc(search->trace->activity_count, sizeof *sorted, "launch times");
    size_t count = 0;
    for (size_t i = 0; i < search->trace->activity_count; i++) {
        if (!dl_activity_is_device_work(&search->trace->activities[i])) continue;
        const dl_activity *work = &search->trace->activities[i];
        sorted[count++] = launch_of(search, work, work->start_ns);
    }
    qsort(sorted, count, sizeof *sorted, dl_compare_int64s);
    *launch_count = count;
    return sorted;
}

/* Returns the ranges and marks that may delimit steps in a trace of operators: all except operators
 * and the ranges of an optimizer or a data loader. The caller frees them. */
static dl_activity *list_annotations(const step_search *search, size_t *count)
{
    dl_activity *kept = dl_calloc(search->trace->activity_count, sizeof *kept, "annotations");
    const dl_trace *trace = search->trace;
    *count = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_RANGE && a->kind != DL_ACTIVITY_MARK) continue;
        if (a->name >= trace->string_count || a->detail >= trace->string_count) continue;
        const char *name = trace->strings[a->name], *category = trace->strings[a->detail];
        if (strcmp(category, "cpu_op") == 0 || strncmp(name, "Optimizer.", 10) == 0) continue;
        if (search->operators.roles[a->name] & (DL_ROLE_UPDATE | DL_ROLE_INPUT)) continue;
        kept[(*count)++] = *a;
    }
    return kept;
}

static dl_status find_marks(step_search *search, dl_error *err)
{
    dl_status status = DL_OK;
    DL_AUTOFREE dl_activity *annotations = NULL;
    size_t launch_count = 0;
    DL_AUTOFREE int64_t *launches_ns = sorted_launches(search, &launch_count);
    dl_marked_trace trace = {.activities = search->trace->activities,
                             .count = search->trace->activity_count,
                             .strings = search->trace->strings,
                             .string_count = search->trace->string_count,
                             .launches_ns = launches_ns,
                             .launch_count = launch_count};
    if (search->operators.count > 0 && search->hints->marks == NULL) {
        trace.activities = annotations = list_annotations(search, &trace.count);
        trace.launches_ns = search->operators.starts_ns;
        trace.launch_count = search->operators.start_count;
    }
    if (search->hints->marks != NULL) {
        status = dl_step_marks_match(&search->marks, &trace, search->hints->marks, err);
    } else if (search->hints->period == 0) {
        dl_step_marks_find(&search->marks, &trace);
    }
    return status;
}

static dl_status find_all(dl_activity_steps *steps, step_search *search, dl_symbols *symbols,
                          dl_error *err)
{
    DL_SCOPED(dl_symbols) plain = {0};
    dl_status status = find_marks(search, err);
    if (status != DL_OK) return status;
    dl_symbols_init(symbols, search->trace, &search->phases, DL_SYMBOL_SHAPES);
    if (symbols->count == 0 && (search->marks.count > 0 || search->operators.count > 0))
        *symbols = dl_cpu_operators_symbols(&search->operators, search->trace->activities);
    *steps = (dl_activity_steps){.count = symbols->count};
    steps->lines = dl_calloc(symbols->count, sizeof *steps->lines, "steps");
    for (size_t i = 0; i < symbols->count; i++) {
        dl_step_line *line = &steps->lines[i];
        dl_symbol_line *of = &symbols->lines[i];
        *line =
            (dl_step_line){.device = of->device, .work = of->work, .work_count = of->work_count};
        if (line->device == DL_NO_DEVICE) {
            find_host_line(line, search, of);
        } else {
            find_line(line, search, of, &plain, i);
        }
        of->work = NULL; /* ownership moved to the line */
    }
    return DL_OK;
}

static dl_status check_hints(const dl_step_hints *hints, dl_error *err)
{
    if (!hints->one_step || (hints->marks == NULL && hints->period <= 0)) return DL_OK;
    return dl_error_set(err, DL_ERR_USAGE,
                        "--one-step cannot be combined with --step-marks or --step-period");
}

/* Describes the regular steps of the line, for an error message. */
static char *tell_steps(const dl_step_line *line)
{
    size_t works = 0;
    for (size_t i = 0; i < line->count; i++)
        if (line->steps[i].label == DL_STEP_REGULAR) works += line->steps[i].count;
    if (line->regular_count == 0) return dl_strdup("no steps are found without it either");
    if (line->device == DL_NO_DEVICE)
        return dl_format("%zu steps are found by %s", line->regular_count,
                         dl_step_method_name(line->method));
    return dl_format("%zu steps of about %zu kernels and copies are found by %s",
                     line->regular_count, works / line->regular_count,
                     dl_step_method_name(line->method));
}

/* Returns whether marks or updates show that a line has several steps. */
static bool shows_several(const dl_step_line *line)
{
    const bool sure =
        line->method == DL_STEPS_MARKS || line->method == DL_STEPS_OPTIMIZER || line->updates;
    return sure && line->regular_count > 1;
}

static dl_status refuse_one_step(const dl_step_line *line, dl_error *err)
{
    DL_AUTOFREE char *found = tell_steps(line);
    return dl_error_set(err, DL_ERR_DATA, "--one-step: %s%s: the trace is not of one step", found,
                        line->updates ? ", each with an optimizer's update" : "");
}

static dl_status check_one_step(const dl_activity_steps *steps, dl_error *err)
{
    for (size_t i = 0; i < steps->count; i++)
        if (shows_several(&steps->lines[i])) return refuse_one_step(&steps->lines[i], err);
    return DL_OK;
}

static dl_status refuse_period(int64_t given, const dl_activity_steps *steps, dl_error *err)
{
    DL_AUTOFREE char *found =
        steps->count > 0 ? tell_steps(&steps->lines[0]) : dl_strdup("no device did anything");
    const bool on_cores = steps->count > 0 && steps->lines[0].device == DL_NO_DEVICE;
    return on_cores
               ? dl_error_set(err, DL_ERR_DATA,
                              "--step-period: it counts kernels, copies and graph launches of "
                              "devices, of which this trace has none: %s; --step-marks names "
                              "ranges that are steps",
                              found)
               : dl_error_set(err, DL_ERR_DATA,
                              "--step-period: a device's kernels, copies and graph launches do "
                              "not repeat every %lld, or not twice: %s",
                              (long long)given, found);
}

/* Returns DL_OK if some device's work repeats at the given period; otherwise an error that
 * describes the steps found without it. */
static dl_status check_period(dl_activity_steps *steps, step_search *search, dl_error *err)
{
    const dl_step_hints none = {0};
    dl_symbols symbols = {0};
    for (size_t i = 0; i < steps->count; i++)
        if (steps->lines[i].count > 0 && steps->lines[i].device != DL_NO_DEVICE) return DL_OK;
    dl_activity_steps_free(steps);
    const int64_t given = search->hints->period;
    search->hints = &none;
    dl_status status = find_all(steps, search, &symbols, err);
    dl_symbols_free(&symbols);
    if (status != DL_OK) return status;
    status = refuse_period(given, steps, err);
    dl_activity_steps_free(steps);
    return status;
}

dl_status dl_activity_steps_init(dl_activity_steps *steps, const dl_trace *trace,
                                 const dl_step_hints *hints, dl_error *err)
{
    DL_SCOPED(dl_launches) launches = {0};
    dl_status status = check_hints(hints, err);
    if (status != DL_OK) return status;
    dl_launches_init(&launches, trace->activities, trace->activity_count);
    step_search search = {.trace = trace, .hints = hints, .launches = &launches};
    DL_SCOPED(dl_symbols) symbols = {0};
    dl_phase_hints_init(&search.phases, trace, &launches);
    dl_cpu_operators_find(&search.operators, trace);
    status = find_all(steps, &search, &symbols, err);
    if (status == DL_OK && hints->one_step) status = check_one_step(steps, err);
    if (status == DL_OK && hints->one_step) take_one_step_each(steps, &search, &symbols);
    if (status == DL_OK && hints->period > 0 && hints->marks == NULL)
        status = check_period(steps, &search, err);
    if (status != DL_OK) dl_activity_steps_free(steps);
    dl_step_marks_free(&search.marks);
    dl_cpu_operators_free(&search.operators);
    dl_phase_hints_free(&search.phases);
    return status;
}

void dl_activity_steps_free(dl_activity_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        free(steps->lines[i].work);
        free(steps->lines[i].prefetched);
        free(steps->lines[i].steps);
        free(steps->lines[i].marks);
    }
    free(steps->lines);
    *steps = (dl_activity_steps){0};
}
