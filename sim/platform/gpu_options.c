#include "sim/platform/gpu_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/statistics.h"

#define FREE_BYTES_PER_S 1e24 /* a petabyte per nanosecond */

const char *const dl_tensors_names[] = {"split", "round_robin", "least_loaded", "large_split",
                                        NULL};
const char *const dl_reads_names[] = {"nothing", "forward", "batch", NULL};
const char *const dl_fetch_names[] = {"summed", "after", "layers", "next_step", "pushed", NULL};
const char *const dl_order_names[] = {"ready", "forward", "together", NULL};
const char *const dl_copies_names[] = {"connection", "gpu", NULL};
const char *const dl_dtype_names[] = {"auto", "fp32", "bf16", NULL};

void dl_gpu_options_free(dl_gpu_options *options)
{
    dl_links_free(&options->links);
    dl_machine_free(&options->machine);
    free(options->gpus);
    *options = (dl_gpu_options){0};
}

static void quicken(double *bytes_per_s, double factor)
{
    *bytes_per_s = factor > 0 ? *bytes_per_s / factor : FREE_BYTES_PER_S;
}

static void scale_links(dl_links *links, double factor)
{
    for (int k = 0; k < links->machine->kind_count; k++) {
        dl_node_links *node = &links->kinds[k];
        for (int l = 0; l < node->count; l++) {
            quicken(&node->capacity[l], factor);
            node->latency_ns[l] *= factor;
        }
    }
}

/* Scales the times taken by GPU memories, serving processes, copies staged by the driver, the
 * network's core, and links between sites. */
static void scale_memories(dl_machine *m, double factor)
{
    if (m->network_bytes_per_s.known) quicken(&m->network_bytes_per_s.value, factor);
    for (int k = 0; k < m->kind_count; k++) {
        dl_quantity *rates[] = {&m->kinds[k].staged_bytes_per_s, &m->kinds[k].server_bytes_per_s};
        for (size_t r = 0; r < DL_LENGTH(rates); r++)
            if (rates[r]->known) quicken(&rates[r]->value, factor);
    }
    for (int i = 0; i < m->model_count; i++)
        quicken(&m->models[i].memory_bytes_per_s.value, factor);
    for (int i = 0; i < m->site_count; i++) {
        quicken(&m->sites[i].bytes_per_s.value, factor);
        m->sites[i].latency_ns.value *= factor;
    }
    for (int i = 0; i < m->site_pair_count; i++) {
        quicken(&m->site_pairs[i].bytes_per_s.value, factor);
        m->site_pairs[i].latency_ns.value *= factor;
    }
}

void dl_gpu_options_scale_copies(dl_gpu_options *options, double factor)
{
    options->copies_factor = factor * (options->copies_scaled ? options->copies_factor : 1);
    options->copies_scaled = true;
    scale_links(&options->links, factor);
    scale_memories(&options->machine, factor);
    if (options->port_bytes_per_s.known) quicken(&options->port_bytes_per_s.value, factor);
    if (options->site_bytes_per_s.known) quicken(&options->site_bytes_per_s.value, factor);
    if (options->server_bytes_per_s.known) quicken(&options->server_bytes_per_s.value, factor);
    options->machine.tcp.time_factor *= factor;
    options->machine.tcp.given &= factor > 0;
}

int dl_gpu_options_count(const dl_gpu_options *options)
{
    if (options->gpus != NULL) return options->gpu_count;
    return dl_machine_gpus(&options->machine);
}

dl_place dl_gpu_options_place(const dl_gpu_options *options, int worker)
{
    const int number = worker % dl_gpu_options_count(options);
    return dl_place_of_gpu(&options->machine,
                           options->gpus != NULL ? options->gpus[number] : number);
}

/* Number of the server's shards for `workers` >= 1 workers on each `stride`th GPU from `first`. */
static int shards_among(const dl_gpu_options *options, int workers, int first, int stride)
{
    if (options->shards > 0) return options->shards;
    int count = workers;
    if (options->shards == DL_SHARDS_NODES) {
        int last = -1;
        count = 0;
        for (int w = 0; w < workers; w++) { /* nodes ascend like GPUs unless workers share GPUs */
            const int node = dl_gpu_options_place(options, first + w * stride).node;
            count += node > last;
            last = node > last ? node : last;
        }
    }
    return count < DL_SHARDS_MAX ? count : DL_SHARDS_MAX;
}

