#include "calibrate/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/recording_cost.h"
#include "calibrate/step_runs.h"
#include "common/alloc.h"
#include "common/names.h"
#include "trace/dlt.h"
#include "trace/meta.h"

const char *const dl_sample_kind_names[DL_SAMPLE_KINDS] = {"copy",   "average", "update", "barrier",
                                                           "wakeup", "lock",    "slice",  "step"};

/* Samples of dlprof bench that no cost of exchange on the host is fitted to: of links (dlcal links
 * reads them), of launches, and of what averages and messages reach of the memory's bandwidth. */
static const char *const other_samples[] = {"h2d",
                                            "d2h",
                                            "h2d_pageable",
                                            "d2h_pageable",
                                            "h2d_with_d2h",
                                            "p2p",
                                            "all_reduce",
                                            "launch",
                                            "launch_gap",
                                            "launch_wait",
                                            "triad",
                                            "average_ram",
                                            "average_passes",
                                            "average_far",
                                            "fp16_encode",
                                            "fp16_decode",
                                            "1bit_encode",
                                            "1bit_decode",
                                            "gpu_copy",
                                            "gpu_average",
                                            "gpu_fp16_encode",
                                            "gpu_fp16_decode",
                                            "gpu_1bit_encode",
                                            "gpu_1bit_decode"};
enum { OTHER_SAMPLES = sizeof other_samples / sizeof other_samples[0] };

const char *dl_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static dl_status differ(const dl_dataset *dataset, const dl_trace *trace, const char *what,
                        const char *here, const char *there, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                           "%s is '%s', but '%s' in %s: they cannot be fitted together", what, here,
                           there, dataset->path);
}

/* What all traces have to agree on. */
static dl_status check_head(dl_dataset *dataset, const dl_trace *trace, dl_error *err)
{
    const char *model = dl_trace_meta(trace, "model");
    const char *device = dl_trace_meta(trace, "device");
    if (model == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "does not say which model it is of");
    }
    if (device == NULL) device = "unknown device";
    int64_t parameter_bytes, state_bytes;
    dl_status status = dl_trace_meta_read_int(trace, "parameter_bytes", -1, &parameter_bytes, err);
    if (status == DL_OK)
        status = dl_trace_meta_read_int(trace, "state_bytes", -1, &state_bytes, err);
    if (status != DL_OK) return status;
    if (dataset->path == NULL) {
        dataset->path = dl_strdup(trace->path);
        dataset->workload = dl_strdup(model);
        dataset->device = dl_strdup(device);
        dataset->parameter_bytes = parameter_bytes;
        dataset->state_bytes = state_bytes;
        return DL_OK;
    }
    if (strcmp(model, dataset->workload) != 0) {
        return differ(dataset, trace, "the model", model, dataset->workload, err);
    }
    if (strcmp(device, dataset->device) != 0) {
        return differ(dataset, trace, "the device", device, dataset->device, err);
    }
    if (parameter_bytes != dataset->parameter_bytes || state_bytes != dataset->state_bytes) {
        char here[64], there[64];
        snprintf(here, sizeof here, "%lld + %lld", (long long)parameter_bytes,
                 (long long)state_bytes);
        snprintf(there, sizeof there, "%lld + %lld", (long long)dataset->parameter_bytes,
                 (long long)dataset->state_bytes);
        return differ(dataset, trace, "the size of parameters + state", here, there, err);
    }
    return DL_OK;
}

int64_t dl_dataset_disturbed(const dl_trace *trace)
{
    return dl_trace_meta_int(trace, "others_permille", 0, 1000, 0) +
           dl_trace_meta_int(trace, "steal_permille", 0, 1000, 0);
}

