/* Workers with several GPUs: sharded ones against workers that shard the parameters among
 * themselves; all modes, bytes and staleness against closed forms. */
#include "tests/island_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "common/ini.h"
#include "sim/sync/mode.h"

/* n workers that shard the parameters among themselves equal one worker of n GPUs that shards
 * them. */
static void sharded_workers_are_one_sharded_worker(void **state DL_UNUSED)
{
    static const char *const settings[] = {
        "bucket_bytes = 0\n",
        "bucket_bytes = 30000\n",
        "bucket_bytes = 7000\nreshard_after_forward = no\n",
        "bucket_bytes = 30000\nslows = exchange\n",
        "bucket_bytes = 7000\nreshard_after_forward = no\nslows = exchange\n",
        "param_dtype = bf16\nreduce_dtype = fp32\nbucket_bytes = 20000\n",
        "",
    };
    static const char *const hosts[] = {"", "dispatch = single\n", "ahead = 0\n"};
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        for (int accumulate = 1; accumulate <= 2; accumulate++) {
            for (int h = 0; h < 3; h++) {
                for (int gpus = 2; gpus <= 8; gpus *= 2) {
                    char machine[128], rest[320];
                    snprintf(machine, sizeof machine, "%sworkers = %d\n", hosts[h], gpus);
                    snprintf(rest, sizeof rest,
                             "[exchange]\nsharded = parameters\noverlap = yes\n%s[sync]\n"
                             "mode = allreduce\naccumulate = %d\n",
                             settings[s], accumulate);
                    DL_SCOPED(dl_run_result) whole = run(sharing, machine, 16, rest);
                    snprintf(machine, sizeof machine, "%slayout = fsdp=%d,dp=1\n", hosts[h], gpus);
                    snprintf(rest, sizeof rest,
                             "[exchange]\noverlap = yes\n%s[sync]\nmode = none\naccumulate = %d\n",
                             settings[s], accumulate);
                    DL_SCOPED(dl_run_result) one = run(sharing, machine, 16, rest);
                    assert_same(&one, &whole);
                }
            }
        }
    }
}

static dl_gpu_content content_with(const char *sharded)
{
    char path[64];
    snprintf(path, sizeof path, "island_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    DL_SCOPED(dl_costs) costs = fixture_costs(sharing);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = 12\n[machine]\nfile = %s\nlayout = pp=2,dp=4\n[workload]\ncosts = c\n"
        "batch = 1600\n[sync]\nmode = allreduce\n[pipeline]\nmicro_batches = 2\nschedule = 1f1b\n"
        "[exchange]\nsharded = %s\n",
        path, sharded);
    unlink(path);
    const dl_gpu_memory memory = dl_run_stage_memory(&scenario, &costs, &scenario.points[0], 0);
    return memory.content;
}

/* Four workers of two stages hold a quarter of a stage's optimizer state each, and everything else
 * unchanged. */
static void workers_of_stages_divide_their_state(void **state DL_UNUSED)
{
    const dl_gpu_content whole = content_with("none"), divided = content_with("optimizer");
    assert_true(whole.optimizer > 0);
    assert_near(divided.optimizer, whole.optimizer / 4, 1e-9);
    assert_near(divided.parameters, whole.parameters, 1e-9);
    assert_near(divided.activations, whole.activations, 1e-9);
}

/* An axis of size 1 has no effect, and pp equals [pipeline] stages. */
static void a_layout_is_what_it_says(void **state DL_UNUSED)
{
    const char *reduced = "[sync]\nmode = allreduce\n";
    DL_SCOPED(dl_run_result) plain = run(sharing, "workers = 4\n", 16, reduced);
    DL_SCOPED(dl_run_result) one = run(sharing, "layout = pp=1,fsdp=1,dp=4\n", 16, reduced);
    assert_same(&one, &plain);
    assert_null(one.split);
    const char *micro = "[sync]\nmode = allreduce\n[pipeline]\nmicro_batches = 4\n";
    dl_run_result stages =
        run(sharing, "workers = 2\n", 16,
            "[sync]\nmode = allreduce\n[pipeline]\nstages = 4\nmicro_batches = 4\n");
    DL_SCOPED(dl_run_result) pp = run(sharing, "layout = pp=4\n", 16, micro);
    assert_same(&pp, &stages);
    assert_int_equal(pp.workers, 2);
    dl_run_result_free(&stages);
}

/* Two all-gathers and a reduce-scatter move 3 (n - 1) times the parameters' bytes, 80 kB, per step;
 * averages of two workers with n GPUs each move 2 times. */
static void bytes_are_those_of_rings(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) one = run(sharing, "layout = fsdp=4,dp=1\n", 8,
                                       "[exchange]\noverlap = yes\n[sync]\nmode = none\n");
    assert_near(one.usage.traffic_bytes, 12 * 3 * 3 * 80000.0, 1e-12);
    assert_near(one.split->reduced_bytes, 3 * 3 * 80000.0, 1e-12);
    DL_SCOPED(dl_run_result) two =
        run(sharing, "layout = fsdp=4,dp=2\n", 16,
            "[exchange]\noverlap = yes\n[sync]\nmode = average\ninterval = 4\n"
            "where = allreduce\n");
    assert_near(two.usage.traffic_bytes, 12 * 2 * 3 * 3 * 80000.0 + 3 * 2 * 80000.0, 1e-12);
    dl_run_result split =
        run(sharing, "layout = pp=4,dp=2\n", 16,
            "[pipeline]\nmicro_batches = 2\n[sync]\nmode = average\ninterval = 4\n"
            "where = allreduce\n");
    assert_near(split.usage.traffic_bytes, 12 * 2 * 3 * 2 * 8 * 1000.0 + 3 * 2 * 80000.0, 1e-12);
    dl_run_result_free(&split);
}

