/* A port for what a test starts on the loopback. */
#ifndef DL_TESTS_FREE_PORT_H
#define DL_TESTS_FREE_PORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/check.h"

/* Kept from all other processes, as long as this one runs, by a socket that is bound to it and does not
 * listen; who sets SO_REUSEADDR may listen there. */
static inline int free_port(void)
{
    const int on = 1, held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    assert_true(held >= 0);
    assert_int_equal(setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(held, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(held, (struct sockaddr *)&address, &bytes), 0);
    return ntohs(address.sin_port);
}

#endif
