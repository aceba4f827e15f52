#include "profiler/bench/bench.h"

#include <math.h>

#include "common/alloc.h"
#include "common/units.h"
#include "profiler/bench/bench_internal.h"
#include "profiler/recorder.h"

#define WARM_UP_STEPS 2
#define STEPS_MIN 8 /* minimum steps of a run, after the warm-up */
#define STEPS_MAX 5000
#define PROBE_STEPS 6 /* steps of the run that measures the step time */
#define ROUNDS_MAX 20

/* Copies run on all cores before the measured ones, for at most this time and this share of the
 * budget: after a period of little work the host of a virtual machine was seen to run its
 * processors one after another for up to 0.3 s. */
#define SPREAD_NS 400000000LL
#define SPREAD_SHARE 0.2

/* Target and minimum time of one copy in a run. Copies that share a core need several turns on
 * it. */
#define RUN_NS 200000000LL
#define RUN_NS_MIN 30000000LL

typedef struct step_case {
    int copies, batch;
    int64_t steps; /* per copy, without warm-up */
} step_case;

static bool is_on_gpu(const dl_bench_config *config)
{
    return config->kind == DL_BENCH_GPU_STEPS;
}

/* Number of units that the copies share: cores, or 1 for a GPU. */
static int units(const dl_bench_config *config)
{
    return is_on_gpu(config) ? 1 : dl_train_cores(&config->train);
}

/* Runs the copies; *recorder then holds their steps, and the caller frees it. */
static dl_status run_copies(const dl_bench_config *config, const step_case *at,
                            dl_recorder *recorder, dl_error *err)
{
    dl_train_config run = config->train;
    run.sync = DL_SYNC_NONE;
    run.workers = at->copies;
    run.batch = at->copies * at->batch;
    run.steps = at->steps + WARM_UP_STEPS;
    run.slow = NULL;
    run.server_threads = 1;
    run.in_step = is_on_gpu(config);
    run.devices = is_on_gpu(config) ? 1 : 0;
    dl_status status = dl_recorder_open(recorder, &run, NULL, err);
    if (status != DL_OK) return status;
    const dl_train_observer observer = dl_recorder_observer(recorder);
    DL_SCOPED(dl_train_result) result = {0};
    status = dl_train_run(&run, config->data, &observer, &result, err);
    if (status != DL_OK) dl_recorder_free(recorder);
    return status;
}

static void add_steps(dl_bench *bench, const dl_bench_config *config, const step_case *at,
                      const dl_recorder *recorder)
{
    const int shared = units(config);
    const int64_t common_end_ns = dl_recorder_common_end_ns(recorder);
    for (int w = 0; w < at->copies; w++) {
        const dl_recorder_step *steps = recorder->workers[w].steps;
        const int64_t done = dl_recorder_steps_done(recorder, w);
        for (int64_t s = WARM_UP_STEPS; s < done; s++) {
            if (steps[s].end_ns > common_end_ns) break;
            const int64_t duration_ns =
                is_on_gpu(config) ? steps[s].compute_ns : steps[s].duration_ns;
            dl_bench_add(
                bench, DL_BENCH_STEP,
                (dl_record){.worker = (uint32_t)w,
                            .step = (uint32_t)s,
                            .samples = (uint32_t)at->batch,
                            .vectors = (uint32_t)at->copies,
                            .threads = (uint32_t)(at->copies < shared ? at->copies : shared),
                            .start_ns = steps[s].end_ns - steps[s].duration_ns,
                            .duration_ns = duration_ns});
        }
    }
}

/* Median step time of one copy alone. */
static dl_status probe(const dl_bench_config *config, int batch, double *step_ns, dl_error *err)
{
    const step_case alone = {.copies = 1, .batch = batch, .steps = PROBE_STEPS};
    dl_recorder recorder = {0};
    const dl_status status = run_copies(config, &alone, &recorder, err);
    if (status != DL_OK) return status;
    *step_ns = dl_recorder_step_times(&recorder).p50;
    dl_recorder_free(&recorder);
    return DL_OK;
}

/* Numbers of concurrent copies to measure. */
typedef struct copy_counts {
    int count;
    int copies[DL_TRAIN_WORKERS_MAX];
} copy_counts;

