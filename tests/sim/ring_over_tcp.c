/* Rings over Linux' TCP, to compare with sim/network/tcp.h: each node is a network namespace behind
 * a port that tc's token bucket shapes, and sends as NCCL does (src/transport/net_socket.cc,
 * net.cc).
 *
 *   node 0              node 1                    one bridge joins all ports; each channel of a
 *   sockets -> bucket ==> sockets -> bucket ==>   node has one connection, of several sockets, to
 *                                                 the next node
 *
 * A channel sends slices. A slice's size goes ahead on the connection's control socket; its pieces
 * go to the other sockets in turn, and a helper thread serves a group of pieces until all of the
 * group are through. One loop plays all GPUs, proxies and helper threads, so it needs a core of its
 * own.
 *
 * Namespaces have no names: they, their ports and the bridge vanish with the process, however it
 * ends. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/options.h"
#include "common/units.h"
#include "sim/network/tcp.h"

/* Sizes of NCCL (src/include/collectives.h): of its eight steps of 512 KiB, a slice of an all-reduce
 * has two and a chunk four; those of a broadcast have one. */
#define STEP_BYTES 524288
#define STEPS 8
#define MAX_SLICE_BYTES (2 * STEP_BYTES)
#define LEAST_PIECE_BYTES 65536
#define GROUPS 32 /* of pieces, that a helper thread has room for */

#define MAX_CHANNELS 16
#define MAX_THREADS 16
#define MAX_SOCKETS 64 /* of a connection */

/* Of a node's port and of the token bucket that shapes it. */
#define MTU_BYTES 9001
#define BUCKET_BYTES 32768
#define QUEUE_MS 50
#define DELAY_NS 25e3 /* one way, in the model, as in test_tcp */

#define FIRST_PORT 5000
#define IDLE_US 200
#define LATE_NS 5000000

typedef struct settings {
    double mbit_per_s;
    int64_t sockets_per_thread, threads, channels, nodes, repeats;
    uint64_t bytes, broadcast_bytes; /* broadcast_bytes: 0 = no broadcasts */
} settings;

static settings set = {.mbit_per_s = 50,
                       .sockets_per_thread = 8,
                       .threads = 2,
                       .channels = 2,
                       .nodes = 4,
                       .repeats = 3,
                       .bytes = 51463168};

typedef struct piece {
    int fd, bytes, moved;
    bool used, sends;
} piece;

/* Its pieces are a circle of groups, one piece for each of its sockets. */
typedef struct helper_thread {
    piece *pieces;
    int next, group; /* to be filled; being served */
} helper_thread;

/* One end of a channel's sockets between two nodes. */
typedef struct connection {
    int control, sockets[MAX_SOCKETS];
    helper_thread threads[MAX_THREADS];
    int next; /* socket */
    bool sends;
    bool cut; /* the slice under way is in pieces */
    piece *pieces[MAX_SOCKETS];
    int count;
} connection;

/* How far something is in the sequence of collectives, each of loops over all chunks. */
typedef struct place {
    int64_t collective;
    int loop, step, slice;
} place;

typedef struct channel {
    connection next, before;               /* to and from nodes */
    place gpu, sending, receiving;         /* each at its next slice */
    long filled, sent, received, consumed; /* slices: by the GPU, the proxy, the proxy, the GPU */
} channel;

static channel channels[DL_TCP_NODES_MAX][MAX_CHANNELS];
static int namespaces[DL_TCP_NODES_MAX + 1]; /* the last is the bridge's */
static int64_t *end_ns[DL_TCP_NODES_MAX];    /* [collectives()], of a node's last channel */
static char payload[MAX_SLICE_BYTES];

/* Prints the message, followed by the meaning of `code`, an errno value, unless it is 0; ends with
 * exit status 1. */
static void fail(int code, const char *format, ...) DL_PRINTF(2, 3) __attribute__((noreturn));

static void fail(int code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("ring_over_tcp: ", stderr);
    vfprintf(stderr, format, values);
    fprintf(stderr, "%s%s\n", code ? ": " : "", code ? strerror(code) : "");
    va_end(values);
    exit(1);
}

/* --- namespaces --- */

static void shell(const char *format, ...) DL_PRINTF(1, 2);

static void shell(const char *format, ...)
{
    char command[256];
    va_list values;
    va_start(values, format);
    vsnprintf(command, sizeof command, format, values);
    va_end(values);
    if (system(command) != 0) fail(0, "failed: %s", command);
}