static dl_status add_sample(dl_bench_trace *bench, const dl_trace *trace, const dl_record *record,
                            dl_error *err)
{
    const char *name = dl_trace_name(trace, record);
    const int kind = dl_names_find(name, dl_sample_kind_names, DL_SAMPLE_KINDS);
    if (kind < 0 && dl_names_find(name, other_samples, OTHER_SAMPLES) >= 0) return DL_OK;
    if (kind < 0) {
        char hint[160];
        dl_names_hint(hint, sizeof hint, name, dl_sample_kind_names, DL_SAMPLE_KINDS);
        return dl_error_set_at(err, DL_ERR_NAME, trace->path, 0, "unknown micro-benchmark '%s'%s",
                               name, hint);
    }
    if (kind == DL_SAMPLE_STEP &&
        (record->vectors == 0 || record->threads == 0 || record->samples == 0)) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "a sample 'step' does not say how many copies, cores or samples");
    }
    bench->samples[bench->count] = *record;
    bench->samples[bench->count++].name = (uint32_t)kind;
    return DL_OK;
}

static dl_status add_bench(dl_dataset *dataset, const dl_trace *trace, dl_error *err)
{
    dataset->benches = dl_realloc(dataset->benches, dataset->bench_count + 1,
                                  sizeof *dataset->benches, "bench traces");
    dl_bench_trace *bench = &dataset->benches[dataset->bench_count++];
    *bench = (dl_bench_trace){
        .path = dl_strdup(trace->path),
        .snapshot = dl_trace_meta(trace, "snapshot") != NULL,
        .disturbed = dl_dataset_disturbed(trace),
        .samples = dl_calloc(trace->record_count, sizeof *bench->samples, "bench samples")};
    for (size_t i = 0; i < trace->record_count; i++) {
        if (trace->records[i].kind != DL_RECORD_BENCH) continue;
        const dl_status status = add_sample(bench, trace, &trace->records[i], err);
        if (status != DL_OK) return status;
    }
    if (bench->count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "holds no samples that a cost of exchange is fitted to");
    }
    return DL_OK;
}

/* Bench traces say how many cores the machine has for training; a train trace of one worker may
 * have been restricted to one. */
static dl_status take_cores(dl_dataset *dataset, const dl_trace *trace, bool bench, dl_error *err)
{
    int64_t cores;
    const dl_status status = dl_trace_meta_read_int(trace, "cores", 0, &cores, err);
    if (status != DL_OK) return status;
    if (bench && dataset->bench_count > 0 && cores != dataset->cores) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "is of %lld cores, but %s of %lld: they cannot be fitted together",
                               (long long)cores, dataset->benches[0].path,
                               (long long)dataset->cores);
    }
    if (bench || dataset->cores == 0) dataset->cores = cores;
    return DL_OK;
}

static dl_status add_trace(dl_dataset *dataset, const dl_trace *trace, dl_notes *notes,
                           dl_error *err)
{
    static const char *const kinds[] = {"train", "bench", "overhead", "run"};
    const char *kind = dl_trace_meta(trace, "kind");
    const int which = kind != NULL ? dl_names_find(kind, kinds, 4) : -1;
    if (which < 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "is of kind '%s', expected 'train', 'bench', 'overhead' or 'run'",
                               kind != NULL ? kind : "");
    }
    if (which == 2) return dl_recording_cost_take(dataset, trace, err);
    if (which == 3) return dl_recording_cost_take_run(dataset, trace, err);
    if (trace->record_count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0, "holds no records");
    }
    dl_status status = check_head(dataset, trace, err);
    if (status == DL_OK) status = take_cores(dataset, trace, which == 1, err);
    if (status != DL_OK) return status;
    if (!trace->complete) {
        dl_notes_add(notes, "%s: incomplete (the run was cut off); used up to its end",
                     dl_base_name(trace->path));
    }
    return which == 0 ? dl_step_run_add(dataset, trace, notes, err)
                      : add_bench(dataset, trace, err);
}

dl_status dl_dataset_add(dl_dataset *dataset, const char *path, dl_notes *notes, dl_error *err)
{
    dl_trace trace = {0};
    dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    status = add_trace(dataset, &trace, notes, err);
    dl_trace_free(&trace);
    return status;
}

static void free_run(dl_step_run *run)
{
    free(run->path);
    free(run->step_ns);
    free(run->op_ns);
    free(run->records);
    free(run->process);
    free(run->captured);
}

