/* Runs that are worked out without events for each worker are, bit by bit, those by events. */
#include "tests/gpu_fixture.h"

#include "common/alloc.h"
#include "common/random.h"

enum { SCENARIOS = 600 };

typedef struct made {
    int seed;
    dl_random random;
    dl_costs costs;
    dl_scenario scenario;
    char text[2048];
} made;

static int below(made *m, int end)
{
    return (int)dl_random_below(&m->random, (uint64_t)end);
}

/* 0, or a time of up to `most` ns. */
static int time_ns(made *m, int most)
{
    return below(m, 3) == 0 ? 0 : below(m, most);
}

static void make_costs(made *m)
{
    char text[2048];
    const int used =
        snprintf(text, sizeof text,
                 "[costs]\nschema = 1\nparameter_bytes = %d\nstate_bytes = 4000\n"
                 "[op a.forward]\nfixed_ns = %d\nper_sample_ns = 0\n"
                 "[op a.backward]\nfixed_ns = %d\nper_sample_ns = 0\n"
                 "[op a.update]\nfixed_ns = %d\nper_sample_ns = 0\n"
                 "[dispatch]\nserial_ns = %d\nper_worker_ns = %d\n",
                 100 * below(m, 20000), 1000 + below(m, 400000), 1000 + below(m, 600000),
                 time_ns(m, 200000), time_ns(m, 300000), time_ns(m, 600000));
    if (below(m, 4) == 0)
        snprintf(text + used, sizeof text - (size_t)used, "[spread]\nwork_frac = 0.3\n");
    m->costs = fixture_costs(text);
}

static const char *noise_of(made *m, const char *mode)
{
    static const char *const noises[] = {"kind = lognormal\nsigma = 0.2\n",
                                         "kind = gamma\nsigma = 0.4\nslow = 0:1.7\n",
                                         "kind = exponential\n", "kind = work\n"};
    /* Without noise, workers that do not wait for one another end their steps together. */
    return strcmp(mode, "allreduce") == 0 && below(m, 4) == 0 ? "kind = none\n"
                                                              : noises[below(m, 4)];
}

/* The second node of some machines has fewer GPUs, or ports that are slower; lines of its machine. */
static const char *unlike_node(int seed)
{
    static const char *const kinds[] = {
        "", "",
        "[nodes 1]\nkind = other\n[switch sw0 of other]\nparent = socket0\nlink = x16\n"
        "[gpus 0 of other]\nmodel = g\nparent = sw0\nlink = x16\n"
        "[gpus 1-2 of other]\nmodel = g\nparent = socket0\nlink = wire\n",
        "[nodes 1]\nkind = other\n[nics 0 of other]\nparent = sw0\nlink = wire\nport = x16\n"};
    return kinds[seed % 4];
}

static void make(made *m, int seed)
{
    static const char *const modes[] = {"none", "allreduce", "average"};
    char path[64], sync[64] = "";
    *m = (made){.seed = seed};
    dl_random_init(&m->random, (uint64_t)seed, 0, 0, 0);
    make_costs(m);
    const char *mode = modes[below(m, 3)];
    const int interval = strcmp(mode, "average") == 0 ? 1 + below(m, 4) : 1;
    if (strcmp(mode, "average") == 0)
        snprintf(sync, sizeof sync, "interval = %d\nwhere = allreduce\n", interval);
    snprintf(path, sizeof path, "direct_%d.ini", (int)getpid());
    char machine[2048];
    snprintf(machine, sizeof machine, "%s%s", FIXTURE_GPUS, unlike_node(seed));
    fixture_write(path, machine);
    const int workers = 1 + below(m, seed % 4 == 2 ? 7 : 8), warmup = interval * below(m, 4);
    snprintf(m->text, sizeof m->text,
             "[scenario]\nsteps = %d\nwarmup = %d\nseed = %d\n[machine]\nfile = %s\nworkers = %d\n"
             "ahead = %d\n[exchange]\nalgorithm = %s\nbucket_bytes = %d\n"
             "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = %s\n%s[noise]\n%s",
             interval * (1 + below(m, 12)), warmup, seed, path, workers, below(m, 4),
             below(m, 2) == 0 ? "ring" : "auto", below(m, 2) * 300000, mode, sync,
             noise_of(m, mode));
    m->scenario = fixture_scenario("%s", m->text);
    unlink(path);
}

