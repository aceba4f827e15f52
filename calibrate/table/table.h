/* Fits unknown costs of a scenario to a table of measured throughputs, through the simulator; or of
 * several scenarios, each to a table of its own, that share some of the costs: of one cluster, say,
 * the network's. A scenario and its table are a part of the fit, and one pair is the fit of one part.
 *
 * Letters: n rows, p costs, of all parts together. With x = ln(cost), so that costs stay positive,
 * the sum of squares over the rows of
 *
 *   r = ln(measured throughput / simulated throughput)
 *
 * is made least (r is the relative error of the step's time; it does not matter whether the table
 * gives throughputs or times). Levenberg and Marquardt's method does it (calibrate/table/search.c),
 * with differences of DL_TABLE_DIFFERENCE in x. The simulator runs without noise and with the same
 * seed, so differences are of the costs alone; what it rounds is 1 ns of a step. A measured
 * throughput is that of a long run: that of steps that repeat (sim/team.h), or, where they do not
 * soon, of 2 N steps less the first N, with N of DL_TABLE_STEPS and more. No point is simulated
 * twice at the same costs.
 *
 * A step is a maximum of several things, so r has kinks and flat parts. The search therefore starts
 * at DL_TABLE_STARTS points of a Sobol sequence over DL_TABLE_SPAN around a guess; the best
 * DL_TABLE_DESCENTS of them are followed down, and from the best end each cost is once more
 * increased and decreased (a flat part looks like an end).
 *
 * Tables contradict themselves, and squares would spread one wrong row over all costs. With
 * DL_TABLE_ROWS_A_COST rows per cost or more, rows are therefore weighted anew until nothing
 * changes: first by 1 / |r|, then by Tukey's bisquare, (1 - (r / 4.685 sigma)^2)^2 (Holland &
 * Welsch 1977, Communications in Statistics A6, 813). w are the weights; 1 with fewer rows.
 *
 * Each part has a sigma of its own, and all that is said of r here holds of r times the least sigma
 * over the part's: a shared cost then has the least variance that the rows allow (weighted least
 * squares with estimated variances; Carroll & Ruppert 1988, Transformation and Weighting in
 * Regression, chapter 2), and a row is judged beside those of its own table. With one sigma for all,
 * a shared cost would follow the table that scatters most, and no row of the others would ever be
 * an outlier.
 *
 *   sigma        robust spread of a part's rows: 1.4826 times the median of |r| without the p - 1
 *                least, p of its own and the shared costs; at least DL_TABLE_SIGMA_MIN. Rows beyond
 *                DL_TABLE_OUTLIER sigma are named.
 *   error        of x, from s^2 (J'WJ)^-1 with s^2 = sum of w r^2 / (sum of w - p), J = dr/dx; that
 *                of the cost is this times the cost. Not known with n = p.
 *   determined   no: without the cost, the others as they are, the sum of squares is no larger
 *                (by a tenth of s^2). Either it never limits a step, or the rows want it to be 0.
 *                Such a cost has no value, only a bound: the largest time (least rate) by which
 *                the sum of squares grows by 4 s^2, two standard errors. The cost file has it with
 *                both bounds (sim/value.h), or not at all where no row depends on it.
 *   condition    largest over least singular value of J with columns of length 1, and which costs
 *                cannot be distinguished: see calibrate/table/collinearity.h. Where a singular
 *                value is 0 but for rounding, their split is arbitrary: they have no errors and
 *                count as assumed.
 *   left out     error of a row when all rows of its point are left out of the fit, the others
 *                weighing as before. NaN if they determine fewer costs, or combinations of costs,
 *                than all do together. With DL_TABLE_ROWS_LINEAR rows per cost or more, one row
 *                moves the costs little: then by one step of Gauss and Newton (Cook & Weisberg
 *                1982, Residuals and Influence in Regression, section 2.2).
 *
 * What it leaves out: errors of the rows themselves (all count the same), and of the model. */
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

