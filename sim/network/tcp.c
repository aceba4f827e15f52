#include "sim/network/tcp.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/units.h"
#include "sim/engine.h"

/* Ethernet 14, IPv4 20, TCP 20, its time stamps 12 bytes. */
#define LINK_HEADER_BYTES 14.0
#define HEADER_BYTES 52.0
#define ACK_BYTES (LINK_HEADER_BYTES + HEADER_BYTES)

#define INITIAL_WINDOW 10.0     /* packets: RFC 6928 */
#define LEAST_WINDOW 2.0        /* after a loss */
#define MOST_WINDOW 1e6         /* without a limit: more than any socket here has to send */
#define TIMEOUT_MIN_NS 200e6    /* beyond the round trip: TCP_RTO_MIN */
#define TIMEOUT_FIRST_NS 1e9    /* before a round trip is known: TCP_TIMEOUT_INIT */
#define TIMEOUT_MAX_NS 120e9    /* TCP_RTO_MAX */
#define PROBE_SLACK_NS 2e6      /* TCP_TIMEOUT_MIN: two ticks of 1 ms */
#define ACK_DELAY_NS 40e6       /* TCP_DELACK_MIN */
#define RETRY_NS 500e6          /* after the own queue's refusal: TCP_RESOURCE_PROBE_INTERVAL */
#define BURST_PACKETS 7         /* of a segment of 64 KiB, which the host sends at once */
#define SEND_BUFFER 4194304.0   /* largest of a socket: tcp_wmem */
#define RECEIVED_FIRST 65536.0  /* window of a receiver: half of tcp_rmem's middle value ... */
#define RECEIVED_MOST 6291456.0 /* ... and its largest value */
#define BUFFER_HEADERS 640.0    /* of a packet in it, rounded up to a power of two with it */
#define CUBIC_SHRINK 0.7        /* RFC 9438, as the next */
#define CUBIC_GROWTH 0.4        /* packets / s^3 */

#define STEP_BYTES 524288.0     /* NCCL_BUFFSIZE / NCCL_STEPS */
#define PIECE_MIN_BYTES 65536.0 /* net_socket.cc: MIN_CHUNKSIZE */

#define SEGMENT_BYTES 1048576.0 /* gloo/allreduce.h: kMaxSegmentSize */
#define SEGMENTS_POSTED 2       /* gloo/allreduce.cc */

/* Nodes start a collective at times that differ by so much, so that equal ones do not act in step: assumed, as
 * a kernel's launch varies. The time of a collective runs from the last start. */
#define START_SPREAD_NS 100e3

#define SIMULATED_BYTES (96 * 1048576.0)
#define REPEATS 3        /* beside the first one, on new connections, which is not counted ... */
#define LOSSY_REPEATS 24 /* ... and where they differ, as lost packets make them */
#define EQUAL_FRAC 3e-3  /* greatest relative deviation of equal ones */
#define PAUSE_NS 60e9    /* more than a timeout of any trip */

/* --- packets and sockets --------------------------------------------------------------------- */

typedef enum segment_state { SEGMENT_NEW, SEGMENT_SENT, SEGMENT_LOST, SEGMENT_DONE } segment_state;

typedef struct segment {
    double wire_bytes;
    double end;             /* in its socket's stream, bytes */
    int64_t sent_ns, order; /* order: of sending, on its socket */
    int64_t there_ns;       /* -1: not yet */
    int piece;
    segment_state state;
    bool again;      /* it was lost, and sent once more at least */
    bool ends_piece; /* the last one of a piece */
} segment;

typedef struct tcp_socket {
    int node;
    segment *segments; /* [room] */
    int count, room;
    double posted_bytes;
    int buffered;    /* of the segments, in the socket's buffer or beyond */
    int first, next; /* the oldest that is not acknowledged; the next that was never sent */
    int in_flight, lost;
    int64_t orders, last_sent_ns; /* last_sent_ns: -1 = nothing yet */
    double window, threshold;     /* packets */
    double most_window;           /* ever, which the buffer has room for */
    double window_max;            /* before the last loss */
    double reno_window;           /* that an additive increase would have */
    int64_t loss_ns;              /* of the last loss; -1 = none */
    int64_t epoch_ns;             /* since when CUBIC grows, less pauses; -1 = not since the loss */
    double flat_s;                /* after that time CUBIC is at window_max again */
    bool limited;                 /* by the window, when packets were sent last */
    int most_out, most_until;     /* most packets on their way, of those up to most_until */
    double trip_ns, deviation_ns; /* smoothed; trip_ns 0: not known */
    int backoff, recover_until;
    bool recovers, repairs; /* after a refusal or a loss; a loss */
    bool probes, probed;    /* the timer is that of a probe; one was sent */
    int timer;              /* pending event, -1 = none */
    int queued;             /* packets before the own port, as the socket counts them */
    bool throttled;         /* by them */
    double edge, widest;    /* where the receiver's window ends, in bytes; the widest so far */
    /* The receiver's: */
    int in_order, read;           /* packets there without a gap; of them, taken by the program */
    int unacknowledged;           /* packets */
    double window_bytes;          /* its window */
    double told_edge, told_bytes; /* where that ended when the sender was told, and its width */
    double space_bytes;           /* most taken in a round trip */
    double read_bytes;            /* taken until read_ns */
    int64_t read_ns;
    int ack_timer; /* pending event, -1 = none */
} tcp_socket;

