#include "sim/network/tcp_hosts.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

#define ACK_BYTES (DL_TCP_LINK_HEADER_BYTES + DL_TCP_HEADER_BYTES)

#define INITIAL_WINDOW 10.0   /* packets: RFC 6928 */
#define LEAST_WINDOW 2.0      /* packets, after a loss */
#define MOST_WINDOW 1e6       /* packets, without a limit: more than any socket here sends */
#define TIMEOUT_FIRST_NS 1e9  /* timeout before a round trip is measured: TCP_TIMEOUT_INIT */
#define TIMEOUT_MAX_NS 120e9  /* longest timeout: TCP_RTO_MAX */
#define PROBE_SLACK_NS 2e6    /* slack of a tail loss probe: TCP_TIMEOUT_MIN_US */
#define TICK_NS 4e6           /* tick of the timers: HZ = 250, the default of kernel/Kconfig.hz */
#define ACK_DELAY_NS 40e6     /* delay of an acknowledgement: TCP_DELACK_MIN */
#define QUICK_ACKS 16         /* immediate acknowledgements after a pause: TCP_MAX_QUICKACKS */
#define RETRY_NS 500e6        /* after a refusal by the host's queue: TCP_RESOURCE_PROBE_INTERVAL */
#define BURST_PACKETS 7       /* packets of a 64 KiB message, which is sent as a unit */
#define SEND_BUFFER 4194304.0 /* largest buffer of a socket: tcp_wmem */
#define RECEIVED_MOST 6291456.0 /* largest window of a receiver: tcp_rmem */
#define BUFFER_HEADERS 640.0    /* added to a packet's payload, then rounded up to a power of two */
#define CUBIC_SHRINK 0.7        /* factor on the window after a loss: RFC 9438 */
#define CUBIC_GROWTH 0.4        /* CUBIC's constant C, in packets / s^3: RFC 9438 */
#define CUBIC_UNKNOWN 20 /* most acknowledged packets a packet of growth if window_max is 0 */

/* --- packets and sockets --------------------------------------------------------------------- */

typedef enum segment_state { SEGMENT_NEW, SEGMENT_SENT, SEGMENT_LOST, SEGMENT_DONE } segment_state;

typedef struct segment {
    double wire_bytes;
    double end;             /* end position in its socket's stream, bytes */
    int64_t sent_ns, order; /* order: sending number on its socket */
    int64_t burst;          /* sending number of the first packet of its burst */
    int64_t there_ns;       /* arrival time; -1: not arrived */
    int piece, next_piece;  /* next_piece: another piece that begins in it; -1: none */
    segment_state state;
    bool again;      /* retransmitted at least once */
    bool ends_piece; /* last segment of a piece */
} segment;

/* OPEN: the window grows; REDUCED, RECOVERY: it shrinks after a refusal or a loss; ALL_LOST: it
 * restarts from one packet. */
typedef enum congestion { OPEN, REDUCED, RECOVERY, ALL_LOST } congestion;

typedef struct dl_tcp_socket {
    int node;
    segment *segments; /* [room] */
    int count, room;
    double posted_bytes;
    int buffered;    /* number of segments that have entered the socket's buffer */
    int first, next; /* oldest segment not acknowledged; next segment never sent */
    int in_flight, lost;
    int64_t orders, last_sent_ns; /* last_sent_ns: -1 = nothing sent */
    double window, threshold;     /* in packets */
    double most_window;           /* largest window so far; sets the buffer's size */
    double window_max; /* window before the last loss; 0: no loss yet, or none since a timeout */
    int64_t epoch_ns;  /* start of CUBIC's growth, adjusted for pauses; -1 = no growth
                                   * since a loss */
    double origin, flat_s;    /* window at which CUBIC's curve is flat, and when it gets there */
    double reno_window;       /* window that Reno's additive increase would have */
    int reno_acked, acked;    /* packets acknowledged for the growth of either */
    bool limited;             /* the window was the limit when the socket last sent */
    int most_out, most_until; /* most_out: most packets in flight, valid until most_until is
                                   * acknowledged */
    double trip_ns, deviation_ns; /* smoothed round trip and deviation; trip_ns 0: not measured */
    int backoff, recover_until;
    congestion state;
    int reduced_from;          /* window in packets when it began to shrink */
    int delivered, sent_since; /* packets delivered and sent since then */
    bool probes, probed;       /* the timer is for a probe; a probe was sent */
    int timer;                 /* id of the pending event, -1 = none */
    int queued;                /* number of packets waiting at the host's port, as the socket counts
                                * them */
    bool throttled;            /* waits for queued packets to leave */
    double edge, widest;       /* end of the receiver's window, in bytes; largest window so far */
    /* State of the receiver: */
    int in_order, read;           /* packets arrived without a gap; of these, packets read by the
                                   * program */
    int unacknowledged;           /* number of packets not acknowledged */
    int quick_acks;               /* number of acknowledgements still to be sent immediately */
    int64_t came_ns;              /* arrival time of the last packet; -1 = none */
    double window_bytes;          /* size of the receiver's window */
    double told_edge, told_bytes; /* end and size of the window last sent to the sender */
    double space_bytes;           /* most bytes read in a round trip */
    double read_bytes;            /* bytes read until read_ns */
    int64_t read_ns;
    int ack_timer; /* id of the pending event, -1 = none */
} tcp_socket;

