/* A parameter server tensor by tensor, against closed forms. Two tensors: that of the last layer,
 * whose gradients are ready after a quarter of the backward pass, and that of the first one, at its
 * end. So the last layer has 100 us of the forward pass of 400 us and 150 us of the backward pass
 * of 600 us, the first one 300 and 450 us. On the machine of gpu_fixture.h a copy of b bytes takes
 * 200 + 0.1 b ns between a GPU and its host, and 10400 + b ns to the other node's host. */
#include "tests/gpu_fixture.h"

#include <stdlib.h>

#include "common/ini.h"

#define PCIE_NS(bytes) (200 + 0.1 * (bytes))
#define WIRE_NS(bytes) (10400 + (double)(bytes))

/* Step, in ns. last, first: bytes of the tensors; byte_ns: ns that the server takes to read or
 * write a byte; machine_text: the machine file. */
static double step_on_ns(const char *machine_text, double last, double first, double byte_ns,
                         const char *machine, int workers, const char *rest)
{
    char costs[1024];
    snprintf(costs, sizeof costs,
             "[costs]\nschema = 1\nparameter_bytes = %.0f\n"
             "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"
             "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n"
             "[gradients]\nready_1 = 0.25, %.0f\nready_2 = 1, %.0f\n"
             "[update]\nlatency_ns = 0\nread_bytes_per_s = %.9g\nwrite_bytes_per_s = %.9g\n"
             "[sync]\nbarrier_ns = 0\nlock_ns = 0\n" FIXTURE_FREE_DISPATCH,
             last + first, last, last + first, 1e9 / byte_ns, 1e9 / byte_ns);
    dl_run_result r = fixture_run_machine(machine_text, costs, machine, workers, 20, rest);
    const double step_ns = 1e9 * r.step_p50_s;
    dl_run_result_free(&r);
    return step_ns;
}

static double step_ns(double last, double first, double byte_ns, const char *machine, int workers,
                      const char *rest)
{
    return step_on_ns(FIXTURE_GPUS, last, first, byte_ns, machine, workers, rest);
}

#define PS "[sync]\nmode = ps\n[exchange]\n"

/* 80 kB and 20 kB on two shards, the second of which is on the other node. A step pushes, sums (a
 * read and a write of 1 ns per byte) and pulls; each takes as long as the slower shard. */
static void shards_have_whole_tensors(void **state DL_UNUSED)
{
    const char *halves = PS "shards = 2\n";
    assert_near(step_ns(80e3, 20e3, 1, "", 1, halves), 1e6 + 2 * WIRE_NS(50e3) + 2 * 50e3, 1e-5);
    /* Round-robin from the first layer: its 20 kB are on the own node, the 80 kB over the wire. */
    assert_near(step_ns(80e3, 20e3, 1, "", 1, PS "shards = 2\ntensors = round_robin\n"),
                1e6 + 2 * WIRE_NS(80e3) + 2 * 80e3, 1e-5);
    /* The largest one first: 80 kB on the own node. */
    assert_near(step_ns(80e3, 20e3, 1, "", 1, PS "shards = 2\ntensors = least_loaded\n"),
                1e6 + 2 * WIRE_NS(20e3) + 2 * 80e3, 1e-5);
    /* The 80 kB are split, and the 20 kB are on the own node. */
    const char *large = PS "shards = 2\ntensors = large_split\nlarge_bytes = 50kB\n";
    assert_near(step_ns(80e3, 20e3, 1, "", 1, large), 1e6 + 2 * WIRE_NS(40e3) + 2 * 60e3, 1e-5);
}

/* 0.1 bytes/ns for everything that the process of a node sends and receives, with faster links:
 * four workers push 20 kB each on the own node and 80 kB to the other, then fetch the same. Of four
 * shards of 25 kB two belong to one process. */
static void a_process_serves_all_its_connections(void **state DL_UNUSED)
{
#define SLOW_PROCESS "server_bytes_per_s = 100MB/s\n"
    const double latency_ns = 2 * 10400;
    assert_near(
        step_ns(80e3, 20e3, 1, "", 4, PS "shards = 2\ntensors = round_robin\n" SLOW_PROCESS),
        1e6 + latency_ns + 2 * 4 * 800e3 + (4 + 1) * 80e3, 1e-5);
    assert_near(step_ns(80e3, 20e3, 1, "", 4, PS "shards = 4\n" SLOW_PROCESS),
                1e6 + latency_ns + 2 * 4 * 500e3 + (4 + 1) * 25e3, 1e-5);
}

/* A machine's own rate applies if some worker is on another node than the server's first shard; the
 * scenario's rate overrides it. */
static void a_machine_limits_servers_of_several_nodes(void **state DL_UNUSED)
{
    DL_AUTOFREE char *limited = dl_strdup(FIXTURE_GPUS);
    dl_ini_text_set(&limited, "host", "server_bytes_per_s", "100MB/s");
    const char *four = PS "shards = 1\n", *fast = PS "shards = 1\nserver_bytes_per_s = 1TB/s\n";
    assert_near(step_on_ns(limited, 80e3, 20e3, 1, "", 4, four),
                step_ns(80e3, 20e3, 1, "", 4, four), 1e-9);
    assert_near(step_on_ns(limited, 80e3, 20e3, 1, "", 8, four),
                step_ns(80e3, 20e3, 1, "", 8, PS "shards = 1\n" SLOW_PROCESS), 1e-9);
    assert_near(step_on_ns(limited, 80e3, 20e3, 1, "", 8, fast),
                step_ns(80e3, 20e3, 1, "", 8, fast), 1e-9);
    assert_true(step_on_ns(limited, 80e3, 20e3, 1, "", 8, four) >
                1e6 + 2 * 8 * 10 * 100e3); /* 10 ns per byte, in both directions */
}

