/* The traffic that this machine's memory carries at most: bytes read and written a second by all
 * cores together. It is the highest that k >= 2 threads reached together in the bench, at the size
 * nearest to the model's parameters (2 bytes a byte copied, vectors + 1 averaged).
 *
 * Where k threads moved about k times what one did, the limit was not reached: the value is then a
 * lower bound, its origin is "assumed" and a note says so. */
#ifndef DL_CALIBRATE_MEMORY_H
#define DL_CALIBRATE_MEMORY_H

#include "calibrate/charges.h"

/* From this speed-up over one thread on, as a fraction of k, no limit is seen. */
#define DL_MEMORY_FREE_FRAC 0.9

/* What k threads moved together in one case. */
typedef struct dl_memory_point {
    const char *name; /* "copy", "average" */
    dl_phase phase;   /* of copies */
    uint64_t bytes;
    uint32_t vectors, threads;
    dl_estimate bytes_per_s;
    double speedup; /* over one thread in the same case; NaN if that was not measured */
} dl_memory_point;

typedef struct dl_memory_fit {
    dl_memory_point *points;
    size_t count;
} dl_memory_fit;

/* Fills costs->memory_total_bytes_per_s from the points of `charges`; it stays unknown where no two
 * threads were measured. Zero `fit` before; release with dl_memory_fit_free. */
void dl_memory_fit_total(const dl_charges *charges, dl_memory_fit *fit, dl_costs *costs,
                         dl_notes *notes);
void dl_memory_fit_free(dl_memory_fit *fit);

#endif
