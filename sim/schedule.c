#include "sim/schedule.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/options.h"
#include "common/output.h"
#include "common/units.h"
#include "sim/sync/syncer.h"

#define SCHEMA 1

/* A gradient that the next update will include. */
typedef struct contribution {
    int worker;
    int64_t step, read;
} contribution;

typedef struct schedule {
    dl_csv_writer csv;
    const dl_point *point;
    const dl_syncer_config *syncer; /* set in mode async_average; otherwise NULL */
    int64_t updates;                /* number of updates, merges or averages so far */
    int64_t *written;               /* [workers] local steps written */
    int64_t *ended; /* [workers] local steps ended by the worker; they are written when its whole
                     * site has ended them */
    int site_size;  /* workers that average their gradients in each step; 1 without sites */
    /* Averages: local steps between two exchanges, number of fragments, lag in steps, total
     * steps. */
    int64_t period, fragments, lag, steps;
    int64_t *received;     /* [workers] averages received, with a lag */
    contribution *pending; /* [pending_count] contributions since the last update */
    size_t pending_count;
} schedule;

/* Number of the batch of a worker's step. */
static int64_t batch_of(const schedule *s, int worker, int64_t step)
{
    return step * s->point->workers + worker;
}

/* Whether rows have a fragment column. */
static bool has_fragments(const schedule *s)
{
    return s->fragments > 1 || s->lag > 0;
}

/* Starts a row, which the caller ends; -1 for a number leaves the cell empty. */
static void start_row(schedule *s, int64_t now_ns, const char *event, int64_t update,
                      int64_t worker, int64_t read, int64_t batch)
{
    const int64_t numbers[] = {update, worker, read, batch};
    char text[32];
    snprintf(text, sizeof text, "%lld.%09lld", (long long)(now_ns / DL_NS_PER_S),
             (long long)(now_ns % DL_NS_PER_S)); /* seconds with nine decimals */
    dl_csv_text(&s->csv, text);
    dl_csv_text(&s->csv, event);
    for (size_t n = 0; n < DL_LENGTH(numbers); n++) {
        if (numbers[n] >= 0) {
            dl_csv_int(&s->csv, numbers[n]);
        } else {
            dl_csv_text(&s->csv, "");
        }
    }
}

static void write_row(schedule *s, int64_t now_ns, const char *event, int64_t update,
                      int64_t worker, int64_t read, int64_t batch)
{
    start_row(s, now_ns, event, update, worker, read, batch);
    if (s->syncer != NULL || has_fragments(s)) dl_csv_text(&s->csv, "");
    dl_csv_end_row(&s->csv);
}

/* Writes a row of an average, numbered by `update`, or of a worker's send or receive, with
 * `worker`. `round` counts exchanges over all fragments. */
static void write_round(schedule *s, int64_t now_ns, const char *event, int64_t update,
                        int64_t worker, int64_t round)
{
    start_row(s, now_ns, event, update, worker, -1, -1);
    if (has_fragments(s)) dl_csv_int(&s->csv, round % s->fragments);
    dl_csv_end_row(&s->csv);
}

static void write_gradient(schedule *s, int64_t now_ns, int64_t update, const contribution *from)
{
    write_row(s, now_ns, "gradient", update, from->worker, from->read,
              batch_of(s, from->worker, from->step));
}

static void write_local(schedule *s, int64_t now_ns, int worker, int64_t step)
{
    write_row(s, now_ns, "local", -1, worker, -1, batch_of(s, worker, step));
}

static void on_contribute(void *user, int worker, int64_t step, int64_t read, int64_t now_ns)
{
    (void)now_ns;
    schedule *s = user;
    DL_APPEND(s->pending, s->pending_count, "pending gradients") =
        (contribution){worker, step, read};
}

/* Callback of a server's update, which includes all pending contributions. */
static void on_update(void *user, int64_t version, int64_t now_ns)
{
    schedule *s = user;
    for (size_t i = 0; i < s->pending_count; i++)
        write_gradient(s, now_ns, version, &s->pending[i]);
    s->pending_count = 0;
}

/* Callback of a common update: step `version` - 1 of each worker, with parameters that are older by
 * the lag. */
static void on_common_update(void *user, int64_t version, int64_t now_ns)
{
    schedule *s = user;
    const int64_t lag = (int64_t)s->point->option[DL_SYNC_LAG];
    const int64_t read = version - 1 > lag ? version - 1 - lag : 0;
    for (int w = 0; w < s->point->workers; w++)
        write_gradient(s, now_ns, version, &(contribution){w, version - 1, read});
}

/* Writes the next local step of workers first to first + site_size - 1 and, with a lag, the sends
 * that follow it. A site's workers have new parameters only once all its gradients have arrived. */
