/* Rows of another table, predicted with the costs of a fit and by simpler models (see
 * calibrate/table/table_baselines.h) that are fitted to the same rows. */
#ifndef DL_CALIBRATE_TABLE_JUDGE_H
#define DL_CALIBRATE_TABLE_JUDGE_H

#include <stdio.h>

#include "calibrate/table/table_baselines.h"
#include "calibrate/table/table_fit.h"

typedef enum dl_table_method {
    DL_TABLE_SIMULATOR,
    DL_TABLE_POLLUX_FORM,
    DL_TABLE_BYTES,
    DL_TABLE_LINEAR,
    DL_TABLE_METHODS
} dl_table_method;

/* Of |predicted step / measured step - 1| over the rows that a method can predict. */
typedef struct dl_table_errors {
    size_t rows;
    double median_frac, mean_frac, max_frac; /* NAN if there are no rows */
    int max_line;                            /* of the table */
} dl_table_errors;

/* Zero before use, release with dl_table_judgement_free. */
typedef struct dl_table_judgement {
    dl_scenario scenario;
    dl_table_rows rows;
    double *off[DL_TABLE_METHODS]; /* [rows.count] predicted / measured - 1; NAN: none */
    dl_table_errors errors[DL_TABLE_METHODS];
    dl_table_pollux form;
    size_t fitted_rows;
} dl_table_judgement;

/* Predicts the rows of the table at `path`, which the fit of `config` has not seen. Errors as
 * dl_table_fit_run. */
dl_status dl_table_judge(dl_table_judgement *judgement, const dl_table_fit *fit,
                         const dl_table_fit_config *config, const char *path,
                         dl_error *err) DL_MUST_CHECK;
void dl_table_judgement_free(dl_table_judgement *judgement);

void dl_table_judgement_print(const dl_table_judgement *judgement, FILE *out);

#endif
