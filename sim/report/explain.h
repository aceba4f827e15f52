/* What a sweep says, in words: what takes a step's time, what grows with the workers, and what
 * would help most, which is simulated. The finding and its renderings, as text and as HTML, are
 * apart. */
#ifndef DL_SIM_EXPLAIN_H
#define DL_SIM_EXPLAIN_H

#include "sim/report/measured.h"
#include "sim/sweep.h"

/* Throughput of a row with one cost different, over its throughput as it is. */
typedef struct dl_gain {
    const char *cost;  /* as --without calls it, or "compute" */
    const char *what;  /* the same in words */
    double half, none; /* in half, in no time; NaN: it cannot be had in part, or a step would have
                          nothing left */
} dl_gain;

#define DL_GAINS_MAX 24

typedef struct dl_gains {
    dl_gain all[DL_GAINS_MAX]; /* [count] that change the throughput by 1 %, the largest first */
    size_t count;
    double per_s;        /* throughput as it is, as it was simulated for these ratios */
    const char *why_not; /* why nothing was simulated; NULL: it was */
} dl_gains;

/* What a gain is ordered by: halving, where it can be had. */
double dl_gain_worth(const dl_gain *gain);

/* "1.47 times", "over 100 times"; a dash for NaN. In text[bytes] or constant. */
const char *dl_gain_text(char *text, size_t bytes, double ratio);

/* Simulates row `number` of the study again with each cost at half and at none of its time, up to
 * five of the scenario's replicates of a hundred steps; the study's text and costs are read again
 * for each. Not where a run has over five million events. */
void dl_gains_simulate(dl_gains *gains, const dl_study *study, const dl_row *row, size_t number);

/* The same of a row with [generators], of the sides' times, copies and the lengths' spread; and what takes
 * its time, in sentences, one a line (generator_explain.c). */
void dl_generators_gains(dl_gains *gains, const dl_variant *variant, const dl_row *row);
void dl_generators_explain(FILE *out, const dl_variant *variant, const dl_row *row);

/* What is found. Rows are numbers of the sweep's; row_count: there is none. */
typedef struct dl_explanation {
    const dl_study *study; /* borrowed, as sweep */
    const dl_sweep *sweep;
    char **labels; /* [row_count] what all rows of the row's series have; NULL: it did not run */
    size_t row;    /* that is explained */
    size_t before; /* of its series, that with most workers of those with fewer */
    size_t best, enough; /* of its series: the highest throughput, the fewest workers near it */
    size_t first,
        drawn; /* of all rows (dl_result_is_better); of the series, most workers up to 8 for a figure */
    dl_gains gains; /* of row */
} dl_explanation;

/* Finds it for row `row`, or for the one that is chosen where that is row_count: rows that
 * differ in nothing but workers (and, in weak scaling, in the batch as much) are a series; of
 * the series with most measured rows, of equal ones that with most workers, the row with most
 * workers. Release with dl_explanation_free. */
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