/* Rows of a table of measured throughputs, each with the point of the simulator that it is of.
 *
 *   workers,batch,throughput_per_s,source
 *   4,128,41000,"a README"
 *   3,128,error,"a README"
 *
 * `placement` (sim/platform/placement.h) may stand in place of workers: the row's own GPUs.
 *
 * The columns are those of sim/report/measured.h (staleness, its standard errors, steps, seed and
 * note count for nothing here). A row's value is throughput_per_s or step_s, or the word `error`
 * where the source says that the run failed: such a row is kept and shown, and used for nothing.
 *
 * A row need not be a point that the scenario sweeps: workers and batch are its own, the rest
 * (mode, options, cores) is that of the scenario's point whose keys the row gives, which must be
 * one. Where the workers cannot share the batch evenly, the largest share counts, as all wait for
 * it: the point then has a batch of workers x that share, the row keeps its own. */

typedef struct dl_table_row {
    int line; /* in the table */
    bool failed;
    dl_point point;
    size_t at;               /* index of the point in scenario->points; not of a failed row */
    int64_t batch;           /* as measured */
    double throughput_per_s; /* NaN of a failed row */
    char *source;            /* "" if there is none */
    int *gpus;               /* [gpu_count] of its placement; NULL: none is given */
    int gpu_count;
} dl_table_row;

/* Owns everything; zero before use, release with dl_table_rows_free. */
typedef struct dl_table_rows {
    char *path;
    dl_table_row *rows; /* [count], in the order of the table */
    size_t count;
    size_t used; /* those that have not failed */
} dl_table_rows;

/* Reads a scenario for a table: as dl_scenario_read or, where `text` is not NULL, as
 * dl_scenario_read_text of this text, called `path`; but [machine] placement may be a list, of
 * which the first is taken, since the rows give theirs; without noise. Zero `scenario` before. */
dl_status dl_table_scenario_read(dl_scenario *scenario, const char *path, const char *text,
                                 dl_error *err) DL_MUST_CHECK;

/* Reads the table: all rows, or only those whose column `use` says `use` (NULL: all).
 * scenario->points become those of the rows, each once. Errors name file:line: DL_ERR_NAME
 * (unknown column, no such point), DL_ERR_DATA (several such points, no value, no row that has
 * not failed), DL_ERR_RANGE (a number; more workers than GPUs, fewer samples than workers),
 * DL_ERR_PARSE. Then the scenario is unchanged. */
dl_status dl_table_rows_read(dl_table_rows *rows, const char *path, const char *use,
                             dl_scenario *scenario, dl_error *err) DL_MUST_CHECK;
void dl_table_rows_free(dl_table_rows *rows);

/* The costs of a cost file that a table is to determine: those that it lacks for a run, or those
 * that a user names. */

#define DL_TABLE_COSTS_MAX 16
#define DL_TABLE_PARTS_MAX 16

typedef struct dl_table_cost {
    char *name;                          /* "[dispatch] serial_ns" */
    dl_value *value[DL_TABLE_PARTS_MAX]; /* in the costs of each part that it is of, else NULL */
    dl_value *rest[DL_TABLE_PARTS_MAX];  /* NULL, or of the backward pass; then `value` is of the
                                            forward pass */
    size_t part;                         /* the first that it is of; and whether all have it: */
    bool shared;
    bool was_known; /* before, in that part; the search then starts there: */
    double was;
    double start;     /* where it starts else; 0: a part of the step */
    double low, high; /* that its key may have */
} dl_table_cost;

/* Owns the names; zero before use, release with dl_table_costs_free, also after a failure. */
typedef struct dl_table_costs {
    dl_table_cost items[DL_TABLE_COSTS_MAX];
    size_t count;
} dl_table_costs;

/* Part of the time that a forward pass takes if no more is known: the backward pass multiplies
 * twice as often, for the gradients of inputs and of weights. */
#define DL_TABLE_FORWARD_FRAC (1.0 / 3)

typedef struct dl_table_part dl_table_part;