/* With more shards than tensors, those without tensors do nothing. */
static void a_shard_may_have_no_tensor(void **state DL_UNUSED)
{
    assert_near(step_ns(80e3, 20e3, 1, "", 1, PS "shards = 4\ntensors = round_robin\n"),
                step_ns(80e3, 20e3, 1, "", 1, PS "shards = 2\ntensors = round_robin\n"), 1e-9);
}

/* Connections and shards are independent: the first layer's 20 kB, on the own node, do not wait for
 * the 80 kB over the wire, which were ready at 550 us. */
static void connections_do_not_wait_for_one_another(void **state DL_UNUSED)
{
    const char *rest = PS "shards = 2\ntensors = round_robin\noverlap = yes\n";
    const double last_ns = 550e3 + 2 * WIRE_NS(80e3) + 2 * 80e3;
    const double first_ns = 1e6 + 2 * PCIE_NS(20e3) + 2 * 20e3;
    assert_true(first_ns > last_ns);
    assert_near(step_ns(80e3, 20e3, 1, "", 1, rest), first_ns, 1e-5);
    assert_near(step_ns(400e3, 20e3, 1, "", 1, rest), 550e3 + 2 * WIRE_NS(400e3) + 2 * 400e3, 1e-5);
}

/* Four workers of 1, 2, 3 and 4 ms. Summed at once, four gradients are read and the sum is written
 * after the last arrival: 5 ns per byte. On arrival three of them are already summed by then;
 * adding the fourth and the update take 3 and 2 ns per byte. Pulls share their switch or the wire.
 * Sums on arrival work tensor by tensor: 80 and 20 kB, each fetched when it is summed. */
static void gradients_are_added_as_they_come(void **state DL_UNUSED)
{
    const char *slow = "[noise]\nslow = 1:2, 2:3, 3:4\n";
    char rest[256];
    const double ways_ns = PCIE_NS(100e3) + PCIE_NS(2 * 100e3);
    snprintf(rest, sizeof rest, PS "sum = on_arrival\n%s", slow);
    assert_near(step_ns(80e3, 20e3, 1, "", 4, rest),
                4e6 + PCIE_NS(80e3) + 5 * 100e3 + PCIE_NS(2 * 20e3), 1e-5);
    snprintf(rest, sizeof rest, PS "%s", slow);
    assert_near(step_ns(80e3, 20e3, 1, "", 4, rest), 4e6 + ways_ns + 5 * 100e3, 1e-5);
    /* One pass reads all gradients: 8 of them take 9 ns per byte, on arrival still 5. */
    const char *eight = "[noise]\nslow = 1:2, 2:3, 3:4, 4:5, 5:6, 6:7, 7:8\n";
    const double far_ns = WIRE_NS(100e3) + WIRE_NS(4 * 100e3);
    snprintf(rest, sizeof rest, PS "%s", eight);
    assert_near(step_ns(80e3, 20e3, 1, "", 8, rest), 8e6 + far_ns + 9 * 100e3, 1e-5);
    snprintf(rest, sizeof rest, PS "sum = on_arrival\n%s", eight);
    assert_near(step_ns(80e3, 20e3, 1, "", 8, rest),
                8e6 + WIRE_NS(80e3) + 5 * 80e3 + WIRE_NS(4 * 80e3) + WIRE_NS(4 * 20e3), 1e-5);
    /* Two equal workers on separate switches: the server copies, adds and applies the 80 kB, then
     * the 20 kB, which have arrived by then. */
    const char *together = PS "sum = on_arrival\n";
    assert_near(step_ns(80e3, 20e3, 1, "gpus = 0, 2\n", 2, together),
                1e6 + PCIE_NS(80e3) + (2 + 3 + 2) * (80e3 + 20e3) + PCIE_NS(20e3), 1e-5);
}

/* The first layer's 20 kB are on the own node, the last layer's 800 kB on the other: 3.2208 ms from
 * their gradients to their parameters, for which the last layer's pass waits long after the first
 * layer's has ended. */
static void a_layer_waits_for_its_own_fetch(void **state DL_UNUSED)
{
    const char *both = PS "shards = 2\ntensors = round_robin\noverlap = yes\nfetch = %s\n";
    const double push_ns = WIRE_NS(800e3), sum_ns = 2 * 800e3;
    const struct {
        const char *fetch;
        double ns;
    } cases[] = {
        /* Forward, the last layer's part of the backward pass, and its round trip. */
        {"summed", 550e3 + push_ns + sum_ns + push_ns},
        {"after", 550e3 + push_ns + sum_ns + push_ns},
        {"pushed", 550e3 + push_ns + sum_ns + push_ns},
        /* Its parts of the forward and of the backward pass, and its round trip. */
        {"layers", 250e3 + push_ns + sum_ns + push_ns},
        {"next_step", 250e3 + push_ns + sum_ns + push_ns},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rest[256];
        snprintf(rest, sizeof rest, both, cases[i].fetch);
        assert_near(step_ns(800e3, 20e3, 1, "", 1, rest), cases[i].ns, 1e-5);
    }
}

