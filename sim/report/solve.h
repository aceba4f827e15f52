/* Solves for the value of a key at which a column of the results reaches a target value: for
 * example the port rate at which workers compute nine tenths of the time, or the averaging interval
 * that a slow network needs.
 *
 * Each point is solved separately for each target. The column must be monotonic in the key. From
 * the scenario's own value (or one in the middle of the key's range) the search moves by growing
 * factors towards the target until it passes it, at most to the ends of the key's range, or to the
 * last value at which the point fits into memory. Then Brent's method (sim/root.h) on the logarithm
 * of the key narrows the bracket to DL_SOLVE_TOLERANCE. Whole numbers are interpolated until no
 * other lies between two neighbours around the target; the result is the one with the larger value
 * in the column. Where the column jumps over the target, the result is likewise the side with the
 * larger value, with the key rounded away from the jump to the digits that are printed. Noise and
 * draws of costs are the same at each value tried.
 *
 * A whole number that the scenario cannot have, such as one that does not divide the batch, is
 * replaced by the nearest possible one. */
#ifndef DL_SIM_SOLVE_H
#define DL_SIM_SOLVE_H

#include "common/cell_table.h"
#include "sim/scenario/study.h"
#include "sim/sweep.h"

#define DL_SOLVE_TOLERANCE 1e-4 /* relative to the key */
#define DL_SOLVE_TARGETS_MAX 64
#define DL_SOLVE_SCHEMA 1

typedef struct dl_solve_config {
    const char *key;         /* "SECTION.KEY", or "KEY" where one section has it */
    const char *targets;     /* "COLUMN=VALUE,VALUE,..." */
    unsigned without;        /* costs that are switched off (sim/scenario/without.h) */
    int64_t seed;            /* -1: the scenario's seed */
    int threads;             /* >= 1 */
    dl_pace *pace;           /* limit on the time of all runs, borrowed; NULL: none */
    dl_progress_fn progress; /* reports the values tried, of about how many; may be NULL */
    void *user;
} dl_solve_config;

typedef struct dl_solved {
    size_t row;    /* index among all points of the scenario without the key's own list */
    char *options; /* dl_report_options without the key */
    int workers;
    const char *sync; /* NULL: the point has generators, and no workers, batch and mode to name */
    int64_t batch;
    double per_s; /* samples/s; NaN: the point does not run */
    double target;
    double value; /* value of the key; NaN: the target is not reached */
    double found; /* column at `value`, else at the nearest end of the range; NaN: the point runs at
                   * no value */
    double at_limit;     /* the nearest end of the range; NaN: the target is reached */
    bool is_last;        /* the point does not run beyond at_limit because it does not fit into
                          * memory, or its column has no value there */
    dl_cell_table table; /* one row: the results at `value` or `at_limit` */
} dl_solved;

typedef struct dl_solution {
    const dl_key *key;
    char *column;
    dl_solved *all; /* [count] */
    size_t count, unreached;
    int64_t runs;    /* number of values tried */
    double *skipped; /* [skipped_count] values that the scenario cannot have, in the order tried */
    size_t skipped_count;
    char *skipped_why; /* reason for the first skipped value; NULL: none */
} dl_solution;

/* DL_ERR_USAGE for a key that cannot be solved for (not a number, not swept, or the seed), and for
 * invalid targets; DL_ERR_NAME for a column missing in the results; otherwise the errors of reading
 * and simulating the scenario. *solution must be zeroed; release it with dl_solution_free. */
dl_status dl_solve(dl_solution *solution, const dl_study *study, const dl_solve_config *config,
                   dl_error *err) DL_MUST_CHECK;
void dl_solution_free(dl_solution *solution);

/* Writes the keys, SECTION.KEY, that complete `typed` (dl_complete_word). */
void dl_solve_complete(FILE *out, const char *typed);

/* Returns DL_ERR_DATA with the first target and the nearest result if no target is reached, else
 * DL_OK. */
dl_status dl_solution_check(const dl_solution *solution, const dl_study *study,
                            dl_error *err) DL_MUST_CHECK;

/* Write one row per solution: target, solved_KEY (empty: not reached), and the results' columns at
 * that value, or at the end of the key's range nearest to the target. */
dl_status dl_solution_write(const char *path, const dl_solution *solution, const dl_study *study,
                            dl_error *err) DL_MUST_CHECK;
dl_status dl_solution_json(const char *path, const dl_solution *solution, const dl_study *study,
                           dl_error *err) DL_MUST_CHECK;
void dl_solution_json_write(FILE *out, const dl_solution *solution, const dl_study *study);

/* Prints the readable table, and a note for each target that is not reached. */
void dl_solution_print(FILE *out, const dl_solution *solution, const dl_study *study);

#endif