/* Adds the costs of part `number`: the shared ones of `share` (may be NULL), which the first part adds
 * and the others join, then those of `names`.
 *
 * Names are "serial_ns, [op a.forward] fixed_ns, update.latency_ns, link.nvlink2.bytes_per_s,
 * root_bytes_per_s": [section] key, section.key, or a key that only one section has, of the cost
 * file or of the scenario's machine file, in whose place the cost file then gives the number
 * ([machine link nvlink2]). An operation that is not there yet is added.
 * What the points need besides and the file lacks is assumed as dlsim does, with a note of the part
 * for each.
 *
 * `names` NULL: those that the points need and the part's costs lack. If they have no operation, [op
 * network.forward] and [op network.backward] are added to the costs, and listed as one: "[op
 * network.*] fixed_ns" is the sum, split by DL_TABLE_FORWARD_FRAC.
 *
 * The part must stay where it is as long as the list is used. DL_ERR_USAGE: an unknown, ambiguous or
 * repeated name; more than DL_TABLE_COSTS_MAX. DL_ERR_DATA: the points need another one that is
 * missing and has no default; without any names, none is missing, or one that no table gives
 * (parameter_bytes, noise). */
dl_status dl_table_costs_add(dl_table_costs *list, dl_table_part *part, size_t number,
                             const char *share, const char *names, dl_error *err) DL_MUST_CHECK;

/* Puts the value of one of the list into the costs of all parts that it is of. */
void dl_table_cost_set(const dl_table_cost *cost, const dl_value *value);
void dl_table_costs_free(dl_table_costs *list);

#define DL_TABLE_STEPS 16
#define DL_TABLE_STARTS 64
#define DL_TABLE_DESCENTS 6
#define DL_TABLE_SPAN 100.0 /* factor up and down */
#define DL_TABLE_DIFFERENCE 0.01
#define DL_TABLE_EXACT 1e-5     /* root mean square of r that needs no better: rounding */
#define DL_TABLE_SIGMA_MIN 1e-3 /* tables are printed with three digits */
#define DL_TABLE_OUTLIER 3.0
#define DL_TABLE_ROWS_LINEAR 12 /* see left out */
#define DL_TABLE_ROWS_A_COST 2  /* below, a row has too few others to be outvoted */

/* A rate that the GPUs of a node share, that was not fitted, and that explains the rows much
 * better: the time of exchange grows with the GPUs of a node. */
typedef struct dl_table_proposal {
    char *name; /* "[machine host] root_bytes_per_s"; NULL: there is none */
    double value;
    double rms_frac, rms_without_frac; /* root mean square of r, all rows weighing 1 */
} dl_table_proposal;

/* A proposal is made if it takes the root mean square below this part, from above this, */
#define DL_TABLE_PROPOSAL_PART 0.6
#define DL_TABLE_PROPOSAL_RMS 0.01
/* and if there are then at least this many more rows than costs. */
#define DL_TABLE_PROPOSAL_ROWS 2

/* What came out for one cost of the list. */
typedef struct dl_table_estimate {
    bool determined;
    double value;  /* NaN if not determined */
    double error;  /* standard error; NaN if not known */
    double bound;  /* of one that is not determined: see above; NaN if none was found */
    double effect; /* root mean square of dr/dx; 0 if not determined */
    bool at_most;  /* the bound is an upper one */
    int confused;  /* costs with the same number > 0 cannot be distinguished; 0 = with none */
} dl_table_estimate;

typedef struct dl_table_residual {
    double fitted_per_s;  /* NaN of a failed row, as all of these */
    double error_frac;    /* fitted / measured - 1 */
    double weight;        /* 0..1, in the fit */
    double left_out_frac; /* the same when fitted without the row's point */
    bool unexplained;     /* beyond DL_TABLE_OUTLIER sigma */
} dl_table_residual;

/* Errors of a set of rows. */
typedef struct dl_table_quality {
    size_t used;                                  /* rows that have not failed */
    double rms_frac;                              /* root mean square of r */
    double sigma_frac;                            /* of a part; NaN of several */
    double left_out_mean_frac, left_out_max_frac; /* of absolute values; NaN if there are none */
    size_t left_out_count;                        /* rows that they are of */
} dl_table_quality;

/* A scenario and the table that was measured in it. */
struct dl_table_part {
    dl_scenario scenario; /* its points are those of the rows, without noise */
    dl_costs costs;       /* with the fitted values; what is not determined has its bounds */
    dl_table_rows rows;
    dl_table_residual *residuals; /* [rows.count] */
    dl_table_quality quality;
    dl_notes notes; /* for its cost file */
};