static void write_step(schedule *s, int64_t now_ns, int first)
{
    const int end = first + s->site_size;
    const int64_t done = s->written[first] + 1;
    for (int w = first; w < end; w++)
        write_local(s, now_ns, w, s->written[w]++);
    for (int w = first; s->lag > 0 && done % s->period == 0 && w < end; w++)
        write_round(s, now_ns, "send", -1, w, done / s->period - 1);
}

/* Writes the local steps that complete the period, unless they are written already, then the
 * average. An average is counted before these steps end: without a lag the pulls are outstanding;
 * with a lag some workers have sent their parameters but not started the next step. */
static void write_average(schedule *s, int64_t now_ns)
{
    const int64_t version = s->updates + 1;
    for (int w = 0; w < s->point->workers; w += s->site_size) {
        if (s->lag == 0 || s->written[w] < version * s->period) write_step(s, now_ns, w);
    }
    write_round(s, now_ns, "average", version, -1, version - 1);
    s->updates = version;
}

static void on_average(void *user, int64_t version, int64_t now_ns)
{
    schedule *s = user;
    while (s->updates < version)
        write_average(s, now_ns);
}

/* With a lag: writes the averages that the worker merges at the end of its step (see
 * dl_mode_average). A transfer that takes no time can arrive before the average is counted, so the
 * average is written first. */
static void write_receipts(schedule *s, int64_t now_ns, int worker, int64_t done)
{
    const int64_t late = done - s->lag > 0 ? done - s->lag : 0;
    const int64_t due = (done == s->steps ? done : late) / s->period;
    while (s->received[worker] < due) {
        const int64_t round = s->received[worker]++;
        on_average(s, round + 1, now_ns);
        write_round(s, now_ns, "receive", -1, worker, round);
    }
}

/* Callback of an ended local step; writes it once all workers of the site have ended it. */
static void on_step(void *user, int worker, int64_t step, int64_t start_ns DL_UNUSED,
                    int64_t end_ns, int staleness DL_UNUSED)
{
    schedule *s = user;
    const int first = worker - worker % s->site_size, end = first + s->site_size;
    s->ended[worker] = step + 1;
    for (int w = first; w < end; w++)
        if (s->ended[w] <= step) return;
    if (step >= s->written[first]) write_step(s, end_ns, first); /* not written yet */
    for (int w = first; s->lag > 0 && w < end; w++)
        write_receipts(s, end_ns, w, step + 1);
}

/* Number of workers per site, which are consecutive; 0 if sites have different numbers. */
static int site_size(const dl_scenario *scenario, const dl_point *point)
{
    const dl_gpu_options *gpu = scenario->gpu;
    int size = 0, count = 0;
    for (int w = 0; w < point->workers; w++) {
        count++;
        const int here = dl_machine_domain(&gpu->machine, dl_gpu_options_place(gpu, w).node);
        const bool is_last =
            w == point->workers - 1 ||
            here != dl_machine_domain(&gpu->machine, dl_gpu_options_place(gpu, w + 1).node);
        if (!is_last) continue;
        if (size > 0 && size != count) return 0;
        size = count;
        count = 0;
    }
    return size;
}

/* Writes that the next merge includes the worker's upload, which is based on `version`. */
static void write_merge(schedule *s, int64_t now_ns, int worker, int64_t version)
{
    start_row(s, now_ns, "merge", s->updates + 1, worker, version, -1);
    dl_csv_double(&s->csv, dl_merge_weight(&s->syncer->merge, s->updates - version));
    dl_csv_end_row(&s->csv);
}

static void on_syncer(void *user, int event, int worker, int64_t steps, int64_t version,
                      int64_t now_ns)
{
    schedule *s = user;
    switch ((dl_syncer_event)event) {
    case DL_SYNCER_STEP: write_local(s, now_ns, worker, steps); break;
    case DL_SYNCER_UPLOAD: write_row(s, now_ns, "upload", -1, worker, version, -1); break;
    case DL_SYNCER_MERGE: write_merge(s, now_ns, worker, version); break;
    case DL_SYNCER_REPLACE: write_row(s, now_ns, "replace", -1, worker, version, -1); break;
    case DL_SYNCER_REBASE: write_row(s, now_ns, "rebase", -1, worker, version, -1); break;
    }
}

static void on_merged(void *user, int64_t version, int64_t now_ns DL_UNUSED)
{
    schedule *s = user;
    s->updates = version;
}

