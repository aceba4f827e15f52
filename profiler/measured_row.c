#include "profiler/measured_row.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/options.h"
#include "common/units.h"
#include "profiler/run/run_meta.h"

static const char *const columns[] = {"cores",
                                      "workers",
                                      "batch",
                                      "sync",
                                      "interval",
                                      "step_s",
                                      "throughput_per_s",
                                      "staleness_mean",
                                      "staleness_sd",
                                      "staleness_p50",
                                      "staleness_p90",
                                      "staleness_mean_by_worker",
                                      "staleness_counts",
                                      "steps",
                                      "seed",
                                      "others_frac",
                                      "steal_frac",
                                      "source"};
#define COLUMN_COUNT (sizeof columns / sizeof columns[0])

/* The file at `path` has our columns. */
static dl_status check_columns(const char *path, dl_error *err)
{
    dl_csv csv = {0};
    dl_status status = dl_csv_read(&csv, path, err);
    if (status != DL_OK) return status;
    bool same = csv.columns == COLUMN_COUNT;
    for (size_t c = 0; same && c < COLUMN_COUNT; c++)
        same = strcmp(csv.names[c], columns[c]) == 0;
    dl_csv_free(&csv);
    if (same) return DL_OK;
    return dl_error_set_at(err, DL_ERR_FORMAT, path, 0,
                           "has other columns than a measured run; nothing was appended");
}

static void write_head(dl_csv_writer *writer)
{
    dl_csv_comment(writer, "measured training runs, one a row; dlprof %s", dl_version());
    for (size_t c = 0; c < COLUMN_COUNT; c++)
        dl_csv_text(writer, columns[c]);
    dl_csv_end_row(writer);
}

/* "0.99;1.02"; empty in synchronous modes, and if a worker has no step. free() it. */
static char *staleness_by_worker(const dl_recorder *recorder)
{
    char *text = dl_strdup("");
    for (int w = 0; w < recorder->worker_count; w++) {
        const dl_distribution own = dl_recorder_staleness(recorder, w);
        if (own.count == 0) {
            free(text);
            return dl_strdup("");
        }
        char number[DL_DOUBLE_TEXT_BYTES];
        char *longer =
            dl_format("%s%s%s", text, w > 0 ? ";" : "", dl_format_double(number, own.mean));
        free(text);
        text = longer;
    }
    return text;
}

/* Highest staleness of an applied gradient, -1 in synchronous modes. */
static int64_t highest_staleness(const dl_recorder *recorder)
{
    int64_t most = DL_NO_STALENESS;
    for (int w = 0; w < recorder->worker_count; w++) {
        const dl_recorder_worker *worker = &recorder->workers[w];
        for (int64_t s = 0; s < atomic_load(&worker->count); s++) {
            if (worker->steps[s].staleness > most) most = worker->steps[s].staleness;
        }
    }
    return most;
}

/* "3;690;7": how many applied gradients had staleness 0, 1, 2; empty in synchronous modes. free()
 * it.
 */
static char *staleness_counts(const dl_recorder *recorder)
{
    const int64_t most = highest_staleness(recorder);
    if (most < 0) return dl_strdup("");
    int64_t *counts = dl_calloc((size_t)most + 1, sizeof *counts, "staleness counts");
    for (int w = 0; w < recorder->worker_count; w++) {
        const dl_recorder_worker *worker = &recorder->workers[w];
        for (int64_t s = 0; s < atomic_load(&worker->count); s++)
            if (worker->steps[s].staleness >= 0) counts[worker->steps[s].staleness]++;
    }
    char *text = NULL;
    size_t bytes = 0;
    FILE *joined = open_memstream(&text, &bytes);
    DL_ASSERT(joined != NULL, "no memory for %lld counts", (long long)most);
    for (int64_t b = 0; b <= most; b++)
        fprintf(joined, "%s%lld", b > 0 ? ";" : "", (long long)counts[b]);
    fclose(joined);
    free(counts);
    return text;
}

/* Steps of the worker that has done the most: all that were asked for, unless the run was stopped. */
static int64_t most_steps(const dl_recorder *recorder)
{
    int64_t most = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        const int64_t done = dl_recorder_steps_done(recorder, w);
        if (done > most) most = done;
    }
    return most;
}

static void write_row(dl_csv_writer *writer, const dl_train_config *config,
                      const dl_recorder *recorder, const dl_cpu_disturbance *disturbed)
{
    const dl_distribution staleness = dl_recorder_staleness(recorder, -1);
    char *by_worker = staleness_by_worker(recorder);
    char *counts = staleness_counts(recorder);
    dl_csv_int(writer, dl_run_cores(config));
    dl_csv_int(writer, config->workers);
    dl_csv_int(writer, config->batch);
    dl_csv_text(writer, dl_sync_names[config->sync]);
    if (config->sync == DL_SYNC_AVERAGE) {
        dl_csv_int(writer, config->interval);
    } else {
        dl_csv_text(writer, "");
    }
    dl_csv_double(writer, dl_ns_to_s(dl_recorder_mean_step_ns(recorder)));
    dl_csv_double(writer, dl_recorder_throughput_per_s(recorder));
    const double numbers[] = {staleness.mean, staleness.sd, staleness.p50, staleness.p90};
    for (int i = 0; i < 4; i++)
        dl_csv_double(writer, staleness.count > 0 ? numbers[i] : (double)NAN);
    dl_csv_text(writer, by_worker);
    dl_csv_text(writer, counts);
    dl_csv_int(writer, most_steps(recorder));
    dl_csv_int(writer, (int64_t)config->seed);
    dl_csv_double(writer, disturbed->others_frac);
    dl_csv_double(writer, disturbed->steal_frac);
    dl_csv_text(writer, "dlprof train");
    dl_csv_end_row(writer);
    free(by_worker);
    free(counts);
}

dl_status dl_measured_row_check(const char *path, dl_error *err)
{
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0) return DL_OK;
    return check_columns(path, err);
}

dl_status dl_measured_row_append(const char *path, const dl_train_config *config,
                                 const dl_recorder *recorder,
                                 const dl_cpu_disturbance *disturbed, dl_error *err)
{
    FILE *out = fopen(path, "a");
    if (out == NULL) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot open: %s", strerror(errno));
    }
    fseek(out, 0, SEEK_END);
    const bool empty = ftell(out) == 0;
    dl_status status = empty ? DL_OK : check_columns(path, err);
    dl_csv_writer writer = {.out = out};
    if (status == DL_OK && empty) write_head(&writer);
    if (status == DL_OK) write_row(&writer, config, recorder, disturbed);
    const bool failed = ferror(out) != 0;
    if ((fclose(out) != 0 || failed) && status == DL_OK) {
        status = dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot write: %s", strerror(errno));
    }
    return status;
}
