#include "calibrate/links/links.h"

#include <gsl/gsl_fit.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

/* A parameter is determined if it is at least this many standard errors above 0. */
#define DL_LINK_DETERMINED 2.0

#define TUNING 4.685
#define ROUNDS 20       /* maximum number of reweightings */
#define SETTLED 1e-3    /* largest change of a weight at convergence */
#define ROBUST_MIN 4    /* minimum points of a reweighted line: two more than its parameters */
#define REGIME_POINTS 2 /* minimum points of a regime */
/* Noise assumed when looking for gross errors: a time is then wrong only if it is less than about
 * half of that of a smaller size. */
#define GROSS_FRAC 0.1
/* A rate above this multiple of the next sizes' rates is wrong: no cache is that much faster than
 * memory. */
#define CACHE_FACTOR 10

#define NOISES 6          /* candidates: DL_LINK_REPEAT_FRAC times 1, 2, 4, ..., 32 */
#define SIZES_TO_CHOOSE 4 /* fewer sizes do not determine the noise */
#define FOLDS 8           /* maximum number of cross-validation fits */
#define MANY_SIZES 64     /* with more sizes, two folds are used, to save time */

/* A line through some of the points. */
typedef struct line {
    double c0, c1; /* ns, ns per byte */
    double cov00, cov01, cov11;
    double loss; /* sum of rho over the points */
} line;

typedef struct problem {
    const dl_link_point *points;
    size_t n;
    double noise_frac;
    double *bytes, *time, *sd; /* [n] */
    double *weight;            /* [n] weights of the line being fitted: robust factor / variance */
    bool *left_out; /* [n] gross errors; a point that is too fast would attract all lines, as
                     * its error is small */
    line *lines;    /* [n x n] line through points i..j at [i * n + j], j > i */
} problem;

/* Twice Tukey's rho: r^2 near 0, TUNING^2 / 3 from TUNING on. */
static double loss_of(double r)
{
    const double u = r / TUNING;
    return TUNING * TUNING / 3 * (fabs(u) < 1 ? 1 - pow(1 - u * u, 3) : 1);
}

static double factor_of(double r)
{
    const double u = r / TUNING;
    return fabs(u) < 1 ? pow(1 - u * u, 2) : 0;
}

static double residual(const problem *p, const line *l, size_t i)
{
    if (p->left_out[i]) return INFINITY;
    return (p->time[i] - l->c0 - l->c1 * p->bytes[i]) / p->sd[i];
}

/* Returns whether size i is slower than the larger size j by more than the noise explains. */
static bool falls(const dl_link_point *points, size_t i, size_t j, double noise_frac)
{
    const double sd_i = points[i].time_ns * hypot(noise_frac, points[i].error_frac);
    const double sd_j = points[j].time_ns * hypot(noise_frac, points[j].error_frac);
    return points[i].time_ns - points[j].time_ns > TUNING * hypot(sd_i, sd_j);
}

typedef enum fault { NO_FAULT, TOO_SLOW, TOO_FAST, EITHER } fault;

/* If the time falls from size i to size i + 1, finds which of the two is wrong: the one without
 * which times rise. If that holds for both, the smaller size is too slow, as wrong times are mostly
 * too long, unless the larger size has a higher rate than the next one. If it holds for neither
 * (several sizes are slower than the next), the cause may be a change of protocol. */
static fault fault_between(const dl_link_point *points, size_t n, size_t i, double noise_frac)
{
    if (i + 1 >= n || !falls(points, i, i + 1, noise_frac)) return NO_FAULT;
    const dl_link_point *next = i + 2 < n ? &points[i + 2] : NULL, *fast = &points[i + 1];
    const bool without_slow = i == 0 || !falls(points, i - 1, i + 1, noise_frac);
    const bool without_fast = next == NULL || !falls(points, i, i + 2, noise_frac);
    if (!without_slow && !without_fast) return EITHER;
    if (without_slow != without_fast) return without_fast ? TOO_FAST : TOO_SLOW;
    const bool outruns =
        next != NULL &&
        fast->bytes / fast->time_ns > (1 + TUNING * noise_frac) * next->bytes / next->time_ns;
    return outruns ? TOO_FAST : TOO_SLOW;
}

