/* Advice: the number of workers, mode, batch, averaging interval and exchange to train with, within
 * given limits. The points are simulated; nothing is interpolated.
 *
 * The search starts with every number of workers in every mode at the scenario's other settings.
 * Points that do not fit into memory with the allocator's reserve are repeated with recomputation.
 * In each round it changes one setting (overlap and buckets together) of the best points, and of
 * the fastest points beyond a limit of time, price, efficiency or memory, until none is new. If
 * no point fits with the reserve, this is repeated without it. Then the search resets each setting
 * of the best points to its simplest value if that costs less than DL_ADVICE_SIMPLER_FRAC, and
 * simulates these points again with more steps, noise and costs drawn from their standard errors.
 * All points get the same draws, so two points are compared draw by draw. The same seed gives the
 * same advice.
 *
 * The usual choice, all-reduce or one GPU alone, comes first unless another point leads with
 * certainty: by at least DL_ADVICE_SIMPLER_FRAC, without draws and in 97.5 % of the draws, and if
 * it has a server, also on equal terms with all-reduce (dl_advised.on_terms).
 *
 * The advice covers only speed, memory and price. A larger batch, staler gradients, more local
 * steps and compressed gradients change the learning progress of an epoch, so their limits are the
 * scenario's unless the config sets others. */
#ifndef DL_SIM_ADVISE_H
#define DL_SIM_ADVISE_H

#include "sim/report/explain.h"

typedef enum dl_goal {
    DL_GOAL_THROUGHPUT, /* samples per second, each divided by its [target] factor */
    DL_GOAL_COST,       /* samples per dollar */
    DL_GOAL_DEADLINE,   /* the cheapest point that meets the deadline; the one with the fewest GPU
                         * hours if no price is known */
    DL_GOALS
} dl_goal;

/* "throughput", "cost", "deadline"; NULL after the last. */
extern const char *const dl_goal_names[DL_GOALS + 1];

typedef struct dl_advice_config {
    dl_goal goal;
    double
        max_staleness; /* limit on the mean staleness of applied gradients; NaN: 0, or no limit if
                        * the scenario has a lag or a mode with stale gradients */
    int64_t max_batch; /* samples of all workers together; 0: the scenario's largest batch */
    int64_t max_interval;  /* local steps between two averages; 0: the scenario's largest interval,
                            * else 1 */
    double min_efficiency; /* lower limit on dl_row.efficiency; 0: no limit */
    double samples;        /* samples of the whole training; NaN: unknown */
    double deadline_h, budget_usd; /* limits for the whole training, which require `samples`; NaN:
                                    * none */
    int64_t max_points;            /* limit on the points simulated in the search, >= 1 */
    int threads;
    dl_pace *pace;           /* limit on the time of all runs, borrowed; NULL: none */
    dl_progress_fn progress; /* reports the progress in points; may be NULL */
    void *user;
} dl_advice_config;

#define DL_ADVICE_SIMPLER_FRAC 0.01
#define DL_ADVICE_BEST 5 /* maximum number of points shown */

/* A setting to search. */
typedef struct dl_advice_axis {
    char *section, *key;
    char **values; /* [count], the simplest first; "": the key is left out */
    size_t count;
    size_t start; /* index of the value that the search starts with */
} dl_advice_axis;

/* Why a point is not advised. */
typedef enum dl_out {
    DL_OUT_NOT,       /* not excluded: within all limits */
    DL_OUT_REFUSED,   /* no such scenario exists, or its run fails */
    DL_OUT_COSTS,     /* the cost file lacks a cost that the point needs */
    DL_OUT_MEMORY,    /* does not fit into GPU memory */
    DL_OUT_RESERVE,   /* fits only without the allocator's reserve */
    DL_OUT_STALENESS, /* mean staleness beyond its limit; the following values name other limits
                       * exceeded */
    DL_OUT_BATCH,
    DL_OUT_INTERVAL,
    DL_OUT_EFFICIENCY,
    DL_OUT_DEADLINE,
    DL_OUT_BUDGET,
    DL_OUTS
} dl_out;

