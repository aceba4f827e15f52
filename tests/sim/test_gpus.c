/* Steps on GPUs against closed forms; tests/gpu_fixture.h has the numbers. */
#include <stdlib.h>

#include "sim/report/columns.h"
#include "sim/scenario/without.h"
#include "tests/gpu_fixture.h"

#define COSTS FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH
#define PS_CPU "[sync]\nmode = ps\n"
#define COPY_NS 8200.0 /* 80 kB at 10 GB/s, two edges of 100 ns */

static void assert_step(double actual_ns, double expected_ns)
{
    if (fabs(actual_ns - expected_ns) > 3) fail_msg("%.1f is not %.1f ns", actual_ns, expected_ns);
}

static void a_step_computes_and_updates(void **state DL_UNUSED)
{
    assert_step(fixture_step_ns(COSTS, "", 8, ""), 1.1e6);
    assert_step(fixture_step_ns(COSTS, "gpus = 1, 7\n", 2, ""), 1.1e6);
    assert_step(fixture_step_ns(COSTS, "", 2, "[noise]\nslow = 0:3, 1:3\n"), 3.1e6);
}

/* A step starts when the host has issued it: serial 100 us, plus 300 us per GPU. */
static void the_host_limits_many_gpus(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS "[dispatch]\nserial_ns = 1e5\nper_worker_ns = 3e5\n";
    for (int n = 1; n <= 8; n++) {
        double host_ns = 1e5 + n * 3e5, gpu_ns = 1.1e6;
        double step = fixture_step_ns(costs, "dispatch = single\n", n, "");
        assert_step(step, host_ns > gpu_ns ? host_ns : gpu_ns);
        assert_step(fixture_step_ns(costs, "dispatch = per_gpu\n", n, ""), 1.1e6);
    }
    assert_step(fixture_step_ns(costs, "dispatch = per_gpu\nahead = 0\n", 4, ""), 1.2e6);
}

/* Four GPUs compute for 1.1 of the 1.3 ms that their launches take: launches limit the step,
 * although most of the time is compute. Three are launched in 1 ms. */
static void a_host_that_always_launches_binds(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS "[dispatch]\nserial_ns = 1e5\nper_worker_ns = 3e5\n";
    for (int n = 3; n <= 4; n++) {
        char bound[DL_BOUND_TEXT_BYTES];
        DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "dispatch = single\n", n, 200, "");
        const dl_row row = {.mean = r};
        const dl_result result = {.row = &row};
        assert_near(r.part_frac[DL_PART_COMPUTE], n == 4 ? 1.1 / 1.3 : 1, 0.01);
        assert_string_equal(dl_result_bound(&result, bound), n == 4 ? "host" : "compute");
    }
}

/* External waits of 700 us block the thread once per step, for any number of its GPUs; without
 * external they disappear, at half they are halved. */
static void external_waits_hold_a_thread_once(void **state DL_UNUSED)
{
    const char *text =
        FIXTURE_GPU_COSTS "[dispatch]\nserial_ns = 1e5\nper_worker_ns = 3e5\nexternal_ns = 7e5\n";
    for (int n = 1; n <= 8; n++)
        assert_step(fixture_step_ns(text, "dispatch = single\n", n, ""), 8e5 + n * 3e5);
    assert_step(fixture_step_ns(text, "dispatch = per_gpu\nahead = 0\n", 4, ""), 1.9e6);
    unsigned set = 0;
    dl_scenario scenario = {0};
    DL_SCOPED(dl_costs) costs = fixture_costs(text);
    assert_int_equal(dl_without_parse("external", &set, NULL), DL_OK);
    dl_without_lessen(set, 0.5, &scenario, &costs);
    assert_near(costs.dispatch.external_ns.value, 3.5e5, 1e-12);
    dl_without_apply(set, &scenario, &costs);
    assert_true(costs.dispatch.external_ns.value == 0 && costs.dispatch.per_worker_ns.value == 3e5);
}

