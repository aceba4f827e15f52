/* Duration of ring collectives over TCP, simulated packet by packet.
 *
 * NCCL over TCP cuts a collective's data into slices, and a slice into pieces, one per socket; a
 * slice has arrived when its last piece has. With many sockets, each of which starts with ten
 * packets, the short queue of a shaped port (tc's token bucket) overflows: dropped packets are
 * retransmitted after a timeout of 200 ms or more, and the ring waits for them. With long delays a
 * socket moves at most one window per round trip. Both effects depend on the message size, so that
 * no single factor on a rate describes them.
 *
 *   node 0              node 1                    a node's port sends packets in sequence: those of
 *   sockets -> queue ===> sockets -> queue ===>   its sockets to the next node, and acks to
 *            <=== acks in node 1's queue          the previous node
 *
 * Parts of Linux that are modelled (RFC 6298, 6675, 6937, 8985, 9438; net/ipv4/tcp_output.c,
 * tcp_input.c, tcp_timer.c, tcp.c, net/sched/sch_tbf.c): slow start from 10 packets; CUBIC in whole
 * packets, without growth during pauses; selective acknowledgements (immediate after a pause,
 * otherwise for every second packet or after 40 ms), with loss detection by order of sending;
 * proportional rate reduction; tail loss probes; timeouts with back-off, by timers with ticks. A
 * socket hands down at most half of its window as a burst, and at most two of its bursts wait at
 * the port; an incomplete last message waits until a packet of the socket has left the port
 * (tcp_should_autocork()), and is filled with the next data if it is still there
 * (tcp_sendmsg_locked()). A burst of up to queue_bytes, tc's bucket, is queued as a whole or not
 * at all, and arrives as one unit. A burst that the host's port refuses shrinks the window, and a
 * socket with nothing in flight then tries one packet after its timeout, later every 500 ms. With
 * NCCL, a receiver's window starts at 64 KiB and grows with the bytes that the program reads per
 * round trip; with gloo it is unlimited.
 *
 * Parts of NCCL that are modelled (src/transport/net_socket.cc, net.cc, src/include/collectives.h):
 * each channel hands its sockets the next slice when they have taken all bytes of the previous one
 * (a socket keeps twice its window, up to 4 MiB: tcp_sndbuf_expand(), tcp_wmem), and its receiver
 * takes slices from them in sequence, so that sockets ahead of the others fill their windows and
 * wait. An all-reduce has slices of 2 and chunks of 4 steps of 512 KiB, a broadcast has 1 of both;
 * pieces have at least 64 KiB and are assigned to the sockets in turn.
 *
 * Parts of gloo that are modelled (gloo/allreduce.cc, transport/tcp/pair.cc): one socket to the
 * next node; an all-reduce in segments of at most 1 MiB, at least two per node's part, two of them
 * in flight; any other message as a whole. Sending starts after the receiver's ready notice, which
 * takes the longest one-way delay of the ring.
 *
 * After a pause, a socket that has sent nothing for a timeout restarts from 10 packets
 * (tcp_slow_start_after_idle), which costs a round trip for each doubling of its window: negligible
 * between the racks of a machine room, 0.1 s and more between continents.
 *
 * Nodes start each collective up to 100 us apart, drawn at random from a fixed seed: equal nodes in
 * lockstep would all stall together where real ones wait for each other's stalls. A collective's
 * time is measured from the last start: it excludes waiting for late workers.
 *
 * Not modelled: processor time, other traffic, losses elsewhere, the message with a slice's size
 * that NCCL sends before the slice. */
#ifndef DL_SIM_TCP_H
#define DL_SIM_TCP_H

#include <stdbool.h>

#include "common/machine.h"

/* The edge from a node to the next one. */
typedef struct dl_tcp_edge {
    double bytes_per_s; /* rate on the wire, including headers, > 0 */
    double delay_ns;    /* one-way delay, >= 0 */
} dl_tcp_edge;

typedef struct dl_tcp_ring {
    const dl_tcp *tcp;
    const dl_tcp_edge *edges; /* [nodes] from each node to the next one */
    int nodes;                /* number of nodes, 2 to DL_TCP_NODES_MAX */
    bool broadcast;           /* broadcast from node 0 along the ring; false: all-reduce */
    double bytes;             /* size of each node's vector, > 0 */
    bool gloo;                /* gloo instead of NCCL: one socket, regardless of `tcp` */
    double pause_ns;          /* pause since the previous collective */
} dl_tcp_ring;

/* Larger rings are assumed to be as efficient as a ring of this many nodes. */
#define DL_TCP_NODES_MAX 8

/* Fraction of an edge's rate available for payload, with packets of full size. */
double dl_tcp_payload_frac(const dl_tcp *tcp);

/* Mean time in ns of the collective, repeated after pauses of pause_ns on open connections: over 3
 * runs or, since lost packets make runs differ, up to 24 until the standard error is 0.3 %. Vectors
 * above 96 MiB are extrapolated from the growth of the time up to that size, taken between whole
 * loops of NCCL over its channels and chunks if 48 MiB hold a loop. Equal arguments give equal
 * results. Thread-safe. */
double dl_tcp_ring_ns(const dl_tcp_ring *ring);

#endif
