#include "sim/noise.h"

#include <float.h>
#include <math.h>

#include "sim/statistics.h"

const char *const dl_noise_names[DL_NOISE_KINDS + 1] = {"none",  "trace",       "lognormal",
                                                        "gamma", "exponential", "work"};

/* Point number of the random streams of work (common/random.h). Other streams of a run: 0,
 * durations and costs; 1, the first timer tick (sim/platform/cpu.c); 2, absences. */
#define WORK_STREAM 3

/* Smallest probability used: quantiles at 0 and 1 may be infinite. */
#define LEAST_SHARE 1e-9

/* Largest variance of the beta distribution, as a fraction of the largest possible variance with
 * the given maximum. */
#define MOST_VARIANCE_FRAC 0.5

/* A beta distribution with a larger sum of shapes is narrow enough to be treated as lognormal. */
#define MOST_SHAPES 1e4

/* Multiples of the golden ratio, modulo 1, cover the runs evenly whatever the number of replicates
 * (Knuth, The Art of Computer Programming 3, 6.4). */
size_t dl_noise_run(uint32_t replicate, size_t run_count)
{
    double place = replicate * 0.6180339887498949;
    return (size_t)((place - floor(place)) * (double)run_count);
}

/* --- work ----------------------------------------------------------------------------------- */

static double lognormal_quantile(double sd, double u)
{
    const double variance = log1p(sd * sd);
    return exp(-variance / 2 + sqrt(variance) * dl_normal_quantile(u));
}

dl_work_spread dl_work_spread_of(const dl_costs *costs, double batches, double samples)
{
    if (costs->work_samples.known) batches = samples / costs->work_samples.value;
    dl_work_spread work = {.steps_frac = 1 / sqrt(batches)};
    if (!dl_costs_work_differs(costs)) return (dl_work_spread){0};
    if (costs->work_step_count == 0) {
        work.sd = costs->work_frac.value * work.steps_frac;
        work.maximum = costs->work_max.known ? costs->work_max.value : 0;
        return work;
    }
    double squares = 0;
    for (size_t i = 0; i < costs->work_step_count; i++) {
        const double difference = (double)costs->work_steps[i] - 1;
        squares += difference * difference;
    }
    work.sd = sqrt(squares / (double)costs->work_step_count) * work.steps_frac;
    work.steps = costs->work_steps;
    work.step_count = costs->work_step_count;
    return work;
}

static double measured_quantile(const dl_work_spread *work, double u)
{
    const size_t place = (size_t)(u * (double)work->step_count);
    const size_t last = work->step_count - 1;
    const double step = (double)work->steps[place < last ? place : last];
    return fmax(LEAST_SHARE, 1 + work->steps_frac * (step - 1));
}

double dl_work_quantile(const dl_work_spread *work, double u)
{
    const double most = work->maximum;
    if (!(work->sd > 0) || (most > 0 && most <= 1)) return 1;
    if (work->steps != NULL) return measured_quantile(work, u);
    if (!(most > 0)) return lognormal_quantile(work->sd, u);
    /* The largest possible variance, most - 1, is that of a distribution with values 0 and `most`
     * only. */
    const double variance = fmin(work->sd * work->sd, MOST_VARIANCE_FRAC * (most - 1));
    const double m = 1 / most, v = (most - 1) / variance - 1;
    if (v > MOST_SHAPES) return fmin(most, lognormal_quantile(work->sd, u));
    return most * dl_beta_quantile(u, m * v, (1 - m) * v);
}

/* Integrates the quantile function over the density of the i-th smallest of n uniform numbers, a
 * beta density. The substitution u = Phi(z) samples both tails well enough. */
void dl_work_expected(const dl_work_spread *work, double *scores, size_t count)
{
    enum { POINTS = 96 };
    static const double low = -5, high = 5;
    double sum = 0, total[POINTS], log_u[POINTS], log_rest[POINTS];
    for (int k = 0; k < POINTS; k++) {
        const double z = low + (high - low) * (k + 0.5) / POINTS, u = dl_normal_below(z);
        total[k] = dl_work_quantile(work, u);
        log_u[k] = log(u);
        log_rest[k] = log(dl_normal_above(z));
    }
    for (size_t i = 0; i < count; i++) {
        double weights = 0, weighted = 0;
        const double place = (double)i, behind = (double)(count - 1 - i);
        const double scale = dl_log_beta(place + 1, behind + 1);
        for (int k = 0; k < POINTS; k++) {
            const double z = low + (high - low) * (k + 0.5) / POINTS;
            const double weight = exp(place * log_u[k] + behind * log_rest[k] - scale - z * z / 2);
            weights += weight;
            weighted += weight * total[k];
        }
        scores[i] = weighted / weights;
        sum += scores[i];
    }
    for (size_t i = 0; i < count; i++)
        scores[i] *= (double)count / sum;
}