/* Workers of shards reduce each bucket of the costs among themselves after its reduction within the
 * worker, like buckets of that size by bucket_bytes; with a single bucket they wait for the end of
 * the backward pass. */
static void shards_reduce_their_own_buckets(void **state DL_UNUSED)
{
    static const char *const own[] = {"", "bucket_bytes = 40000\n", "bucket_bytes = 0\n"};
    dl_run_result r[3];
    for (int b = 0; b < 3; b++) {
        char rest[160], costs[4096];
        snprintf(costs, sizeof costs, "%.*s[gradients]\nready_1 = 0.5, 40000\nready_2 = 1, 80000\n",
                 (int)(strstr(sharing, "[gradients]") - sharing), sharing);
        snprintf(rest, sizeof rest, "[exchange]\noverlap = yes\n%s[sync]\nmode = allreduce\n",
                 own[b]);
        r[b] = run(costs, "layout = fsdp=2,dp=2\n", 8, rest);
    }
    assert_same(&r[0], &r[1]);
    assert_true(r[0].step_mean_s < 0.999 * r[2].step_mean_s);
    for (int b = 0; b < 3; b++)
        dl_run_result_free(&r[b]);
}

/* Equal workers that push in turn: each gradient has staleness n - 1. */
static void staleness_is_that_of_the_workers(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"layout = pp=2,dp=4\n", "layout = fsdp=2,dp=4\n",
                                          "layout = pp=2,fsdp=2,dp=2\n"};
    static const int workers[] = {4, 4, 2};
    for (int l = 0; l < 3; l++) {
        DL_SCOPED(dl_run_result) r = run(sharing, layouts[l], 16, "[sync]\nmode = async\n");
        double sum = 0, count = 0;
        for (int b = 0; b < r.staleness_bins; b++) {
            for (int w = 0; w < r.staleness_rows; w++) {
                sum += b * (double)r.staleness[w * r.staleness_bins + b];
                count += (double)r.staleness[w * r.staleness_bins + b];
            }
        }
        assert_near(sum / count, workers[l] - 1, 0.1);
    }
}

/* Every mode with every layout: the run ends, parts of the time add up, nothing is lost. */
static void all_modes_go_with_all_layouts(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"pp=2,dp=4",   "pp=4,dp=2",        "fsdp=2,dp=4",
                                          "fsdp=4,dp=2", "pp=2,fsdp=2,dp=2", "fsdp=2,pp=2,dp=2",
                                          "tp=2,dp=4",   "tp=2,pp=2,dp=2",   "fsdp=2,tp=2,dp=2"};
    static const char *const options[DL_SYNC_OPTIONS] = {
        [DL_SYNC_INTERVAL] = "interval = 3\n", [DL_SYNC_N] = "n = 2\n", [DL_SYNC_K] = "k = 1\n"};
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        for (int m = 0; m < DL_MODES; m++) {
            const dl_mode *mode = dl_modes[m];
            char machine[96], rest[320];
            snprintf(machine, sizeof machine, "layout = %s\n", layouts[l]);
            size_t used = (size_t)snprintf(
                rest, sizeof rest,
                "[exchange]\noverlap = %s\n[noise]\nkind = gamma\n"
                "sigma = 0.3\n[pipeline]\n%s"
                "micro_batches = 2\n[sync]\nmode = %s\n",
                mode->exchange == DL_EXCHANGES_GRADIENTS || strstr(layouts[l], "fsdp") != NULL
                    ? "yes"
                    : "no",
                strstr(layouts[l], "pp=2") != NULL ? "schedule = interleaved\nchunks = 2\n"
                : strstr(layouts[l], "pp") != NULL ? "schedule = 1f1b\n"
                                                   : "",
                mode->name);
            for (int o = 0; o < DL_SYNC_OPTIONS; o++) {
                if (options[o] != NULL && dl_mode_takes(mode, (dl_sync_option)o))
                    used += (size_t)snprintf(rest + used, sizeof rest - used, "%s", options[o]);
            }
            if (strcmp(mode->name, "ssp") == 0)
                snprintf(rest + used, sizeof rest - used, "bound = 1\n");
            DL_SCOPED(dl_run_result) r = run(sharing, machine, 32, rest);
            double sum = 0;
            for (int p = 0; p < DL_PART_COUNT; p++) {
                assert_true(r.part_frac[p] >= 0);
                sum += r.part_frac[p];
            }
            assert_near(sum, 1, 1e-9);
            assert_true(r.samples > 0 && r.step_mean_s > 0);
            assert_true(r.split->bubble_frac <= r.part_frac[DL_PART_WAITING] + 1e-6);
            for (int s = 0; s < r.split->stages; s++)
                assert_true(r.split->busy_frac[s] > 0 && r.split->busy_frac[s] <= 1);
        }
    }
}