static void list_copies(const dl_bench_config *config, copy_counts *list)
{
    const int cores = dl_train_cores(&config->train);
    *list = (copy_counts){0};
    if (is_on_gpu(config)) {
        for (int k = 1; k <= config->workers_max; k *= 2)
            list->copies[list->count++] = k;
        return;
    }
    if (config->kind != DL_BENCH_SNAPSHOT) {
        for (int k = 1; k <= config->workers_max; k++)
            list->copies[list->count++] = k;
        return;
    }
    for (int k = 2; k <= cores && k <= config->workers_max; k *= 2)
        list->copies[list->count++] = k;
    if (list->count == 0) list->copies[list->count++] = 1;
}

/* Time slices of one round of all cases for one batch size: copies beyond the number of cores, or
 * beyond one on a GPU, take turns. */
static double time_slices(const dl_bench_config *config, const copy_counts *list)
{
    const int shared = units(config);
    double sum = 0;
    for (int i = 0; i < list->count; i++)
        sum += (list->copies[i] + shared - 1) / shared;
    return sum;
}

/* Share of the GPU's memory for copies; the rest is for the libraries' scratch memory and the
 * driver. */
#define GPU_MEMORY_SHARE 0.8

static dl_status find_room(const dl_bench_config *config, double *bytes, dl_error *err)
{
    *bytes = INFINITY;
    if (!is_on_gpu(config)) return DL_OK;
    dl_device_info info;
    const dl_status status = config->train.device->describe(config->train.first_device, &info, err);
    if (status == DL_OK) *bytes = GPU_MEMORY_SHARE * (double)info.memory_bytes;
    return status;
}

/* Whether the copies fit into room_bytes; a single copy always counts as fitting. */
static bool fits(const dl_bench_config *config, int copies, int batch, double room_bytes)
{
    const double each = (double)config->replica_bytes + (double)config->activation_bytes * batch;
    return copies == 1 || copies * each <= room_bytes;
}

/* Lists the *count cases that fit into memory; bench->unfit counts the others. */
static dl_status make_cases(dl_bench *bench, const dl_bench_config *config, const copy_counts *list,
                            double run_ns, step_case *cases, uint32_t *count, dl_error *err)
{
    double room_bytes;
    const dl_status found = find_room(config, &room_bytes, err);
    if (found != DL_OK) return found;
    *count = 0;
    for (int b = 0; b < config->batch_count; b++) {
        double step_ns;
        dl_status status = probe(config, config->batches[b], &step_ns, err);
        if (status != DL_OK) return status;
        double steps = run_ns / step_ns - WARM_UP_STEPS;
        if (steps < STEPS_MIN) steps = STEPS_MIN;
        if (steps > STEPS_MAX) steps = STEPS_MAX;
        for (int i = 0; i < list->count; i++) {
            if (!fits(config, list->copies[i], config->batches[b], room_bytes)) {
                bench->unfit++;
                continue;
            }
            cases[(*count)++] = (step_case){
                .copies = list->copies[i], .batch = config->batches[b], .steps = (int64_t)steps};
        }
    }
    return DL_OK;
}

/* Keeps the cores busy with copies, so that the host runs them all at once (SPREAD_NS). */
static dl_status spread(const dl_bench_config *config, int64_t budget_ns, const step_case *first,
                        dl_error *err)
{
    const int cores = dl_train_cores(&config->train);
    const int64_t until_ns =
        dl_clock_ns() + (int64_t)fmin(SPREAD_NS, SPREAD_SHARE * (double)budget_ns);
    step_case all = *first;
    all.copies = config->workers_max < cores ? config->workers_max : cores;
    dl_status status = DL_OK;
    while (status == DL_OK && dl_clock_ns() < until_ns && !dl_train_stopped(&config->train)) {
        dl_recorder recorder = {0};
        status = run_copies(config, &all, &recorder, err);
        if (status == DL_OK) dl_recorder_free(&recorder);
    }
    return status;
}

static dl_status run_round(dl_bench *bench, const dl_bench_config *config, const step_case *cases,
                           const uint32_t *order, uint32_t count, dl_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (dl_train_stopped(&config->train)) break;
        const step_case *next = &cases[order[i]];
        dl_recorder recorder = {0};
        const dl_status status = run_copies(config, next, &recorder, err);
        if (status != DL_OK) return status;
        add_steps(bench, config, next, &recorder);
        dl_recorder_free(&recorder);
    }
    return DL_OK;
}

