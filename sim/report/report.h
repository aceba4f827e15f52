/* What a sweep found, written: the results table (CSV), the staleness histogram (CSV), and a table
 * for people.
 *
 * Results: '#' lines (schema, program, scenario, seed, settings; "default: [section] key=value
 * rows=N COLUMN=X": a default that decided N rows, where X is the largest part of their time that
 * shows it), then one row a point. Columns are
 * in SI units; a cell that does not apply is empty. origin is the least trustworthy one of the
 * costs used; extrapolated is 1 where the point (or its baseline) lies outside what the costs were
 * measured at. applied_frac is the part of all gradients that an update has in it.
 * measured_low_per_s and measured_high_per_s are one standard error below and above. error_frac is
 * predicted over measured throughput, minus 1. The columns *_by_worker hold one number a worker,
 * separated by semicolons. Nothing in the file depends on the clock or on the number of threads.
 */
#ifndef DL_SIM_REPORT_H
#define DL_SIM_REPORT_H

#include <stdio.h>

#include "sim/report/measured.h"
#include "sim/sweep.h"

#define DL_RESULTS_SCHEMA 1

/* Writes the results of sweep (rows of the study's points) and measured [sweep->row_count]. */
dl_status dl_report_results(const char *path, const dl_study *study, const dl_sweep *sweep,
                            const dl_measured *measured, dl_error *err) DL_MUST_CHECK;

/* Writes columns cores, workers, batch, sync, its options, worker, staleness, count, frac (of the
 * worker's gradients) for all points whose mode has a staleness distribution. */
dl_status dl_report_histogram(const char *path, const dl_study *study, const dl_sweep *sweep,
                              dl_error *err) DL_MUST_CHECK;

/* The largest dl_run_result.tail_frac that needs no note. */
#define DL_REPORT_TAIL_FRAC 0.05

/* Which points ran too few steps for their throughput to be a steady one; NULL if none did. Release
 * with free(). */
char *dl_report_short_note(const dl_sweep *sweep);

/* Predicted over measured throughput, minus 1; NaN without a measurement. */
double dl_report_error_frac(const dl_row *row, const dl_measured *measured);

/* Writes the readable table and, where there are measurements, the mean and largest error. */
void dl_report_table(FILE *out, const dl_study *study, const dl_sweep *sweep,
                     const dl_measured *measured);

#endif
