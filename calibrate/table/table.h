/* Fits unknown costs of a scenario to a table of measured throughputs by simulation. A fit has one
 * or several parts, each a scenario and its table; parts may share costs, such as those of one
 * cluster's network.
 *
 * Letters: n rows, p costs, of all parts together. With x = ln(cost), so that costs stay positive,
 * the fit minimizes the sum of squares over the rows of
 *
 *   r = ln(measured throughput / simulated throughput)
 *
 * (r is the relative error of the step's time, whether the table has throughputs or times) by the
 * method of Levenberg and Marquardt (calibrate/table/search.c), with differences of
 * DL_TABLE_DIFFERENCE in x. The simulator runs without noise and with the same seed, so differences
 * come from the costs alone; it rounds a step to 1 ns. Measured throughputs are those of long runs,
 * so the simulated one is that of repeating steps (sim/team.h), or, if steps do not repeat soon, of
 * 2 N steps less the first N, with N at least DL_TABLE_STEPS. No point is simulated twice at the
 * same costs.
 *
 * A step is the maximum of several times, so r has kinks and flat parts. The search therefore
 * evaluates DL_TABLE_STARTS points of a Sobol sequence within a factor DL_TABLE_SPAN of a guess,
 * descends from the best DL_TABLE_DESCENTS of them, and from the best minimum tries once more to
 * increase and decrease each cost (a flat part looks like a minimum).
 *
 * Tables contain contradictory rows, and least squares would spread one wrong row over all costs.
 * With at least DL_TABLE_ROWS_A_COST rows per cost, and DL_TABLE_OTHERS degrees of freedom when any
 * one row is left out, rows are therefore reweighted until nothing changes:
 * first by 1 / |r|, then by Tukey's bisquare, (1 - (r / 4.685 sigma)^2)^2 (Holland & Welsch 1977,
 * Communications in Statistics A6, 813). w are the weights; 1 with fewer rows.
 *
 * Each part has its own sigma, and r here means r times the least sigma over the part's: a shared
 * cost then has the least variance that the rows allow (weighted least squares with estimated
 * variances; Carroll & Ruppert 1988, Transformation and Weighting in Regression, chapter 2), and a
 * row is judged against its own table. With one sigma for all, a shared cost would follow the table
 * with the largest scatter, and no row of the others would ever be an outlier.
 *
 *   sigma        robust spread of a part's rows: 1.4826 times the median of |r| without the p - 1
 *                least, p of its own and the shared costs; at least DL_TABLE_SIGMA_MIN. Rows beyond
 *                DL_TABLE_OUTLIER sigma are named. A row is an outlier beyond the number of sigma
 *                that is equally improbable by Student's t with n - p - 1 degrees of freedom, those
 *                of the other rows (Cook & Weisberg 1982, Residuals and Influence in Regression,
 *                section 2.2.2): 235 with one, 4.5 with 7.
 *   error        of x, from s^2 (J'WJ)^-1 with s^2 = sum of w r^2 / (sum of w - p), J = dr/dx; the
 *                cost's error is this times the cost. Unknown with n = p.
 *   determined   no: if the cost is removed and the others kept, the sum of squares grows by less
 *                than a tenth of s^2. Either the cost never limits a step, or the rows imply 0. It
 *                then has no value, only a bound: the time (rate) at which the sum of squares has
 *                grown by 4 s^2, two standard errors. Where it was known before, and the rows allow
 *                that value, it keeps it. Else the cost file holds it with both bounds (sim/value.h):
 *                a time from 0 to the bound, a rate from the bound, which is taken, to where the
 *                sum of squares has grown by a tenth of s^2; or not at all if no row depends on it.
 *   condition    largest over least singular value of J with columns of length 1, and which costs
 *                cannot be distinguished: see calibrate/table/collinearity.h. Where a singular
 *                value is 0 but for rounding, their split is arbitrary: they have no errors and
 *                count as assumed.
 *   left out     error of a row when all rows of its point are left out of the fit, with the
 *                others' weights unchanged. NaN if they determine fewer costs, or combinations of
 *                costs, than all do together. With at least DL_TABLE_ROWS_LINEAR rows per cost, one
 *                row moves the costs little: then by a single step of Gauss and Newton (Cook &
 *                Weisberg 1982, Residuals and Influence in Regression, section 2.2).
 *
 * Not modelled: errors of the rows themselves (all count equally), and of the model. */
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
 * `placement` (sim/platform/placement.h) may stand in place of workers: the row's own GPUs.
 *
 * The columns are those of sim/report/measured.h (staleness, its standard errors, steps, seed and
 * note are ignored here). A row's value is throughput_per_s or step_s, or the word `error` for a
 * failed run: such a row is kept and shown, but not used.
 *
 * A row need not be a point that the scenario sweeps: workers and batch are its own; the rest
 * (mode, options, cores) comes from the scenario's point with the row's keys, which must be unique.
 * Where the workers cannot share the batch evenly, the largest share counts, as all wait for it:
 * the point's batch is then workers x that share, and the row keeps its own. */

