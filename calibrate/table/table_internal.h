/* Predictions of the tables' rows as a function of the sought costs, and the search for the costs
 * at which predictions equal measurements. See calibrate/table/table.h for symbols. */
#ifndef DL_CALIBRATE_TABLE_TABLE_INTERNAL_H
#define DL_CALIBRATE_TABLE_TABLE_INTERNAL_H

#include <gsl/gsl_matrix.h>
#include <stdbool.h>
#include <stdint.h>

#include "calibrate/table/table.h"
#include "common/status.h"
#include "sim/costs/costs.h"
#include "sim/scenario/scenario.h"

/* A row among those of all parts. */
typedef struct dl_table_model_row {
    const dl_table_row *row;
    size_t part;
    size_t point; /* among all parts' points; not set for a failed row */
} dl_table_model_row;

/* Zero before dl_table_model_init, release with dl_table_model_free. */
typedef struct dl_table_model {
    dl_table_part
        *parts; /* borrowed, like the next two; the sought costs change with every evaluation */
    size_t part_count;
    const dl_table_costs *unknown;
    dl_table_model_row *rows; /* [row_count] of the parts, in order */
    size_t row_count;
    size_t first_point[DL_TABLE_PARTS_MAX + 1]; /* of each part; [part_count]: the number of all
                                              * points */
    double guess[DL_TABLE_COSTS_MAX];           /* > 0 */
    bool active[DL_TABLE_COSTS_MAX];            /* costs changed by the search; all at first */
    bool *use;                                  /* [row_count] rows that count; all except failed
                                              * ones */
    double *weight; /* [row_count] of r^2 in the sum, including scale^2, 0..1; 1 at first */
    double scale[DL_TABLE_PARTS_MAX]; /* of r: the least sigma over the part's; 1 at first */
    bool *wanted;                     /* [points] of rows that count */
    double *per_s;                    /* [points] at the latest costs */
    struct dl_table_memory *memory;   /* [part_count] simulated results */
    gsl_matrix *jacobian; /* [row_count x unknown->count] the search's dr/dx at jacobian_x */
    double jacobian_x[DL_TABLE_COSTS_MAX];
    bool jacobian_known;
    int threads;
    dl_cluster *cluster; /* the simulating ranks; NULL: only this process */
    size_t fitted;       /* number of the fit's costs: propose adds one */
    dl_journal *journal; /* of simulated results, in the order of the search's requests, */
    int64_t *next;       /* and the number of the next request; NULL: none */
    const dl_table_fit_config *config; /* for its progress; NULL: none shown */
    int64_t steps;                     /* like dl_table_simulation's */
    int64_t runs;
    dl_status status; /* of the first failed run */
    dl_error error;
} dl_table_model;

/* Guesses each cost's magnitude: its known value, else a part of the rows' median step. */
void dl_table_model_init(dl_table_model *model, dl_table_part *parts, size_t part_count,
                         const dl_table_costs *unknown, int threads);
void dl_table_model_free(dl_table_model *model);
size_t dl_table_model_rows(const dl_table_model *model);  /* number that counts */
size_t dl_table_model_costs(const dl_table_model *model); /* number of active ones */

/* Whether at least `rows` rows per active cost count: over all parts, and in each part for its own
 * costs. */
bool dl_table_model_has_rows(const dl_table_model *model, size_t rows);

/* Limits of x of a cost: DL_TABLE_RANGE around its guess, within the key's range. */
double dl_table_model_low(const dl_table_model *model, size_t cost);
double dl_table_model_high(const dl_table_model *model, size_t cost);

/* The one of these two limits at which a step is shorter. */
double dl_table_model_least(const dl_table_model *model, size_t cost);

/* Whether a larger value of the cost shortens steps. */
bool dl_table_is_rate(const dl_table_cost *cost);

/* Sets the costs from x[unknown->count] = ln(cost), limited as above, and simulates the points of
 * the rows that count into model->per_s. Fails as dl_run. */
dl_status dl_table_model_set(dl_table_model *model, const double *x);

/* r of a row at the latest costs, whether it counts or not (its point must have been simulated).
 */
