/* What a cost file says of a machine, in place of the machine file. */
#include <gsl/gsl_cdf.h>
#include <math.h>

#include "sim/platform/platform_gpu.h"

static double known_or_nan(const dl_value *value)
{
    return value->known ? value->value : (double)NAN;
}

void dl_gpu_options_at_point(const dl_gpu_options *options, const dl_costs *costs, int workers,
                             const int *gpus, dl_gpu_options *at)
{
    *at = *options;
    at->shards = dl_gpu_options_shards(options, workers);
    if (costs->message_host_ns.known) at->message_ns = costs->message_host_ns.value;
    if (gpus != NULL) at->gpus = (int *)gpus;
    const dl_network_limits limits = {
        .bytes_per_s = known_or_nan(&costs->network.bytes_per_s),
        .pair_bytes_per_s = known_or_nan(&costs->network.pair_bytes_per_s),
        .latency_ns = known_or_nan(&costs->network.latency_ns),
    };
    dl_links_limit_network(&options->links, &limits, &at->links);
}

void dl_gpu_options_free_at_point(dl_gpu_options *at)
{
    dl_links_free_limited(&at->links);
    *at = (dl_gpu_options){0};
}

/* Blom's approximation of the mean of the i-th smallest of n standard normal numbers (G. Blom 1958,
 * Statistical Estimates and Transformed Beta-Variables). */
static double normal_score(int i, int n)
{
    return gsl_cdf_ugaussian_Pinv((i + 1 - 0.375) / (n + 0.25));
}

void dl_gpus_spread(const dl_costs *costs, int workers, double *slow)
{
    if (!costs->gpu_spread_frac.known) return;
    /* Over the slowest one's, so that no spread overflows. */
    const double sigma = costs->gpu_spread_frac.value, last = normal_score(workers - 1, workers);
    double mean = 0;
    for (int w = 0; w < workers; w++)
        mean += exp(sigma * (normal_score(w, workers) - last)) / workers;
    for (int w = 0; w < workers; w++)
        slow[w] *= exp(sigma * (normal_score(w, workers) - last)) / mean;
}

/* Whether another worker is on a GPU below the same switch. */
static bool shares_board(const dl_gpu_options *options, int worker, int workers)
{
    const dl_machine *m = &options->machine;
    const dl_place own = dl_gpu_options_place(options, worker);
    const int parent = m->gpus[own.index].parent;
    if (parent < m->sockets) return false;
    for (int w = 0; w < workers; w++) {
        const dl_place other = dl_gpu_options_place(options, w);
        if (w != worker && other.node == own.node && m->gpus[other.index].parent == parent) {
            return true;
        }
    }
    return false;
}

void dl_gpus_boards(const dl_gpu_options *options, const dl_costs *costs, int workers, double *slow)
{
    if (!costs->gpu_board_slowdown.known) return;
    for (int w = 0; w < workers; w++) {
        if (shares_board(options, w, workers)) slow[w] *= costs->gpu_board_slowdown.value;
    }
}
