/* Scaling of a collective's time with the number of nodes or ranks: see links.h. */
#include <gsl/gsl_fit.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/links/links.h"
#include "common/alloc.h"
#include "common/sort.h"

/* The laws: functions of the count with which the time may grow. */
static double hops(double count)
{
    return count - 1;
}

static double tree(double count)
{
    return log2(count);
}

static double share(double count)
{
    return 1 - 1 / count;
}

static const struct {
    const char *name;
    double (*of)(double count);
} laws[DL_LINK_LAWS] = {{"hops of a ring", hops}, {"depth of a tree", tree}, {"share sent", share}};

const char *dl_link_law_name(int law)
{
    return laws[law].name;
}

/* A line time = c0 + c1 law(count) through some of the counts. */
typedef struct growth {
    double c0, c1;
} growth;

/* Fits a line by least squares of relative residuals, leaving out count number `without`. A falling
 * line becomes a constant, since more nodes never take less time. */
static growth fit_growth(const dl_link_scaling *s, const double *times, int law, size_t without)
{
    double x[DL_LINK_COUNTS_MAX], y[DL_LINK_COUNTS_MAX], w[DL_LINK_COUNTS_MAX];
    double cov00, cov01, cov11, chi2;
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (i == without) continue;
        x[n] = laws[law].of(s->counts[i]);
        y[n] = times[i];
        w[n++] = 1 / (times[i] * times[i]);
    }
    growth g = {0};
    gsl_fit_wlinear(x, 1, w, 1, y, 1, n, &g.c0, &g.c1, &cov00, &cov01, &cov11, &chi2);
    if (!(g.c1 >= 0)) g = (growth){.c0 = gsl_stats_wmean(w, 1, y, 1, n)};
    return g;
}

static double growth_at(const growth *g, int law, double count)
{
    return fmax(0, g->c0 + g->c1 * laws[law].of(count));
}

/* Relative error of the time at a count, predicted by the line through the other counts. */
static double left_out_frac(const dl_link_scaling *s, const double *times, int law, size_t without)
{
    const growth g = fit_growth(s, times, law, without);
    return fabs(growth_at(&g, law, s->counts[without]) / times[without] - 1);
}

/* Returns the law with the least error at left-out counts, over the sizes first .. end-1. */
static int choose_law(const dl_link_scaling *s, size_t first, size_t end)
{
    int best = 0;
    double best_sum = INFINITY;
    for (int law = 0; law < DL_LINK_LAWS; law++) {
        double sum = 0;
        for (size_t k = first; k < end; k++) {
            for (size_t i = 0; i < s->count; i++)
                sum += left_out_frac(s, &s->times_ns[k * s->count], law, i);
        }
        if (sum >= best_sum) continue;
        best_sum = sum;
        best = law;
    }
    return best;
}

static void judge(dl_link_scaling *s)
{
    double last = 0, sum = 0;
    for (size_t k = 0; k < s->sizes; k++) {
        for (size_t i = 0; i < s->count; i++) {
            const double error = left_out_frac(s, &s->times_ns[k * s->count], s->law[k], i);
            sum += error;
            s->left_out_max = fmax(s->left_out_max, error);
            if (i + 1 == s->count) last += error;
        }
    }
    s->left_out_mean = sum / (double)(s->sizes * s->count);
    s->last_mean = last / (double)s->sizes;
}

/* Returns whether two series differ only in the number of nodes, or of ranks on one node. */
static bool same_but_count(const dl_link_series *a, const dl_link_series *b)
{
    if (!a->collective || !b->collective || strcmp(a->name, b->name) != 0 || a->place != b->place ||
        a->ranks < 2 || b->ranks < 2 || a->nodes < 1 || b->nodes < 1)
        return false;
    if (a->nodes == 1 && b->nodes == 1) return true;
    return a->ranks * b->nodes == b->ranks * a->nodes;
}

typedef struct member {
    int count; /* number of nodes or ranks */
    const dl_link_result *result;
} member;

DL_ORDER(by_count, member, DL_BY(count));

/* Takes the sizes of the first member within the ranges of all other members, and the times of all
 * members at these sizes. */