static void free_made(made *m)
{
    dl_scenario_free(&m->scenario);
    dl_costs_free(&m->costs);
}

static dl_status run(const made *m, dl_run_way way, int64_t log_steps, dl_run_result *result)
{
    dl_error err = {0};
    const dl_run_config config = {.scenario = &m->scenario,
                                  .costs = &m->costs,
                                  .point = &m->scenario.points[0],
                                  .log_steps = log_steps,
                                  .way = way};
    *result = (dl_run_result){0};
    return dl_run(&config, result, &err);
}

/* Two arrays, or none. */
static bool are_same(const void *a, const void *b, size_t bytes)
{
    return (a != NULL) == (b != NULL) && (a == NULL || memcmp(a, b, bytes) == 0);
}

/* Clears what a longer text has left behind the end of this one. */
static void clear_rest(char *text, size_t room)
{
    const size_t used = strlen(text);
    memset(text + used, 0, room - used);
}

/* All of two results, bit by bit; but bytes of links may have been added up in another order. */
static bool are_equal(const dl_run_result *a, const dl_run_result *b)
{
    const size_t workers = (size_t)a->workers,
                 numbers = (size_t)a->staleness_rows * (size_t)a->staleness_bins;
    dl_run_result flat[2] = {*a, *b};
    for (int i = 0; i < 2; i++) {
        clear_rest(flat[i].usage.link, sizeof flat[i].usage.link);
        clear_rest(flat[i].usage.busiest, sizeof flat[i].usage.busiest);
        flat[i].usage.link_frac = (float)flat[i].usage.link_frac;
        flat[i].usage.busiest_frac = (float)flat[i].usage.busiest_frac;
        flat[i].worker_step_s = NULL;
        flat[i].averaging = NULL;
        flat[i].staleness = flat[i].worker_stale_sum = flat[i].worker_stale_count = NULL;
    }
    return memcmp(&flat[0], &flat[1], sizeof flat[0]) == 0 &&
           are_same(a->worker_step_s, b->worker_step_s, workers * sizeof(double)) &&
           are_same(a->staleness, b->staleness, numbers * sizeof *a->staleness) &&
           are_same(a->worker_stale_sum, b->worker_stale_sum, workers * sizeof(int64_t)) &&
           are_same(a->worker_stale_count, b->worker_stale_count, workers * sizeof(int64_t)) &&
           (a->averaging != NULL) == (b->averaging != NULL) &&
           (a->averaging == NULL || memcmp(a->averaging, b->averaging, sizeof *a->averaging) == 0);
}

/* Modes none, allreduce, average, any noise, launches that take longer than a step or nothing,
 * several buckets, slow workers, a warm-up. */
static void results_are_those_by_events(void **state)
{
    (void)state;
    for (int seed = 0; seed < SCENARIOS; seed++) {
        made m;
        make(&m, seed);
        dl_run_result direct, events;
        if (run(&m, DL_RUN_DIRECTLY, 0, &direct) != DL_OK) fail_msg("seed %d:\n%s", seed, m.text);
        assert_int_equal(run(&m, DL_RUN_BY_EVENTS, 0, &events), DL_OK);
        if (!are_equal(&direct, &events)) {
            fail_msg("seed %d: %.17g and %.17g s, lag %g and %g, %lld and %lld events\n%s", seed,
                     direct.span_s, events.span_s, direct.clock_lag_max, events.clock_lag_max,
                     (long long)direct.events, (long long)events.events, m.text);
        }
        dl_run_result_free(&direct);
        dl_run_result_free(&events);
        free_made(&m);
    }
}

/* Steps that are not kept one by one are counted in another order, which only rounding shows. */
static void counted_steps_agree(void **state)
{
    (void)state;
    for (int seed = 0; seed < SCENARIOS / 10; seed++) {
        made m;
        make(&m, seed);
        dl_run_result direct, events;
        assert_int_equal(run(&m, DL_RUN_DIRECTLY, 1, &direct), DL_OK);
        assert_int_equal(run(&m, DL_RUN_BY_EVENTS, 1, &events), DL_OK);
        assert_true(direct.throughput_per_s == events.throughput_per_s);
        assert_true(direct.step_p50_s == events.step_p50_s);
        assert_true(direct.step_p99_s == events.step_p99_s);
        assert_near(direct.step_sd_s, events.step_sd_s, 1e-9);
        dl_run_result_free(&direct);
        dl_run_result_free(&events);
        free_made(&m);
    }
}