/* An acknowledgement, or segments that are sent as a unit. */
typedef struct dl_tcp_packet {
    int socket, segment, segments;
    double bytes;
    bool is_ack;
    int64_t made_ns; /* for acknowledgements: creation time */
    double edge;     /* for acknowledgements: end of the receiver's window */
    int64_t due_ns;  /* arrival time, while on a line */
} packet;

static void queue_push(dl_tcp_queue *q, packet p)
{
    if (q->count == q->room) {
        const int room = q->room > 0 ? 2 * q->room : 256;
        packet *packets = dl_calloc((size_t)room, sizeof *packets, "packets");
        for (int i = 0; i < q->count; i++)
            packets[i] = q->packets[(q->first + i) & (q->room - 1)];
        free(q->packets);
        q->packets = packets;
        q->first = 0;
        q->room = room;
    }
    q->packets[(q->first + q->count++) & (q->room - 1)] = p;
}

static packet queue_pop(dl_tcp_queue *q)
{
    const packet p = q->packets[q->first];
    q->first = (q->first + 1) & (q->room - 1);
    q->count--;
    return p;
}

/* Duration of a timer set now for `ns`, which ends at a tick: from 63 ticks on at a multiple of 8
 * ticks, from 8 times as many on at a multiple of 64, and so on (kernel/time/timer.c). */
static int64_t timer_ns(const dl_tcp_hosts *h, double ns)
{
    const double now_ns = (double)h->engine.now_ns, ticks = ceil(ns / TICK_NS);
    double every = 1;
    while (ticks >= 63 * every)
        every *= 8;
    const double at = (floor((floor(now_ns / TICK_NS) + ticks) / every) + 1) * every;
    return dl_ns_ceil(at * TICK_NS - now_ns);
}

/* --- a node's port --------------------------------------------------------------------------- */

static void on_served(void *user, int node);

static void serve(dl_tcp_hosts *h, int node)
{
    const dl_tcp_queue *port = &h->port[node];
    const double ns = port->packets[port->first].bytes / h->config.edges[node].bytes_per_s * 1e9;
    dl_engine_after(&h->engine, dl_ns_ceil(ns), on_served, h, node);
}

/* Queues a packet at the port; false if the queue is full. */
static bool enqueue(dl_tcp_hosts *h, int node, packet p)
{
    dl_tcp_queue *port = &h->port[node];
    if (port->bytes + p.bytes > h->queue_limit[node]) return false;
    port->bytes += p.bytes;
    queue_push(port, p);
    if (port->count == 1) serve(h, node);
    return true;
}

static void push_out(dl_tcp_hosts *h, tcp_socket *s);
static void on_forth(void *user, int node);
static void on_back(void *user, int node);

/* Event: the port has sent a packet. Its delay is that of the edge that the packet, or the data it
 * acknowledges, crosses. */
static void on_served(void *user, int node)
{
    dl_tcp_hosts *h = user;
    dl_tcp_queue *port = &h->port[node];
    packet p = port->packets[port->first];
    port->bytes -= p.bytes;
    (void)queue_pop(port);
    const int edge = p.is_ack ? (node + h->config.nodes - 1) % h->config.nodes : node;
    dl_tcp_queue *line = p.is_ack ? &h->back[edge] : &h->forth[edge];
    const int64_t delay_ns = dl_ns_ceil(h->config.edges[edge].delay_ns);
    p.due_ns = h->engine.now_ns + delay_ns;
    queue_push(line, p);
    if (line->count == 1)
        dl_engine_after(&h->engine, delay_ns, p.is_ack ? on_back : on_forth, h, edge);
    if (port->count > 0) serve(h, node);
    if (p.is_ack) return;
    tcp_socket *s = &h->all[p.socket];
    s->queued -= p.segments;
    if (s->throttled) push_out(h, s);
}

