#include "trace/activity/capture_cost.h"

#include <inttypes.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

const char *const dl_capture_item_names[DL_CAPTURE_ITEM_COUNT] = {"kernel", "copy", "event", "sync",
                                                                  "record"};

/* Maximum credible cost of a call: a second. */
#define FIGURE_MAX_NS 1e9
#define REPETITIONS_MAX 1000000

char *dl_capture_figures_text(const dl_capture_figures *figures)
{
    DL_AUTOFREE char *text = dl_strdup("");
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++) {
        const dl_capture_figure *figure = &figures->items[i];
        dl_extend(&text, "%s %.9g %.9g %.9g; ", dl_capture_item_names[i], figure->ns,
                  figure->low_ns, figure->high_ns);
    }
    return dl_format("%srepetitions %" PRId64 "; host %s; device %s", text, figures->repetitions,
                     figures->host, figures->device);
}

/* Removes the part before the next "; " (or everything) from *text. Returns the text after `name`
 * in that part, or NULL if it has another name. Modifies the text. */
static char *take_part(char **text, const char *name)
{
    char *part = *text;
    const size_t length = strlen(name);
    if (part == NULL || strncmp(part, name, length) != 0 || part[length] != ' ') return NULL;
    char *end = strstr(part, "; ");
    *text = end != NULL ? end + 2 : NULL;
    if (end != NULL) *end = '\0';
    return part + length + 1;
}

static bool parse_figure(char *text, dl_capture_figure *figure)
{
    double *const values[] = {&figure->ns, &figure->low_ns, &figure->high_ns};
    for (size_t i = 0; i < 3; i++) {
        char *blank = text != NULL ? strchr(text, ' ') : NULL;
        if (blank != NULL) *blank = '\0';
        if (text == NULL ||
            dl_parse_double(text, -FIGURE_MAX_NS, FIGURE_MAX_NS, values[i], NULL) != DL_OK)
            return false;
        text = blank != NULL ? blank + 1 : NULL;
    }
    return text == NULL && figure->low_ns <= figure->ns && figure->ns <= figure->high_ns;
}

static bool parse_parts(char *text, dl_capture_figures *made)
{
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++)
        if (!parse_figure(take_part(&text, dl_capture_item_names[i]), &made->items[i]))
            return false;
    const char *repetitions = take_part(&text, "repetitions");
    const char *host = take_part(&text, "host");
    const char *device = take_part(&text, "device");
    if (repetitions == NULL || host == NULL || device == NULL || text != NULL) return false;
    snprintf(made->host, sizeof made->host, "%s", host);
    snprintf(made->device, sizeof made->device, "%s", device);
    return dl_parse_int(repetitions, 1, REPETITIONS_MAX, &made->repetitions, NULL) == DL_OK;
}

dl_status dl_capture_figures_parse(const char *text, dl_capture_figures *figures, dl_error *err)
{
    const size_t unknown = strlen(DL_CAPTURE_COST_UNKNOWN);
    if (strncmp(text, DL_CAPTURE_COST_UNKNOWN, unknown) == 0) {
        return dl_error_set(err, DL_ERR_DATA, "%.400s", text);
    }
    DL_AUTOFREE char *copy = dl_strdup(text);
    dl_capture_figures made = {0};
    const bool good = parse_parts(copy, &made);
    if (!good) {
        return dl_error_set(err, DL_ERR_PARSE, "'%.200s' are not costs of a recording", text);
    }
    *figures = made;
    return DL_OK;
}

/* Counts the launches of one regular step's operations by item; a graph counts as one kernel. */
static void count_step(const dl_trace *trace, const dl_step_line *line,
                       const dl_activity_step *step, double counts[DL_CAPTURE_PER_RECORD])
{
    uint32_t graph_launch = 0; /* correlation of the graph whose nodes are being skipped (they are
                                * consecutive); 0: none */
    for (size_t i = step->first; i < step->first + step->count; i++) {
        const dl_activity *work = &trace->activities[line->work[i]];
        const bool node = work->kind != DL_ACTIVITY_GRAPH && work->object >> 32 != 0;
        if (node && work->correlation == graph_launch) continue;
        graph_launch = node ? work->correlation : 0;
        const bool copy = work->kind == DL_ACTIVITY_MEMCPY || work->kind == DL_ACTIVITY_MEMSET;
        counts[copy && !node ? DL_CAPTURE_PER_COPY : DL_CAPTURE_PER_KERNEL]++;
    }
}

/* Counts the events and waits of the line's device in regular steps. They are not device work, so
 * their start determines the step. */
static void count_calls(const dl_trace *trace, const dl_step_line *line,
                        double counts[DL_CAPTURE_PER_RECORD])
{
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_EVENT && a->kind != DL_ACTIVITY_SYNC) continue;
        if (a->device != line->device || dl_regular_step_at(line, a->start_ns) == NULL) continue;
        counts[a->kind == DL_ACTIVITY_EVENT ? DL_CAPTURE_PER_EVENT : DL_CAPTURE_PER_SYNC]++;
    }
}

dl_capture_estimate dl_capture_estimate_of(const dl_capture_figures *figures, const dl_trace *trace,
                                           const dl_step_line *line)
{
    dl_capture_estimate made = {0};
    double counts[DL_CAPTURE_PER_RECORD] = {0}, steps_ns = 0;
    if (line->device == DL_NO_DEVICE) return made;
    for (size_t i = 0; i < line->count; i++) {
        const dl_activity_step *step = &line->steps[i];
        if (step->label != DL_STEP_REGULAR) continue;
        made.steps++;
        steps_ns += (double)step->duration_ns;
        count_step(trace, line, step, counts);
    }
    if (made.steps == 0) return made;
    count_calls(trace, line, counts);
    for (int i = 0; i < DL_CAPTURE_PER_RECORD; i++) {
        const dl_capture_figure *figure = &figures->items[i];
        made.per_step[i] = counts[i] / (double)made.steps;
        made.step_ns += made.per_step[i] * figure->ns;
        made.step_low_ns += made.per_step[i] * figure->low_ns;
        made.step_high_ns += made.per_step[i] * figure->high_ns;
    }
    if (steps_ns > 0) made.share_frac = made.step_ns * (double)made.steps / steps_ns;
    return made;
}
