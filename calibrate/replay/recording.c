/* Choice of a line's steps, and effects of the recording on them: interrupted steps and time added
 * to steps. */
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

#include "calibrate/replay/step_costs.h"
#include "common/alloc.h"
#include "common/units.h"
#include "trace/activity/capture_cost.h"
#include "trace/distribution.h"

/* Recording overhead per launch in ns if the trace does not give it: a launch of an empty kernel in
 * a loop takes 3.2 us without recording and 5.9 us under CUPTI, medians, on an H200 in a 16-core
 * virtual machine, driver 580.159, CUDA 13.0, 2026-11-26. The 95 % interval is half to twice this
 * time. */
#define RECORDED_LAUNCH_NS 2700.0
#define RECORDED_MAX 0.5 /* maximum fraction of the host's time: at least half is the program's */

/* An interrupted step takes over INTERRUPTED times the median, with at most MORE_WORK times the
 * median work. */
#define INTERRUPTED 2
#define MORE_WORK 1.05
/* Maximum number of interrupted steps; more have a cause in the program, such as a data loader that
 * stalls. */
#define INTERRUPTED_MAX(count) (((count) + 9) / 10)

/* A pause is a step of over PAUSED times the median if no other step takes over INTERRUPTED times
 * the median: a data loader that stalls does so more than once. The median of fewer than PAUSED_OF
 * steps says nothing. */
#define PAUSED 10
#define PAUSED_OF 3

/* Writes the values of the kept steps to `list`; returns their number. */
static size_t list_kept(const uint8_t *kept, const double *values, size_t count, double *list)
{
    size_t found = 0;
    for (size_t s = 0; s < count; s++)
        if (kept[s]) list[found++] = values[s];
    return found;
}

static double median_of(const uint8_t *kept, const double *values, size_t count, size_t *steps)
{
    DL_AUTOFREE double *list = dl_calloc(count, sizeof *list, "steps");
    *steps = list_kept(kept, values, count, list);
    return dl_distribution_of(list, *steps).p50;
}

dl_step_mean dl_steps_mean(const uint8_t *kept, const double *values, size_t count)
{
    DL_AUTOFREE double *list = dl_calloc(count, sizeof *list, "steps");
    const size_t steps = list_kept(kept, values, count, list);
    const double error =
        steps > 1 ? gsl_stats_sd(list, 1, steps) / sqrt((double)steps) : (double)NAN;
    return (dl_step_mean){steps > 0 ? gsl_stats_mean(list, 1, steps) : (double)NAN, error};
}

void dl_steps_leave_out_pause(uint8_t *kept, const double *ns, size_t count, const char *where,
                              dl_notes *notes)
{
    size_t longest = SIZE_MAX, longer = 0, steps;
    const double usual_ns = median_of(kept, ns, count, &steps);
    for (size_t s = 0; s < count; s++) {
        if (!kept[s]) continue;
        if (ns[s] > PAUSED * usual_ns) longest = s;
        longer += ns[s] > INTERRUPTED * usual_ns;
    }
    if (steps < PAUSED_OF || longest == SIZE_MAX || longer > 1) return;
    kept[longest] = 0;
    DL_AUTOFREE char *in = where != NULL ? dl_format(", in '%.60s'", where) : dl_strdup("");
    dl_notes_add(notes,
                 "1 of %zu steps is left out: it takes %s%s, the others %s, as with a checkpoint, "
                 "an evaluation or a warm-up. If that recurs, training takes that much longer",
                 steps, DL_NS_TEXT(ns[longest]), in, DL_NS_TEXT(usual_ns));
}

void dl_steps_leave_out_interrupted(uint8_t *kept, const double *ns, const double *works,
                                    size_t count, dl_notes *notes)
{
    DL_AUTOFREE uint8_t *flags = dl_calloc(count, 1, "steps");
    size_t flagged = 0, steps;
    double longest_ns = 0;
    const double usual_ns = median_of(kept, ns, count, &steps);
    const double usual_work = median_of(kept, works, count, &steps);
    for (size_t s = 0; s < count; s++) {
        flags[s] = kept[s] && ns[s] > INTERRUPTED * usual_ns && works[s] <= MORE_WORK * usual_work;
        flagged += flags[s];
        if (flags[s]) longest_ns = fmax(longest_ns, ns[s]);
    }
    if (flagged == 0 || flagged > INTERRUPTED_MAX(steps)) return;
    for (size_t s = 0; s < count; s++)
        kept[s] = kept[s] && !flags[s];
    if (notes == NULL) return;
    dl_notes_add(notes,
                 "%zu of %zu steps %s left out as interrupted: up to %s, without more work than "
                 "others, which take %s. If the program itself causes that, training is slower "
                 "than predicted",
                 flagged, steps, flagged == 1 ? "is" : "are", DL_NS_TEXT(longest_ns),
                 DL_NS_TEXT(usual_ns));
}

uint8_t *dl_steps_regular(const dl_step_line *line)
{
    uint8_t *marks = dl_calloc(line->count, 1, "steps");
    for (size_t s = 0; s < line->count; s++)
        marks[s] = line->steps[s].label == DL_STEP_REGULAR;
    return marks;
}

/* Minimum factor by which a step with other work is longer than a regular one. */
#define OTHER_MIN 1.05

