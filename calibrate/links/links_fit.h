/* Time of a copy or a collective by its size: a few regimes, each a straight line.
 *
 *   T(S) = latency_k + S / bandwidth_k     for S in regime k
 *
 *   time |            .'  3      Libraries change protocol and algorithm with the size (NCCL: LL,
 *        |      2  _.'           LL128, Simple; ring, tree), memory changes cache; in between
 *        |     _.-'              latency and bandwidth are constant. Lines of neighbours join where
 *        |____/                  they cross; if they do not cross between the last size of one and
 *        |  1                    the first of the next, a straight line joins these two.
 *        +---------------- size
 *
 * Residuals are relative. A point's variance is that of DL_LINK_REPEAT_FRAC and its own error. Lines
 * are fitted with bisquare weights (Beaton & Tukey 1974, tuning constant 4.685: 95 % efficient where
 * errors are normal). How many regimes there are, and where, is what minimises
 *
 *   sum rho(r / sigma) + (3 K - 1) ln n
 *
 * over all ways to cut the sizes into K runs of at least two: the Bayesian information criterion
 * (Schwarz 1978) with two parameters a line and one a border, rho bounded as the weights are. The
 * minimum is exact (dynamic programming over the borders; Bellman 1961). So a regime has to earn
 * itself, and one wrong point never does. Standard errors are those of weighted least squares (GSL),
 * times the square root of the reduced chi^2 where that is above 1.
 */
#ifndef DL_CALIBRATE_LINKS_FIT_H
#define DL_CALIBRATE_LINKS_FIT_H

#include "calibrate/fit.h"
#include "calibrate/links/links_data.h"

/* Relative standard deviation of a printed mean of 20 calls when it is measured again: assumed. Ten
 * logs' columns of nccl-tests (8 A100) have one size, 0 bytes, two or five times; it is 0.2 to 1.8 %
 * in the four with five, 0.4 to 5.4 % in the six with two. */
#define DL_LINK_REPEAT_FRAC 0.01
/* Most sizes of a series: the search takes their square of line fits. */
#define DL_LINK_SIZES_MAX 512
/* A parameter below so many standard errors is not determined. */
#define DL_LINK_DETERMINED 2.0

typedef struct dl_link_regime {
    size_t first, last;           /* points, inclusive */
    dl_estimate latency_ns;       /* of the line at size 0; count = points */
    dl_estimate ns_per_byte;      /* >= 0; 0 with error 0: held there */
    double low_bytes, high_bytes; /* where its line holds: joins with the neighbours; of the first
                                   * from 0, of the last to INFINITY */
    bool latency_determined, bandwidth_determined;
} dl_link_regime;

/* A corner of the curve. */
typedef struct dl_link_vertex {
    double bytes, time_ns, error_ns;
} dl_link_vertex;

typedef struct dl_link_fit {
    dl_link_regime *regimes; /* [regime_count] */
    size_t regime_count;
    dl_link_vertex
        *vertices; /* [vertex_count], 2 or more, ascending, first at 0 bytes: T is straight between
                               * them, and beyond the last as between the last two */
    size_t vertex_count;
    bool *outlier; /* [points] weight 0, or slower than a larger size beyond what noise explains */
    double *residual; /* [points] fitted / measured - 1 */
    size_t count;     /* points */
    double rms_frac;  /* of the residuals that are no outliers */
} dl_link_fit;

/* Fits points[n], ascending sizes, all different. Zero *fit before. DL_ERR_DATA: fewer than two
 * sizes, or more than DL_LINK_SIZES_MAX. */
dl_status dl_link_fit_run(dl_link_fit *fit, const dl_link_point *points, size_t n,
                          dl_error *err) DL_MUST_CHECK;

void dl_link_fit_free(dl_link_fit *fit);

/* T(bytes) in ns, bytes >= 0. */
double dl_link_fit_time_ns(const dl_link_fit *fit, double bytes);

#endif