typedef struct packet {
    int socket, segment;
    bool is_ack;
    int ends_burst;  /* packets of the burst whose last one it is; else 0 */
    int64_t made_ns; /* acknowledgement: when */
    double edge;     /* acknowledgement: where the window ends */
    int64_t due_ns;  /* on a line: its arrival */
} packet;

typedef struct packet_queue {
    packet *packets; /* [room] ring */
    int first, count, room;
    double bytes;
} packet_queue;

typedef struct piece {
    int node, channel, slice;
    int left; /* packets that have not arrived */
} piece;

/* What a node sends to the next one on a channel. */
typedef struct channel {
    int posted, arrived; /* slices handed to the sockets; there, in order */
    int freed;           /* slices that the sockets' buffers have taken, in order */
    int *left;           /* [slices] pieces that have not arrived; posted ones only */
    int *unbuffered;     /* [slices] pieces that are not in the sockets' buffers; as left */
    int next_socket;
} channel;

typedef struct ring_run {
    dl_engine engine;
    const dl_tcp_ring *ring;
    int nodes, channels, sockets;
    double payload_bytes, queue_limit[DL_TCP_NODES_MAX];
    double buffer_bytes; /* of a packet in a socket's buffer */
    packet_queue port[DL_TCP_NODES_MAX], forth[DL_TCP_NODES_MAX], back[DL_TCP_NODES_MAX];
    tcp_socket *all; /* [nodes x channels x sockets] */
    channel *ways;   /* [nodes x channels] */
    piece *pieces;
    int piece_count, piece_room;
    int slices, slices_a_step, steps, most_posted; /* slices: of a channel */
    double *slice_bytes;                           /* [slices] at least one each */
    int unfinished;                                /* channels of all nodes that send */
    dl_random random;
    bool started[DL_TCP_NODES_MAX];
} ring_run;

static void queue_push(packet_queue *q, packet p)
{
    if (q->count == q->room) {
        const int room = q->room > 0 ? 2 * q->room : 256;
        packet *packets = dl_calloc((size_t)room, sizeof *packets, "packets");
        for (int i = 0; i < q->count; i++)
            packets[i] = q->packets[(q->first + i) % q->room];
        free(q->packets);
        q->packets = packets;
        q->first = 0;
        q->room = room;
    }
    q->packets[(q->first + q->count++) % q->room] = p;
}

static packet queue_pop(packet_queue *q)
{
    const packet p = q->packets[q->first];
    q->first = (q->first + 1) % q->room;
    q->count--;
    return p;
}

/* --- a node's port --------------------------------------------------------------------------- */

static double packet_bytes(const ring_run *r, packet p)
{
    return p.is_ack ? ACK_BYTES : r->all[p.socket].segments[p.segment].wire_bytes;
}

static void on_served(void *user, int node);

static void serve(ring_run *r, int node)
{
    const packet_queue *port = &r->port[node];
    const double ns =
        packet_bytes(r, port->packets[port->first]) / r->ring->edges[node].bytes_per_s * 1e9;
    dl_engine_after(&r->engine, dl_ns_ceil(ns), on_served, r, node);
}

/* Into the port's queue; false if it is full. */
static bool enqueue(ring_run *r, int node, packet p)
{
    packet_queue *port = &r->port[node];
    const double bytes = packet_bytes(r, p);
    if (port->bytes + bytes > r->queue_limit[node]) return false;
    port->bytes += bytes;
    queue_push(port, p);
    if (port->count == 1) serve(r, node);
    return true;
}

static void push_out(ring_run *r, tcp_socket *s);
static void on_forth(void *user, int node);
static void on_back(void *user, int node);

/* The delay is that of the edge that the packet, or what it acknowledges, has gone along. */
static void on_served(void *user, int node)
{
    ring_run *r = user;
    packet_queue *port = &r->port[node];
    packet p = port->packets[port->first];
    port->bytes -= packet_bytes(r, p);
    (void)queue_pop(port);
    const int edge = p.is_ack ? (node + r->nodes - 1) % r->nodes : node;
    packet_queue *line = p.is_ack ? &r->back[edge] : &r->forth[edge];
    const int64_t delay_ns = dl_ns_ceil(r->ring->edges[edge].delay_ns);
    p.due_ns = r->engine.now_ns + delay_ns;
    queue_push(line, p);
    if (line->count == 1)
        dl_engine_after(&r->engine, delay_ns, p.is_ack ? on_back : on_forth, r, edge);
    if (port->count > 0) serve(r, node);
    if (!p.is_ack && p.ends_burst > 0) {
        r->all[p.socket].queued -= p.ends_burst;
        if (r->all[p.socket].throttled) push_out(r, &r->all[p.socket]);
    }
}