/* A run lasts until the last parameters have arrived: the first step's forward pass waits for
 * nothing, and nothing hides the last fetch. */
static void a_run_ends_with_its_last_fetch(void **state DL_UNUSED)
{
    static const char *const fetches[] = {"summed", "after", "pushed", "layers", "next_step"};
    const char *costs = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH;
    for (size_t i = 0; i < sizeof fetches / sizeof *fetches; i++) {
        char rest[256];
        snprintf(rest, sizeof rest, PS "overlap = yes\nfetch = %s\n", fetches[i]);
        /* One tensor, ready at the end: two workers share a switch, and three vectors are moved. */
        dl_run_result r = fixture_run_gpus(costs, "", 2, 1, rest);
        assert_near(1e9 * r.span_s, 1e6 + 2 * PCIE_NS(2 * 80e3) + 3 * 80e3, 1e-5);
        dl_run_result_free(&r);
        r = fixture_run_gpus(costs, "", 2, 3, rest);
        assert_near(1e9 * r.span_s, 3 * (1e6 + 2 * PCIE_NS(2 * 80e3) + 3 * 80e3), 1e-5);
        dl_run_result_free(&r);
    }
}

/* One server on the other node, which sums at 0.05 ns per byte (its memory's 40 GB/s, a read and a
 * write). After all tensors are summed, they are fetched in the order of the layers. */
static void what_the_barrier_leaves_to_hide(void **state DL_UNUSED)
{
    /* Pushed in sequence: the last layer's from 550 us on; the first layer's 20 kB arrive while
     * these are summed. */
    const double summed_ns = 550e3 + WIRE_NS(800e3) + 0.05 * 820e3;
    const double fetch_ns = WIRE_NS(20e3) + WIRE_NS(800e3);
    /* To within 0.5 us: a push crosses the memory that the sum reads. */
    assert_near(step_ns(800e3, 20e3, 1e-3, "gpus = 4\n", 1, PS "overlap = yes\nfetch = after\n"),
                summed_ns + fetch_ns, 3e-4);
    /* The last layer's fetch hides the first layer's 300 us. */
    assert_near(
        step_ns(800e3, 20e3, 1e-3, "gpus = 4\n", 1, PS "overlap = yes\nfetch = next_step\n"),
        summed_ns + fetch_ns - 300e3, 3e-4);
    /* Without overlap both passes end before the push, like gradients ready at 1 ms. */
    assert_near(step_ns(800e3, 20e3, 1e-3, "gpus = 4\n", 1, PS "fetch = next_step\n"),
                summed_ns + 450e3 + fetch_ns - 300e3, 3e-4);
    /* Simultaneously: 20 kB of each share the wire (40 kB), then the rest of the 800 kB; the first
     * layer's pass hides as before. */
    assert_near(step_ns(800e3, 20e3, 1e-3, "gpus = 4\n", 1,
                        PS "overlap = yes\nfetch = next_step\norder = together\n"),
                550e3 + WIRE_NS(800e3) + 20e3 + 0.05 * 800e3 + WIRE_NS(820e3) - 300e3, 1e-4);
}

/* The same server: the last layer's 100 kB are summed long before the first layer's 20 kB are
 * ready, at 1 ms. Only then does the program fetch, the 100 kB first, as they were pushed first. */
static void nothing_is_fetched_before_the_last_push(void **state DL_UNUSED)
{
    const char *rest = PS "overlap = yes\nfetch = %s\n";
    char summed[100], pushed[100], after[100];
    snprintf(summed, sizeof summed, rest, "summed");
    snprintf(pushed, sizeof pushed, rest, "pushed");
    snprintf(after, sizeof after, rest, "after");
    const double first_ns = WIRE_NS(20e3) + 0.05 * 20e3;
    assert_near(step_ns(100e3, 20e3, 1e-3, "gpus = 4\n", 1, summed), 1e6 + first_ns + WIRE_NS(20e3),
                3e-4);
    assert_near(step_ns(100e3, 20e3, 1e-3, "gpus = 4\n", 1, pushed),
                1e6 + WIRE_NS(100e3) + WIRE_NS(20e3), 3e-4);
    assert_near(step_ns(100e3, 20e3, 1e-3, "gpus = 4\n", 1, after),
                1e6 + first_ns + WIRE_NS(20e3) + WIRE_NS(100e3), 3e-4);
    /* A sum still in progress at the last push is fetched at its end, as early as with summed. */
    assert_near(step_ns(800e3, 20e3, 1e-3, "gpus = 4\n", 1, pushed),
                step_ns(800e3, 20e3, 1e-3, "gpus = 4\n", 1, summed), 1e-9);
}