/* Writes costs of four layers of `bytes` each. */
static void write_layers(char *costs, size_t room, int bytes)
{
    int used =
        snprintf(costs, room, "[costs]\nschema = 1\nparameter_bytes = %d\n" FIXTURE_FREE_DISPATCH,
                 4 * bytes);
    for (int l = 0; l < 4; l++)
        used += snprintf(costs + used, room - (size_t)used,
                         "[op %c.forward]\nfixed_ns = 1e5\nper_sample_ns = 1e4\n"
                         "[op %c.backward]\nfixed_ns = 2e5\nper_sample_ns = 2e4\n"
                         "[layer %c]\noutput_bytes_per_sample = 1000\nparameter_bytes = %d\n",
                         'a' + l, 'a' + l, 'a' + l, bytes);
}

/* Step, in ns, of two workers with two stages of two layers each, `bytes` per layer. */
static double reduced_step_ns(int bytes, const char *exchange)
{
    char costs[2048], rest[160];
    write_layers(costs, sizeof costs, bytes);
    snprintf(rest, sizeof rest,
             "[pipeline]\nmicro_batches = 2\n[sync]\nmode = allreduce\n[exchange]\n%s", exchange);
    DL_SCOPED(dl_run_result) r = run(costs, "layout = pp=2,dp=2\n", 8, rest);
    return 1e9 * r.step_p50_s;
}

/* All stages gather at the start of a step, and the first stage's passes wait for this; the first
 * stage's gradients are reduced at the end. Each takes half of a stage's bytes at 10 GB/s, and the
 * same number of latencies at any size. */
static void all_stages_gather_at_once(void **state DL_UNUSED)
{
    static const struct {
        const char *layout, *schedule;
        int stages, parts;
    } cases[] = {{"fsdp=2,pp=2", "1f1b\n", 2, 1},
                 {"fsdp=2,pp=4", "gpipe\n", 4, 1},
                 {"fsdp=2,pp=4", "1f1b\n", 4, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double step_ns[2];
        for (int large = 0; large < 2; large++) {
            char costs[2048], machine[64], rest[192];
            write_layers(costs, sizeof costs, large ? 600000 : 200000);
            snprintf(machine, sizeof machine, "layout = %s,dp=1\n", cases[i].layout);
            snprintf(rest, sizeof rest,
                     "[pipeline]\nmicro_batches = 4\nschedule = %s[exchange]\nbucket_bytes = 0\n"
                     "[sync]\nmode = none\n",
                     cases[i].schedule);
            DL_SCOPED(dl_run_result) r = run(costs, machine, 8, rest);
            step_ns[large] = 1e9 * r.step_p50_s;
        }
        const double more_bytes = 400000.0 * 4 / cases[i].stages;
        assert_near(step_ns[1] - step_ns[0], 2 * more_bytes / 2 / 10, 1e-3);
    }
}

/* GPUs that divide layers copy gradients back from their buckets after the exchange, half of 60 us,
 * unless the gradients are views of the buckets. */
static void views_of_buckets_need_no_copy_back(void **state DL_UNUSED)
{
    double step_s[2];
    char costs[4096];
    snprintf(costs, sizeof costs, "%s[op net.bucket]\nfixed_ns = 6e4\nper_sample_ns = 0\n",
             sharing);
    for (int views = 0; views < 2; views++) {
        char rest[160];
        snprintf(rest, sizeof rest,
                 "[exchange]\noverlap = yes\nbuckets = %s\n[sync]\nmode = allreduce\n",
                 views ? "views" : "copies");
        DL_SCOPED(dl_run_result) r = run(costs, "layout = tp=2,dp=2\n", 8, rest);
        step_s[views] = r.step_p50_s;
    }
    assert_near(step_s[0] - step_s[1], 30e-6, 1e-6);
}

/* Two workers of two stages on two switches shard the optimizer's state. Each plane reduces and
 * gathers a stage's two layers concurrently with the other plane, over four links of 100 ns that
 * they share at 10 GB/s: bytes / 5 ns plus 800 ns. With a lag a step takes the longer of that and
 * three slots of 720 us plus two crossings of 2 kB, 400 ns each. */
static void divided_stages_may_lag(void **state DL_UNUSED)
{
    static const int bytes[] = {1000, 2000000, 8000000, 20000000};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        const double step_ns =
            reduced_step_ns(bytes[i], "algorithm = ring\nsharded = optimizer\n[sync]\nlag = 1\n");
        assert_near(step_ns, fmax(3 * 720e3 + 2 * 400, 2.0 * bytes[i] / 5 + 800), 1e-4);
    }
}

/* 16-bit messages take the links for half the time, as in the step of a model with half the
 * bytes; in addition 40 kB of a stage are read and written as 20 kB, at 0.85 of the memory's 100
 * bytes/ns, then the same back at 0.43 of it. Shards encode messages after they have reduced
 * their gradients. */
