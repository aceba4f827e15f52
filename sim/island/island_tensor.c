/* Collectives of the GPUs that divide layers (tensor parallelism): priced before the run, as a pass
 * of a layer waits for them and its GPUs do nothing else meanwhile. */
#include "sim/island/island.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* Ranks of workers whose GPUs are on the same nodes, starting with the priced one: their
 * collectives run at the same time. */
typedef struct neighbours {
    dl_place *places; /* [count x size] */
    int count, size;
} neighbours;

typedef struct price {
    int *likeness; /* [likeness_count] see likeness_of */
    int likeness_count;
    double bytes;
    double ns, sent_bytes; /* of one rank, all its GPUs together */
} price;

typedef struct pricing {
    const dl_gpu_options *options;
    const dl_workload *workload;
    const dl_split *split;
    const dl_place *places; /* [workers x GPUs of a worker], rank by rank */
    int ranks;              /* of all workers */
    int *of_node, *next;    /* [nodes], [GPUs]: list of a node's places; -1: its end */
    int *seen, search;      /* [ranks] number of the last search that found it */
    price *prices;          /* [price_count] computed so far */
    int price_count;
} pricing;

static void note_end(void *user, int index)
{
    (void)index;
    dl_engine *engine = ((void **)user)[0];
    int64_t *end_ns = ((void **)user)[1];
    *end_ns = engine->now_ns;
}

/* Time of one collective of all neighbours at once on idle links, until that of the first one
 * ends. */
static dl_status time_of(const pricing *p, const neighbours *of, dl_collective_kind kind, price *to,
                         dl_error *err)
{
    const dl_gpu_options *options = p->options;
    dl_engine engine;
    dl_network network;
    int64_t end_ns = 0;
    int flows = 1;
    dl_status status = DL_OK;
    dl_collective *all = dl_calloc((size_t)of->count, sizeof *all, "collectives");
    dl_network_init(&network, &engine, 1);
    dl_network_add_links(&network, &options->links);
    for (int g = 0; g < of->count && status == DL_OK; g++) {
        dl_collective_config config = dl_gpu_options_collective(
            options, p->workload, kind, &of->places[g * of->size], of->size, to->bytes);
        config.transfers_max = DL_TRANSFERS_HELD_MAX - flows;
        status = dl_collective_init(&all[g], &network, &options->links, &config, err);
        flows += all[g].plan.transfer_count;
    }
    if (status == DL_OK) {
        void *user[] = {&engine, &end_ns};
        dl_network_reserve(&network, flows);
        dl_engine_init(&engine, 2 * (flows + of->count) + 2);
        dl_collective_on_done(&all[0], note_end, user, 0);
        for (int g = 0; g < of->count; g++)
            for (int r = 0; r < of->size; r++)
                dl_collective_arrive(&all[g]);
        dl_engine_run(&engine);
        dl_engine_free(&engine);
        to->ns += (double)end_ns;
        to->sent_bytes += dl_collective_sent_bytes(&all[0]);
    }
    for (int g = 0; g < of->count; g++)
        dl_collective_free(&all[g]);
    free(all);
    dl_network_free(&network);
    return status;
}

static void list_nodes(pricing *p)
{
    const int gpus = p->ranks * p->split->tensor, nodes = p->options->machine.nodes;
    p->of_node = dl_calloc((size_t)nodes, sizeof *p->of_node, "nodes");
    p->next = dl_calloc((size_t)gpus, sizeof *p->next, "GPUs");
    p->seen = dl_calloc((size_t)p->ranks, sizeof *p->seen, "ranks");
    for (int n = 0; n < nodes; n++)
        p->of_node[n] = -1;
    for (int g = gpus - 1; g >= 0; g--) {
        int *first = &p->of_node[p->places[g].node];
        p->next[g] = *first;
        *first = g;
    }
}

static void add_neighbour(pricing *p, neighbours *of, int *room, int other)
{
    if (p->seen[other] == p->search) return;
    p->seen[other] = p->search;
    const size_t size = (size_t)of->size * sizeof *of->places;
    if (of->count == *room) {
        *room = 2 * *room + 8;
        of->places = dl_realloc(of->places, (size_t)*room, size, "neighbours");
    }
    memcpy(&of->places[of->size * of->count++], &p->places[other * of->size], size);
}

static neighbours neighbours_of(pricing *p, int rank)
{
    neighbours of = {.size = p->split->tensor};
    int room = 0;
    p->search++;
    add_neighbour(p, &of, &room, rank);
    for (int i = 0; i < of.size; i++)
        for (int g = p->of_node[p->places[rank * of.size + i].node]; g >= 0; g = p->next[g])
            add_neighbour(p, &of, &room, g / of.size);
    return of;
}

