/* A parameter server that works tensor by tensor: modes ps, async and ssp if buckets are sent as
 * they become ready, or if [exchange] sets any of the details below.
 *
 * Tensors are the buckets, numbered from the last layer, whose gradients are ready first, to the
 * first one. A message is a tensor or a part of it on one shard: `split` divides tensors evenly
 * among all shards, and slice_bytes cuts them into slices that are sent, summed and fetched
 * separately. Each step has these stages:
 *
 *   node sum    with node_sum: the tensor of each GPU of a node is copied to one of the GPUs, which
 *               take turns over the tensors and sum in their memory: n reads and a write. That GPU
 *               also compresses the sum
 *   push        on each connection of a sender (a worker, or a node) to a shard, messages are sent
 *               in sequence in `order`, or all concurrently. With copies = gpu, at most
 *               copy_threads of the messages that a GPU sends to any receiver, or exchanges with
 *               host memory, are in flight (MXNet's engine has two copy threads for each GPU:
 *               threaded_engine_perdevice.cc)
 *   sum         on the shard, one message after another. at_once: the update starts when those of
 *               all n senders have arrived, at n reads and a write, plus the optimizer's reads and
 *               writes. on_arrival: each is added when it arrives (a read and a write for the first
 *               one, two reads and a write for the others), and after the last one the update makes
 *               the optimizer's reads and writes (if unknown: a read and a write)
 *   fetch       like pushes, from the shard to the sender; with node_sum then from the tensor's GPU
 *               to the others of the node. dl_fetch: when it starts, and which work waits for it
 *
 * In modes async and ssp, a message is applied alone when it arrives, and then fetched by its
 * sender only: no sender waits for another one, except in the queues of shards and links and, in
 * ssp, for its bound before the fetches. The team counts staleness of whole gradients, whose
 * updates happen when the sender's push phase ends.
 *
 * If layers wait for their parameters, the forward pass has a segment for each tensor, with the
 * same share of the pass as the tensor's segment of the backward pass.
 *
 * Frameworks: TensorFlow keeps variables whole on the servers, and each step reads them at its
 * start (round_robin or least_loaded, next_step, together: tf.train.replica_device_setter,
 * tf.contrib.training.GreedyLoadBalancingStrategy; tf_cnn_benchmarks' variable_mgr.py has both, and
 * node sums with a barrier and a fetch of each variable in distributed_replicated). MXNet splits
 * arrays of at least 1e6 numbers, adds them on arrival, and its engine runs ready operations in the
 * layers' order (large_split, on_arrival, layers, forward; dist_device_sync: node_sum;
 * src/kvstore/kvstore_dist.h, kvstore_dist_server.h). BytePS and P3 cut tensors into slices and
 * assign them to the servers in turn (round_robin, slice_bytes, layers, forward; Jayarajan et al.
 * 2019, "Priority-based Parameter Propagation"; Peng et al. 2019, "A Generic Communication
 * Scheduler").
 *
 * Copies between GPUs of a node without peer access are made by the driver through host memory;
 * with staged = alone neither GPU computes meanwhile. The latter is inferred from MXNet's tables
 * (scenarios/mxnet/vgg_titanx_device.ini); drivers' documents do not mention it.
 *
 * A slow sender cannot mix two steps of ps: a message of the next step is pushed only after this
 * step's message has come back. */
#include "sim/platform/gpu_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"

#define MESSAGES_MAX 10000000 /* limit on the messages of a step, counted for each worker */

typedef struct message {
    int bucket, shard;
    double bytes;
    int arrived,
        added; /* for the next update: number of senders whose message has arrived, and has been
                         * added */
} message;

/* Items waiting for a connection, a GPU's copy threads or a shard, in the order in which they will
 * be processed. */
typedef struct queue {
    int *items;
    int count, room;
    int running, most; /* items in progress; limit: 1 for a connection or shard, the number of copy
                        * threads for a GPU */
} queue;

/* A sender: the workers of a node, or one worker. */
typedef struct group {
    int first, count;
    int64_t fetches; /* DL_FETCH_AFTER, DL_FETCH_NEXT_STEP: number of steps whose fetches have
                      * started */
    int64_t pushes;  /* number of pushes that its workers have reached since the start */
    int64_t summed;  /* number of its messages summed since the start */
} group;

