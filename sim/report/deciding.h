/* Defaults that decided the results of a study. */
#ifndef DL_SIM_DECIDING_H
#define DL_SIM_DECIDING_H

#include "sim/sweep.h"

/* A default that limited some rows, and the fraction of the workers' time spent on it. For [input]
 * cores, loaders, prefetch and storage rates, values given in the scenario are included too. */
typedef struct dl_deciding_default {
    const dl_key *key; /* borrowed from dl_scenario_keys */
    bool given;        /* the scenario sets the value itself */
    double value;
    const char *effect;
    const char *column; /* results column with that fraction; NULL: the default takes no time */
    double most;        /* largest fraction among the rows */
    size_t rows;
} dl_deciding_default;

/* Smallest fraction of the time that is reported. */
#define DL_DECIDING_FRAC 0.01

/* Returns the defaults that decided the rows, in the order of the key table, and sets *count.
 * Release with free(). */
dl_deciding_default *dl_deciding_defaults(const dl_study *study, const dl_sweep *sweep,
                                          size_t *count);

#define DL_DECIDING_TEXT_BYTES 300

/* Writes "default [input] cores = 1: ..." or "[input] cores = 4: ..." to text[bytes]; returns
 * text. */
const char *dl_deciding_text(char *text, size_t bytes, const dl_deciding_default *deciding);

#endif
