#include "sim/noise.h"

#include <float.h>
#include <gsl/gsl_randist.h>
#include <math.h>
#include <string.h>

#include "common/status.h"

const char *const dl_noise_names[DL_NOISE_KINDS + 1] = {"none", "trace", "lognormal", "gamma",
                                                        "exponential"};

/* GSL seeds a generator when it makes one; the stream is copied in right after. */
static void seed_stream(void *state, unsigned long seed)
{
    dl_random_init(state, seed, 0, 0, 0);
}

static unsigned long get(void *state)
{
    return dl_random_u32(state);
}

static double get_double(void *state)
{
    return dl_random_uniform(state);
}

static const gsl_rng_type stream_type = {"philox",    UINT32_MAX, 0,         sizeof(dl_random),
                                         seed_stream, get,        get_double};

gsl_rng *dl_gsl_random_create(const dl_random *stream)
{
    gsl_rng *rng = gsl_rng_alloc(&stream_type);
    DL_ASSERT(rng != NULL, "no memory for a generator of %zu bytes", sizeof(dl_random));
    memcpy(rng->state, stream, sizeof *stream);
    return rng;
}

/* Multiples of the golden ratio, modulo 1, cover the runs evenly whatever the number of replicates
 * (Knuth, The Art of Computer Programming 3, 6.4). */
size_t dl_noise_run(uint32_t replicate, size_t run_count)
{
    double place = replicate * 0.6180339887498949;
    return (size_t)((place - floor(place)) * (double)run_count);
}

void dl_noise_init(dl_noise *noise, const dl_noise_config *config, uint64_t seed,
                   uint32_t replicate, uint32_t worker)
{
    dl_random stream;
    /* Point 0 for every point of a sweep: common random numbers, so that points that are compared
     * differ by their systems and not by their luck. */
    dl_random_init(&stream, seed, replicate, 0, worker);
    *noise = (dl_noise){.config = *config, .rng = dl_gsl_random_create(&stream)};
    if (config->kind == DL_NOISE_TRACE) {
        const dl_noise_set *set = config->set;
        const size_t run = dl_noise_run(replicate, set->run_count);
        noise->copy = worker % set->copies;
        noise->level = (double)set->series[run * set->copies + noise->copy].middle;
    }
}

void dl_noise_free(dl_noise *noise)
{
    if (noise->rng != NULL) gsl_rng_free(noise->rng);
    *noise = (dl_noise){0};
}

static double next_of_trace(dl_noise *noise)
{
    if (noise->block_left == 0) {
        const dl_noise_set *set = noise->config.set;
        const size_t run = (size_t)(gsl_rng_uniform(noise->rng) * (double)set->run_count);
        noise->series = &set->series[run * set->copies + noise->copy];
        noise->position = (size_t)(gsl_rng_uniform(noise->rng) * (double)noise->series->count);
        noise->block_left = DL_NOISE_BLOCK;
    }
    const dl_noise_series *series = noise->series;
    noise->block_left--;
    noise->position = noise->position % series->count;
    return noise->level * (double)(series->factors[noise->position++] / series->middle);
}

double dl_noise_next(dl_noise *noise)
{
    double sigma = noise->config.sigma, variance = log1p(sigma * sigma);
    switch (noise->config.kind) {
    case DL_NOISE_NONE: return 1;
    case DL_NOISE_TRACE: return next_of_trace(noise);
    case DL_NOISE_LOGNORMAL: return gsl_ran_lognormal(noise->rng, -variance / 2, sqrt(variance));
    case DL_NOISE_GAMMA:
        return fmax(gsl_ran_gamma(noise->rng, 1 / (sigma * sigma), sigma * sigma), DBL_MIN);
    case DL_NOISE_EXPONENTIAL: return fmax(gsl_ran_exponential(noise->rng, 1), DBL_MIN);
    }
    return 1;
}