static void gradients_are_sent_as_messages(void **state DL_UNUSED)
{
    const double half_ns = reduced_step_ns(10000, "");
    const double messages_ns = reduced_step_ns(20000, "compress = fp16\n");
    assert_near(messages_ns, half_ns + (60e3 / 0.85 + 60e3 / 0.43) / 100, 1e-6);
    static const char *const layouts[] = {"layout = fsdp=2,dp=2\n", "layout = tp=2,dp=2\n",
                                          "layout = pp=2,fsdp=2,dp=2\n"};
    for (size_t i = 0; i < 3 * 2; i++) {
        double moved[2];
        for (int fp16 = 0; fp16 < 2; fp16++) {
            char rest[160];
            snprintf(rest, sizeof rest,
                     "[exchange]\noverlap = %s\ncompress = %s\nalgorithm = ring\n"
                     "[sync]\nmode = allreduce\n",
                     i % 2 > 0 ? "yes" : "no", fp16 ? "fp16" : "none");
            DL_SCOPED(dl_run_result) r = run(sharing, layouts[i / 2], 8, rest);
            moved[fp16] = r.usage.traffic_bytes;
        }
        const double exchanged = 12 * 2 * 80e3 * (i / 2 == 1 ? 2 : 1); /* with tp each GPU has 80
                                                                        * kB */
        assert_near(moved[0] - moved[1], exchanged / 2, 1e-9);
    }
}

/* If shards cannot diverge, one is simulated for all, with the same result. */
static void folded_shards_are_whole_ones(void **state DL_UNUSED)
{
    static const char *const modes[] = {
        "none",     "allreduce",        "average\ninterval = 3", "async", "easgd\ninterval = 2",
        "softsync", "kbatchsync\nk = 1"};
    unsigned seed = 7;
    for (int i = 0; i < 120; i++) {
        char machine[96], rest[320];
        const int shards = 2 << (seed >> 8) % 3, workers = 8 / shards;
        const char *mode = modes[(seed >> 16) % (workers > 1 ? 7 : 2)];
        snprintf(machine, sizeof machine, "layout = fsdp=%d,dp=%d\nahead = %u\n", shards, workers,
                 (seed >> 12) % 2);
        char costs[4096];
        snprintf(costs, sizeof costs, "%s%s", sharing,
                 (seed >> 25) % 2 > 0 ? "[input]\nbytes_per_sample = 3000\n" : "");
        snprintf(rest, sizeof rest,
                 "[exchange]\noverlap = %s\nbucket_bytes = %u\nreshard_after_forward = %s\n"
                 "slows = %s\ncompress = %s\n[sync]\nmode = %s\naccumulate = %u\n%s",
                 (seed >> 20) % 3 > 0 ? "yes" : "no", 5000 + (seed >> 7) % 60000,
                 (seed >> 21) % 2 > 0 ? "yes" : "no",
                 (seed >> 26) % 2 > 0 ? "exchange" : "transfers",
                 (seed >> 24) % 2 > 0 ? "int8" : "none", mode, 1 + (seed >> 22) % 2,
                 (seed >> 23) % 2 > 0 && workers > 1 ? "[noise]\nslow = 1:1.3\n" : "");
        DL_SCOPED(dl_run_result) folded = run(costs, machine, 32, rest);
        DL_SCOPED(dl_run_result) whole = run_so(true, costs, machine, 32, rest);
        assert_same(&folded, &whole);
        assert_near(folded.split->bubble_frac, whole.split->bubble_frac, 1e-9);
        assert_near(folded.split->busy_frac[0], whole.split->busy_frac[0], 1e-9);
        assert_true(folded.events < whole.events);
        seed = seed * 1103515245u + 12345u;
    }
}

/* Draws axes of one to eight GPUs in any order, on the required number of nodes of eight or
 * more. */
static void draw_layout(char *text, size_t bytes, int *nodes, unsigned *seed)
{
    static const char *const names[] = {"tp", "pp", "fsdp"};
    int size[3], gpus = 1, used = 0;
    *seed = *seed * 1103515245u + 12345u;
    for (int a = 0; a < 3; a++) {
        size[a] = 1 << (*seed >> (8 + 4 * a)) % (a == 2 ? 4 : 3);
        gpus *= size[a];
    }
    for (int a = 0, first = (int)((*seed >> 22) % 3); a < 3; a++) {
        const int at = (*seed >> 25) % 2 > 0 ? (first + a) % 3 : (first + 3 - a) % 3;
        used += snprintf(text + used, bytes - (size_t)used, "%s%s=%d", a > 0 ? "," : "", names[at],
                         size[at]);
    }
    *nodes = (gpus + 7) / 8 << (*seed >> 27) % 3;
    if (gpus == 1) snprintf(text, bytes, "pp=2");
}

/* The same with stages, if the paths of all shards or of all workers are equal. The environment
 * variable LAYOUTS sets the number of layouts instead of 120. */
