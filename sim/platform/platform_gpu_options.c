#include <stdlib.h>

#include "sim/platform/platform_gpu.h"

#define FREE_BYTES_PER_S 1e24 /* a petabyte in a nanosecond */

void dl_gpu_options_free(dl_gpu_options *options)
{
    dl_links_free(&options->links);
    dl_machine_free(&options->machine);
    free(options->gpus);
    *options = (dl_gpu_options){0};
}

void dl_gpu_options_free_copies(dl_gpu_options *options)
{
    dl_links *links = &options->links;
    for (int l = 0; l < links->per_node; l++) {
        links->capacity[l] = FREE_BYTES_PER_S;
        links->latency_ns[l] = 0;
    }
    if (links->core >= 0) options->machine.network_bytes_per_s.value = FREE_BYTES_PER_S;
    for (int m = 0; m < options->machine.model_count; m++)
        options->machine.models[m].memory_bytes_per_s.value = FREE_BYTES_PER_S;
}

int dl_gpu_options_count(const dl_gpu_options *options)
{
    if (options->gpus != NULL) return options->gpu_count;
    return options->machine.nodes * options->machine.gpu_count;
}

dl_place dl_gpu_options_place(const dl_gpu_options *options, int worker)
{
    int gpu = options->gpus != NULL ? options->gpus[worker] : worker;
    int per_node = options->machine.gpu_count;
    return (dl_place){DL_PLACE_GPU, gpu / per_node, gpu % per_node};
}

int dl_gpu_options_shards(const dl_gpu_options *options, int workers)
{
    if (options->shards > 0) return options->shards;
    return workers < DL_SHARDS_MAX ? workers : DL_SHARDS_MAX;
}

dl_place dl_gpu_options_server(const dl_gpu_options *options, int shard)
{
    const dl_machine *m = &options->machine;
    if (options->where == DL_WHERE_GPU) {
        int gpu = (options->where_gpu + shard) % (m->nodes * m->gpu_count);
        return (dl_place){DL_PLACE_GPU, gpu / m->gpu_count, gpu % m->gpu_count};
    }
    return (dl_place){DL_PLACE_HOST, shard % m->nodes, shard / m->nodes % m->sockets};
}

unsigned dl_gpu_options_needs(const dl_gpu_options *options, unsigned mode_needs, bool collective,
                              bool at_barrier, bool at_lock, int workers)
{
    unsigned needs = DL_NEED_OPS | DL_NEED_DISPATCH | DL_NEED_INPUT;
    needs |= mode_needs & (DL_NEED_PARAMETERS | DL_NEED_STATE);
    if (collective && options->overlap && workers > 1) needs |= DL_NEED_OVERLAP;
    bool exchanges = mode_needs & DL_NEED_PARAMETERS;
    if (collective || !exchanges) return needs;
    if (options->where != DL_WHERE_CPU) return needs;
    needs |= mode_needs & (DL_NEED_AVERAGE | DL_NEED_UPDATE);
    if (options->pageable) needs |= DL_NEED_PAGEABLE;
    if (workers > 1 && at_barrier) needs |= DL_NEED_BARRIER;
    if (workers > 1 && at_lock) needs |= DL_NEED_LOCK;
    return needs;
}

static void worst(dl_evidence *evidence, const dl_quantity *quantity)
{
    if (quantity->known && quantity->evidence < *evidence) *evidence = quantity->evidence;
}

dl_origin dl_gpu_options_origin(const dl_gpu_options *options)
{
    static const dl_origin origins[] = {DL_ORIGIN_ASSUMED, DL_ORIGIN_CATALOGUE, DL_ORIGIN_MEASURED};
    const dl_machine *m = &options->machine;
    dl_evidence evidence = DL_EVIDENCE_MEASURED;
    for (int c = 0; c < m->class_count; c++) {
        worst(&evidence, &m->classes[c].bytes_per_s);
        worst(&evidence, &m->classes[c].duplex_bytes_per_s);
        worst(&evidence, &m->classes[c].latency_ns);
    }
    for (int g = 0; g < m->model_count && options->where == DL_WHERE_GPU; g++)
        worst(&evidence, &m->models[g].memory_bytes_per_s);
    worst(&evidence, &m->memory_bytes_per_s);
    worst(&evidence, &m->root_bytes_per_s);
    worst(&evidence, &m->network_bytes_per_s);
    for (int p = 0; p < m->protocol_count; p++) {
        worst(&evidence, &m->protocols[p].launch_ns);
        worst(&evidence, &m->protocols[p].hop_ns);
        worst(&evidence, &m->protocols[p].network_hop_ns);
        worst(&evidence, &m->protocols[p].bandwidth_frac);
    }
    return origins[evidence];
}