double dl_table_model_residual(const dl_table_model *model, size_t row);

/* Weighted sum of squares of r at x; INFINITY where a run fails (model->status). */
double dl_table_model_squares(dl_table_model *model, const double *x);

/* Sets model->jacobian to dr/dx at x, of the rows that count and the active costs, by central or
 * one-sided differences. Fails as dl_table_model_set. */
dl_status dl_table_model_differentiate(dl_table_model *model, const double *x, bool both_sides);

/* Copies model->jacobian [rows that count x active costs] to `jacobian`, each row times the root of
 * its weight. */
void dl_table_model_weighted(const dl_table_model *model, gsl_matrix *jacobian);

/* Moves x[unknown->count] to the nearest minimum of the sum of squares, and returns the sum there
 * (INFINITY: a run failed). Needs at least as many rows as active costs. */
double dl_table_model_descend(dl_table_model *model, double *x);

/* Searches the whole range, or, if `near`, from the guess only (table.h); sets x and returns the
 * sum of squares there. */
double dl_table_model_search(dl_table_model *model, bool near, double *x);

/* Steady throughputs of a scenario's points, without the start of a run. */

typedef struct dl_table_simulation {
    const dl_scenario *scenario;
    const dl_costs *costs;
    const bool *wanted;           /* [scenario->point_count] points to simulate */
    int64_t steps;                /* least N, see below */
    int threads;                  /* >= 1; the result does not depend on them */
    dl_cluster *cluster;          /* the ranks that share the points; NULL: only this process */
    size_t part;                  /* its index in the fit; only with ranks, as the next four */
    size_t points_most;           /* points of the largest part */
    const dl_table_costs *sought; /* costs in which other ranks may differ, of which the */
    size_t fitted;                /* first ones are also in their lists */
    uint64_t key;                 /* of these costs and steps, which must match a journal's
                                   * record */
    dl_journal *journal;          /* NULL: none */
    int64_t *next;                /* number of the next point in the journal */
} dl_table_simulation;

/* Writes to per_s[scenario->point_count], for each wanted point, the throughput of repeating steps
 * or, if they do not repeat, of the second half of a run of 2 N steps, as its time less that of a
 * run of N. This excludes the steps by which the host gets ahead of the GPUs, and prefetched
 * batches. N is `steps`, or more to cover these, in whole intervals. Fails as dl_run (of the first
 * point that fails), or as dl_jobs_run. */
dl_status dl_table_simulate(const dl_table_simulation *simulation, double *per_s,
                            dl_error *err) DL_MUST_CHECK;

/* The most points of one of the parts. */
size_t dl_table_points_most(const dl_table_part *parts, size_t count);

/* calibrate/table/ranks.c. Before the fit, on all ranks: `status`, or DL_ERR_DATA if they have read
 * different files. *key identifies a journal. */
dl_status dl_table_ranks_compare(const dl_table_fit *fit, const dl_table_fit_config *config,
                                 dl_status status, uint64_t *key, dl_error *err) DL_MUST_CHECK;
/* Rank 0: announces the next simulation, or the end of simulations. Does nothing without ranks. */
dl_status dl_table_ranks_ask(const dl_table_simulation *simulation, dl_error *err) DL_MUST_CHECK;
void dl_table_ranks_end(const dl_table_fit *fit, dl_cluster *cluster);
/* Other ranks: takes part in rank 0's simulations until their end. */
dl_status dl_table_ranks_serve(dl_table_fit *fit, const dl_table_fit_config *config,
                               dl_error *err) DL_MUST_CHECK;

/* Looks for a host rate missing from the list (dl_table_proposal), with searches over the model's
 * costs from x. The model's costs must be set again afterwards. Fails as dl_table_model_set.
 */
dl_status dl_table_propose(dl_table_proposal *proposal, dl_table_model *model, const double *x);

/* Shows the fit's progress, if the configuration requests it. */
void dl_table_show(const dl_table_model *model, const char *what, size_t done, size_t count);

/* Robust standard deviation of r of a part's rows that count, at the latest costs. */
double dl_table_sigma(const dl_table_model *model, size_t part);

#endif