static void enter(int64_t node)
{
    if (setns(namespaces[node], CLONE_NEWNET) != 0) fail(errno, "cannot enter a network namespace");
}

static void write_setting(const char *path, const char *value)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, value, strlen(value)) < 0) fail(errno, "cannot write %s", path);
    close(fd);
}

/* With the buffers that Linux has by default on machines with enough memory. */
static int make_namespace(void)
{
    if (unshare(CLONE_NEWNET) != 0) fail(errno, "cannot make a network namespace");
    const int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(errno, "cannot open /proc/self/ns/net");
    write_setting("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456");
    write_setting("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304");
    shell("ip link set lo up");
    return fd;
}

/* A node's shaped port, joined to the bridge. */
static void make_port(int node)
{
    enter(set.nodes);
    shell("ip link add name h%d mtu %d type veth peer name p0 mtu %d", node, MTU_BYTES, MTU_BYTES);
    shell("ip link set p0 netns /proc/%d/fd/%d", (int)getpid(), namespaces[node]);
    shell("ip link set h%d master br0 up", node);
    enter(node);
    shell("ip addr add 10.9.0.%d/24 dev p0 && ip link set p0 up", node + 1);
    shell("tc qdisc add dev p0 root tbf rate %.0fbit burst %d latency %dms", set.mbit_per_s * 1e6,
          BUCKET_BYTES, QUEUE_MS);
}

static void make_network(void)
{
    for (int n = 0; n <= set.nodes; n++)
        namespaces[n] = make_namespace();
    enter(set.nodes);
    shell("ip link add name br0 type bridge && ip link set br0 mtu %d up", MTU_BYTES);
    for (int n = 0; n < set.nodes; n++)
        make_port(n);
}

/* --- connections --- */

/* A socket of namespace `node`. */
static int make_socket(int node)
{
    enter(node);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0) fail(errno, "cannot make a socket");
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0)
        fail(errno, "cannot set CUBIC");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* NCCL greets on each socket, too. */
static void make_pair(int node, int listener, const struct sockaddr_in *address, int *from, int *to)
{
    *from = make_socket(node);
    if (connect(*from, (const struct sockaddr *)address, sizeof *address) != 0)
        fail(errno, "cannot connect node %d to the next", node);
    *to = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (*to < 0) fail(errno, "cannot accept a connection of node %d", node);
    char greeting = 1;
    if (send(*from, &greeting, 1, MSG_NOSIGNAL) != 1 || recv(*to, &greeting, 1, 0) != 1)
        fail(errno, "node %d cannot greet the next", node);
}

static void make_threads(connection *c)
{
    for (int t = 0; t < set.threads; t++)
        c->threads[t].pieces =
            dl_calloc(GROUPS * (size_t)set.sockets_per_thread, sizeof(piece), "pieces");
}

static void connect_channel(int node, int number)
{
    const int to = (node + 1) % (int)set.nodes;
    connection *from_end = &channels[node][number].next, *to_end = &channels[to][number].before;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)(FIRST_PORT + number)),
                                  .sin_addr.s_addr = htonl(0x0a090000u + (uint32_t)to + 1)};
    const int listener = make_socket(to);
    if (bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, MAX_SOCKETS + 1) != 0)
        fail(errno, "node %d cannot listen", to);
    make_pair(node, listener, &address, &from_end->control, &to_end->control);
    for (int s = 0; s < set.sockets_per_thread * set.threads; s++)
        make_pair(node, listener, &address, &from_end->sockets[s], &to_end->sockets[s]);
    close(listener);
    from_end->sends = true;
    make_threads(from_end);
    make_threads(to_end);
}

/* --- the sequence of slices --- */

static int64_t collectives(void)
{
    return set.repeats * (set.broadcast_bytes > 0 ? 2 : 1);
}

/* Whether the collective is a broadcast from node 0; these and all-reduces alternate. */
static bool is_broadcast(int64_t collective)
{
    return set.broadcast_bytes > 0 && collective % 2 == 0;
}

static double vector_bytes(int64_t collective)
{
    return (double)(is_broadcast(collective) ? set.broadcast_bytes : set.bytes);
}

static int steps(int64_t collective)
{
    return is_broadcast(collective) ? 1 : 2 * ((int)set.nodes - 1);
}

/* Slices of a chunk. */
static int chunk_slices(int64_t collective)
{
    return is_broadcast(collective) ? 1 : 2;
}

static double full_slice_bytes(int64_t collective)
{
    return is_broadcast(collective) ? STEP_BYTES : MAX_SLICE_BYTES;
}

