/* How well a fit predicts sizes that it has not seen: fitted to every second size, judged on the
 * others; and the same of the usual formula latency + bytes / bandwidth, by least squares. */
#ifndef DL_CALIBRATE_LINKS_JUDGE_H
#define DL_CALIBRATE_LINKS_JUDGE_H

#include "calibrate/links/links_fit.h"

/* Relative errors without sign. */
typedef struct dl_link_errors {
    double mean_frac, max_frac;
    double max_bytes; /* size of the largest */
    size_t count;
} dl_link_errors;

typedef struct dl_link_judgement {
    dl_link_errors fit;   /* all sizes that were left out */
    dl_link_errors usual; /* of the usual formula, the same sizes */
    dl_link_errors rest;  /* of the fit, without sizes that cannot judge it: outliers of the fit to
                           * all sizes, times printed to fewer digits than DL_LINK_COARSE_FRAC */
    dl_link_errors even;  /* of the fit, at the even sizes: those where the line through the sizes
                          * beside them, in logarithms, is off by at most DL_LINK_EVEN_FRAC. What
                          * lies further off, no method that sees every second size can know. */
    size_t regimes;
    double *error_frac;  /* [n] fitted over measured - 1; NaN: the fit has seen the size */
    double *beside_frac; /* [n] that line over measured - 1; NaN also at both ends */
} dl_link_judgement;

#define DL_LINK_EVEN_FRAC 0.1

/* Times with a larger relative error of their digits judge nothing. */
#define DL_LINK_COARSE_FRAC 0.02

/* Fits to points begin, begin + 2, ... (begin 0 or 1) and judges on the others. `all` is the fit to
 * all points[n]. DL_ERR_DATA with fewer than DL_LINK_JUDGE_MIN points. Release with
 * dl_link_judgement_free. */
#define DL_LINK_JUDGE_MIN 6
dl_status dl_link_judge(dl_link_judgement *judgement, const dl_link_point *points, size_t n,
                        size_t begin, const dl_link_fit *all, dl_error *err) DL_MUST_CHECK;

void dl_link_judgement_free(dl_link_judgement *judgement); /* a zeroed one is fine */

#endif