/* Returns whether size i is far slower than a larger size or far faster than a smaller one. The
 * first size is too fast if its rate exceeds CACHE_FACTOR times the rates of the next two. */
static bool is_far_off(const dl_link_point *points, size_t n, size_t i)
{
    double most = 0;
    if (fault_between(points, n, i, GROSS_FRAC) == TOO_SLOW) return true;
    if (i > 0) return fault_between(points, n, i - 1, GROSS_FRAC) == TOO_FAST;
    for (size_t k = 1; k <= 2 && k < n; k++)
        most = fmax(most, points[k].bytes / points[k].time_ns);
    return points[0].bytes / points[0].time_ns > CACHE_FACTOR * most;
}

/* Fits a line by weighted least squares. Constrains a negative slope, or a negative latency of the
 * first regime, to 0. */
static void solve(const problem *p, size_t first, size_t count, line *l)
{
    const double *x = p->bytes + first, *w = p->weight + first, *y = p->time + first;
    double chi2;
    *l = (line){0};
    gsl_fit_wlinear(x, 1, w, 1, y, 1, count, &l->c0, &l->c1, &l->cov00, &l->cov01, &l->cov11,
                    &chi2);
    if (l->c1 < 0 || !isfinite(l->c1)) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += w[i];
        *l = (line){.c0 = gsl_stats_wmean(w, 1, y, 1, count), .cov00 = 1 / sum};
    } else if (l->c0 < 0 && first == 0) {
        *l = (line){0};
        gsl_fit_wmul(x, 1, w, 1, y, 1, count, &l->c1, &l->cov11, &chi2);
    }
}

/* Sets the weights from the residuals. Returns false if no further fit is needed: too few points
 * would keep a weight above 0, or no weight changed. */
static bool reweigh(problem *p, size_t first, size_t count, const line *l)
{
    double change = 0;
    size_t left = 0;
    for (size_t i = first; i < first + count; i++)
        left += factor_of(residual(p, l, i)) > 0;
    if (left <= REGIME_POINTS) return false;
    for (size_t i = first; i < first + count; i++) {
        const double full = 1 / (p->sd[i] * p->sd[i]);
        const double weight = full * factor_of(residual(p, l, i));
        change = fmax(change, fabs(weight - p->weight[i]) / full);
        p->weight[i] = weight;
    }
    return change > SETTLED;
}

static void fit_line(problem *p, size_t first, size_t count, line *l)
{
    size_t kept = 0;
    for (size_t i = first; i < first + count; i++) {
        p->weight[i] = p->left_out[i] ? 0 : 1 / (p->sd[i] * p->sd[i]);
        kept += !p->left_out[i];
    }
    if (kept < REGIME_POINTS) {
        *l = (line){.loss = INFINITY};
        return;
    }
    solve(p, first, count, l);
    for (int round = 0; kept >= ROBUST_MIN && round < ROUNDS; round++) {
        if (!reweigh(p, first, count, l)) break;
        solve(p, first, count, l);
    }
    for (size_t i = first; i < first + count; i++)
        l->loss += loss_of(residual(p, l, i));
}

/* Partitions the points into regimes; before[j] is the start of the last regime of the best
 * partition of points 0..j-1. */
static void cut(const problem *p, size_t *before)
{
    const double border = 3 * log((double)p->n);
    DL_AUTOFREE double *best = dl_calloc(p->n + 1, sizeof *best, "best cuts");
    for (size_t end = 1; end <= p->n; end++) {
        best[end] = INFINITY;
        for (size_t i = 0; i + REGIME_POINTS <= end; i++) {
            const double cost = best[i] + p->lines[i * p->n + end - 1].loss + border;
            if (cost >= best[end]) continue;
            best[end] = cost;
            before[end] = i;
        }
    }
}

