/* What a point needs of its GPUs' memory, and what its nodes cost. */
#include <math.h>

#include "sim/platform/platform_gpu.h"

/* Vectors that a server's shards on the GPU hold: those pushed by all workers, and the result. */
static double server_bytes(const dl_gpu_options *options, const dl_gpu_point *point, dl_place gpu)
{
    if (point->collective || !point->exchanges || options->where != DL_WHERE_GPU) return 0;
    double bytes = 0;
    const int shards = dl_gpu_options_shards(options, point->workers);
    for (int s = 0; s < shards; s++) {
        dl_place place = dl_gpu_options_server(options, s);
        if (place.node != gpu.node || place.index != gpu.index) continue;
        bytes += (point->workers + 1) * (double)point->costs->parameter_bytes / shards;
    }
    return bytes;
}

dl_gpu_memory dl_gpu_options_memory(const dl_gpu_options *options, const dl_gpu_point *point)
{
    const dl_costs *costs = point->costs;
    const dl_machine *m = &options->machine;
    dl_gpu_memory most = {(double)NAN, (double)NAN};
    if (costs->parameter_bytes < 0 || costs->state_bytes < 0 ||
        !costs->gpu_memory.activation_bytes_per_sample.known ||
        !costs->gpu_memory.workspace_bytes.known) {
        return most;
    }
    /* Gradients are as many as parameters. */
    const double own = 2 * (double)costs->parameter_bytes + (double)costs->state_bytes +
                       costs->gpu_memory.activation_bytes_per_sample.value * point->batch +
                       costs->gpu_memory.workspace_bytes.value;
    for (int w = 0; w < point->workers; w++) {
        dl_place gpu = dl_gpu_options_place(options, w);
        double has = m->models[m->gpus[gpu.index].model].memory_bytes.value;
        double needs = own + server_bytes(options, point, gpu);
        if (!(needs / has <= most.needs_bytes / most.has_bytes)) {
            most = (dl_gpu_memory){needs, has};
        }
    }
    return most;
}

double dl_gpu_options_usd_per_hour(const dl_gpu_options *options, int workers)
{
    if (!options->machine.price_usd_per_hour.known) return (double)NAN;
    int nodes = 0, last = -1;
    for (int w = 0; w < workers; w++) { /* GPUs ascend, so nodes do */
        int node = dl_gpu_options_place(options, w).node;
        nodes += node != last;
        last = node;
    }
    return nodes * options->machine.price_usd_per_hour.value;
}
