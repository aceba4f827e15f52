/* Fits unknown costs of a scenario to a table of measured throughputs by simulation. A fit has one
 * or more parts, each a scenario and its table; parts may share costs, such as those of one
 * cluster's network.
 *
 * Notation: n rows and p costs of all parts together. With x = ln(cost), which keeps costs
 * positive, the fit minimizes the sum of squares over the rows of
 *
 *   r = ln(measured throughput / simulated throughput)
 *
 * by the method of Levenberg and Marquardt (calibrate/table/search.c), with finite differences of
 * DL_TABLE_DIFFERENCE in x. r is the relative error of the step time, whether the table has
 * throughputs or times. The simulator runs without noise and with the same seed, so differences
 * come from the costs alone; it rounds a step to 1 ns. Measured throughputs come from long runs, so
 * the simulated throughput is that of repeating steps (sim/team.h) or, if steps do not repeat soon,
 * of 2 N steps less the first N, with N at least DL_TABLE_STEPS (fewer in the search before its
 * last descent, and with `near`). Results are cached, so that a point is not simulated twice at the
 * same costs.
 *
 * A step is the maximum of several times, so r has kinks and flat parts. The search therefore
 * evaluates DL_TABLE_STARTS points of a Sobol sequence within a factor DL_TABLE_SPAN of a guess,
 * descends from the best DL_TABLE_DESCENTS of them, and from the best minimum tries once more to
 * increase and decrease each cost (a flat part looks like a minimum).
 *
 * Tables contain contradictory rows, and least squares would spread one wrong row over all costs.
 * Rows are therefore reweighted until convergence: first by 1 / |r|, then by Tukey's bisquare, (1 -
 * (r / 4.685 sigma)^2)^2 (Holland & Welsch 1977, Communications in Statistics A6, 813). This
 * requires at least DL_TABLE_ROWS_A_COST rows per cost, and DL_TABLE_OTHERS degrees of freedom when
 * any one row is left out. w are the weights; 1 with fewer rows.
 *
 * Each part has its own sigma, and r here means r times the least sigma over the part's: a shared
 * cost then has the least variance that the rows allow (weighted least squares with estimated
 * variances; Carroll & Ruppert 1988, Transformation and Weighting in Regression, chapter 2), and a
 * row is judged against its own table. With one sigma for all, a shared cost would follow the table
 * with the largest scatter, and no row of the others would ever be an outlier.
 *
 *   sigma        robust spread of a part's rows: 1.4826 times the median of |r| without the p - 1
 *                least, p counting the part's own and the shared costs; at least
 *                DL_TABLE_SIGMA_MIN. Rows beyond DL_TABLE_OUTLIER sigma are reported. A row is an
 *                outlier beyond the number of sigma that is equally improbable by Student's t with
 *                n - p - 1 degrees of freedom, those of the other rows (Cook & Weisberg 1982,
 *                Residuals and Influence in Regression, section 2.2.2): 235 with one, 4.5 with 7.
 *   run_frac     of a part's costs: root mean square of r with n - p in place of n and all weights
 *                1, since rows to come scatter as these do, runs that contradict others included;
 *                with at least DL_TABLE_SCATTER degrees of freedom
 *   error        of x, from s^2 (J'WJ)^-1 with s^2 = sum of w r^2 / (sum of w - p), J = dr/dx; the
 *                cost's error is this times the cost. Unknown with n = p.
 *   determined   no, if the sum of squares grows by less than a tenth of s^2 when the cost is
 *                removed and the others are kept. Either the cost never limits a step, or the rows
 *                imply 0. The cost then has no value, only a bound: the time (rate) at which the
 *                sum of squares has grown by 4 s^2, two standard errors. A previously known value
 *                that the rows allow is kept. Otherwise the cost file holds both bounds
 *                (sim/value.h): a time from 0, or its key's minimum, to the bound; a rate from the
 *                bound, which is used, to the rate at which the sum of squares has grown by a tenth
 *                of s^2. The file omits the cost if no row depends on it.
 *   condition    largest over least singular value of J with columns of length 1, and which costs
 *                cannot be distinguished: see calibrate/table/collinearity.h. Where a singular
 *                value is 0 except for rounding, the split among these costs is arbitrary: they
 *                have no errors and count as assumed.
 *   left out     error of a row when all rows of its point are left out of the fit, with the other
 *                rows' weights unchanged. NaN if the other rows determine fewer costs, or
 *                combinations of costs, than all rows do. With at least DL_TABLE_ROWS_LINEAR rows
 *                per cost, one row moves the costs little, and a single Gauss-Newton step is used
 *                (Cook & Weisberg 1982, Residuals and Influence in Regression, section 2.2), if
 *                the rows determine each cost itself.
 *
 * Not modelled: errors of the rows themselves (all have equal weight), and of the model. */