struct dl_server {
    int buckets, shards, workers;
    message *messages; /* [count] those of a bucket are consecutive */
    int count;
    int *first;    /* [buckets + 1] first message of each bucket */
    group *groups; /* [group_count] senders */
    int group_count;
    int *group_of;  /* [workers] sender of each worker */
    int64_t *sums;  /* [groups x count] number of sums since the start with this message */
    int *gathered;  /* [groups x buckets] number of workers whose gradients have arrived */
    int *fetched;   /* [groups x buckets] number of this step's messages that have arrived */
    int64_t *has;   /* [workers x buckets] number of steps whose parameters have arrived */
    int64_t *came;  /* [workers] number of buckets that have arrived since the start */
    queue *lanes;   /* [lane_count] queues of copies; items are numbers of copies
                         * (sending_number) */
    int lane_count; /* number of connections, or of GPUs */
    queue *serving; /* [shards] queues; an item is twice the number of a message of a sender (the
                         * first one if all are summed), plus 1 for its update */
    int *threads;   /* [shards] number of threads that serve the current item */
    dl_gpu_copy *local; /* [workers x local_room] copies to the other workers of the node */
    int local_room;
};

/* PUSH, FETCH: between a sender and a shard; GATHER, SPREAD: within a node, to or from the summing
 * GPU. */
typedef enum sending_kind { PUSH, FETCH, GATHER, SPREAD } sending_kind;

typedef struct sending {
    sending_kind kind;
    int from; /* PUSH, FETCH: index of the sender; otherwise of the worker */
    int what; /* PUSH, FETCH: index of the message; otherwise of the bucket */
} sending;

/* --- queues ---------------------------------------------------------------------------------- */

static void queue_init(queue *q, int room, int most)
{
    q->room = room;
    q->most = most;
    q->items = dl_calloc((size_t)(room > 0 ? room : 1), sizeof *q->items, "messages");
}

static void queues_free(queue *queues, int count)
{
    for (int i = 0; queues != NULL && i < count; i++)
        free(queues[i].items);
    free(queues);
}

/* Inserts an item at the end or, with order = forward, after all items that are at least as
 * urgent. */
static void put(const dl_gpus *gpus, queue *q, int item, int (*urgency)(const dl_gpus *, int))
{
    int at = q->count++;
    DL_ASSERT(q->count <= q->room, "more than %d messages wait", q->room);
    if (gpus->config.options->order == DL_ORDER_FORWARD) {
        while (at > 0 && urgency(gpus, q->items[at - 1]) < urgency(gpus, item))
            at--;
    }
    memmove(&q->items[at + 1], &q->items[at], (size_t)(q->count - 1 - at) * sizeof *q->items);
    q->items[at] = item;
}

/* Removes and returns the next item; -1 if the queue is empty or its limit is reached. With order =
 * together there is no limit. */
static int take(const dl_gpus *gpus, queue *q)
{
    const bool waits = gpus->config.options->order != DL_ORDER_TOGETHER;
    if (q->count == 0 || (q->running >= q->most && waits)) return -1;
    const int item = q->items[0];
    memmove(&q->items[0], &q->items[1], (size_t)--q->count * sizeof *q->items);
    q->running++;
    return item;
}

static int serving_urgency(const dl_gpus *gpus, int item)
{
    return gpus->server->messages[item / 2 % gpus->server->count].bucket;
}

/* --- fetching -------------------------------------------------------------------------------- */

/* The worker whose GPU sums this bucket for the sender. */
static int leader_of(const dl_server *s, int g, int bucket)
{
    return s->groups[g].first + bucket % s->groups[g].count;
}

static dl_gpu_copy local_copy(const dl_server *s, int from, int to)
{
    return s->local[from * s->local_room + to - s->groups[s->group_of[from]].first];
}

static void leave(dl_gpus *gpus, int worker)
{
    gpus->workers[worker].in_exchange = false;
    gpus->workers[worker].rounds++;
    dl_gpus_exchanged(gpus, worker);
}

/* Whether it is the run's last step, which ends when its parameters have arrived: no forward pass
 * waits for them. */
static bool is_last_step(const dl_gpus *gpus, int worker)
{
    return gpus->team->workers[worker].steps_done + 1 == gpus->team->config.steps;
}

/* Whether the worker's push phase is over, by the option `fetch`. layers: it ends immediately, but
 * in the run's last step as for summed. after, next_step: when all tensors are summed. summed,
 * pushed: when all tensors have been fetched. */
static bool is_over(const dl_gpus *gpus, int worker)
{
    const dl_server *s = gpus->server;
    const int64_t step = gpus->workers[worker].rounds + 1;
    switch (gpus->config.plan.fetch) {
    case DL_FETCH_LAYERS:
        if (!is_last_step(gpus, worker)) return true;
        break;
    case DL_FETCH_AFTER:
    case DL_FETCH_NEXT_STEP: return s->groups[s->group_of[worker]].summed == step * s->count;
    case DL_FETCH_SUMMED:
    case DL_FETCH_PUSHED: break;
    }
    return s->came[worker] == step * s->buckets;
}