/* [op dispatch] is added for each GPU. */
static void the_operation_dispatch_is_the_hosts(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS "[dispatch]\nserial_ns = 1e5\nper_worker_ns = 3e5\n"
                                          "[op dispatch]\nfixed_ns = 2e5\nper_sample_ns = 1e5\n";
    assert_step(fixture_step_ns(costs, "dispatch = single\n", 4, ""), 1e5 + 4 * 6e5);
}

/* Push, sum by one thread at 1 ns per byte and vector, pull: for one GPU, both GPUs of a switch,
 * and all four, whose switches have a link each. */
static void a_server_in_host_memory(void **state DL_UNUSED)
{
    assert_step(fixture_step_ns(COSTS, "", 1, PS_CPU), 1e6 + 2 * COPY_NS + 2 * 80e3);
    double shared = 2 * 8000 + 200;
    assert_step(fixture_step_ns(COSTS, "", 2, PS_CPU), 1e6 + 2 * shared + 3 * 80e3);
    assert_step(fixture_step_ns(COSTS, "gpus = 0, 2\n", 2, PS_CPU), 1e6 + 2 * COPY_NS + 3 * 80e3);
    assert_step(fixture_step_ns(COSTS, "", 4, PS_CPU), 1e6 + 2 * shared + 5 * 80e3);
}

/* Each GPU copies at the full rate, although the four share two switches. */
static void without_contention_links_serve_all_at_once(void **state DL_UNUSED)
{
    for (int n = 1; n <= 4; n++) {
        DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
        char path[64];
        snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
        fixture_write(path, FIXTURE_GPUS);
        DL_SCOPED(dl_scenario) scenario =
            fixture_scenario("[scenario]\nsteps = 20\n"
                             "[machine]\nfile = %s\nworkers = %d\n"
                             "[workload]\ncosts = c.ini\nbatch = 12\n" PS_CPU,
                             path, n);
        unlink(path);
        unsigned without = 0;
        assert_int_equal(dl_without_parse("contention", &without, NULL), DL_OK);
        dl_without_apply(without, &scenario, &costs);
        DL_SCOPED(dl_run_result) r = fixture_run(&costs, &scenario);
        assert_step(1e9 * r.step_p50_s, 1e6 + 2 * COPY_NS + (n + 1) * 80e3);
        assert_near(r.usage.traffic_bytes, 20.0 * n * 2 * 80e3, 1e-9);
    }
}

/* Four threads sum a slice each, with a total demand above the memory's 40 GB/s. */
static void server_threads_share_the_memory(void **state DL_UNUSED)
{
    const char *four = "[sync]\nmode = ps\nserver_threads = 4\n";
    double shared = 2 * 8000 + 200;
    assert_step(fixture_step_ns(COSTS, "", 4, four), 1e6 + 2 * shared + 5 * 20e3);
    const char *fast = "[costs]\nschema = 1\nparameter_bytes = 80000\n"
                       "[op a.forward]\nfixed_ns = 1e6\nper_sample_ns = 0\n"
                       "[update]\nlatency_ns = 500\nread_bytes_per_s = 20e9\n"
                       "write_bytes_per_s = 20e9\n[sync]\nbarrier_ns = 0\n" FIXTURE_FREE_DISPATCH;
    /* 20 GB/s per thread would be 80 in total: 5 x 80 kB at 40 GB/s. */
    assert_step(fixture_step_ns(fast, "", 4, four), 1e6 + 2 * shared + 500 + 10e3);
}

/* The sum of n > 1 gradients moves (n + 1) x bytes in the GPU's memory of 100 GB/s, and the update
 * takes as long as a worker's, 0.1 ms. Worker 0 is on the server's GPU; worker 1 copies over the
 * switch, 2 and 3 over its link, which they share. */
static void a_server_on_a_gpu(void **state DL_UNUSED)
{
    const char *gpu = "[sync]\nmode = ps\nwhere = gpu:0\n";
    assert_step(fixture_step_ns(COSTS, "", 1, gpu), 1.1e6);
    assert_step(fixture_step_ns(COSTS, "", 2, gpu), 1.1e6 + 2 * COPY_NS + 2400);
    /* All three share the link of gpu0: 24 us in each direction, which hides the latencies of the
     * longer routes. */
    assert_near(fixture_step_ns(COSTS, "", 4, gpu), 1.1e6 + 2 * 24e3 + 4000, 400e-6);
}