/* Removes the first packet from a line and schedules the arrival of the next one. */
static packet leave_line(dl_tcp_hosts *h, dl_tcp_queue *line, dl_event_fn arrive, int edge)
{
    const packet p = queue_pop(line);
    if (line->count > 0) {
        dl_engine_after(&h->engine, line->packets[line->first].due_ns - h->engine.now_ns, arrive, h,
                        edge);
    }
    return p;
}

/* --- a socket -------------------------------------------------------------------------------- */

static double timeout_ns(const tcp_socket *s)
{
    const double ns = s->trip_ns > 0 ? s->trip_ns + fmax(DL_TCP_TIMEOUT_MIN_NS, 4 * s->deviation_ns)
                                     : TIMEOUT_FIRST_NS;
    return fmin(TIMEOUT_MAX_NS, ldexp(ns, s->backoff < 30 ? s->backoff : 30));
}

static void on_timer(void *user, int socket);

static void stop_timer(dl_tcp_hosts *h, tcp_socket *s)
{
    if (s->timer >= 0) dl_engine_cancel(&h->engine, s->timer);
    s->timer = -1;
}

static void set_timer(dl_tcp_hosts *h, tcp_socket *s, double ns)
{
    stop_timer(h, s);
    s->timer = dl_engine_after(&h->engine, timer_ns(h, ns), on_timer, h, (int)(s - h->all));
}

/* Starts to shrink the window, at most once per round trip; CUBIC lets it grow again. */
static void shrink(tcp_socket *s, congestion state)
{
    const bool is_first = s->state == OPEN;
    if (s->state < state) s->state = state;
    if (!is_first) return;
    s->window_max =
        s->window < s->window_max ? floor(s->window * (1 + CUBIC_SHRINK) / 2) : s->window;
    s->epoch_ns = -1;
    s->acked = 0;
    s->threshold = fmax(LEAST_WINDOW, floor(s->window * CUBIC_SHRINK));
    s->reduced_from = (int)s->window;
    s->delivered = s->sent_since = 0;
    s->recover_until = s->next;
}

/* Proportional rate reduction (RFC 6937, tcp_cwnd_reduction()): sends seven packets per ten that
 * arrive, or one per packet while fewer than the threshold are in flight. */
static void reduce_window(tcp_socket *s, int arrived, bool has_advanced, bool lost_more)
{
    const int room = (int)s->threshold - s->in_flight;
    int packets;
    s->delivered += arrived;
    if (room < 0) {
        packets = (int)ceil(s->threshold * s->delivered / s->reduced_from) - s->sent_since;
    } else {
        packets = (int)fmax(s->delivered - s->sent_since, arrived);
        if (has_advanced && !lost_more) packets++;
        if (packets > room) packets = room;
    }
    s->window = s->in_flight + fmax(packets, s->sent_since > 0 ? 0 : 1);
}

/* Ends the reduction of the window once all packets in flight at its start are acknowledged; after
 * a refusal by the port, once one more is (tcp_fastretrans_alert()). */
static void end_reduction(tcp_socket *s)
{
    if (s->state == OPEN || s->first < s->recover_until + (s->state == REDUCED)) return;
    if (s->state != ALL_LOST) s->window = s->threshold;
    s->state = OPEN;
}

/* Cube root by Newton's method, equal to the last bit with all C libraries: windows are rounded to
 * whole packets, which would enlarge a difference. */
static double cube_root(double x)
{
    double root = fmax(x, 1);
    for (int i = 0; i < 100 && x > 0; i++)
        root -= (root * root * root - x) / (3 * root * root);
    return x > 0 ? root : 0;
}

/* Number of acknowledged packets for which CUBIC lets the window grow by one (bictcp_update()). The
 * distance from the curve to its flat part is rounded down to whole packets, so that small windows
 * start to grow right after a loss. */
static int acks_a_packet(const dl_tcp_hosts *h, tcp_socket *s)
{
    s->reno_acked++;
    if (s->epoch_ns < 0) {
        s->epoch_ns = h->engine.now_ns;
        s->origin = fmax(s->window_max, s->window);
        s->flat_s = cube_root((s->origin - s->window) / CUBIC_GROWTH);
        s->reno_window = s->window;
        s->reno_acked = 1;
    }
    const double t_s = dl_ns_to_s((double)(h->engine.now_ns - s->epoch_ns));
    const double from_flat_s = t_s - s->flat_s;
    const double target = s->origin + trunc(CUBIC_GROWTH * from_flat_s * from_flat_s * from_flat_s);
    double each = target > s->window ? floor(s->window / (target - s->window)) : 100 * s->window;
    if (s->window_max == 0) each = fmin(each, CUBIC_UNKNOWN);
    const int reno_each = (int)floor(s->window * (1 + CUBIC_SHRINK) / (1 - CUBIC_SHRINK) / 3);
    for (; s->reno_acked > reno_each; s->reno_acked -= reno_each)
        s->reno_window++;
    if (s->reno_window > s->window)
        each = fmin(each, floor(s->window / (s->reno_window - s->window)));
    return (int)fmax(each, 2);
}