/* Notes longer steps between regular ones, such as those with a validation, which are left out. */
static void note_other_steps(const dl_step_line *line, double regular_ns, dl_notes *notes)
{
    size_t count = 0, open = 0, regular = 0;
    double more_ns = 0, open_ns = 0;
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *step = &line->steps[s];
        const double ns = (double)step->duration_ns - regular_ns;
        if (step->label == DL_STEP_REGULAR) {
            count += open;
            more_ns += open_ns;
            open = 0;
            open_ns = 0;
            regular++;
        } else if (regular > 0 && step->label == DL_STEP_OTHER &&
                   ns > (OTHER_MIN - 1) * regular_ns) {
            open++;
            open_ns += ns;
        }
    }
    if (count == 0) return;
    dl_notes_add(notes,
                 "%zu of %zu steps %s longer, by %s in all, as with a validation: left out. If "
                 "that recurs, training takes that much longer",
                 count, line->count, count == 1 ? "is" : "are", DL_NS_TEXT(more_ns));
}

void dl_step_costs_take_times(dl_step_costs *costs, const dl_step_line *line, const uint8_t *timed,
                              const double *ns, dl_notes *notes)
{
    DL_AUTOFREE double *whole_ns = dl_calloc(line->count, sizeof *whole_ns, "steps");
    costs->factors = dl_calloc(line->count, sizeof *costs->factors, "steps");
    costs->device_ns = dl_steps_mean(timed, ns, line->count).value;
    for (size_t s = 0; s < line->count; s++) {
        whole_ns[s] = (double)line->steps[s].duration_ns;
        if (timed[s]) costs->factors[costs->steps++] = (float)(ns[s] / costs->device_ns);
    }
    costs->step_ns = dl_steps_mean(timed, whole_ns, line->count).value;
    note_other_steps(line, costs->step_ns, notes);
}

double dl_profiled_operator_ns(const dl_trace *trace)
{
    return dl_trace_meta(trace, "record_shapes") != NULL ? 1300 : 700;
}

static bool is_in_timed_step(const dl_step_line *line, const uint8_t *timed, int64_t time_ns)
{
    const dl_activity_step *step = dl_regular_step_at(line, time_ns);
    return step != NULL && timed[step - line->steps];
}

/* Returns the operators per timed step in a trace of PyTorch's profiler; 0 for other traces, which
 * have few ranges. */
static double operators_of(const dl_trace *trace, const dl_step_line *line, const uint8_t *timed,
                           size_t timed_count)
{
    const char *framework = dl_trace_meta(trace, "framework");
    double count = 0;
    if (framework == NULL || strcmp(framework, "PyTorch") != 0) return 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        count += a->kind == DL_ACTIVITY_RANGE && is_in_timed_step(line, timed, a->start_ns);
    }
    return count / (double)timed_count;
}

void dl_step_costs_take_off_recording(dl_step_costs *costs, const dl_trace *trace,
                                      const dl_step_line *line, const uint8_t *timed,
                                      dl_notes *notes)
{
    const dl_capture_figure launch = {RECORDED_LAUNCH_NS, RECORDED_LAUNCH_NS, RECORDED_LAUNCH_NS};
    dl_capture_figures figures = {
        .items = {[DL_CAPTURE_PER_KERNEL] = launch, [DL_CAPTURE_PER_COPY] = launch}};
    dl_capture_figures own;
    dl_error unknown = {0};
    const char *text = dl_trace_meta(trace, DL_CAPTURE_COST_KEY);
    const bool measured = text != NULL && dl_capture_figures_parse(text, &own, &unknown) == DL_OK;
    const double busy_ns = costs->host_ns - costs->waits_ns;
    if (isnan(busy_ns) || (text == NULL && dl_trace_meta(trace, "framework") == NULL)) return;
    const dl_capture_estimate e = dl_capture_estimate_of(measured ? &own : &figures, trace, line);
    if (measured && e.step_low_ns <= 0) return; /* not distinguishable from 0 */
    const double operators = measured ? 0 : operators_of(trace, line, timed, costs->steps);
    const double each_ns = dl_profiled_operator_ns(trace);
    const double off_ns = fmin(e.step_ns + operators * each_ns, RECORDED_MAX * busy_ns);
    costs->host_ns -= off_ns;
    costs->recording_ns = off_ns;
    costs->host_error_ns =
        measured ? (e.step_high_ns - e.step_low_ns) / (2 * 1.96) : DL_PROFILED_ERROR * off_ns;
    if (measured) {
        dl_notes_add(notes,
                     "recording adds %s (%s to %s) to a step, as dlprof bench overhead measured: "
                     "taken off the host's %s",
                     DL_NS_TEXT(off_ns), DL_NS_TEXT(e.step_low_ns), DL_NS_TEXT(e.step_high_ns),
                     DL_NS_TEXT(busy_ns));
        return;
    }
    DL_AUTOFREE char *also =
        operators > 0 ? dl_format(" and each of %.0f operators %.1f us", operators, each_ns / 1e3)
                      : dl_strdup("");
    dl_notes_add(
        notes,
        "assumed: recording makes each of the %.0f launches of a step %.1f us longer%s (half to "
        "twice that): %s are taken off the host's %s",
        e.per_step[DL_CAPTURE_PER_KERNEL] + e.per_step[DL_CAPTURE_PER_COPY],
        RECORDED_LAUNCH_NS / 1e3, also, DL_NS_TEXT(off_ns), DL_NS_TEXT(busy_ns));
}