static int shards_of(const dl_gpu_options *options, int workers)
{
    return shards_among(options, workers, 0, 1);
}

dl_place dl_gpu_options_server(const dl_gpu_options *options, int shard)
{
    const dl_machine *m = &options->machine;
    if (options->where == DL_WHERE_GPU) {
        return dl_place_of_gpu(m, (options->where_gpu + shard) % dl_machine_gpus(m));
    }
    const int node = shard % m->nodes, sockets = dl_machine_node(m, node)->sockets;
    return (dl_place){DL_PLACE_HOST, node, shard / m->nodes % sockets};
}

dl_collective_config dl_gpu_options_collective(const dl_gpu_options *options,
                                               const dl_workload *workload, dl_collective_kind kind,
                                               const dl_place *ranks, int count, double bytes)
{
    const bool on_gpus = ranks[0].kind == DL_PLACE_GPU;
    /* Rings are used for broadcasts and among hosts; also for reduce-scatter and all-gather unless
     * "auto" chooses, since no other algorithm that a scenario can name supports these. */
    const bool rings = kind == DL_BROADCAST || !on_gpus ||
                       (kind != DL_ALLREDUCE && strcmp(options->algorithm, "auto") != 0);
    return (dl_collective_config){
        .kind = kind,
        .algorithm = kind == DL_ALLTOALL ? "pairwise"
                     : rings             ? "ring"
                                         : options->algorithm,
        .fidelity = options->fidelity,
        .ranks = ranks,
        .rank_count = count,
        .bytes = bytes,
        .chunk_bytes = DL_CHUNK_BYTES,
        .message_ns = options->message_ns,
        .measured = on_gpus ? workload->collectives : NULL,
        .measured_count = on_gpus ? workload->collective_count : 0,
    };
}

static void worst(dl_origin *origin, const dl_quantity *quantity)
{
    if (quantity->known && quantity->origin < *origin) *origin = quantity->origin;
}

dl_origin dl_gpu_options_origin(const dl_gpu_options *options)
{
    const dl_machine *m = &options->machine;
    dl_origin origin = DL_ORIGIN_MEASURED;
    for (int c = 0; c < m->class_count; c++) {
        worst(&origin, &m->classes[c].bytes_per_s);
        worst(&origin, &m->classes[c].duplex_bytes_per_s);
        worst(&origin, &m->classes[c].latency_ns);
    }
    for (int g = 0; g < m->model_count && options->where == DL_WHERE_GPU; g++)
        worst(&origin, &m->models[g].memory_bytes_per_s);
    for (int k = 0; k < m->kind_count; k++) {
        worst(&origin, &m->kinds[k].memory_bytes_per_s);
        worst(&origin, &m->kinds[k].root_bytes_per_s);
    }
    worst(&origin, &m->network_bytes_per_s);
    if (dl_machine_nccl(m) > 0 && origin > DL_ORIGIN_CATALOGUE) origin = DL_ORIGIN_CATALOGUE;
    for (int p = 0; p < m->protocol_count; p++) {
        worst(&origin, &m->protocols[p].launch_ns);
        worst(&origin, &m->protocols[p].hop_ns);
        worst(&origin, &m->protocols[p].network_hop_ns);
        worst(&origin, &m->protocols[p].bandwidth_frac);
    }
    return origin;
}

/* --- figures of a cost file that replace the machine file's ----------------------------------- */

static void *copy_parts(const void *parts, int count, size_t size)
{
    void *copy = dl_calloc((size_t)count, size, "parts of a machine");
    if (count > 0) memcpy(copy, parts, (size_t)count * size);
    return copy;
}

static bool gives_machine(const dl_costs *costs)
{
    for (size_t i = 0; i < costs->machine_value_count; i++) {
        const dl_machine_value *of = &costs->machine_values[i];
        if (of->value.known && of->value.value != of->of_machine) return true;
    }
    return false;
}

