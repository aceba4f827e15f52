#include "calibrate/exchange_runs.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

#define TRIM_FRAC 0.1 /* of the samples of a case, at each end */

/* Whether a sample belongs to the case of the point. */
static bool is_of(const dl_record *sample, dl_sample_kind kind, const dl_charge_point *point)
{
    return sample->name == (uint32_t)kind && sample->bytes == point->bytes &&
           sample->vectors == point->vectors && sample->phase == point->phase &&
           (sample->threads > 0 ? sample->threads : 1) == point->threads;
}

/* The trimmed mean of a case's samples in one trace; 0 if there are none. */
static double case_time_ns(const dl_bench_trace *bench, dl_sample_kind kind,
                           const dl_charge_point *point)
{
    double *times = dl_calloc(bench->count, sizeof *times, "bench samples");
    size_t count = 0;
    for (size_t i = 0; i < bench->count; i++) {
        if (is_of(&bench->samples[i], kind, point))
            times[count++] = (double)bench->samples[i].duration_ns;
    }
    gsl_sort(times, 1, count);
    double mean = count > 0 ? gsl_stats_trmean_from_sorted_data(TRIM_FRAC, times, 1, count) : 0;
    free(times);
    return mean;
}

static float run_factor(const dl_bench_trace *bench, dl_sample_kind kind,
                        const dl_charge_line *line, uint32_t vectors, int64_t parameter_bytes)
{
    double sum = 0;
    int cases = 0;
    for (size_t i = 0; i < line->count; i++) {
        const dl_charge_point *point = &line->points[i];
        if (point->bytes != (uint64_t)parameter_bytes || point->vectors != vectors ||
            point->threads != 1) {
            continue;
        }
        const double time_ns = case_time_ns(bench, kind, point);
        if (!(time_ns > 0)) continue;
        sum += time_ns / point->time_ns.value;
        cases++;
    }
    return cases > 0 ? (float)(sum / cases) : 1;
}

void dl_exchange_runs_fit(const dl_dataset *dataset, const dl_charges *charges, dl_costs *costs)
{
    if (dataset->bench_count < 2) return;
    costs->exchange_runs =
        dl_calloc(dataset->bench_count, sizeof *costs->exchange_runs, "exchange runs");
    costs->exchange_run_count = dataset->bench_count;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        const dl_bench_trace *bench = &dataset->benches[b];
        costs->exchange_runs[b] = (dl_exchange_run){
            .copy = run_factor(bench, DL_SAMPLE_COPY, &charges->lines[DL_CHARGE_COPY], 0,
                               dataset->parameter_bytes),
            .average = run_factor(bench, DL_SAMPLE_AVERAGE, &charges->lines[DL_CHARGE_AVERAGE],
                                  DL_CHARGE_VECTORS_AVERAGE, dataset->parameter_bytes),
            .update = run_factor(bench, DL_SAMPLE_UPDATE, &charges->lines[DL_CHARGE_UPDATE],
                                 DL_CHARGE_VECTORS_UPDATE, dataset->parameter_bytes),
        };
    }
}