typedef struct dl_table_row {
    int line; /* in the table */
    bool failed;
    dl_point point;
    size_t at;               /* index of the point in scenario->points; not set for a failed row */
    int64_t batch;           /* as measured */
    double throughput_per_s; /* NaN for a failed row */
    char *source;            /* "" if there is none */
    int *gpus;               /* [gpu_count] of its placement; NULL: none given */
    int gpu_count;
} dl_table_row;

/* Owns everything; zero before use, release with dl_table_rows_free. */
typedef struct dl_table_rows {
    char *path;
    dl_table_row *rows; /* [count], in the order of the table */
    size_t count;
    size_t used; /* rows that have not failed */
} dl_table_rows;

/* Reads a scenario for a table: like dl_scenario_read or, where `text` is not NULL,
 * dl_scenario_read_text of this text, named `path`; but without noise, and [machine] placement may
 * be a list, whose first item is taken, since the rows have their own. Where `costs` is not NULL,
 * also its costs, and the settings that it takes from them, as dlsim does (dl_variant_read_costs);
 * costs scaled to another GPU have that one's name. `scenario` and `costs` must be
 * zeroed. */
dl_status dl_table_scenario_read(dl_scenario *scenario, dl_costs *costs, const char *path,
                                 const char *text, dl_error *err) DL_MUST_CHECK;

/* Reads the table: all rows, or only those with `use` in their column `use` (NULL: all).
 * scenario->points become those of the rows, each once. Errors name file:line: DL_ERR_NAME (unknown
 * column, no such point), DL_ERR_DATA (several such points, no value, no row that has not failed),
 * DL_ERR_RANGE (a number; more workers than GPUs, fewer samples than workers), DL_ERR_PARSE. Then
 * the scenario is unchanged. */
dl_status dl_table_rows_read(dl_table_rows *rows, const char *path, const char *use,
                             dl_scenario *scenario, dl_error *err) DL_MUST_CHECK;
void dl_table_rows_free(dl_table_rows *rows);

/* The costs that a table is to determine: those that a run needs and the cost file lacks, or those
 * that the user names. */

#define DL_TABLE_COSTS_MAX 16
#define DL_TABLE_PARTS_MAX 16

typedef struct dl_table_cost {
    char *name;                          /* "[dispatch] serial_ns" */
    dl_value *value[DL_TABLE_PARTS_MAX]; /* in the costs of each part that has it, else NULL */
    dl_value *rest[DL_TABLE_PARTS_MAX];  /* NULL, or the backward pass's; then `value` is the
                                          * forward pass's */
    size_t part;                         /* the first that has it; and whether all have it: */
    bool shared;
    bool was_known; /* before the fit, in that part; the search then starts there: */
    double was;
    dl_value before;  /* of the cost file of that part; unknown: the machine file's or none */
    double start;     /* else the start of the search; 0: a part of the step */
    double low, high; /* range of its key */
} dl_table_cost;

/* Owns the names; zero before use, release with dl_table_costs_free, also after a failure. */
typedef struct dl_table_costs {
    dl_table_cost items[DL_TABLE_COSTS_MAX];
    size_t count;
} dl_table_costs;

/* Assumed fraction of the passes' time in the forward pass: the backward pass has twice as many
 * matrix products, for the gradients of inputs and of weights. */
#define DL_TABLE_FORWARD_FRAC (1.0 / 3)

typedef struct dl_table_part dl_table_part;