/* The same server, 800 kB in slices of 100 kB: 110.4 us in each direction, 5 us to sum. In the
 * layers' order the first layer's tensor, ready at 1000 us (1031.2, see below), is next after the
 * fifth slice, which is pushed at 550 + 5 x 110.4 = 1102 us: pushed at 1132.4, summed at 1133.4,
 * fetched after the fifth slice, from 1217.4 to 1247.8. The last slice returns at 1579, 331.2 us
 * later, 31.2 after the first layer's pass: all of the next step's times are later by these 31.2
 * us. In the order of readiness, the first layer's comes last, at 1579. */
static void the_layer_needed_first_goes_first(void **state DL_UNUSED)
{
    const char *rest = PS "overlap = yes\nfetch = layers\nslice_bytes = 100kB\norder = %s\n";
    char ready[200], forward[200];
    snprintf(ready, sizeof ready, rest, "ready");
    snprintf(forward, sizeof forward, rest, "forward");
    assert_near(step_ns(800e3, 20e3, 1e-3, "gpus = 4\n", 1, ready), 1579e3, 2e-4);
    assert_near(step_ns(800e3, 20e3, 1e-3, "gpus = 4\n", 1, forward), 1279e3, 2e-4);
}

/* Two nodes of four GPUs, one tensor. The summing GPU of a node takes 3 x 80 kB from the others
 * over its link of 10 GB/s, and reads four and writes one vector in its memory of 100 GB/s; then
 * one push per node, a sum of two vectors, and the same back. Without node_sum the wire carries
 * four times 80 kB, and the server sums eight vectors. */
static void a_node_pushes_one_sum(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH;
    const double local_ns = PCIE_NS(3 * 80e3);
    assert_near(fixture_step_ns(costs, "", 8, PS "node_sum = yes\n"),
                1e6 + local_ns + 5 * 80e3 / 100 + WIRE_NS(80e3) + 3 * 80e3 + WIRE_NS(80e3) +
                    local_ns,
                1e-5);
    assert_near(fixture_step_ns(costs, "", 8, PS),
                1e6 + WIRE_NS(4 * 80e3) + 9 * 80e3 + WIRE_NS(4 * 80e3), 1e-5);
    /* The summing GPU compresses: a read, and a write of half as much at 0.85 of its memory. */
    assert_near(fixture_step_ns(costs, "", 8, PS "node_sum = yes\ncompress = fp16\n"),
                1e6 + local_ns + (5 + 1.5 / 0.85) * 80e3 / 100 + WIRE_NS(40e3) + 3 * 80e3 +
                    WIRE_NS(80e3) + local_ns,
                1e-5);
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "", 8, 20, PS "node_sum = yes\n");
    /* In each direction: 3 copies in each of two nodes, and two to the server. */
    assert_near(r.usage.traffic_bytes, 20.0 * 2 * (2 * 3 + 2) * 80e3, 1e-9);
}

/* With one worker on each node there is no sum before the push. */
static void a_node_of_one_sums_nothing(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH;
    assert_near(fixture_step_ns(costs, "gpus = 0, 4\n", 2, PS "node_sum = yes\n"),
                fixture_step_ns(costs, "gpus = 0, 4\n", 2, PS), 1e-5);
    assert_near(fixture_step_ns(costs, "gpus = 0, 4\n", 2, PS "node_sum = yes\ncompress = int8\n"),
                fixture_step_ns(costs, "gpus = 0, 4\n", 2, PS "compress = int8\n"), 1e-5);
}

/* As many shards as nodes with workers: one for four workers; two for eight, half each. */
static void as_many_shards_as_nodes(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH;
    assert_near(fixture_step_ns(costs, "", 4, PS "shards = nodes\n"),
                fixture_step_ns(costs, "", 4, PS "shards = 1\n"), 1e-9);
    assert_near(fixture_step_ns(costs, "", 8, PS "shards = nodes\n"),
                fixture_step_ns(costs, "", 8, PS "shards = 2\n"), 1e-9);
}

/* The last layer's 20 kB go to the other node, the first layer's 800 kB to the shard on their own
 * node. With copies by connection neither waits for the other: they share the GPU's link of 10
 * GB/s. With one copy thread per GPU the 800 kB, ready at the same time, wait for the 20 kB, whose
 * fetch then waits for them. */
static void a_copy_thread_makes_one_copy_at_a_time(void **state DL_UNUSED)
{
    const char *by_gpu = PS "shards = 2\ntensors = round_robin\ncopies = gpu\n";
    const char *both = PS "shards = 2\ntensors = round_robin\n";
    const double own_ns = 2 * PCIE_NS(800e3) + 2 * 800e3;
    assert_near(step_ns(20e3, 800e3, 1, "", 1, both), 1e6 + own_ns + 2 * 20e3 / 10, 1e-5);
    assert_near(step_ns(20e3, 800e3, 1, "", 1, by_gpu), 1e6 + WIRE_NS(20e3) + own_ns, 1e-5);
    /* Two threads copy both simultaneously: the pushes share the link, and the 20 kB return before
     * the 800 kB have arrived. */
    assert_near(step_ns(20e3, 800e3, 1, "", 1,
                        PS "shards = 2\ntensors = round_robin\ncopies = gpu\ncopy_threads = 2\n"),
                1e6 + own_ns + 20e3 / 10, 1e-5);
}