static void free_bench(dl_bench_trace *bench)
{
    free(bench->path);
    free(bench->samples);
}

void dl_dataset_free(dl_dataset *dataset)
{
    for (size_t r = 0; r < dataset->run_count; r++)
        free_run(&dataset->runs[r]);
    for (size_t c = 0; c < dataset->capture_count; c++) {
        free(dataset->captures[c].process);
        free(dataset->captures[c].unknown);
    }
    free(dataset->captures);
    for (size_t b = 0; b < dataset->bench_count; b++)
        free_bench(&dataset->benches[b]);
    for (size_t op = 0; op < dataset->op_count; op++)
        free(dataset->ops[op]);
    free(dataset->runs);
    free(dataset->benches);
    free(dataset->ops);
    free(dataset->workload);
    free(dataset->device);
    free(dataset->path);
    *dataset = (dl_dataset){0};
}

/* How many of a kind are disturbed, and whether to leave these out; says so. */
static bool leaves_out(size_t disturbed, size_t count, const char *kind, dl_notes *notes)
{
    if (disturbed == 0) return false;
    const bool out = 4 * (count - disturbed) >= count;
    dl_notes_add(notes, "%zu of %zu %s ran while others took over %d %% of the processors: %s",
                 disturbed, count, kind, DL_DATASET_DISTURBED / 10,
                 out ? "left out" : "kept, as most did");
    return out;
}

static void leave_out_runs(dl_dataset *dataset, int64_t batch, dl_notes *notes)
{
    size_t disturbed = 0, count = 0, kept = 0;
    for (size_t r = 0; r < dataset->run_count; r++) {
        if (dataset->runs[r].batch != batch) continue;
        count++;
        disturbed += dataset->runs[r].disturbed > DL_DATASET_DISTURBED;
    }
    char kind[64];
    snprintf(kind, sizeof kind, "runs of batch %lld", (long long)batch);
    if (!leaves_out(disturbed, count, kind, notes)) return;
    for (size_t r = 0; r < dataset->run_count; r++) {
        dl_step_run *run = &dataset->runs[r];
        if (run->batch == batch && run->disturbed > DL_DATASET_DISTURBED) {
            free_run(run);
        } else {
            dataset->runs[kept++] = *run;
        }
    }
    dataset->run_count = kept;
}

static void leave_out_benches(dl_dataset *dataset, bool snapshots, dl_notes *notes)
{
    size_t disturbed = 0, count = 0, kept = 0;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        if (dataset->benches[b].snapshot != snapshots) continue;
        count++;
        disturbed += dataset->benches[b].disturbed > DL_DATASET_DISTURBED;
    }
    if (!leaves_out(disturbed, count, snapshots ? "snapshots" : "benches", notes)) return;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        dl_bench_trace *bench = &dataset->benches[b];
        if (bench->snapshot == snapshots && bench->disturbed > DL_DATASET_DISTURBED) {
            free_bench(bench);
        } else {
            dataset->benches[kept++] = *bench;
        }
    }
    dataset->bench_count = kept;
}

void dl_dataset_leave_out_disturbed(dl_dataset *dataset, dl_notes *notes)
{
    size_t count;
    int64_t *batches = dl_dataset_batches(dataset, &count);
    for (size_t i = 0; i < count; i++)
        leave_out_runs(dataset, batches[i], notes);
    free(batches);
    leave_out_benches(dataset, false, notes);
    leave_out_benches(dataset, true, notes);
}

static int by_value(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

int64_t *dl_dataset_batches(const dl_dataset *dataset, size_t *count)
{
    int64_t *batches = dl_calloc(dataset->run_count, sizeof *batches, "batch sizes");
    for (size_t r = 0; r < dataset->run_count; r++)
        batches[r] = dataset->runs[r].batch;
    if (dataset->run_count > 1) qsort(batches, dataset->run_count, sizeof *batches, by_value);
    *count = 0;
    for (size_t r = 0; r < dataset->run_count; r++) {
        if (*count == 0 || batches[*count - 1] != batches[r]) batches[(*count)++] = batches[r];
    }
    return batches;
}
