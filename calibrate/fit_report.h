/* Prints the quality of a calibration for people, at most 80 columns wide: what was read, every fit
 * with its errors and residuals, fitted against observed step times, and the notes. */
#ifndef DL_CALIBRATE_FIT_REPORT_H
#define DL_CALIBRATE_FIT_REPORT_H

#include <stdio.h>

#include "calibrate/calibration.h"

void dl_fit_report_print(const dl_calibration *calibration, FILE *out);

#endif