static void take_regime(dl_link_regime *r, const problem *p, size_t first, size_t last)
{
    const line *l = &p->lines[first * p->n + last];
    int64_t count = 0;
    double chi2 = 0, left = 0;
    for (size_t i = first; i <= last; i++) {
        if (p->left_out[i]) continue;
        count++;
        const double factor = factor_of(residual(p, l, i));
        chi2 += factor * pow(residual(p, l, i), 2);
        left += factor > 0;
    }
    const double excess = left > 2 ? fmax(1, sqrt(chi2 / (left - 2))) : 1;
    *r = (dl_link_regime){
        .first = first,
        .last = last,
        .latency_ns = {l->c0, excess * sqrt(l->cov00), count},
        .ns_per_byte = {l->c1, excess * sqrt(l->cov11), count},
    };
    r->latency_determined = l->c0 > DL_LINK_DETERMINED * r->latency_ns.error;
    r->bandwidth_determined = l->c1 > DL_LINK_DETERMINED * r->ns_per_byte.error;
}

/* Marks regimes whose slope is not a bandwidth: plus twice its error, it is below the last
 * regime's slope and below the time per byte of the fastest size. Such slopes occur if the sizes
 * lie on both sides of a change of protocol or of the number of channels, or if the times are
 * mostly latency. */
static void find_changes(dl_link_fit *fit, const problem *p)
{
    const dl_link_regime *last = &fit->regimes[fit->regime_count - 1];
    double least = last->bandwidth_determined ? last->ns_per_byte.value : (double)INFINITY;
    for (size_t i = 0; i < p->n; i++) {
        const double ns_per_byte = p->time[i] / p->bytes[i];
        if (p->left_out[i] || ns_per_byte >= least) continue;
        least = ns_per_byte;
    }
    for (size_t k = 0; k + 1 < fit->regime_count; k++) {
        dl_link_regime *r = &fit->regimes[k];
        const double most = r->ns_per_byte.value + DL_LINK_DETERMINED * r->ns_per_byte.error;
        r->changes = r->bandwidth_determined && most < least;
    }
    fit->fastest_per_s = DL_NS_PER_S / least;
}

static double line_at(const dl_link_regime *r, double bytes)
{
    return r->latency_ns.value + r->ns_per_byte.value * bytes;
}

/* Standard error of a regime's line at a size. */
static double error_at(const problem *p, const dl_link_regime *r, double bytes)
{
    const line *l = &p->lines[r->first * p->n + r->last];
    const double excess = l->cov00 > 0   ? r->latency_ns.error / sqrt(l->cov00)
                          : l->cov11 > 0 ? r->ns_per_byte.error / sqrt(l->cov11)
                                         : 1;
    return excess * sqrt(fmax(0, l->cov00 + bytes * (2 * l->cov01 + bytes * l->cov11)));
}

static void add_vertex(dl_link_fit *fit, const problem *p, const dl_link_regime *r, double bytes)
{
    dl_link_vertex *v = &fit->vertices[fit->vertex_count++];
    *v = (dl_link_vertex){bytes, fmax(0, line_at(r, bytes)), error_at(p, r, bytes)};
}

/* Finds where the lines of two neighbouring regimes cross between their sizes, or else both ends of
 * the segment that connects them. */
static void join(dl_link_fit *fit, const problem *p, dl_link_regime *low, dl_link_regime *high)
{
    const double from = p->bytes[low->last], to = p->bytes[high->first];
    const double slope = high->ns_per_byte.value - low->ns_per_byte.value;
    const double meet = (low->latency_ns.value - high->latency_ns.value) / slope;
    low->high_bytes = from;
    high->low_bytes = to;
    if (meet > from && meet < to) {
        low->high_bytes = high->low_bytes = meet;
        add_vertex(fit, p, low, meet);
        return;
    }
    add_vertex(fit, p, low, from);
    add_vertex(fit, p, high, to);
}

static void add_curve(dl_link_fit *fit, const problem *p)
{
    dl_link_regime *last = &fit->regimes[fit->regime_count - 1];
    fit->vertices =
        dl_calloc(2 * fit->regime_count + 2, sizeof *fit->vertices, "corners of the curve");
    add_vertex(fit, p, &fit->regimes[0], 0);
    for (size_t k = 1; k < fit->regime_count; k++)
        join(fit, p, &fit->regimes[k - 1], &fit->regimes[k]);
    last->high_bytes = INFINITY;
    add_vertex(fit, p, last, p->bytes[p->n - 1]);
}