static void bucket_came(dl_gpus *gpus, int worker, int bucket)
{
    dl_server *s = gpus->server;
    s->has[worker * s->buckets + bucket]++;
    s->came[worker]++;
    if (!gpus->workers[worker].in_exchange) {
        gpus->listener->parameters_came(gpus, worker);
    } else if (gpus->config.plan.fetch == DL_FETCH_AFTER ||
               gpus->config.plan.fetch == DL_FETCH_NEXT_STEP) {
        if (s->came[worker] != gpus->workers[worker].rounds * s->buckets) return;
        gpus->workers[worker].in_exchange = false;
        dl_gpus_exchanged(gpus, worker);
    } else if (is_over(gpus, worker)) {
        leave(gpus, worker);
    }
}

/* --- copies ---------------------------------------------------------------------------------- */

/* Index of a copy among all possible copies of a step: pushes, fetches, then copies within
 * nodes. */
static int sending_number(const dl_server *s, sending one)
{
    const int pushes = s->group_count * s->count;
    switch (one.kind) {
    case PUSH: return one.from * s->count + one.what;
    case FETCH: return pushes + one.from * s->count + one.what;
    case GATHER: return 2 * pushes + one.from * s->buckets + one.what;
    case SPREAD: break;
    }
    return 2 * pushes + (s->workers + one.from) * s->buckets + one.what;
}

static sending sending_of(const dl_server *s, int number)
{
    const int pushes = s->group_count * s->count, within = s->workers * s->buckets;
    const bool is_within = number >= 2 * pushes;
    const int each = is_within ? s->buckets : s->count, half = is_within ? within : pushes;
    const int rest = is_within ? number - 2 * pushes : number;
    const bool is_second = rest >= half;
    return (sending){
        .kind = (sending_kind)(2 * is_within + is_second),
        .from = rest % half / each,
        .what = rest % each,
    };
}

static int bucket_of(const dl_server *s, sending one)
{
    return one.kind == PUSH || one.kind == FETCH ? s->messages[one.what].bucket : one.what;
}

/* Urgency of a copy: the first layers' buckets have the largest numbers. */
static int sending_urgency(const dl_gpus *gpus, int number)
{
    return bucket_of(gpus->server, sending_of(gpus->server, number));
}

/* The worker whose GPU is the source (for FETCH, the destination) of the copy: for GATHER the
 * worker itself, otherwise the one whose GPU sums the bucket. */
static int worker_of(const dl_server *s, sending one)
{
    if (one.kind == GATHER) return one.from;
    const int g = one.kind == SPREAD ? s->group_of[one.from] : one.from;
    return leader_of(s, g, bucket_of(s, one));
}

/* The queue of a copy: that of its connection or, with copies = gpu, that of the GPU whose copy
 * threads execute it. This is the sending GPU, or the receiving one if host memory sends. */
static int lane_of(const dl_gpus *gpus, sending one)
{
    const dl_server *s = gpus->server;
    const int connections = s->group_count * s->shards;
    const bool is_within = one.kind == GATHER || one.kind == SPREAD;
    if (gpus->config.options->copies == DL_COPIES_CONNECTION) {
        return is_within ? 2 * connections + (one.kind == SPREAD ? s->workers : 0) + one.from
                         : (one.kind == FETCH ? connections : 0) + one.from * s->shards +
                               s->messages[one.what].shard;
    }
    dl_place at = gpus->places[worker_of(s, one)];
    if (one.kind == FETCH) {
        const dl_place server = gpus->servers[s->messages[one.what].shard];
        if (server.kind == DL_PLACE_GPU) at = server;
    }
    return dl_place_gpu_number(&gpus->config.options->machine, at);
}

static dl_gpu_copy copy_of(const dl_gpus *gpus, sending one)
{
    const dl_server *s = gpus->server;
    const int leader = worker_of(s, one);
    switch (one.kind) {
    case PUSH: return dl_gpus_pushes(gpus, leader)[s->messages[one.what].shard];
    case FETCH: return dl_gpus_pulls(gpus, leader)[s->messages[one.what].shard];
    case GATHER: return local_copy(s, one.from, leader_of(s, s->group_of[one.from], one.what));
    case SPREAD: break;
    }
    return local_copy(s, leader, one.from);
}

static double sending_bytes(const dl_gpus *gpus, sending one)
{
    const dl_server *s = gpus->server;
    switch (one.kind) {
    case PUSH: return dl_compress_bytes(&gpus->config.plan.message, s->messages[one.what].bytes);
    case FETCH: return s->messages[one.what].bytes;
    case GATHER:
    case SPREAD: break;
    }
    return gpus->reduction.bytes_share[one.what] * gpus->config.content_bytes;
}

