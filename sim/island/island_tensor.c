/* Collectives of the GPUs that divide layers (tensor parallelism), rings or all-to-alls of those
 * that divide sequences (context parallelism), and all-to-alls of those that divide experts. Their
 * times are computed before the run, as a pass of a layer waits for them while its GPUs are idle; if
 * kernels overlap them, only the part that exceeds the kernels' time counts.
 *
 * With hops of h and blocks of attention of b, forward and backward, c GPUs wait in a layer
 *
 *   forward    (c - 1) max(0, h - b)
 *   backward   2 max(0, h - b') + (c - 2) max(0, 2 h - b'), where b' is a backward block: keys and
 *              values are sent during all blocks but the last, their gradients during all but the
 *              first */
#include "sim/island/island.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/random.h"

/* Groups of GPUs on the same nodes, starting with the priced group, whose collectives run
 * concurrently. */
typedef struct neighbours {
    dl_place *places; /* [count x size] */
    int count, size;
} neighbours;

typedef struct price {
    dl_collective_kind kind;
    int *likeness; /* [likeness_count] key from likeness_of */
    int likeness_count;
    double bytes, copies, experts; /* copies, experts: dl_model_layer's */
    double ns, sent_bytes;         /* ns: of one group; sent_bytes: total of its GPUs */
} price;

typedef struct pricing {
    const dl_gpu_options *options;
    const dl_workload *workload;
    const dl_split *split;
    dl_axis axis;        /* groups are the GPUs along this axis: tp, cp or ep */
    int size, groups;    /* GPUs per group; number of groups of all workers */
    dl_place *places;    /* [groups x size] */
    int *of_node, *next; /* [nodes], [GPUs]: linked list of a node's places; -1: end */
    int *seen, search;   /* [groups] number of the last search that found the group */
    price *prices;       /* [price_count] prices computed so far */
    int price_count;
} pricing;

static void note_end(void *user, int index DL_UNUSED)
{
    dl_engine *engine = ((void **)user)[0];
    int64_t *end_ns = ((void **)user)[1];
    *end_ns = engine->now_ns;
}

/* Time of a collective that all neighbours run concurrently on idle links, until the collective of
 * the priced group ends. */
static dl_status time_of(const pricing *p, const neighbours *of, dl_collective_kind kind, price *to,
                         dl_error *err)
{
    const dl_gpu_options *options = p->options;
    dl_engine engine;
    DL_SCOPED(dl_network) network;
    int64_t end_ns = 0;
    int flows = 1;
    dl_status status = DL_OK;
    DL_AUTOFREE dl_collective *all = dl_calloc((size_t)of->count, sizeof *all, "collectives");
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
    return status;
}