/* Two GPUs of which one takes 1 ms a step and one 2 ms: at 2 ms both end a step, and which is first
 * decides how far one is ahead. Such a run is left to the events. */
static void ties_are_left_to_events(void **state)
{
    (void)state;
    static const char *const syncs[] = {"none", "average\nwhere = allreduce\ninterval = 4"};
    for (int i = 0; i < 2; i++) {
        made m = {0};
        char path[64];
        m.costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 8000\n"
                                "[op a.forward]\nfixed_ns = 1000000\nper_sample_ns = 0\n"
                                "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n");
        snprintf(path, sizeof path, "direct_%d.ini", (int)getpid());
        fixture_write(path, FIXTURE_GPUS);
        m.scenario =
            fixture_scenario("[scenario]\nsteps = 8\n[machine]\nfile = %s\nworkers = 2\n"
                             "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = %s\n"
                             "[noise]\nslow = 1:2\n",
                             path, syncs[i]);
        unlink(path);
        dl_run_result result;
        assert_int_equal(run(&m, DL_RUN_DIRECTLY, 0, &result), DL_ERR_UNSUPPORTED);
        assert_int_equal(run(&m, DL_RUN_FASTEST, 0, &result), DL_OK);
        assert_true(result.clock_lag_max >= 2);
        dl_run_result_free(&result);
        free_made(&m);
    }
}

/* --- with a server --------------------------------------------------------------------------- */

/* GPUs of one node each, and one more for the server; `node` is what a node has beside its GPU. */
static void make_machine(made *m, const char *path, int workers)
{
    static const char *const wires[] = {"1GB/s", "100MB/s", "3333333"};
    static const char *const slots[] = {"100GB/s", "1GB/s", "1.5GB/s"};
    static const char *const kinds[] = {
        /* beside the server's port, other ports are of no account */
        "", "", "[nodes 0]\nkind = a\n[nics 0 of a]\nparent = socket0\nlink = slot\nport = wide\n"};
    char text[1536];
    const int wire = below(m, 3), latency_ns = time_ns(m, 4000);
    snprintf(text, sizeof text,
             "[machine]\nschema = 1\nname = nodes\nnodes = %d\npeer = all\ngpudirect = yes\n"
             "[gpu_model g]\nmemory_bytes = 1GB\nmemory_bytes_per_s = %s\n"
             "fp32_flop_per_s = 1Tflop/s\n"
             "[link slot]\nbytes_per_s = %s\nlatency_ns = %d\n"
             "[link wire]\nbytes_per_s = %s\nlatency_ns = %d\n"
             "[link wide]\nbytes_per_s = 4GB/s\nlatency_ns = %d\n"
             "[host]\nmemory_bytes_per_s = 1000GB/s\n"
             "[gpus 0]\nmodel = g\nparent = socket0\nlink = slot\n"
             "[nics 0]\nparent = socket0\nlink = slot\nport = wire\n%s",
             workers + 1, below(m, 2) == 0 ? "100GB/s" : "30MB/s", slots[below(m, 3)],
             time_ns(m, 300), wires[wire], latency_ns, latency_ns, kinds[m->seed % 3]);
    fixture_write(path, text);
}

/* Times in whole us, so that much happens at one ns. */
static int round_ns(made *m, int most_us)
{
    return 1000 * below(m, most_us + 1);
}

