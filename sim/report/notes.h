/* What a user should know of a study beside its results: costs that are not known and so are left
 * out, costs of another GPU, scaled or not, and the defaults that decided the results. */
#ifndef DL_SIM_NOTES_H
#define DL_SIM_NOTES_H

#include "sim/sweep.h"

/* The notes, each once, as strings of their own in an array of *count; dl_study_notes_free. After
 * dl_study_read_costs, and after costs were switched off (what is off need not be known). */
char **dl_study_notes(const dl_study *study, size_t *count, size_t *leading);
void dl_study_notes_free(char **notes, size_t count);

/* Notes on the traces of the costs (sim/traced.h): their own steps, and the collectives that the
 * rows leave out. Likewise; dl_study_notes_free. */
char **dl_traced_notes(const dl_study *study, const dl_sweep *sweep, size_t *count);

/* Notes that the cost files of the study hold, each once, "FILE: text". Likewise. */
char **dl_file_notes(const dl_study *study, size_t *count);

/* A default that limited some rows, by the part of the workers' time that shows it. Of [input]
 * cores, loaders, prefetch and rates of storage also a value that the scenario gives. */
typedef struct dl_deciding_default {
    const dl_key *key; /* of dl_scenario_keys */
    bool given;        /* then it is this value that limits most */
    double value;
    const char *effect; /* what it does */
    const char *column; /* of the results, which has that part; NULL: nothing takes time by it */
    double most;        /* the largest part among the rows */
    size_t rows;
} dl_deciding_default;

/* Least part of the time that counts. */
#define DL_DECIDING_FRAC 0.01

/* The defaults that decided the rows, in the order of the table of keys, and *count; free() it. */
dl_deciding_default *dl_deciding_defaults(const dl_study *study, const dl_sweep *sweep,
                                          size_t *count);

#define DL_DECIDING_TEXT_BYTES 300

/* "default [input] cores = 1: ...", "[input] cores = 4: ..." in text[bytes]; returns text. */
const char *dl_deciding_text(char *text, size_t bytes, const dl_deciding_default *deciding);

#endif