/* The first packet of a line; the next one's arrival is due. */
static packet leave_line(ring_run *r, packet_queue *line, dl_event_fn arrive, int edge)
{
    const packet p = queue_pop(line);
    if (line->count > 0) {
        dl_engine_after(&r->engine, line->packets[line->first].due_ns - r->engine.now_ns, arrive, r,
                        edge);
    }
    return p;
}

/* --- a socket -------------------------------------------------------------------------------- */

static double timeout_ns(const tcp_socket *s)
{
    const double ns =
        s->trip_ns > 0 ? s->trip_ns + fmax(TIMEOUT_MIN_NS, 4 * s->deviation_ns) : TIMEOUT_FIRST_NS;
    return fmin(TIMEOUT_MAX_NS, ldexp(ns, s->backoff < 30 ? s->backoff : 30));
}

static void on_timer(void *user, int socket);

static void stop_timer(ring_run *r, tcp_socket *s)
{
    if (s->timer >= 0) dl_engine_cancel(&r->engine, s->timer);
    s->timer = -1;
}

static void set_timer(ring_run *r, tcp_socket *s, double ns)
{
    stop_timer(r, s);
    s->timer = dl_engine_after(&r->engine, dl_ns_ceil(ns), on_timer, r, (int)(s - r->all));
}

/* Once in a round trip: the window shrinks, and grows back as CUBIC has it. */
static void shrink(const ring_run *r, tcp_socket *s)
{
    if (s->recovers) return;
    s->window_max = s->window < s->window_max ? s->window * (1 + CUBIC_SHRINK) / 2 : s->window;
    s->loss_ns = r->engine.now_ns;
    s->epoch_ns = -1;
    s->threshold = s->window = s->reno_window =
        fmax(LEAST_WINDOW, floor(floor(s->window) * CUBIC_SHRINK));
    s->recovers = true;
    s->recover_until = s->next;
}

static void grow(const ring_run *r, tcp_socket *s)
{
    if (s->recovers) return;
    if (s->window < s->threshold ? s->window >= 2 * s->most_out : !s->limited) return;
    if (s->window < s->threshold || s->loss_ns < 0) {
        s->window += 1;
    } else {
        if (s->epoch_ns < 0) {
            s->epoch_ns = r->engine.now_ns;
            s->window_max = fmax(s->window_max, s->window);
            s->flat_s = cbrt((s->window_max - s->window) / CUBIC_GROWTH);
            s->reno_window = s->window;
        }
        const double t_s = dl_ns_to_s((double)(r->engine.now_ns - s->epoch_ns));
        const double cubic = CUBIC_GROWTH * pow(t_s - s->flat_s, 3) + s->window_max;
        s->reno_window += 3 * (1 - CUBIC_SHRINK) / (1 + CUBIC_SHRINK) / s->window;
        if (cubic > s->window) s->window += fmin(0.5, (cubic - s->window) / s->window);
        s->window = fmax(s->window, s->reno_window);
    }
    const double most = r->ring->tcp->window_bytes.known
                            ? r->ring->tcp->window_bytes.value / r->payload_bytes
                            : MOST_WINDOW;
    s->window = fmin(s->window, fmax(LEAST_WINDOW, most));
}

/* What the socket's buffer has room for, which grows with the window (tcp_sndbuf_expand()), the program
 * need not keep. */
static void fill_buffer(ring_run *r, tcp_socket *s)
{
    s->most_window = fmax(s->most_window, s->window);
    const double bytes = fmin(SEND_BUFFER, 2 * s->most_window * r->buffer_bytes);
    const int most = s->first + (int)(bytes / r->payload_bytes);
    for (; s->buffered < s->count && s->buffered < most; s->buffered++) {
        const segment *g = &s->segments[s->buffered];
        if (!g->ends_piece) continue;
        const piece *whole = &r->pieces[g->piece];
        r->ways[whole->node * r->channels + whole->channel].unbuffered[whole->slice]--;
    }
}

static bool send_segment(ring_run *r, tcp_socket *s, int number)
{
    if (!enqueue(r, s->node, (packet){.socket = (int)(s - r->all), .segment = number}))
        return false;
    return true;
}

static void note_sent(const ring_run *r, tcp_socket *s, int number)
{
    segment *g = &s->segments[number];
    g->state = SEGMENT_SENT;
    if (s->in_flight == 0 && s->epoch_ns >= 0) s->epoch_ns += r->engine.now_ns - s->last_sent_ns;
    g->sent_ns = s->last_sent_ns = r->engine.now_ns;
    g->order = s->orders++;
    s->in_flight++;
}

