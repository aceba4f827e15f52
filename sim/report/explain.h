/* A sweep explained in words: the parts of a step's time, their growth with the workers, and the
 * changes that would help most, which are simulated. The finding is separate from its renderings as
 * text and HTML. */
#ifndef DL_SIM_EXPLAIN_H
#define DL_SIM_EXPLAIN_H

#include <math.h>

#include "sim/report/measured.h"
#include "sim/sweep.h"

/* Throughput of a row with one cost changed, over its unchanged throughput. */
typedef struct dl_gain {
    const char *cost;  /* name for --without, or "compute" */
    const char *what;  /* the same in words */
    double half, none; /* at half and at no time; NaN: it cannot be halved, or nothing of a step
                        * would remain */
} dl_gain;

#define DL_GAINS_MAX 24

typedef struct dl_gains {
    dl_gain all[DL_GAINS_MAX]; /* [count] changing the throughput by at least 1 %, the largest
                                * first */
    size_t count;
    double per_s;        /* throughput with nothing changed, simulated anew for these ratios */
    const char *why_not; /* reason why nothing was simulated; NULL: it was */
} dl_gains;

/* Sort key of a gain: halving, where it is possible. */
static inline double dl_gain_worth(const dl_gain *gain)
{
    return isnan(gain->half) ? gain->none : gain->half;
}

/* "1.47 times", "over 100 times"; a dash for NaN. In text[bytes] or constant. */
const char *dl_gain_text(char *text, size_t bytes, double ratio);

/* Simulates row `number` again with the time of each cost halved and then removed, on up to five of
 * the scenario's replicates and, if a run has no more than a million events, all its steps; reads the study's text and costs anew for each. No
 * effect if a run has more than five million events. */
void dl_gains_simulate(dl_gains *gains, const dl_study *study, const dl_row *row, size_t number);

/* As above for a row with [generators]: times of both sides, copies, the spread of lengths; and
 * sentences on where its time goes, one per line (generator_explain.c). */
void dl_generators_gains(dl_gains *gains, const dl_variant *variant, const dl_row *row);
void dl_generators_explain(FILE *out, const dl_variant *variant, const dl_row *row);

/* The finding. Rows are numbers of the sweep's; row_count: none. */
typedef struct dl_explanation {
    const dl_study *study; /* borrowed, as sweep */
    const dl_sweep *sweep;
    char **labels;       /* [row_count] settings common to the row's series; NULL: it did not run */
    size_t row;          /* the explained row */
    size_t before;       /* in its series, the row with the next fewer workers */
    size_t best, enough; /* in its series: the highest throughput, the fewest workers near it */
    size_t first,
        drawn; /* best of all rows (dl_result_is_better); in the series, most workers up to 8 for a
                * figure */
    dl_gains gains; /* of `row` */
} dl_explanation;

/* Explains row `row`; if that is row_count, the row with most workers of a series. Rows that differ
 * only in workers (in weak scaling, also in a proportional batch) form a series; the one with most
 * measured rows is chosen, of several the one with most workers. Release with
 * dl_explanation_free. */
void dl_explanation_find(dl_explanation *explanation, const dl_study *study, const dl_sweep *sweep,
                         const dl_measured *measured, size_t row);
void dl_explanation_free(dl_explanation *explanation);

/* Paragraphs and a table of HTML; sentences and a table for a terminal, with the three largest
 * gains. */
void dl_explanation_html(FILE *out, const dl_explanation *explanation);
void dl_explanation_print(FILE *out, const dl_explanation *explanation);

/* "From 4 to 8 GPUs a worker's step goes from ... to ...: dispatch from ... to ....", a line. */
void dl_explain_growth(FILE *out, const dl_row *from, const dl_row *to);

#endif