/* Cost of sharing the machine: k concurrent copies of the model's step without exchange.
 *
 * Copies are pinned as training's workers are. A copy's first steps are not counted, nor are steps
 * that ended after the first copy was done, when fewer than k were running. */

/* Measures every k of list_copies and every batch size, in several rounds, within about
 * budget_ns. */
static dl_status bench_step(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                            dl_error *err)
{
    copy_counts list;
    list_copies(config, &list);
    uint32_t count = (uint32_t)(config->batch_count * list.count);
    const double round_slices = time_slices(config, &list) * config->batch_count;
    int rounds = (int)((double)budget_ns / (round_slices * RUN_NS));
    if (rounds < 1 || config->kind == DL_BENCH_SNAPSHOT) rounds = 1;
    if (rounds > ROUNDS_MAX) rounds = ROUNDS_MAX;
    DL_AUTOFREE step_case *cases = dl_calloc(count, sizeof *cases, "step cases");
    DL_SCOPED(dl_bench_order) order;
    double run_ns = (double)budget_ns / (rounds * round_slices);
    if (run_ns < RUN_NS_MIN) run_ns = RUN_NS_MIN;
    dl_status status = make_cases(bench, config, &list, run_ns, cases, &count, err);
    dl_bench_order_init(&order, count, config->train.seed, DL_BENCH_STEP);
    /* No spread before a snapshot, which must find the cores in the state that a training run
     * started at the same time would find. */
    if (status == DL_OK && config->kind != DL_BENCH_SNAPSHOT && !is_on_gpu(config))
        status = spread(config, budget_ns, cases, err);
    /* Other load on the machine reduces the rounds: none but the first starts after the budget is
     * exceeded by a quarter. */
    const int64_t latest_ns = dl_clock_ns() + budget_ns + budget_ns / 4;
    for (int round = 0; status == DL_OK && round < rounds; round++) {
        if (round > 0 && dl_clock_ns() > latest_ns) break;
        status = run_round(bench, config, cases, dl_bench_order_next(&order), count, err);
        dl_progress_update(&bench->progress, (double)(round + 1) / rounds);
    }
    return status;
}

void dl_bench_print_gaps(const dl_bench *bench, FILE *out)
{
    if (bench->unfit > 0) {
        fprintf(out,
                "%d cases of concurrent steps omitted: they do not fit into the GPU's memory\n",
                bench->unfit);
    }
    for (int g = 0; g < bench->gap_count; g++) {
        const dl_bench_gap *gap = &bench->gaps[g];
        fprintf(out, "%s of %d threads: no sample in bursts as short as asked for, ",
                dl_bench_names[gap->name], gap->threads);
        if (gap->found) {
            fprintf(out, "measured in one of %.2g s\n", gap->longest_s);
        } else {
            fprintf(out, "nor in one of %.2g s: not measured; are the cores busy?\n",
                    gap->longest_s);
        }
    }
}

/* The parts of each kind, and their shares of the time. */
static const struct {
    const char *what;
    double share;
    dl_status (*run)(dl_bench *, const dl_bench_config *, int64_t, dl_error *);
} parts[][3] = {
    [DL_BENCH_WHOLE] = {{"bench: exchange", 0.4, dl_bench_exchange},
                        {"bench: waiting", 0.12, dl_bench_sync},
                        {"bench: steps side by side", 0.48, bench_step}},
    [DL_BENCH_SNAPSHOT] = {{"snapshot: steps side by side", 0.6, bench_step},
                           {"snapshot: exchange", 0.4, dl_bench_exchange}},
    [DL_BENCH_HOST] = {{"bench: exchange on the host", 0.67, dl_bench_exchange},
                       {"bench: waiting on the host", 0.33, dl_bench_sync}},
    [DL_BENCH_GPU_STEPS] = {{"bench: steps side by side on a GPU", 0.9, bench_step},
                            {"bench: passes of a GPU", 0.1, dl_bench_pass}},
};

dl_status dl_bench_run(dl_bench *bench, const dl_bench_config *config, dl_error *err)
{
    dl_status status = DL_OK;
    for (int i = 0; status == DL_OK && i < 3 && parts[config->kind][i].run != NULL; i++) {
        const double seconds = config->seconds * parts[config->kind][i].share;
        bench->progress.what = parts[config->kind][i].what;
        status = parts[config->kind][i].run(bench, config, (int64_t)dl_s_to_ns(seconds), err);
    }
    dl_progress_end(&bench->progress);
    return status;
}