/* Sets the machine figures that the costs give, and rebuilds its links. */
static void take_machine(const dl_costs *costs, dl_gpu_options *at)
{
    dl_machine *m = &at->machine;
    m->models = copy_parts(m->models, m->model_count, sizeof *m->models);
    m->classes = copy_parts(m->classes, m->class_count, sizeof *m->classes);
    m->protocols = copy_parts(m->protocols, m->protocol_count, sizeof *m->protocols);
    m->kinds = copy_parts(m->kinds, m->kind_count, sizeof *m->kinds);
    /* Undoes the scaling of the machine file's figures by dl_gpu_options_scale_copies, which is
     * then applied to all figures. */
    if (at->copies_scaled && at->copies_factor > 0) scale_memories(m, 1 / at->copies_factor);
    dl_costs_set_machine(costs, m);
    dl_links_init(&at->own_links, m);
    if (!at->copies_scaled) return;
    scale_links(&at->own_links, at->copies_factor);
    scale_memories(m, at->copies_factor);
}

void dl_gpu_options_at_point(const dl_gpu_options *options, const dl_costs *costs, int workers,
                             const int *gpus, int gpu_count, dl_gpu_options *at)
{
    *at = *options;
    if (gives_machine(costs)) take_machine(costs, at);
    at->shards = shards_of(options, workers);
    if (costs->message_host_ns.known) at->message_ns = costs->message_host_ns.value;
    if (gpus != NULL) {
        at->gpus = (int *)gpus;
        at->gpu_count = gpu_count;
    }
    const dl_network_limits limits = {
        .bytes_per_s = options->port_bytes_per_s.known
                           ? options->port_bytes_per_s.value
                           : dl_value_or_nan(&costs->network.bytes_per_s),
        .pair_bytes_per_s = dl_value_or_nan(&costs->network.pair_bytes_per_s),
        .latency_ns = dl_value_or_nan(&costs->network.latency_ns),
        .site_bytes_per_s =
            options->site_bytes_per_s.known ? options->site_bytes_per_s.value : (double)NAN,
        .slice_ns = dl_value_or_nan(&costs->network.slice_ns),
    };
    dl_links_limit_network(at->own_links.machine != NULL ? &at->own_links : &options->links,
                           &limits, &at->links);
}

void dl_gpu_options_free_at_point(dl_gpu_options *at)
{
    dl_links_free_limited(&at->links);
    if (at->own_links.machine != NULL) {
        dl_links_free(&at->own_links);
        free(at->machine.models);
        free(at->machine.classes);
        free(at->machine.protocols);
        free(at->machine.kinds);
    }
    *at = (dl_gpu_options){0};
}

/* Blom's approximation of the mean of the i-th smallest of n standard normal numbers (G. Blom 1958,
 * Statistical Estimates and Transformed Beta-Variables). */
static double normal_score(int i, int n)
{
    return dl_normal_quantile((i + 1 - 0.375) / (n + 0.25));
}

void dl_gpus_spread(const dl_costs *costs, int workers, int gpus, double *slow)
{
    if (!costs->gpu_spread_frac.known) return;
    /* Exponents are relative to the slowest GPU's, so that exp does not overflow. */
    const double sigma = costs->gpu_spread_frac.value, last = normal_score(gpus - 1, gpus);
    double mean = 0;
    for (int g = 0; g < gpus; g++)
        mean += exp(sigma * (normal_score(g, gpus) - last)) / gpus;
    for (int w = 0; w < workers; w++)
        slow[w] *= exp(sigma * (normal_score(w % gpus, gpus) - last)) / mean;
}