/* Lost packets again; false if the port has no room. */
static bool send_lost(ring_run *r, tcp_socket *s)
{
    for (int k = s->first; k < s->next && s->lost > 0 && s->in_flight < (int)s->window; k++) {
        if (s->segments[k].state != SEGMENT_LOST) continue;
        if (!send_segment(r, s, k)) {
            if (s->in_flight == 0) set_timer(r, s, RETRY_NS);
            return false;
        }
        s->lost--;
        s->segments[k].again = true;
        note_sent(r, s, k);
    }
    return true;
}

/* How many new packets the socket hands down at once: of a message of 64 KiB, or half of the widest
 * window of the receiver (tcp_bound_to_half_wnd()), at most half of its own (tcp_cwnd_test()). */
static int burst_packets(const ring_run *r, const tcp_socket *s)
{
    const double half = fmin(floor(s->widest / 2 / r->payload_bytes), floor(s->window / 2));
    int most = (int)fmin(BURST_PACKETS, fmax(1, half));
    if (most > (int)s->window - s->in_flight) most = (int)s->window - s->in_flight;
    if (most > s->buffered - s->next) most = s->buffered - s->next;
    while (most > 0 && s->segments[s->next + most - 1].end > s->edge)
        most--;
    return most;
}

/* A burst into the port's queue: as a whole, or packet by packet if it is more than tc's bucket holds
 * (tbf_enqueue()). Returns how many found room. */
static int enqueue_burst(ring_run *r, tcp_socket *s, int packets)
{
    double bytes = 0;
    int taken = 0;
    for (int k = 0; k < packets; k++)
        bytes += s->segments[s->next + k].wire_bytes;
    if (bytes <= r->ring->tcp->queue_bytes.value &&
        r->port[s->node].bytes + bytes > r->queue_limit[s->node])
        return 0;
    for (int k = 0; k < packets; k++) {
        const int last_of = k == packets - 1 ? packets : 0;
        if (!enqueue(r, s->node,
                     (packet){.socket = (int)(s - r->all),
                              .segment = s->next + k,
                              .ends_burst = last_of}))
            continue;
        taken++;
        s->queued += last_of;
    }
    return taken;
}

/* New packets; of those that find room in part, the rest is lost without a sign. False if none was
 * sent. At most two bursts of a socket wait before the port (tcp_small_queue_check()). */
static bool send_burst(ring_run *r, tcp_socket *s, int packets)
{
    s->throttled = packets > 0 && s->in_flight > 0 && s->queued >= 2 * packets;
    if (packets <= 0 || s->throttled) return false;
    if (enqueue_burst(r, s, packets) == 0) {
        shrink(r, s);
        return false;
    }
    for (int k = 0; k < packets; k++)
        note_sent(r, s, s->next + k);
    s->next += packets;
    return true;
}

/* Until all is taken for lost, or until the last packet is sent again to hear of what is (a tail loss
 * probe, RFC 8985), one of which is on its way at most. */
static void await_ack(ring_run *r, tcp_socket *s)
{
    const double lost_ns = timeout_ns(s);
    const bool is_alone = s->next - s->first == 1;
    const double probe_ns = 2 * s->trip_ns + (is_alone ? TIMEOUT_MIN_NS : PROBE_SLACK_NS);
    s->probes =
        !s->repairs && !s->probed && s->trip_ns > 0 && s->backoff == 0 && probe_ns < lost_ns;
    set_timer(r, s, s->probes ? probe_ns : lost_ns);
}

/* Whether the window is what limits (tcp_cwnd_validate()). */
static void note_limit(tcp_socket *s)
{
    const bool limited = s->in_flight >= (int)s->window;
    if (s->first < s->most_until && !limited && (s->limited || s->in_flight <= s->most_out)) return;
    s->limited = limited;
    s->most_out = s->in_flight;
    s->most_until = s->next;
}

/* Sends what the window allows. After a pause of more than a timeout the window starts anew. A socket
 * with nothing on its way, which the port has refused or the receiver's window has no room for, asks again after its
 * timeout. */
static void push_out(ring_run *r, tcp_socket *s)
{
    const bool paused = s->in_flight == 0 && s->last_sent_ns >= 0 &&
                        (double)(r->engine.now_ns - s->last_sent_ns) > timeout_ns(s);
    const int64_t before = s->orders;
    if (paused && s->window > INITIAL_WINDOW) s->window = INITIAL_WINDOW;
    bool has_room = send_lost(r, s);
    while (has_room && s->lost == 0)
        has_room = send_burst(r, s, burst_packets(r, s));
    note_limit(s);
    if (s->orders > before && (s->timer < 0 || s->probes)) await_ack(r, s);
    if (s->timer < 0 && s->in_flight == 0 && s->next < s->buffered) set_timer(r, s, timeout_ns(s));
}