static dl_team_observer make_observer(schedule *s)
{
    const dl_mode *mode = s->point->mode;
    if (mode->exchange == DL_EXCHANGES_NOTHING)
        return (dl_team_observer){.user = s, .step = on_step};
    if (dl_mode_averages(mode)) {
        return (dl_team_observer){.user = s, .step = on_step, .update = on_average};
    }
    if (s->syncer != NULL) {
        return (dl_team_observer){.user = s, .update = on_merged, .syncer = on_syncer};
    }
    if (mode->exchange == DL_EXCHANGES_GRADIENTS) {
        return (dl_team_observer){.user = s, .update = on_common_update};
    }
    return (dl_team_observer){.user = s, .contribute = on_contribute, .update = on_update};
}

static void write_head(schedule *s, const dl_scenario *scenario)
{
    static const char *const columns[] = {"time_s", "event", "update", "worker", "read", "batch"};
    char text[DL_POINT_TEXT_BYTES];
    dl_csv_comment(&s->csv, "dlscale schedule");
    dl_csv_comment(&s->csv, "schema: %d", SCHEMA);
    dl_csv_comment(&s->csv, "program: dlsim %s", dl_version());
    dl_csv_comment(&s->csv, "scenario: %s", scenario->name);
    dl_csv_comment(&s->csv, "point: %s", dl_point_text(text, sizeof text, s->point));
    dl_csv_comment(&s->csv, "mode: %s", dl_point_mode(s->point));
    dl_csv_comment(&s->csv, "seed: %lld", (long long)scenario->seed);
    dl_csv_comment(&s->csv, "workers: %d", s->point->workers);
    dl_csv_comment(&s->csv, "batch: %lld", (long long)s->point->batch);
    if (s->site_size > 1) dl_csv_comment(&s->csv, "sites: %d", s->point->workers / s->site_size);
    if (s->fragments > 1) dl_csv_comment(&s->csv, "fragments: %lld", (long long)s->fragments);
    for (size_t c = 0; c < DL_LENGTH(columns); c++)
        dl_csv_text(&s->csv, columns[c]);
    if (s->syncer != NULL) dl_csv_text(&s->csv, "weight");
    if (has_fragments(s)) dl_csv_text(&s->csv, "fragment");
    dl_csv_end_row(&s->csv);
}

dl_status dl_schedule_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err)
{
    if (dl_mode_takes(point->mode, DL_SYNC_MOVING_RATE)) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "mode %s has no schedule: workers and server move towards each other, "
                            "and a schedule has gradients, averages and merges only",
                            dl_point_mode(point));
    }
    const bool averages = dl_mode_takes(point->mode, DL_SYNC_FRAGMENTS);
    if (averages && dl_absences_given(&scenario->absences)) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "absences ([failures] away, worker_mtbf_s) have no schedule in mode "
                            "average: a schedule's averages "
                            "are of all workers");
    }
    if (averages && point->option[DL_SYNC_LAG] > 0 && scenario->interval_by_speed) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "[sync] interval_by_speed with a lag has no schedule: which averages a "
                            "worker merges after a step then depends on its own interval");
    }
    const int inside = averages && scenario->inside != 0 ? site_size(scenario, point) : 1;
    if (inside == 0) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "[sync] inside has no schedule where sites have different numbers of "
                            "workers: training that follows one divides them equally");
    }
    if (averages && (int64_t)point->option[DL_SYNC_INTERVAL] % scenario->fragments != 0) {
        return dl_error_set(
            err, DL_ERR_UNSUPPORTED,
            "average in %d fragments has no schedule with an interval that they do not divide",
            scenario->fragments);
    }
    if (scenario->shares == DL_SHARES_SPEED && point->workers > 1) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "[workload] shares = speed has no schedule: training that follows one "
                            "shares batches evenly");
    }
    dl_output output = {0};
    dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    const bool merges = dl_mode_takes(point->mode, DL_SYNC_SYNCER);
    schedule s = {
        .csv = {.out = output.out}, .point = point, .syncer = merges ? &scenario->syncer : NULL};
    s.written = dl_calloc((size_t)point->workers, sizeof *s.written, "steps");
    s.ended = dl_calloc((size_t)point->workers, sizeof *s.ended, "steps");
    s.site_size = inside;
    s.received = dl_calloc((size_t)point->workers, sizeof *s.received, "averages");
    s.steps = dl_run_observed_steps(scenario, point);
    s.fragments = averages ? scenario->fragments : 1;
    s.lag = averages ? (int64_t)point->option[DL_SYNC_LAG] : 0;
    s.period = averages ? (int64_t)point->option[DL_SYNC_INTERVAL] / s.fragments : 1;
    write_head(&s, scenario);
    const dl_team_observer observer = make_observer(&s);
    status = dl_run_observe(scenario, costs, point, &observer, err);
    free(s.pending);
    free(s.written);
    free(s.ended);
    free(s.received);
    return dl_output_end(&output, status, err);
}
