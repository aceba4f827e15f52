/* What the fits to links say, for people and as JSON. */
#ifndef DL_CALIBRATE_LINKS_REPORT_H
#define DL_CALIBRATE_LINKS_REPORT_H

#include <stdio.h>

#include "calibrate/links/links_fit.h"
#include "calibrate/links/links_judge.h"
#include "calibrate/notes.h"

/* A series with its fit. */
typedef struct dl_link_result {
    const dl_link_series *series; /* borrowed */
    dl_link_fit fit;
    dl_link_judgement judgement[2]; /* fitted to the first, third, ... size; second, fourth, ... */
    bool judged;                    /* there are enough sizes */
} dl_link_result;

/* All of the data; owns all but *data. Zero before use. */
typedef struct dl_link_results {
    const dl_link_data *data; /* finished; borrowed */
    dl_link_result *results;  /* [count] in the order of the series, those with two sizes or more */
    size_t count;
    dl_notes notes; /* what the data do not determine */
} dl_link_results;

/* Fits all series. DL_ERR_DATA if none has two sizes and there are no rates. */
dl_status dl_link_results_fit(dl_link_results *links, const dl_link_data *data,
                              dl_error *err) DL_MUST_CHECK;
void dl_link_results_free(dl_link_results *links);

/* A series as "allreduce 8 ranks in place" into text[bytes]; returns text. */
const char *dl_link_series_text(char *text, size_t bytes, const dl_link_series *series);

/* Tables of regimes, rates, notes. */
void dl_link_results_print(const dl_link_results *links, FILE *out);

/* One line a series: errors at sizes that were left out, beside those of the usual formula. */
void dl_link_results_print_judgements(const dl_link_results *links, FILE *out);

void dl_link_results_write_json(const dl_link_results *links, FILE *out);

#endif
