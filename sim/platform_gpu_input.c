/* Batches for the GPUs: made by cores of the GPU's node, first come first served, then copied from
 * the memory of its socket. */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/platform_gpu.h"

/* Batches of a worker that may wait, and be in the making, at once. */
static int depth(const dl_gpus *gpus)
{
    const int prefetch = gpus->config.options->prefetch;
    return prefetch > 0 ? prefetch : 1;
}

void dl_input_init(dl_gpus *gpus)
{
    const dl_gpu_options *options = gpus->config.options;
    dl_input *input = &gpus->input;
    const size_t workers = (size_t)gpus->config.workers;
    const size_t nodes = (size_t)options->machine.nodes;
    *input = (dl_input){
        .idle_cores = dl_calloc(nodes, sizeof *input->idle_cores, "input of nodes"),
        .workers = dl_calloc(workers, sizeof *input->workers, "input of workers"),
        .queue = dl_calloc(workers * (size_t)depth(gpus), sizeof *input->queue, "batches"),
    };
    for (size_t n = 0; n < nodes; n++)
        input->idle_cores[n] = options->input_cores;
    for (size_t w = 0; w < workers; w++) {
        const dl_machine *m = &options->machine;
        dl_place gpu = gpus->places[w];
        dl_place host = {DL_PLACE_HOST, gpu.node, dl_machine_socket(m, m->gpus[gpu.index].parent)};
        dl_route route;
        dl_links_route(&options->links, host, gpu, &route);
        input->workers[w].class = dl_network_route_class(&gpus->network, &route);
        input->workers[w].latency_ns = dl_ns_ceil(route.latency_ns);
    }
}

void dl_input_free(dl_input *input)
{
    free(input->idle_cores);
    free(input->workers);
    free(input->queue);
    *input = (dl_input){0};
}

int dl_input_most(const dl_gpus *gpus)
{
    return gpus->config.with_input ? gpus->config.workers * depth(gpus) : 0;
}

static void on_copied(void *user, int worker)
{
    dl_gpus *gpus = user;
    dl_input_worker *w = &gpus->input.workers[worker];
    w->making--;
    w->ready++;
    dl_gpus_input_came(gpus, worker);
}

static void start_queued(dl_gpus *gpus, int node);

static void on_made(void *user, int worker)
{
    dl_gpus *gpus = user;
    const dl_input_worker *w = &gpus->input.workers[worker];
    const int node = gpus->places[worker].node;
    dl_network_start(&gpus->network, w->class, gpus->config.input_bytes, w->latency_ns, on_copied,
                     gpus, worker);
    gpus->input.idle_cores[node]++;
    start_queued(gpus, node);
}

/* The batches of all nodes share one queue in the order of asking. */
static void start_queued(dl_gpus *gpus, int node)
{
    dl_input *input = &gpus->input;
    int kept = 0;
    for (int i = 0; i < input->queued; i++) {
        int worker = input->queue[i];
        if (gpus->places[worker].node != node || input->idle_cores[node] == 0) {
            input->queue[kept++] = worker;
            continue;
        }
        input->idle_cores[node]--;
        dl_engine_after(gpus->config.engine, dl_ns_ceil(gpus->config.workload->input_ns), on_made,
                        gpus, worker);
    }
    input->queued = kept;
}

/* Has batches made while there is room for them, and steps that want them. */
static void order(dl_gpus *gpus, int worker)
{
    dl_input_worker *w = &gpus->input.workers[worker];
    while (w->ready + w->making < depth(gpus) && w->ordered < gpus->team->config.steps) {
        w->making++;
        w->ordered++;
        gpus->input.queue[gpus->input.queued++] = worker;
    }
    start_queued(gpus, gpus->places[worker].node);
}

void dl_input_start(dl_gpus *gpus)
{
    for (int w = 0; gpus->config.options->prefetch > 0 && w < gpus->config.workers; w++)
        order(gpus, w);
}

bool dl_input_take(dl_gpus *gpus, int worker)
{
    dl_input_worker *w = &gpus->input.workers[worker];
    const bool is_there = w->ready > 0;
    if (is_there) w->ready--;
    if (!is_there || gpus->config.options->prefetch > 0) order(gpus, worker);
    return is_there;
}
