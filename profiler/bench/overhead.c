#include "profiler/bench/overhead.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/units.h"
#include "profiler/inject/settings.h"
#include "profiler/recorder.h"
#include "trace/activity/capture_cost.h"
#include "trace/distribution.h"

#define FILE_PART "dlprof/overhead.dlt"

char *dl_overhead_file_default(void)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data != NULL && data[0] != '\0') return dl_format("%s/" FILE_PART, data);
    if (home != NULL && home[0] != '\0') return dl_format("%s/.local/share/" FILE_PART, home);
    return NULL;
}

/* Reads the preset's text from the file, without checking that it was measured on this host. */
static dl_status read_text(const char *path, int preset, char **text, dl_error *err)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    const char *kind = dl_trace_meta(&trace, "kind");
    DL_AUTOFREE char *key = dl_format(DL_CAPTURE_COST_KEY ".%s", dl_capture_preset_names[preset]);
    const char *found = dl_trace_meta(&trace, key);
    if (kind == NULL || strcmp(kind, "overhead") != 0 || found == NULL) {
        status = dl_error_set_at(err, DL_ERR_DATA, path, 0,
                                 "is not from dlprof bench overhead: it lacks %s", key);
    } else {
        *text = dl_strdup(found);
    }
    return status;
}

static char *unknown(const char *path, const char *why)
{
    return dl_format(DL_CAPTURE_COST_UNKNOWN " (%s: %s)", path, why);
}

/* Replaces a text that cannot be parsed, or was measured on another host, by the reason; takes over
 * `text`. */
static char *check_host(const char *path, char *text)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    dl_capture_figures figures;
    dl_error err = {0};
    const dl_status status = dl_capture_figures_parse(text, &figures, &err);
    if (status == DL_OK && strcmp(figures.host, host) == 0) return text;
    if (status == DL_ERR_DATA) return text; /* the text gives the reason why the cost is unknown */
    DL_AUTOFREE char *why =
        status == DL_OK ? dl_format("was recorded on host %s", figures.host) : dl_strdup(err.text);
    char *made = unknown(path, why);
    free(text);
    return made;
}

dl_status dl_overhead_file_cost(const char *given, int preset, char **text, dl_error *err)
{
    if (given != NULL) {
        dl_capture_figures figures;
        const dl_status status = read_text(given, preset, text, err);
        if (status != DL_OK) return status;
        dl_error why = {0};
        if (dl_capture_figures_parse(*text, &figures, &why) != DL_ERR_PARSE) return DL_OK;
        free(*text);
        *text = NULL;
        return dl_error_set_at(err, DL_ERR_DATA, given, 0, "%s", why.text);
    }
    DL_AUTOFREE char *path = dl_overhead_file_default();
    dl_error why = {0};
    if (path == NULL || access(path, F_OK) != 0) {
        *text = dl_strdup(DL_CAPTURE_COST_UNKNOWN " (no figures of dlprof bench overhead)");
    } else if (read_text(path, preset, text, &why) != DL_OK) {
        *text = unknown(path, why.text);
    } else {
        *text = check_host(path, *text);
    }
    return DL_OK;
}

/* Target length of one run: the shorter, the less the machine drifts within a pair. */
#define RUN_S 0.05
#define PAIRS_MAX 1000
#define PROBE_STEPS 50

/* Runs training once; *step_ns becomes the wall time per step. */
static dl_status run_once(const dl_overhead_config *config, int64_t steps, bool traced,
                          double *step_ns, dl_error *err)
{
    dl_train_config train = *config->train;
    train.steps = steps;
    dl_recorder recorder = {0};
    dl_train_observer observer = {0};
    dl_status status = DL_OK;
    if (traced) {
        status = dl_recorder_open(&recorder, &train, config->path, err);
        if (status != DL_OK) return status;
        observer = dl_recorder_observer(&recorder);
    }
    DL_SCOPED(dl_train_result) result = {0};
    status = dl_train_run(&train, config->data, traced ? &observer : NULL, &result, err);
    if (status == DL_OK && traced) status = dl_recorder_finish(&recorder, err);
    if (status == DL_OK) *step_ns = dl_s_to_ns(result.seconds) / (double)steps;
    dl_recorder_free(&recorder);
    return status;
}

