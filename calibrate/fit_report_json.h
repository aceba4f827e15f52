/* Writes the quality of a calibration as JSON: the same content as the printed report, in ns, bytes
 * and bytes a second, every value with error, n and origin; an unknown number is null. */
#ifndef DL_CALIBRATE_FIT_REPORT_JSON_H
#define DL_CALIBRATE_FIT_REPORT_JSON_H

#include "calibrate/calibration.h"

/* Writes `path`. Errors of dl_output_open and dl_output_close. */
dl_status dl_fit_report_json_write(const dl_calibration *calibration, const char *path,
                                   dl_error *err) DL_MUST_CHECK;

#endif