/* `more` sections follow. */
static void make_served_costs(made *m, const char *more)
{
    char text[2048];
    const bool is_round = below(m, 2) == 0;
    const int used =
        snprintf(text, sizeof text,
                 "[costs]\nschema = 1\nparameter_bytes = %d\nstate_bytes = 4000\n"
                 "[op a.forward]\nfixed_ns = %d\nper_sample_ns = 0\n"
                 "[op a.backward]\nfixed_ns = %d\nper_sample_ns = 0\n"
                 "[op a.update]\nfixed_ns = %d\nper_sample_ns = 0\n"
                 "[dispatch]\nserial_ns = %d\nper_worker_ns = %d\n%s",
                 is_round ? 1000 * (1 + below(m, 40)) : 1 + below(m, 40000),
                 1000 + (is_round ? round_ns(m, 20) : below(m, 40000)),
                 is_round ? round_ns(m, 20) : below(m, 60000), is_round ? 0 : time_ns(m, 20000),
                 is_round ? round_ns(m, 4) : time_ns(m, 30000),
                 is_round ? round_ns(m, 4) : time_ns(m, 60000), more);
    if (below(m, 4) == 0)
        snprintf(text + used, sizeof text - (size_t)used, "[spread]\nwork_frac = 0.3\n");
    m->costs = fixture_costs(text);
}

static const char *const server_modes[] = {"async\n",
                                           "ps\n",
                                           "softsync\nn = 2\n",
                                           "softsync\nn = 1\n",
                                           "kbatchasync\nk = 3\n",
                                           "ssp\nbound = 1\n",
                                           "ssp\nbound = 0\n",
                                           "average\ninterval = 1\n",
                                           "average\ninterval = 3\n",
                                           "average\ninterval = 2\naverage_state = yes\n"};
static const char *const server_noises[] = {
    "kind = none\n", "kind = lognormal\nsigma = 0.2\n", "kind = exponential\n",
    "kind = gamma\nsigma = 0.4\nslow = 0:1.7\n", "kind = none\nslow = 1:2\n"};

static void make_served(made *m, int seed)
{
    char path[64];
    *m = (made){.seed = seed};
    dl_random_init(&m->random, (uint64_t)seed, 1, 0, 0);
    make_served_costs(m, "");
    const int workers = 2 + below(m, 9);
    snprintf(path, sizeof path, "direct_%d.ini", (int)getpid());
    make_machine(m, path, workers);
    const int steps = 1 + below(m, 14), warmup = below(m, 5) * below(m, 2);
    snprintf(m->text, sizeof m->text,
             "[scenario]\nsteps = %d\nwarmup = %d\nseed = %d\n[machine]\nfile = %s\nworkers = %d\n"
             "ahead = %d\n[workload]\ncosts = c.ini\nbatch_per_worker = 1\n"
             "[sync]\nwhere = gpu:%d\nmode = %s[noise]\n%s",
             steps, warmup, seed, path, workers, below(m, 4), workers,
             server_modes[below(m, (int)DL_LENGTH(server_modes))],
             server_noises[below(m, (int)DL_LENGTH(server_noises))]);
    m->scenario = fixture_scenario("%s", m->text);
    unlink(path);
}

static void compare_served(void (*make_one)(made *, int), int seed, int64_t log_steps)
{
    made m;
    make_one(&m, seed);
    dl_run_result direct, events;
    if (run(&m, DL_RUN_DIRECTLY, log_steps, &direct) != DL_OK)
        fail_msg("seed %d:\n%s", seed, m.text);
    assert_int_equal(run(&m, DL_RUN_BY_EVENTS, log_steps, &events), DL_OK);
    if (!are_equal(&direct, &events)) {
        fail_msg("seed %d: %.17g and %.17g s, lag %g and %g, %lld and %lld events, link %s %g and "
                 "%s %g\n%s",
                 seed, direct.span_s, events.span_s, direct.clock_lag_max, events.clock_lag_max,
                 (long long)direct.events, (long long)events.events, direct.usage.link,
                 direct.usage.link_frac, events.usage.link, events.usage.link_frac, m.text);
    }
    dl_run_result_free(&direct);
    dl_run_result_free(&events);
    free_made(&m);
}

/* Modes that exchange with a server's GPU: copies of 1 byte to 40 KB at 3 MB/s to 1 GB/s, links
 * of the workers' own as wide as the server's or wider, steps that end at the same ns, launches that
 * take longer than a step or nothing, slow workers, a warm-up; steps kept or counted. */
static void served_results_are_those_by_events(void **state)
{
    (void)state;
    for (int seed = 0; seed < 3 * SCENARIOS; seed++)
        compare_served(make_served, seed, seed % 3 == 0 ? 1 : 0);
}