/* Adds the costs of part `number`: the shared ones of `share` (may be NULL), which the first part
 * adds and the others join, then those of `names`.
 *
 * Names are "serial_ns, [op a.forward] fixed_ns, update.latency_ns, link.nvlink2.bytes_per_s,
 * root_bytes_per_s": [section] key, section.key, or a key that only one section has, of the cost
 * file or of the scenario's machine file, whose figure the cost file then replaces ([machine link
 * nvlink2]). A missing operation is added. Other costs that the points need and the file lacks are
 * assumed like in dlsim, with a note of the part for each.
 *
 * `names` NULL: those that the points need and the part's costs lack. If they have no operation,
 * [op network.forward] and [op network.backward] are added to the costs, and listed as one: "[op
 * network.*] fixed_ns" is the sum, split by DL_TABLE_FORWARD_FRAC.
 *
 * The part must not move while the list is used. DL_ERR_USAGE: an unknown, ambiguous or repeated
 * name; more than DL_TABLE_COSTS_MAX. DL_ERR_DATA: the points need another one that is missing and
 * has no default; without any names, none is missing, or one that no table gives (parameter_bytes,
 * noise). */
dl_status dl_table_costs_add(dl_table_costs *list, dl_table_part *part, size_t number,
                             const char *share, const char *names, dl_error *err) DL_MUST_CHECK;

/* Sets a listed cost's value in the costs of all parts that have it. */
void dl_table_cost_set(const dl_table_cost *cost, const dl_value *value);
void dl_table_costs_free(dl_table_costs *list);

#define DL_TABLE_STEPS 16
#define DL_TABLE_STARTS 64
#define DL_TABLE_DESCENTS 6
#define DL_TABLE_SPAN 100.0 /* factor up and down */
#define DL_TABLE_DIFFERENCE 0.01
#define DL_TABLE_EXACT 1e-5     /* root mean square of r that is good enough: rounding */
#define DL_TABLE_SIGMA_MIN 1e-3 /* tables are printed with three digits */
#define DL_TABLE_OUTLIER 3.0
#define DL_TABLE_ROWS_LINEAR 12 /* see left out */
#define DL_TABLE_ROWS_A_COST 2  /* with fewer, too few other rows could outvote one, */
#define DL_TABLE_OTHERS 2       /* or with fewer degrees of freedom of theirs: two against one */

/* A rate that a node's GPUs share, was not fitted, and would explain the rows much better, because
 * the time of exchange grows with the number of GPUs of a node. */
typedef struct dl_table_proposal {
    char *name; /* "[machine host] root_bytes_per_s"; NULL: none */
    double value;
    double rms_frac, rms_without_frac; /* root mean square of r, with equal weights of 1 */
} dl_table_proposal;

/* A proposal is made if it takes the root mean square below this part, from above this, */
#define DL_TABLE_PROPOSAL_PART 0.6
#define DL_TABLE_PROPOSAL_RMS 0.01
/* and if there are at least this many more rows than costs. */
#define DL_TABLE_PROPOSAL_ROWS 2

/* Result for one cost of the list. */
typedef struct dl_table_estimate {
    bool determined;
    double value;  /* NaN if not determined */
    double error;  /* standard error; NaN if unknown */
    double bound;  /* of an undetermined cost, see above; NaN if none was found */
    double enough; /* an undetermined rate that is not kept: above it, no row changes; else NaN */
    bool kept;     /* an undetermined cost keeps its known value */
    double effect; /* root mean square of dr/dx; 0 if not determined */
    bool at_most;  /* the bound is an upper one */
    int confused;  /* costs with the same number > 0 cannot be distinguished; 0 = distinguished from
                    * all */
} dl_table_estimate;

typedef struct dl_table_residual {
    double fitted_per_s;  /* NaN for a failed row, like all of these */
    double error_frac;    /* fitted / measured - 1 */
    double weight;        /* 0..1, in the fit */
    double left_out_frac; /* the same when fitted without the row's point */
    bool unexplained;     /* an outlier: see sigma above */
} dl_table_residual;

/* Errors of a set of rows. */
typedef struct dl_table_quality {
    size_t used;           /* rows that did not fail */
    double rms_frac;       /* root mean square of r */
    double sigma_frac;     /* of one part; NaN for several */
    double outlier_sigmas; /* of a part: sigmas from which a row is an outlier; INFINITY: none is */
    double left_out_mean_frac, left_out_max_frac; /* of absolute values; NaN if there are none */
    size_t left_out_count;                        /* number of these rows */
} dl_table_quality;