/* A simulated point. */
typedef struct dl_advised {
    size_t *at;     /* [axis_count] index of the value on each axis; >= count: the axis does not
                     * apply */
    char *text;     /* scenario with only this point */
    char *settings; /* "overlap yes, bucket_bytes 25 MB"; may be "" */
    char *options;  /* command-line options that turn the scenario into this point */
    dl_out out;
    char *why;     /* reason for DL_OUT_REFUSED and DL_OUT_COSTS; else NULL */
    dl_row row;    /* of its pointers only rates, error, above and mode are valid; values are NaN if
                    * the point did not run */
    bool is_final; /* simulated with all steps and draws */
    int gpus;      /* number of GPUs, or of workers on cores */
    double factor; /* factor by which the point needs more samples to reach the target ([target]);
                    * 1: not given; NaN: unknown */
    double usd_per_hour, hours, usd; /* price rate of the nodes; duration and price of the whole
                                      * training; NaN: unknown */
    double deadline_frac; /* fraction of draws that meet the deadline; NaN: no deadline */
    double score;         /* value of the goal; higher is better */
    /* For a point with a server that leads the usual choice: score of the best all-reduce with the
     * same number of workers over this point's score. Both exclude costs known for only one of
     * them: nothing slows concurrent compute; updates and copies to buckets take no time. 0: not
     * computed. */
    double on_terms;
} dl_advised;

/* Draw-by-draw comparison of points a and b. */
typedef struct dl_advice_pair {
    double ratio, low, high; /* score of a over that of b, and its 95 % interval; low and high are
                              * NaN without an interval */
    size_t wins, ties, draws;
    bool differ; /* a wins or loses at least 97.5 % of the draws */
} dl_advice_pair;

/* Reason why the search ended early. */
typedef enum dl_stopped {
    DL_STOPPED_NOT,
    DL_STOPPED_BY_POINTS, /* max_points reached */
    DL_STOPPED_BY_TIME    /* the remaining points would take too long */
} dl_stopped;

typedef struct dl_advice {
    dl_advice_config config; /* config with the limits in force */
    char *name;              /* name of the scenario */
    char *path;              /* base path of relative file names in the points' texts */
    bool on_gpus;
    bool by_target; /* rates and times are divided by the [target] factor */
    dl_stopped stopped;
    bool is_uncached; /* no point fits with the allocator's reserve: the advised one fits without */
    bool varies;      /* some cost or noise is drawn at random */
    int64_t steps, draws;
    dl_advice_axis *axes;
    size_t axis_count;
    dl_advised *points; /* [point_count] */
    size_t point_count;
    size_t best[DL_ADVICE_BEST],
        best_count; /* points: the advised one, then in descending order the best of each other mode
                      * and machine and, with the rest of the room, of other numbers of workers */
    size_t *simpler; /* [simpler_count] points that differ from the best one in one setting */
    size_t simpler_count;
    size_t more;    /* index of the point with the best one's settings and the largest number of
                     * workers; SIZE_MAX: the best one has that number */
    size_t *beyond; /* [beyond_count] points beyond a limit that would be better */
    size_t beyond_count;
    dl_gains gains, more_gains; /* gains of the best point and of `more` */
} dl_advice;

/* Searches from the study's scenario. Requires the study's costs to be read. DL_ERR_USAGE for a
 * scenario or config that cannot be searched (the text gives the reason), DL_ERR_UNFIT if no point
 * fits into memory, DL_ERR_DATA if no point can be simulated or a needed price is unknown;
 * otherwise the errors of dl_sweep_run. If all points are beyond the limits, best_count is 0.
 * Release with dl_advice_free. */
dl_status dl_advise(dl_advice *advice, const dl_study *study, const dl_advice_config *config,
                    dl_error *err) DL_MUST_CHECK;
void dl_advice_free(dl_advice *advice);

/* Whether a mean staleness is within the limit. It is compared with the two decimals that tables
 * show: a mean that equals its limit in the long run is a little above it in some runs. */
bool dl_advice_is_fresh(double staleness, double most);

/* Compares the scores a[count] and b[count] of the same draws; `ratio` is the score of a over that
 * of b without draws. */
dl_advice_pair dl_advice_pair_of(const double *a, const double *b, size_t count, double ratio);

/* Compares two finally simulated points draw by draw. */
dl_advice_pair dl_advice_compare(const dl_advice *advice, const dl_advised *a, const dl_advised *b);

/* Write the advice for a terminal, and all simulated points as a CSV table or as JSON. */
void dl_advice_print(FILE *out, const dl_advice *advice);
dl_status dl_advice_write(const char *path, const dl_advice *advice, dl_error *err) DL_MUST_CHECK;
dl_status dl_advice_json(const char *path, const dl_advice *advice, dl_error *err) DL_MUST_CHECK;
void dl_advice_json_write(FILE *out, const dl_advice *advice);

#endif