static void grow(const dl_tcp_hosts *h, tcp_socket *s)
{
    if (s->state == REDUCED || s->state == RECOVERY) return;
    if (s->window < s->threshold ? s->window >= 2 * s->most_out : !s->limited) return;
    if (s->window < s->threshold) {
        s->window += 1;
    } else {
        const int each = acks_a_packet(h, s);
        const bool was_due = s->acked >= each;
        s->acked = was_due ? 1 : s->acked + 1;
        const bool is_due = s->acked >= each;
        if (is_due) s->acked -= each;
        s->window += was_due + is_due;
    }
    const double most = h->config.tcp->window_bytes.known
                            ? h->config.tcp->window_bytes.value / h->payload_bytes
                            : MOST_WINDOW;
    s->window = fmin(s->window, fmax(LEAST_WINDOW, most));
}

/* Moves data into the socket's buffer, whose size grows with the window (tcp_sndbuf_expand()), and
 * reports each piece that the buffer now holds completely. */
static void fill_buffer(dl_tcp_hosts *h, tcp_socket *s)
{
    s->most_window = fmax(s->most_window, s->window);
    const double bytes = fmin(SEND_BUFFER, 2 * s->most_window * h->buffer_bytes);
    const int most = s->first + (int)(bytes / h->payload_bytes);
    for (; s->buffered < s->count && s->buffered < most; s->buffered++) {
        const segment *g = &s->segments[s->buffered];
        if (g->ends_piece) h->config.buffered(h->config.user, g->piece);
    }
}

/* Queues segments as a unit at the host's port; false if it has no room. */
static bool hand_down(dl_tcp_hosts *h, tcp_socket *s, int first, int count, double bytes)
{
    const packet p = {
        .socket = (int)(s - h->all), .segment = first, .segments = count, .bytes = bytes};
    if (!enqueue(h, s->node, p)) return false;
    s->queued += count;
    return true;
}

static bool send_segment(dl_tcp_hosts *h, tcp_socket *s, int number)
{
    return hand_down(h, s, number, 1, s->segments[number].wire_bytes);
}

static void note_sent(const dl_tcp_hosts *h, tcp_socket *s, int number)
{
    segment *g = &s->segments[number];
    g->state = SEGMENT_SENT;
    if (s->in_flight == 0 && s->epoch_ns >= 0) s->epoch_ns += h->engine.now_ns - s->last_sent_ns;
    g->sent_ns = s->last_sent_ns = h->engine.now_ns;
    g->order = s->orders++;
    s->in_flight++;
    s->sent_since++;
}

/* Retransmits lost packets; false if the port has no room. */
static bool send_lost(dl_tcp_hosts *h, tcp_socket *s)
{
    for (int k = s->first; k < s->next && s->lost > 0 && s->in_flight < (int)s->window; k++) {
        if (s->segments[k].state != SEGMENT_LOST) continue;
        if (!send_segment(h, s, k)) {
            if (s->in_flight == 0) set_timer(h, s, RETRY_NS);
            return false;
        }
        s->lost--;
        s->segments[k].again = true;
        note_sent(h, s, k);
    }
    return true;
}

/* Size of the socket's messages in packets: 64 KiB, at most half of the receiver's widest window
 * (tcp_bound_to_half_wnd()). */
static int message_packets(const dl_tcp_hosts *h, const tcp_socket *s)
{
    return (int)fmin(BURST_PACKETS, fmax(1, floor(s->widest / 2 / h->payload_bytes)));
}

/* Number of new packets in a burst, which is queued at the port as a unit: one message, at most
 * half of the socket's window (tcp_cwnd_test()). */
static int burst_packets(const dl_tcp_hosts *h, const tcp_socket *s)
{
    int most = (int)fmin(message_packets(h, s), fmax(1, floor(s->window / 2)));
    if (most > (int)s->window - s->in_flight) most = (int)s->window - s->in_flight;
    if (most > s->buffered - s->next) most = s->buffered - s->next;
    while (most > 0 && s->segments[s->next + most - 1].end > s->edge)
        most--;
    return most;
}

/* Queues a burst at the port: as a unit, or packet by packet if it exceeds tc's bucket
 * (tbf_enqueue()). Returns the number of packets queued. */