/* A new packet, or the last one again. */
static void probe_tail(ring_run *r, tcp_socket *s)
{
    const double since_first_ns = (double)(r->engine.now_ns - s->segments[s->first].sent_ns);
    segment *last = &s->segments[s->next - 1];
    s->probes = false;
    s->probed = true;
    if (s->next < s->buffered && s->segments[s->next].end <= s->edge) {
        (void)send_burst(r, s, 1);
    } else if (last->state == SEGMENT_SENT && send_segment(r, s, s->next - 1)) {
        last->order = s->orders++;
        last->sent_ns = r->engine.now_ns;
        last->again = true;
    }
    set_timer(r, s, fmax(PROBE_SLACK_NS, timeout_ns(s) - since_first_ns));
}

/* Nothing has come back in time: all is lost. */
static void lose_all(ring_run *r, tcp_socket *s)
{
    for (int k = s->first; k < s->next; k++) {
        if (s->segments[k].state != SEGMENT_SENT) continue;
        s->segments[k].state = SEGMENT_LOST;
        s->lost++;
    }
    s->in_flight = 0;
    s->recovers = false;
    shrink(r, s);
    s->repairs = true;
    s->window = 1;
    s->backoff++;
}

static void on_timer(void *user, int number)
{
    ring_run *r = user;
    tcp_socket *s = &r->all[number];
    s->timer = -1;
    if (s->in_flight > 0 && s->probes) {
        probe_tail(r, s);
        return;
    }
    s->probes = false;
    if (s->in_flight > 0) lose_all(r, s);
    if (s->lost > 0) {
        push_out(r, s);
        if (s->timer < 0) set_timer(r, s, timeout_ns(s));
        return;
    }
    s->edge = fmax(s->edge, s->told_edge);
    const bool sent = send_burst(r, s, burst_packets(r, s) > 0 ? 1 : 0);
    set_timer(r, s, sent ? timeout_ns(s) : RETRY_NS);
}

static void take_trip(tcp_socket *s, double ns)
{
    if (s->trip_ns <= 0) {
        s->trip_ns = ns;
        s->deviation_ns = ns / 2;
    } else {
        s->deviation_ns = 0.75 * s->deviation_ns + 0.25 * fabs(s->trip_ns - ns);
        s->trip_ns = 0.875 * s->trip_ns + 0.125 * ns;
    }
    s->backoff = 0;
}

static void post(ring_run *r, int node, int number);

/* --- its receiver ---------------------------------------------------------------------------- */

static double in_order_bytes(const tcp_socket *s)
{
    return s->in_order > 0 ? s->segments[s->in_order - 1].end : 0;
}

static double edge_now(const tcp_socket *s)
{
    return fmax(s->told_edge, (s->read > 0 ? s->segments[s->read - 1].end : 0) + s->window_bytes);
}

static void send_ack(ring_run *r, tcp_socket *s)
{
    s->unacknowledged = 0;
    s->told_edge = edge_now(s);
    s->told_bytes = s->told_edge - in_order_bytes(s);
    if (s->ack_timer >= 0) dl_engine_cancel(&r->engine, s->ack_timer);
    s->ack_timer = -1;
    (void)enqueue(r, (s->node + 1) % r->nodes,
                  (packet){.socket = (int)(s - r->all),
                           .is_ack = true,
                           .made_ns = r->engine.now_ns,
                           .edge = s->told_edge});
}

static void on_ack_timer(void *user, int number)
{
    ring_run *r = user;
    r->all[number].ack_timer = -1;
    send_ack(r, &r->all[number]);
}

/* What was sent before the packet of order `order`, which has arrived, and has not, is lost. */
static void find_lost(ring_run *r, tcp_socket *s, int64_t order)
{
    const int before = s->lost;
    for (int k = s->first; k < s->next; k++) {
        segment *g = &s->segments[k];
        if (g->state != SEGMENT_SENT || g->order >= order) continue;
        g->state = SEGMENT_LOST;
        s->in_flight--;
        s->lost++;
    }
    if (s->lost == before) return;
    shrink(r, s);
    s->repairs = true;
}

/* All that had arrived when the acknowledgement was made (selective acknowledgements); returns how many
 * packets are new to the sender, the order of the one sent last, and when the first that was sent once was. */
static int take_ack(tcp_socket *s, packet p, int64_t *order, int64_t *sent_ns)
{
    int count = 0;
    *order = *sent_ns = -1;
    for (int k = s->first; k < s->next; k++) {
        segment *g = &s->segments[k];
        if (g->state == SEGMENT_DONE || g->there_ns < 0 || g->there_ns > p.made_ns) continue;
        if (g->state == SEGMENT_SENT) s->in_flight--;
        if (g->state == SEGMENT_LOST) s->lost--;
        g->state = SEGMENT_DONE;
        if (g->order > *order) *order = g->order;
        if (!g->again && *sent_ns < 0) *sent_ns = g->sent_ns;
        count++;
    }
    while (s->first < s->next && s->segments[s->first].state == SEGMENT_DONE)
        s->first++;
    s->edge = fmax(s->edge, p.edge);
    s->widest = fmax(s->widest, s->edge - (s->first > 0 ? s->segments[s->first - 1].end : 0));
    return count;
}

