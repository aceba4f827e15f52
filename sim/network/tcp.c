#include "sim/network/tcp.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/units.h"
#include "sim/network/tcp_hosts.h"

#define STEP_BYTES 524288.0     /* step of NCCL's buffer: NCCL_BUFFSIZE / NCCL_STEPS */
#define PIECE_MIN_BYTES 65536.0 /* smallest piece of a slice: MIN_CHUNKSIZE in net_socket.cc */

#define SEGMENT_BYTES 1048576.0 /* largest segment of gloo: kMaxSegmentSize in gloo/allreduce.h */
#define SEGMENTS_POSTED 2       /* segments of gloo in flight: gloo/allreduce.cc */

/* Largest difference between the nodes' start times of a collective, so that equal nodes are not in
 * lockstep: assumed, as kernel launches vary. A collective's time is measured from the last
 * start. */
#define START_SPREAD_NS 100e3

#define SIMULATED_BYTES (96 * 1048576.0)
#define REPEATS 3 /* runs after the first one, which opens the connections and is not counted */
#define LOSSY_REPEATS 24 /* largest number of runs if packet losses make them differ */
#define MEAN_FRAC 3e-3   /* sufficient relative standard error of the mean */
#define PAUSE_NS 60e9    /* longer than the timeout of any round trip */

typedef struct piece {
    int node, channel, slice;
    int left; /* number of packets that the receiver has not read */
} piece;

/* A node's traffic to the next one on a channel. */
typedef struct channel {
    int posted, arrived; /* slices handed to the sockets; slices that have arrived, in order */
    int freed;           /* slices that the sockets' buffers have taken, in order */
    int *left;           /* [slices] number of pieces not completely read; only for posted slices */
    int *unbuffered;     /* [slices] number of pieces not in the sockets' buffers; only for posted
                          * slices */
    int next_socket;
} channel;

typedef struct ring_run {
    dl_tcp_hosts hosts;
    const dl_tcp_ring *ring;
    int nodes, channels, sockets; /* sockets: per channel */
    channel *ways;                /* [nodes x channels] */
    piece *pieces;
    int piece_count, piece_room;
    int slices, slices_a_step, steps, most_posted; /* slices: per channel */
    double *slice_bytes;                           /* [slices] bytes of each slice, >= 1 */
    int unfinished;                                /* number of sending channels of all nodes that
                                                    * have not finished */
    dl_random random;
    bool started[DL_TCP_NODES_MAX];
} ring_run;

static channel *way(const ring_run *r, int node, int number)
{
    return &r->ways[node * r->channels + number];
}

static bool sends(const ring_run *r, int node)
{
    return !r->ring->broadcast || node < r->nodes - 1;
}

/* Whether the node has the data of slice `slice`: for a broadcast, the same slice has arrived from
 * the previous node; for an all-reduce, that of the previous step has. Node 0 of a broadcast, and
 * the first step of an all-reduce, have all data. */
static bool has_slice(const ring_run *r, int node, int number, int slice)
{
    if (r->ring->broadcast) return node == 0 || slice < way(r, node - 1, number)->arrived;
    if (slice / r->slices_a_step % r->steps == 0) return true;
    const int before = (node + r->nodes - 1) % r->nodes;
    return slice - r->slices_a_step < way(r, before, number)->arrived;
}

static void post_piece(ring_run *r, int node, int number, int slice, double bytes)
{
    channel *c = way(r, node, number);
    const int socket = (node * r->channels + number) * r->sockets + c->next_socket;
    const int place = r->piece_count++;
    c->next_socket = (c->next_socket + 1) % r->sockets;
    if (place == r->piece_room) {
        r->piece_room = r->piece_room > 0 ? 2 * r->piece_room : 1024;
        r->pieces = dl_realloc(r->pieces, (size_t)r->piece_room, sizeof *r->pieces, "pieces");
    }
    r->pieces[place] = (piece){.node = node, .channel = number, .slice = slice};
    c->left[slice]++;
    c->unbuffered[slice]++;
    r->pieces[place].left = dl_tcp_hosts_send(&r->hosts, socket, bytes, place);
}

/* Number of slices that occupy the buffer: NCCL frees a slice once the sockets have taken it, gloo
 * once it has arrived. */
static int slices_held(const ring_run *r, channel *c)
{
    while (c->freed < c->posted && c->unbuffered[c->freed] == 0)
        c->freed++;
    return c->posted - (r->ring->gloo ? c->arrived : c->freed);
}

/* Hands the sockets all slices that are ready and fit into the buffer. */
static void post(ring_run *r, int node, int number)
{
    channel *c = way(r, node, number);
    if (!sends(r, node) || !r->started[node]) return;
    while (c->posted < r->slices && slices_held(r, c) < r->most_posted &&
           has_slice(r, node, number, c->posted)) {
        const int slice = c->posted++;
        const double bytes = r->slice_bytes[slice];
        const double each = fmax(PIECE_MIN_BYTES, ceil(bytes / r->sockets));
        for (double at = 0; at < bytes; at += each)
            post_piece(r, node, number, slice, fmin(each, bytes - at));
    }
}

