/* Advice: the number of workers, mode, batch, averaging interval and exchange to train with, within
 * given limits. The points are simulated; nothing is interpolated.
 *
 * The search: every number of workers with every mode at the scenario's other settings; then, in
 * rounds from the best of these, and from the fastest beyond a limit of time, price or efficiency,
 * every change of one setting (overlap and buckets together), until none gains; then each setting
 * of the best points is reset to its simplest value where that costs less than
 * DL_ADVICE_SIMPLER_FRAC. The remaining points are simulated again with more steps, noise and costs
 * drawn from their standard errors, the same draws for all, so that two points are compared draw by
 * draw. Same seed, same advice.
 *
 * The usual choice, all-reduce or one GPU alone, comes first unless another point's lead is
 * certain: at least DL_ADVICE_SIMPLER_FRAC, also in 97.5 % of the draws and, for a server, also on
 * the same terms (dl_advised.on_terms). Draws vary neither the slowdown by a server's copies nor
 * their rate, as the bounds of [shm] and [overlap] are those of collectives.
 *
 * Only speed, memory and price are known here. A larger batch, staler gradients, more local steps
 * and compressed gradients change the learning progress of an epoch, so their limits are the
 * scenario's unless the config sets others. */
#ifndef DL_SIM_ADVISE_H
#define DL_SIM_ADVISE_H

#include "sim/report/explain.h"

typedef enum dl_goal {
    DL_GOAL_THROUGHPUT, /* samples per second, both over their [target] factor */
    DL_GOAL_COST,       /* samples per dollar */
    DL_GOAL_DEADLINE,   /* the cheapest point that meets the deadline; the one of fewest GPU hours
                           where no price is known */
    DL_GOALS
} dl_goal;

/* "throughput", "cost", "deadline". */
extern const char *const dl_goal_names[DL_GOALS + 1];

typedef struct dl_advice_config {
    dl_goal goal;
    double
        max_staleness; /* mean, of applied gradients; NaN: 0, or any if the scenario has a mode with
                        * stale gradients */
    int64_t max_batch; /* of all workers together; 0: the scenario's largest */
    int64_t max_interval;  /* local steps between two averages; 0: the scenario's largest, else 1 */
    double min_efficiency; /* speedup over GPUs or workers; 0: any */
    double samples;        /* of the whole training; NaN: not known */
    double deadline_h, budget_usd; /* of the whole training, which need samples; NaN: none */
    int64_t max_points;            /* limit on the points simulated in the search, >= 1 */
    int threads;
    dl_pace *pace;           /* limit on the time of all runs; NULL: none */
    dl_progress_fn progress; /* of points; may be NULL */
    void *user;
} dl_advice_config;

#define DL_ADVICE_SIMPLER_FRAC 0.01
#define DL_ADVICE_BEST 5 /* points shown */

/* A setting to search. */
typedef struct dl_advice_axis {
    char *section, *key;
    char **values; /* [count], the simplest first; "": the key is left out */
    size_t count;
    size_t start; /* the scenario's own value */
} dl_advice_axis;

/* Why a point is not advised. */
typedef enum dl_out {
    DL_OUT_NOT,       /* within all limits */
    DL_OUT_REFUSED,   /* impossible: no such scenario, or it fails */
    DL_OUT_COSTS,     /* the cost file lacks a cost that it needs */
    DL_OUT_MEMORY,    /* does not fit into the GPUs */
    DL_OUT_STALENESS, /* beyond a limit, as are the rest */
    DL_OUT_BATCH,
    DL_OUT_INTERVAL,
    DL_OUT_EFFICIENCY,
    DL_OUT_DEADLINE,
    DL_OUT_BUDGET,
    DL_OUTS
} dl_out;

