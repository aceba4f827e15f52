#include "sim/platform/gpu_input.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

/* First random streams of batches: of the first 2^20 workers, whose steps use the streams before
 * it; and of all further workers. */
#define FIRST_STREAM (1u << 20)
#define MORE_STREAMS (1u << 31)

/* Largest number of a worker's batches that wait or are being made. It is 2 with made_at_launch:
 * one is copied while the next is made. */
static int depth(const dl_input_config *config)
{
    if (config->options->made_at_launch) return 2;
    return config->options->prefetch > 0 ? config->options->prefetch : 1;
}

static void init_nodes(dl_input *input)
{
    const dl_input_config *config = &input->config;
    int *queue = input->queues;
    for (int w = 0; w < config->workers; w++)
        input->nodes[config->places[w].node].room += depth(config);
    for (int n = 0; n < config->options->links.machine->nodes; n++) {
        input->nodes[n].idle_cores = config->options->input_cores;
        input->nodes[n].queue = queue;
        queue += input->nodes[n].room;
    }
}

void dl_input_init(dl_input *input, const dl_input_config *config)
{
    const dl_machine *m = config->options->links.machine;
    const size_t workers = (size_t)config->workers, nodes = (size_t)m->nodes;
    *input = (dl_input){
        .config = *config,
        .nodes = dl_calloc(nodes, sizeof *input->nodes, "input of nodes"),
        .workers = dl_calloc(workers, sizeof *input->workers, "input of workers"),
        .queues = dl_calloc(workers * (size_t)depth(config), sizeof *input->queues, "batches"),
    };
    const dl_noise_config noise = {.kind = config->options->input_varies ? DL_NOISE_EXPONENTIAL
                                                                         : DL_NOISE_NONE};
    dl_noise_source_init(&input->noise, &noise, config->seed, config->replicate);
    init_nodes(input);
    for (size_t w = 0; w < workers; w++) {
        dl_place gpu = config->places[w];
        dl_place host = {DL_PLACE_HOST, gpu.node, dl_links_socket(&config->options->links, gpu)};
        dl_route route;
        dl_links_route(&config->options->links, host, gpu, &route);
        input->workers[w].class = dl_network_route_class(config->network, &route);
        const dl_gpu_step *step = dl_gpu_step_of(config->steps, (int)w);
        input->workers[w].latency_ns = dl_ns_ceil(route.latency_ns);
        input->workers[w].copy_ns = step->input_copy_ns;
        input->workers[w].make_ns = config->options->in_turn ? 0 : step->input_ns;
        input->workers[w].bytes = step->input_bytes;
        input->workers[w].stored_bytes = (1 - config->options->cached_frac) * step->stored_bytes;
        dl_noise_init(&input->workers[w].noise, &input->noise,
                      (w < FIRST_STREAM ? FIRST_STREAM : MORE_STREAMS) + (uint32_t)w);
    }
}

void dl_input_free(dl_input *input)
{
    free(input->nodes);
    free(input->workers);
    free(input->queues);
    *input = (dl_input){0};
}

int dl_input_most(const dl_input *input)
{
    return input->workers != NULL ? input->config.workers * depth(&input->config) : 0;
}

static void on_copied(void *user, int worker)
{
    dl_input *input = user;
    dl_input_worker *w = &input->workers[worker];
    w->making--;
    w->ready++;
    input->config.came(input->config.user, worker);
}

static dl_input_node *node_of(const dl_input *input, int worker)
{
    return &input->nodes[input->config.places[worker].node];
}

static void start_queued(dl_input *input, dl_input_node *node);

static void start_copy(dl_input *input, int worker)
{
    const dl_input_worker *w = &input->workers[worker];
    const dl_input_config *config = &input->config;
    const double slowed = config->slowed != NULL ? config->slowed(config->user, worker) : 1;
    dl_network_start(config->network, w->class, w->bytes,
                     w->latency_ns + dl_ns_ceil(slowed * w->copy_ns), on_copied, input, worker);
}

/* Copies a batch from host memory if there is one and the worker waits for it. */
static void copy_if_wanted(dl_input *input, int worker)
{
    dl_input_worker *w = &input->workers[worker];
    if (!w->wanted || w->made == 0) return;
    w->wanted = false;
    w->made--;
    start_copy(input, worker);
}

static void on_made(void *user, int worker)
{
    dl_input *input = user;
    dl_input_node *node = node_of(input, worker);
    if (input->config.options->made_at_launch) {
        input->workers[worker].made++;
        copy_if_wanted(input, worker);
    } else {
        start_copy(input, worker);
    }
    node->idle_cores++;
    start_queued(input, node);
}

/* Starts to make queued batches, in FIFO order per node. */
static void start_queued(dl_input *input, dl_input_node *node)
{
    while (node->queued > 0 && node->idle_cores > 0) {
        const int worker = node->queue[node->first];
        node->first = (node->first + 1) % node->room;
        node->queued--;
        node->idle_cores--;
        dl_input_worker *w = &input->workers[worker];
        const double took_ns = w->make_ns * dl_noise_next(&input->noise, &w->noise);
        dl_engine_after(input->config.engine, dl_ns_ceil(took_ns), on_made, input, worker);
    }
}

static void enqueue(dl_input *input, int worker)
{
    dl_input_node *node = node_of(input, worker);
    node->queue[(node->first + node->queued++) % node->room] = worker;
}

static void on_read(void *user, int worker)
{
    dl_input *input = user;
    enqueue(input, worker);
    start_queued(input, node_of(input, worker));
}

/* Orders batches while there is room for them and steps need them. */
static void order(dl_input *input, int worker)
{
    dl_input_worker *w = &input->workers[worker];
    const int *storage = input->config.storage, node = input->config.places[worker].node;
    while (w->ready + w->making < depth(&input->config) && w->ordered < w->allowed + w->again) {
        w->making++;
        w->ordered++;
        if (storage != NULL && w->stored_bytes > 0) {
            dl_network_start(input->config.network, storage[node], w->stored_bytes, 0, on_read,
                             input, worker);
        } else {
            enqueue(input, worker);
        }
    }
    start_queued(input, node_of(input, worker));
}

void dl_input_start(dl_input *input, int64_t steps)
{
    const bool at_launch = input->config.options->made_at_launch;
    input->steps = steps;
    for (int w = 0; w < input->config.workers; w++) {
        input->workers[w].allowed = at_launch ? 0 : steps;
        if (input->config.options->prefetch > 0) order(input, w);
    }
}

void dl_input_allow(dl_input *input, int worker, int64_t count)
{
    input->workers[worker].allowed = count < input->steps ? count : input->steps;
    order(input, worker);
}

bool dl_input_take(dl_input *input, int worker, int64_t step)
{
    dl_input_worker *w = &input->workers[worker];
    const bool is_there = w->ready > 0;
    w->again = w->taken - step;
    if (is_there) {
        w->ready--;
        w->taken++;
    }
    if (input->config.options->made_at_launch) {
        w->wanted = !is_there;
        order(input, worker);
        copy_if_wanted(input, worker);
        return is_there;
    }
    if (!is_there || input->config.options->prefetch > 0) order(input, worker);
    return is_there;
}
