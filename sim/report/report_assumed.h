/* What was assumed for the costs of a study, and what it does to the results. */
#ifndef DL_SIM_REPORT_ASSUMED_H
#define DL_SIM_REPORT_ASSUMED_H

#include "common/csv.h"
#include "common/json.h"
#include "sim/sweep.h"

/* For people, a line each: every assumption that moves the throughput, with
 * value, interval, source and by how much; the others in one line; and which one moves it most,
 * with how to measure it. `sweep`: NULL before a simulation.
 * Returns how many values were assumed. */
size_t dl_report_assumed(FILE *out, const dl_study *study, const dl_sweep *sweep);

/* For programs, "assumed: [section] key=value low=... high=...; source", a comment line each. */
void dl_report_assumed_head(dl_csv_writer *writer, const dl_study *study, const dl_sweep *sweep);

/* The same as a member "assumed" of a JSON object: a list of objects. */
void dl_report_assumed_json(dl_json *to, const dl_study *study, const dl_sweep *sweep);

#endif