static void list_nodes(pricing *p)
{
    const int gpus = p->groups * p->size, nodes = p->options->machine.nodes;
    p->of_node = dl_calloc((size_t)nodes, sizeof *p->of_node, "nodes");
    p->next = dl_calloc((size_t)gpus, sizeof *p->next, "GPUs");
    p->seen = dl_calloc((size_t)p->groups, sizeof *p->seen, "groups");
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

static neighbours neighbours_of(pricing *p, int group)
{
    neighbours of = {.size = p->size};
    int room = 0;
    p->search++;
    add_neighbour(p, &of, &room, group);
    for (int i = 0; i < of.size; i++)
        for (int g = p->of_node[p->places[group * of.size + i].node]; g >= 0; g = p->next[g])
            add_neighbour(p, &of, &room, g / of.size);
    return of;
}

/* Key of groups with equal prices: the order of nodes, their kinds, the GPU indices in them. */
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

/* Bytes of a GPU's tokens, once for each of `parts` equal parts of the GPUs that has some of the
 * token's experts. */
static double once_bytes(const price *of, int parts)
{
    const double token_bytes = of->bytes / of->copies;
    return parts * token_bytes * dl_chance_of_some(of->experts, of->experts / parts, of->copies);
}

/* Number of the group's GPUs on each of its nodes, if it is the same for all groups; otherwise
 * 1. */
static int per_node(const neighbours *of)
{
    int count = 1;
    while (count < of->size && of->places[count].node == of->places[0].node)
        count++;
    for (int i = 0; i < of->count * of->size; i++)
        if (of->places[i].node != of->places[i / count * count].node || of->size % count != 0)
            return 1;
    return count;
}

/* Time of an exchange of tokens as in DeepEP (its README, "NVLink and RDMA forwarding"). A token is
 * sent once to each other node that has some of its experts, to the GPU with the same number there,
 * which forwards it to the GPUs of its node that have these experts. Tokens for the sender's own
 * node are only forwarded within it. Both transfers proceed at the same time. */
static dl_status time_of_tokens(const pricing *p, const neighbours *of, price *to, dl_error *err)
{
    const int each = per_node(of), nodes = of->size / each;
    const neighbours inside = {of->places, of->count * nodes, each};
    const neighbours between = {
        dl_calloc((size_t)of->count * (size_t)of->size, sizeof(dl_place), "GPUs"), of->count * each,
        nodes};
    price in = {.bytes = once_bytes(to, of->size)}, out = {.bytes = once_bytes(to, nodes)};
    for (int i = 0; i < of->count * of->size; i++) {
        const int group = i / of->size, node = i % of->size / each, number = i % each;
        between.places[(group * each + number) * nodes + node] = of->places[i];
    }
    dl_status status = each > 1 ? time_of(p, &inside, DL_ALLTOALL, &in, err) : DL_OK;
    if (status == DL_OK && nodes > 1) status = time_of(p, &between, DL_ALLTOALL, &out, err);
    to->ns += fmax(in.ns, out.ns);
    to->sent_bytes += nodes * in.sent_bytes + each * out.sent_bytes;
    free(between.places);
    return status;
}

static bool is_same(const price *a, const price *b)
{
    return a->kind == b->kind && a->bytes == b->bytes && a->copies == b->copies &&
           a->experts == b->experts;
}

/* The price of a collective of this kind: of an all-to-all of `bytes` of each GPU, or of an exchange
 * in which GPUs get tokens once; of an all-gather, which is a ring of hops, for tensor parallelism
 * with a reduce-scatter (an all-reduce takes equally long on a ring). */
static dl_status price_of(pricing *p, int group, price made, const price **found, dl_error *err)
{
    neighbours of = neighbours_of(p, group);
    made.likeness = likeness_of(p, &of, &made.likeness_count);
    const size_t size = (size_t)made.likeness_count * sizeof *made.likeness;
    dl_status status = DL_OK;
    *found = NULL;
    for (int i = 0; i < p->price_count && *found == NULL; i++) {
        const price *known = &p->prices[i];
        if (is_same(known, &made) && known->likeness_count == made.likeness_count &&
            memcmp(known->likeness, made.likeness, size) == 0)
            *found = known;
    }
    if (*found == NULL) {
        status = made.copies > 0 ? time_of_tokens(p, &of, &made, err)
                                 : time_of(p, &of, made.kind, &made, err);
        if (status == DL_OK && p->axis == DL_AXIS_TP)
            status = time_of(p, &of, DL_REDUCE_SCATTER, &made, err);
        DL_APPEND(p->prices, p->price_count, "prices") = made;
        *found = &p->prices[p->price_count - 1];
    } else {
        free(made.likeness);
    }
    free(of.places);
    return status;
}

/* Bytes of a layer's collective; 0 if it has none. */
static double bytes_of(const pricing *p, const dl_model_layer *layer)
{
    if (p->axis == DL_AXIS_CP)
        return (layer->turns > 0 ? 1 : p->size) * layer->context_bytes * p->split->samples;
    if (p->axis == DL_AXIS_EP) return layer->exchange_bytes * p->split->samples;
    if (layer->tensor_calls[0] + layer->tensor_calls[1] + layer->beside_calls == 0) return 0;
    return layer->tensor_bytes * p->split->samples;
}

/* Adds the collectives of a backward and a forward pass, for which GPUs wait. */
static void add_exchanges(const double counts[2], const price *each, dl_island_tensor *sum)
{
    for (int i = 0; i < 2; i++) {
        sum[i].ns += counts[i] * each->ns;
        sum[i].sent_bytes += counts[i] * each->sent_bytes;
    }
}

static void add_pairs(const pricing *p, const dl_model_layer *layer, const price *pair,
                      dl_island_tensor *sum)
{
    add_exchanges(layer->tensor_calls, pair, sum);
    sum[0].ns += fmax(0, layer->beside_calls * pair->ns - layer->beside_ns * p->split->samples);
    sum[0].sent_bytes += layer->beside_calls * pair->sent_bytes;
}

/* Adds the all-to-alls or rings of GPUs that divide sequences. */
static void add_context(const pricing *p, const dl_model_layer *layer, const price *ring,
                        dl_island_tensor *sum)
{
    const double turns[] = {layer->turns * (1 + layer->rings_again), layer->turns};
    if (layer->turns > 0) {
        add_exchanges(turns, ring, sum);
        return;
    }
    const double hop_ns = ring->ns / (p->size - 1), samples = p->split->samples;
    const double back_ns = layer->block_ns[0] * samples;
    const double forward_ns = (p->size - 1) * fmax(0, hop_ns - layer->block_ns[1] * samples);
    sum[1].ns += forward_ns;
    sum[1].sent_bytes += ring->sent_bytes;
    sum[0].ns += 2 * fmax(0, hop_ns - back_ns) + (p->size - 2) * fmax(0, 2 * hop_ns - back_ns) +
                 layer->rings_again * forward_ns;
    sum[0].sent_bytes += (2 + layer->rings_again) * ring->sent_bytes;
}

/* Replaces the times in to[2] by those of a group's passes over the piece where these are
 * longer. */
static dl_status price_group(pricing *p, const dl_model_layers *model, const dl_stage *piece,
                             int group, dl_island_tensor *to, dl_error *err)
{
    dl_island_tensor sum[2] = {{0}};
    const price *found = NULL; /* price of the previous layer's collective, usually the same */
    const int end = p->split->stages > 1 ? piece->first + piece->count : model->count;
    for (int l = piece->first; l < end; l++) {
        const dl_model_layer *layer = &model->layers[l];
        const double bytes = bytes_of(p, layer);
        dl_status status = DL_OK;
        if (!(bytes > 0)) continue;
        price asked = {.kind = DL_ALLGATHER, .bytes = bytes};
        if (p->axis == DL_AXIS_CP && layer->turns > 0) asked.kind = DL_ALLTOALL;
        if (p->axis == DL_AXIS_EP) {
            asked.kind = DL_ALLTOALL;
            asked.copies = layer->copies;
            asked.experts = layer->experts;
        }
        if (found == NULL || !is_same(found, &asked))
            status = price_of(p, group, asked, &found, err);
        if (status != DL_OK) return status;
        if (p->axis == DL_AXIS_TP) add_pairs(p, layer, found, sum);
        if (p->axis == DL_AXIS_CP) add_context(p, layer, found, sum);
        if (p->axis == DL_AXIS_EP) add_exchanges(layer->exchanges, found, sum);
    }
    for (int i = 0; i < 2; i++)
        if (sum[i].ns >= to[i].ns) to[i] = sum[i];
    return DL_OK;
}

/* Returns the rank of GPU `member` of a group; sets *part to the GPU's part of the layers. A group
 * is one rank (TP) or, of the GPUs with the same stage and part of the layers, those that divide
 * one sequence (CP) or that together have each expert once (EP). */
static int rank_of(const pricing *p, int group, int member, int *part)
{
    const dl_split *split = p->split;
    if (p->axis == DL_AXIS_TP) {
        *part = member;
        return group;
    }
    *part = group % split->tensor;
    const int of_stage = group / split->tensor, rest = of_stage / split->stages;
    return dl_split_rank(split, of_stage % split->stages,
                         p->axis == DL_AXIS_CP ? rest * split->context + member
                                               : dl_split_owner(split, member, rest));
}

/* The rank that contains the first GPU of a rank's group. */
static int first_of(const dl_split *split, dl_axis axis, int rank)
{
    const int shard = dl_split_shard(split, rank);
    if (axis == DL_AXIS_TP) return rank;
    const int before = axis == DL_AXIS_CP ? shard % split->context
                                          : dl_split_expert(split, shard) * split->context;
    return dl_split_rank(split, dl_split_stage(split, rank), shard - before);
}

/* Adds the times of collectives along an axis, in the worker where they take longest, to `to`: at
 * least 1 ns each, so that a task counts their bytes. */
static dl_status price_axis(pricing *p, const dl_model_layers *model, const dl_stage *pieces,
                            int workers, dl_island_tensor *to, dl_error *err)
{
    const dl_split *split = p->split;
    const int gpus = dl_split_gpus(split), groups = gpus / p->size, chunks = split->chunks;
    const int slots = dl_split_ranks(split) * chunks;
    DL_AUTOFREE dl_island_tensor *own = dl_calloc(2 * (size_t)slots, sizeof *own, "collectives");
    int part = 0;
    p->groups = workers * groups;
    p->places = dl_calloc((size_t)workers * (size_t)gpus, sizeof *p->places, "GPUs");
    for (int g = 0; g < workers * gpus; g++) {
        const int rank = rank_of(p, g % gpus / p->size, g % p->size, &part);
        p->places[g] =
            dl_gpu_options_place(p->options, g / gpus * gpus + dl_split_gpu(split, rank, part));
    }
    list_nodes(p);
    dl_status status = DL_OK;
    for (int i = 0; i < p->groups * chunks && status == DL_OK; i++) {
        const int chunk = i % chunks, group = i / chunks;
        const int rank = rank_of(p, group % groups, 0, &part);
        const dl_stage *piece = &pieces[chunk * split->stages + dl_split_stage(split, rank)];
        status = price_group(p, model, piece, group, &own[2 * (rank * chunks + chunk)], err);
    }
    /* A rank's GPUs send tensor / size of a group's bytes, as each group has `size` GPUs. */
    for (int i = 0; i < 2 * slots && status == DL_OK; i++) {
        const dl_island_tensor *from =
            &own[2 * (first_of(split, p->axis, i / 2 / chunks) * chunks + i / 2 % chunks) + i % 2];
        const double parts = p->axis == DL_AXIS_TP ? 1 : (double)split->tensor / p->size;
        to[i].ns += from->sent_bytes > 0 ? fmax(1, from->ns) : from->ns;
        to[i].sent_bytes += parts * from->sent_bytes;
    }
    for (int i = 0; i < p->price_count; i++)
        free(p->prices[i].likeness);
    free(p->prices);
    free(p->of_node);
    free(p->next);
    free(p->seen);
    free(p->places);
    return status;
}

dl_status dl_island_price_tensors(const dl_gpu_options *options, const dl_workload *workload,
                                  const dl_costs *costs, const dl_split *split,
                                  const dl_stage *pieces, int workers, dl_island_tensor **made,
                                  dl_error *err)
{
    const struct {
        dl_axis axis;
        int size;
    } axes[] = {
        {DL_AXIS_TP, split->tensor}, {DL_AXIS_CP, split->context}, {DL_AXIS_EP, split->experts}};
    *made = NULL;
    if (split->tensor * split->context * split->experts == 1) return DL_OK;
    DL_SCOPED(dl_model_layers) model;
    dl_model_layers_init(&model, costs);
    *made = dl_calloc(2 * (size_t)(dl_split_ranks(split) * split->chunks), sizeof **made,
                      "collectives");
    dl_status status = DL_OK;
    for (size_t a = 0; a < DL_LENGTH(axes) && status == DL_OK; a++) {
        if (axes[a].size == 1) continue;
        pricing p = {.options = options,
                     .workload = workload,
                     .split = split,
                     .axis = axes[a].axis,
                     .size = axes[a].size};
        status = price_axis(&p, &model, pieces, workers, *made, err);
    }
    return status;
}