/* Slices of a buffer. */
static int slices_posted(int64_t collective)
{
    return (int)(STEPS * STEP_BYTES / full_slice_bytes(collective));
}

/* Parts of a loop, of a chunk each. */
static double parts(int64_t collective)
{
    return (double)((is_broadcast(collective) ? 1 : set.nodes) * set.channels);
}

/* Bytes of the next slice of the loop's chunk, which is smaller in the last loop; at least 1. */
static int slice_bytes(const place *p)
{
    const int64_t k = p->collective;
    const double slice = full_slice_bytes(k), chunk = chunk_slices(k) * slice;
    const double left = ceil((vector_bytes(k) - p->loop * chunk * parts(k)) / parts(k));
    return (int)fmax(1, fmin(slice, left - p->slice * slice));
}

/* To the next of a sequence that has `positions` in a loop. */
static void advance(place *p, int positions)
{
    const int64_t k = p->collective;
    const double loop_bytes = chunk_slices(k) * full_slice_bytes(k) * parts(k);
    if (++p->slice < chunk_slices(k)) return;
    p->slice = 0;
    if (++p->step < positions) return;
    p->step = 0;
    if (++p->loop < (int)ceil(vector_bytes(k) / loop_bytes)) return;
    p->loop = 0;
    p->collective++;
}

/* --- what NCCL's threads do; each returns whether anything moved --- */

static bool move_piece(piece *p)
{
    bool moved = false;
    while (p->moved < p->bytes) {
        const size_t left = (size_t)(p->bytes - p->moved);
        const ssize_t bytes = p->sends ? send(p->fd, payload, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                                       : recv(p->fd, payload, left, MSG_DONTWAIT);
        if (bytes == 0) fail(0, "a connection was closed");
        if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) break;
        if (bytes < 0) fail(errno, "cannot %s", p->sends ? "send" : "receive");
        p->moved += (int)bytes;
        moved = true;
    }
    return moved;
}

/* Serves a group until all of its pieces are through, then goes to the next. */
static bool serve_group(helper_thread *t)
{
    bool moved = false;
    for (int visited = 0; visited < GROUPS; visited++) {
        bool unfinished = false;
        for (int64_t s = 0; s < set.sockets_per_thread; s++) {
            piece *p = &t->pieces[t->group * set.sockets_per_thread + s];
            if (!p->used) continue;
            moved |= move_piece(p);
            unfinished |= p->moved < p->bytes;
        }
        if (unfinished) break;
        t->group = (t->group + 1) % GROUPS;
    }
    return moved;
}

/* Gives the slice's pieces to the sockets in turn. */
static void cut_slice(connection *c, int bytes)
{
    const int sockets = (int)(set.sockets_per_thread * set.threads);
    const int each = (int)fmax(LEAST_PIECE_BYTES, (bytes + sockets - 1) / sockets);
    c->cut = true;
    c->count = 0;
    for (int at = 0; at < bytes; at += each) {
        helper_thread *t = &c->threads[c->next % set.threads];
        piece *p = &t->pieces[t->next];
        if (p->used) fail(0, "a helper thread has more than %d groups of pieces", GROUPS);
        *p = (piece){.fd = c->sockets[c->next],
                     .bytes = (int)fmin(each, bytes - at),
                     .used = true,
                     .sends = c->sends};
        c->pieces[c->count++] = p;
        c->next = (c->next + 1) % sockets;
        t->next = (t->next + 1) % (GROUPS * (int)set.sockets_per_thread);
    }
}