/* Index of a worker's first expected value: neighbouring workers start far apart, and no two
 * workers at the same index. */
static size_t first_deal(size_t worker, size_t workers)
{
    size_t stride = (size_t)(0.6180339887498949 * (double)workers);
    while (stride > 1) { /* decrease to the next number coprime to `workers` */
        size_t a = workers, b = stride;
        while (b != 0) {
            const size_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) break;
        stride--;
    }
    return worker * (stride > 0 ? stride : 1) % workers;
}

double dl_noise_next_work(const dl_noise_source *source, dl_noise *noise)
{
    const dl_noise_config *config = &source->config;
    if (!(config->work.sd > 0)) return 1;
    if (config->expected != NULL) {
        const double work = config->expected[noise->deal];
        noise->deal = (noise->deal + 1) % (uint32_t)config->workers;
        return work;
    }
    dl_random stream;
    dl_random_init(&stream, source->seed, source->replicate, WORK_STREAM, noise->worker);
    dl_random_seek(&stream, noise->work_place);
    const double u = dl_random_uniform(&stream);
    noise->work_place = dl_random_place(&stream);
    return dl_work_quantile(&config->work, fmin(fmax(u, LEAST_SHARE), 1 - LEAST_SHARE));
}

void dl_noise_source_init(dl_noise_source *source, const dl_noise_config *config, uint64_t seed,
                          uint32_t replicate)
{
    const double variance = log1p(config->sigma * config->sigma);
    *source = (dl_noise_source){.config = *config,
                                .seed = seed,
                                .replicate = replicate,
                                .log_mean = -variance / 2,
                                .log_sd = sqrt(variance)};
}

void dl_noise_init(dl_noise *noise, const dl_noise_source *source, uint32_t worker)
{
    const dl_noise_config *config = &source->config;
    *noise = (dl_noise){.worker = worker};
    if (config->expected != NULL) noise->deal = (uint32_t)first_deal(worker, config->workers);
}

/* The worker's random stream at its current position. All points of a sweep use stream 0 (common
 * random numbers): differences between points then come from the systems and not from chance. */
static dl_random stream_of(const dl_noise_source *source, const dl_noise *noise)
{
    dl_random stream;
    dl_random_init(&stream, source->seed, source->replicate, 0, noise->worker);
    dl_random_seek(&stream, noise->place);
    return stream;
}

static double next_of_trace(const dl_noise_source *source, dl_noise *noise)
{
    const dl_noise_set *set = source->config.set;
    const size_t copy = noise->worker % set->copies; /* copy whose factors the worker draws */
    if (noise->block_left == 0) {
        dl_random stream = stream_of(source, noise);
        const size_t run = (size_t)(dl_random_uniform(&stream) * (double)set->run_count);
        noise->series = (uint32_t)(run * set->copies + copy);
        noise->position =
            (uint32_t)(dl_random_uniform(&stream) * (double)set->series[noise->series].count);
        noise->block_left = DL_NOISE_BLOCK;
        noise->place = dl_random_place(&stream);
    }
    const dl_noise_series *series = &set->series[noise->series];
    noise->block_left--;
    noise->position = noise->position % (uint32_t)series->count;
    const size_t level_run = dl_noise_run(source->replicate, set->run_count);
    const double level = (double)set->series[level_run * set->copies + copy].middle;
    return level * (double)(series->factors[noise->position++] / series->middle);
}

double dl_noise_next(const dl_noise_source *source, dl_noise *noise)
{
    const double sigma = source->config.sigma, variance = sigma * sigma;
    dl_random stream;
    double factor = 1;
    switch (source->config.kind) {
    case DL_NOISE_NONE:
    case DL_NOISE_WORK: return 1;
    case DL_NOISE_TRACE: return next_of_trace(source, noise);
    case DL_NOISE_LOGNORMAL:
        stream = stream_of(source, noise);
        factor = exp(source->log_sd * dl_random_polar(&stream) + source->log_mean);
        break;
    case DL_NOISE_GAMMA:
        stream = stream_of(source, noise);
        factor = fmax(dl_random_gamma(&stream, 1 / variance, variance), DBL_MIN);
        break;
    case DL_NOISE_EXPONENTIAL:
        stream = stream_of(source, noise);
        factor = fmax(dl_random_exponential(&stream), DBL_MIN);
        break;
    }
    noise->place = dl_random_place(&stream);
    return factor;
}
