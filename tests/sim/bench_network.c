/* How many flows a second the network moves, beside the plain way (every flow by itself in
 * dl_maxmin, all solved anew at each event). `bench_network [FLOWS]`, default 200000 a case.
 *
 *   one link     n workers send over one link, each at once again
 *   server       n workers send over links of their own into the server's link
 *   narrow       the same, but every second worker's own link is narrower than its share
 *   mesh         n flows over two of 16 links each, so that hardly any two are alike
 *   ring         n disjoint links, all flows begin and end together
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/network/network.h"
#include "tests/sim/maxmin.h"

#define MESH_LINKS 16

typedef struct bench {
    dl_engine engine;
    dl_network network;
    int *class;   /* [workers] */
    int64_t left; /* flows to start */
} bench;

/* Sizes differ, so that ends do not coincide by themselves. */
static double size_of(int worker, int64_t turn)
{
    return 1e6 + (double)((uint64_t)worker * 7919 + (uint64_t)turn * 104729) / 7;
}

static void send_again(void *user, int worker)
{
    bench *b = user;
    if (b->left <= 0) return;
    b->left--;
    dl_network_start(&b->network, b->class[worker], size_of(worker, b->left % 97), 1000, send_again,
                     b, worker);
}

static void send_equal(void *user, int worker)
{
    bench *b = user;
    if (b->left <= 0) return;
    b->left--;
    dl_network_start(&b->network, b->class[worker], 1e6, 1000, send_equal, b, worker);
}

typedef enum bench_case { ONE_LINK, SERVER, NARROW, MESH, RING } bench_case;

/* The links of a worker: number 0 is the server's, the others have room for one each. */
static int links_of(bench_case which, int worker, int links[2])
{
    links[0] = which == RING ? worker + 1 : 0;
    links[1] = worker + 1;
    if (which == MESH) {
        links[0] = worker % MESH_LINKS;
        links[1] = (links[0] + 1 + worker / MESH_LINKS % (MESH_LINKS - 1)) % MESH_LINKS;
    }
    return which == ONE_LINK || which == RING ? 1 : 2;
}

static double capacity_of(bench_case which, int link, int workers)
{
    bool narrow = which == NARROW && link % 2 == 1;
    return narrow ? 5e9 / workers * (1 + link / (2.0 * workers)) : 10e9;
}

/* Workers and MESH_LINKS are enough for all cases. */
static int link_count(int workers)
{
    return workers + 1 > MESH_LINKS ? workers + 1 : MESH_LINKS;
}

static double run(bench_case which, int workers, int64_t flows)
{
    static const unsigned char once[] = {1, 1};
    bench b = {.left = flows};
    dl_engine_init(&b.engine, 2 * workers + 1);
    dl_network_init(&b.network, &b.engine, workers);
    for (int l = 0; l < link_count(workers); l++)
        dl_network_add_link(&b.network, capacity_of(which, l, workers));
    b.class = dl_calloc((size_t)workers, sizeof(int), "classes");
    for (int w = 0; w < workers; w++) {
        int links[2], count = links_of(which, w, links);
        b.class[w] = dl_network_class(&b.network, links, once, count);
    }
    int64_t begin_ns = dl_clock_ns();
    for (int w = 0; w < workers; w++)
        (which == RING ? send_equal : send_again)(&b, w);
    dl_engine_run(&b.engine);
    double seconds = dl_ns_to_s((double)(dl_clock_ns() - begin_ns));
    free(b.class);
    dl_network_free(&b.network);
    dl_engine_free(&b.engine);
    return (double)flows / seconds;
}

/* The same work without classes: each end of a flow, and the start of its next, solves all. */
static double run_plain(bench_case which, int workers, int64_t flows)
{
    DL_SCOPED(dl_maxmin) system;
    DL_AUTOFREE double *left = dl_calloc((size_t)workers, sizeof(double), "bytes left");
    dl_maxmin_init(&system, link_count(workers), workers, 2 * workers);
    for (int l = 0; l < link_count(workers); l++)
        dl_maxmin_add_link(&system, capacity_of(which, l, workers));
    for (int w = 0; w < workers; w++) {
        int links[2], count = links_of(which, w, links);
        dl_maxmin_add_flow(&system, 1, INFINITY, links, count);
        left[w] = size_of(w, 0);
    }
    int64_t begin_ns = dl_clock_ns();
    for (int64_t turn = 0; turn < flows; turn++) {
        dl_maxmin_solve(&system);
        int first = 0;
        for (int w = 1; w < workers; w++) {
            if (left[w] / system.rate[w] < left[first] / system.rate[first]) first = w;
        }
        double step_s = left[first] / system.rate[first];
        for (int w = 0; w < workers; w++)
            left[w] -= step_s * system.rate[w];
        left[first] = size_of(first, turn % 97);
    }
    double seconds = dl_ns_to_s((double)(dl_clock_ns() - begin_ns));
    return (double)flows / seconds;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"one link", "server", "narrow", "mesh", "ring"};
    static const int workers[] = {8, 64, 512};
    int64_t flows = 200000;
    dl_error err = {0};
    if (argc > 1 && dl_parse_int(argv[1], 1000, 1000000000, &flows, &err) != DL_OK) {
        dl_error_print(&err, argv[0], stderr);
        return 2;
    }
    printf("%-10s %8s %16s %16s\n", "case", "workers", "flows/s", "plain, flows/s");
    for (bench_case s = ONE_LINK; s <= RING; s++) {
        for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
            double fast = run(s, workers[i], flows);
            double plain = run_plain(s, workers[i], 1000);
            printf("%-10s %8d %16.0f %16.0f\n", names[s], workers[i], fast, plain);
        }
    }
    return 0;
}