static void arrive(dl_gpus *gpus, int g, int m);
static void gather(dl_gpus *gpus, int g, int bucket);
static void send_within(dl_gpus *gpus, sending_kind kind, int worker, int bucket);

/* Message m has arrived at the GPU that sums its bucket for sender g. Once all messages of the
 * bucket have arrived, copies the bucket to the node's other GPUs. */
static void fetched(dl_gpus *gpus, int g, int m)
{
    dl_server *s = gpus->server;
    const int bucket = s->messages[m].bucket, leader = leader_of(s, g, bucket);
    if (++s->fetched[g * s->buckets + bucket] < s->first[bucket + 1] - s->first[bucket]) return;
    s->fetched[g * s->buckets + bucket] = 0;
    for (int w = s->groups[g].first; w < s->groups[g].first + s->groups[g].count; w++) {
        if (w != leader) send_within(gpus, SPREAD, w, bucket);
    }
    bucket_came(gpus, leader, bucket);
}

static void try_lane(dl_gpus *gpus, int lane);

static void on_sent(void *user, int number)
{
    dl_gpus *gpus = user;
    dl_server *s = gpus->server;
    const sending one = sending_of(s, number);
    const int lane = lane_of(gpus, one);
    s->lanes[lane].running--;
    dl_gpus_hold(gpus, copy_of(gpus, one), -1);
    switch (one.kind) {
    case PUSH: arrive(gpus, one.from, one.what); break;
    case FETCH: fetched(gpus, one.from, one.what); break;
    case GATHER: gather(gpus, s->group_of[one.from], one.what); break;
    case SPREAD: bucket_came(gpus, one.from, one.what); break;
    }
    try_lane(gpus, lane);
}

static void try_lane(dl_gpus *gpus, int lane)
{
    dl_server *s = gpus->server;
    int number;
    while ((number = take(gpus, &s->lanes[lane])) >= 0) {
        const sending one = sending_of(s, number);
        const dl_gpu_copy copy = copy_of(gpus, one);
        const double bytes = sending_bytes(gpus, one);
        if (copy.is_remote) gpus->moved_bytes += bytes;
        if (copy.domain >= 0) gpus->sent_bytes[copy.domain] += bytes;
        dl_gpus_hold(gpus, copy, 1);
        dl_network_start(gpus->network, copy.class, bytes, copy.latency_ns, on_sent, gpus, number);
    }
}

static void send_copy(dl_gpus *gpus, sending one)
{
    dl_server *s = gpus->server;
    const int lane = lane_of(gpus, one);
    put(gpus, &s->lanes[lane], sending_number(s, one), sending_urgency);
    try_lane(gpus, lane);
}

static void send_within(dl_gpus *gpus, sending_kind kind, int worker, int bucket)
{
    send_copy(gpus, (sending){kind, worker, bucket});
}

static void fetch(dl_gpus *gpus, int g, int m)
{
    send_copy(gpus, (sending){FETCH, g, m});
}

/* Starts fetching all messages of a step, in layer order. */
static void fetch_all(dl_gpus *gpus, int g)
{
    dl_server *s = gpus->server;
    for (int b = s->buckets - 1; b >= 0; b--) {
        for (int m = s->first[b]; m < s->first[b + 1]; m++)
            fetch(gpus, g, m);
    }
}

/* Whether all workers of the sender have reached the push of this step: all of its tensors are then
 * ready. */
static bool has_pushed(const dl_server *s, int g, int64_t step)
{
    return s->groups[g].pushes >= step * s->groups[g].count;
}

/* Records that the worker has reached its push. With fetch = pushed, once all workers of the sender
 * have, fetches the tensors that are already summed. */
static void pushed_last(dl_gpus *gpus, int worker)
{
    dl_server *s = gpus->server;
    const int g = s->group_of[worker];
    const int64_t step = gpus->workers[worker].rounds + 1;
    s->groups[g].pushes++;
    if (gpus->config.plan.fetch != DL_FETCH_PUSHED || !has_pushed(s, g, step)) return;
    for (int m = 0; m < s->count; m++) {
        if (s->sums[g * s->count + m] == step) fetch(gpus, g, m);
    }
}

/* --- summing --------------------------------------------------------------------------------- */

static void try_serve(dl_gpus *gpus, int shard);

