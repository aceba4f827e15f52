/* A program for mpirun that tests messages between ranks and the handling of their failures. Usage:
 * cluster_ranks talk | fail RANK | differ RANK | die RANK; its output is the result. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cluster.h"

enum { SUM = 3, LARGE = 1 << 20 };

/* Rank r sends r bytes of value r and then a large message; rank 0 sums all bytes. */
static dl_status count_messages(const dl_cluster *c, long *sum, dl_error *err)
{
    unsigned char *data = dl_calloc(LARGE, 1, "message");
    dl_status status = DL_OK;
    memset(data, c->rank, LARGE);
    if (c->rank > 0) {
        status = c->calls->send(0, SUM, data, (size_t)c->rank, err);
        if (status == DL_OK) status = c->calls->send(0, SUM, data, LARGE, err);
    }
    for (int left = c->rank == 0 ? 2 * (c->size - 1) : 0; left > 0 && status == DL_OK;) {
        bool found = false;
        int from = 0, tag = 0;
        size_t bytes = 0;
        status = c->calls->probe(&found, &from, &tag, &bytes, err);
        if (status != DL_OK || !found) continue;
        status = c->calls->receive(from, tag, data, bytes, err);
        for (size_t i = 0; i < bytes; i++)
            *sum += tag == SUM && data[i] == from ? data[i] : LARGE;
        left--;
    }
    free(data);
    return status;
}

static dl_status talk(const dl_cluster *c, dl_error *err)
{
    long sum = 0, all[64] = {0};
    dl_status status = count_messages(c, &sum, err);
    if (status == DL_OK) status = c->calls->broadcast(&sum, sizeof sum, err);
    const long mine = sum + c->rank;
    if (status == DL_OK) status = c->calls->all_gather(&mine, all, sizeof mine, err);
    if (status == DL_OK) status = c->calls->barrier(err);
    long expected = 0;
    for (int r = 0; r < c->size && status == DL_OK; r++) {
        expected += r * (r + (long)LARGE);
        if (all[r] != sum + r) return dl_error_set(err, DL_ERR_DATA, "gathered %ld", all[r]);
    }
    if (status == DL_OK && sum != expected) {
        return dl_error_set(err, DL_ERR_DATA, "sum %ld, not %ld", sum, expected);
    }
    return status;
}

int main(int argc, char **argv)
{
    dl_cluster c;
    dl_error err = {0};
    const char *what = argc > 1 ? argv[1] : "";
    const int chosen = argc > 2 ? atoi(argv[2]) : -1;
    dl_status status = dl_cluster_start(&c, &err);
    if (status == DL_OK && strcmp(what, "talk") == 0 && c.size > 1) status = talk(&c, &err);
    if (status == DL_OK && strcmp(what, "fail") == 0 && c.rank == chosen) {
        status = dl_error_set_at(&err, DL_ERR_USAGE, "file.ini", 7, "no such thing");
    }
    if (status == DL_OK && strcmp(what, "differ") == 0) {
        status = dl_cluster_same(&c, c.rank == chosen, "the file", &err);
    }
    if (strcmp(what, "die") == 0 && c.rank == chosen) raise(SIGKILL);
    status = dl_cluster_agree(&c, status, &err);
    if (status == DL_OK) {
        printf("%d ranks of %s, %d on this host with %d cores each\n", c.size, what, c.local_size,
               c.cpu_count);
        fflush(stdout);
    }
    return dl_cluster_end(&c, status, &err, "ranks");
}