#ifndef DL_CALIBRATE_TABLE_TABLE_H
#define DL_CALIBRATE_TABLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "calibrate/notes.h"
#include "common/cluster.h"
#include "common/journal.h"
#include "sim/costs/costs.h"
#include "sim/scenario/scenario.h"

/* Rows of a table of measured throughputs, each with its point of the simulator.
 *
 *   workers,batch,throughput_per_s,source
 *   4,128,41000,"a README"
 *   3,128,error,"a README"
 *
 * The column `placement` (sim/platform/placement.h) may replace workers; it lists the row's own
 * GPUs.
 *
 * The columns are those of sim/report/measured.h (staleness, standard errors, steps, seed and note
 * are ignored here). A row's value is throughput_per_s or step_s, or the word `error` for a failed
 * run; the report shows such a row, but the fit does not use it.
 *
 * A row need not be a point that the scenario sweeps: it gives workers and batch; the rest (mode,
 * options, cores) comes from the scenario's point with the row's keys, which must be unique. If the
 * workers cannot share the batch evenly, all wait for the largest share: the point's batch is then
 * workers x largest share, and the row keeps the measured batch. */

typedef struct dl_table_row {
    int line; /* line number in the table */
    bool failed;
    dl_point point;
    size_t at;               /* index of the point in scenario->points; not set for a failed row */
    int64_t batch;           /* measured batch */
    double throughput_per_s; /* NaN for a failed row */
    char *source;            /* empty if the table gives none */
    int *gpus;               /* [gpu_count] GPUs of the row's placement; NULL: no placement */
    int gpu_count;
} dl_table_row;

/* Owns all its memory; zero before use, release with dl_table_rows_free. */
typedef struct dl_table_rows {
    char *path;
    dl_table_row *rows; /* [count], in the order of the table */
    size_t count;
    size_t used; /* number of rows that have not failed */
} dl_table_rows;

/* Reads a scenario for a table, like dl_scenario_read or, if `text` is not NULL, like
 * dl_scenario_read_text with this text and the name `path`. Differences: the scenario has no noise,
 * and [machine] placement may be a list, of which only the first item is used, since the rows have
 * their own. If `costs` is not NULL, also reads the scenario's costs and applies the settings that
 * they determine, as dlsim does (dl_variant_read_costs); costs scaled to another GPU get that GPU's
 * name. `scenario` and `costs` must be zeroed. */
dl_status dl_table_scenario_read(dl_scenario *scenario, dl_costs *costs, const char *path,
                                 const char *text, dl_error *err) DL_MUST_CHECK;

/* Reads all rows of the table, or only those whose column `use` holds the value `use` (NULL: all).
 * scenario->points become the distinct points of the rows. Errors name file:line: DL_ERR_NAME
 * (unknown column, no such point), DL_ERR_DATA (a missing column, several such points, no value, no
 * row that has not failed, a placement without a machine or with another number of workers),
 * DL_ERR_RANGE (a number; more workers than GPUs, fewer samples than workers), DL_ERR_PARSE; also
 * returns the errors of dl_csv_read. On failure the scenario is unchanged. */
