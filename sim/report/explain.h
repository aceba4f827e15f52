/* A sweep explained in words: the parts of a step's time, their growth with the workers, and the
 * most useful changes, which are simulated. The finding is separate from its renderings as text and
 * HTML. */
#ifndef DL_SIM_EXPLAIN_H
#define DL_SIM_EXPLAIN_H

#include <math.h>

#include "sim/report/measured.h"
#include "sim/sweep.h"

/* Throughput of a row with one cost changed, over its unchanged throughput. */
typedef struct dl_gain {
    const char *cost;  /* name for --without, or "compute" */
    const char *what;  /* description of the cost in words */
    double half, none; /* gain at half the cost and at no cost; NaN: it cannot be halved, or nothing
                        * of a step would remain */
} dl_gain;

#define DL_GAINS_MAX 24

typedef struct dl_gains {
    dl_gain all[DL_GAINS_MAX]; /* [count] gains that change the throughput by at least 1 %, in
                                * descending order of dl_gain_worth */
    size_t count;
    double per_s;        /* unchanged throughput, samples/s, from a new simulation with the steps
                          * used for the gains */
    const char *why_not; /* reason why nothing was simulated; NULL: gains were simulated */
} dl_gains;

/* The gain of halving a cost if that is possible, else of its removal. */
static inline double dl_gain_ratio(const dl_gain *gain)
{
    return isnan(gain->half) ? gain->none : gain->half;
}

/* Sort key of a gain: the gain of halving the cost or, if that is impossible, of saving half of the
 * time that its removal saves. */
static inline double dl_gain_worth(const dl_gain *gain)
{
    return isnan(gain->half) ? 2 / (1 + 1 / gain->none) : gain->half;
}

/* Formats "1.47 times", "over 100 times", or a dash for NaN. Returns text[bytes] or a constant. */
const char *dl_gain_text(char *text, size_t bytes, double ratio);

/* Simulates row `number` again with the time of each cost halved and then removed, on up to five of
 * the scenario's replicates and, if a run has at most a million events, with all its steps; reads
 * the study's text and costs anew for each. Sets only why_not if a run has more than five million
 * events or cannot be repeated. Rows with [generators]: dl_generators_gains. */
void dl_gains_simulate(dl_gains *gains, const dl_study *study, const dl_row *row, size_t number);

/* dl_generators_gains is dl_gains_simulate for a row with [generators]: it varies times of both
 * sides, copies and the spread of lengths. dl_generators_explain appends where the time goes to *text,
 * one sentence per line (generator_explain.c). */
void dl_generators_gains(dl_gains *gains, const dl_variant *variant, const dl_row *row);
void dl_generators_explain(char **text, const dl_variant *variant, const dl_row *row);

/* The finding. Rows are indices into the sweep's rows; row_count: none. */
typedef struct dl_explanation {
    const dl_study *study; /* borrowed, like `sweep` */
    const dl_sweep *sweep;
    char **labels;       /* [row_count] settings common to the row's series; NULL: the row did not
                          * run */
    size_t row;          /* the explained row */
    size_t before;       /* the row of the series with the next smaller number of workers */
    size_t best, enough; /* rows of the series: with the highest throughput, and with the fewest
                          * workers that reach 90 % of it */
    size_t first,
        drawn; /* first: best of all rows (dl_result_is_better); drawn: the row to draw in a figure:
                * `row` or, if that has more than 8 workers, the row of the series with the most
                * workers up to 8 */
    dl_gains gains; /* gains of `row` */
} dl_explanation;

/* Explains row `row`; if that is row_count, explains the row with the most workers of a series or,
 * with [generators], the best of all rows. Rows that differ only in workers (in weak scaling, also
 * in a proportional batch) form a series. The series with the most measured rows is chosen; among
 * equals, that of the best row. Release with dl_explanation_free. */
void dl_explanation_find(dl_explanation *explanation, const dl_study *study, const dl_sweep *sweep,
                         const dl_measured *measured, size_t row);
void dl_explanation_free(dl_explanation *explanation);

/* dl_explanation_html writes paragraphs and a table; dl_explanation_print writes sentences and a
 * table for a terminal, with the three largest gains. */
void dl_explanation_html(FILE *out, const dl_explanation *explanation);
void dl_explanation_print(FILE *out, const dl_explanation *explanation);

/* Appends one line to *text: "From 4 to 8 GPUs a worker's step goes from ... to ...: dispatch from ... to
 * ....". */
void dl_explain_growth(char **text, const dl_row *from, const dl_row *to);

#endif