/* Sets records_per_step from the last trace: records per step of a worker. */
static dl_status count_records(const dl_overhead_config *config, dl_overhead *overhead,
                               dl_error *err)
{
    DL_SCOPED(dl_trace) trace = {0};
    const dl_status status = dl_trace_read(&trace, config->path, err);
    if (status != DL_OK) return status;
    overhead->records_per_step =
        (double)trace.record_count / (double)(overhead->steps * config->train->workers);
    return DL_OK;
}

static dl_status run_pairs(const dl_overhead_config *config, const dl_overhead *plan,
                           double *without_ns, double *extra_ns, dl_error *err)
{
    dl_random random;
    dl_random_init(&random, config->train->seed, 0, 0, 0);
    for (int pair = 0; pair < plan->pairs; pair++) {
        const bool traced_first = dl_random_below(&random, 2) == 1;
        double step_ns[2]; /* [0] without, [1] with a trace */
        for (int run = 0; run < 2; run++) {
            const bool traced = (run == 0) == traced_first;
            const dl_status status = run_once(config, plan->steps, traced, &step_ns[traced], err);
            if (status != DL_OK) return status;
        }
        without_ns[pair] = step_ns[0];
        extra_ns[pair] = step_ns[1] - step_ns[0];
        if (dl_train_stopped(config->train)) {
            return dl_error_set(err, DL_ERR_DATA, "stopped after %d of %d pairs of runs", pair,
                                plan->pairs);
        }
        dl_progress_update(config->progress, (double)(pair + 1) / plan->pairs);
    }
    return DL_OK;
}

dl_status dl_overhead_measure(const dl_overhead_config *config, dl_overhead *overhead,
                              dl_error *err)
{
    double probe_ns;
    dl_status status = run_once(config, PROBE_STEPS, false, &probe_ns, err);
    if (status != DL_OK) return status;
    dl_overhead made = {.pairs = (int)(config->seconds / (2 * RUN_S))};
    if (made.pairs < DL_OVERHEAD_PAIRS_MIN) made.pairs = DL_OVERHEAD_PAIRS_MIN;
    if (made.pairs > PAIRS_MAX) made.pairs = PAIRS_MAX;
    made.steps = (int64_t)(dl_s_to_ns(RUN_S) / probe_ns) + 1;
    DL_AUTOFREE double *without_ns = dl_calloc((size_t)made.pairs, sizeof *without_ns, "overhead");
    DL_AUTOFREE double *extra_ns = dl_calloc((size_t)made.pairs, sizeof *extra_ns, "overhead");
    status = run_pairs(config, &made, without_ns, extra_ns, err);
    if (status == DL_OK) status = count_records(config, &made, err);
    if (status == DL_OK) {
        made.step_ns = dl_distribution_of(without_ns, (size_t)made.pairs).p50;
        made.extra = dl_overhead_figure(extra_ns, (size_t)made.pairs);
        *overhead = made;
    }
    return status;
}

#define CELL_BYTES 32

static void print_training(const dl_overhead_report *report, FILE *out)
{
    const dl_overhead *overhead = report->training;
    fprintf(out, "%s, batch %d, 1 worker: %d pairs of runs of %lld steps, %.0f records per step\n",
            report->model, report->batch, overhead->pairs, (long long)overhead->steps,
            overhead->records_per_step);
    fprintf(out, "step without a trace  %s\n", DL_NS_TEXT(overhead->step_ns));
    fprintf(out, "recording adds        %s a step, %.0f %% interval %s to %s\n",
            DL_NS_TEXT(overhead->extra.ns), 100 * DL_OVERHEAD_CONFIDENCE,
            DL_NS_TEXT(overhead->extra.low_ns), DL_NS_TEXT(overhead->extra.high_ns));
    fprintf(out, "                      %.2f %% of the step, interval %.2f to %.2f %%\n",
            100 * overhead->extra.ns / overhead->step_ns,
            100 * overhead->extra.low_ns / overhead->step_ns,
            100 * overhead->extra.high_ns / overhead->step_ns);
    fprintf(out, "                      %.0f ns a record\n",
            overhead->extra.ns / overhead->records_per_step);
}