/* Message m of sender g is part of the parameters. */
static void end_sum(dl_gpus *gpus, int g, int m)
{
    dl_server *s = gpus->server;
    group *of = &s->groups[g];
    const dl_fetch when = gpus->config.plan.fetch;
    const int64_t step = ++s->sums[g * s->count + m];
    of->summed++;
    if (when == DL_FETCH_SUMMED || when == DL_FETCH_LAYERS || when == DL_FETCH_PUSHED) {
        if (when != DL_FETCH_PUSHED || has_pushed(s, g, step)) fetch(gpus, g, m);
    } else if (of->summed % s->count == 0) {
        for (int w = of->first; w < of->first + of->count; w++) {
            if (gpus->workers[w].in_exchange && is_over(gpus, w)) leave(gpus, w);
        }
    }
}

/* Number of senders whose messages make one sum. */
static int summands(const dl_gpus *gpus)
{
    return gpus->config.plan.each ? 1 : gpus->server->group_count;
}

/* Whether gradients are added as they arrive, and the sum is applied then; a server that applies
 * each gradient has no sum. */
static bool adds_on_arrival(const dl_gpus *gpus)
{
    return gpus->config.options->sums_on_arrival && !gpus->config.plan.each;
}

/* Whether each node sends one sum of its GPUs' gradients; a server that applies each gradient waits
 * for no other. */
static bool sums_in_nodes(const dl_gpus *gpus)
{
    return gpus->config.options->node_sum && !gpus->config.plan.each;
}

static void on_served(void *user, int shard)
{
    dl_gpus *gpus = user;
    dl_server *s = gpus->server;
    queue *q = &s->serving[shard];
    dl_gpus_hold_server(gpus, shard, -1);
    if (--s->threads[shard] > 0) return;
    /* The last slot of the queue holds the item being served. */
    const int item = q->items[q->room - 1], g = item / 2 / s->count, m = item / 2 % s->count;
    q->running--;
    if (adds_on_arrival(gpus) && item % 2 == 0) {
        s->messages[m].added++;
    } else {
        s->messages[m].added = 0;
        for (int i = g; i < g + summands(gpus); i++)
            end_sum(gpus, i, m);
    }
    try_serve(gpus, shard);
}

static void try_serve(dl_gpus *gpus, int shard)
{
    dl_server *s = gpus->server;
    queue *q = &s->serving[shard];
    if (q->running > 0 || q->count == 0) return;
    const int item = take(gpus, q);
    const message *m = &s->messages[item / 2 % s->count];
    dl_exchange exchange = {.kind = DL_SUM};
    if (gpus->config.plan.each) {
        exchange = (dl_exchange){.kind = DL_APPLY, .gradients = 1};
    } else if (gpus->config.options->sums_on_arrival) {
        exchange.kind = item % 2 ? DL_UPDATE : DL_ADD;
        exchange.gradients = m->added;
    }
    const int slices = dl_gpus_serving_slices(gpus);
    q->items[q->room - 1] = item;
    s->threads[shard] = slices;
    for (int t = 0; t < slices; t++)
        dl_gpus_serve(gpus, &exchange, shard, t, m->bytes / slices, on_served, shard);
}

/* Message m of sender g has arrived at its shard. */
static void arrive(dl_gpus *gpus, int g, int m)
{
    dl_server *s = gpus->server;
    const bool adds = adds_on_arrival(gpus);
    message *one = &s->messages[m];
    queue *q = &s->serving[one->shard];
    const int item = 2 * ((gpus->config.plan.each ? g * s->count : 0) + m);
    const bool all = ++one->arrived == summands(gpus);
    if (adds || all) put(gpus, q, item, serving_urgency);
    if (adds && all) put(gpus, q, item + 1, serving_urgency);
    if (all) one->arrived = 0;
    try_serve(gpus, one->shard);
}

/* --- pushing --------------------------------------------------------------------------------- */

static void send_bucket(dl_gpus *gpus, int g, int bucket)
{
    const dl_server *s = gpus->server;
    for (int m = s->first[bucket]; m < s->first[bucket + 1]; m++)
        send_copy(gpus, (sending){PUSH, g, m});
}

static void on_node_summed(void *user, int number)
{
    dl_gpus *gpus = user;
    send_bucket(gpus, number / gpus->server->buckets, number % gpus->server->buckets);
}

bool dl_server_packs(const dl_gpus *gpus)
{
    return gpus->config.plan.packs && gpus->server != NULL && sums_in_nodes(gpus);
}

/* The gradients of the bucket have arrived from one more GPU at its node's summing GPU. */
static void gather(dl_gpus *gpus, int g, int bucket)
{
    dl_server *s = gpus->server;
    const int count = s->groups[g].count;
    if (++s->gathered[g * s->buckets + bucket] < count) return;
    s->gathered[g * s->buckets + bucket] = 0;
    const double bytes = gpus->reduction.bytes_share[bucket] * gpus->config.content_bytes;
    double touched = count > 1 ? (count + 1) * bytes : 0;
    if (dl_server_packs(gpus)) touched += dl_compress_gpu_bytes(&gpus->config.plan.message, bytes);
    if (touched > 0) {
        dl_gpus_touch(gpus, leader_of(s, g, bucket), touched, on_node_summed,
                      g * s->buckets + bucket);
    } else {
        send_bucket(gpus, g, bucket);
    }
}