/* Workers 0 and 1 compute 1 ms a step; the 0.1 ms of each update are the server's also where they
 * stop worker 0, which computes on its GPU. All that worker 0 does beside is its own update; the
 * rest of worker 1's time is its copies, its updates and waiting for the lock. */
static void a_gpu_that_serves_does_not_compute(void **state DL_UNUSED)
{
    dl_run_result r = fixture_run_gpus(COSTS, "", 2, 20, "[sync]\nmode = async\nwhere = gpu:0\n");
    const double all_s = r.worker_step_s[0] + r.worker_step_s[1];
    assert_true(r.worker_step_s[0] > 1.15e-3); /* is stopped in most of its steps */
    assert_near(r.part_frac[DL_PART_COMPUTE], 2e-3 / all_s, 1e-9);
    assert_near(r.part_frac[DL_PART_COMMUNICATION], 2 * 1e-9 * COPY_NS / all_s, 1e-9);
    dl_run_result_free(&r);
}

/* Two shards: half of the bytes to each node, with 1 GB/s between them. */
static void shards_are_on_the_nodes_in_turn(void **state DL_UNUSED)
{
    const char *shards = PS_CPU "[exchange]\nshards = 2\n";
    /* Route to the other node: gpu, switch, nic, port, port, nic: 4 x 100 + 2 x 5000 ns. */
    assert_step(fixture_step_ns(COSTS, "", 1, shards), 1e6 + 2 * (40e3 + 10400) + 2 * 40e3);
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(COSTS, "", 1, 20, shards);
    assert_near(r.usage.traffic_bytes, 20 * 160e3, 1e-12);
}

/* 2 GB/s through the staging copy. */
static void pageable_copies_are_staged(void **state DL_UNUSED)
{
    const char *costs = COSTS "[copy]\npageable_bytes_per_s = 2e9\n";
    assert_step(fixture_step_ns(costs, "pageable = yes\n", 2, PS_CPU),
                1e6 + 2 * (40e3 + 200) + 3 * 80e3);
}

/* Ring over two GPUs of a switch: 2 (a + S / (2 B)), each direction on separate links. */
static void all_reduce_is_a_collective(void **state DL_UNUSED)
{
    const char *ring = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n";
    assert_step(fixture_step_ns(COSTS, "", 2, ring), 1.1e6 + 2 * (200 + 4000));
    const char *average = "[sync]\nmode = average\nwhere = allreduce\naverage_state = yes\n"
                          "[exchange]\nalgorithm = ring\n";
    assert_step(fixture_step_ns(COSTS, "", 2, average), 1.1e6 + 2 * (200 + 6000));
    const char *buckets = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n"
                          "bucket_bytes = 30000\n";
    assert_step(fixture_step_ns(COSTS, "", 2, buckets), 1.1e6 + 6 * 200 + 8000);
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(COSTS, "", 4, 20, ring);
    assert_near(r.usage.traffic_bytes, 20 * 6 * 80e3, 1e-9); /* 2 (n - 1) S */
}

/* A measured all-reduce of 3 ms after 1.1 ms of compute and update: it loads no link, takes 30/41
 * of the time, and limits the step. One of 0.1 ms takes 1/12 of the time, and compute limits the
 * step. */
static void a_measured_all_reduce_binds(void **state DL_UNUSED)
{
    static const struct {
        const char *ns, *bound, *busiest;
        double frac;
    } cases[] = {{"3000000", "measured collectives", "measured collectives", 30.0 / 41},
                 {"100000", "compute", "gpu of worker 0", 1.0 / 12}};
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        char bound[DL_BOUND_TEXT_BYTES];
        char *costs = dl_format(COSTS "[collective allreduce 2]\nbytes_0 = %s\nbytes_1 = %s\n",
                                cases[i].ns, cases[i].ns);
        dl_run_result r = fixture_run_gpus(costs, "", 2, 200, "[sync]\nmode = allreduce\n");
        const dl_row row = {.mean = r};
        const dl_result result = {.row = &row};
        assert_near(r.usage.timed_frac, cases[i].frac, 0.01);
        assert_true(r.usage.link_frac == 0);
        assert_string_equal(r.usage.busiest, cases[i].busiest);
        assert_string_equal(dl_result_bound(&result, bound), cases[i].bound);
        dl_run_result_free(&r);
        free(costs);
    }
}