static void folded_layouts_are_whole_ones(void **state DL_UNUSED)
{
    static const char *const modes[] = {"none",  "allreduce", "allreduce", "average\ninterval = 3",
                                        "async", "ps"};
    /* A NIC per GPU, a NIC per node, and one beside GPUs without NVLink. */
    static const char *const machines[] = {"dgx_h100", "8xh100@400gbe", "8xl40s@100gbe"};
    const char *given = getenv("LAYOUTS");
    const int count = given != NULL ? atoi(given) : 120;
    DL_SCOPED(dl_costs) costs = fixture_costs(sharing);
    unsigned seed = 11;
    int folds = 0;
    for (int i = 0; i < count; i++) {
        char layout[64];
        int nodes = 1;
        draw_layout(layout, sizeof layout, &nodes, &seed);
        const unsigned draw = seed = seed * 1103515245u + 12345u;
        const char *mode = modes[(draw >> 20) % 6];
        const bool sums = strcmp(mode, "allreduce") == 0 || strcmp(mode, "ps") == 0;
        DL_SCOPED(dl_scenario) s = fixture_scenario(
            "[scenario]\nsteps = 8\n[machine]\nfile = %dx%s\nlayout = %s\n[workload]\n"
            "costs = c\nbatch_per_worker = 32\n[pipeline]\nmicro_batches = %d\n%s[exchange]\n"
            "overlap = %s\n%s%scompress = %s\n[sync]\nmode = %s\n%s",
            nodes, machines[(draw >> 25) % 3], layout, 1 << (draw >> 12) % 3,
            strstr(layout, "pp=1") == NULL && (draw >> 14) % 2 > 0 ? "schedule = 1f1b\n" : "",
            sums && (draw >> 19) % 2 > 0 ? "yes" : "no",
            sums && (draw >> 17) % 2 > 0 ? "bucket_bytes = 6000\n" : "",
            strcmp(mode, "ps") == 0 && (draw >> 21) % 2 > 0
                ? "slice_bytes = 1500\nfetch = after\ntensors = least_loaded\nshards = 2\n"
                : "",
            (draw >> 16) % 3 == 0 ? "fp16" : "none", mode,
            (draw >> 23) % 4 == 0 ? "[noise]\nslow = 0:1.2\n" : "");
        dl_run_result results[2];
        dl_error err = {0};
        for (int way = 0; way < 2; way++) {
            const dl_run_config config = {
                .scenario = &s, .costs = &costs, .point = &s.points[0], .is_whole = way > 0};
            results[way] = (dl_run_result){0};
            if (dl_run(&config, &results[way], &err) != DL_OK) fail_msg("%s", err.text);
        }
        if (fabs(results[0].step_mean_s / results[1].step_mean_s - 1) > 1e-9)
            print_message("%dx%s, %s, %s, draw %u\n", nodes, machines[(draw >> 25) % 3], layout,
                          mode, draw);
        assert_same(&results[0], &results[1]);
        assert_true(results[0].part_frac[DL_PART_DISPATCH] == 0); /* launches are free */
        assert_near(results[0].split->bubble_frac, results[1].split->bubble_frac, 1e-9);
        for (int p = 0; p < results[0].split->stages; p++)
            assert_near(results[0].split->busy_frac[p], results[1].split->busy_frac[p], 1e-9);
        folds += results[0].events < results[1].events;
        dl_run_result_free(&results[0]);
        dl_run_result_free(&results[1]);
    }
    assert_true(folds > count / 4);
}

/* Workers of eight nodes exchange alike on each node: that of one node's GPUs is simulated, with the
 * same result. */
static void nodes_exchange_alike(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(sharing);
    static const char *const algorithms[] = {"ring", "tree"};
    for (int a = 0; a < 2; a++) {
        DL_SCOPED(dl_scenario) s = fixture_scenario(
            "[scenario]\nsteps = 4\n[machine]\nfile = 32xdgx_h100\nlayout = fsdp=64,dp=4\n"
            "[workload]\ncosts = c\nbatch_per_worker = 64\n[exchange]\nalgorithm = %s\n"
            "overlap = yes\nbucket_bytes = 10000\n[sync]\nmode = allreduce\n",
            algorithms[a]);
        dl_run_result r[2] = {{0}};
        for (int way = 0; way < 2; way++) {
            const dl_run_config config = {
                .scenario = &s, .costs = &costs, .point = &s.points[0], .is_whole = way > 0};
            assert_int_equal(dl_run(&config, &r[way], NULL), DL_OK);
        }
        assert_near(r[0].step_mean_s, r[1].step_mean_s, 1e-9);
        assert_near(r[0].usage.traffic_bytes, r[1].usage.traffic_bytes, 1e-9);
        assert_true(7 * r[0].events < r[1].events);
        dl_run_result_free(&r[0]);
        dl_run_result_free(&r[1]);
    }
}

/* With overlap the first buckets of a stage are in transit while the last ones' gradients are
 * computed: the bytes are equal, and the step ends earlier, with servers as with collectives. */
static void buckets_of_stages_start_early(void **state DL_UNUSED)
{
    static const char *const modes[] = {"allreduce", "ps"};
    for (int m = 0; m < 2; m++) {
        dl_run_result r[2];
        for (int overlap = 0; overlap < 2; overlap++) {
            char rest[160];
            snprintf(rest, sizeof rest,
                     "[pipeline]\nmicro_batches = 2\n[exchange]\noverlap = %s\n"
                     "bucket_bytes = 10000\n[sync]\nmode = %s\n",
                     overlap > 0 ? "yes" : "no", modes[m]);
            r[overlap] = run(sharing, "layout = pp=2,dp=4\n", 16, rest);
        }
        assert_near(r[1].usage.traffic_bytes, r[0].usage.traffic_bytes, 1e-9);
        assert_true(r[1].step_mean_s < r[0].step_mean_s);
        dl_run_result_free(&r[0]);
        dl_run_result_free(&r[1]);
    }
}