void dl_server_ready(dl_gpus *gpus, int worker, int bucket)
{
    dl_server *s = gpus->server;
    const int g = s->group_of[worker];
    if (worker == leader_of(s, g, bucket)) {
        gather(gpus, g, bucket);
        return;
    }
    send_within(gpus, GATHER, worker, bucket);
}

/* --- the worker's step ----------------------------------------------------------------------- */

static void all_ready(void *user, int worker)
{
    dl_gpus *gpus = user;
    for (int b = 0; b < gpus->server->buckets; b++)
        dl_server_ready(gpus, worker, b);
    /* With fetch = layers, nothing waits for the push. */
    if (gpus->workers[worker].in_exchange && is_over(gpus, worker)) leave(gpus, worker);
}

void dl_server_push(dl_gpus *gpus, int worker)
{
    pushed_last(gpus, worker);
    if (gpus->config.plan.as_ready && is_over(gpus, worker)) {
        leave(gpus, worker);
        return;
    }
    gpus->workers[worker].in_exchange = true;
    if (gpus->config.plan.as_ready) return;
    if (dl_server_packs(gpus)) {
        all_ready(gpus, worker);
    } else {
        dl_gpus_pack(gpus, worker, gpus->config.content_bytes, all_ready);
    }
}

void dl_server_pull(dl_gpus *gpus, int worker)
{
    dl_server *s = gpus->server;
    const dl_fetch when = gpus->config.plan.fetch;
    const int64_t step = gpus->workers[worker].rounds;
    group *g = &s->groups[s->group_of[worker]];
    const bool waits =
        when == DL_FETCH_AFTER || (when == DL_FETCH_NEXT_STEP && is_last_step(gpus, worker));
    gpus->workers[worker].in_exchange = waits;
    if ((when == DL_FETCH_AFTER || when == DL_FETCH_NEXT_STEP) && g->fetches < step) {
        g->fetches = step;
        fetch_all(gpus, s->group_of[worker]);
    }
    if (!waits) {
        dl_gpus_exchanged(gpus, worker);
    } else if (gpus->workers[worker].in_exchange && s->came[worker] == step * s->buckets) {
        gpus->workers[worker].in_exchange = false;
        dl_gpus_exchanged(gpus, worker);
    }
}

bool dl_server_has(const dl_gpus *gpus, int worker, int bucket)
{
    const dl_server *s = gpus->server;
    return s->has[worker * s->buckets + bucket] >= gpus->workers[worker].rounds;
}

/* --- placement of tensors --------------------------------------------------------------------- */

bool dl_server_is_wanted(const dl_gpus *gpus)
{
    const dl_gpu_options *o = gpus->config.options;
    return dl_gpus_serve_gradients(gpus) &&
           (gpus->config.plan.as_ready || o->bucket_bytes > 0 || o->slice_bytes > 0 ||
            adds_on_arrival(gpus) || o->fetch != DL_FETCH_SUMMED || o->order != DL_ORDER_READY ||
            sums_in_nodes(gpus) || o->copies != DL_COPIES_CONNECTION || o->staged_stops);
}

/* Whether a bucket of `bytes` is divided among all shards. */
static bool is_split(const dl_gpu_options *options, double bytes)
{
    return options->tensors == DL_TENSORS_SPLIT ||
           (options->tensors == DL_TENSORS_LARGE_SPLIT && bytes >= (double)options->large_bytes);
}

/* Number of messages of a bucket of `bytes`. */
static double messages_of(const dl_gpus *gpus, double bytes)
{
    const dl_gpu_options *options = gpus->config.options;
    const double slice = gpus->server != NULL ? (double)options->slice_bytes : 0;
    const double slices = slice > 0 ? fmax(1, ceil(bytes / slice)) : 1;
    return slices * (is_split(options, bytes) ? options->shards : 1);
}

static double bucket_bytes(const dl_gpus *gpus, int bucket)
{
    return gpus->reduction.bytes_share[bucket] * gpus->config.content_bytes;
}

static void cut_buckets(const dl_gpus *gpus, dl_server *s)
{
    const dl_gpu_options *options = gpus->config.options;
    for (int b = 0; b < s->buckets; b++) {
        const double bytes = bucket_bytes(gpus, b);
        const int count = (int)messages_of(gpus, bytes);
        s->first[b] = s->count;
        for (int i = 0; i < count; i++) {
            s->messages[s->count++] =
                (message){.bucket = b,
                          .shard = is_split(options, bytes) ? i % options->shards : -1,
                          .bytes = bytes / count};
        }
    }
    s->first[s->buckets] = s->count;
}