/* A scenario and its table of measurements. */
struct dl_table_part {
    dl_scenario scenario; /* its points are those of the rows, without noise */
    dl_costs costs;       /* with the fitted values; undetermined costs have their bounds */
    dl_table_rows rows;
    dl_table_residual *residuals; /* [rows.count] */
    dl_table_quality quality;
    dl_notes notes; /* for its cost file */
};

/* A fit and its parts. Owns everything; zero before use, release with dl_table_fit_free. */
typedef struct dl_table_fit {
    dl_table_part *parts; /* [part_count] */
    size_t part_count;
    dl_table_costs unknown; /* the shared ones first, then each part's own */
    dl_table_estimate estimates[DL_TABLE_COSTS_MAX];
    dl_table_quality quality;                   /* of all rows */
    double condition;                           /* of the determined costs */
    double singular_values[DL_TABLE_COSTS_MAX]; /* of J, columns of length 1, descending */
    size_t determined;                          /* number of these costs */
    size_t rank;  /* combinations of them that the rows determine; if fewer: see condition */
    int64_t runs; /* simulated runs of a point */
    dl_table_proposal proposal; /* only for a fit of one part */
    dl_notes notes;             /* all; with several parts each after its scenario's name */
    dl_journal *journal;        /* to be removed once the results are safe; or NULL */
    int64_t journal_next;
} dl_table_fit;

/* Progress of a fit: `done` of `count`, whose unit `what` names, as in "of %lld searches". */
typedef void (*dl_table_progress_fn)(void *user, const char *what, int64_t done, int64_t count);

typedef struct dl_table_part_config {
    const char *scenario_path, *table_path;
    const char *scenario_text; /* replaces the file, which the path then only names; or NULL */
    const char *names; /* of the part's own costs (dl_table_costs_add); NULL: all missing ones */
} dl_table_part_config;

typedef struct dl_table_fit_config {
    const dl_table_part_config *parts; /* [part_count], 1..DL_TABLE_PARTS_MAX */
    size_t part_count;
    const char *share;   /* names of the shared costs (dl_table_costs_add); NULL: none */
    const char *use;     /* of the rows to take (dl_table_rows_read); NULL: all */
    bool near;           /* a single search from the cost file's values, instead of many */
    int threads;         /* >= 1; the result does not depend on them */
    dl_cluster *cluster; /* the simulating ranks; NULL: only this process */
    const char *journal; /* file of simulated results, from which a fit continues; NULL: none. Rank
                          * 0 only */
    dl_table_progress_fn progress; /* on rank 0; may be NULL */
    void *user;
} dl_table_fit_config;

/* Reads the scenarios, their cost files and the tables, and fits; all ranks call it, only rank 0
 * has the result. DL_ERR_DATA if there are fewer rows than costs, and the errors of reading,
 * running and of the journal. On failure the fit is only good for dl_table_fit_end_journal and
 * dl_table_fit_free. */
dl_status dl_table_fit_run(dl_table_fit *fit, const dl_table_fit_config *config,
                           dl_error *err) DL_MUST_CHECK;

/* Writes a part's cost file, with the origin of the values (table, lines, sources, scenario) and
 * all its notes as its first lines. */
dl_status dl_table_fit_write(const dl_table_fit *fit, size_t part, const char *path,
                             dl_error *err) DL_MUST_CHECK;
/* Removes the journal; to be called once the results are written. */
void dl_table_fit_end_journal(dl_table_fit *fit);
void dl_table_fit_free(dl_table_fit *fit);

/* Fills the notes from the other members: costs that the rows do not determine or cannot
 * distinguish, rows that the fit does not explain, runs that failed. */
void dl_table_notes_add(dl_table_fit *fit);

/* Prints a report of at most 80 columns: costs with errors, every row with its residual and its
 * error when left out, the notes. */
void dl_table_report_print(const dl_table_fit *fit, FILE *out);

/* Writes the report as JSON, in the units of the cost file; unknown values are null. Creates
 * (overwrites) `path`. DL_ERR_IO with the system's reason. */
dl_status dl_table_report_json_write(const dl_table_fit *fit, const char *path,
                                     dl_error *err) DL_MUST_CHECK;

/* Writes a part's rows as CSV for dlsim --left-out: line (in the table), workers, batch, sync,
 * measured_per_s, fitted_per_s, error_frac, left_out_error_frac. Errors of dl_output_open and
 * dl_output_close. */
dl_status dl_table_report_rows_write(const dl_table_part *part, const char *path,
                                     dl_error *err) DL_MUST_CHECK;

#endif