/* Push, update and pull take much less than a step: no worker waits. */
static void asynchronous_workers_go_on_alone(void **state DL_UNUSED)
{
    const char *async = "[sync]\nmode = async\n[noise]\nkind = none\nslow = 1:2\n";
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(COSTS, "gpus = 0, 2\n", 2, 21, async);
    assert_near(r.worker_step_s[0] * 1e9, 1e6 + 2 * COPY_NS + 160e3, 0.02);
    assert_near(r.worker_step_s[1] * 1e9, 2e6 + 2 * COPY_NS + 160e3, 0.03);
}

/* A server that is always busy, 1.6 ms per gradient, serves the next gradient while other workers
 * pull. */
static void a_server_serves_while_others_pull(void **state DL_UNUSED)
{
    const char *costs = "[costs]\nschema = 1\nparameter_bytes = 80000\n"
                        "[op a.forward]\nfixed_ns = 1e6\nper_sample_ns = 0\n"
                        "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e8\n"
                        "write_bytes_per_s = 1e8\n[sync]\nbarrier_ns = 0\n"
                        "lock_ns = 0\n" FIXTURE_FREE_DISPATCH;
    assert_step(fixture_step_ns(costs, "", 4, "[sync]\nmode = async\n"), 4 * 1.6e6);
    assert_step(fixture_step_ns(costs, "", 4, "[sync]\nmode = ssp\nbound = 1\n"), 4 * 1.6e6);
}

/* An update takes the gradients of two of three workers. The third worker waits for a gradient of
 * the others' next step, which the only host thread does not issue before the third worker has
 * ended its own. */
static void workers_wait_for_ever_on(const char *machine)
{
    static const char path[] = "stuck_gpus.ini";
    fixture_write(path, machine);
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = 5\n[machine]\nfile = %s\nworkers = 3\n"
                         "dispatch = single\nahead = 0\n"
                         "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n"
                         "[sync]\nmode = kasync\nk = 2\n",
                         path);
    unlink(path);
    const dl_run_config config = {
        .scenario = &scenario, .costs = &costs, .point = &scenario.points[0]};
    DL_SCOPED(dl_run_result) result = {.workers = 77};
    dl_error err = {0};
    assert_int_equal(dl_run(&config, &result, &err), DL_ERR_DATA);
    assert_contains(err.text, "forever");
    assert_contains(err.text, "kasync, k 2");
    assert_int_equal(result.workers, 77);
    scenario.gpu->dispatch = DL_DISPATCH_PER_GPU;
    assert_int_equal(dl_run(&config, &result, &err), DL_OK);
    dl_scenario_free(&scenario);
}

/* Other jobs never end. */
static void workers_that_wait_for_ever_are_an_error(void **state DL_UNUSED)
{
    workers_wait_for_ever_on(FIXTURE_GPUS);
    workers_wait_for_ever_on(FIXTURE_GPUS "[traffic a]\nfrom = 0\nto = 1\nbytes = 1000\n"
                                          "every_ns = 1000000\n");
}

static void parts_of_the_step_add_up(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS "[dispatch]\nserial_ns = 1e5\nper_worker_ns = 3e5\n";
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "dispatch = single\n", 8, 100, PS_CPU);
    double sum = 0;
    for (int p = 0; p < DL_PART_COUNT; p++)
        sum += r.part_frac[p];
    assert_near(sum, 1, 1e-12);
    assert_near(r.part_frac[DL_PART_COMPUTE], 1e6 / 2.5e6, 0.02);
    assert_string_equal(r.usage.busiest, "host thread 0");
    assert_near(r.usage.busiest_frac, 1, 0.02);
    assert_true(r.usage.link[0] != '\0' && r.usage.link_frac > 0);
}