static void on_back(void *user, int edge)
{
    ring_run *r = user;
    const packet p = leave_line(r, &r->back[edge], on_back, edge);
    tcp_socket *s = &r->all[p.socket];
    int64_t order, sent_ns;
    const int count = take_ack(s, p, &order, &sent_ns);
    if (count > 0) {
        s->probed = false;
        if (sent_ns >= 0) take_trip(s, (double)(r->engine.now_ns - sent_ns));
        if (s->recovers && s->first >= s->recover_until) s->recovers = s->repairs = false;
        for (int k = 0; k < count; k++)
            grow(r, s);
        find_lost(r, s, order);
        s->probes = false;
    }
    if (count > 0 || s->in_flight == 0) stop_timer(r, s);
    if (count > 0 && (s->in_flight > 0 || s->lost > 0)) await_ack(r, s);
    fill_buffer(r, s);
    push_out(r, s);
    post(r, s->node, p.socket / r->sockets % r->channels);
}

/* --- the collective -------------------------------------------------------------------------- */

static channel *way(const ring_run *r, int node, int number)
{
    return &r->ways[node * r->channels + number];
}

static bool sends(const ring_run *r, int node)
{
    return !r->ring->broadcast || node < r->nodes - 1;
}

/* Whether the node has what slice `slice` is made of: of the step before, from the node before. */
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
    tcp_socket *s = &r->all[(node * r->channels + number) * r->sockets + c->next_socket];
    c->next_socket = (c->next_socket + 1) % r->sockets;
    const int packets = (int)ceil(bytes / r->payload_bytes);
    if (r->piece_count == r->piece_room) {
        r->piece_room = r->piece_room > 0 ? 2 * r->piece_room : 1024;
        r->pieces = dl_realloc(r->pieces, (size_t)r->piece_room, sizeof *r->pieces, "pieces");
    }
    while (s->count + packets > s->room) {
        s->room = s->room > 0 ? 2 * s->room : 64;
        s->segments = dl_realloc(s->segments, (size_t)s->room, sizeof *s->segments, "segments");
    }
    r->pieces[r->piece_count] =
        (piece){.node = node, .channel = number, .slice = slice, .left = packets};
    for (int k = 0; k < packets; k++) {
        const double content = fmin(r->payload_bytes, bytes - k * r->payload_bytes);
        s->segments[s->count++] = (segment){.wire_bytes = content + ACK_BYTES,
                                            .end = s->posted_bytes += content,
                                            .there_ns = -1,
                                            .piece = r->piece_count,
                                            .state = SEGMENT_NEW,
                                            .ends_piece = k == packets - 1};
    }
    r->piece_count++;
    c->left[slice]++;
    c->unbuffered[slice]++;
    fill_buffer(r, s);
    push_out(r, s);
}

/* NCCL's step is free once the sockets have taken all of it; gloo's, when it is there. */
static int slices_held(const ring_run *r, channel *c)
{
    while (c->freed < c->posted && c->unbuffered[c->freed] == 0)
        c->freed++;
    return c->posted - (r->ring->gloo ? c->arrived : c->freed);
}

/* Hands all slices to the sockets that are there and find room in the buffer. */
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

/* The receiver's window grows with what the program takes in a round trip, less what it leaves there
 * (tcp_rcv_space_adjust(), tcp_rcvbuf_grow()). */
static void measure_reads(ring_run *r, tcp_socket *s)
{
    const dl_quantity *limit = &r->ring->tcp->window_bytes;
    const double bytes = s->segments[s->read - 1].end;
    if (s->trip_ns <= 0 || (double)(r->engine.now_ns - s->read_ns) < s->trip_ns) return;
    const double taken = bytes - s->read_bytes - (in_order_bytes(s) - bytes);
    if (taken > s->space_bytes) {
        const double window = 2 * taken * (1 + 2 * (taken - s->space_bytes) / s->space_bytes);
        s->space_bytes = taken;
        s->window_bytes =
            fmax(s->window_bytes, fmin(limit->known ? limit->value : RECEIVED_MOST, window));
    }
    s->read_bytes = bytes;
    s->read_ns = r->engine.now_ns;
}

/* The program takes what is there of slices up to `slice`: NCCL takes one slice after another. */
static void read_socket(ring_run *r, tcp_socket *s, channel *c, int slice)
{
    const int before = s->read;
    for (; s->read < s->in_order; s->read++) {
        piece *whole = &r->pieces[s->segments[s->read].piece];
        if (!r->ring->gloo && whole->slice > slice) break;
        if (--whole->left == 0) c->left[whole->slice]--;
    }
    if (s->read == before) return;
    measure_reads(r, s);
    const double told = s->told_edge - in_order_bytes(s), now = edge_now(s) - in_order_bytes(s);
    const bool wider = isfinite(told) && 2 * told <= s->window_bytes && now >= 2 * told;
    const bool is_end = s->read == s->in_order && s->segments[s->read - 1].ends_piece;
    if (s->unacknowledged >= 2 || (s->unacknowledged == 1 && is_end) || wider) send_ack(r, s);
}