/* A server on GPU 0, which is a worker's; the other worker, on GPU 2, sums 300 and 20 kB there
 * (three vectors in a memory of 100 GB/s). Without peer access between them: four edges of 100 ns,
 * and 5 GB/s for copies staged by the driver, or the links' 10. The last layer's round trip is
 * hidden by the backward pass, but its sum stops GPU 0, whose first layer is ready after that of
 * GPU 2 has arrived. If such copies stop both GPUs, nothing is hidden. */
static void staged_copies_stop_both_gpus(void **state DL_UNUSED)
{
    const char *beside = "[sync]\nmode = ps\nwhere = gpu:0\n[exchange]\noverlap = yes\n";
    const char *alone =
        "[sync]\nmode = ps\nwhere = gpu:0\n[exchange]\noverlap = yes\nstaged = alone\n";
    const struct {
        const char *machine;
        double byte_ns;
    } cases[] = {
        {FIXTURE_GPUS_OF("peer = none\nstaged_bytes_per_s = 5GB/s\n"), 0.2},
        {FIXTURE_GPUS_OF("peer = none\n"), 0.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double last_ns = 2 * (400 + cases[i].byte_ns * 300e3);
        const double way_ns = 400 + cases[i].byte_ns * 20e3, sums_ns = 3 * 320e3 / 100;
        assert_near(step_on_ns(cases[i].machine, 300e3, 20e3, 1, "gpus = 0, 2\n", 2, beside),
                    1e6 + sums_ns + way_ns, 1e-5);
        assert_near(step_on_ns(cases[i].machine, 300e3, 20e3, 1, "gpus = 0, 2\n", 2, alone),
                    1e6 + last_ns + sums_ns + 2 * way_ns, 1e-5);
    }
    /* With peer access no copy is staged. */
    assert_near(step_ns(300e3, 20e3, 1, "gpus = 0, 2\n", 2, alone),
                step_ns(300e3, 20e3, 1, "gpus = 0, 2\n", 2, beside), 1e-9);
}

/* Two buckets of 50 kB, both ready at the end of the step: the second is pushed, and the first is
 * fetched, while the other one is summed, at 1 ns for each byte read or written. */
static void buckets_are_sent_one_by_one(void **state DL_UNUSED)
{
    const double bucket = 50e3;
    assert_near(step_ns(80e3, 20e3, 1, "", 1, PS "bucket_bytes = 50000\n"),
                1e6 + 2 * PCIE_NS(bucket) + 2 * 2 * bucket, 1e-5);
    assert_near(step_ns(80e3, 20e3, 1, "", 1, PS), 1e6 + 2 * PCIE_NS(100e3) + 2 * 100e3, 1e-5);
}

/* With a lag of one step, a step takes as long as the slower of computing, 1 ms, and the exchange,
 * which is what a step without a lag takes beside computing. */
static void tensors_may_lag(void **state DL_UNUSED)
{
    static const char *const settings[] = {
        "bucket_bytes = 30000\n",
        "slice_bytes = 7000\n",
        "sum = on_arrival\n",
        "fetch = after\n",
        "fetch = pushed\norder = together\n",
        "order = forward\ncopies = gpu\ncopy_threads = 2\n",
        "node_sum = yes\nshards = nodes\ntensors = round_robin\n",
    };
    for (size_t i = 0; i < 2 * sizeof settings / sizeof *settings; i++) {
        const double bytes = i % 2 > 0 ? 1e6 : 10e3;
        const DL_AUTOFREE char *alone =
            dl_format("[sync]\nmode = ps\n[exchange]\n%s", settings[i / 2]);
        const DL_AUTOFREE char *lags =
            dl_format("[sync]\nmode = ps\nlag = 1\n[exchange]\n%s", settings[i / 2]);
        const char *gpus = "gpus = 0, 1, 4, 5\n";
        const double exchange_ns = step_ns(0.8 * bytes, 0.2 * bytes, 1, gpus, 4, alone) - 1e6;
        assert_true((exchange_ns > 1e6) == (i % 2 > 0));
        assert_near(step_ns(0.8 * bytes, 0.2 * bytes, 1, gpus, 4, lags), fmax(1e6, exchange_ns),
                    1e-5);
    }
}

/* With two micro-batches only the first forward pass waits for parameters, and only the second
 * backward pass sends gradients: a step takes as long as with one, and one pass of 1 ms more. */
static void only_the_first_pass_waits_for_layers(void **state DL_UNUSED)
{
    static const char *const settings[] = {
        "ps\n[exchange]\noverlap = yes\nfetch = layers\n",
        "ps\n[exchange]\nfetch = layers\nslice_bytes = 70000\n",
        "ps\n[exchange]\noverlap = yes\nfetch = next_step\ncompress = fp16\n",
        "async\n[exchange]\noverlap = yes\nfetch = layers\norder = forward\n",
    };
    char path[64];
    dl_costs costs =
        fixture_costs("[costs]\nschema = 1\nparameter_bytes = 1000000\n" FIXTURE_PASSES
                      "[gradients]\nready_1 = 0.25, 800000\nready_2 = 1, 1000000\n"
                      "[update]\nlatency_ns = 0\nread_bytes_per_s = 4e9\nwrite_bytes_per_s = 4e9\n"
                      "[sync]\nbarrier_ns = 0\nlock_ns = 0\n" FIXTURE_FREE_DISPATCH);
    snprintf(path, sizeof path, "gpu_passes_%d.ini", (int)getpid());
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        double of_ns[2];
        for (int passes = 1; passes <= 2; passes++) {
            fixture_write(path, FIXTURE_GPUS);
            DL_SCOPED(dl_scenario) s = fixture_scenario(
                "[scenario]\nsteps = 20\n[machine]\nfile = %s\nworkers = 1\n[workload]\n"
                "costs = c.ini\nbatch_per_worker = 2\n[sync]\naccumulate = %d\nmode = %s",
                path, passes, settings[i]);
            unlink(path);
            DL_SCOPED(dl_run_result) r = fixture_run(&costs, &s);
            of_ns[passes - 1] = 1e9 * r.step_p50_s;
        }
        assert_true(of_ns[0] > 1.05e6);
        assert_near(of_ns[1], of_ns[0] + 1e6, 1e-6);
    }
    dl_costs_free(&costs);
}