/* A fit and what it is of. Owns everything; zero before use, release with dl_table_fit_free. */
typedef struct dl_table_fit {
    dl_table_part *parts; /* [part_count] */
    size_t part_count;
    dl_table_costs unknown; /* the shared ones first, then each part's own */
    dl_table_estimate estimates[DL_TABLE_COSTS_MAX];
    dl_table_quality quality;                   /* of all rows */
    double condition;                           /* of the costs that are determined */
    double singular_values[DL_TABLE_COSTS_MAX]; /* of J, columns of length 1, descending */
    size_t determined;                          /* costs */
    size_t rank;  /* combinations of them that the rows determine; less than these: see condition */
    int64_t runs; /* of a point that were simulated */
    dl_table_proposal proposal; /* of a fit of one part */
    dl_notes notes;             /* all, those of one of several parts after its scenario's name */
    dl_journal *journal;        /* to be ended when the results are safe; or NULL */
    int64_t journal_next;
} dl_table_fit;

/* How far a fit is: `done` of `count` of what `what` names, as "of %lld searches". */
typedef void (*dl_table_progress_fn)(void *user, const char *what, int64_t done, int64_t count);

typedef struct dl_table_part_config {
    const char *scenario_path, *table_path;
    const char *scenario_text; /* in place of the file's, which the path then only names; or NULL */
    const char *names; /* of the part's own costs (dl_table_costs_add); NULL: all that it lacks */
} dl_table_part_config;

typedef struct dl_table_fit_config {
    const dl_table_part_config *parts; /* [part_count], 1..DL_TABLE_PARTS_MAX */
    size_t part_count;
    const char *share;   /* names of the shared costs (dl_table_costs_add); NULL: none */
    const char *use;     /* of the rows to take (dl_table_rows_read); NULL: all */
    bool near;           /* one search, from the cost file's values on, in place of many */
    int threads;         /* >= 1; the result does not depend on them */
    dl_cluster *cluster; /* the ranks that simulate; NULL: this process alone */
    const char *journal; /* file of what was simulated, from which a fit goes on; NULL: none. Of
                            rank 0 */
    dl_table_progress_fn progress; /* on rank 0; may be NULL */
    void *user;
} dl_table_fit_config;

/* Reads the scenarios, their cost files and the tables, and fits; all ranks call it, only rank 0 has
 * the result. DL_ERR_DATA if there are fewer rows than costs, and the errors of what it reads and
 * runs, and of the journal. On failure the fit is only good for dl_table_fit_end_journal and
 * dl_table_fit_free. */
dl_status dl_table_fit_run(dl_table_fit *fit, const dl_table_fit_config *config,
                           dl_error *err) DL_MUST_CHECK;

/* Writes a part's cost file, with where the values come from (table, lines, sources, scenario) and
 * all notes on it as its first lines. */
dl_status dl_table_fit_write(const dl_table_fit *fit, size_t part, const char *path,
                             dl_error *err) DL_MUST_CHECK;
/* The results are safe: the journal is removed. */
void dl_table_fit_end_journal(dl_table_fit *fit);
void dl_table_fit_free(dl_table_fit *fit);

/* Fills the notes from the other members: costs that the rows do not determine or cannot
 * distinguish, rows that the fit does not explain, runs that failed. */
void dl_table_notes_add(dl_table_fit *fit);

/* For people, at most 80 columns wide: costs with errors, every row with its residual and how far
 * off it is when it is left out, the notes. */
void dl_table_report_print(const dl_table_fit *fit, FILE *out);

/* The same content as JSON, in the units of the cost file; what is not known is null. Creates
 * (overwrites) `path`. DL_ERR_IO with the system's reason. */
dl_status dl_table_report_json_write(const dl_table_fit *fit, const char *path,
                                     dl_error *err) DL_MUST_CHECK;

/* A part's rows as CSV: line (in the table), workers, batch, sync, measured_per_s, fitted_per_s,
 * error_frac, left_out_error_frac; for dlsim --left-out. Errors of dl_output_open and
 * dl_output_close. */
dl_status dl_table_report_rows_write(const dl_table_part *part, const char *path,
                                     dl_error *err) DL_MUST_CHECK;

#endif
