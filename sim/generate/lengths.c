#include "sim/generate/lengths.h"

#include <math.h>

#define MU_ROUNDS 60   /* steps of the bisection: to the last bits of a double */
#define MEAN_MAX 0.999 /* fraction of the cap */

double dl_lengths_sigma(double cv)
{
    return sqrt(log1p(cv * cv));
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

/* E[min(L, cap)] of a log-normal L. */
static double mean_below(double mu, double sigma, double cap)
{
    const double at = (log(cap) - mu) / sigma;
    return exp(mu + sigma * sigma / 2) * normal_cdf(at - sigma) + cap * normal_cdf(-at);
}

static double mu_of(double mean, double sigma, double cap)
{
    double low = log(mean) - sigma * sigma / 2, high = low + 1;
    if (!(cap < INFINITY) || sigma == 0) return low;
    while (mean_below(high, sigma, cap) < mean)
        high += 1;
    for (int i = 0; i < MU_ROUNDS; i++) {
        const double middle = (low + high) / 2;
        *(mean_below(middle, sigma, cap) < mean ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

dl_lengths_log dl_lengths_log_of(const dl_lengths *lengths)
{
    const double mean = fmin(lengths->mean, MEAN_MAX * lengths->cap);
    const double sigma = dl_lengths_sigma(lengths->cv);
    return (dl_lengths_log){lengths->list != NULL ? 0 : mu_of(mean, sigma, lengths->cap), sigma};
}

static double whole(double tokens, double cap)
{
    return fmax(1, round(fmin(tokens, cap)));
}

void dl_lengths_draw(const dl_lengths *lengths, const dl_lengths_log *at, uint64_t seed,
                     uint32_t replicate, int64_t number, double *answers, int count)
{
    if (lengths->list != NULL) {
        const size_t first = (size_t)number * (size_t)count;
        for (int i = 0; i < count; i++)
            answers[i] = whole(lengths->list[(first + (size_t)i) % lengths->count], lengths->cap);
        return;
    }
    if (at->sigma == 0) {
        for (int i = 0; i < count; i++)
            answers[i] = whole(exp(at->mu), lengths->cap);
        return;
    }
    dl_random stream;
    dl_random_init(&stream, seed, replicate, (uint32_t)((uint64_t)number >> 32), (uint32_t)number);
    const double shared = at->sigma * sqrt(lengths->group_frac) * dl_random_normal(&stream);
    const double own = at->sigma * sqrt(1 - lengths->group_frac);
    for (int i = 0; i < count; i++)
        answers[i] = whole(exp(at->mu + shared + own * dl_random_normal(&stream)), lengths->cap);
}