dl_status dl_table_rows_read(dl_table_rows *rows, const char *path, const char *use,
                             dl_scenario *scenario, dl_error *err) DL_MUST_CHECK;
void dl_table_rows_free(dl_table_rows *rows);

/* The costs to fit: those that a run needs and the cost file lacks, or those that the user
 * names. */

#define DL_TABLE_COSTS_MAX 16
#define DL_TABLE_PARTS_MAX 16

typedef struct dl_table_cost {
    char *name;                          /* "[dispatch] serial_ns" */
    dl_value *value[DL_TABLE_PARTS_MAX]; /* in the costs of each part that has this cost; NULL in
                                          * other parts */
    dl_value *rest[DL_TABLE_PARTS_MAX];  /* value of the backward pass, if `value` is that of the
                                          * forward pass; otherwise NULL */
    size_t part;                         /* first part that has this cost */
    bool shared;                         /* all parts have this cost */
    bool was_known;                      /* the cost had a value > 0 in that part before the fit */
    double was;
    dl_value before;  /* value in that part's cost file; unknown: from the machine file, or none */
    double start;     /* start of the search if the cost had no value; 0: guessed from its name and
                       * the rows' step */
    double low, high; /* range of the cost's key */
} dl_table_cost;

/* Owns the names; zero before use, release with dl_table_costs_free, also after a failure. */
typedef struct dl_table_costs {
    dl_table_cost items[DL_TABLE_COSTS_MAX];
    size_t count;
} dl_table_costs;

/* Assumed fraction of the passes' time in the forward pass. The backward pass has twice as many
 * matrix products, for the gradients of inputs and of weights. */
#define DL_TABLE_FORWARD_FRAC (1.0 / 3)

typedef struct dl_table_part dl_table_part;

/* Adds the costs of part `number`: first the shared ones of `share` (may be NULL), which the first
 * part creates and later parts join, then those of `names`.
 *
 * Names are "serial_ns, [op a.forward] fixed_ns, update.latency_ns, link.nvlink2.bytes_per_s,
 * root_bytes_per_s": [section] key, section.key, or a key that only one section has, of the cost
 * file or of the scenario's machine file, whose figure the cost file then replaces ([machine link
 * nvlink2]). A missing operation is added. Other costs that the points need and the file lacks are
 * assumed as in dlsim, with a note of the part for each.
 *
 * If `names` is NULL, adds the costs that the points need and the part's cost file lacks. If the
 * file has no operation, [op network.forward] and [op network.backward] are added to the costs and
 * listed as one: "[op network.*] fixed_ns" is the sum, split by DL_TABLE_FORWARD_FRAC.
 *
 * The part must not move while the list is used. Returns DL_ERR_USAGE for an unknown, ambiguous or
 * repeated name, or more than DL_TABLE_COSTS_MAX costs; DL_ERR_DATA if the points need another
 * missing cost that has no default, or if `names` and `share` are NULL and no cost is missing, or
 * one is missing that no table determines (parameter_bytes, noise). */
dl_status dl_table_costs_add(dl_table_costs *list, dl_table_part *part, size_t number,
                             const char *share, const char *names, dl_error *err) DL_MUST_CHECK;

/* Sets a listed cost's value in the costs of all parts that have it. */
void dl_table_cost_set(const dl_table_cost *cost, const dl_value *value);
void dl_table_costs_free(dl_table_costs *list);