static void print_figures(const dl_launch_cost *cost, int variant, FILE *out)
{
    fprintf(out, "%-8s", dl_launch_variant_names[variant]);
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++) {
        if (i == DL_CAPTURE_PER_RECORD && cost->records_per_launch[variant] == 0) continue;
        fprintf(out, " %13.0f", cost->figures[variant].items[i].ns);
    }
    fprintf(out, "\n%-8s", "");
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++) {
        char interval[CELL_BYTES];
        if (i == DL_CAPTURE_PER_RECORD && cost->records_per_launch[variant] == 0) continue;
        const dl_capture_figure *figure = &cost->figures[variant].items[i];
        snprintf(interval, sizeof interval, "%.0f..%.0f", figure->low_ns, figure->high_ns);
        fprintf(out, " %13s", interval);
    }
    fputc('\n', out);
}

static void print_cuda(const dl_overhead_report *report, FILE *out)
{
    const dl_launch_cost *cost = report->cuda;
    if (cost == NULL) {
        fprintf(out, "CUDA's launches are not measured: %s\n", report->cuda_reason);
        return;
    }
    const dl_capture_figures *figures = &cost->figures[DL_LAUNCH_LIGHT];
    fprintf(out, "recording another program's CUDA on %s, %lld repetitions:\n", figures->device,
            (long long)figures->repetitions);
    fprintf(out,
            "ns that are added to a call, and their %.0f %% intervals; after it the ns of\n"
            "other threads for a record\n%-8s",
            100 * DL_OVERHEAD_CONFIDENCE, "");
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++)
        fprintf(out, " %13s", dl_capture_item_names[i]);
    fprintf(out, "\n%-8s", "bare");
    for (int i = 0; i < DL_CAPTURE_PER_RECORD; i++)
        fprintf(out, " %13.0f", cost->bare_ns[i]);
    fputc('\n', out);
    for (int v = DL_LAUNCH_NVTX; v < DL_LAUNCH_VARIANT_COUNT; v++)
        print_figures(cost, v, out);
}

void dl_overhead_report_print(const dl_overhead_report *report, FILE *out)
{
    print_training(report, out);
    print_cuda(report, out);
}

void dl_overhead_report_write(const dl_overhead_report *report, dl_trace_writer *writer)
{
    const dl_overhead *training = report->training;
    dl_trace_writer_metaf(writer, "record_ns", "%.9g",
                          (double)(training->extra.ns / training->records_per_step));
    dl_trace_writer_metaf(writer, "record_low_ns", "%.9g",
                          (double)(training->extra.low_ns / training->records_per_step));
    dl_trace_writer_metaf(writer, "record_high_ns", "%.9g",
                          (double)(training->extra.high_ns / training->records_per_step));
    dl_trace_writer_metaf(writer, "pairs", "%.9g", (double)(training->pairs));
    for (int v = DL_LAUNCH_NVTX; v < DL_LAUNCH_VARIANT_COUNT; v++) {
        char key[64];
        snprintf(key, sizeof key, DL_CAPTURE_COST_KEY ".%s", dl_launch_variant_names[v]);
        DL_AUTOFREE char *text =
            report->cuda != NULL ? dl_capture_figures_text(&report->cuda->figures[v])
                                 : dl_format(DL_CAPTURE_COST_UNKNOWN " (%s)", report->cuda_reason);
        dl_trace_writer_meta(writer, key, text);
    }
}
