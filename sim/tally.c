#include "sim/tally.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

#define BITS 10
#define PER_OCTAVE (1 << BITS)
/* The first two octaves have bins of 1 ns; the others reach DL_NS_MAX = 2^62. */
#define BINS ((62 - BITS) * PER_OCTAVE + 2 * PER_OCTAVE)

/* Number of low bits of a duration that its bin ignores. */
static int shift_of(int64_t ns)
{
    const int highest = ns > 0 ? 63 - __builtin_clzll((unsigned long long)ns) : 0;
    return highest > BITS ? highest - BITS : 0;
}

/* Bin numbers have no gaps: without a shift they are 0 to 2 PER_OCTAVE - 1, and each further bit of
 * `shift` adds PER_OCTAVE, as the remaining bits are then PER_OCTAVE to 2 PER_OCTAVE - 1. */
static int bin_of(int64_t ns)
{
    const int shift = shift_of(ns);
    return shift * PER_OCTAVE + (int)(ns >> shift);
}

void dl_tally_add(dl_tally *tally, int64_t ns)
{
    if (tally->bins == NULL) tally->bins = dl_calloc(BINS, sizeof *tally->bins, "durations");
    tally->bins[bin_of(ns)]++;
    tally->count++; /* Welford's method (1962) */
    const double before = (double)ns - tally->mean_ns;
    tally->mean_ns += before / (double)tally->count;
    tally->squares += before * ((double)ns - tally->mean_ns);
}

double dl_tally_sd_ns(const dl_tally *tally)
{
    return tally->count > 1 ? sqrt(tally->squares / (double)(tally->count - 1)) : 0;
}

double dl_tally_quantile_ns(const dl_tally *tally, double share)
{
    if (tally->count == 0) return 0;
    const int64_t rank = (int64_t)(share * (double)(tally->count - 1) + 0.5);
    int64_t before = 0;
    int bin = 0;
    while (before + tally->bins[bin] <= rank)
        before += tally->bins[bin++];
    const int octave = bin / PER_OCTAVE, shift = octave > 1 ? octave - 1 : 0;
    const double low = ldexp(bin - shift * PER_OCTAVE, shift), width = ldexp(1, shift);
    if (shift == 0) return low;
    return low + width * ((double)(rank - before) + 0.5) / (double)tally->bins[bin];
}

void dl_tally_free(dl_tally *tally)
{
    free(tally->bins);
    *tally = (dl_tally){0};
}