#define DL_TABLE_STEPS 16
#define DL_TABLE_STARTS 64
#define DL_TABLE_DESCENTS 6
#define DL_TABLE_SPAN 100.0 /* factor above and below the guess */
#define DL_TABLE_DIFFERENCE 0.01
#define DL_TABLE_EXACT 1e-5     /* root mean square of r at which the search stops: rounding */
#define DL_TABLE_SIGMA_MIN 1e-3 /* tables are printed with three digits */
#define DL_TABLE_OUTLIER 3.0
#define DL_TABLE_ROWS_LINEAR 12 /* see "left out" above */
/* Minimum rows per cost for reweighting: with fewer, the other rows cannot outvote one row. */
#define DL_TABLE_ROWS_A_COST 2
/* Minimum degrees of freedom of the other rows for reweighting: two against one. */
#define DL_TABLE_OTHERS 2
/* Minimum degrees of freedom for the scatter of runs: its standard error is then below a third. */
#define DL_TABLE_SCATTER 5

/* A rate shared by a node's GPUs that was not fitted and would explain the rows much better,
 * because the exchange time grows with the number of GPUs per node. */
typedef struct dl_table_proposal {
    char *name; /* "[machine host] root_bytes_per_s"; NULL: none */
    double value;
    double rms_frac, rms_without_frac; /* root mean square of r with and without the rate; all
                                        * weights 1 */
} dl_table_proposal;

/* A proposal must reduce the root mean square to less than this fraction. */
#define DL_TABLE_PROPOSAL_PART 0.6
/* A proposal requires a root mean square above this without it. */
#define DL_TABLE_PROPOSAL_RMS 0.01
/* A proposal requires at least this many more rows than costs, counting its own. */
#define DL_TABLE_PROPOSAL_ROWS 2

/* Result for one cost of the list. */
typedef struct dl_table_estimate {
    bool determined;
    double value;  /* NaN if not determined */
    double error;  /* standard error; NaN if unknown */
    double bound;  /* bound of an undetermined cost, see above; NaN if none was found */
    double enough; /* rate above which no row changes, for an undetermined rate that has a bound and
                    * does not keep its known value; otherwise NaN */
    bool kept;     /* an undetermined cost keeps its known value */
    double effect; /* root mean square of dr/dx; 0 if not determined */
    bool at_most;  /* the bound is an upper bound */
    int confused;  /* costs with the same number > 0 cannot be distinguished; 0: distinguished from
                    * all others */
} dl_table_estimate;

typedef struct dl_table_residual {
    double fitted_per_s;  /* NaN for a failed row, like all members except `unexplained` */
    double error_frac;    /* fitted / measured - 1 */
    double weight;        /* weight in the fit, 0..1 */
    double left_out_frac; /* error_frac of the fit without the row's point */
    bool unexplained;     /* the row is an outlier: see sigma above */
} dl_table_residual;

/* Errors of a set of rows. */
typedef struct dl_table_quality {
    size_t used;           /* number of rows that did not fail */
    double rms_frac;       /* root mean square of r */
    double sigma_frac;     /* sigma of one part; NaN for several */
    double outlier_sigmas; /* for one part: multiple of sigma above which a row is an outlier;
                            * INFINITY: no row is */
    /* Mean and maximum of |left_out_frac|; NaN if there are none. */
    double left_out_mean_frac, left_out_max_frac;
    size_t left_out_count; /* number of rows with a left_out_frac */
} dl_table_quality;

/* A scenario and its table of measurements. */
struct dl_table_part {
    dl_scenario scenario; /* points of the rows, without noise */
    dl_costs costs;       /* with the fitted values, and the bounds of undetermined costs */
    dl_table_rows rows;
    dl_table_residual *residuals; /* [rows.count] */
    dl_table_quality quality;
    dl_notes notes; /* for its cost file */
};