/* A layout of one GPU changes nothing, with any other settings. */
static void layouts_of_one_gpu_are_none(void **state DL_UNUSED)
{
    static const char *const settings[] = {
        "[exchange]\nshards = 2\ntensors = round_robin\nbucket_bytes = 30000\n[sync]\nmode = ps\n",
        "[exchange]\nslice_bytes = 7000\noverlap = yes\norder = forward\n[sync]\nmode = ps\n",
        "[exchange]\nfetch = layers\noverlap = yes\ncopies = gpu\n[sync]\nmode = ps\n",
        "[exchange]\nnode_sum = yes\n[sync]\nmode = ps\n",
        "[exchange]\nsum = on_arrival\n[sync]\nmode = softsync\nn = 2\n",
        "[exchange]\nserver_bytes_per_s = 300MB/s\n[sync]\nmode = async\n",
        "[sync]\nmode = async\nwhere = gpu:0\n",
        "[exchange]\nshards = 2\noverlap = yes\n[sync]\nmode = ps\nwhere = gpu:1\n",
        "[exchange]\nalgorithm = tree\nfidelity = chunk\n[sync]\nmode = allreduce\n",
        "[exchange]\noverlap = yes\nbuckets = views\nslows = exchange\n[sync]\nmode = allreduce\n",
        "[exchange]\nsharded = optimizer\nreduce_dtype = bf16\n[sync]\nmode = allreduce\n",
        "[exchange]\nsharded = parameters\nreshard_after_forward = no\n[sync]\nmode = allreduce\n",
        "[exchange]\ncompress = topk\ntopk_frac = 0.01\n[sync]\nmode = allreduce\naccumulate = 2\n",
        "[sync]\nmode = allreduce\nlag = 1\n",
        "[sync]\nmode = average\ninterval = 4\nfragments = 2\nlag = 1\nwhere = allreduce\n",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        DL_SCOPED(dl_run_result) plain = run(sharing, "workers = 4\n", 16, settings[i]);
        DL_SCOPED(dl_run_result) one = run(sharing, "layout = fsdp=1,tp=1,dp=4\n", 16, settings[i]);
        assert_same(&one, &plain);
    }
}

/* Two pipelines of two stages. The server on GPU 0 sums the second stages' 40 kB while the first
 * stages finish their last backward pass, which the sum stops on GPU 0, and then sums theirs: 20
 * more vectors at 100 GB/s take 8 us each time, longer than the 4.1 us in which GPU 2's gradients
 * arrive. On GPU 1, whose second stage has ended, only the second sum counts. */
static void a_server_stops_a_rank(void **state DL_UNUSED)
{
    DL_AUTOFREE char *costs = dl_strdup(sharing), *more = dl_strdup(sharing);
    dl_ini_text_set(&costs, "update", "optimizer_reads", "20");
    dl_ini_text_set(&more, "update", "optimizer_reads", "40");
    for (int gpu = 0; gpu < 2; gpu++) {
        char rest[160];
        snprintf(rest, sizeof rest,
                 "[pipeline]\nmicro_batches = 2\nschedule = 1f1b\n[exchange]\noverlap = yes\n"
                 "[sync]\nmode = ps\nwhere = gpu:%d\n",
                 gpu);
        DL_SCOPED(dl_run_result) few = run(costs, "layout = pp=2,dp=2\n", 8, rest);
        DL_SCOPED(dl_run_result) many = run(more, "layout = pp=2,dp=2\n", 8, rest);
        assert_near(1e6 * (many.step_p50_s - few.step_p50_s), gpu == 0 ? 16 : 8, 1e-3);
        assert_near(many.part_frac[DL_PART_COMPUTE] * many.step_mean_s,
                    few.part_frac[DL_PART_COMPUTE] * few.step_mean_s, 1e-6);
    }
}

/* s stages of v equal chunks, m micro-batches: m (f + b) and a bubble of (s - 1) / v (f + b), which
 * is (s - 1) / (v m) of the time without it; each micro-batch crosses s v - 1 cuts twice. */