static int enqueue_burst(dl_tcp_hosts *h, tcp_socket *s, int packets)
{
    double bytes = 0;
    int taken = 0;
    for (int k = 0; k < packets; k++)
        bytes += s->segments[s->next + k].wire_bytes;
    if (bytes <= h->config.tcp->queue_bytes.value)
        return hand_down(h, s, s->next, packets, bytes) ? packets : 0;
    for (int k = 0; k < packets; k++)
        taken += send_segment(h, s, s->next + k);
    return taken;
}

/* Whether two bursts of a socket wait at the port, the limit unless one burst is all it has in
 * flight (tcp_small_queue_check()). */
static bool port_is_full(const tcp_socket *s, int packets)
{
    return s->first < s->next && s->queued >= 2 * packets &&
           s->segments[s->first].burst != s->segments[s->next - 1].burst;
}

/* Sends a burst of new packets. If only a part is queued, the rest is lost silently. False if none
 * was sent. */
static bool send_burst(dl_tcp_hosts *h, tcp_socket *s, int packets)
{
    s->throttled = packets > 0 && port_is_full(s, packets);
    if (packets <= 0 || s->throttled) return false;
    if (enqueue_burst(h, s, packets) == 0) {
        shrink(s, REDUCED);
        return false;
    }
    const int64_t burst = s->orders;
    for (int k = 0; k < packets; k++) {
        s->segments[s->next + k].burst = burst;
        note_sent(h, s, s->next + k);
    }
    s->next += packets;
    return true;
}

/* Sets the timer after which all packets count as lost, or an earlier one for a tail loss probe
 * (RFC 8985), which retransmits the last packet to detect losses; at most one probe is in
 * flight. */
static void await_ack(dl_tcp_hosts *h, tcp_socket *s)
{
    const double lost_ns = timeout_ns(s);
    const bool is_alone = s->next - s->first == 1;
    const double probe_ns = 2 * s->trip_ns + (is_alone ? DL_TCP_TIMEOUT_MIN_NS : PROBE_SLACK_NS);
    s->probes = s->state < RECOVERY && !s->probed && s->trip_ns > 0 && s->backoff == 0;
    set_timer(h, s, s->probes ? fmin(probe_ns, lost_ns) : lost_ns);
}

/* Records whether the window is the limit (tcp_cwnd_validate()). */
static void note_limit(tcp_socket *s)
{
    const bool limited = s->in_flight >= (int)s->window;
    if (s->first < s->most_until && !limited && (s->limited || s->in_flight <= s->most_out)) return;
    s->limited = limited;
    s->most_out = s->in_flight;
    s->most_until = s->next;
}

/* Sends as much as the window allows, at most `bursts` bursts. After a pause longer than a timeout
 * the window is at most the initial one. A socket with nothing in flight that the port or the
 * receiver's window has stopped retries after its timeout. */
static void push_bursts(dl_tcp_hosts *h, tcp_socket *s, int bursts)
{
    const bool paused = s->in_flight == 0 && s->last_sent_ns >= 0 &&
                        (double)(h->engine.now_ns - s->last_sent_ns) > timeout_ns(s);
    const int64_t before = s->orders;
    const bool is_first = s->first == s->next;
    if (paused && s->window > INITIAL_WINDOW) s->window = INITIAL_WINDOW;
    bool has_room = send_lost(h, s);
    for (int k = 0; k < bursts && has_room && s->lost == 0; k++)
        has_room = send_burst(h, s, burst_packets(h, s));
    note_limit(s);
    if (s->orders > before && (is_first || s->timer < 0 || s->probes)) await_ack(h, s);
    if (s->timer < 0 && s->in_flight == 0 && s->next < s->buffered) set_timer(h, s, timeout_ns(s));
}

static void push_out(dl_tcp_hosts *h, tcp_socket *s)
{
    push_bursts(h, s, INT_MAX);
}

/* Whether an incomplete last message is held back: while the port queues more bytes of the socket
 * than the message has, until one of its packets leaves or is acknowledged
 * (tcp_should_autocork()). */
static bool is_corked(const dl_tcp_hosts *h, const tcp_socket *s)
{
    const double sent = s->next > 0 ? s->segments[s->next - 1].end : 0;
    const double last = fmod(s->posted_bytes - sent, message_packets(h, s) * h->payload_bytes);
    return s->first < s->next && last > 0 && s->queued * h->payload_bytes > last;
}

/* Probes with a new packet, or with the last one again, and restarts the timeout
 * (tcp_send_loss_probe()). */
