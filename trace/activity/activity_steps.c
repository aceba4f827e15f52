#include "trace/activity/activity_steps.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/activity/activity_launches.h"
#include "trace/steps/period.h"
#include "trace/steps/step_line.h"
#include "trace/steps/step_marks.h"
#include "trace/steps/step_units.h"
#include "trace/symbols.h"

/* When launches of one graph are steps. */
#define GRAPH_COUNT_MIN 3
#define GRAPH_TIME_MIN 0.5
#define GRAPH_ORDER_MIN 0.9
#define GRAPH_EXPLAINED_MIN 0.75

/* What all devices of the trace share. */
typedef struct step_search {
    const dl_activity *activities;
    size_t count;
    char *const *strings;
    size_t string_count;
    const dl_step_hints *hints;
    dl_step_marks marks;
    const dl_launches *launches;
} step_search;

const char *dl_step_label_name(dl_step_label label)
{
    static const char *const names[DL_STEP_LABEL_END] = {"step", "warm-up", "other"};
    return (unsigned)label < DL_STEP_LABEL_END ? names[label] : "unknown";
}

const char *dl_step_method_name(dl_step_method method)
{
    static const char *const names[DL_STEPS_METHOD_END] = {
        "none",           "given marks", "given period",         "marks",
        "graph launches", "period",      "period without shapes"};
    return (unsigned)method < DL_STEPS_METHOD_END ? names[method] : "unknown";
}

/* Steps of the units that were cut; false, and no steps, if none is regular. */
static bool take_period(dl_step_line *line, const step_search *search,
                        const dl_symbol_line *symbols, const dl_period *period,
                        dl_step_method method)
{
    dl_sequence sequence = dl_symbol_sequence(symbols);
    dl_step_part *parts = dl_step_parts(period, &sequence, &line->count);
    line->steps = dl_calloc(line->count, sizeof *line->steps, "steps");
    for (size_t i = 0; i < line->count; i++) {
        size_t first = symbols->first[parts[i].first];
        size_t end = i + 1 < line->count ? symbols->first[parts[i + 1].first] : line->work_count;
        line->steps[i] =
            (dl_activity_step){.label = parts[i].label, .first = first, .count = end - first};
    }
    dl_step_line_finish(line, search->activities, symbols, parts, period);
    free(parts);
    line->method = method;
    if (line->regular_count > 0) return true;
    free(line->steps);
    line->steps = NULL;
    line->count = 0;
    line->method = DL_STEPS_NONE;
    line->reason = "no repeated work holds together as steps";
    return false;
}

