/* What rings over TCP take, packet by packet.
 *
 * A collective of NCCL over TCP cuts what it moves into slices, and a slice into pieces, one for a
 * socket; a slice is there when its last piece is. With many sockets, each of which starts with ten
 * packets, the short queue of a shaped port (tc's token bucket) overflows: what is dropped comes
 * again after a timeout of 200 ms or more, and the ring waits for it. With long delays a socket
 * moves a window in a round trip at most. Both depend on the size of what is moved, so that no one
 * factor on a rate describes them.
 *
 *   node 0              node 1                    a node's port sends one packet after another, of
 *   sockets -> queue ===> sockets -> queue ===>   its sockets to the next node and of
 *            <=== acks in node 1's queue          acknowledgements to the one before
 *
 * Modelled, of Linux (RFC 6298, 6675, 6937, 8985, 9438; net/ipv4/tcp_output.c, tcp_input.c,
 * tcp_timer.c, tcp.c, net/sched/sch_tbf.c): slow start from 10 packets, CUBIC in whole packets,
 * which does not grow in pauses; selective acknowledgements, at once after a pause, else by twos
 * or after 40 ms, with loss detection by order of sending; proportional rate reduction; tail
 * loss probes; timeouts with back-off, by timers of ticks. A socket hands down at most half of its window at once,
 * of which at most two bursts wait before the port; a last message that is not whole waits until
 * something of the socket has left it (tcp_should_autocork()). A burst of up to queue_bytes,
 * tc's bucket, finds room as a whole or not at all, and arrives as one. A burst that the own
 * port's queue refuses shrinks the window, and a socket with nothing on its way then tries one
 * packet after its timeout, later every 500 ms. A receiver's window starts at 64 KiB and grows
 * with what the program takes in a round trip.
 *
 * Of NCCL (src/transport/net_socket.cc, net.cc, src/include/collectives.h): each channel hands one
 * slice after another to its sockets, the next when they have taken all of its bytes (a socket
 * keeps twice its window, up to 4 MiB: tcp_sndbuf_expand(), tcp_wmem), and its receiver takes one
 * slice after another from them, so that sockets ahead of the others fill their windows and wait; 2
 * steps of 512 KiB a slice and 4 a chunk of an all-reduce, 1 of both of a broadcast; pieces of at
 * least 64 KiB, to sockets in turn.
 *
 * Of gloo (gloo/allreduce.cc, transport/tcp/pair.cc): one socket to the next node; an all-reduce in
 * segments of at most 1 MiB, at least two of a node's part, of which two are on their way at once;
 * any other message as a whole, once the receiver has said that it waits for it, which takes a way.
 *
 * After a pause. A socket that has sent nothing for a timeout starts from 10 packets again
 * (tcp_slow_start_after_idle), which costs a trip for each doubling of its window: nothing between
 * the racks of a machine room, 0.1 s and more between continents.
 *
 * Nodes start each collective up to 100 us apart, drawn at random from a fixed seed: equal nodes
 * that act in step would wait for one stall where real ones wait for that of each. A collective's
 * time runs from the last start: waiting for late workers is not part of it.
 *
 * Left out: processor time, other traffic, losses elsewhere, the message with a slice's size that
 * NCCL sends before it. */
#ifndef DL_SIM_TCP_H
#define DL_SIM_TCP_H

#include <stdbool.h>

#include "common/machine.h"

/* From a node to the next one. */
typedef struct dl_tcp_edge {
    double bytes_per_s; /* > 0, of the wire: with headers */
    double delay_ns;    /* >= 0, one way */
} dl_tcp_edge;

typedef struct dl_tcp_ring {
    const dl_tcp *tcp;
    const dl_tcp_edge *edges; /* [nodes] */
    int nodes;                /* >= 2 */
    bool broadcast;           /* from node 0 along the ring; else an all-reduce */
    double bytes;             /* of each node's vector, > 0 */
    bool gloo;                /* in place of NCCL: its one socket, whatever tcp says */
    double pause_ns;          /* since the collective before */
} dl_tcp_ring;

/* Rings of more nodes are taken to be as efficient as one of that many. */
#define DL_TCP_NODES_MAX 8

/* The part of an edge's rate that packets of full size leave to what they carry. */
double dl_tcp_payload_frac(const dl_tcp *tcp);

/* Mean time in ns of the collective, each pause_ns after the one before on connections that are
 * open: of 3, or of as many up to 24 until its standard error is 0.3 %, as lost packets make them
 * differ. Vectors beyond 96 MiB are extrapolated from the growth up to there, between whole loops
 * of NCCL's over its channels and chunks where 48 MiB hold one. Equal arguments give equal results.
 * Safe to call from several threads. */
double dl_tcp_ring_ns(const dl_tcp_ring *ring);

#endif
