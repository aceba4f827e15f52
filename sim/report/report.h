/* Output of a sweep's results: the results table (CSV), the staleness histogram (CSV), and a
 * readable table.
 *
 * Results: '#' lines (schema, program, scenario, seed, settings; "default: [section] key=value
 * rows=N COLUMN=X": a default that decided N rows, where X is the largest fraction of their time
 * that it accounts for), then one row per point. Columns are in SI units; a cell that does not
 * apply is empty. origin is the least trustworthy origin of the costs used; extrapolated is 1 where
 * the point (or its baseline) lies outside the costs' measured range. applied_frac is the fraction
 * of all gradients that were applied in an update. measured_low_per_s and measured_high_per_s are
 * one standard error below and above. error_frac is predicted over measured throughput, minus 1. If
 * the measured table marks the rows that costs were fitted to, measured_use and measured_note
 * (measured.h) follow, and, if known, left_out_error_frac: the error with costs fitted to the other
 * rows. The columns *_by_worker hold one number per worker, separated by semicolons. With an
 * explanation: "gain: cost=dispatch half=1.471 none=2.234 sync=ps workers=8 batch=128" for each
 * cost of the explained row, and finally the columns dominant and dominant_frac. Nothing in the
 * file depends on the clock or on the number of threads. */
#ifndef DL_SIM_REPORT_H
#define DL_SIM_REPORT_H

#include <stdio.h>

#include "common/cell_table.h"
#include "common/notes.h"
#include "sim/report/explain.h"
#include "sim/report/measured.h"
#include "sim/sweep.h"

#define DL_RESULTS_SCHEMA 1

/* Writes the GPU memory that each stage of the study's points needs, by kind, whether it fits, the
 * largest micro-batch that fits, and changes that would make it fit. Simulates nothing.
 * DL_ERR_UNFIT if no point fits. */
dl_status dl_report_memory(FILE *out, const dl_study *study, dl_error *err) DL_MUST_CHECK;

/* Writes the results of sweep (rows of the study's points) and measured [sweep->row_count]; with an
 * explanation (else NULL) also its gains and each row's dominant part. */
dl_status dl_report_results(const char *path, const dl_study *study, const dl_sweep *sweep,
                            const dl_measured *measured, const dl_explanation *explanation,
                            dl_error *err) DL_MUST_CHECK;

/* Writes the results to a stream; write errors stay in it. */
void dl_report_results_write(FILE *out, const dl_study *study, const dl_sweep *sweep,
                             const dl_measured *measured, const dl_explanation *explanation);

/* Puts the results into a table in memory; `table` must be zeroed. */
void dl_report_results_table(dl_cell_table *table, const dl_study *study, const dl_sweep *sweep,
                             const dl_measured *measured, const dl_explanation *explanation);

/* Write the results as one JSON document (docs/formats.md), with the '#' lines as members,
 * "columns" and "rows", to `path` or to a stream, in which write errors stay. */
dl_status dl_report_json(const char *path, const dl_study *study, const dl_sweep *sweep,
                         const dl_measured *measured, const dl_explanation *explanation,
                         dl_error *err) DL_MUST_CHECK;
void dl_report_json_write(FILE *out, const dl_study *study, const dl_sweep *sweep,
                          const dl_measured *measured, const dl_explanation *explanation);

/* Writes the histogram with columns cores, workers, batch, sync, its options, worker, staleness,
 * count, frac (of the worker's gradients), for all points whose mode has a staleness
 * distribution. */
dl_status dl_report_histogram(const char *path, const dl_study *study, const dl_sweep *sweep,
                              dl_error *err) DL_MUST_CHECK;

/* Writes the histogram of one row to a stream, without the '#' lines. */
void dl_report_histogram_write(FILE *out, const dl_study *study, const dl_sweep *sweep, size_t row);

/* Adds the user's notes: those of notes.h (except dl_file_notes), row_text.h and
 * report_assumed.h, and the defaults that decided (deciding.h). */
void dl_report_notes(dl_notes *notes, const dl_study *study, const dl_sweep *sweep);

/* Writes "note: " and the text, wrapped to dl_wrap_columns. */
void dl_report_note_print(FILE *out, const char *note);

/* Writes the answer in a sentence, the readable table fitted to the width of `out`
 * (dl_wrap_columns), the first few notes or, with all_notes, all of them, and, with measurements,
 * the mean and largest error. */
void dl_report_table(FILE *out, const dl_study *study, const dl_sweep *sweep,
                     const dl_measured *measured, bool all_notes);

#endif