static void probe_tail(dl_tcp_hosts *h, tcp_socket *s)
{
    segment *last = &s->segments[s->next - 1];
    s->probes = false;
    s->probed = true;
    if (s->next < s->buffered && s->segments[s->next].end <= s->edge) {
        (void)send_burst(h, s, 1);
    } else if (last->state == SEGMENT_SENT && send_segment(h, s, s->next - 1)) {
        last->order = s->orders++;
        last->sent_ns = h->engine.now_ns;
        last->again = true;
    }
    set_timer(h, s, timeout_ns(s));
}

/* Timeout without an acknowledgement: all packets in flight are lost. */
static void lose_all(tcp_socket *s)
{
    for (int k = s->first; k < s->next; k++) {
        if (s->segments[k].state != SEGMENT_SENT) continue;
        s->segments[k].state = SEGMENT_LOST;
        s->lost++;
    }
    s->in_flight = 0;
    if (s->first >= s->recover_until) s->state = OPEN;
    shrink(s, ALL_LOST);
    s->recover_until = s->next;
    s->window = 1;
    s->window_max = 0; /* bictcp_state() */
    s->epoch_ns = -1;
    s->backoff++;
}

static void on_timer(void *user, int number)
{
    dl_tcp_hosts *h = user;
    tcp_socket *s = &h->all[number];
    s->timer = -1;
    if (s->in_flight > 0 && s->probes) {
        probe_tail(h, s);
        return;
    }
    s->probes = false;
    if (s->in_flight > 0) lose_all(s);
    if (s->lost > 0) {
        push_out(h, s);
        if (s->timer < 0) set_timer(h, s, timeout_ns(s));
        return;
    }
    s->edge = fmax(s->edge, s->told_edge);
    const bool sent = send_burst(h, s, burst_packets(h, s) > 0 ? 1 : 0);
    set_timer(h, s, sent ? timeout_ns(s) : RETRY_NS);
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

/* --- the receiver --------------------------------------------------------------------------- */

static double in_order_bytes(const tcp_socket *s)
{
    return s->in_order > 0 ? s->segments[s->in_order - 1].end : 0;
}

static double edge_now(const tcp_socket *s)
{
    return fmax(s->told_edge, (s->read > 0 ? s->segments[s->read - 1].end : 0) + s->window_bytes);
}

static void send_ack(dl_tcp_hosts *h, tcp_socket *s)
{
    s->unacknowledged = 0;
    if (s->quick_acks > 0) s->quick_acks--;
    s->told_edge = edge_now(s);
    s->told_bytes = s->told_edge - in_order_bytes(s);
    if (s->ack_timer >= 0) dl_engine_cancel(&h->engine, s->ack_timer);
    s->ack_timer = -1;
    (void)enqueue(h, (s->node + 1) % h->config.nodes,
                  (packet){.socket = (int)(s - h->all),
                           .is_ack = true,
                           .bytes = ACK_BYTES,
                           .made_ns = h->engine.now_ns,
                           .edge = s->told_edge});
}

static void on_ack_timer(void *user, int number)
{
    dl_tcp_hosts *h = user;
    h->all[number].ack_timer = -1;
    send_ack(h, &h->all[number]);
}

/* Grows the receiver's window with the bytes that the program reads in a round trip, minus those it
 * leaves (tcp_rcv_space_adjust(), tcp_rcvbuf_grow()). */
static void measure_reads(dl_tcp_hosts *h, tcp_socket *s)
{
    const dl_quantity *limit = &h->config.tcp->window_bytes;
    const double bytes = s->segments[s->read - 1].end;
    if (s->trip_ns <= 0 || (double)(h->engine.now_ns - s->read_ns) < s->trip_ns) return;
    const double taken = bytes - s->read_bytes - (in_order_bytes(s) - bytes);
    if (taken > s->space_bytes) {
        const double window = 2 * taken * (1 + 2 * (taken - s->space_bytes) / s->space_bytes);
        s->space_bytes = taken;
        s->window_bytes =
            fmax(s->window_bytes, fmin(limit->known ? limit->value : RECEIVED_MOST, window));
    }
    s->read_bytes = bytes;
    s->read_ns = h->engine.now_ns;
}

/* Makes the program read packets in order until it refuses one. */
static void read_socket(dl_tcp_hosts *h, tcp_socket *s)
{
    const int before = s->read;
    for (; s->read < s->in_order; s->read++) {
        segment *g = &s->segments[s->read];
        if (g->piece >= 0 && !h->config.takes(h->config.user, g->piece)) break;
        g->piece = -1;
        if (g->next_piece >= 0 && !h->config.takes(h->config.user, g->next_piece)) break;
    }
    if (s->read == before) return;
    measure_reads(h, s);
    const double told = s->told_edge - in_order_bytes(s), now = edge_now(s) - in_order_bytes(s);
    const bool wider = isfinite(told) && 2 * told <= s->window_bytes && now >= 2 * told;
    const bool is_end = s->read == s->in_order && s->segments[s->read - 1].ends_piece;
    if (s->unacknowledged >= 2 || (s->unacknowledged == 1 && is_end) || wider) send_ack(h, s);
}

void dl_tcp_hosts_read(dl_tcp_hosts *hosts, int socket)
{
    read_socket(hosts, &hosts->all[socket]);
}

/* Marks as lost all unacknowledged packets sent before the arrived packet with sending number
 * `order`. */
static void find_lost(tcp_socket *s, int64_t order)
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
    shrink(s, RECOVERY);
}

