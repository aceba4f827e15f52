#include "sim/pace.h"

#include <math.h>

#include "common/progress.h"
#include "common/units.h"

#define SAID_FROM_S 20.0
#define SAID_TIMES 4.0 /* progress is reported again after this multiple of the time spent */
/* The run ends if the estimate exceeds the limit by this factor, which depends on the processor
 * seconds per thread behind the estimate: the first steps may be untypical, and a run that is
 * nearly done should not be stopped. */
static const struct {
    double from_s, times;
} firmness[] = {{60, 2}, {10, 1}, {0, 3}};

#define LOOK_EVERY_NS (DL_NS_PER_S / 50)

void dl_pace_init(dl_pace *pace, double limit_s, int ways, void (*say)(const char *text))
{
    *pace = (dl_pace){.limit_s = limit_s,
                      .ways = ways,
                      .clock_ns = dl_clock_thread_cpu_ns,
                      .say = say,
                      .estimate_s = (double)NAN};
    pthread_mutex_init(&pace->mutex, NULL);
}

void dl_pace_free(dl_pace *pace)
{
    pthread_mutex_destroy(&pace->mutex);
}

/* Messages per step of each worker to a server on the GPUs' hosts; 1 if there is no such server. */
static double messages(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    const dl_gpu_options *gpu = scenario->gpu;
    if (gpu == NULL || point->workers == 1 || !(point->mode->needs & DL_NEED_PARAMETERS) ||
        dl_scenario_is_collective(scenario, point))
        return 1;
    const double given = gpu->shards > 0 ? gpu->shards : point->workers;
    const double shards = fmin(given, DL_SHARDS_MAX), slice = (double)gpu->slice_bytes;
    const double slices = slice > 0 ? ceil((double)costs->parameter_bytes / shards / slice) : 1;
    return shards * slices;
}

double dl_run_weight(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    const double gpus = dl_point_is_split(point) ? dl_point_gpus(point) : point->workers;
    return (double)dl_run_steps(scenario, point) * gpus * messages(scenario, costs, point);
}

void dl_pace_expect(dl_pace *pace, double weight)
{
    if (pace == NULL) return;
    pthread_mutex_lock(&pace->mutex);
    pace->left = fmax(0, pace->left + weight);
    pthread_mutex_unlock(&pace->mutex);
}

static void text_of(const dl_pace *pace, char *text, size_t bytes)
{
    char whole[40], first[40];
    snprintf(text, bytes, "%s%s on %d thread%s, estimated from the first %s of processor time",
             pace->done > 0 ? "about " : "more than ",
             dl_duration_text(whole, sizeof whole, pace->estimate_s), pace->ways,
             pace->ways == 1 ? "" : "s", dl_duration_text(first, sizeof first, pace->spent_s));
}

/* Renews the estimate, and reports progress or ends the runs if needed. The caller holds the
 * mutex. */
static void judge(dl_pace *pace)
{
    const double done = pace->done > 0 ? pace->done : pace->least;
    if (pace->spent_s < DL_PACE_PROBE_S || !(done > 0)) return;
    const double spent_s = pace->spent_s;
    pace->estimate_s = (spent_s + pace->left * spent_s / done) / pace->ways;
    size_t f = 0;
    while (spent_s / pace->ways < firmness[f].from_s)
        f++;
    if (pace->estimate_s > firmness[f].times * pace->limit_s) pace->is_over = true;
    if (spent_s < pace->said_s || pace->is_over || pace->estimate_s < SAID_FROM_S ||
        pace->say == NULL)
        return;
    char text[200], first[40];
    snprintf(
        text, sizeof text, "%.1f %% of the work is done after %s of processor time on %d thread%s",
        100 * pace->done / (pace->done + pace->left),
        dl_duration_text(first, sizeof first, spent_s), pace->ways, pace->ways == 1 ? "" : "s");
    pace->say(text);
    pace->said_s = SAID_TIMES * spent_s;
}

/* Adds the run's progress up to `frac`. `least`: upper bound of the fraction of the run that one
 * step takes. */
static void note(dl_pace_run *run, double frac, double least)
{
    dl_pace *pace = run->pace;
    const int64_t now_ns = pace->clock_ns();
    pthread_mutex_lock(&pace->mutex);
    const double more = run->weight * fmax(0, frac - run->noted);
    pace->done += more;
    pace->left = fmax(0, pace->left - more);
    pace->least = fmax(pace->least, run->weight * least);
    pace->spent_s += dl_ns_to_s((double)(now_ns - run->noted_ns));
    judge(pace);
    pthread_mutex_unlock(&pace->mutex);
    run->noted = fmax(run->noted, frac);
    run->noted_ns = now_ns;
}

/* Set-up time is only counted at the end of the run: it says nothing about the rate of steps. */
static bool goes_on(void *user, double done_frac, double step_frac)
{
    dl_pace_run *run = user;
    if (run->set_up_ns == 0) {
        const int64_t now_ns = run->pace->clock_ns();
        run->set_up_ns = now_ns - run->noted_ns + 1;
        run->noted_ns = now_ns;
    }
    if (run->pace->clock_ns() - run->noted_ns >= LOOK_EVERY_NS) note(run, done_frac, step_frac);
    return !run->pace->is_over;
}

void dl_pace_start(dl_pace_run *run, dl_pace *pace, double weight)
{
    *run = (dl_pace_run){.pace = pace, .watch = {goes_on, run}, .weight = weight};
    if (pace != NULL) run->noted_ns = pace->clock_ns();
}

dl_status dl_pace_end(dl_pace_run *run, dl_status status, const char *path, dl_error *err)
{
    dl_pace *pace = run->pace;
    if (pace == NULL) return status;
    run->noted_ns -= run->set_up_ns;
    if (status == DL_OK) note(run, 1, 0);
    pthread_mutex_lock(&pace->mutex);
    const bool is_over = pace->is_over && pace->left > 0;
    char text[200];
    text_of(pace, text, sizeof text);
    pthread_mutex_unlock(&pace->mutex);
    if (!is_over) return status;
    return dl_error_set_at(err, DL_ERR_RANGE, path, 0,
                           "this would take %s: --long runs it anyway; fewer steps, replicates, "
                           "workers or values of lists shorten it",
                           text);
}
