/* Linux' TCP between nodes that each send to the next one, packet by packet: windows, losses,
 * acknowledgements, timers, and the queue of a node's port (sim/network/tcp.h says what is modelled,
 * and whence). What the sockets carry, and when a program reads it, is the caller's. */
#ifndef DL_SIM_TCP_HOSTS_H
#define DL_SIM_TCP_HOSTS_H

#include "sim/engine.h"
#include "sim/network/tcp.h"

/* Ethernet 14, IPv4 20, TCP 20, its time stamps 12 bytes. */
#define DL_TCP_LINK_HEADER_BYTES 14.0
#define DL_TCP_HEADER_BYTES 52.0

#define DL_TCP_TIMEOUT_MIN_NS 200e6 /* beyond the round trip: TCP_RTO_MIN */
#define DL_TCP_RECEIVED_FIRST \
    65536.0 /* first window of a receiver: half of tcp_rmem's middle value */

typedef struct dl_tcp_hosts_config {
    const dl_tcp *tcp;        /* borrowed, as all pointers here */
    const dl_tcp_edge *edges; /* [nodes] from each node to the next one */
    int nodes;                /* 2 .. DL_TCP_NODES_MAX */
    int sockets;              /* of a node, to the next one */
    double window_bytes;      /* first one of receivers; INFINITY: they have no limit */
    void *user;
    /* A socket's buffer has taken the last of this piece. */
    void (*buffered)(void *user, int piece);
    /* Whether the program takes a packet of this piece, which has come, now. */
    bool (*takes)(void *user, int piece);
    /* A packet has come to the socket's other end, and what the program takes has been taken. */
    void (*arrived)(void *user, int socket);
    /* The socket has had an acknowledgement. */
    void (*acknowledged)(void *user, int socket);
} dl_tcp_hosts_config;

struct dl_tcp_socket;
struct dl_tcp_packet;

typedef struct dl_tcp_queue {
    struct dl_tcp_packet *packets; /* [room] ring; room: a power of two */
    int first, count, room;
    double bytes;
} dl_tcp_queue;

typedef struct dl_tcp_hosts {
    dl_engine engine;
    dl_tcp_hosts_config config;
    double payload_bytes; /* of a packet */
    double buffer_bytes;  /* of a packet in a socket's buffer */
    double queue_limit[DL_TCP_NODES_MAX];
    dl_tcp_queue port[DL_TCP_NODES_MAX], forth[DL_TCP_NODES_MAX], back[DL_TCP_NODES_MAX];
    struct dl_tcp_socket *all; /* [nodes x sockets] */
} dl_tcp_hosts;

/* Sockets that have sent nothing. The engine has room for an event of the caller's for each node. */
void dl_tcp_hosts_init(dl_tcp_hosts *hosts, const dl_tcp_hosts_config *config);
void dl_tcp_hosts_free(dl_tcp_hosts *hosts);

/* The first event that is due happens; false if there is none. */
bool dl_tcp_hosts_go_on(dl_tcp_hosts *hosts);

/* How many packets a piece of `bytes` > 0 is. */
int dl_tcp_hosts_packets(const dl_tcp_hosts *hosts, double bytes);

/* Hands a piece to a socket, after what it has. */
void dl_tcp_hosts_send(dl_tcp_hosts *hosts, int socket, double bytes, int piece);

/* The program at the socket's other end takes what has come in order, as far as `takes` says. */
void dl_tcp_hosts_read(dl_tcp_hosts *hosts, int socket);

#endif