/* Acknowledges all packets that had arrived when the acknowledgement was created (selective
 * acknowledgements). Returns the number of newly acknowledged packets; *order: sending number of
 * the one sent last; *sent_ns: send time of the first one that was sent only once. */
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
    dl_tcp_hosts *h = user;
    const packet p = leave_line(h, &h->back[edge], on_back, edge);
    tcp_socket *s = &h->all[p.socket];
    int64_t order, sent_ns;
    const int first = s->first, count = take_ack(s, p, &order, &sent_ns);
    if (count > 0) {
        s->probed = false;
        if (sent_ns >= 0) take_trip(s, (double)(h->engine.now_ns - sent_ns));
        const int lost = s->lost;
        end_reduction(s);
        find_lost(s, order);
        if (s->state == REDUCED || s->state == RECOVERY)
            reduce_window(s, count, s->first > first, s->lost > lost);
        for (int k = 0; k < count; k++)
            grow(h, s);
        s->probes = false;
    }
    if (count > 0 || s->in_flight == 0) stop_timer(h, s);
    if (count > 0 && (s->in_flight > 0 || s->lost > 0)) await_ack(h, s);
    fill_buffer(h, s);
    push_out(h, s);
    h->config.acknowledged(h->config.user, p.socket);
}

/* Records an arrival. After a pause, makes the receiver acknowledge the next packets immediately,
 * which helps the sender's window to grow (tcp_event_data_recv(), tcp_incr_quickack()). */
static void note_arrival(const dl_tcp_hosts *h, tcp_socket *s)
{
    const double timeout_ns = DL_TCP_TIMEOUT_MIN_NS + 2 * h->config.edges[s->node].delay_ns;
    if (s->came_ns < 0 || (double)(h->engine.now_ns - s->came_ns) > timeout_ns) {
        const double half = floor(s->told_bytes / (2 * h->payload_bytes));
        s->quick_acks = (int)fmin(QUICK_ACKS, fmax(2, half));
    }
    s->came_ns = h->engine.now_ns;
}

/* Handles arrived packets. Packets out of order, and the first ones after a pause, are acknowledged
 * immediately; others in pairs, unless that would shrink the window (__tcp_ack_snd_check()), or
 * after a delay. */
static void receive(dl_tcp_hosts *h, tcp_socket *s, int number, int count)
{
    const int expected = s->in_order;
    for (segment *g = &s->segments[number]; g < &s->segments[number + count]; g++)
        if (g->there_ns < 0) g->there_ns = h->engine.now_ns;
    while (s->in_order < s->next && s->segments[s->in_order].there_ns >= 0)
        s->in_order++;
    const bool in_order = number == expected && s->in_order == expected + count;
    s->unacknowledged += count;
    note_arrival(h, s);
    read_socket(h, s);
    const bool is_wide = edge_now(s) - in_order_bytes(s) >= s->told_bytes;
    const bool is_due =
        s->quick_acks > 0 ? s->unacknowledged > 0 : s->unacknowledged >= 2 && is_wide;
    if (!in_order || is_due) {
        send_ack(h, s);
    } else if (s->unacknowledged > 0 && s->ack_timer < 0) {
        s->ack_timer = dl_engine_after(&h->engine, timer_ns(h, ACK_DELAY_NS), on_ack_timer, h,
                                       (int)(s - h->all));
    }
}

static void on_forth(void *user, int edge)
{
    dl_tcp_hosts *h = user;
    const packet p = leave_line(h, &h->forth[edge], on_forth, edge);
    receive(h, &h->all[p.socket], p.segment, p.segments);
    h->config.arrived(h->config.user, p.socket);
}

/* Fills the last segment with the first bytes of a longer piece, if it has not been sent
 * (tcp_sendmsg_locked()). Returns their number. */
