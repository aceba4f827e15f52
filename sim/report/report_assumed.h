/* The assumed costs of a study, and their influence on the results. */
#ifndef DL_SIM_REPORT_ASSUMED_H
#define DL_SIM_REPORT_ASSUMED_H

#include "common/csv.h"
#include "common/json.h"
#include "sim/sweep.h"

/* Writes readable lines: each assumption that changes the throughput, with its value, interval,
 * source and influence; the others in one line; the most influential one, with a way to measure it;
 * and each value for which a fit gives only bounds. `sweep` is NULL before a simulation. Returns
 * the number of assumptions. */
size_t dl_report_assumed(FILE *out, const dl_study *study, const dl_sweep *sweep);

/* Writes machine-readable comment lines, one per assumption: "assumed: [section] key=value low=...
 * high=...; source", and one per value with bounds only: "not determined: ...". */
void dl_report_assumed_head(dl_csv_writer *writer, const dl_study *study, const dl_sweep *sweep);

/* Writes the assumptions as member "assumed" of a JSON object, a list of objects, and the values
 * with bounds only, if any, as "not_determined". */
void dl_report_assumed_json(dl_json *to, const dl_study *study, const dl_sweep *sweep);

#endif