/* Callback: whether the receiver reads packets of this piece; NCCL reads slices in sequence. */
static bool takes(void *user, int number)
{
    ring_run *r = user;
    piece *p = &r->pieces[number];
    channel *c = way(r, p->node, p->channel);
    if (!r->ring->gloo && p->slice > c->arrived) return false;
    if (--p->left == 0) c->left[p->slice]--;
    return true;
}

static void buffered(void *user, int number)
{
    const ring_run *r = user;
    const piece *p = &r->pieces[number];
    way(r, p->node, p->channel)->unbuffered[p->slice]--;
}

/* Counts the completely arrived slices, in order; true if there was one. */
static bool read_slices(ring_run *r, int node, int number)
{
    channel *c = way(r, node, number);
    const int before = c->arrived;
    const int first = (node * r->channels + number) * r->sockets;
    while (c->arrived < c->posted && c->left[c->arrived] == 0) {
        c->arrived++;
        for (int i = 0; i < r->sockets; i++)
            dl_tcp_hosts_read(&r->hosts, first + i);
    }
    return c->arrived > before;
}

static void arrived(void *user, int socket)
{
    ring_run *r = user;
    const int number = socket / r->sockets % r->channels, node = socket / r->sockets / r->channels;
    if (!read_slices(r, node, number)) return;
    if (way(r, node, number)->arrived == r->slices) r->unfinished--;
    post(r, node, number);
    post(r, (node + 1) % r->nodes, number);
}

static void acknowledged(void *user, int socket)
{
    const ring_run *r = user;
    post(user, socket / r->sockets / r->channels, socket / r->sockets % r->channels);
}

/* Cuts data into gloo's segments: equal segments of a node's part of an all-reduce; any other
 * message is one segment. */
static void cut_segments(ring_run *r, double bytes)
{
    const bool whole = r->ring->broadcast;
    const double part = whole ? bytes : bytes / r->nodes;
    r->slices_a_step = whole ? 1 : (int)fmax(SEGMENTS_POSTED, ceil(part / SEGMENT_BYTES));
    r->steps = whole ? 1 : 2 * (r->nodes - 1);
    r->most_posted = whole ? 1 : SEGMENTS_POSTED;
    r->slices = r->steps * r->slices_a_step;
    r->slice_bytes =
        dl_realloc(r->slice_bytes, (size_t)r->slices, sizeof *r->slice_bytes, "slices");
    for (int s = 0; s < r->slices; s++)
        r->slice_bytes[s] = fmax(1, ceil(part / r->slices_a_step));
}

static double chunk_bytes(bool broadcast)
{
    return broadcast ? STEP_BYTES : 4 * STEP_BYTES;
}

/* Number of chunks per NCCL loop: on each channel one per node, or a single one of a broadcast. */
static int loop_chunks(const dl_tcp_ring *ring)
{
    return (ring->broadcast ? 1 : ring->nodes) * ring->tcp->channels;
}

/* Cuts a channel's data into slices: loops of equal chunks, each over all steps; the last loop is
 * smaller. */
static void cut_slices(ring_run *r, double bytes)
{
    const dl_tcp_ring *ring = r->ring;
    if (ring->gloo) {
        cut_segments(r, bytes);
        return;
    }
    const int parts = loop_chunks(ring);
    const double chunk = chunk_bytes(ring->broadcast);
    r->slices_a_step = ring->broadcast ? 1 : 2;
    r->steps = ring->broadcast ? 1 : 2 * (r->nodes - 1);
    r->most_posted = 1;
    const double slice = chunk / r->slices_a_step;
    const int loops = (int)ceil(bytes / (chunk * parts));
    r->slices = loops * r->steps * r->slices_a_step;
    r->slice_bytes =
        dl_realloc(r->slice_bytes, (size_t)r->slices, sizeof *r->slice_bytes, "slices");
    for (int s = 0; s < r->slices; s++) {
        const int loop = s / (r->steps * r->slices_a_step);
        const double left = ceil((bytes - loop * chunk * parts) / parts);
        const double here = fmin(chunk, fmax(1, left));
        r->slice_bytes[s] = s % r->slices_a_step == 0 ? fmin(here, slice) : fmax(1, here - slice);
    }
}

static void on_start(void *user, int node)
{
    ring_run *r = user;
    r->started[node] = true;
    for (int c = 0; c < r->channels; c++)
        post(r, node, c);
}

/* Runs one collective; returns its time in ns from the last node's start. Its packets, such as
 * acknowledgements, may still be in flight at its end. */
