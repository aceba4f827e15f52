/* TCP between the ranks of a run: connections and whole messages, each with a time limit.
 *
 * Sockets are never waited for longer than to a deadline (CLOCK_MONOTONIC, ns), so that a rank that
 * hangs or never comes is an error of the others and not their end. */
#ifndef DL_KERNELS_RANK_SOCKET_H
#define DL_KERNELS_RANK_SOCKET_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/status.h"

/* How a transfer ended. */
typedef enum dl_rank_io {
    DL_RANK_IO_DONE,
    DL_RANK_IO_CLOSED, /* the other side has gone */
    DL_RANK_IO_LATE    /* nothing moved up to the deadline */
} dl_rank_io;

/* An address with its length. */
typedef struct dl_rank_address {
    struct sockaddr_storage address;
    uint32_t bytes;
} dl_rank_address;

/* Listens for ranks at `port` (0: one that is free): only on the loopback if `host` is that, else
 * on all interfaces, of the family of `host`'s first address: what a machine calls itself by may be
 * another address than what others call it by. DL_ERR_NAME if `host` has no address, DL_ERR_SYSTEM
 * if the port cannot be had. */
dl_status dl_rank_listen(const char *host, int port, int *listener, dl_error *err) DL_MUST_CHECK;

/* Connects to `host`, trying again where nobody listens yet. DL_ERR_NAME, or DL_ERR_SYSTEM at the
 * deadline. */
dl_status dl_rank_connect(const char *host, int port, int64_t deadline_ns, int *made,
                          dl_error *err) DL_MUST_CHECK;
dl_status dl_rank_connect_to(const dl_rank_address *address, int64_t deadline_ns, int *made,
                             dl_error *err) DL_MUST_CHECK;

/* The next connection to `listener`; false at the deadline. */
bool dl_rank_accept(int listener, int64_t deadline_ns, int *made);

/* The address at the other end; the port of this one. */
dl_rank_address dl_rank_peer(int made);
int dl_rank_port(int made);

/* `address` with the port of a listener there. */
dl_rank_address dl_rank_at_port(dl_rank_address address, int port);

/* Whether the address is one that only its own machine can reach. */
bool dl_rank_address_is_loopback(const dl_rank_address *address);

/* Moves all of data[bytes]. */
dl_rank_io dl_rank_send(int made, const void *data, size_t bytes, int64_t deadline_ns);
dl_rank_io dl_rank_receive(int made, void *data, size_t bytes, int64_t deadline_ns);

/* Time left to a deadline in whole ms for poll(2), rounded up; 0 after it. */
int dl_rank_left_ms(int64_t deadline_ns);

/* Whether errno says that the socket was only not ready. */
static inline bool dl_rank_would_wait(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

#endif