/* The graph whose launches fill most of the device's time; kind_count if none fills enough. */
static uint32_t find_graph(const step_search *search, const dl_symbol_line *symbols)
{
    double *busy_ns = dl_calloc(symbols->kind_count, sizeof *busy_ns, "time of graphs"), all_ns = 0;
    uint32_t best = 0;
    for (size_t s = 0; s < symbols->count; s++) {
        for (size_t i = symbols->first[s]; i < symbols->first[s + 1]; i++) {
            double duration_ns = (double)search->activities[symbols->work[i]].duration_ns;
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

static bool find_by_graph(dl_step_line *line, const step_search *search,
                          const dl_symbol_line *symbols)
{
    uint32_t graph = find_graph(search, symbols);
    if (graph == symbols->kind_count) return false;
    size_t *cuts = dl_calloc(symbols->count, sizeof *cuts, "cuts"), count = 0;
    for (size_t s = 0; s < symbols->count; s++) {
        if (symbols->symbols[s] == graph) cuts[count++] = s;
    }
    dl_period period = {0};
    dl_sequence sequence = dl_symbol_sequence(symbols);
    bool found = false;
    if (count >= GRAPH_COUNT_MIN) {
        dl_period_of_cuts(&period, &sequence, cuts, count);
        if (period.order_match >= GRAPH_ORDER_MIN && period.explained >= GRAPH_EXPLAINED_MIN) {
            dl_period_rotate(&period, &sequence);
            dl_period_measure(&period, &sequence);
            found = take_period(line, search, symbols, &period, DL_STEPS_GRAPH);
        }
        dl_period_free(&period);
    }
    free(cuts);
    return found;
}

static bool find_by_period(dl_step_line *line, const step_search *search,
                           const dl_symbol_line *symbols, dl_step_method method)
{
    dl_period period = {0};
    dl_sequence sequence = dl_symbol_sequence(symbols);
    dl_period_find(&period, &sequence, method == DL_STEPS_GIVEN_PERIOD ? search->hints->period : 0);
    if (method != DL_STEPS_GIVEN_PERIOD) dl_period_join(&period, &sequence);
    line->reason = period.reason;
    bool found = period.cut_count > 0 && take_period(line, search, symbols, &period, method);
    dl_period_free(&period);
    return found;
}

/* Starts a part of the line at work number `first` unless one starts there already. */
static void add_step(dl_step_line *line, size_t first, dl_step_label label)
{
    if (line->count > 0 && line->steps[line->count - 1].first == first) line->count--;
    line->steps[line->count++] = (dl_activity_step){.label = label, .first = first};
}

/* When the host launched the work. Of work whose call is not known, `guess_ns`; of any, its own
 * start if the trace has no calls at all. */
static int64_t launch_of(const step_search *search, const dl_activity *work, int64_t guess_ns)
{
    if (search->launches->call_count == 0) return work->start_ns;
    const dl_activity *call = dl_launches_find(search->launches, work->correlation);
    if (call != NULL) return call->start_ns;
    return guess_ns == INT64_MIN ? work->start_ns : guess_ns;
}

/* Runs of work launched inside one mark, and between marks. */
static void cut_at_marks(dl_step_line *line, const step_search *search)
{
    const dl_step_marks *marks = &search->marks;
    line->steps = dl_calloc(2 * marks->count + 1, sizeof *line->steps, "steps");
    int64_t now_ns = INT64_MIN; /* launches of several threads are slightly out of order */
    size_t mark = 0, part = SIZE_MAX;
    for (size_t i = 0; i < line->work_count; i++) {
        const dl_activity *work = &search->activities[line->work[i]];
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

static bool find_by_marks(dl_step_line *line, const step_search *search,
                          const dl_symbol_line *symbols)
{
    if (search->marks.count == 0) return false;
    cut_at_marks(line, search);
    size_t symbol = 0;
    dl_step_part *parts = dl_calloc(line->count, sizeof *parts, "steps");
    size_t *cuts = dl_calloc(line->count, sizeof *cuts, "cuts");
    for (size_t i = 0; i < line->count; i++) {
        while (symbol < symbols->count && symbols->first[symbol] < line->steps[i].first)
            symbol++;
        parts[i] = (dl_step_part){.first = symbol, .label = line->steps[i].label};
        cuts[i] = symbol;
    }
    dl_period period = {0};
    dl_sequence sequence = dl_symbol_sequence(symbols);
    dl_period_of_cuts(&period, &sequence, cuts, line->count);
    if (search->hints->marks == NULL) {
        dl_step_parts_compare(parts, line->count, symbols->count, &sequence, period.content,
                              period.length);
        dl_step_parts_set_apart(parts, line->count);
        for (size_t i = 0; i < line->count; i++)
            line->steps[i].label = parts[i].label;
    }
    dl_step_line_finish(line, search->activities, symbols, parts, &period);
    line->method = search->hints->marks != NULL ? DL_STEPS_GIVEN_MARKS : DL_STEPS_MARKS;
    line->marks = dl_strdup(search->marks.text);
    dl_period_free(&period);
    free(parts);
    free(cuts);
    return true;
}

/* The steps of one device; `plain` holds its symbols without shapes, made when first needed. */
static void find_line(dl_step_line *line, const step_search *search, dl_symbol_line *symbols,
                      dl_symbols *plain, size_t device_index)
{
    *line = (dl_step_line){
        .device = symbols->device, .work = symbols->work, .work_count = symbols->work_count};
    if (search->hints->marks == NULL && search->hints->period > 0) {
        find_by_period(line, search, symbols, DL_STEPS_GIVEN_PERIOD);
        return;
    }
    if (find_by_marks(line, search, symbols) || find_by_graph(line, search, symbols) ||
        find_by_period(line, search, symbols, DL_STEPS_PERIOD))
        return;
    if (plain->lines == NULL)
        dl_symbols_init(plain, search->activities, search->count, search->strings,
                        search->string_count, DL_SYMBOL_NAMES);
    find_by_period(line, search, &plain->lines[device_index], DL_STEPS_PERIOD_NAMES);
}

/* Marks without device work: a process of the host alone. */
static void take_host_steps(dl_activity_steps *steps, const step_search *search)
{
    steps->lines = dl_calloc(1, sizeof *steps->lines, "steps");
    steps->count = 1;
    dl_step_line *line = steps->lines;
    *line = (dl_step_line){.device = DL_NO_DEVICE,
                           .count = search->marks.count,
                           .method =
                               search->hints->marks != NULL ? DL_STEPS_GIVEN_MARKS : DL_STEPS_MARKS,
                           .marks = dl_strdup(search->marks.text)};
    line->steps = dl_calloc(line->count, sizeof *line->steps, "steps");
    int64_t last_ns = 0; /* ends the last instant */
    for (size_t i = 0; i < search->count; i++) {
        int64_t end_ns = search->activities[i].start_ns + search->activities[i].duration_ns;
        if (end_ns > last_ns) last_ns = end_ns;
    }
    for (size_t i = 0; i < line->count; i++) {
        int64_t start_ns = search->marks.starts_ns[i], end_ns = search->marks.ends_ns[i];
        if (end_ns > last_ns) end_ns = last_ns;
        line->steps[i] = (dl_activity_step){
            .start_ns = start_ns, .duration_ns = end_ns - start_ns, .work_end_ns = end_ns};
    }
    dl_step_line_flag_warmup(line);
    dl_step_line_measure(line, NULL);
}

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Launch times of all device work in order; its own start where no call is known. */
static int64_t *sorted_launches(const step_search *search, size_t *launch_count)
{
    int64_t *sorted = dl_calloc(search->count, sizeof *sorted, "launch times");
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++) {
        if (!dl_activity_is_device_work(&search->activities[i])) continue;
        const dl_activity *work = &search->activities[i];
        sorted[count++] = launch_of(search, work, work->start_ns);
    }
    qsort(sorted, count, sizeof *sorted, compare_times);
    *launch_count = count;
    return sorted;
}

static dl_status find_marks(step_search *search, dl_error *err)
{
    dl_status status = DL_OK;
    size_t launch_count = 0;
    int64_t *launches_ns = sorted_launches(search, &launch_count);
    const dl_marked_trace trace = {.activities = search->activities,
                                   .count = search->count,
                                   .strings = search->strings,
                                   .string_count = search->string_count,
                                   .launches_ns = launches_ns,
                                   .launch_count = launch_count};
    if (search->hints->marks != NULL) {
        status = dl_step_marks_match(&search->marks, &trace, search->hints->marks, err);
    } else if (search->hints->period == 0) {
        dl_step_marks_find(&search->marks, &trace);
    }
    free(launches_ns);
    return status;
}

dl_status dl_activity_steps_init(dl_activity_steps *steps, const dl_activity *activities,
                                 size_t count, char *const *strings, size_t string_count,
                                 const dl_step_hints *hints, dl_error *err)
{
    dl_launches launches = {0};
    dl_launches_init(&launches, activities, count);
    step_search search = {.activities = activities,
                          .count = count,
                          .strings = strings,
                          .string_count = string_count,
                          .hints = hints,
                          .launches = &launches};
    dl_status status = find_marks(&search, err);
    if (status == DL_OK) {
        dl_symbols symbols, plain = {0};
        dl_symbols_init(&symbols, activities, count, strings, string_count, DL_SYMBOL_SHAPES);
        *steps = (dl_activity_steps){.count = symbols.count};
        steps->lines = dl_calloc(symbols.count, sizeof *steps->lines, "steps");
        for (size_t i = 0; i < symbols.count; i++) {
            find_line(&steps->lines[i], &search, &symbols.lines[i], &plain, i);
            symbols.lines[i].work = NULL; /* the line owns it now */
        }
        if (symbols.count == 0 && search.marks.count > 0) {
            free(steps->lines);
            take_host_steps(steps, &search);
        }
        dl_symbols_free(&symbols);
        dl_symbols_free(&plain);
    }
    dl_step_marks_free(&search.marks);
    dl_launches_free(&launches);
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
