/* Predictions of the tables' rows as a function of the sought costs, and the search for the costs
 * at which predictions equal measurements. See calibrate/table/table.h for notation. */
#ifndef DL_CALIBRATE_TABLE_TABLE_INTERNAL_H
#define DL_CALIBRATE_TABLE_TABLE_INTERNAL_H

#include <gsl/gsl_matrix.h>
#include <stdbool.h>
#include <stdint.h>

#include "calibrate/table/table.h"
#include "common/status.h"
#include "sim/costs/costs.h"
#include "sim/scenario/scenario.h"

/* A row in the list of all parts' rows. */
typedef struct dl_table_model_row {
    const dl_table_row *row;
    size_t part;
    size_t point; /* index among all parts' points; not set for a failed row */
} dl_table_model_row;

/* Zero before dl_table_model_init, release with dl_table_model_free. */
typedef struct dl_table_model {
    dl_table_part *parts; /* borrowed; every evaluation changes the sought costs in them */
    size_t part_count;
    const dl_table_costs *unknown;
    dl_table_model_row *rows; /* [row_count] rows of the parts, in order */
    size_t row_count;
    /* Index of each part's first point; [part_count]: number of all points. */
    size_t first_point[DL_TABLE_PARTS_MAX + 1];
    double guess[DL_TABLE_COSTS_MAX]; /* > 0 */
    bool active[DL_TABLE_COSTS_MAX];  /* costs changed by the search; initially all */
    bool *use;      /* [row_count] rows used in the fit; initially all but failed ones */
    double *weight; /* [row_count] weight of r^2 in the sum, 0..1, including scale^2; initially 1 */
    double scale[DL_TABLE_PARTS_MAX]; /* factor of r: the least sigma over the part's; initially
                                       * 1 */
    bool *wanted;                     /* [points] points of the rows used; after dl_table_model_set,
                                       * only those whose results were not in the cache */
    double *per_s;                    /* [points] simulated throughputs */
    struct dl_table_memory *memory;   /* [part_count] caches of simulated results */
    gsl_matrix *jacobian; /* [row_count x unknown->count] dr/dx at jacobian_x, used by the search */
    double jacobian_x[DL_TABLE_COSTS_MAX];
    bool jacobian_known;
    int threads;
    dl_cluster *cluster; /* ranks that simulate; NULL: only this process */
    size_t fitted;       /* number of the fit's costs; dl_table_propose adds one */
    dl_journal *journal; /* simulated results, in the order of the search's requests; NULL: none */
    int64_t *next;       /* number of the next request; NULL without a journal */
    const dl_table_fit_config *config; /* configuration of progress reports; NULL: none */
    int64_t steps;                     /* minimum number of steps, as in dl_table_simulation */
    int64_t runs;
    dl_status status; /* status of the first failed run */
    dl_error error;
} dl_table_model;

/* Initializes the model and guesses each cost's magnitude: its known value, else
 * dl_table_cost.start, else a fraction of the rows' median step or a usual value. */
void dl_table_model_init(dl_table_model *model, dl_table_part *parts, size_t part_count,
                         const dl_table_costs *unknown, int threads);
void dl_table_model_free(dl_table_model *model);
size_t dl_table_model_rows(const dl_table_model *model);  /* number of rows used */
size_t dl_table_model_costs(const dl_table_model *model); /* number of active costs */

/* Returns whether at least `rows` rows per active cost are used: over all parts, and in each part
 * for its own costs. */
bool dl_table_model_has_rows(const dl_table_model *model, size_t rows);

/* Limits of x for a cost: a factor DL_TABLE_RANGE around its guess, within the key's range. */
double dl_table_model_low(const dl_table_model *model, size_t cost);
double dl_table_model_high(const dl_table_model *model, size_t cost);

/* Returns the limit of x at which steps are shortest. */
double dl_table_model_least(const dl_table_model *model, size_t cost);

/* Returns whether a larger value of the cost shortens steps. */
bool dl_table_is_rate(const dl_table_cost *cost);

/* Sets the costs from x[unknown->count] = ln(cost), limited as above, and simulates the points of
 * the rows used into model->per_s, unless they are in the cache. Returns model->status: the errors
 * of dl_table_simulate, also of an earlier call. */
dl_status dl_table_model_set(dl_table_model *model, const double *x);