/* Launches of 0.3 ms from threads of one process, each half as long again for each further GPU:
 * with four 0.3 (1 + 3/2) = 0.75 ms each, in sequence, plus the last GPU's step of 1.1 ms. Separate
 * processes have separate locks. */
static void launches_of_one_process_contend(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS "[dispatch]\nserial_ns = 0\nper_worker_ns = 3e5\n"
                                          "contention_frac = 0.5\n";
    const char *turns = "dispatch = single\nahead = 0\n";
    assert_near(fixture_step_ns(costs, turns, 1, ""), 1.1e6, 1e-5);
    assert_near(fixture_step_ns(costs, turns, 2, ""), 0.45e6 + 1.1e6, 1e-5);
    assert_near(fixture_step_ns(costs, turns, 4, ""), 3 * 0.75e6 + 1.1e6, 1e-5);
    assert_near(fixture_step_ns(costs, "dispatch = per_gpu\nahead = 0\n", 4, ""), 1.1e6, 1e-5);
}

typedef struct progress {
    double done[2000]; /* progress at each call */
    int count;
} progress;

static bool note_progress(void *user, double done_frac, double step_frac DL_UNUSED)
{
    progress *p = user;
    p->done[p->count++ % (int)DL_LENGTH(p->done)] = done_frac;
    return true;
}

/* 2,000 workers push to one server and advance together: when the first step ends, all others have
 * computed and pushed. Progress is therefore approximately the fraction of events done, not of
 * steps. */
static void progress_is_that_of_the_events(void **state DL_UNUSED)
{
    char path[64];
    snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_NODES("2001"));
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = 10\n[machine]\nfile = %s\nworkers = 2000\n[workload]\ncosts = c.ini\n"
        "batch_per_worker = 1\n[sync]\nmode = async\nwhere = gpu:2000\n"
        "[noise]\nkind = lognormal\nsigma = 0.001\n",
        path);
    unlink(path);
    progress p = {0};
    const dl_run_watch watch = {note_progress, &p};
    const dl_run_config config = {
        .scenario = &scenario, .costs = &costs, .point = &scenario.points[0], .watch = &watch};
    DL_SCOPED(dl_run_result) result = {0};
    dl_error err = {0};
    assert_int_equal(dl_run(&config, &result, &err), DL_OK);
    assert_true(p.count > 50 && p.count < (int)DL_LENGTH(p.done));
    int first = 0;
    while (p.done[first] <= 0)
        first++;
    for (int i = first; i < p.count; i++) {
        const double events = (double)(i + 1) / p.count;
        if (p.done[i] > events / 2 && p.done[i] < events * 2) continue;
        fail_msg("%g of the events, %g done", events, p.done[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_of_one_process_contend),
        cmocka_unit_test(a_step_computes_and_updates),
        cmocka_unit_test(the_host_limits_many_gpus),
        cmocka_unit_test(a_host_that_always_launches_binds),
        cmocka_unit_test(external_waits_hold_a_thread_once),
        cmocka_unit_test(the_operation_dispatch_is_the_hosts),
        cmocka_unit_test(a_server_in_host_memory),
        cmocka_unit_test(without_contention_links_serve_all_at_once),
        cmocka_unit_test(server_threads_share_the_memory),
        cmocka_unit_test(a_server_on_a_gpu),
        cmocka_unit_test(a_gpu_that_serves_does_not_compute),
        cmocka_unit_test(shards_are_on_the_nodes_in_turn),
        cmocka_unit_test(pageable_copies_are_staged),
        cmocka_unit_test(all_reduce_is_a_collective),
        cmocka_unit_test(a_measured_all_reduce_binds),
        cmocka_unit_test(asynchronous_workers_go_on_alone),
        cmocka_unit_test(a_server_serves_while_others_pull),
        cmocka_unit_test(workers_that_wait_for_ever_are_an_error),
        cmocka_unit_test(parts_of_the_step_add_up),
        cmocka_unit_test(progress_is_that_of_the_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