/* --- with a server in host memory ------------------------------------------------------------ */

/* A machine of `nodes` nodes, of 1 to 3 GPUs each below a switch or not, whose memory may be what
 * limits the server's copies, as may the sockets' roots, the links both ways at once and the core. */
static void make_host_machine(made *m, const char *path, int nodes, int gpus)
{
    static const char *const memories[] = {"1000GB/s", "3GB/s", "700MB/s", "150MB/s"};
    static const char *const wires[] = {"1GB/s", "100MB/s", "3333333"};
    static const char *const slots[] = {"100GB/s", "1GB/s", "1.5GB/s", "150MB/s"};
    static const char *const cores[] = {"", "", "[network]\nbytes_per_s = 1GB/s\n",
                                        "[network]\nbytes_per_s = 50MB/s\n"};
    static const char *const roots[] = {"", "", "root_bytes_per_s = 2GB/s\n",
                                        "root_bytes_per_s = 120MB/s\n"};
    static const char *const duplexes[] = {"", "", "duplex_bytes_per_s = 1.2GB/s\n"};
    static const char *const directs[] = {"yes", "no"};
    static const char *const kinds[] = {
        "", "",
        "[nodes 1]\nkind = a\n[gpus 0-%d of a]\nmodel = g\nparent = socket0\nlink = wire\n"
        "[nics 0 of a]\nparent = socket0\nlink = slot\nport = wire\n",
        "[nodes 0]\nkind = a\n[nics 0-%d of a]\nparent = socket0\nlink = slot\nport = slot\n"
        "[host of a]\nmemory_bytes_per_s = 2GB/s\n"};
    char text[2560], sites[256] = "", kind[256];
    snprintf(kind, sizeof kind, kinds[m->seed % 4], gpus - 1);
    if (nodes > 3 && below(m, 4) == 0)
        snprintf(sites, sizeof sites,
                 "[site a]\nbytes_per_s = 90MB/s\nlatency_ns = 1000\n"
                 "[site b]\nbytes_per_s = 2GB/s\nlatency_ns = 2000\n");
    const bool has_switch = below(m, 3) == 0;
    const char *parent = has_switch ? "sw0" : "socket0";
    snprintf(text, sizeof text,
             "[machine]\nschema = 1\nname = nodes\nnodes = %d\npeer = all\ngpudirect = %s\n"
             "%s[gpu_model g]\nmemory_bytes = 1GB\nmemory_bytes_per_s = 100GB/s\n"
             "fp32_flop_per_s = 1Tflop/s\n"
             "[link slot]\nbytes_per_s = %s\nlatency_ns = %d\n%s"
             "[link wire]\nbytes_per_s = %s\nlatency_ns = %d\n"
             "[host]\nmemory_bytes_per_s = %s\n%s"
             "%s[gpus 0-%d]\nmodel = g\nparent = %s\nlink = slot\n"
             "[nics 0]\nparent = %s\nlink = slot\nport = wire\n%s%s",
             nodes, directs[below(m, 2)], cores[below(m, 4)], slots[below(m, 4)], time_ns(m, 300),
             duplexes[below(m, 3)], wires[below(m, 3)], time_ns(m, 4000), memories[below(m, 4)],
             roots[below(m, 4)], has_switch ? "[switch sw0]\nparent = socket0\nlink = slot\n" : "",
             gpus - 1, parent, below(m, 2) == 0 ? parent : "socket0", sites, kind);
    fixture_write(path, text);
}

/* Rates and times of a server's threads. */
static void make_server_costs(made *m, char *text, size_t room)
{
    static const char *const rates[] = {"1e9", "3e9", "77777777"};
    const char *rate = rates[below(m, 3)];
    snprintf(text, room,
             "[average]\nlatency_ns = %d\nread_bytes_per_s = %s\nwrite_bytes_per_s = 1e9\n"
             "[update]\nlatency_ns = %d\nread_bytes_per_s = %s\nwrite_bytes_per_s = 2e9\n"
             "[sync]\nbarrier_ns = %d\nlock_ns = %d\n",
             time_ns(m, 2000), rate, time_ns(m, 2000), rate, time_ns(m, 900), time_ns(m, 900));
}