static int least_loaded(const double *bytes, int shards)
{
    int least = 0;
    for (int s = 1; s < shards; s++) {
        if (bytes[s] < bytes[least]) least = s;
    }
    return least;
}

/* Pointers into the same array; equal sizes keep their order. */
DL_ORDER_OF_POINTERS(by_size, message, DL_BY_DESCENDING(bytes), DL_COMPARE(a, b));

/* Assigns whole messages to shards; sums the bytes of each shard in load[shards]. */
static void place_messages(const dl_gpus *gpus, dl_server *s, double *load)
{
    const bool in_turn = gpus->config.options->tensors != DL_TENSORS_LEAST_LOADED;
    DL_AUTOFREE message **order = dl_calloc((size_t)s->count, sizeof *order, "messages");
    int whole = 0;
    for (int b = s->buckets - 1; b >= 0; b--) { /* starting with the first layer */
        for (int m = s->first[b]; m < s->first[b + 1]; m++) {
            if (s->messages[m].shard < 0) {
                order[whole++] = &s->messages[m];
            } else {
                load[s->messages[m].shard] += s->messages[m].bytes;
            }
        }
    }
    if (!in_turn) qsort(order, (size_t)whole, sizeof(message *), by_size);
    for (int i = 0; i < whole; i++) {
        order[i]->shard = in_turn ? i % s->shards : least_loaded(load, s->shards);
        load[order[i]->shard] += order[i]->bytes;
    }
}

static dl_status check_messages(const dl_gpus *gpus, double *count, dl_error *err)
{
    *count = 0;
    for (int b = 0; b < gpus->reduction.buckets; b++)
        *count += messages_of(gpus, bucket_bytes(gpus, b));
    if (*count * gpus->config.workers <= MESSAGES_MAX) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE,
                        "%.0f messages of a step for each of %d workers are more than %d in all: "
                        "[exchange] bucket_bytes and slice_bytes make fewer",
                        *count, gpus->config.workers, MESSAGES_MAX);
}

/* --- setting up ------------------------------------------------------------------------------ */

/* Groups the workers of each node, which are consecutive because workers use the GPUs in ascending
 * order. Without node sums, or if workers share GPUs, each worker is a separate group. */
static void make_groups(dl_gpus *gpus, dl_server *s)
{
    const bool joins = sums_in_nodes(gpus) && !gpus->shared;
    s->groups = dl_calloc((size_t)s->workers, sizeof *s->groups, "senders");
    s->group_of = dl_calloc((size_t)s->workers, sizeof *s->group_of, "senders");
    for (int w = 0; w < s->workers; w++) {
        if (w == 0 || !joins || gpus->places[w].node != gpus->places[w - 1].node)
            s->groups[s->group_count++].first = w;
        s->group_of[w] = s->group_count - 1;
        group *g = &s->groups[s->group_count - 1];
        if (++g->count > s->local_room) s->local_room = g->count;
    }
    gpus->senders = s->group_count;
    if (s->local_room == 1) return;
    s->local = dl_calloc((size_t)s->workers * (size_t)s->local_room, sizeof *s->local, "copies");
    for (int w = 0; w < s->workers; w++) {
        const group *g = &s->groups[s->group_of[w]];
        for (int i = 0; i < g->count; i++) {
            if (g->first + i == w) continue;
            s->local[w * s->local_room + i] =
                dl_gpus_copy_of(gpus, gpus->places[w], gpus->places[g->first + i], -1);
        }
    }
}

/* Whether a worker's tensor is copied within its node at all. */
static bool is_sent_within(const dl_server *s, int worker, int bucket)
{
    return leader_of(s, s->group_of[worker], bucket) != worker;
}

/* Computes the queues' capacities from all copies that a step may have. */
static void count_lanes(const dl_gpus *gpus, int *rooms)
{
    const dl_server *s = gpus->server;
    const int all = 2 * (s->group_count * s->count + s->workers * s->buckets);
    for (int number = 0; number < all; number++) {
        const sending one = sending_of(s, number);
        const bool is_within = one.kind == GATHER || one.kind == SPREAD;
        if (is_within && !is_sent_within(s, one.from, one.what)) continue;
        rooms[lane_of(gpus, one)]++;
    }
}

/* Largest number of concurrent copies per queue. */
static int lane_copies(const dl_gpus *gpus)
{
    const dl_gpu_options *options = gpus->config.options;
    return options->copies == DL_COPIES_GPU && options->copy_threads > 1 ? options->copy_threads
                                                                         : 1;
}