/* Slices that are there as a whole, in order; true if there was one. */
static bool read_slices(ring_run *r, int node, int number)
{
    channel *c = way(r, node, number);
    const int before = c->arrived;
    tcp_socket *sockets = &r->all[(node * r->channels + number) * r->sockets];
    while (c->arrived < c->posted && c->left[c->arrived] == 0) {
        c->arrived++;
        for (int i = 0; i < r->sockets; i++)
            read_socket(r, &sockets[i], c, c->arrived);
    }
    return c->arrived > before;
}

/* A packet out of order is acknowledged at once; others by twos, unless that would narrow the window
 * (__tcp_ack_snd_check()), or after a while. */
static void receive(ring_run *r, tcp_socket *s, int number, channel *c)
{
    segment *g = &s->segments[number];
    const int expected = s->in_order;
    const bool is_new = g->there_ns < 0;
    if (is_new) g->there_ns = r->engine.now_ns;
    while (s->in_order < s->next && s->segments[s->in_order].there_ns >= 0)
        s->in_order++;
    const bool in_order = is_new && s->in_order == expected + 1;
    s->unacknowledged++;
    read_socket(r, s, c, c->arrived);
    const bool is_wide = edge_now(s) - in_order_bytes(s) >= s->told_bytes;
    if (!in_order || (s->unacknowledged >= 2 && is_wide)) {
        send_ack(r, s);
    } else if (s->unacknowledged > 0 && s->ack_timer < 0) {
        s->ack_timer =
            dl_engine_after(&r->engine, (int64_t)ACK_DELAY_NS, on_ack_timer, r, (int)(s - r->all));
    }
}

static void on_forth(void *user, int edge)
{
    ring_run *r = user;
    const packet p = leave_line(r, &r->forth[edge], on_forth, edge);
    const int number = p.socket / r->sockets % r->channels;
    channel *c = way(r, edge, number);
    receive(r, &r->all[p.socket], p.segment, c);
    if (!read_slices(r, edge, number)) return;
    if (c->arrived == r->slices) r->unfinished--;
    post(r, edge, number);
    post(r, (edge + 1) % r->nodes, number);
}

/* gloo's: a node's part of an all-reduce in equal segments; all else as one. */
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

/* The slices of a channel: loops of equal chunks, each over all steps, the last loop's smaller. */
static void cut_slices(ring_run *r, double bytes)
{
    const dl_tcp_ring *ring = r->ring;
    if (ring->gloo) {
        cut_segments(r, bytes);
        return;
    }
    const double slice = ring->broadcast ? STEP_BYTES : 2 * STEP_BYTES;
    const int parts = (ring->broadcast ? 1 : r->nodes) * r->channels;
    r->slices_a_step = ring->broadcast ? 1 : 2;
    r->steps = ring->broadcast ? 1 : 2 * (r->nodes - 1);
    r->most_posted = 1;
    const double chunk = r->slices_a_step * slice;
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

/* One collective from now on; returns its time in ns since the last node's start. Packets of it may still be on their way when
 * it ends, as acknowledgements. */
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
        (void)dl_engine_after(&r->engine, after_ns, on_start, r, node);
        if (after_ns > last_ns) last_ns = after_ns;
    }
    last_ns += r->engine.now_ns;
    dl_event event;
    while (r->unfinished > 0 && dl_event_queue_pop(&r->engine.queue, &event)) {
        r->engine.now_ns = event.time_ns;
        event.handler(event.user, event.index);
    }
    DL_ASSERT(r->unfinished == 0, "%d channels of a ring over TCP stand still", r->unfinished);
    return (double)(r->engine.now_ns - last_ns);
}

double dl_tcp_payload_frac(const dl_tcp *tcp)
{
    return (tcp->mtu_bytes.value - HEADER_BYTES) / (tcp->mtu_bytes.value + LINK_HEADER_BYTES);
}