static void find_outliers(dl_link_fit *fit, const problem *p)
{
    double squares = 0;
    size_t left = 0;
    fit->outlier = dl_calloc(p->n, sizeof *fit->outlier, "outliers");
    fit->residual = dl_calloc(p->n, sizeof *fit->residual, "residuals");
    for (size_t k = 0; k < fit->regime_count; k++) {
        const dl_link_regime *r = &fit->regimes[k];
        for (size_t i = r->first; i <= r->last; i++) {
            const double fitted = line_at(r, p->bytes[i]);
            fit->residual[i] = fitted / p->time[i] - 1;
            const double r_i = residual(p, &p->lines[r->first * p->n + r->last], i);
            const fault with_next = fault_between(p->points, p->n, i, p->noise_frac),
                        with_last =
                            i > 0 ? fault_between(p->points, p->n, i - 1, p->noise_frac) : NO_FAULT;
            fit->outlier[i] = factor_of(r_i) <= 0 || with_next == TOO_SLOW || with_next == EITHER ||
                              with_last == TOO_FAST;
            if (fit->outlier[i]) continue;
            squares += fit->residual[i] * fit->residual[i];
            left++;
        }
    }
    fit->rms_frac = left > 0 ? sqrt(squares / (double)left) : 0;
}

static void set_noise(problem *p, double noise_frac)
{
    p->noise_frac = noise_frac;
    for (size_t i = 0; i < p->n; i++)
        p->sd[i] = p->time[i] * hypot(noise_frac, p->points[i].error_frac);
}

static void problem_init(problem *p, const dl_link_point *points, size_t n, double noise_frac)
{
    *p = (problem){.points = points, .n = n};
    p->bytes = dl_calloc(4 * n, sizeof(double), "sizes and times"); /* one block for all */
    p->time = p->bytes + n;
    p->sd = p->time + n;
    p->weight = p->sd + n;
    p->lines = dl_calloc(n * n, sizeof *p->lines, "lines");
    p->left_out = dl_calloc(n, sizeof *p->left_out, "sizes that are far off");
    for (size_t i = 0; i < n && n >= ROBUST_MIN; i++)
        p->left_out[i] = is_far_off(points, n, i);
    for (size_t i = 0; i < n; i++) {
        p->bytes[i] = points[i].bytes;
        p->time[i] = points[i].time_ns;
    }
    set_noise(p, noise_frac);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + REGIME_POINTS - 1; j < n; j++)
            fit_line(p, i, j - i + 1, &p->lines[i * n + j]);
    }
}

/* Relative scatter of the times around the lines of a partition: the median absolute residual as
 * the standard deviation of a normal distribution, corrected for the lines' parameters. */
static double scatter(const problem *p, const size_t *before, size_t regimes)
{
    DL_AUTOFREE double *off = dl_calloc(p->n, sizeof *off, "residuals");
    for (size_t end = p->n; end > 0; end = before[end]) {
        const line *l = &p->lines[before[end] * p->n + end - 1];
        for (size_t i = before[end]; i < end; i++)
            off[i] = fabs(residual(p, l, i)) * p->sd[i] / p->time[i];
    }
    const double free_points = (double)p->n - 2 * (double)regimes;
    const double median = gsl_stats_median(off, 1, p->n);
    if (!(free_points > 0)) return p->noise_frac;
    return fmax(DL_LINK_REPEAT_FRAC, 1.4826 * median * sqrt((double)p->n / free_points));
}

/* Fits with the number of regimes that this noise justifies. The lines' errors follow from the
 * remaining scatter around them. */
