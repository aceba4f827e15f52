/* Measurements to compare a sweep with: a CSV table, each row one run of one point.
 *
 *   workers,batch,sync,interval,throughput_per_s,source
 *   2,128,average,10,8123,"LeNet, 2 cores"
 *
 * Key columns: cores, workers, batch (of all workers together), sync, its options interval, n,
 * bound, k, moving_rate, block_momentum, accumulate, lag (empty: none), and the scenario's other
 * swept keys (sim/scenario/study.h; `machine` and `costs` by the file's name without folder and
 * .ini). The given keys must identify exactly one point of the scenario, else the row is an error;
 * cores are ignored on GPUs. model, precision, gpu_count, where, compress and host_memory, if
 * given, must match the point too, as far as costs and scenario define them.
 *
 * Values: throughput_per_s or step_s (of a worker; throughput = batch / step; the word `error` if
 * the source has no result: such a row is shown but not compared), each with its standard error in
 * throughput_per_s_err or step_s_err; staleness_mean, _sd, _p50, _p90; staleness_mean_by_worker
 * (one number per worker, separated by semicolons); staleness_counts (applied gradients of
 * staleness 0, 1, 2, ..., separated by semicolons); step_quantiles_s (equally likely quantiles of
 * the step times of all workers in s, separated by semicolons, or the times themselves); source.
 * The columns steps and seed, and uploads_applied, _too_stale, _superseded, _unmerged and merges,
 * describe the run and are not used; others_frac and steal_frac are the fractions of the processors
 * used meanwhile by other programs and by a virtual machine's host. `use` is the row's role in the
 * prediction: `fitted` if costs were fitted to it, `contradiction` if it contradicts other rows or
 * its source, as explained in `note`, else `unseen` or empty.
 *
 * Several rows for one point are several runs: the median of each column is used, and the standard
 * deviation over the runs if no error is given. If all runs have staleness counts, these are
 * summed, like dlsim's replicates, and the statistics are computed from the sum. Quantiles of steps
 * are collected; each run should give as many. */
#ifndef DL_SIM_MEASURED_H
#define DL_SIM_MEASURED_H

#include "common/csv.h"
#include "sim/scenario/study.h"

/* The columns of measured rows, except a scenario's other swept keys; NULL at the end. */
extern const char *const dl_measured_columns[];

/* Reads a table of measured rows as people write and publish it, with the line numbers of its text:
 * separated by commas, ';' (a comma is then the decimal point) or tabs, or in Markdown, with
 * separated thousands ("1,280"), units in the names ("step time (ms)") and other words for the same
 * quantity (mode, "images/sec/GPU", batch_per_gpu). Columns get the names in dl_measured_columns,
 * except swept keys of the study (NULL: none); those that follow from others (speedup, efficiency,
 * MFU) are removed; values have the columns' units and are those of all workers. Other names and
 * texts stay. `csv` must be zeroed. Returns the errors of dl_csv_read; DL_ERR_DATA for several
 * tables, tokens, a batch of all or of each worker, two columns of one meaning, a point that may
 * separate thousands, and without the columns workers and accumulate needed to convert; the error
 * of dl_csv_number for cells of such a column that are no numbers. */
dl_status dl_measured_table_read(dl_csv *csv, const char *path, const dl_study *study,
                                 dl_error *err) DL_MUST_CHECK;

/* Reads a time of a row in s; it may have another unit ("95.6 ms"). *value is NaN if the cell is
 * empty or the column absent. Returns DL_ERR_PARSE, DL_ERR_NAME (the unit) or DL_ERR_RANGE with
 * file:line. */
dl_status dl_measured_seconds(const dl_csv *csv, size_t row, const char *column, double *value,
                              dl_error *err) DL_MUST_CHECK;

/* Role of a measured point in the prediction. */
typedef enum dl_measured_use {
    DL_USE_UNSEEN, /* no cost was fitted to it: it tests the prediction */
    DL_USE_FITTED,
    DL_USE_CONTRADICTION, /* shown, and counted separately */
    DL_USE_ERROR,         /* the source has no value */
    DL_USE_TRACED,        /* the step of the trace that the costs come from; in no table */
    DL_USE_COUNT
} dl_measured_use;

/* "unseen", "fitted", "contradiction", "error", "traced"; NULL after the last. */
extern const char *const dl_measured_use_names[DL_USE_COUNT + 1];

typedef enum dl_measure {
    DL_MEASURE_PER_S,
    DL_MEASURE_PER_S_ERR,
    DL_MEASURE_STEP_S,
    DL_MEASURE_STEP_S_ERR,
    DL_MEASURE_STALENESS_MEAN,
    DL_MEASURE_STALENESS_SD,
    DL_MEASURE_STALENESS_P50,
    DL_MEASURE_STALENESS_P90,
    DL_MEASURE_OTHERS_FRAC,
    DL_MEASURE_STEAL_FRAC,
    DL_MEASURE_COUNT
} dl_measure;

/* Runs during which other programs and the virtual machine's host took more than this fraction of
 * the processors are left out, unless less than a quarter of a point's runs would remain. */
#define DL_MEASURED_DISTURBED_FRAC 0.1

/* Smallest number of a point's runs for statistics of their scatter. */
#define DL_MEASURED_REPEATED_MIN 5

/* Measurements of one point. */
typedef struct dl_measured {
    int runs;                       /* rows of this point with values that are used; 1 for a traced
                                     * step; 0: none, and all values are NaN */
    int failed_runs;                /* rows with the word `error` */
    int disturbed_runs;             /* rows left out, as over DL_MEASURED_DISTURBED_FRAC of the
                                     * processors was taken */
    int without_point;              /* of the first point: rows of the table without a point */
    double value[DL_MEASURE_COUNT]; /* NaN: not given */
    double *runs_per_s;             /* [runs] throughput of each run, ascending; NULL: no runs */
    double *steps_s;                /* [step_count] quantiles of all runs' steps, ascending; NULL:
                                     * not given */
    size_t step_count;
    double *worker_staleness; /* [workers of the point] mean staleness per worker, or NULL */
    char *source, *note;      /* from the first row that has one; NULL: none */
    dl_measured_use use;
    int line;             /* line of the first row in the table */
    double left_out_frac; /* error of the prediction with costs fitted to the other rows; NaN:
                           * unknown */
} dl_measured;

/* Reads the study's table into *measured, an array [study->point_count]. A point that has no row
 * but reproduces a trace of the costs (sim/traced.h) gets the trace's step (DL_USE_TRACED); other
 * points without a row have runs = 0. Rows without a point are omitted if the study is_changed,
 * else an error. Errors name file:line: DL_ERR_NAME (unknown column, no such point), DL_ERR_DATA
 * (no value, several points, rows of one point with several uses), DL_ERR_PARSE, DL_ERR_RANGE. */
dl_status dl_measured_read(dl_measured **measured, const dl_study *study,
                           dl_error *err) DL_MUST_CHECK;

/* Sets left_out_frac of measured[count] from columns line and left_out_error_frac of the table at
 * `path`, as written by dlcal table --rows, for points with a single row, identified by its
 * line. */
dl_status dl_measured_read_left_out(dl_measured *measured, size_t count, const char *path,
                                    dl_error *err) DL_MUST_CHECK;

/* Quantile of the throughput of a point's runs, linearly interpolated; NaN with fewer than
 * DL_MEASURED_REPEATED_MIN runs. */
double dl_measured_quantile(const dl_measured *measured, double fraction);

void dl_measured_free(dl_measured *measured, size_t count);

#endif