static void chunks_shorten_the_bubble(void **state DL_UNUSED)
{
    static const struct {
        int stages, chunks, micro_batches;
    } cases[] = {{2, 2, 2}, {2, 2, 4}, {2, 2, 8}, {2, 4, 4}, {4, 2, 4}, {4, 2, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int s = cases[i].stages, v = cases[i].chunks, m = cases[i].micro_batches;
        char costs[4096], machine[64], rest[256];
        snprintf(costs, sizeof costs,
                 "[costs]\nschema = 1\nparameter_bytes = 160000\n" FIXTURE_FREE_DISPATCH
                     FIXTURE_LAYERS_OF("10") FIXTURE_LAYER_OF("e", "10") FIXTURE_LAYER_OF("f", "10")
                         FIXTURE_LAYER_OF("g", "10") FIXTURE_LAYER_OF("h", "10"));
        snprintf(machine, sizeof machine, "layout = pp=%d,dp=1\n", s);
        snprintf(rest, sizeof rest,
                 "[pipeline]\nschedule = interleaved\nchunks = %d\nmicro_batches = %d\n"
                 "[sync]\nmode = none\n",
                 v, m);
        const double passes_s = 8 * 3 * 1.2e-4 / s, bubble_s = passes_s * (s - 1) / v;
        DL_SCOPED(dl_run_result) r = run(costs, machine, 2 * m, rest);
        assert_near(r.step_mean_s, m * passes_s + bubble_s, 0.01);
        assert_near(r.split->bubble_frac, bubble_s / (m * passes_s + bubble_s), 0.05);
        assert_near(r.usage.traffic_bytes, 12.0 * m * 2 * (s * v - 1) * 2 * 10, 1e-9);
    }
}

/* Layers a, b, c, d of 0.1 ms + 10 us per sample forward, twice that backward, 20 kB each, with
 * outputs of no bytes. Of the stages {a}, {b, c, d} the longer one determines the rate. */
static void without_a_flush_nobody_waits(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_PIPELINE_COSTS_OF("0");
    dl_run_result r = run(costs, "layout = pp=2,dp=1\n", 8,
                          "[pipeline]\nschedule = 2bw\nmicro_batches = 4\nsplit = b\n");
    assert_near(r.step_mean_s, 4 * 3 * 3 * 0.12e-3, 1e-9);
    dl_run_result_free(&r);
    r = run(costs, "layout = pp=4,dp=1\n", 2, "[pipeline]\nschedule = pipedream\n");
    assert_near(r.step_mean_s, 3 * 0.12e-3, 1e-9);
    assert_near(r.split->bubble_frac, 0, 1e-9);
    dl_run_result_free(&r);
    const dl_split split = {
        .stages = 4, .shards = 1, .chunks = 1, .micro_batches = 8, .samples = 1};
    for (int s = 0; s < 4; s++) {
        assert_int_equal(dl_pipeline_staleness(DL_SCHEDULE_PIPEDREAM, &split, s), 3 - s);
        assert_int_equal(dl_pipeline_staleness(DL_SCHEDULE_2BW, &split, s), 1);
        assert_int_equal(dl_pipeline_staleness(DL_SCHEDULE_1F1B, &split, s), 0);
    }
}

static double step_us(const char *costs, const char *machine, const char *rest)
{
    DL_SCOPED(dl_run_result) r = run(costs, machine, 16, rest);
    return r.step_mean_s * 1e6;
}

/* The ranks of a node read their batches of 1 MB per sample at 100 MB/s, all together, at the start
 * of a step: 8 samples for the worker in 80 ms, in any layout; from a server shared by both nodes
 * in 160 ms. */
static void ranks_share_the_storage_of_their_node(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"fsdp=4", "pp=4", "fsdp=2,pp=2"};
    char costs[4096], machine[64];
    snprintf(
        costs, sizeof costs,
        "%s[op input]\nfixed_ns = 0\nper_sample_ns = 0\n[input]\nstored_bytes_per_sample = 1e6\n",
        sharing);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        snprintf(machine, sizeof machine, "layout = %s,dp=2\n", layouts[i]);
        const double none =
            step_us(costs, machine, "[input]\nprefetch = 0\n[sync]\nmode = allreduce\n");
        const double own = step_us(
            costs, machine,
            "[input]\nprefetch = 0\nstorage_bytes_per_s = 100MB/s\n[sync]\nmode = allreduce\n");
        const double shared = step_us(costs, machine,
                                      "[input]\nprefetch = 0\nshared_storage_bytes_per_s = "
                                      "100MB/s\n[sync]\nmode = allreduce\n");
        /* Half of the first stage's 40 kB are gathered at 10 GB/s meanwhile. */
        const double hidden = strstr(layouts[i], "fsdp=2,pp") != NULL ? 2 : 0;
        assert_near(own - none, 80e3 - hidden, 1e-6);
        assert_near(shared - none, 160e3 - hidden, 1e-6);
    }
}

/* Four ranks on two switches of 10 GB/s copy 20 kB each to host memory (4 us + 0.2), two hosts send
 * half of all 80 kB twice over a wire of 1 GB/s (40 us + 10.2 each time), and the ranks copy them
 * back. */
static void hosts_reduce_for_all_ranks(void **state DL_UNUSED)
{
    const char *machine = "layout = fsdp=4,dp=2\n";
    const double none = step_us(sharing, machine, "[sync]\nmode = none\n");
    const double hosts =
        step_us(sharing, machine, "[exchange]\ncollectives = hosts\n[sync]\nmode = allreduce\n");
    assert_near(hosts - none, 2 * 4.2 + 2 * 50.2, 1e-3);
}

/* Similarly, to a server in host memory that reads and writes 20 kB of each rank in 40 us, and
 * back. Slices of 5 kB (1 us + 0.2) are sent, summed and fetched in sequence, or fetched after all
 * are summed. */
static void ranks_send_slices_to_servers(void **state DL_UNUSED)
{
    const char *machine = "layout = fsdp=4,dp=1\n";
    const double none = step_us(sharing, machine, "[sync]\nmode = none\n");
    const double whole = step_us(sharing, machine, "[sync]\nmode = ps\n");
    const double slices =
        step_us(sharing, machine, "[exchange]\nslice_bytes = 5000\n[sync]\nmode = ps\n");
    const double after = step_us(
        sharing, machine, "[exchange]\nslice_bytes = 5000\nfetch = after\n[sync]\nmode = ps\n");
    assert_near(whole - none, 4.2 + 40 + 4.2, 1e-3);
    assert_near(slices - none, 1.2 + 40 + 1.2, 1e-3);
    assert_near(after - none, 1.2 + 40 + 4 * 1.2, 1e-3);
}