static void make_queues(dl_gpus *gpus, dl_server *s)
{
    const dl_machine *m = &gpus->config.options->machine;
    const bool by_gpu = gpus->config.options->copies == DL_COPIES_GPU;
    const int most = lane_copies(gpus);
    s->lane_count = by_gpu ? dl_machine_gpus(m) : 2 * (s->group_count * s->shards + s->workers);
    DL_AUTOFREE int *rooms = dl_calloc((size_t)s->lane_count, sizeof *rooms, "connections");
    DL_AUTOFREE int *of_shard = dl_calloc((size_t)s->shards, sizeof *of_shard, "messages");
    for (int i = 0; i < s->count; i++)
        of_shard[s->messages[i].shard]++;
    count_lanes(gpus, rooms);
    s->lanes = dl_calloc((size_t)s->lane_count, sizeof *s->lanes, "connections");
    s->serving = dl_calloc((size_t)s->shards, sizeof *s->serving, "shards");
    s->threads = dl_calloc((size_t)s->shards, sizeof *s->threads, "shards");
    for (int i = 0; i < s->lane_count; i++)
        queue_init(&s->lanes[i], rooms[i], most);
    const int each = adds_on_arrival(gpus)    ? s->group_count + 1
                     : gpus->config.plan.each ? s->group_count
                                              : 1;
    for (int i = 0; i < s->shards; i++)
        queue_init(&s->serving[i], of_shard[i] * each + 1, 1);
}

static void free_server(dl_server *s)
{
    if (s == NULL) return;
    queues_free(s->lanes, s->lane_count);
    queues_free(s->serving, s->shards);
    free(s->messages);
    free(s->first);
    free(s->groups);
    free(s->group_of);
    free(s->sums);
    free(s->gathered);
    free(s->fetched);
    free(s->has);
    free(s->came);
    free(s->threads);
    free(s->local);
    free(s);
}

dl_status dl_server_create(dl_gpus *gpus, dl_error *err)
{
    const dl_gpus_config *config = &gpus->config;
    const int shards = config->options->shards;
    const double all = config->content_bytes;
    gpus->shard_share = dl_calloc((size_t)shards, sizeof *gpus->shard_share, "shards");
    for (int i = 0; i < shards; i++)
        gpus->shard_share[i] = 1.0 / shards;
    const bool is_wanted = dl_server_is_wanted(gpus);
    if (!is_wanted && config->options->tensors == DL_TENSORS_SPLIT) return DL_OK;
    dl_server *s = gpus->server = dl_calloc(1, sizeof *s, "server");
    double count = 0;
    dl_status status = check_messages(gpus, &count, err);
    if (status != DL_OK) return status;
    s->buckets = gpus->reduction.buckets;
    s->shards = shards;
    s->workers = config->workers;
    s->messages = dl_calloc((size_t)count, sizeof *s->messages, "messages");
    s->first = dl_calloc((size_t)s->buckets + 1, sizeof *s->first, "messages");
    cut_buckets(gpus, s);
    DL_AUTOFREE double *load = dl_calloc((size_t)shards, sizeof *load, "shards");
    place_messages(gpus, s, load);
    for (int i = 0; i < shards && all > 0; i++)
        gpus->shard_share[i] = load[i] / all;
    if (!is_wanted) {
        dl_server_free(gpus);
        return DL_OK;
    }
    make_groups(gpus, s);
    make_queues(gpus, s);
    const size_t per_group = (size_t)s->group_count * (size_t)s->buckets;
    s->sums = dl_calloc((size_t)s->group_count * (size_t)s->count, sizeof *s->sums, "messages");
    s->gathered = dl_calloc(per_group, sizeof *s->gathered, "buckets");
    s->fetched = dl_calloc(per_group, sizeof *s->fetched, "buckets");
    s->has = dl_calloc((size_t)s->workers * (size_t)s->buckets, sizeof *s->has, "buckets");
    s->came = dl_calloc((size_t)s->workers, sizeof *s->came, "workers");
    return DL_OK;
}

void dl_server_free(dl_gpus *gpus)
{
    free_server(gpus->server);
    gpus->server = NULL;
}

int dl_server_most_flows(const dl_gpus *gpus)
{
    const dl_server *s = gpus->server;
    if (s == NULL) return 0;
    const int local = s->local_room > 1 ? 2 * s->workers : 0;
    if (gpus->config.options->order != DL_ORDER_TOGETHER)
        return local + s->group_count * s->buckets + (lane_copies(gpus) - 1) * s->lane_count;
    return 2 * s->group_count * s->count + (local + s->group_count) * s->buckets;
}
