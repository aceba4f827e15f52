/* What this machine charges for moving, averaging and waiting, from bench traces.
 *
 *   copy             latency + bytes / bandwidth                  one thread at once
 *   average, update  latency + bytes (vectors / read + 1 / write)     one thread
 *   barrier, lock    median of the samples with 2 .. cores threads
 *   wakeup           median of wake-ups on another core (2 threads)
 *   slice            median
 *
 * Samples of one case (bytes, vectors, direction) give one point, their robust centre. The lines
 * are there for what the model exchanges, so what a point may deviate from its line beyond its own
 * standard error (dl_fit_problem.scale) grows with
 *
 *   distance = ratio^2 (1 + |log2(vectors / usual)|)
 *
 * ratio >= 1 being that of its bytes to the model's parameters, and usual vectors 2 for averages, 1
 * for updates (asynchronous modes apply one gradient at a time). So another cache regime far away
 * does not bend the line where it is used. Where a size or a number of vectors does not vary,
 * latency is taken as 0 or read = write, and a note says so. */
#ifndef DL_CALIBRATE_CHARGES_H
#define DL_CALIBRATE_CHARGES_H

#include "calibrate/dataset.h"
#include "calibrate/fit.h"
#include "sim/costs/costs.h"

#define DL_CHARGE_VECTORS_AVERAGE 2
#define DL_CHARGE_VECTORS_UPDATE 1

/* Centre of the samples of one case. */
typedef struct dl_charge_point {
    uint64_t bytes;
    uint32_t vectors, threads;
    dl_phase phase; /* of copies */
    dl_estimate time_ns;
    double fitted_ns; /* NaN where the line is not for it: threads > 1 */
} dl_charge_point;

/* Points of one kind of sample. */
typedef struct dl_charge_line {
    const char *name; /* "copy", "average", "update" */
    dl_charge_point *points;
    size_t count;
} dl_charge_line;

/* Places of the lines in a dl_charges. */
enum { DL_CHARGE_COPY, DL_CHARGE_AVERAGE, DL_CHARGE_UPDATE, DL_CHARGE_LINES };

typedef struct dl_charges {
    dl_charge_line lines[DL_CHARGE_LINES];
} dl_charges;

/* Fills costs->copy, average, update and the four numbers of [sync] from what the bench traces
 * hold; the rest stays unknown. costs->parameter_bytes and cores are used. Zero `fit` before;
 * release with dl_charges_free. */
dl_status dl_charges_fit_all(const dl_dataset *dataset, dl_charges *fit, dl_costs *costs,
                             dl_notes *notes, dl_error *err) DL_MUST_CHECK;
void dl_charges_free(dl_charges *fit);

#endif
