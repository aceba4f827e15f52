/* Linux' TCP between nodes that each send to the next one, packet by packet: windows, losses,
 * acknowledgements, timers, and the queue of a node's port (sim/network/tcp.h lists what is
 * modelled, with sources). The caller decides what data the sockets carry and when a program reads
 * it. */
#ifndef DL_SIM_TCP_HOSTS_H
#define DL_SIM_TCP_HOSTS_H

#include "sim/engine.h"
#include "sim/network/tcp.h"

/* Ethernet 14, IPv4 20, TCP 20, TCP timestamps 12 bytes. */
#define DL_TCP_LINK_HEADER_BYTES 14.0
#define DL_TCP_HEADER_BYTES 52.0

#define DL_TCP_TIMEOUT_MIN_NS 200e6 /* added to the round trip: TCP_RTO_MIN */
#define DL_TCP_RECEIVED_FIRST \
    65536.0 /* first window of a receiver: half of tcp_rmem's middle value */

typedef struct dl_tcp_hosts_config {
    const dl_tcp *tcp;        /* borrowed, like all pointers here */
    const dl_tcp_edge *edges; /* [nodes] from each node to the next one */
    int nodes;                /* 2 to DL_TCP_NODES_MAX */
    int sockets;              /* sockets from a node to the next one */
    double window_bytes;      /* receivers' initial window; INFINITY: no limit */
    void *user;
    /* A socket's buffer has taken the last byte of this piece. */
    void (*buffered)(void *user, int piece);
    /* Whether the program now reads an arrived packet of this piece. */
    bool (*takes)(void *user, int piece);
    /* A packet has arrived at the socket's other end, and the program has read what `takes`
     * allows. */
    void (*arrived)(void *user, int socket);
    /* The socket has received an acknowledgement. */
    void (*acknowledged)(void *user, int socket);
} dl_tcp_hosts_config;

struct dl_tcp_socket;
struct dl_tcp_packet;

typedef struct dl_tcp_queue {
    struct dl_tcp_packet *packets; /* [room] ring buffer; room: a power of two */
    int first, count, room;
    double bytes;
} dl_tcp_queue;

typedef struct dl_tcp_hosts {
    dl_engine engine;
    dl_tcp_hosts_config config;
    double payload_bytes; /* payload per packet */
    double buffer_bytes;  /* bytes that a packet takes in a socket's buffer */
    double queue_limit[DL_TCP_NODES_MAX];
    dl_tcp_queue port[DL_TCP_NODES_MAX], forth[DL_TCP_NODES_MAX], back[DL_TCP_NODES_MAX];
    struct dl_tcp_socket *all; /* [nodes x sockets] */
} dl_tcp_hosts;

/* Initialises all sockets, which have not sent anything. The engine has room for one event of the
 * caller per node. */
void dl_tcp_hosts_init(dl_tcp_hosts *hosts, const dl_tcp_hosts_config *config);
void dl_tcp_hosts_free(dl_tcp_hosts *hosts);

/* Runs the next event of the engine; false if there is none. */
bool dl_tcp_hosts_go_on(dl_tcp_hosts *hosts);

/* Appends a piece of `bytes` > 0 to the data that a socket sends. Returns the number of packets
 * that hold a part of it; the first may begin with the end of the piece before, if that was not
 * sent. */
int dl_tcp_hosts_send(dl_tcp_hosts *hosts, int socket, double bytes, int piece);

/* Lets the program at the socket's other end read the data that arrived in order, as far as `takes`
 * allows. */
void dl_tcp_hosts_read(dl_tcp_hosts *hosts, int socket);

#endif