/* A fit and its parts. Owns all its memory; zero before use, release with dl_table_fit_free. */
typedef struct dl_table_fit {
    dl_table_part *parts; /* [part_count] */
    size_t part_count;
    dl_table_costs unknown; /* sought costs: shared ones first, then each part's own */
    dl_table_estimate estimates[DL_TABLE_COSTS_MAX];
    dl_table_quality quality;                   /* quality over all rows */
    double condition;                           /* condition of the determined costs */
    double singular_values[DL_TABLE_COSTS_MAX]; /* of J with columns of length 1, descending */
    size_t determined;                          /* number of determined costs */
    size_t rank;  /* number of combinations of the determined costs that the rows determine; if it
                   * is less than `determined`, see "condition" above */
    int64_t runs; /* number of simulated runs of points */
    dl_table_proposal proposal; /* only for a fit of one part */
    dl_notes notes;             /* notes of all parts; with several parts, each note follows its
                                 * scenario's name */
    dl_journal *journal;        /* journal to remove once the results are safe; NULL: none */
    int64_t journal_next;
} dl_table_fit;

/* Reports the progress of a fit: `done` of `count`. `what` is a text with the unit, such as "of
 * %lld searches". */
typedef void (*dl_table_progress_fn)(void *user, const char *what, int64_t done, int64_t count);

typedef struct dl_table_part_config {
    const char *scenario_path, *table_path;
    const char *scenario_text; /* replaces the file's content; `scenario_path` is then only a name;
                                * NULL: read the file */
    const char *names; /* names of the part's own costs (dl_table_costs_add); NULL: all missing
                        * costs */
} dl_table_part_config;

typedef struct dl_table_fit_config {
    const dl_table_part_config *parts; /* [part_count], 1..DL_TABLE_PARTS_MAX */
    size_t part_count;
    const char *share;   /* names of the shared costs (dl_table_costs_add); NULL: none */
    const char *use;     /* selects rows (dl_table_rows_read); NULL: all */
    bool near;           /* one search from the cost file's values, instead of many */
    int threads;         /* >= 1; the result does not depend on them */
    dl_cluster *cluster; /* ranks that simulate; NULL: only this process */
    const char *journal; /* file of simulated results, from which an interrupted fit resumes; NULL:
                          * none; rank 0 only */
    dl_table_progress_fn progress; /* called on rank 0; may be NULL */
    void *user;
} dl_table_fit_config;

/* Reads the scenarios, their cost files and the tables, and fits. Collective over the ranks; only
 * rank 0 has the result. Returns DL_ERR_DATA if there are fewer rows than costs, and the errors of
 * reading, running and of the journal. On failure the fit may only be passed to
 * dl_table_fit_end_journal and dl_table_fit_free. */
dl_status dl_table_fit_run(dl_table_fit *fit, const dl_table_fit_config *config,
                           dl_error *err) DL_MUST_CHECK;

/* Writes a part's cost file. Its first lines hold the origin of the values (table, lines, sources,
 * scenario) and all notes. */
dl_status dl_table_fit_write(const dl_table_fit *fit, size_t part, const char *path,
                             dl_error *err) DL_MUST_CHECK;
/* Removes the journal; call it once the results are written. */
void dl_table_fit_end_journal(dl_table_fit *fit);
void dl_table_fit_free(dl_table_fit *fit);

/* Fills the notes from the other members: costs that the rows do not determine or cannot
 * distinguish, rows that the fit does not explain, runs that failed. */
void dl_table_notes_add(dl_table_fit *fit);

/* Prints a report of at most 80 columns: costs with errors, every row with its residual and its
 * left-out error, the notes. */
void dl_table_report_print(const dl_table_fit *fit, FILE *out);

/* Writes the report as JSON, in the units of the cost file; unknown values are null. Creates or
 * overwrites `path`. Returns DL_ERR_IO with the system's reason. */
dl_status dl_table_report_json_write(const dl_table_fit *fit, const char *path,
                                     dl_error *err) DL_MUST_CHECK;

/* Writes a part's rows, except failed ones, as CSV for dlsim --left-out: line (in the table),
 * workers, batch, sync, measured_per_s, fitted_per_s, error_frac, left_out_error_frac. Returns the
 * errors of dl_output_open and dl_output_close. */
dl_status dl_table_report_rows_write(const dl_table_part *part, const char *path,
                                     dl_error *err) DL_MUST_CHECK;

#endif
