/* Defaults that decided the results of a study. */
#ifndef DL_SIM_DECIDING_H
#define DL_SIM_DECIDING_H

#include "sim/sweep.h"

/* A default that limited some rows, and the fraction of the workers' time spent on it. For [input]
 * cores, loaders, prefetch and storage rates, a value given in the scenario is treated alike. */
typedef struct dl_deciding_default {
    const dl_key *key; /* of dl_scenario_keys */
    bool given;        /* the scenario gives the value */
    double value;
    const char *effect;
    const char *column; /* column of the results with that fraction; NULL: it takes no time */
    double most;        /* largest fraction among the rows */
    size_t rows;
} dl_deciding_default;

/* Least fraction of the time that counts. */
#define DL_DECIDING_FRAC 0.01

/* The defaults that decided the rows, in the order of the table of keys, and *count; free() it. */
dl_deciding_default *dl_deciding_defaults(const dl_study *study, const dl_sweep *sweep,
                                          size_t *count);

#define DL_DECIDING_TEXT_BYTES 300

/* "default [input] cores = 1: ...", "[input] cores = 4: ..." in text[bytes]; returns text. */
const char *dl_deciding_text(char *text, size_t bytes, const dl_deciding_default *deciding);

#endif