/* A single worker's gradient is applied as soon as it is summed: async is ps. */
static void one_worker_is_never_late(void **state DL_UNUSED)
{
    static const char *const settings[] = {
        "bucket_bytes = 30000\n",
        "overlap = yes\n",
        "overlap = yes\nfetch = after\nslice_bytes = 7000\n",
        "overlap = yes\nfetch = pushed\norder = forward\n",
        "overlap = yes\nfetch = layers\norder = together\n",
        "fetch = next_step\nshards = 2\ntensors = round_robin\n",
        "overlap = yes\ncompress = fp16\ncopies = gpu\nshards = 2\n",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        double of_ns[2];
        for (int async = 0; async < 2; async++) {
            const DL_AUTOFREE char *rest =
                dl_format("[sync]\nmode = %s\n[exchange]\n%s", async ? "async" : "ps", settings[i]);
            of_ns[async] = step_ns(800e3, 200e3, 1, "", 1, rest);
        }
        assert_near(of_ns[1], of_ns[0], 1e-9);
    }
}

/* A list of modes may have sum = on_arrival for ps: it does not change async, whose server sums
 * nothing, with or without tensors of their own. */
static void a_sum_on_arrival_is_not_of_async(void **state DL_UNUSED)
{
    static const char *const settings[] = {"", "overlap = yes\n"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        double of_ns[2];
        for (int sums = 0; sums < 2; sums++) {
            const DL_AUTOFREE char *rest = dl_format("[sync]\nmode = async, ps\n[exchange]\n%s%s",
                                                     settings[i], sums ? "sum = on_arrival\n" : "");
            of_ns[sums] = step_ns(80e3, 20e3, 0.1, "gpus = 0, 1, 2, 3\n", 4, rest);
        }
        assert_near(of_ns[1], of_ns[0], 1e-9);
    }
}

/* Four workers whose server, at 2 ns for each byte of a gradient, limits them: in a step it applies
 * the four gradients one after another, and each is as many updates stale as there are other
 * workers. */
static void tensors_are_applied_one_by_one(void **state DL_UNUSED)
{
    static const char *const fetches[] = {"summed", "after", "pushed", "layers", "next_step"};
    static const char costs[] =
        "[costs]\nschema = 1\nparameter_bytes = 1000000\n" FIXTURE_PASSES
        "[gradients]\nready_1 = 0.25, 800000\nready_2 = 1, 1000000\n"
        "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"
        "[sync]\nbarrier_ns = 0\nlock_ns = 0\n" FIXTURE_FREE_DISPATCH;
    for (size_t f = 0; f < sizeof fetches / sizeof *fetches; f++) {
        const DL_AUTOFREE char *rest =
            dl_format("[sync]\nmode = async\n[exchange]\noverlap = yes\nfetch = %s\n", fetches[f]);
        DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "gpus = 0, 1, 2, 3\n", 4, 400, rest);
        double stale = 0, count = 0;
        for (int w = 0; w < 4; w++) {
            stale += (double)r.worker_stale_sum[w];
            count += (double)r.worker_stale_count[w];
        }
        assert_near(r.step_mean_s, 4 * 2 * 1e6 * 1e-9, 2e-3);
        assert_near(stale / count, 3, 2e-3);
    }
}

/* Tensors of ssp are fetched once its bound permits: with a bound that is never reached they are
 * those of async that are fetched after the last one is applied. With bound 0 all workers do as
 * many steps as the one whose passes take twice as long. */
static void tensors_are_fetched_within_the_bound(void **state DL_UNUSED)
{
    static const char *const fetches[] = {"summed", "after", "next_step"};
    static const char form[] = "[noise]\nslow = 0:2\n[sync]\nmode = %s\n[exchange]\n"
                               "overlap = yes\nfetch = %s\n";
    for (size_t f = 0; f < sizeof fetches / sizeof *fetches; f++) {
        static const char *const modes[] = {"async", "ssp\nbound = 1000", "ssp\nbound = 0"};
        double of_s[3];
        for (int m = 0; m < 3; m++) {
            const char *fetch = f == 0 && m == 0 ? "after" : fetches[f];
            const DL_AUTOFREE char *rest = dl_format(form, modes[m], fetch);
            DL_SCOPED(dl_run_result) r = fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH,
                                                          "gpus = 0, 1, 2, 3\n", 4, 100, rest);
            of_s[m] = r.step_mean_s;
        }
        assert_near(of_s[1], of_s[0], 1e-9);
        assert_true(of_s[2] > 1.2 * of_s[1]);
    }
}