static double fill_last(const dl_tcp_hosts *h, tcp_socket *s, double bytes, int piece)
{
    segment *last = s->count > s->next ? &s->segments[s->count - 1] : NULL;
    const double room = last != NULL ? h->payload_bytes - (last->wire_bytes - ACK_BYTES) : 0;
    if (room <= 0 || bytes <= room) return 0;
    last->wire_bytes += room;
    last->end = s->posted_bytes += room;
    last->next_piece = piece;
    return room;
}

int dl_tcp_hosts_send(dl_tcp_hosts *hosts, int socket, double bytes, int piece)
{
    tcp_socket *s = &hosts->all[socket];
    const double payload_bytes = hosts->payload_bytes;
    const bool is_next = s->next == s->count;
    const double filled = fill_last(hosts, s, bytes, piece), rest = bytes - filled;
    const int packets = (int)ceil(rest / payload_bytes);
    while (s->count + packets > s->room) {
        s->room = s->room > 0 ? 2 * s->room : 64;
        s->segments = dl_realloc(s->segments, (size_t)s->room, sizeof *s->segments, "segments");
    }
    for (int k = 0; k < packets; k++) {
        const double content = fmin(payload_bytes, rest - k * payload_bytes);
        s->segments[s->count++] = (segment){.wire_bytes = content + ACK_BYTES,
                                            .end = s->posted_bytes += content,
                                            .there_ns = -1,
                                            .piece = piece,
                                            .next_piece = -1,
                                            .state = SEGMENT_NEW,
                                            .ends_piece = k == packets - 1};
    }
    fill_buffer(hosts, s);
    if (is_next && packets >= message_packets(hosts, s)) push_bursts(hosts, s, 1);
    s->throttled = is_corked(hosts, s);
    if (!s->throttled) push_out(hosts, s);
    return packets + (filled > 0);
}

/* --- all sockets ---------------------------------------------------------------------------- */

void dl_tcp_hosts_init(dl_tcp_hosts *hosts, const dl_tcp_hosts_config *config)
{
    const dl_tcp *tcp = config->tcp;
    const int sockets = config->nodes * config->sockets;
    *hosts = (dl_tcp_hosts){.config = *config,
                            .payload_bytes = tcp->mtu_bytes.value - DL_TCP_HEADER_BYTES};
    hosts->buffer_bytes = exp2(ceil(log2(hosts->payload_bytes + BUFFER_HEADERS)));
    dl_engine_init(&hosts->engine, 4 * config->nodes + 2 * sockets);
    hosts->all = dl_calloc((size_t)sockets, sizeof *hosts->all, "sockets");
    for (int i = 0; i < sockets; i++) {
        hosts->all[i] = (tcp_socket){.node = i / config->sockets,
                                     .window = INITIAL_WINDOW,
                                     .threshold = INFINITY,
                                     .last_sent_ns = -1,
                                     .epoch_ns = -1,
                                     .timer = -1,
                                     .ack_timer = -1,
                                     .came_ns = -1,
                                     .most_window = INITIAL_WINDOW,
                                     .window_bytes = config->window_bytes,
                                     .space_bytes = config->window_bytes,
                                     .edge = config->window_bytes,
                                     .widest = config->window_bytes,
                                     .told_edge = config->window_bytes,
                                     .told_bytes = config->window_bytes};
    }
    for (int n = 0; n < config->nodes; n++) {
        const double least = hosts->payload_bytes + ACK_BYTES; /* otherwise nothing could ever be
                                                                * sent */
        const double bytes =
            config->edges[n].bytes_per_s * tcp->queue_ns.value / 1e9 + tcp->queue_bytes.value;
        const bool is_limited = tcp->queue_ns.known || tcp->queue_bytes.known;
        hosts->queue_limit[n] = is_limited ? fmax(bytes, least) : (double)INFINITY;
    }
}

void dl_tcp_hosts_free(dl_tcp_hosts *hosts)
{
    for (int i = 0; i < hosts->config.nodes * hosts->config.sockets; i++)
        free(hosts->all[i].segments);
    for (int n = 0; n < hosts->config.nodes; n++) {
        free(hosts->port[n].packets);
        free(hosts->forth[n].packets);
        free(hosts->back[n].packets);
    }
    free(hosts->all);
    dl_engine_free(&hosts->engine);
}

bool dl_tcp_hosts_go_on(dl_tcp_hosts *hosts)
{
    dl_event event;
    if (!dl_engine_take(&hosts->engine, &event)) return false;
    hosts->engine.now_ns = event.time_ns;
    event.handler(event.user, event.index);
    return true;
}
