/* Columns of tables and pages that files do not have, and that therefore have no name. */
#include <math.h>

#include "common/alloc.h"
#include "sim/report/columns.h"
#include "sim/report/row_text.h"

#define LOST_FRAC 0.05 /* smaller fractions of unapplied work may be scatter of step times */
#define DIFFERS 1.05   /* smallest ratio of a worker's staleness to the mean that is shown */

static dl_datum bound_of(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_result *r = row;
    char text[DL_BOUND_TEXT_BYTES];
    if (r->row->error != NULL) return dl_datum_none();
    return dl_datum_owned_text(dl_strdup(dl_result_bound(r, text)));
}

static dl_datum settings_of(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_result *r = row;
    char text[DL_REPORT_OPTIONS_BYTES];
    dl_report_options(text, sizeof text, r->study, r->row);
    return dl_datum_owned_text(dl_strdup(text));
}

/* Number of GPUs if it differs from that of the workers. */
static dl_datum gpus_of(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_point *point = &((const dl_result *)row)->row->point;
    const int gpus = dl_point_gpus(point);
    return gpus != point->workers ? dl_datum_count(gpus) : dl_datum_none();
}

/* Mean staleness of the stalest worker; empty unless it is at least DIFFERS times the overall
 * mean. */
static dl_datum stalest_of(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_result *r = row;
    double most = 0;
    for (int w = 0; r->row->worker_staleness != NULL && w < r->row->mean.workers; w++)
        most = fmax(most, r->row->worker_staleness[w]);
    return dl_datum_number(most > DIFFERS * r->row->staleness_mean ? most : (double)NAN);
}

static dl_datum interval_of(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_row *r = ((const dl_result *)row)->row;
    if (isnan(r->low_per_s)) return dl_datum_none();
    return dl_datum_owned_text(
        dl_format("%s to %s", DL_RATE_TEXT(r->low_per_s), DL_RATE_TEXT(r->high_per_s)));
}

/* The 99 % quantile of steps that vary. */
static dl_datum slow_step_of(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_result *r = row;
    return r->variant->scenario.noise == DL_NOISE_NONE ? dl_datum_none()
                                                       : dl_datum_number(r->row->mean.step_p99_s);
}

/* A measured step derived as batch / throughput equals a worker's step only if no work is lost. The
 * column is therefore empty if the simulation loses work. */
static dl_datum measured_step_of(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_result *r = row;
    const double applied_frac =
        r->row->mean.throughput_per_s * r->row->mean.step_mean_s / (double)r->row->point.batch;
    if (r->measured->use == DL_USE_ERROR) return dl_datum_text("error");
    return dl_datum_number(applied_frac < 1 - LOST_FRAC ? (double)NAN
                                                        : r->measured->value[DL_MEASURE_STEP_S]);
}

/* Returns the counts of applied uploads by staleness 0, 1, ..., as means over the runs like the
 * other counts. */
static dl_datum applied_by_staleness(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_run_result *mean = &((const dl_result *)row)->row->mean;
    double total = 0;
    if (mean->syncer == NULL) return dl_datum_none();
    double *counts = dl_calloc((size_t)mean->staleness_bins, sizeof *counts, "uploads");
    for (int bin = 0; bin < mean->staleness_bins; bin++) {
        for (int i = 0; i < mean->staleness_rows; i++)
            counts[bin] += (double)mean->staleness[i * mean->staleness_bins + bin];
        total += counts[bin];
    }
    for (int bin = 0; bin < mean->staleness_bins && mean->syncer->applied > 0; bin++)
        counts[bin] *= mean->syncer->applied / total;
    return dl_datum_owned_list(counts, mean->staleness_bins);
}

const dl_column dl_table_columns[] = {
    {DL_WORD("options"), .get = settings_of},
    {.heading = "95 % interval", .get = interval_of},
    {DL_TIME("step p99"), .get = slow_step_of},
    {DL_TIME("measured step"), .get = measured_step_of},
    {DL_PLAIN("GPUs", 0), .get = gpus_of},
    {DL_WORD("bound by"), .get = bound_of},
    {DL_PLAIN("stalest worker", 2), .get = stalest_of},
    {DL_WORD("by staleness"), .get = applied_by_staleness},
};
const size_t dl_table_column_count = DL_LENGTH(dl_table_columns);