/* The slice's size, on the control socket. False: not yet. */
static bool exchange_size(const connection *c, int bytes)
{
    int size = bytes;
    const ssize_t moved = c->sends
                              ? send(c->control, &size, sizeof size, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : recv(c->control, &size, sizeof size, MSG_DONTWAIT);
    if (moved < 0 && errno == EAGAIN) return false;
    if (moved < 0) fail(errno, "cannot exchange a slice's size");
    if (moved != sizeof size || size != bytes) fail(0, "a slice of %d, not %d bytes", size, bytes);
    return true;
}

/* Takes the slice at `at` further; once all of it has moved, counts it and goes to the next. */
static bool move_slice(connection *c, place *at, long *count)
{
    bool moved = false;
    if (!c->cut) {
        const int bytes = slice_bytes(at);
        if (!exchange_size(c, bytes)) return false;
        cut_slice(c, bytes);
        moved = true;
    }
    for (int i = 0; i < c->count; i++)
        if (c->pieces[i]->moved < c->pieces[i]->bytes) return moved;
    for (int i = 0; i < c->count; i++)
        c->pieces[i]->used = false;
    c->cut = false;
    advance(at, steps(at->collective));
    (*count)++;
    return true;
}

/* The kernel: takes a slice from the previous node in all steps but the first, and gives one to the
 * next node in all steps but the last, until there is no slice or no room for one, or until the
 * collective ends. Of a broadcast, all nodes but the first take each slice, and all but the last
 * give it. */
static bool run_gpu(channel *c, int node)
{
    bool moved = false;
    const int64_t collective = c->gpu.collective;
    while (c->gpu.collective == collective) {
        const bool takes = is_broadcast(collective) ? node > 0 : c->gpu.step > 0;
        const bool gives =
            is_broadcast(collective) ? node + 1 < set.nodes : c->gpu.step < steps(collective);
        if (takes && c->received == c->consumed) return moved;
        if (gives && c->filled - c->sent >= slices_posted(collective)) return moved;
        c->consumed += takes;
        c->filled += gives;
        advance(&c->gpu, is_broadcast(collective) ? 1 : steps(collective) + 1);
        moved = true;
    }
    end_ns[node][collective] = dl_clock_ns(); /* that of the last channel stays */
    return moved;
}

/* A collective starts on a node once all of its channels are through the one before. */
static int64_t collective_of(int node)
{
    int64_t least = collectives();
    for (int c = 0; c < set.channels; c++)
        if (channels[node][c].gpu.collective < least) least = channels[node][c].gpu.collective;
    return least;
}

static bool run_channel(int node, int number, int64_t collective)
{
    channel *c = &channels[node][number];
    bool moved = false;
    if (c->gpu.collective == collective && collective < collectives()) moved = run_gpu(c, node);
    if (node + 1 == set.nodes && is_broadcast(c->sending.collective)) c->sending.collective++;
    if (node == 0 && is_broadcast(c->receiving.collective)) c->receiving.collective++;
    if (c->sent < c->filled) moved |= move_slice(&c->next, &c->sending, &c->sent);
    if (c->receiving.collective <= collective && c->receiving.collective < collectives() &&
        c->received < c->consumed + slices_posted(c->receiving.collective))
        moved |= move_slice(&c->before, &c->receiving, &c->received);
    for (int t = 0; t < set.threads; t++) {
        moved |= serve_group(&c->next.threads[t]);
        moved |= serve_group(&c->before.threads[t]);
    }
    return moved;
}

/* All collectives, one after another. Returns how often the loop came back later than LATE_NS. */
static long run_rings(void)
{
    long late = 0;
    int64_t last_ns = dl_clock_ns();
    for (bool unfinished = true; unfinished;) {
        bool moved = false;
        unfinished = false;
        for (int n = 0; n < set.nodes; n++) {
            const int64_t collective = collective_of(n);
            unfinished |= collective < collectives();
            for (int c = 0; c < set.channels; c++)
                moved |= run_channel(n, c, collective);
        }
        if (!moved) usleep(IDLE_US);
        const int64_t now_ns = dl_clock_ns();
        late += now_ns - last_ns > LATE_NS;
        last_ns = now_ns;
    }
    return late;
}

/* --- what is printed --- */

static dl_tcp modelled_tcp(void)
{
    return (dl_tcp){.given = true,
                    .time_factor = 1,
                    .sockets = (int)(set.sockets_per_thread * set.threads),
                    .channels = (int)set.channels,
                    .mtu_bytes = {.known = true, .value = MTU_BYTES},
                    .queue_ns = {.known = true, .value = QUEUE_MS * 1e6},
                    .queue_bytes = {.known = true, .value = BUCKET_BYTES}};
}

static double modelled_s(const dl_tcp *tcp, int64_t collective)
{
    dl_tcp_edge edges[DL_TCP_NODES_MAX];
    for (int n = 0; n < set.nodes; n++)
        edges[n] = (dl_tcp_edge){set.mbit_per_s * 1e6 / 8, DELAY_NS};
    return dl_ns_to_s(dl_tcp_ring_ns(&(dl_tcp_ring){.tcp = tcp,
                                                    .edges = edges,
                                                    .nodes = (int)set.nodes,
                                                    .broadcast = is_broadcast(collective),
                                                    .bytes = vector_bytes(collective)}));
}

/* Prints the times of the collectives first, first + every, ..., and their mean. A collective ends
 * with its last node; the next one starts then. */
static void print_times(int64_t begin_ns, int64_t first, int64_t every)
{
    const dl_tcp tcp = modelled_tcp();
    const bool broadcast = is_broadcast(first);
    const double model_s = modelled_s(&tcp, first), nodes = (double)set.nodes;
    const double share = broadcast ? 1 : 2 * (nodes - 1) / nodes;
    const double least_s =
        share * vector_bytes(first) / (set.mbit_per_s * 1e6 / 8 * dl_tcp_payload_frac(&tcp));
    double sum_s = 0;
    printf("%-10s %9s %9s %9s %9s\n", broadcast ? "broadcast" : "all-reduce", "Linux, s", "/ bytes",
           "model, s", "/ bytes");
    for (int64_t k = 0; k < collectives(); k++) {
        int64_t last_ns = 0;
        for (int n = 0; n < set.nodes; n++)
            if (end_ns[n][k] > last_ns) last_ns = end_ns[n][k];
        const double s = dl_ns_to_s((double)(last_ns - begin_ns));
        begin_ns = last_ns;
        if (k % every != first) continue;
        sum_s += s;
        printf("%-10d %9.3f %9.3f %9.3f %9.3f\n", (int)(k / every) + 1, s, s / least_s, model_s,
               model_s / least_s);
    }
    const double mean_s = sum_s / (double)set.repeats;
    printf("%-10s %9.3f %9.3f %9.3f %9.3f\n", "mean", mean_s, mean_s / least_s, model_s,
           model_s / least_s);
    printf("/ bytes: over the time of the bytes at the rate that headers leave, %.3f s\n", least_s);
}

static dl_status run(const dl_text_list *positional, void *user, dl_error *err)
{
    (void)positional, (void)user;
    if (geteuid() != 0) return dl_error_set(err, DL_ERR_UNSUPPORTED, "needs root");
    if (set.sockets_per_thread * set.threads > MAX_SOCKETS)
        return dl_error_set(err, DL_ERR_USAGE, "more than %d sockets", MAX_SOCKETS);
    make_network();
    for (int n = 0; n < set.nodes; n++) {
        end_ns[n] = dl_calloc((size_t)collectives(), sizeof **end_ns, "times");
        for (int c = 0; c < set.channels; c++)
            connect_channel(n, c);
    }
    const int64_t begin_ns = dl_clock_ns();
    const long late = run_rings();
    const int64_t kinds = collectives() / set.repeats;
    for (int64_t first = 0; first < kinds; first++)
        print_times(begin_ns, first, kinds);
    if (late > 0) printf("%ld pauses over 5 ms in the program: the machine was busy\n", late);
    return DL_OK;
}

int main(int argc, char **argv)
{
    const dl_option options[] = {
        DL_OPT_ROW(DOUBLE, "rate", 'r', &set.mbit_per_s, "MBIT", "rate of each port, Mb/s",
                   .low = 1, .high = 100000),
        DL_OPT_INT("nodes", 'n', &set.nodes, 2, DL_TCP_NODES_MAX, "COUNT", "nodes of the ring"),
        DL_OPT_INT("channels", 'c', &set.channels, 1, MAX_CHANNELS, "COUNT",
                   "channels that share the bytes"),
        DL_OPT_INT("threads", 't', &set.threads, 1, MAX_THREADS, "COUNT",
                   "helper threads of a channel"),
        DL_OPT_INT("sockets", 's', &set.sockets_per_thread, 1, MAX_SOCKETS, "COUNT",
                   "sockets of a helper thread"),
        DL_OPT_ROW(BYTES, "bytes", 'b', &set.bytes, "BYTES", "of each node's vector", .low = 1,
                   .high = 4e9),
        DL_OPT_INT("repeats", 'k', &set.repeats, 1, 10000, "COUNT",
                   "all-reduces, one after another"),
        DL_OPT_ROW(BYTES, "broadcast", 'x', &set.broadcast_bytes, "BYTES",
                   "of a broadcast from the first node along the ring before each all-reduce "
                   "(default: no broadcast)",
                   .low = 1, .high = 4e9),
    };
    const dl_command command = {
        .program = "ring_over_tcp",
        .positional = "",
        .summary = "Times collectives that are sent as NCCL does, over Linux' TCP between network "
                   "namespaces behind tc's token bucket, beside what the simulator says. Needs "
                   "root and iproute2 (ip, tc). Makes network namespaces; they are gone when it "
                   "ends, also on errors.",
        .options = options,
        .option_count = DL_LENGTH(options)};
    return dl_command_main(&command, argc, argv, run, NULL);
}