/* Whether another worker is on another GPU below the same PCIe switch. */
static bool shares_board(const dl_gpu_options *options, int worker, int workers)
{
    const dl_place own = dl_gpu_options_place(options, worker);
    const dl_node_kind *node = dl_machine_node(&options->machine, own.node);
    const int parent = node->gpus[own.index].parent;
    if (parent < node->sockets) return false;
    for (int w = 0; w < workers; w++) {
        const dl_place other = dl_gpu_options_place(options, w);
        if (other.index != own.index && other.node == own.node &&
            node->gpus[other.index].parent == parent) {
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

void dl_gpus_clocks(const dl_gpu_options *options, const dl_costs *costs, int workers, double *slow)
{
    if (!dl_costs_are_estimated(costs)) return;
    for (int w = 0; w < workers; w++) {
        const dl_place gpu = dl_gpu_options_place(options, w);
        const dl_quantity *clock =
            &dl_machine_model(&options->machine, gpu.node, gpu.index)->clock_frac;
        if (clock->known) slow[w] /= clock->value;
    }
}

/* --- memory and price ----------------------------------------------------------------------- */

static bool is_same(dl_place a, dl_place b)
{
    return a.node == b.node && a.index == b.index;
}

/* Bytes that a server's shards hold on the GPU beside the content of its worker: vectors pushed by
 * all workers, the result, those of an outer optimizer, and the state of the optimizer. */
static double server_bytes(const dl_gpu_options *options, const dl_gpu_point *point, dl_place gpu)
{
    if (point->served_bytes <= 0 || options->where != DL_WHERE_GPU) return 0;
    double bytes = 0;
    const int shards = shards_among(options, point->workers, point->first, point->stride);
    for (int s = 0; s < shards; s++) {
        if (!is_same(dl_gpu_options_server(options, s), gpu)) continue;
        bytes += (point->workers + 1 + point->more_vectors) * point->served_bytes / shards;
        bytes += point->state_bytes / shards;
    }
    return bytes;
}

/* Bytes that other workers need on worker w's GPU. */
static double sharers_bytes(const dl_gpu_options *options, const dl_gpu_point *point, int w)
{
    double bytes = 0;
    if (point->workers * point->stride <= dl_gpu_options_count(options)) return 0;
    const dl_place gpu = dl_gpu_options_place(options, point->first + w * point->stride);
    for (int other = 0; other < point->workers; other++) {
        const dl_place own = dl_gpu_options_place(options, point->first + other * point->stride);
        if (other != w && is_same(own, gpu)) bytes += dl_gpu_content_bytes(&point->own[other]);
    }
    return bytes;
}

const char *const dl_gpu_content_names[DL_GPU_CONTENTS] = {"parameters", "gradients",   "optimizer",
                                                           "gathered",   "activations", "working",
                                                           "logits",     "workspace",   "others"};

double dl_gpu_content_of(const dl_gpu_content *c, int kind)
{
    const double bytes[DL_GPU_CONTENTS] = {c->parameters, c->gradients,   c->optimizer,
                                           c->gathered,   c->activations, c->working,
                                           c->logits,     c->workspace,   c->others};
    return bytes[kind];
}

void dl_gpu_memory_most(dl_gpu_memory *most, const dl_gpu_memory *other)
{
    const bool is_known = !isnan(most->has_bytes);
    if (is_known && isnan(most->needs_bytes)) return;
    if (is_known && other->needs_bytes / other->has_bytes <= most->needs_bytes / most->has_bytes)
        return;
    *most = *other;
}

/* Updates *most with the content of this GPU. */
static void fill(const dl_gpu_options *options, dl_place gpu, const dl_gpu_content *content,
                 dl_gpu_memory *most)
{
    const dl_gpu_memory filled = {
        .needs_bytes = dl_gpu_content_bytes(content),
        .has_bytes = dl_machine_model(&options->machine, gpu.node, gpu.index)->memory_bytes.value,
        .content = *content};
    dl_gpu_memory_most(most, &filled);
}

/* Whether a worker of the point computes on the GPU, with any of its ranks. */
static bool computes(const dl_gpu_options *options, const dl_gpu_point *point, dl_place gpu)
{
    for (int g = 0; g < point->workers * point->stride; g++)
        if (is_same(dl_gpu_options_place(options, g), gpu)) return true;
    return false;
}

/* Updates *most for the server's GPUs that have no worker. */
static void fill_servers(const dl_gpu_options *options, const dl_gpu_point *point,
                         dl_gpu_memory *most)
{
    const int shards = shards_among(options, point->workers, point->first, point->stride);
    if (options->where != DL_WHERE_GPU) return;
    for (int s = 0; s < shards; s++) {
        const dl_place gpu = dl_gpu_options_server(options, s);
        dl_gpu_content content = {0};
        if (computes(options, point, gpu)) continue;
        content.others = server_bytes(options, point, gpu);
        fill(options, gpu, &content, most);
    }
}

dl_gpu_memory dl_gpu_options_memory(const dl_gpu_options *options, const dl_gpu_point *point)
{
    dl_gpu_memory most = {.needs_bytes = (double)NAN, .has_bytes = (double)NAN};
    for (int w = 0; w < point->workers; w++) {
        const dl_place gpu = dl_gpu_options_place(options, point->first + w * point->stride);
        dl_gpu_content content = point->own[w];
        content.others += sharers_bytes(options, point, w) + server_bytes(options, point, gpu);
        fill(options, gpu, &content, &most);
    }
    fill_servers(options, point, &most);
    return most;
}

/* Price per hour of the nodes of this kind that contain some of the first `gpus` GPUs, or of only
 * these GPUs if GPUs are priced individually; NaN: unknown. */
static double usd_of_kind(const dl_gpu_options *options, int gpus, int kind)
{
    const dl_node_kind *node = &options->machine.kinds[kind];
    const dl_quantity *each = &node->gpu_price_usd_per_hour, *all = &node->price_usd_per_hour;
    int nodes = 0, used = 0, last = -1;
    for (int g = 0; g < gpus; g++) { /* GPUs ascend, so nodes do too */
        const int at = dl_gpu_options_place(options, g).node;
        if (dl_machine_kind(&options->machine, at) != kind) continue;
        used++;
        nodes += at != last;
        last = at;
    }
    if (used == 0) return 0;
    if (options->price_usd_per_hour.known) return nodes * options->price_usd_per_hour.value;
    if (each->known) return used * each->value;
    return all->known ? nodes * all->value : (double)NAN;
}

double dl_gpu_options_usd_per_hour(const dl_gpu_options *options, int gpus)
{
    double usd = 0;
    for (int k = 0; k < options->machine.kind_count; k++)
        usd += usd_of_kind(options, gpus, k);
    return usd;
}

/* Bytes sent over bytes in fp32. */
static double sent_frac(dl_dtype dtype)
{
    return dtype == DL_DTYPE_BF16 ? 0.5 : 1;
}

dl_exchange_plan dl_exchange_plan_among(const dl_gpu_options *options, bool divides_parameters,
                                        int sharers)
{
    const dl_sharded of = divides_parameters ? DL_SHARDED_PARAMETERS : options->sharded;
    const dl_sharded sharded = sharers > 1 ? of : DL_SHARDED_NONE;
    const bool divides = sharded != DL_SHARDED_NONE;
    const bool all = sharded == DL_SHARDED_PARAMETERS;
    return (dl_exchange_plan){
        .is_collective = true,
        .as_ready = options->overlap,
        .passes = 1,
        .sharers = divides ? sharers : 1,
        .divides_gradients = sharded >= DL_SHARDED_GRADIENTS,
        .divides_parameters = all,
        .gathers = all ? 2 - options->keeps_parameters : 0,
        .gathers_after = divides && !all,
        .sum = divides ? DL_REDUCE_SCATTER : DL_ALLREDUCE,
        .sum_frac = divides ? sent_frac(options->reduce_dtype) : 1,
        .gather_frac =
            divides ? sent_frac(options->param_dtype) + (all ? options->frozen_frac : 0) : 1,
        .bucket_copies =
            options->overlap ? 2 - (options->bucket_views || of != DL_SHARDED_NONE) : 0,
    };
}

void dl_exchange_plan_by_node(dl_exchange_plan *plan, const dl_gpu_options *options, int gpus)
{
    if (!options->shards_by_node || plan->sharers == 1 || plan->divides_gradients) return;
    const int node = dl_gpu_options_place(options, 0).node, sharers = plan->sharers;
    int beside = 1;
    while (beside < sharers && dl_gpu_options_place(options, beside * gpus).node == node)
        beside++;
    plan->sharers = beside;
    plan->gathers_after = beside > 1;
    plan->sum = DL_ALLREDUCE;
}
