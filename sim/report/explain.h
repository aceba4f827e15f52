/* What a sweep says, in words: what takes a step's time, what grows with the workers, and what would
 * help most, which is simulated. */
#ifndef DL_SIM_EXPLAIN_H
#define DL_SIM_EXPLAIN_H

#include "sim/report/measured.h"
#include "sim/sweep.h"

/* Writes paragraphs and a table of HTML. Rows that differ in nothing but workers (and, in weak scaling, in
 * the batch as much) belong together; explained is the series with most measured rows, of equal ones that
 * with most workers. What would help: its row with most workers is simulated again with each cost at half
 * and at none of its time, up to five of the scenario's replicates of a hundred steps; its text and
 * its costs are read again for each. Not where a run has over five million events. Returns the series' row
 * with most workers up to 8, if it has one, which a figure can show; row_count if no point could run. */
size_t dl_explain(FILE *out, const dl_study *study, const dl_sweep *sweep,
                  const dl_measured *measured);

#endif