/* The key shared by equal prices: the order of nodes, their kinds, the indices of GPUs in them. */
static int *likeness_of(const pricing *p, const neighbours *of, int *count)
{
    const int places = of->count * of->size;
    int *nodes = dl_calloc((size_t)places, sizeof *nodes, "nodes"), known = 0;
    int *likeness = dl_calloc(3 * (size_t)places, sizeof *likeness, "places");
    for (int i = 0; i < places; i++) {
        int n = 0;
        while (n < known && nodes[n] != of->places[i].node)
            n++;
        if (n == known) nodes[known++] = of->places[i].node;
        likeness[3 * i] = n;
        likeness[3 * i + 1] = dl_machine_kind(&p->options->machine, of->places[i].node);
        likeness[3 * i + 2] = of->places[i].index;
    }
    free(nodes);
    *count = 3 * places;
    return likeness;
}

/* An all-gather and a reduce-scatter of `bytes`, or an all-reduce, which takes equally long on a
 * ring. */
static dl_status pair_of(pricing *p, int rank, double bytes, const price **found, dl_error *err)
{
    neighbours of = neighbours_of(p, rank);
    price made = {.bytes = bytes};
    made.likeness = likeness_of(p, &of, &made.likeness_count);
    const size_t size = (size_t)made.likeness_count * sizeof *made.likeness;
    dl_status status = DL_OK;
    *found = NULL;
    for (int i = 0; i < p->price_count && *found == NULL; i++) {
        const price *known = &p->prices[i];
        const bool alike = known->bytes == bytes && known->likeness_count == made.likeness_count;
        if (alike && memcmp(known->likeness, made.likeness, size) == 0) *found = known;
    }
    if (*found == NULL) {
        status = time_of(p, &of, DL_ALLGATHER, &made, err);
        if (status == DL_OK) status = time_of(p, &of, DL_REDUCE_SCATTER, &made, err);
        DL_APPEND(p->prices, p->price_count, "prices") = made;
        *found = &p->prices[p->price_count - 1];
    } else {
        free(made.likeness);
    }
    free(of.places);
    return status;
}

static dl_status price_rank(pricing *p, const dl_model_layers *model, const dl_stage *stage,
                            int worker, int rank, dl_island_tensor *to, dl_error *err)
{
    dl_island_tensor sum[2] = {{0}};
    const price *pair = NULL; /* of the previous layer: most layers are alike */
    const int number = worker * dl_split_ranks(p->split) + rank;
    const int end = p->split->stages > 1 ? stage->first + stage->count : model->count;
    for (int l = stage->first; l < end; l++) {
        const dl_model_layer *layer = &model->layers[l];
        const double bytes = layer->tensor_bytes * p->split->samples;
        if (layer->tensor_calls[0] + layer->tensor_calls[1] + layer->beside_calls == 0) continue;
        dl_status status = DL_OK;
        if (pair == NULL || pair->bytes != bytes) status = pair_of(p, number, bytes, &pair, err);
        if (status != DL_OK) return status;
        for (int i = 0; i < 2; i++) {
            sum[i].ns += layer->tensor_calls[i] * pair->ns;
            sum[i].sent_bytes += layer->tensor_calls[i] * pair->sent_bytes;
        }
        sum[0].ns += fmax(0, layer->beside_calls * pair->ns - layer->beside_ns * p->split->samples);
        sum[0].sent_bytes += layer->beside_calls * pair->sent_bytes;
    }
    for (int i = 0; i < 2; i++)
        if (sum[i].ns > to[i].ns) to[i] = sum[i];
    return DL_OK;
}

dl_status dl_island_price_tensors(const dl_gpu_options *options, const dl_workload *workload,
                                  const dl_costs *costs, const dl_split *split,
                                  const dl_stage *pieces, int workers, dl_island_tensor **made,
                                  dl_error *err)
{
    const int ranks = dl_split_ranks(split), gpus = dl_split_gpus(split);
    *made = NULL;
    if (split->tensor == 1) return DL_OK;
    dl_place *places = dl_calloc((size_t)workers * (size_t)gpus, sizeof *places, "GPUs");
    for (int g = 0; g < workers * gpus; g++) {
        const int rank = g % gpus / split->tensor;
        places[g] = dl_gpu_options_place(options, g / gpus * gpus +
                                                      dl_split_gpu(split, rank, g % split->tensor));
    }
    pricing p = {.options = options,
                 .workload = workload,
                 .split = split,
                 .places = places,
                 .ranks = workers * ranks};
    list_nodes(&p);
    dl_model_layers model;
    dl_model_layers_init(&model, costs);
    const int chunks = split->chunks;
    dl_island_tensor *to = *made =
        dl_calloc(2 * (size_t)(ranks * chunks), sizeof *to, "collectives");
    dl_status status = DL_OK;
    for (int i = 0; i < workers * ranks * chunks && status == DL_OK; i++) {
        const int chunk = i % chunks, rank = i / chunks % ranks;
        const dl_stage *piece = &pieces[chunk * split->stages + dl_split_stage(split, rank)];
        status = price_rank(&p, &model, piece, i / chunks / ranks, rank,
                            &to[2 * (rank * chunks + chunk)], err);
    }
    for (int i = 0; i < p.price_count; i++)
        free(p.prices[i].likeness);
    free(p.prices);
    free(p.of_node);
    free(p.next);
    free(p.seen);
    free(places);
    dl_model_layers_free(&model);
    return status;
}