static void run_init(ring_run *r, const dl_tcp_ring *ring)
{
    const dl_tcp *tcp = ring->tcp;
    const int channels = ring->gloo ? 1 : tcp->channels;
    const int of_channel = ring->gloo ? 1 : tcp->sockets;
    const int sockets = ring->nodes * channels * of_channel;
    const double window_bytes = ring->gloo ? (double)INFINITY : RECEIVED_FIRST;
    *r = (ring_run){.ring = ring,
                    .nodes = ring->nodes,
                    .channels = channels,
                    .sockets = of_channel,
                    .payload_bytes = tcp->mtu_bytes.value - HEADER_BYTES};
    r->buffer_bytes = exp2(ceil(log2(r->payload_bytes + BUFFER_HEADERS)));
    dl_engine_init(&r->engine, 4 * ring->nodes + 2 * sockets);
    dl_random_init(&r->random, 1, 0, 0, 0);
    r->all = dl_calloc((size_t)sockets, sizeof *r->all, "sockets");
    r->ways = dl_calloc((size_t)(ring->nodes * channels), sizeof *r->ways, "channels");
    for (int i = 0; i < sockets; i++) {
        r->all[i] = (tcp_socket){.node = i / (channels * of_channel),
                                 .window = INITIAL_WINDOW,
                                 .threshold = INFINITY,
                                 .last_sent_ns = -1,
                                 .loss_ns = -1,
                                 .epoch_ns = -1,
                                 .timer = -1,
                                 .ack_timer = -1,
                                 .most_window = INITIAL_WINDOW,
                                 .window_bytes = window_bytes,
                                 .space_bytes = window_bytes,
                                 .edge = window_bytes,
                                 .widest = window_bytes,
                                 .told_edge = window_bytes,
                                 .told_bytes = window_bytes};
    }
    for (int n = 0; n < ring->nodes; n++) {
        r->queue_limit[n] =
            tcp->queue_ns.known || tcp->queue_bytes.known
                ? ring->edges[n].bytes_per_s * tcp->queue_ns.value / 1e9 + tcp->queue_bytes.value
                : (double)INFINITY;
    }
}

static void run_free(ring_run *r)
{
    for (int i = 0; i < r->nodes * r->channels * r->sockets; i++)
        free(r->all[i].segments);
    for (int i = 0; i < r->nodes * r->channels; i++) {
        free(r->ways[i].left);
        free(r->ways[i].unbuffered);
    }
    for (int n = 0; n < r->nodes; n++) {
        free(r->port[n].packets);
        free(r->forth[n].packets);
        free(r->back[n].packets);
    }
    free(r->all);
    free(r->ways);
    free(r->pieces);
    free(r->slice_bytes);
    dl_engine_free(&r->engine);
}

/* What is still on its way arrives, and nothing is sent for a while. */
static void pause(ring_run *r, double ns)
{
    dl_event event;
    const int64_t until_ns = r->engine.now_ns + dl_ns_ceil(ns);
    while (dl_event_queue_pop(&r->engine.queue, &event)) {
        r->engine.now_ns = event.time_ns;
        event.handler(event.user, event.index);
    }
    if (r->engine.now_ns < until_ns) r->engine.now_ns = until_ns;
}

static double simulate(const dl_tcp_ring *ring, double bytes)
{
    ring_run run;
    double mean_ns = 0, squares = 0; /* squares: of the differences from the mean, added up */
    int count = 0;
    run_init(&run, ring);
    (void)run_once(&run, bytes);
    while (count < REPEATS ||
           (count < LOSSY_REPEATS && sqrt(squares / count) > EQUAL_FRAC * mean_ns)) {
        if (ring->pause_ns > 0) pause(&run, ring->pause_ns);
        const double ns = run_once(&run, bytes), before_ns = mean_ns;
        mean_ns += (ns - mean_ns) / ++count;
        squares += (ns - before_ns) * (ns - mean_ns);
    }
    run_free(&run);
    return mean_ns;
}

/* --- results that were worked out before ----------------------------------------------------- */

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

/* Two threads may work out the same; they get the same. */
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
    known.all = dl_realloc(known.all, (size_t)known.count + 1, sizeof *known.all, "known rings");
    known.all[known.count++] = found;
    pthread_mutex_unlock(&known.lock);
    return found.ns;
}

/* The ring with edges, to be filled, on which no socket is faster than it may be, and with the same pause
 * for all that are long enough to matter; what its receivers must say first. */
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
    simulated.pause_ns = ring->pause_ns > TIMEOUT_MIN_NS + 2 * longest_ns ? PAUSE_NS : 0;
    *notice_ns = ring->gloo ? longest_ns : 0;
    return simulated;
}

double dl_tcp_ring_ns(const dl_tcp_ring *given)
{
    dl_tcp_edge edges[DL_TCP_NODES_MAX];
    double notice_ns;
    DL_ASSERT(given->nodes >= 2 && given->nodes <= DL_TCP_NODES_MAX && given->bytes > 0,
              "%d nodes, %g bytes", given->nodes, given->bytes);
    const dl_tcp_ring simulated = as_simulated(given, edges, &notice_ns), *ring = &simulated;
    if (ring->bytes <= SIMULATED_BYTES) return notice_ns + simulate_once(ring, ring->bytes);
    const double whole_ns = simulate_once(ring, SIMULATED_BYTES);
    const double half_ns = simulate_once(ring, SIMULATED_BYTES / 2);
    return notice_ns + whole_ns +
           (ring->bytes - SIMULATED_BYTES) * (whole_ns - half_ns) / (SIMULATED_BYTES / 2);
}