static double run_once(ring_run *r, double bytes)
{
    int64_t last_ns = 0;
    cut_slices(r, bytes);
    r->unfinished = 0;
    for (int node = 0; node < r->nodes; node++) {
        for (int c = 0; c < r->channels && sends(r, node); c++) {
            channel *w = way(r, node, c);
            const size_t slices = (size_t)r->slices;
            w->posted = w->freed = w->arrived = 0;
            w->left = dl_realloc(w->left, slices, sizeof *w->left, "pieces of slices");
            w->unbuffered = dl_realloc(w->unbuffered, slices, sizeof *w->left, "pieces of slices");
            memset(w->left, 0, slices * sizeof *w->left);
            memset(w->unbuffered, 0, slices * sizeof *w->left);
            r->unfinished++;
        }
    }
    for (int node = 0; node < r->nodes; node++) {
        r->started[node] = false;
        if (!sends(r, node)) continue;
        const int64_t after_ns = dl_ns_ceil(START_SPREAD_NS * dl_random_uniform(&r->random));
        (void)dl_engine_after(&r->hosts.engine, after_ns, on_start, r, node);
        if (after_ns > last_ns) last_ns = after_ns;
    }
    last_ns += r->hosts.engine.now_ns;
    while (r->unfinished > 0 && dl_tcp_hosts_go_on(&r->hosts)) {}
    DL_ASSERT(r->unfinished == 0, "%d channels of a ring over TCP have stalled", r->unfinished);
    return (double)(r->hosts.engine.now_ns - last_ns);
}

static void run_init(ring_run *r, const dl_tcp_ring *ring)
{
    const int channels = ring->gloo ? 1 : ring->tcp->channels;
    const int sockets = ring->gloo ? 1 : ring->tcp->sockets;
    *r = (ring_run){.ring = ring, .nodes = ring->nodes, .channels = channels, .sockets = sockets};
    dl_tcp_hosts_init(&r->hosts,
                      &(dl_tcp_hosts_config){.tcp = ring->tcp,
                                             .edges = ring->edges,
                                             .nodes = ring->nodes,
                                             .sockets = channels * sockets,
                                             .window_bytes = ring->gloo ? (double)INFINITY
                                                                        : DL_TCP_RECEIVED_FIRST,
                                             .user = r,
                                             .buffered = buffered,
                                             .takes = takes,
                                             .arrived = arrived,
                                             .acknowledged = acknowledged});
    dl_random_init(&r->random, 1, 0, 0, 0);
    r->ways = dl_calloc((size_t)ring->nodes * (size_t)channels, sizeof *r->ways, "channels");
}

static void run_free(ring_run *r)
{
    dl_tcp_hosts_free(&r->hosts);
    for (int i = 0; i < r->nodes * r->channels; i++) {
        free(r->ways[i].left);
        free(r->ways[i].unbuffered);
    }
    free(r->ways);
    free(r->pieces);
    free(r->slice_bytes);
}

/* Waits until all packets in flight have arrived and at least `ns` have passed. */
static void pause(ring_run *r, double ns)
{
    dl_engine *engine = &r->hosts.engine;
    const int64_t until_ns = engine->now_ns + dl_ns_ceil(ns);
    while (dl_tcp_hosts_go_on(&r->hosts)) {}
    if (engine->now_ns < until_ns) engine->now_ns = until_ns;
}

static double simulate(const dl_tcp_ring *ring, double bytes)
{
    DL_AUTO(run_free) ring_run run;
    double mean_ns = 0, squares = 0; /* sum of squared deviations from the mean */
    int count = 0;
    run_init(&run, ring);
    (void)run_once(&run, bytes);
    while (count < REPEATS ||
           (count < LOSSY_REPEATS && sqrt(squares / (count - 1) / count) > MEAN_FRAC * mean_ns)) {
        if (ring->pause_ns > 0) pause(&run, ring->pause_ns);
        const double ns = run_once(&run, bytes), before_ns = mean_ns;
        mean_ns += (ns - mean_ns) / ++count;
        squares += (ns - before_ns) * (ns - mean_ns);
    }
    return mean_ns;
}

/* --- known results --------------------------------------------------------------------------- */

typedef struct known_ring {
    dl_tcp tcp;
    dl_tcp_edge edges[DL_TCP_NODES_MAX];
    int nodes;
    bool broadcast, gloo;
    double bytes, pause_ns, ns;
} known_ring;