static void fit_at(dl_link_fit *fit, const dl_link_point *points, size_t n, double noise_frac)
{
    problem p;
    problem_init(&p, points, n, noise_frac);
    DL_AUTOFREE size_t *before = dl_calloc(n + 1, sizeof *before, "borders");
    cut(&p, before);
    *fit = (dl_link_fit){.count = n};
    for (size_t end = n; end > 0; end = before[end])
        fit->regime_count++;
    set_noise(&p, scatter(&p, before, fit->regime_count));
    fit->noise_frac = p.noise_frac;
    for (size_t end = n; end > 0; end = before[end]) {
        line *l = &p.lines[before[end] * n + end - 1];
        l->loss = 0;
        fit_line(&p, before[end], end - before[end], l);
    }
    fit->regimes = dl_calloc(fit->regime_count, sizeof *fit->regimes, "regimes");
    size_t k = fit->regime_count;
    for (size_t end = n; end > 0; end = before[end])
        take_regime(&fit->regimes[--k], &p, before[end], end - 1);
    find_changes(fit, &p);
    add_curve(fit, &p);
    find_outliers(fit, &p);
    free(p.bytes);
    free(p.lines);
    free(p.left_out);
}

/* Mean absolute relative error at the left-out sizes, with each error limited to 1, for one value
 * of the noise. */
typedef struct left_out {
    double mean, error; /* standard error of the mean */
} left_out;

/* Leaves out each size once, except for the first and the last, in at most FOLDS fits. */
static left_out left_out_at(const dl_link_point *points, size_t n, double noise_frac)
{
    const size_t folds = n > MANY_SIZES ? 2 : n - 2 < FOLDS ? n - 2 : FOLDS;
    DL_AUTOFREE dl_link_point *seen = dl_calloc(n, sizeof *seen, "sizes to fit");
    DL_AUTOFREE double *errors = dl_calloc(n, sizeof *errors, "errors");
    size_t count = 0;
    for (size_t fold = 0; fold < folds; fold++) {
        size_t seen_count = 0;
        DL_SCOPED(dl_link_fit) fit;
        for (size_t i = 0; i < n; i++) {
            if (i == 0 || i + 1 == n || i % folds != fold) seen[seen_count++] = points[i];
        }
        fit_at(&fit, seen, seen_count, noise_frac);
        for (size_t i = 1; i + 1 < n; i++) {
            if (i % folds != fold || is_far_off(points, n, i)) continue;
            const double fitted_ns = dl_link_fit_time_ns(&fit, points[i].bytes);
            errors[count++] = fmin(1, fabs(fitted_ns / points[i].time_ns - 1));
        }
    }
    const left_out result = {gsl_stats_mean(errors, 1, count),
                             gsl_stats_sd(errors, 1, count) / sqrt((double)count)};
    return result;
}

/* Returns the largest noise (fewest regimes) whose error at left-out sizes is within one standard
 * error of the least. */
static double choose_noise(const dl_link_point *points, size_t n)
{
    left_out at[NOISES];
    size_t best = 0;
    if (n < SIZES_TO_CHOOSE) return DL_LINK_REPEAT_FRAC;
    for (size_t k = 0; k < NOISES; k++) {
        at[k] = left_out_at(points, n, ldexp(DL_LINK_REPEAT_FRAC, (int)k));
        if (at[k].mean < at[best].mean) best = k;
    }
    for (size_t k = NOISES - 1; k > best; k--) {
        if (at[k].mean <= at[best].mean + at[best].error) best = k;
    }
    return ldexp(DL_LINK_REPEAT_FRAC, (int)best);
}

dl_status dl_link_fit_run(dl_link_fit *fit, const dl_link_point *points, size_t n, dl_error *err)
{
    if (n < REGIME_POINTS || n > DL_LINK_SIZES_MAX) {
        return dl_error_set(err, DL_ERR_DATA, "%zu sizes; must be %d to %d", n, REGIME_POINTS,
                            DL_LINK_SIZES_MAX);
    }
    fit_at(fit, points, n, choose_noise(points, n));
    return DL_OK;
}

void dl_link_fit_free(dl_link_fit *fit)
{
    free(fit->regimes);
    free(fit->vertices);
    free(fit->outlier);
    free(fit->residual);
    *fit = (dl_link_fit){0};
}

double dl_link_fit_time_ns(const dl_link_fit *fit, double bytes)
{
    size_t high = 1;
    while (high + 1 < fit->vertex_count && fit->vertices[high].bytes < bytes)
        high++;
    const dl_link_vertex *a = &fit->vertices[high - 1], *b = &fit->vertices[high];
    return a->time_ns + (b->time_ns - a->time_ns) * (bytes - a->bytes) / (b->bytes - a->bytes);
}