/* All but the first. */
static void list_gpus(int count, char *text, size_t room)
{
    int used = snprintf(text, room, "gpus = ");
    for (int g = 1; g <= count; g++)
        used += snprintf(text + used, room - (size_t)used, "%d%s", g, g < count ? ", " : "\n");
}

static void make_hosted(made *m, int seed)
{
    char path[64], gpus[256] = "", threads[64] = "", server[512];
    *m = (made){.seed = seed};
    dl_random_init(&m->random, (uint64_t)seed, 2, 0, 0);
    make_server_costs(m, server, sizeof server);
    make_served_costs(m, server);
    const int per_node = below(m, 3) == 0 ? 2 + below(m, 2) : 1, nodes = 2 + below(m, 14);
    int workers = 2 + below(m, nodes * per_node - 1);
    if (below(m, 3) == 0) workers = nodes * per_node;
    if (below(m, 3) == 0 && workers < nodes * per_node) list_gpus(workers, gpus, sizeof gpus);
    snprintf(path, sizeof path, "direct_%d.ini", (int)getpid());
    make_host_machine(m, path, nodes, per_node);
    const char *mode = server_modes[below(m, (int)DL_LENGTH(server_modes))];
    if (mode[0] == 'p' || strncmp(mode, "av", 2) == 0)
        snprintf(threads, sizeof threads, "server_threads = %d\n", 1 + below(m, workers));
    const int steps = 1 + below(m, 14), warmup = below(m, 5) * below(m, 2);
    snprintf(m->text, sizeof m->text,
             "[scenario]\nsteps = %d\nwarmup = %d\nseed = %d\n[machine]\nfile = %s\nworkers = %d\n"
             "ahead = %d\n%s[workload]\ncosts = c.ini\nbatch_per_worker = 1\n"
             "[sync]\nwhere = cpu\nmode = %s%s[noise]\n%s",
             steps, warmup, seed, path, workers, below(m, 4), gpus, mode, threads,
             server_noises[below(m, (int)DL_LENGTH(server_noises))]);
    m->scenario = fixture_scenario("%s", m->text);
    unlink(path);
}

/* Workers that share a node's port, switch and memory, on the server's node or on others, at two sites,
 * with links both ways and a core for all; latencies of a barrier, a lock and the server's threads. */
static void hosted_results_are_those_by_events(void **state)
{
    (void)state;
    for (int seed = 0; seed < 5 * SCENARIOS; seed++)
        compare_served(make_hosted, seed, seed % 3 == 0 ? 1 : 0);
}

/* Two GPUs of a node share its port: those do not have the same rate as others, where the server is on
 * a GPU. A server in several memories is not one component of the network. */
static void other_networks_are_left_to_events(void **state)
{
    (void)state;
    static const char *const wheres[] = {"where = gpu:7\n",
                                         "where = cpu\n[exchange]\nshards = 2\n"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        made m = {0};
        m.costs = fixture_costs(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH);
        snprintf(path, sizeof path, "direct_%d.ini", (int)getpid());
        fixture_write(path, FIXTURE_GPUS);
        m.scenario = fixture_scenario("[scenario]\nsteps = 8\n[machine]\nfile = %s\nworkers = 7\n"
                                      "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n"
                                      "[sync]\nmode = async\n%s",
                                      path, wheres[i]);
        unlink(path);
        dl_run_result fastest, events;
        assert_int_equal(run(&m, DL_RUN_DIRECTLY, 0, &fastest), DL_ERR_UNSUPPORTED);
        assert_int_equal(run(&m, DL_RUN_FASTEST, 0, &fastest), DL_OK);
        assert_int_equal(run(&m, DL_RUN_BY_EVENTS, 0, &events), DL_OK);
        assert_true(are_equal(&fastest, &events));
        dl_run_result_free(&fastest);
        dl_run_result_free(&events);
        free_made(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_by_events),
        cmocka_unit_test(counted_steps_agree),
        cmocka_unit_test(ties_are_left_to_events),
        cmocka_unit_test(served_results_are_those_by_events),
        cmocka_unit_test(hosted_results_are_those_by_events),
        cmocka_unit_test(other_networks_are_left_to_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