static struct {
    pthread_mutex_t lock;
    known_ring *all;
    int count;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_same(const known_ring *k, const dl_tcp_ring *ring, double bytes)
{
    bool same = k->nodes == ring->nodes && k->broadcast == ring->broadcast && k->bytes == bytes &&
                k->gloo == ring->gloo && k->pause_ns == ring->pause_ns &&
                k->tcp.channels == ring->tcp->channels && k->tcp.sockets == ring->tcp->sockets &&
                k->tcp.mtu_bytes.value == ring->tcp->mtu_bytes.value &&
                k->tcp.window_bytes.known == ring->tcp->window_bytes.known &&
                k->tcp.window_bytes.value == ring->tcp->window_bytes.value &&
                k->tcp.queue_ns.value == ring->tcp->queue_ns.value &&
                k->tcp.queue_ns.known == ring->tcp->queue_ns.known &&
                k->tcp.queue_bytes.known == ring->tcp->queue_bytes.known &&
                k->tcp.queue_bytes.value == ring->tcp->queue_bytes.value;
    for (int n = 0; n < ring->nodes && same; n++) {
        same = k->edges[n].bytes_per_s == ring->edges[n].bytes_per_s &&
               k->edges[n].delay_ns == ring->edges[n].delay_ns;
    }
    return same;
}

/* Returns a known result, or simulates the ring. Two threads may simulate the same ring; their
 * results are equal. */
static double simulate_once(const dl_tcp_ring *ring, double bytes)
{
    double ns = -1;
    pthread_mutex_lock(&known.lock);
    for (int i = 0; i < known.count && ns < 0; i++) {
        if (is_same(&known.all[i], ring, bytes)) ns = known.all[i].ns;
    }
    pthread_mutex_unlock(&known.lock);
    if (ns >= 0) return ns;
    known_ring found = {.tcp = *ring->tcp,
                        .nodes = ring->nodes,
                        .broadcast = ring->broadcast,
                        .gloo = ring->gloo,
                        .bytes = bytes,
                        .pause_ns = ring->pause_ns,
                        .ns = simulate(ring, bytes)};
    memcpy(found.edges, ring->edges, (size_t)ring->nodes * sizeof *found.edges);
    pthread_mutex_lock(&known.lock);
    DL_APPEND(known.all, known.count, "known rings") = found;
    pthread_mutex_unlock(&known.lock);
    return found.ns;
}

/* Returns the ring to simulate, and fills in its `edges`: rates are within the sockets' limits;
 * pauses long enough to restart a window become PAUSE_NS, shorter ones 0. *notice_ns: delay of
 * gloo's notices. */
static dl_tcp_ring as_simulated(const dl_tcp_ring *ring, dl_tcp_edge *edges, double *notice_ns)
{
    dl_tcp_ring simulated = *ring;
    double longest_ns = 0;
    const dl_quantity *each = &ring->tcp->socket_bytes_per_s;
    const int sockets = ring->gloo ? 1 : ring->tcp->channels * ring->tcp->sockets;
    for (int n = 0; n < ring->nodes; n++) {
        edges[n] = ring->edges[n];
        if (each->known) edges[n].bytes_per_s = fmin(edges[n].bytes_per_s, sockets * each->value);
        longest_ns = fmax(longest_ns, edges[n].delay_ns);
    }
    simulated.edges = edges;
    simulated.pause_ns = ring->pause_ns > DL_TCP_TIMEOUT_MIN_NS + 2 * longest_ns ? PAUSE_NS : 0;
    *notice_ns = ring->gloo ? longest_ns : 0;
    return simulated;
}

double dl_tcp_payload_frac(const dl_tcp *tcp)
{
    return (tcp->mtu_bytes.value - DL_TCP_HEADER_BYTES) /
           (tcp->mtu_bytes.value + DL_TCP_LINK_HEADER_BYTES);
}

double dl_tcp_ring_ns(const dl_tcp_ring *given)
{
    dl_tcp_edge edges[DL_TCP_NODES_MAX];
    double notice_ns;
    DL_ASSERT(given->nodes >= 2 && given->nodes <= DL_TCP_NODES_MAX && given->bytes > 0,
              "%d nodes, %g bytes", given->nodes, given->bytes);
    const dl_tcp_ring simulated = as_simulated(given, edges, &notice_ns), *ring = &simulated;
    if (ring->bytes <= SIMULATED_BYTES) return notice_ns + simulate_once(ring, ring->bytes);
    /* A partial loop takes as many hops as a whole one, so large vectors are extrapolated from the
     * growth between whole loops. */
    const double loop = loop_chunks(ring) * chunk_bytes(ring->broadcast);
    const double loops = ring->gloo ? 0 : floor(SIMULATED_BYTES / loop);
    const double whole = loops < 2 ? SIMULATED_BYTES : loops * loop;
    const double half = loops < 2 ? SIMULATED_BYTES / 2 : floor(loops / 2) * loop;
    const double whole_ns = simulate_once(ring, whole), half_ns = simulate_once(ring, half);
    return notice_ns + whole_ns + (ring->bytes - whole) * (whole_ns - half_ns) / (whole - half);
}
