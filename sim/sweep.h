/* Runs all points of a study with all replicates on several threads; one row per point.
 *
 * A replicate is one realisation of the noise. Each is run with the undrawn costs: a row's
 * throughput and mean step are medians over these runs, as a measured point is the median of its
 * runs (a mean would follow the few runs in which the machine was slow), and the speedup is the
 * ratio of two such medians. Samples, span, updates and events are sums. The other figures,
 * including p50 and p99 of the step, are means over the runs; staleness figures are those of pooled
 * counts; maxima are maxima; the usage of the machine is the first run's. Without variation one run
 * is enough. The 95 % interval is that of one such system's throughput. With more than one
 * replicate, each is run again with costs drawn from their standard errors, if they have any, and
 * the interval comes from these runs: with DL_INTERVAL_REPLICATES or more their 2.5 and 97.5 %
 * quantiles; with fewer, center x exp(+- t s), where s is the root mean square of log(run / center)
 * and t is from Student's distribution. So draws never move a row, only widen its interval, which
 * always contains it. The speedup's interval is computed in the same way from the ratio of each run
 * to its baseline's run with the same costs and noise, in which common variation cancels.
 *
 * Compute that was scaled from another GPU (sim/scenario/scaling.h) or estimated ([spread]
 * compute_frac of the costs, doubled) is drawn too: log-normal, with the same draws for all costs
 * of one GPU. So is, log-normal, what runs of one system differ by ([spread] run_frac): alike for
 * all rows, and apart for the runs of baselines; if it is assumed, not for the measured row.
 *
 * With one replicate nothing is drawn. A row with assumptions or run_frac then has a first-order
 * interval: both ends of each cause's range are simulated (dl_sweep_find_influences), and on each
 * side the squared logarithms of their effects on the throughput add up, and 1.96 run_frac.
 * Alternatives of settings are excluded. A row with assumptions whose simulations would take too
 * long has no interval.
 *
 * The speedup's baseline is one worker of mode none with the point's total batch, or its batch per
 * worker if the scenario gives that; it is simulated too (no slow worker, same noise). It is one
 * GPU with the whole model, in the fewest micro-batches with which it fits. If it does not fit even
 * in micro-batches of one sample, or the costs were measured with divided layers, it is one worker
 * of the layout with the fewest GPUs that fits or, where workers divide the parameters, the point
 * with the fewest workers that fits. Rows that differ only in layouts, exchange, recomputation and
 * arithmetic share the baseline whose settings compute fastest; with several GPU models, it uses
 * the fastest GPU. With [generators] it is the same point, generating and training in turn.
 *
 * A point that does not fit into its GPUs' memory is not run; if no baseline fits, there is no
 * speedup.
 *
 * Each run is a job (common/jobs.h) with its own slot for the result, and slots are read in order:
 * the rows do not depend on the number of threads or ranks. */
#ifndef DL_SIM_SWEEP_H
#define DL_SIM_SWEEP_H

#include "common/jobs.h"
#include "sim/pace.h"
#include "sim/run.h"
#include "sim/scenario/study.h"

#define DL_INTERVAL_REPLICATES 40
#define DL_BASELINE_TEXT_BYTES 128

typedef struct dl_row {
    size_t variant; /* index in the study */
    dl_point point;
    dl_run_result mean; /* mean or median (see above); staleness: pooled counts; usage: of replicate
                         * 0 */
    double low_per_s, high_per_s;     /* 95 % interval; NaN if the row has none (see above) */
    double speedup, efficiency;       /* efficiency = speedup / dl_point_worth */
    const char *above;                /* reason why efficiency is above 1; NULL: it is not, or by
                                       * at most 0.2 %, or the baseline divides the model
                                       * differently */
    double speedup_low, speedup_high; /* 95 % interval, like low_per_s */
    double *rates; /* [rate_count] throughputs of the runs behind the interval, in the order of
                    * draws: equal indices of two rows belong to the same draw */
    size_t rate_count;
    double *steps_s; /* [step_count] quantiles of the steps of all runs with undrawn costs
                      * (dl_run_result), ascending; NULL: none */
    size_t step_count;
    double staleness_mean, staleness_sd; /* NaN if the mode has no staleness */
    double staleness_p50, staleness_p90, staleness_p99, staleness_max;
    double *worker_staleness; /* [workers] mean staleness; NULL if the mode has no distribution */
    dl_origin origin;         /* least reliable origin of the costs used */
    bool extrapolated;        /* the point or its baseline is outside the measured range */
    int baseline_gpus;        /* number of GPUs of the baseline */
    int64_t baseline_parts;   /* micro-batches that the baseline accumulates, >= 1 */
    bool baseline_is_own;     /* the baseline has the row's settings and GPU model */
    char baseline_text
        [DL_BASELINE_TEXT_BYTES]; /* describes the baseline; "": one worker with the micro-batches
                                   * of the costs */
    double left_out_s;            /* from dl_traced_left_out_s */
    double trace_error_frac;      /* from dl_traced_worst of the variant; NaN also with
                                   * no_influences */
    bool contradicts_trace;       /* from dl_traced_contradicts; false for one worker */
    dl_gpu_memory memory;         /* memory of the fullest GPU; NaN if unknown */
    double equal_layouts; /* number of layouts equivalent to an advised row; otherwise NaN */
    char *error; /* reason why the point was not run, then all figures are NaN; otherwise NULL */
} dl_row;