/* Tensors of 27, 27 and 26 kB in turn on the shards of two nodes: 27 kB cross to the other node and
 * back; divided evenly, half of the 80 kB. */
static void ranks_put_tensors_on_shards(void **state DL_UNUSED)
{
    static const char *const settings[] = {"", "tensors = round_robin\n"};
    for (int i = 0; i < 2; i++) {
        char rest[160];
        snprintf(rest, sizeof rest,
                 "[exchange]\nshards = 2\nbucket_bytes = 27000\n%s[sync]\nmode = ps\n",
                 settings[i]);
        DL_SCOPED(dl_run_result) r = run(sharing, "layout = fsdp=4,dp=1\n", 16, rest);
        assert_near(r.usage.sent_bytes, 12 * (i == 0 ? 40e3 : 27e3), 1e-9);
    }
}

/* Two workers on each node: those of the other node push and fetch 160 kB per step or, if summed
 * first, 80 kB. */
static void ranks_of_a_node_push_their_sum(void **state DL_UNUSED)
{
    static const char *const settings[] = {"no", "yes"};
    for (int i = 0; i < 2; i++) {
        char rest[160];
        snprintf(rest, sizeof rest, "[exchange]\nnode_sum = %s\n[sync]\nmode = ps\n", settings[i]);
        DL_SCOPED(dl_run_result) r = run(sharing, "layout = fsdp=2,dp=4\n", 16, rest);
        assert_near(r.usage.sent_bytes, 12 * (i == 0 ? 160e3 : 80e3), 1e-9);
    }
}

/* Worker 1 has half the speed on all its GPUs, so it does 2 local steps while the other does 4: 18
 * of 24 steps in half the time, apart from the exchange. */
static void intervals_of_layouts_are_by_speed(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"fsdp=2", "pp=2", "fsdp=2,pp=2"};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        dl_run_result r[2];
        for (int by_speed = 0; by_speed < 2; by_speed++) {
            char machine[64], rest[200];
            snprintf(machine, sizeof machine, "layout = %s,dp=2\n", layouts[i]);
            snprintf(rest, sizeof rest,
                     "[sync]\nmode = average\ninterval = 4\ninterval_by_speed = %s\n[noise]\n"
                     "slow = 1:2\n",
                     by_speed > 0 ? "yes" : "no");
            r[by_speed] = run(FIXTURE_PIPELINE_COSTS, machine, 16, rest);
        }
        assert_near(r[0].samples, 8 * 24, 1e-12);
        assert_near(r[1].samples, 8 * 18, 1e-12);
        assert_near(r[1].throughput_per_s / r[0].throughput_per_s, 1.5, 0.05);
        dl_run_result_free(&r[0]);
        dl_run_result_free(&r[1]);
    }
}

/* Four ranks, each with a server thread that averages and one for the outer update, which takes
 * longer (filter). */
static void busiest_links_of_ranks_have_their_names(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = run(sharing, "layout = fsdp=4,dp=2\n", 16,
                                     "[sync]\nmode = average\nwhere = cpu\nouter = nesterov\n");
    assert_string_equal(r.usage.link, "filter thread 0 of shard 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharded_workers_are_one_sharded_worker),
        cmocka_unit_test(workers_of_stages_divide_their_state),
        cmocka_unit_test(a_layout_is_what_it_says),
        cmocka_unit_test(bytes_are_those_of_rings),
        cmocka_unit_test(staleness_is_that_of_the_workers),
        cmocka_unit_test(all_modes_go_with_all_layouts),
        cmocka_unit_test(all_stages_gather_at_once),
        cmocka_unit_test(divided_stages_may_lag),
        cmocka_unit_test(views_of_buckets_need_no_copy_back),
        cmocka_unit_test(gradients_are_sent_as_messages),
        cmocka_unit_test(shards_reduce_their_own_buckets),
        cmocka_unit_test(folded_shards_are_whole_ones),
        cmocka_unit_test(folded_layouts_are_whole_ones),
        cmocka_unit_test(nodes_exchange_alike),
        cmocka_unit_test(buckets_of_stages_start_early),
        cmocka_unit_test(layouts_of_one_gpu_are_none),
        cmocka_unit_test(a_server_stops_a_rank),
        cmocka_unit_test(chunks_shorten_the_bubble),
        cmocka_unit_test(without_a_flush_nobody_waits),
        cmocka_unit_test(ranks_share_the_storage_of_their_node),
        cmocka_unit_test(hosts_reduce_for_all_ranks),
        cmocka_unit_test(ranks_send_slices_to_servers),
        cmocka_unit_test(ranks_put_tensors_on_shards),
        cmocka_unit_test(ranks_of_a_node_push_their_sum),
        cmocka_unit_test(intervals_of_layouts_are_by_speed),
        cmocka_unit_test(busiest_links_of_ranks_have_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