/* In a list of modes, ps and async fetch as [exchange] says, and ssp as its bound allows. */
static void modes_of_a_list_fetch_as_they_can(void **state DL_UNUSED)
{
    char path[64];
    snprintf(path, sizeof path, "fetches_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    dl_scenario s = fixture_scenario("[machine]\nfile = %s\nworkers = 2\n[workload]\ncosts = c\n"
                                     "batch_per_worker = 1\n[sync]\nmode = ps, ssp\nbound = 1\n"
                                     "[exchange]\nfetch = layers\n",
                                     path);
    unlink(path);
    assert_int_equal(dl_scenario_exchange(&s, &s.points[0]).fetch, DL_FETCH_LAYERS);
    assert_int_equal(dl_scenario_exchange(&s, &s.points[1]).fetch, DL_FETCH_AFTER);
    dl_scenario_free(&s);
}

/* The 80 kB of the last layer are hidden behind the backward pass. After it the 20 kB of the first
 * one are pushed, applied and fetched: workers come one after another once they have met. */
static void asynchronous_pushes_overlap(void **state DL_UNUSED)
{
    const char *rest = "[sync]\nmode = async\n[exchange]\noverlap = yes\n";
    assert_near(step_ns(80e3, 20e3, 0.1, "gpus = 0, 2\n", 2, rest),
                1e6 + 2 * PCIE_NS(20e3) + 2 * 0.1 * 20e3, 1e-5);
    /* Whole vectors, unless overlap is given. */
    assert_near(step_ns(80e3, 20e3, 0.1, "gpus = 0, 2\n", 2, "[sync]\nmode = async\n"),
                1e6 + 2 * PCIE_NS(100e3) + 2 * 0.1 * 100e3, 1e-5);
}

/* One gradient: the optimizer applies it in one pass, with Adam's two vectors of state 4 reads and
 * 3 writes of 80 kB at an assumed 1 ns per byte, with momentum 3 and 2, without state in the pass
 * of the sum, 1 and 1. Two gradients are summed first, which takes 2 reads and a write. At a
 * measured rate, which includes the optimizer, it is always 1 and 1. */
static void an_optimizer_is_known_by_its_state(void **state DL_UNUSED)
{
    static const char *const states[] = {"160000", "80000", "0"};
    static const double vectors[] = {7, 5, 2}, of_two[] = {10, 8, 3};
    for (int i = 0; i < 3; i++) {
        char costs[640];
        snprintf(costs, sizeof costs,
                 "[costs]\nschema = 1\nparameter_bytes = 80000\nstate_bytes = %s\n" FIXTURE_PASSES
                     FIXTURE_UPDATE
                 "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9, assumed\nwrite_bytes_per_s = "
                 "1e9\n[sync]\nbarrier_ns = 0\nlock_ns = 0\n" FIXTURE_FREE_DISPATCH,
                 states[i]);
        DL_AUTOFREE char *text = dl_strdup(costs);
        assert_near(fixture_step_ns(costs, "", 1, "[sync]\nmode = async\n"),
                    1e6 + 2 * PCIE_NS(80e3) + vectors[i] * 80e3, 1e-5);
        assert_near(fixture_step_ns(costs, "", 2, PS),
                    1e6 + 2 * PCIE_NS(2 * 80e3) + of_two[i] * 80e3, 1e-5);
        dl_ini_text_set(&text, "update", "read_bytes_per_s", "1e9, measured");
        assert_near(fixture_step_ns(text, "", 1, "[sync]\nmode = async\n"),
                    1e6 + 2 * PCIE_NS(80e3) + 2 * 80e3, 1e-5);
        /* On the worker's own GPU the update takes as long as without exchange. */
        assert_near(fixture_step_ns(text, "", 1, "[sync]\nmode = async\nwhere = gpu:0\n"),
                    fixture_step_ns(text, "", 1, "[sync]\nmode = none\n"), 1e-5);
    }
}

/* An optimizer with momentum, in a pass after the sum: it reads the sum, parameters and momentum,
 * and writes the latter two. Summed at once, three gradients take 3 + 3 reads and 1 + 2 writes of
 * 80 kB at 1 ns per byte. On arrival, the last of three workers finds two gradients summed: adding
 * takes 2 reads and a write, the optimizer 3 and 2. softsync of one gradient, without a sum: 3
 * reads, 2 writes. */