typedef enum dl_influence_kind {
    DL_INFLUENCE_COMPUTE, /* scaled or estimated compute; low end: faster */
    DL_INFLUENCE_ASSUMPTION,
} dl_influence_kind;

/* Effect of an assumption, together with all others of the same cause, on a row's throughput:
 * relative change at the low and at the high end of its interval. For a setting, at_low is the
 * effect of the alternative and at_high is unchanged. */
typedef struct dl_influence {
    size_t row; /* the row, among those tried, with the largest change */
    dl_influence_kind kind;
    const dl_assumption *assumption; /* the first relevant assumption of its cause, from the row's
                                      * variant; borrowed from the study; NULL for
                                      * DL_INFLUENCE_COMPUTE */
    double at_low, at_high;
} dl_influence;

/* The larger absolute change of the two ends. */
double dl_influence_size(const dl_influence *influence);

typedef struct dl_sweep {
    dl_row *rows; /* [row_count], in the order of variants, then points */
    size_t row_count;
    int64_t runs, events;
    double seconds;           /* wall time */
    dl_influence *influences; /* [influence_count] one per cause of assumptions, largest first */
    size_t influence_count;
    size_t influence_rows_skipped; /* rows not tried because they would have taken too long */
    dl_journal *journal; /* or NULL; to be ended (dl_sweep_end_journal) once results are stored */
} dl_sweep;

typedef struct dl_sweep_config {
    int threads;             /* number of threads, >= 1 */
    dl_progress_fn progress; /* progress in runs; may be NULL */
    void *user;
    dl_cluster *cluster; /* ranks that share the runs; NULL: this process alone */
    const char *journal; /* file of finished runs, from which a sweep resumes; NULL: none */
    uint64_t key;        /* dl_study_key of the study, for the journal */
    dl_pace *pace;       /* limit on run time, for rank 0; NULL: none */
    double repeats;      /* for `pace`: expected number of similar sweeps after this one */
    bool no_influences;  /* skips dl_sweep_find_influences and the traces' own points: only
                          * replicates then give intervals */
    bool no_baselines;   /* no baselines are run: rows have no speedup */
} dl_sweep_config;

/* Costs that some point needs and the cost file lacks; the caller frees the text; NULL if none. For
 * a study, sets *path to the name of that file (borrowed). */
char *dl_sweep_missing(const dl_scenario *scenario, const dl_costs *costs);
char *dl_study_missing(const dl_study *study, const char **path);

/* Runs all points on all ranks; only rank 0 gets rows. DL_ERR_DATA if costs are missing; otherwise
 * the errors of dl_run, dl_jobs_run and the journal. Release with dl_sweep_free. */
dl_status dl_sweep_run(dl_sweep *sweep, const dl_study *study, const dl_sweep_config *config,
                       dl_error *err) DL_MUST_CHECK;

/* Finds the effects of assumptions on the throughput, cause by cause. Simulates again, for each
 * variant and mode, the row with most GPUs (or workers on cores), and each row with one replicate,
 * whose interval it sets. The runs of a row have 4 to 40 steps, at most the scenario's, and about
 * as many events as the row's own runs or, if that is more, its share of 300 000; a row that needs
 * many more is skipped. Called at the end of dl_sweep_run, on all ranks; in its journal these runs
 * follow the sweep's `runs`. Returns the errors of dl_jobs_run. */
dl_status dl_sweep_find_influences(dl_sweep *sweep, const dl_study *study,
                                   const dl_sweep_config *config, int64_t runs,
                                   dl_error *err) DL_MUST_CHECK;

/* Removes the journal, once the results are stored. */
void dl_sweep_end_journal(dl_sweep *sweep);

void dl_sweep_free(dl_sweep *sweep);

#endif
