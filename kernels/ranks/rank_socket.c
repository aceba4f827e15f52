#include "kernels/ranks/rank_socket.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/units.h"

/* Connections that wait to be accepted: as many as ranks may be. */
#define BACKLOG 256

/* Between two attempts to connect where nobody listens yet. */
#define RETRY_NS 20000000L

#define NS_PER_MS 1000000

int dl_rank_left_ms(int64_t deadline_ns)
{
    const int64_t left_ns = deadline_ns - dl_clock_ns();
    if (left_ns <= 0) return 0;
    const int64_t left_ms = (left_ns + NS_PER_MS - 1) / NS_PER_MS;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

/* Whether `host` names this machine's loopback: "localhost", "127...", "::1". */
static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

bool dl_rank_address_is_loopback(const dl_rank_address *address)
{
    if (address->address.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&address->address;
        return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address->address;
    return address->address.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

/* Addresses of `host`, or with `passive` those to listen at. freeaddrinfo(*found). */
static dl_status resolve(const char *host, int port, int family, bool passive,
                         struct addrinfo **found, dl_error *err)
{
    char service[16];
    const struct addrinfo hints = {
        .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    snprintf(service, sizeof service, "%d", port);
    const int reason = getaddrinfo(host, service, &hints, found);
    if (reason == 0) return DL_OK;
    return dl_error_set(err, DL_ERR_NAME, "no address of host '%.200s': %s",
                        host != NULL ? host : "", gai_strerror(reason));
}

/* Small messages go off at once. */
static void prepare(int made)
{
    const int on = 1;
    (void)setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

dl_status dl_rank_listen(const char *host, int port, int *listener, dl_error *err)
{
    struct addrinfo *named = NULL, *all = NULL;
    dl_status status = resolve(host, port, AF_UNSPEC, false, &named, err);
    if (status != DL_OK) return status;
    const struct addrinfo *at = named;
    if (!is_loopback(host)) {
        status = resolve(NULL, port, named->ai_family, true, &all, err);
        at = all;
    }
    if (status == DL_OK) {
        const int on = 1;
        const int made = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        /* Else the port of a run that has just ended would be refused for a minute. */
        if (made >= 0) (void)setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (made < 0 || bind(made, at->ai_addr, at->ai_addrlen) != 0 ||
            listen(made, BACKLOG) != 0) {
            status = dl_error_set(err, DL_ERR_SYSTEM,
                                  "cannot listen at %.200s:%d for the other ranks: %s", host, port,
                                  strerror(errno));
            if (made >= 0) close(made);
        } else {
            *listener = made;
        }
    }
    freeaddrinfo(named);
    if (all != NULL) freeaddrinfo(all);
    return status;
}

/* One attempt; errno says why not. */
static bool try_connect(const struct sockaddr *address, socklen_t bytes, int64_t deadline_ns,
                        int *made)
{
    const int one = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (one < 0) return false;
    int reason = connect(one, address, bytes) == 0 ? 0 : errno;
    if (reason == EINPROGRESS) {
        struct pollfd wait = {.fd = one, .events = POLLOUT};
        socklen_t length = sizeof reason;
        reason = ETIMEDOUT;
        if (poll(&wait, 1, dl_rank_left_ms(deadline_ns)) == 1) {
            (void)getsockopt(one, SOL_SOCKET, SO_ERROR, &reason, &length);
        }
    }
    if (reason != 0) {
        close(one);
        errno = reason;
        return false;
    }
    prepare(one);
    *made = one;
    return true;
}

static void pause_before_retry(void)
{
    const struct timespec pause = {.tv_nsec = RETRY_NS};
    (void)nanosleep(&pause, NULL);
}

dl_status dl_rank_connect(const char *host, int port, int64_t deadline_ns, int *made, dl_error *err)
{
    struct addrinfo *found = NULL;
    const dl_status status = resolve(host, port, AF_UNSPEC, false, &found, err);
    if (status != DL_OK) return status;
    bool done = false;
    while (!done) {
        for (const struct addrinfo *at = found; at != NULL && !done; at = at->ai_next)
            done = try_connect(at->ai_addr, at->ai_addrlen, deadline_ns, made);
        if (!done && dl_clock_ns() >= deadline_ns) break;
        if (!done) pause_before_retry();
    }
    const int reason = errno;
    freeaddrinfo(found);
    if (done) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "rank 0 cannot be reached at %.200s:%d: %s", host, port,
                        strerror(reason));
}

dl_status dl_rank_connect_to(const dl_rank_address *address, int64_t deadline_ns, int *made,
                             dl_error *err)
{
    if (try_connect((const struct sockaddr *)&address->address, address->bytes, deadline_ns,
                    made)) {
        return DL_OK;
    }
    return dl_error_set(err, DL_ERR_SYSTEM, "cannot connect to the next rank: %s", strerror(errno));
}

bool dl_rank_accept(int listener, int64_t deadline_ns, int *made)
{
    for (;;) {
        const int one = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (one >= 0) {
            prepare(one);
            *made = one;
            return true;
        }
        struct pollfd wait = {.fd = listener, .events = POLLIN};
        const int left_ms = dl_rank_left_ms(deadline_ns);
        if (left_ms == 0 || poll(&wait, 1, left_ms) == 0) return false;
    }
}

dl_rank_address dl_rank_at_port(dl_rank_address address, int port)
{
    if (address.address.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&address.address)->sin6_port = htons((uint16_t)port);
    } else {
        ((struct sockaddr_in *)&address.address)->sin_port = htons((uint16_t)port);
    }
    return address;
}

dl_rank_address dl_rank_peer(int made)
{
    dl_rank_address peer = {0};
    socklen_t bytes = sizeof peer.address;
    (void)getpeername(made, (struct sockaddr *)&peer.address, &bytes);
    peer.bytes = (uint32_t)bytes;
    return peer;
}

int dl_rank_port(int made)
{
    struct sockaddr_storage own = {0};
    socklen_t bytes = sizeof own;
    (void)getsockname(made, (struct sockaddr *)&own, &bytes);
    return own.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&own)->sin6_port)
                                     : ntohs(((struct sockaddr_in *)&own)->sin_port);
}

/* Waits until the socket is ready for `events`; false at the deadline. */
static bool wait_for(int made, short events, int64_t deadline_ns)
{
    struct pollfd wait = {.fd = made, .events = events};
    int ready;
    do {
        ready = poll(&wait, 1, dl_rank_left_ms(deadline_ns));
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* Sends data[bytes], or receives it. */
static dl_rank_io transfer(int made, void *data, size_t bytes, bool out, int64_t deadline_ns)
{
    for (size_t done = 0; done < bytes;) {
        char *at = (char *)data + done;
        const ssize_t moved =
            out ? send(made, at, bytes - done, MSG_NOSIGNAL) : recv(made, at, bytes - done, 0);
        if (moved > 0) {
            done += (size_t)moved;
        } else if (moved == 0 || !dl_rank_would_wait()) {
            return DL_RANK_IO_CLOSED;
        } else if (!wait_for(made, out ? POLLOUT : POLLIN, deadline_ns)) {
            return DL_RANK_IO_LATE;
        }
    }
    return DL_RANK_IO_DONE;
}

dl_rank_io dl_rank_send(int made, const void *data, size_t bytes, int64_t deadline_ns)
{
    return transfer(made, (void *)(uintptr_t)data, bytes, true, deadline_ns);
}

dl_rank_io dl_rank_receive(int made, void *data, size_t bytes, int64_t deadline_ns)
{
    return transfer(made, data, bytes, false, deadline_ns);
}