/* A simulated point. */
typedef struct dl_advised {
    size_t *at;     /* [axis_count] value of each axis; >= count: it does not apply here */
    char *text;     /* scenario of this point alone */
    char *settings; /* "overlap yes, bucket_bytes 25MB"; "" */
    char *options;  /* command-line options that make the point from the scenario */
    dl_out out;
    char *why;     /* DL_OUT_REFUSED, DL_OUT_COSTS; else NULL */
    dl_row row;    /* only its pointers to rates, error and mode are set; NaN if it did not run */
    bool is_final; /* simulated with all steps and draws */
    int gpus;      /* or workers on cores */
    double factor; /* multiplies the training's samples ([target]); 1: none given; NaN: not known */
    double usd_per_hour, hours, usd; /* of its nodes; of the whole training; NaN: not known */
    double deadline_frac;            /* fraction of draws that meet the deadline; NaN: none given */
    double score;                    /* value of the goal; higher is better */
    /* For a point with a server that leads the usual choice: score of the best all-reduce with as
     * many workers over this point's score, both without what is known for one of them only:
     * nothing slows concurrent compute; copies between GPUs through host memory reach at most half
     * of [shm], as in a ring; updates and copies to buckets take no time. 0: not computed. */
    double on_terms;
} dl_advised;

/* Comparison of two points, draw by draw. */
typedef struct dl_advice_pair {
    double ratio, low, high; /* of a's score over b's, with a 95 % interval; NaN without one */
    size_t wins, ties, draws;
    bool differ; /* a wins, or loses, at least 97.5 % of the draws */
} dl_advice_pair;

/* Reason why the search ended before it had tried everything. */
typedef enum dl_stopped {
    DL_STOPPED_NOT,
    DL_STOPPED_BY_POINTS, /* max_points */
    DL_STOPPED_BY_TIME    /* the time that the rest would take */
} dl_stopped;

typedef struct dl_advice {
    dl_advice_config config; /* with the limits in force */
    char *name;              /* of the scenario */
    char *path;              /* base of relative names in the points' texts */
    bool on_gpus;
    bool by_target; /* rates and times are over [target] factor */
    bool by_shm;    /* collectives go through host memory at a rate of their own, [shm] */
    dl_stopped stopped;
    bool varies; /* some cost or noise is drawn */
    int64_t steps, draws;
    dl_advice_axis *axes;
    size_t axis_count;
    dl_advised *points; /* [point_count] */
    size_t point_count;
    size_t best[DL_ADVICE_BEST],
        best_count;  /* points, the best first, then the best of each other mode and
                                machine, then of other numbers of workers */
    size_t *simpler; /* [simpler_count] points that differ from the best one in one setting */
    size_t simpler_count;
    size_t more;    /* the best point with most workers; point_count: it has these */
    size_t *beyond; /* [beyond_count] points beyond a limit that would be better */
    size_t beyond_count;
    dl_gains gains, more_gains; /* of the best one, and of `more` */
} dl_advice;

/* Searches from the study's scenario, whose costs are read. DL_ERR_USAGE for a scenario or a config
 * that cannot be searched (the text says why), DL_ERR_DATA where no point can be simulated. If all
 * are beyond the limits, best_count is 0. Release with dl_advice_free. */
dl_status dl_advise(dl_advice *advice, const dl_study *study, const dl_advice_config *config,
                    dl_error *err) DL_MUST_CHECK;
void dl_advice_free(dl_advice *advice);

/* Ratio of a[count] to b[count] over the same draws; `ratio` is the one without draws. */
dl_advice_pair dl_advice_pair_of(const double *a, const double *b, size_t count, double ratio);

/* Compares two points of the final simulation draw by draw. */
dl_advice_pair dl_advice_compare(const dl_advice *advice, const dl_advised *a, const dl_advised *b);

/* Writes the advice for a terminal, or all simulated points as a table (CSV). */
void dl_advice_print(FILE *out, const dl_advice *advice);
dl_status dl_advice_write(const char *path, const dl_advice *advice, dl_error *err) DL_MUST_CHECK;

#endif