static void an_optimizer_makes_a_pass_of_its_own(void **state DL_UNUSED)
{
    const char *costs = "[costs]\nschema = 1\nparameter_bytes = 80000\n"
                        "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"
                        "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n"
                        "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\n"
                        "write_bytes_per_s = 1e9\noptimizer_reads = 3\n"
                        "optimizer_writes = 2\n"
                        "[sync]\nbarrier_ns = 0\nlock_ns = 0\n" FIXTURE_FREE_DISPATCH;
    const char *slow = "[noise]\nslow = 1:2, 2:3\n";
    char rest[256];
    snprintf(rest, sizeof rest, PS "%s", slow);
    /* The slowest worker has its switch to itself; on arrival all wait for those that share one. */
    assert_near(fixture_step_ns(costs, "", 3, rest), 3e6 + 2 * PCIE_NS(80e3) + 9 * 80e3, 1e-5);
    snprintf(rest, sizeof rest, PS "sum = on_arrival\n%s", slow);
    assert_near(fixture_step_ns(costs, "", 3, rest),
                3e6 + PCIE_NS(80e3) + (3 + 5) * 80e3 + PCIE_NS(2 * 80e3), 1e-5);
    assert_near(fixture_step_ns(costs, "", 1, "[sync]\nmode = softsync\nn = 1\n"),
                1e6 + 2 * PCIE_NS(80e3) + 5 * 80e3, 1e-5);
}

/* Four workers that compute for 20 us. Summed at once, an update of four gradients takes 5 x 80 us,
 * during which three workers arrive with their next ones; the fourth then fetches and pushes,
 * concurrently with the others of its switch, and computes. On arrival the other gradients are
 * added meanwhile, and the server is never idle: a copy, three additions and the update take 2 + 3
 * x 3 + 2 times 80 us. */
static void softsync_adds_under_the_lock(void **state DL_UNUSED)
{
    const char *costs = "[costs]\nschema = 1\nparameter_bytes = 80000\n"
                        "[op a.forward]\nfixed_ns = 10000\nper_sample_ns = 0\n"
                        "[op a.backward]\nfixed_ns = 10000\nper_sample_ns = 0\n"
                        "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\n"
                        "write_bytes_per_s = 1e9\n[sync]\nbarrier_ns = 0\nlock_ns = 0\n" //
        FIXTURE_FREE_DISPATCH;
    const struct {
        const char *rest;
        double update_ns;
    } cases[] = {
        {"[sync]\nmode = softsync\n", 5 * 80e3 + 2 * PCIE_NS(2 * 80e3) + 20e3},
        {"[sync]\nmode = softsync\n[exchange]\nsum = on_arrival\n", 13 * 80e3},
        /* An update per gradient: there is no sum. */
        {"[sync]\nmode = softsync\nn = 4\n[exchange]\nsum = on_arrival\n", 2 * 80e3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "", 4, 400, cases[i].rest);
        assert_near(1e9 * r.span_s / (double)r.updates, cases[i].update_ns, 0.02);
    }
}

/* All copy threads of a GPU may be busy with messages, concurrently with the server's threads. */
static void every_copy_thread_may_be_busy(void **state DL_UNUSED)
{
    dl_run_result one = fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "", 1, 5,
                                         "[sync]\nmode = ps\nwhere = cpu\nserver_threads = 4\n"
                                         "[exchange]\ncopies = gpu\ncopy_threads = 4\n"
                                         "slice_bytes = 8000\n");
    /* One GPU's messages share its link, for any number of sending threads. */
    dl_run_result whole = fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "", 1, 5,
                                           "[sync]\nmode = ps\nwhere = cpu\nserver_threads = 4\n"
                                           "[exchange]\ncopies = gpu\nslice_bytes = 8000\n");
    assert_near(one.step_mean_s, whole.step_mean_s, 0.01);
    dl_run_result_free(&one);
    dl_run_result_free(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_copy_thread_may_be_busy),
        cmocka_unit_test(shards_have_whole_tensors),
        cmocka_unit_test(a_process_serves_all_its_connections),
        cmocka_unit_test(a_machine_limits_servers_of_several_nodes),
        cmocka_unit_test(a_shard_may_have_no_tensor),
        cmocka_unit_test(connections_do_not_wait_for_one_another),
        cmocka_unit_test(gradients_are_added_as_they_come),
        cmocka_unit_test(a_layer_waits_for_its_own_fetch),
        cmocka_unit_test(a_run_ends_with_its_last_fetch),
        cmocka_unit_test(what_the_barrier_leaves_to_hide),
        cmocka_unit_test(nothing_is_fetched_before_the_last_push),
        cmocka_unit_test(the_layer_needed_first_goes_first),
        cmocka_unit_test(a_node_pushes_one_sum),
        cmocka_unit_test(a_node_of_one_sums_nothing),
        cmocka_unit_test(as_many_shards_as_nodes),
        cmocka_unit_test(a_copy_thread_makes_one_copy_at_a_time),
        cmocka_unit_test(staged_copies_stop_both_gpus),
        cmocka_unit_test(buckets_are_sent_one_by_one),
        cmocka_unit_test(tensors_may_lag),
        cmocka_unit_test(only_the_first_pass_waits_for_layers),
        cmocka_unit_test(one_worker_is_never_late),
        cmocka_unit_test(a_sum_on_arrival_is_not_of_async),
        cmocka_unit_test(tensors_are_applied_one_by_one),
        cmocka_unit_test(tensors_are_fetched_within_the_bound),
        cmocka_unit_test(modes_of_a_list_fetch_as_they_can),
        cmocka_unit_test(asynchronous_pushes_overlap),
        cmocka_unit_test(an_optimizer_is_known_by_its_state),
        cmocka_unit_test(an_optimizer_makes_a_pass_of_its_own),
        cmocka_unit_test(softsync_adds_under_the_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
