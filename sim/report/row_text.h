/* Texts for a row of the results: its options, its marks, the parts of its time. */
#ifndef DL_SIM_ROW_TEXT_H
#define DL_SIM_ROW_TEXT_H

#include <stdio.h>

#include "common/notes.h"
#include "sim/report/measured.h"
#include "sim/sweep.h"

/* Largest dl_run_result.tail_frac that gets no note. */
#define DL_REPORT_TAIL_FRAC 0.05

/* Adds the notes on the results' rows: points that ran too few steps for a steady throughput;
 * the row in which some workers make by far the most steps, each over twice as many as the other
 * workers on average, which the mean step does not show; rows without a time to the target; and,
 * with worker_mtbf_s, a row in which no worker failed. */
void dl_report_row_notes(dl_notes *notes, const dl_study *study, const dl_sweep *sweep);

/* Predicted over measured throughput, minus 1; NaN without a measurement. */
double dl_report_error_frac(const dl_row *row, const dl_measured *measured);

#define DL_REPORT_OPTIONS_BYTES 1024

/* Writes the row's values of the swept keys except cores, workers, batch and mode to text[bytes]:
 * "where gpu:0, interval 10"; "" if there are none. */
void dl_report_options(char *text, size_t bytes, const dl_study *study, const dl_row *row);

/* Writes the row's marks in tables to `text` and returns it: '*' if the row is extrapolated, '+' if
 * it leaves out collectives of the trace that its costs come from, '!' if it contradicts that
 * trace; "" for none. */
#define DL_MARKS_BYTES 8
const char *dl_report_marks(char text[DL_MARKS_BYTES], const dl_row *row);

/* Returns "103.0 % each: REASON" if the row has a reason for its efficiency above 1, else NULL; the
 * caller frees the text. */
char *dl_report_above(const dl_row *row);

/* Adds the row's marks to `used`. */
void dl_report_marks_of(char used[DL_MARKS_BYTES], const dl_row *row);

/* Prints the meanings of the marks used, one per line between `before` and `after`. */
void dl_report_marks_explain(FILE *out, const char *used, const char *before, const char *after);

/* Parts of a row's time below this fraction are left out of texts. */
#define DL_PART_SHOWN_FRAC 0.005

/* Formats samples per second as in tables, "1.623" or "4351", into text[DL_RATE_BYTES]; returns
 * text. */
#define DL_RATE_BYTES 32
const char *dl_rate_text(char text[DL_RATE_BYTES], double per_s);
#define DL_RATE_TEXT(per_s) dl_rate_text((char[DL_RATE_BYTES]){0}, per_s)

/* Sorts the parts by descending size[DL_PART_COUNT] into order[DL_PART_COUNT]. */
void dl_parts_sort(const double *size, dl_part *order);

/* Returns the largest part of a row's time. */
dl_part dl_dominant_part(const dl_row *row);

/* Appends "averaging 61 %, compute 28 %" to *text (NULL: none yet): the parts of a row's time in descending order, from index
 * `first` (0: all) down to DL_PART_SHOWN_FRAC. */
void dl_parts_put(char **text, const dl_row *row, int first);

#endif
