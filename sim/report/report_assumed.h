/* The assumed costs of a study, and their influence on the results. */
#ifndef DL_SIM_REPORT_ASSUMED_H
#define DL_SIM_REPORT_ASSUMED_H

#include "common/csv.h"
#include "common/json.h"
#include "common/notes.h"
#include "sim/sweep.h"

/* Notes with the size of their effect on throughput, a fraction; 0: none was measured. */
typedef struct dl_effects {
    struct dl_effect {
        double size;
        char *text; /* owned */
    } * items;      /* [count] */
    size_t count;
} dl_effects;

/* Adds a note with the formatted text. */
void dl_effects_add(dl_effects *effects, double size, const char *format, ...) DL_PRINTF(3, 4);

/* Moves them to `notes`, the largest effect first and equal ones in the order in which they were
 * added. */
void dl_effects_end(dl_notes *notes, dl_effects *effects);

/* Adds notes: each assumption that changes the throughput, with its value, interval, source and
 * influence; the others in one note; the most influential one, with a way to measure it; and each
 * value for which a fit gives only bounds. `sweep` is NULL before a simulation. */
void dl_report_assumed(dl_effects *effects, const dl_study *study, const dl_sweep *sweep);

/* Writes machine-readable comment lines, one per assumption: "assumed: [section] key=value low=...
 * high=...; source", and one per value with bounds only: "not determined: ...". */
void dl_report_assumed_head(dl_csv_writer *writer, const dl_study *study, const dl_sweep *sweep);

/* Writes the assumptions as member "assumed" of a JSON object, a list of objects, and the values
 * with bounds only, if any, as "not_determined". */
void dl_report_assumed_json(dl_json *to, const dl_study *study, const dl_sweep *sweep);

#endif