/* Returns r of a row at the latest costs, whether the row is used or not; its point must have been
 * simulated. */
double dl_table_model_residual(const dl_table_model *model, size_t row);

/* Returns the weighted sum of squares of r at x; INFINITY if a run fails (model->status). */
double dl_table_model_squares(dl_table_model *model, const double *x);

/* Sets model->jacobian to dr/dx at x, for the rows used and the active costs, by central or
 * one-sided differences. Returns the errors of dl_table_model_set. */
dl_status dl_table_model_differentiate(dl_table_model *model, const double *x, bool both_sides);

/* Copies model->jacobian [rows used x active costs] to `jacobian`, each row multiplied by the
 * square root of its weight. */
void dl_table_model_weighted(const dl_table_model *model, gsl_matrix *jacobian);

/* Moves x[unknown->count] to the nearest minimum of the sum of squares, and returns the sum there
 * (INFINITY: a run failed). Requires at least as many rows as active costs. */
double dl_table_model_descend(dl_table_model *model, double *x);

/* Searches the whole range or, if `near`, from the guess only (table.h). Sets x and returns its sum
 * of squares. */
double dl_table_model_search(dl_table_model *model, bool near, double *x);

/* Steady-state throughputs of a scenario's points, excluding the start of a run. */

typedef struct dl_table_simulation {
    const dl_scenario *scenario;
    const dl_costs *costs;
    const bool *wanted;           /* [scenario->point_count] points to simulate */
    int64_t steps;                /* minimum N, see below */
    int threads;                  /* >= 1; the result does not depend on them */
    dl_cluster *cluster;          /* ranks that share the points; NULL: only this process */
    size_t part;                  /* index of the part in the fit; like the next three members, only
                                   * used with ranks */
    size_t points_most;           /* number of points of the largest part */
    const dl_table_costs *sought; /* costs that may differ on other ranks */
    size_t fitted;                /* number of leading costs that the other ranks also list */
    uint64_t key;                 /* identifies these costs and steps; must match the journal's
                                   * record */
    dl_journal *journal;          /* NULL: none */
    int64_t *next;                /* number of the next point in the journal */
} dl_table_simulation;

/* Writes to per_s[scenario->point_count], for each wanted point, the throughput of repeating steps
 * or, if they do not repeat, of the second half of a run of 2 N steps (its time less that of a run
 * of N). This excludes the steps in which the host gets ahead of the GPUs, and prefetched batches.
 * N is `steps`, or more to cover these, in whole intervals. Returns the errors of dl_run (for the
 * first point that fails) and of dl_jobs_run. */
dl_status dl_table_simulate(const dl_table_simulation *simulation, double *per_s,
                            dl_error *err) DL_MUST_CHECK;

/* Returns the number of points of the largest part. */
size_t dl_table_points_most(const dl_table_part *parts, size_t count);

/* In calibrate/table/ranks.c. Called on all ranks before the fit; returns `status`, or DL_ERR_DATA
 * if the ranks have read different files. Sets *key to a hash of the inputs, which the key of a
 * resumed journal must equal. */
dl_status dl_table_ranks_compare(const dl_table_fit *fit, const dl_table_fit_config *config,
                                 dl_status status, uint64_t *key, dl_error *err) DL_MUST_CHECK;
/* Rank 0 announces the next simulation, or the end of simulations. No effect without ranks. */
dl_status dl_table_ranks_ask(const dl_table_simulation *simulation, dl_error *err) DL_MUST_CHECK;
void dl_table_ranks_end(const dl_table_fit *fit, dl_cluster *cluster);
/* Other ranks take part in rank 0's simulations until their end. */
dl_status dl_table_ranks_serve(dl_table_fit *fit, const dl_table_fit_config *config,
                               dl_error *err) DL_MUST_CHECK;

/* Looks for a host rate missing from the list (dl_table_proposal), by searches over the model's
 * costs from x. The caller must set the model's costs again afterwards. Returns the errors of
 * dl_table_model_set. */
dl_status dl_table_propose(dl_table_proposal *proposal, dl_table_model *model, const double *x);

/* Reports the fit's progress if the configuration requests it. */
void dl_table_show(const dl_table_model *model, const char *what, size_t done, size_t count);

/* Returns the robust standard deviation of r of a part's used rows, at the latest costs. */
double dl_table_sigma(const dl_table_model *model, size_t part);

#endif
