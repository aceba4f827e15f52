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
 * Modelled, of Linux (RFC 6298, 6675, 8985, 9438; net/ipv4/tcp_output.c, tcp_timer.c): slow start
 * from 10 packets, CUBIC, windows, selective acknowledgements with loss detection by order of
 * sending, timeouts with back-off; a packet that the own port's queue refuses shrinks the window at
 * once, and a socket with nothing on its way then asks again after its timeout, later every 500 ms.
 * Of NCCL (src/transport/net_socket.cc, src/include/collectives.h): buffers of 4 MiB a channel in 8
 * steps, each free once the sockets have taken its bytes, not once they have arrived: a socket keeps
 * twice its window, up to 4 MiB (tcp_sndbuf_expand(), tcp_wmem); 2 steps a slice and 4 a chunk of an
 * all-reduce, 1 of both of a broadcast; pieces of at least 64 KiB, to sockets in turn.
 *
 * Of gloo (gloo/allreduce.cc, transport/tcp/pair.cc): one socket to the next node; an all-reduce in
 * segments of at most 1 MiB, at least two of a node's part, of which two are on their way at once; any
 * other message as a whole, once the receiver has said that it waits for it, which takes a way.
 *
 * After a pause. A socket that has sent nothing for a timeout starts from 10 packets again
 * (tcp_slow_start_after_idle), which costs a trip for each doubling of its window: nothing between the
 * racks of a machine room, 0.1 s and more between continents.
 *
 * Left out: processor time, other traffic, losses elsewhere, delayed acknowledgements. Nodes whose edges are
 * equal act in step, which makes rings that lose packets faster than nodes do whose timers differ
 * (docs/method.md). */
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

/* Mean time in ns of the collective, each pause_ns after the one before on connections that are open:
 * of 24 where lost packets make them differ, of 3 elsewhere. Vectors beyond 96 MiB are extrapolated from the growth up to there. Equal arguments give equal results. Safe to
 * call from several threads. */
double dl_tcp_ring_ns(const dl_tcp_ring *ring);

#endif