static void take_sizes(dl_link_scaling *s, const member *members)
{
    const dl_link_series *first = members[0].result->series;
    for (size_t k = 0; k < first->count; k++) {
        const double bytes = first->points[k].bytes;
        bool all = true;
        for (size_t i = 1; i < s->count; i++) {
            const dl_link_series *other = members[i].result->series;
            all = all && bytes >= other->points[0].bytes &&
                  bytes <= other->points[other->count - 1].bytes;
        }
        if (!all) continue;
        s->bytes = dl_grow(s->bytes, s->sizes, sizeof *s->bytes, "sizes");
        s->times_ns = dl_realloc(s->times_ns, (s->sizes + 1) * s->count, sizeof *s->times_ns,
                                 "times by count");
        s->bytes[s->sizes] = bytes;
        for (size_t i = 0; i < s->count; i++) {
            s->times_ns[s->sizes * s->count + i] =
                dl_link_fit_time_ns(&members[i].result->fit, bytes);
        }
        s->sizes++;
    }
}

/* Chooses one law for the sizes of each regime of the member with the largest count. */
static void take_laws(dl_link_scaling *s, const dl_link_fit *largest)
{
    s->law = dl_calloc(s->sizes, sizeof *s->law, "laws");
    for (size_t first = 0, end; first < s->sizes; first = end) {
        size_t regime = 0;
        while (s->bytes[first] > largest->regimes[regime].high_bytes)
            regime++;
        for (end = first + 1; end < s->sizes; end++) {
            if (s->bytes[end] > largest->regimes[regime].high_bytes) break;
        }
        const int law = choose_law(s, first, end);
        for (size_t k = first; k < end; k++)
            s->law[k] = law;
    }
}

/* Adds the scaling of members[count], unless two counts are equal or fewer than two sizes are
 * common to all. */
static void add_scaling(dl_link_results *links, member *members, size_t count)
{
    dl_sort(members, count, sizeof *members, by_count);
    for (size_t i = 1; i < count; i++) {
        if (members[i].count == members[i - 1].count) return;
    }
    const dl_link_series *series = members[0].result->series;
    const dl_link_series *largest = members[count - 1].result->series;
    dl_link_scaling s = {.name = series->name,
                         .place = series->place,
                         .by_nodes = largest->nodes > 1,
                         .ranks_per_node = largest->ranks / largest->nodes,
                         .count = count};
    s.counts = dl_calloc(count, sizeof *s.counts, "counts");
    for (size_t i = 0; i < count; i++)
        s.counts[i] = members[i].count;
    take_sizes(&s, members);
    if (s.sizes < 2) { /* too few sizes for a curve */
        dl_link_scaling_free(&s);
        return;
    }
    take_laws(&s, &members[count - 1].result->fit);
    judge(&s);
    DL_APPEND(links->scalings, links->scaling_count, "scalings") = s;
}

void dl_link_scalings_fit(dl_link_results *links)
{
    DL_AUTOFREE bool *taken = dl_calloc(links->count, sizeof *taken, "series");
    for (size_t i = 0; i < links->count; i++) {
        member members[DL_LINK_COUNTS_MAX];
        size_t count = 0;
        bool over_nodes = false;
        for (size_t k = i; k < links->count; k++) {
            const dl_link_series *s = links->results[k].series;
            if (taken[k] || !same_but_count(links->results[i].series, s)) continue;
            if (count == DL_LINK_COUNTS_MAX) break;
            taken[k] = true;
            over_nodes = over_nodes || s->nodes > 1;
            members[count++] = (member){0, &links->results[k]};
        }
        for (size_t k = 0; k < count; k++) {
            const dl_link_series *s = members[k].result->series;
            members[k].count = over_nodes ? s->nodes : s->ranks;
        }
        if (count >= DL_LINK_COUNTS_MIN) add_scaling(links, members, count);
    }
}

dl_link_vertex dl_link_scaling_at(const dl_link_scaling *s, size_t size, int count)
{
    const growth g = fit_growth(s, &s->times_ns[size * s->count], s->law[size], s->count);
    const double time_ns = growth_at(&g, s->law[size], count);
    /* last_mean is the error of extrapolating from the second largest to the largest count. The
     * error grows with the number of such ratios beyond the largest count. */
    const double most = s->counts[s->count - 1], before = s->counts[s->count - 2];
    const double steps = fmax(1, log(count / most) / log(most / before));
    return (dl_link_vertex){s->bytes[size], time_ns, time_ns * steps * s->last_mean};
}

void dl_link_scaling_free(dl_link_scaling *s)
{
    free(s->counts);
    free(s->bytes);
    free(s->times_ns);
    free(s->law);
    *s = (dl_link_scaling){0};
}
