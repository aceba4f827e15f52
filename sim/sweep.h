/* All points of a study, all replicates, on several threads; and one row for each point.
 *
 * A replicate is one course of the noise. Each is run with the costs as they are: a row's
 * throughput, mean step and speedup are medians over these, as a measured point is the median of
 * its runs (a mean would follow the few runs in which the machine was slow). Its other figures are
 * means of these, p50 and p99 of the step too; staleness figures are of their pooled counts; maxima
 * are maxima. Where nothing varies, one run is enough. The 95 % interval is for the throughput of
 * one such system. With more than one replicate, each is run once more with costs drawn from their
 * standard errors, if they have any, and the interval is of these runs: with DL_INTERVAL_REPLICATES
 * or more their 2.5 and 97.5 % quantiles, with fewer the center times exp(+- t s), s the root mean
 * square of log(run / center) and t of Student's distribution. So draws never move a row, only
 * widen its interval, which always holds it. That of the speedup is, in the same way, of each run's
 * ratio to its baseline's with the same costs and the same noise: what both share cancels.
 *
 * Where compute was scaled from another GPU (sim/scenario/scaling.h) or estimated ([spread]
 * compute_frac of the costs, twice of which counts), it is drawn too: log-normal, the same draws for
 * all costs that are of one GPU.
 *
 * With one replicate nothing is drawn. Then a row of which something was assumed has the interval
 * that follows to first order: of each cause both ends of its range are simulated
 * (dl_sweep_find_influences), and on each side the squares of the logarithms of what they do to the
 * throughput add up. A setting's alternative is no part of it.
 *
 * The speedup's baseline is one worker of mode none with the point's total batch, or its batch per
 * worker if the scenario gives that; it is simulated along (no slow worker, same noise). It is one GPU
 * with the whole model or, where a worker is several GPUs and one has not memory enough, such a worker.
 *
 * A point that does not fit into its GPUs' memory is not run; nor is such a baseline, without which
 * there is no speedup.
 *
 * Each run is its own job (common/jobs.h) and leaves its result in its own place, and places are
 * read in order: the rows depend on the number of neither threads nor ranks.
 */
#ifndef DL_SIM_SWEEP_H
#define DL_SIM_SWEEP_H

#include "common/jobs.h"
#include "sim/pace.h"
#include "sim/run.h"
#include "sim/scenario/study.h"

#define DL_INTERVAL_REPLICATES 40

typedef struct dl_row {
    size_t variant; /* of the study */
    dl_point point;
    dl_run_result mean; /* or median, see above; staleness: pooled counts; usage: of replicate 0 */
    double low_per_s, high_per_s;     /* NaN with one replicate, unless something was assumed
                                         that moves it */
    double speedup, efficiency;       /* efficiency = speedup / dl_point_worth */
    const char *above;                /* why efficiency is above 1; NULL: it is not */
    double speedup_low, speedup_high; /* as low_per_s */
    double *rates; /* [rate_count] throughputs of the runs that the interval is of, in the order of
                      draws: equal numbers of two rows have the same draw */
    size_t rate_count;
    double staleness_mean, staleness_sd; /* NaN where the mode has none */
    double staleness_p50, staleness_p90, staleness_p99, staleness_max;
    double *worker_staleness; /* [workers] means, NULL where the mode has no distribution */
    dl_origin origin;         /* least trustworthy of the costs used */
    bool extrapolated;        /* the point, or its baseline */
    int baseline_gpus;        /* GPUs that the baseline is */
    double left_out_s;        /* dl_traced_left_out_s */
    double trace_error_frac;  /* dl_traced_worst of the variant; NaN also with no_influences */
    bool contradicts_trace;   /* dl_traced_contradicts; false for one worker */
    dl_gpu_memory memory;     /* NaN if not known */
    char *error;              /* why the point was not run, else NULL; then all figures are NaN */
} dl_row;

typedef enum dl_influence_kind {
    DL_INFLUENCE_COMPUTE, /* which was scaled or estimated; low: faster */
    DL_INFLUENCE_ASSUMPTION,
} dl_influence_kind;

/* Influence of an assumption, with all others of its cause, on a row's throughput: at the low and
 * at the high end of its interval, over that at the assumed value, minus 1. For a setting, at_low
 * is with the alternative and at_high unchanged. */
typedef struct dl_influence {
    size_t row; /* of those that were tried, the one that it moves most */
    dl_influence_kind kind;
    const dl_assumption *assumption; /* of its cause the first that matters; the row's variant's,
                                        borrowed from the study */
    double at_low, at_high;
} dl_influence;

/* The larger of the two changes. */
double dl_influence_size(const dl_influence *influence);

typedef struct dl_sweep {
    dl_row *rows; /* [row_count], in the order of variants, then points */
    size_t row_count;
    int64_t runs, events;
    double seconds;           /* wall time */
    dl_influence *influences; /* [influence_count] one for each assumed value, the largest first */
    size_t influence_count;
    size_t influence_rows_skipped; /* rows that would have taken too long to try */
    dl_journal *journal; /* to be ended when the results are safe (dl_sweep_end_journal); or NULL */
} dl_sweep;

typedef struct dl_sweep_config {
    int threads;             /* >= 1 */
    dl_progress_fn progress; /* of runs; may be NULL */
    void *user;
    dl_cluster *cluster; /* the ranks that share the runs; NULL: this process alone */
    const char *journal; /* file of finished runs, from which a sweep goes on; NULL: none */
    uint64_t key;        /* dl_study_key of the study; of the journal */
    dl_pace *pace;       /* that the runs keep to, of rank 0; NULL: as long as they take */
    bool no_influences;  /* dl_sweep_find_influences is left out, and traces' own points: then only
                            replicates make intervals */
    bool no_baselines;   /* rows have no speedup */
} dl_sweep_config;

/* Costs that some point needs and the file lacks, as a text that is the caller's to free; NULL if
 * none. Of a study, *path is then that of their file (borrowed). */
char *dl_sweep_missing(const dl_scenario *scenario, const dl_costs *costs);
char *dl_study_missing(const dl_study *study, const char **path);

/* Runs everything, on all ranks; only rank 0 gets rows. DL_ERR_DATA if costs are missing or a step
 * takes no time; the errors of dl_jobs_run. Release with dl_sweep_free. */
dl_status dl_sweep_run(dl_sweep *sweep, const dl_study *study, const dl_sweep_config *config,
                       dl_error *err) DL_MUST_CHECK;

/* Finds what the assumptions do to the results, cause by cause: simulates again of each variant and
 * mode the row with most workers, and each row of one replicate, which gets its interval, up to 40
 * of its steps; as many events as the row itself had, or its part of 300 000, but 4 steps at least.
 * dl_sweep_run does it at its end, on all ranks; in its journal these runs follow those of the
 * sweep, which are `runs`. Fails as dl_jobs_run. */
dl_status dl_sweep_find_influences(dl_sweep *sweep, const dl_study *study,
                                   const dl_sweep_config *config, int64_t runs,
                                   dl_error *err) DL_MUST_CHECK;

/* The results are safe: the journal is removed. */
void dl_sweep_end_journal(dl_sweep *sweep);

void dl_sweep_free(dl_sweep *sweep);

#endif
