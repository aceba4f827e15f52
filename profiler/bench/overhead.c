#include "profiler/bench/overhead.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/units.h"
#include "profiler/recorder.h"
#include "trace/distribution.h"

/* Length of one run, aimed at: the shorter, the less the machine drifts within a pair. */
#define RUN_S 0.05
#define PAIRS_MAX 1000
#define PROBE_STEPS 50

/* One run; *step_ns is its wall time over its steps. */
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
    dl_train_result result = {0};
    status = dl_train_run(&train, config->data, traced ? &observer : NULL, &result, err);
    if (status == DL_OK && traced) status = dl_recorder_finish(&recorder, err);
    if (status == DL_OK) *step_ns = dl_s_to_ns(result.seconds) / (double)steps;
    dl_train_result_free(&result);
    dl_recorder_free(&recorder);
    return status;
}

/* Records of the last trace over its steps. */
static dl_status count_records(const dl_overhead_config *config, dl_overhead *overhead,
                               dl_error *err)
{
    dl_trace trace = {0};
    const dl_status status = dl_trace_read(&trace, config->path, err);
    if (status != DL_OK) return status;
    overhead->records_per_step =
        (double)trace.record_count / (double)(overhead->steps * config->train->workers);
    dl_trace_free(&trace);
    return DL_OK;
}

static dl_status run_pairs(const dl_overhead_config *config, const dl_overhead *plan,
                           double *without_ns, double *extra_ns, dl_error *err)
{
    dl_random random;
    dl_random_init(&random, config->train->seed, 0, 0, 0);
    for (int pair = 0; pair < plan->pairs; pair++) {
        const bool traced_first = dl_random_below(&random, 2) == 1;
        double step_ns[2]; /* without, with */
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

/* The median lies below the value of rank `low` (from 0) if at most `low` of n fair coins show
 * heads; the interval misses it on either side with that probability. */
size_t dl_overhead_median_interval(size_t count, double confidence)
{
    const double n = (double)count;
    double tail = 0;
    size_t low = 0;
    for (size_t k = 0; 2 * k < count; k++) {
        const double heads = (double)k;
        tail += exp(lgamma(n + 1) - lgamma(heads + 1) - lgamma(n - heads + 1) - n * log(2));
        if (2 * tail > 1 - confidence) break;
        low = k;
    }
    return low;
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
    double *without_ns = dl_calloc((size_t)made.pairs, sizeof *without_ns, "overhead");
    double *extra_ns = dl_calloc((size_t)made.pairs, sizeof *extra_ns, "overhead");
    status = run_pairs(config, &made, without_ns, extra_ns, err);
    if (status == DL_OK) status = count_records(config, &made, err);
    if (status == DL_OK) {
        const size_t pairs = (size_t)made.pairs;
        const size_t low = dl_overhead_median_interval(pairs, DL_OVERHEAD_CONFIDENCE);
        made.step_ns = dl_distribution_of(without_ns, pairs).p50;
        made.extra_ns = dl_distribution_of(extra_ns, pairs).p50;
        made.low_ns = extra_ns[low];
        made.high_ns = extra_ns[pairs - 1 - low];
        *overhead = made;
    }
    free(extra_ns);
    free(without_ns);
    return status;
}
