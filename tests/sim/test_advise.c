#include "sim/report/advise.h"

#include <stdlib.h>

#include "common/file.h"
#include "sim/scenario/without.h"
#include "tests/sim_fixture.h"

#define COSTS "test_advise_costs.ini"
#define MACHINE "test_advise_machine.ini"
#define TABLE "test_advise.csv"

/* Nodes of GPUs at one dollar per hour each, with links that take almost no time. */
static const char machine_text[] =
    "[machine]\nschema = 1\nname = made\npeer = none\nnodes = %d\n%s"
    "[gpu_model g]\nmemory_bytes = 1GB\nmemory_bytes_per_s = %dGB/s\nfp32_flop_per_s = "
    "1Tflop/s\n"
    "[link x16]\nbytes_per_s = 1000GB/s\nlatency_ns = 1\n[link wire]\nbytes_per_s = 1000GB/s\n"
    "latency_ns = 1\n[host]\nmemory_bytes_per_s = 1000GB/s\n[gpus 0-%d]\nmodel = g\n"
    "parent = socket0\nlink = x16\n[nics 0]\nparent = socket0\nlink = x16\nport = wire\n"
    "[protocol simple]\nlaunch_ns = 1\nhop_ns = 1\nnetwork_hop_ns = 1\nbandwidth_frac = 1\n";

/* A sample takes 1 ms, and its activations 100 MB, of which a GPU holds nine. */
static const char costs_text[] =
    "[costs]\nschema = 1\ndevice = g\nparameter_bytes = 8\nstate_bytes = 0\n"
    "[op a.forward]\nfixed_ns = %s\nper_sample_ns = 500000\n"
    "[op a.backward]\nfixed_ns = 0\nper_sample_ns = 500000\n"
    "[dispatch]\nserial_ns = 0\nper_worker_ns = %d\n[overlap]\nslowdown = %s\n"
    "[gpu_memory]\nactivation_bytes_per_sample = 100MB\nworkspace_bytes = 0\n";

typedef struct made {
    const char *fixed_ns; /* fixed time of a step, in the notation of a cost file */
    int dispatch_ns;      /* time to issue each GPU's step, by one thread */
    int nodes, gpus;
    const char *scenario; /* further lines of [machine], and the other sections */
} made;

static dl_advice_config unlimited(void)
{
    return (dl_advice_config){.max_staleness = (double)NAN,
                              .samples = (double)NAN,
                              .deadline_h = (double)NAN,
                              .budget_usd = (double)NAN,
                              .max_points = 500,
                              .threads = 1};
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static const char *price = "price_usd_per_hour = 1\n";
static int steps = 60;
static const char *slowdown = "1"; /* slowdown of compute concurrent with collectives */
static int memory_gb = 1000;       /* memory rate of a GPU, GB/s */

static const char *without = ""; /* --without */

/* Runs the search; `config` NULL: no limits. */
static dl_status try_advice(dl_advice *advice, const made *m, const dl_advice_config *config,
                            dl_error *err)
{
    char text[2048];
    DL_SCOPED(dl_study) study = {0};
    const dl_advice_config all = unlimited();
    snprintf(text, sizeof text, machine_text, m->nodes, price, memory_gb, m->gpus - 1);
    write_text(MACHINE, text);
    snprintf(text, sizeof text, costs_text, m->fixed_ns, m->dispatch_ns, slowdown);
    write_text(COSTS, text);
    snprintf(text, sizeof text,
             "[scenario]\nsteps = %d\n[machine]\nfile = %s\n%s\n[workload]\n"
             "costs = %s\n",
             steps, MACHINE, m->scenario, COSTS);
    dl_status status = dl_study_read_text(&study, "s.ini", text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(&study, err);
    if (status == DL_OK && *without != '\0')
        status = dl_without_parse(without, &study.variants[0].scenario.without, err);
    if (status == DL_OK) status = dl_advise(advice, &study, config != NULL ? config : &all, err);
    remove(MACHINE);
    remove(COSTS);
    return status;
}

static dl_advice advise(const made *m, const dl_advice_config *config)
{
    dl_advice advice = {0};
    dl_error err = {0};
    if (try_advice(&advice, m, config, &err) != DL_OK) {
        fail_msg("%s:%d: %s", err.file, err.line, err.text);
    }
    return advice;
}

static const dl_advised *best_of(const dl_advice *advice)
{
    assert_true(advice->best_count > 0);
    const dl_advised *best = &advice->points[advice->best[0]];
    assert_int_equal(best->out, DL_OUT_NOT);
    assert_true(best->is_final);
    return best;
}

static size_t left_out(const dl_advice *advice, dl_out by)
{
    size_t count = 0;
    for (size_t p = 0; p < advice->point_count; p++)
        count += advice->points[p].out == by;
    return count;
}

/* Returns the printed advice with wrapped lines joined. */
static char *printed(const dl_advice *advice)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_advice_print(out, advice);
    fclose(out);
    for (char *end = strstr(text, "\n  "); end != NULL; end = strstr(end, "\n  ")) {
        const size_t blanks = strspn(end + 1, " ");
        memmove(end + 1, end + 1 + blanks, strlen(end + 1 + blanks) + 1);
        *end = ' ';
    }
    return text;
}

/* One thread issues a GPU's step in 1 ms, and n GPUs share 16 samples of 1 ms: a step takes the
 * longer of n and 16 / n ms (3 and 5 GPUs have 15 samples). That is 3 samples/ms with 3 and 5 GPUs,
 * 4 with 4, and 2 with 8, where halving the issue time doubles the rate. */
static const made host_bound = {
    "0", 1000000, 1, 8,
    "dispatch = single\nworkers = 1, 8\n[sync]\nmode = allreduce\n[workload]\nbatch = 16"};

static bool gains_from(const dl_gains *gains, const char *cost)
{
    bool found = false;
    for (size_t i = 0; i < gains->count; i++)
        found |= gains->all[i].cost != NULL && strcmp(gains->all[i].cost, cost) == 0;
    return found;
}

/* A term that --without leaves out is no improvement. */
static void gains_are_without_what_is_left_out(void **state DL_UNUSED)
{
    for (int left_out = 0; left_out < 2; left_out++) {
        without = left_out ? "dispatch" : "";
        DL_SCOPED(dl_advice) advice = advise(&host_bound, NULL);
        without = "";
        assert_int_equal(best_of(&advice)->row.point.workers, left_out ? 8 : 4);
        assert_int_equal(gains_from(left_out ? &advice.gains : &advice.more_gains, "dispatch"),
                         !left_out);
    }
}

static void the_best_number_of_gpus_is_inside(void **state DL_UNUSED)
{
    DL_SCOPED(dl_advice) advice = advise(&host_bound, NULL);
    assert_int_equal(advice.config.max_batch, 16);
    assert_int_equal(advice.config.max_interval, 1);
    assert_true(advice.config.max_staleness == 0);
    const dl_advised *best = best_of(&advice);
    assert_int_equal(best->row.point.workers, 4);
    assert_int_equal(best->row.point.batch, 16);
    assert_string_equal(best->settings, ""); /* no other setting gains */
    assert_near(best->row.mean.throughput_per_s, 4000, 0.05);
    assert_true(advice.more < advice.point_count);
    const dl_advised *more = &advice.points[advice.more];
    assert_int_equal(more->row.point.workers, 8);
    assert_near(dl_advice_compare(&advice, best, more).ratio, 2, 0.05);
    assert_string_equal(advice.more_gains.all[0].cost, "dispatch");
    assert_near(advice.more_gains.all[0].half, 2, 0.05);
    assert_false(advice.varies);
    DL_AUTOFREE char *text = printed(&advice);
    assert_contains(text, "Advised: 4 GPUs, batch 16, allreduce.");
    assert_contains(text, "As options: --workers 4\n");
    assert_contains(text, "Why not 8: 8 GPUs, batch 16, allreduce: 1");
    assert_contains(text, "There,");
    assert_contains(text, "halving"); /* lines may be broken anywhere */
}

/* Micro-batches of two samples leave the search as it is, but for their number: the batch of three
 * GPUs is a multiple of six, and that of four GPUs takes four micro-batches. */
static void a_micro_batch_is_kept(void **state DL_UNUSED)
{
    const made m = {"0", 0, 1, 4,
                    "workers = 4\n[sync]\nmode = allreduce\n[workload]\nbatch = 32\n"
                    "[pipeline]\nmicro_batch = 2"};
    DL_SCOPED(dl_advice) advice = advise(&m, NULL);
    const dl_point *best = &best_of(&advice)->row.point;
    assert_true(advice.on_gpus);
    assert_ptr_equal(best->mode, &dl_mode_allreduce);
    assert_int_equal(best->workers, 4);
    assert_true(best->option[DL_SYNC_ACCUMULATE] == 4);
    assert_int_equal(left_out(&advice, DL_OUT_REFUSED), 0);
    bool overlaps = false;
    for (size_t p = 0; p < advice.point_count; p++) {
        const dl_point *point = &advice.points[p].row.point;
        overlaps |= strstr(advice.points[p].settings, "overlap yes") != NULL;
        if (point->workers == 3) assert_int_equal(point->batch, 30);
    }
    assert_true(overlaps);
}

/* Three workers of 2 GPUs with samples of their own take 60 of 64 samples, in micro-batches of two,
 * and three workers of 4 such GPUs 48. */
static void a_batch_suits_the_layout_of_its_point(void **state DL_UNUSED)
{
    const made m = {"0", 0, 1, 16,
                    "workers = 4\nlayout = fsdp=2 | fsdp=4\n[sync]\nmode = allreduce\n[workload]\n"
                    "batch = 64\nparameter_bytes = 4MB\n[pipeline]\nmicro_batch = 2"};
    DL_SCOPED(dl_advice) advice = advise(&m, NULL);
    assert_int_equal(left_out(&advice, DL_OUT_REFUSED), 0);
    bool found[2] = {false, false};
    for (size_t p = 0; p < advice.point_count; p++) {
        const dl_point *point = &advice.points[p].row.point;
        if (point->workers != 3) continue;
        assert_int_equal(point->batch, point->shards == 2 ? 60 : 48);
        found[point->shards == 2] = true;
    }
    assert_true(found[0] && found[1]);
}

static const made large_of_two = {
    "0", 0, 1, 2,
    "workers = 2\n[sync]\nmode = allreduce\n[workload]\nbatch = 8\nparameter_bytes = 100MB"};

/* Two micro-batches of 8 samples take 0.8 GB of 1 GB, and the allocator's reserve 30 % of it in
 * addition: 16 samples fit only in four micro-batches. */
static void what_does_not_fit_is_out(void **state DL_UNUSED)
{
    const made m = {"0", 0, 1, 1, "workers = 1\n[workload]\nbatch = 16"};
    DL_SCOPED(dl_advice) advice = advise(&m, NULL);
    assert_true(left_out(&advice, DL_OUT_MEMORY) >= 1);
    assert_true(left_out(&advice, DL_OUT_RESERVE) >= 1);
    assert_true(best_of(&advice)->row.point.option[DL_SYNC_ACCUMULATE] == 4);
    assert_false(advice.is_uncached);
}

/* One sample beside 400 MB of parameters and as many of gradients takes 0.9 GB, with the reserve
 * 1.17 GB of 1 GB: the point is advised with a warning, as no other fits. */
static void without_reserve_if_nothing_else_fits(void **state DL_UNUSED)
{
    const made m = {"0", 0, 1, 1, "workers = 1\n[workload]\nbatch = 1\nparameter_bytes = 400MB"};
    DL_SCOPED(dl_advice) advice = advise(&m, NULL);
    assert_int_equal(best_of(&advice)->row.point.batch, 1);
    assert_true(advice.is_uncached);
    DL_AUTOFREE char *text = printed(&advice);
    assert_contains(text, "No point fits with the allocator's reserve");
}

/* Collectives almost stop concurrent compute, copies to a server do not: only for this reason a
 * server leads all-reduce (by 2 %), although its sums stop a GPU. If compute is slowed from the
 * first bucket to the last, all-reduce does not overlap, and trails by its own time for the same
 * reason. */
static void a_server_is_not_ahead_by_what_is_assumed(void **state DL_UNUSED)
{
    const made behind = {"0", 0, 1, 2,
                         "workers = 2\n[sync]\nmode = allreduce\n[exchange]\nslows = exchange\n"
                         "[workload]\nbatch = 8\nparameter_bytes = 100MB"};
    slowdown = "100";
    dl_advice advice = advise(&large_of_two, NULL);
    const dl_advised *best = best_of(&advice), *second = &advice.points[advice.best[1]];
    assert_ptr_equal(best->row.point.mode, &dl_mode_allreduce);
    assert_ptr_equal(second->row.point.mode, &dl_mode_ps);
    assert_true(second->score > 1.015 * best->score);
    DL_AUTOFREE char *text = printed(&advice);
    assert_contains(text, "Rank 2 has 1.02");
    assert_contains(text, "computing. Under that assumption all-reduce would reach");
    dl_advice_free(&advice);
    advice = advise(&behind, NULL);
    slowdown = "1";
    assert_ptr_equal(best_of(&advice)->row.point.mode, &dl_mode_allreduce);
    dl_advice_free(&advice);
}

/* All-reduce moves 100 MB in each direction through host memory, 200 MB at 40 GB/s, or half of that
 * in fp16, during a backward pass of 2 ms. A server's copies share this rate, and do not lead. If the
 * machine gives a faster rate of the driver's copies, its lead is certain. */
static void copies_through_host_memory_go_alike(void **state DL_UNUSED)
{
    const char *usual = price;
    memory_gb = 10000;
    price = "[shm]\nbytes_per_s = 40GB/s\n";
    dl_advice advice = advise(&large_of_two, NULL);
    const dl_advised *best = best_of(&advice);
    assert_ptr_equal(best->row.point.mode, &dl_mode_allreduce);
    bool served = false;
    for (size_t i = 0; i < advice.best_count; i++) {
        const dl_advised *other = &advice.points[advice.best[i]];
        served |= other->row.point.mode == &dl_mode_ps;
        assert_true(other->row.point.mode != &dl_mode_ps || other->score < best->score);
    }
    assert_true(served);
    dl_advice_free(&advice);
    price = "staged_bytes_per_s = 1000GB/s\n[shm]\nbytes_per_s = 40GB/s\n";
    advice = advise(&large_of_two, NULL);
    price = usual;
    memory_gb = 1000;
    best = best_of(&advice);
    assert_ptr_equal(best->row.point.mode, &dl_mode_ps);
    assert_true(best->on_terms > 0 && best->on_terms < 0.99);
    dl_advice_free(&advice);
}

/* The driver's rate is known, that of all-reduce only within bounds: 200 MB at 45 GB/s are not
 * completely hidden by a backward pass of 2 ms, but are hidden in some of the draws. */
static void the_usual_one_is_advised_of_two_alike(void **state DL_UNUSED)
{
    const char *usual = price;
    memory_gb = 10000;
    price = "staged_bytes_per_s = 200GB/s\n[shm]\nbytes_per_s = 45GB/s (5GB/s to 2000GB/s)\n";
    DL_SCOPED(dl_advice) advice = advise(&large_of_two, NULL);
    price = usual;
    memory_gb = 1000;
    const dl_advised *best = best_of(&advice), *ahead = &advice.points[advice.best[1]];
    const dl_advice_pair pair = dl_advice_compare(&advice, ahead, best);
    assert_ptr_equal(best->row.point.mode, &dl_mode_allreduce);
    assert_ptr_equal(ahead->row.point.mode, &dl_mode_ps);
    assert_true(ahead->score > 1.03 * best->score && ahead->on_terms == 0);
    assert_true(advice.varies && pair.low < 1.01 && pair.high > 1.1);
    DL_AUTOFREE char *text = printed(&advice);
    assert_contains(text, "times: the two cannot be distinguished, so the usual one is advised.");
}

/* All-reduces with eight, seven, six, five and four GPUs are faster than averages of 60 MB, but those
 * are listed too, in their place. */
static void other_modes_are_listed_beside_fewer_gpus(void **state DL_UNUSED)
{
    const made m = {"1000000", 0, 1, 8,
                    "workers = 1, 8\n[sync]\nmode = allreduce\n[workload]\nbatch_per_worker = 4\n"
                    "parameter_bytes = 60MB"};
    DL_SCOPED(dl_advice) advice = advise(&m, NULL);
    bool average = false, fewer = false;
    assert_int_equal(advice.best_count, DL_ADVICE_BEST);
    for (size_t i = 0; i < advice.best_count; i++) {
        const dl_advised *at = &advice.points[advice.best[i]];
        average |= at->row.point.mode == &dl_mode_average;
        fewer |= at->row.point.mode == &dl_mode_allreduce && at->row.point.workers == 7;
        if (i > 1) assert_true(at->score <= advice.points[advice.best[i - 1]].score);
    }
    assert_true(average && fewer);
}

/* Modes of the scenario are tried beside the usual ones, but none of those that exchange nothing. */
static void modes_of_the_scenario_are_tried(void **state DL_UNUSED)
{
    const made m = {
        "0", 0, 1, 2,
        "workers = 2\n[sync]\nmode = none, easgd\nmoving_rate = 0.5\n[workload]\nbatch = "
        "16"};
    DL_SCOPED(dl_advice) advice = advise(&m, NULL);
    bool tried = false;
    for (size_t p = 0; p < advice.point_count; p++) {
        const dl_point *point = &advice.points[p].row.point;
        tried |= point->mode == &dl_mode_easgd;
        if (point->workers > 1) assert_ptr_not_equal(point->mode, &dl_mode_none);
    }
    assert_true(tried);
}

/* Nine samples fit into a GPU: in eight micro-batches on two GPUs 144, in steps of 16. 2 GB of
 * parameters never fit. */
static void the_largest_batch_that_fits_is_said(void **state DL_UNUSED)
{
    const made m = {"0", 0, 1, 2, "workers = 2\n[workload]\nbatch = 1600"};
    dl_advice advice = {0};
    dl_error err = {0};
    assert_int_equal(try_advice(&advice, &m, NULL, &err), DL_ERR_UNFIT);
    assert_contains(err.text, "no point fits; the nearest (2 GPUs, batch 1600, ");
    assert_contains(err.text, "accumulate 8");
    assert_contains(err.text, "does not fit: a GPU needs 10.0 GB of 1.00 GB");
    assert_contains(err.text, "there, a batch of 144 (72 per GPU) is the largest that fits");
    const made larger = {"0", 0, 1, 1,
                         "workers = 1\n[workload]\nbatch = 16\nparameter_bytes = 2GB"};
    assert_int_equal(try_advice(&advice, &larger, NULL, &err), DL_ERR_UNFIT);
    assert_contains(err.text, "with a batch of 1 (1 per GPU), no smaller batch fits");
    const made least = {"0", 0, 1, 1, "workers = 1\n[workload]\nbatch = 1\nparameter_bytes = 2GB"};
    assert_int_equal(try_advice(&advice, &least, NULL, &err), DL_ERR_UNFIT);
    assert_null(strstr(err.text, "with a batch of"));
}

/* 450 MB of parameters and 450 MB of gradients leave room for one sample of 100 MB; a quarter of
 * each, and buckets of 25 MB, leave room for six. A step takes 10 ms in addition to its samples. */
static void a_large_model_is_sharded(void **state DL_UNUSED)
{
    const made m = {"10000000", 0, 1, 4,
                    "workers = 4\n[sync]\nmode = allreduce\n[exchange]\nbucket_bytes = 25000000\n"
                    "[workload]\nbatch_per_worker = 1\nparameter_bytes = 450MB"};
    dl_advice_config config = unlimited();
    config.max_batch = 24;
    dl_advice advice = advise(&m, &config);
    const dl_advised *best = best_of(&advice);
    assert_contains(best->settings, "sharded parameters");
    assert_int_equal(best->row.point.workers, 4);
    assert_true(best->row.point.batch >= 16 && best->row.point.batch <= 24);
    DL_AUTOFREE char *text = printed(&advice);
    assert_contains(text, "--set exchange.sharded=parameters");
    assert_contains(text, " \\ --set exchange."); /* a line that continues on the next one */
    dl_advice_free(&advice);
    /* A small part of the memory is not sharded; sharding is not even tried. */
    const made small = {"10000000", 0, 1, 4,
                        "workers = 4\n[sync]\nmode = allreduce\n[workload]\nbatch_per_worker = 1\n"
                        "parameter_bytes = 40MB"};
    advice = advise(&small, &config);
    for (size_t p = 0; p < advice.point_count; p++)
        assert_null(strstr(advice.points[p].settings, "sharded"));
    dl_advice_free(&advice);
}

/* The second of four GPUs takes three times as long: modes that wait for it do 16 samples in 12 ms,
 * async does 10 in 3 ms. */
static void staleness_has_a_limit(void **state DL_UNUSED)
{
    const made m = {"0", 0, 1, 4,
                    "workers = 4\n[sync]\nmode = allreduce\n[noise]\nslow = 1:3\n[workload]\n"
                    "batch = 16"};
    dl_advice_config config = unlimited();
    dl_advice advice = advise(&m, &config);
    const dl_advised *best = best_of(&advice);
    assert_true(isnan(best->row.staleness_mean) || best->row.staleness_mean == 0);
    bool async_is_beyond = false;
    for (size_t b = 0; b < advice.beyond_count; b++)
        async_is_beyond |= advice.points[advice.beyond[b]].out == DL_OUT_STALENESS;
    assert_true(async_is_beyond);
    dl_advice_free(&advice);
    config.max_staleness = 100;
    advice = advise(&m, &config);
    assert_true(best_of(&advice)->row.staleness_mean > 0);
    dl_advice_free(&advice);
    /* Bounded: no advised point has a higher staleness. */
    config.max_staleness = 1;
    advice = advise(&m, &config);
    for (size_t b = 0; b < advice.best_count; b++)
        assert_false(advice.points[advice.best[b]].row.staleness_mean > 1);
    dl_advice_free(&advice);
}

/* A mean staleness of 2.0005, which tables show as 2.00, is within a limit of 2; 2.01 is not. */
static void limits_of_staleness_have_two_decimals(void **state DL_UNUSED)
{
    assert_true(dl_advice_is_fresh(2.0005, 2));
    assert_false(dl_advice_is_fresh(2.01, 2));
    assert_false(dl_advice_is_fresh(0.01, 0));
    assert_true(dl_advice_is_fresh(100, (double)INFINITY));
    assert_false(dl_advice_is_fresh((double)NAN, 2));
}

/* Nodes with one GPU at one dollar per hour; a step takes 4 ms and 1 ms per sample: 16 samples take
 * 12 ms on 2 nodes and 8 ms on 4; 15 samples take 9 ms on 3. For 6 million samples that is 1.25 h
 * and 2.50 USD, 0.83 h and 3.33 USD, 1 h and 3 USD. */
static void price_and_time_have_limits(void **state DL_UNUSED)
{
    const made m = {"4000000", 0, 4, 1,
                    "workers = 4\n[sync]\nmode = allreduce\n[workload]\nbatch = 16"};
    dl_advice_config config = unlimited();
    config.samples = 6e6;
    dl_advice advice = advise(&m, &config);
    assert_int_equal(best_of(&advice)->row.point.workers, 4);
    assert_near(best_of(&advice)->hours, 0.8333, 0.02);
    assert_near(best_of(&advice)->usd, 3.333, 0.02);
    dl_advice_free(&advice);
    config.budget_usd = 2.6;
    advice = advise(&m, &config);
    assert_int_equal(best_of(&advice)->row.point.workers, 2);
    assert_true(left_out(&advice, DL_OUT_BUDGET) >= 1);
    dl_advice_free(&advice);
    config.budget_usd = (double)NAN;
    config.deadline_h = 1.1;
    config.goal = DL_GOAL_DEADLINE;
    advice = advise(&m, &config);
    assert_int_equal(best_of(&advice)->row.point.workers, 3);
    assert_true(best_of(&advice)->deadline_frac == 1);
    dl_advice_free(&advice);
    price = ""; /* without prices the fewest GPU hours are the cheapest */
    DL_SCOPED(dl_advice) unpriced = advise(&m, &config);
    price = "price_usd_per_hour = 1\n";
    assert_int_equal(best_of(&unpriced)->row.point.workers, 3);
    config.deadline_h = 0.1;
    advice = advise(&m, &config);
    assert_int_equal(advice.best_count, 0);
    DL_AUTOFREE char *text = printed(&advice);
    assert_contains(text, "No point is within the limits.");
    dl_advice_free(&advice);
}

/* 8 samples: 12 ms on one GPU, 8 ms on two (efficiency 0.75), 6 ms on four (0.5); 6 samples on
 * three take 6 ms, and 10 ms on one GPU (0.56). */
static void efficiency_has_a_limit(void **state DL_UNUSED)
{
    const made m = {"4000000", 0, 1, 4,
                    "workers = 4\n[sync]\nmode = allreduce\n[workload]\nbatch = 8"};
    dl_advice_config config = unlimited();
    config.min_efficiency = 0.7;
    DL_SCOPED(dl_advice) advice = advise(&m, &config);
    assert_int_equal(best_of(&advice)->row.point.workers, 2);
    assert_near(best_of(&advice)->row.efficiency, 0.75, 0.01);
}

/* Twice the batch is tried beyond the limit and only reported: 4 ms and 2 ms for 8 samples on 4
 * GPUs, 4 ms for 16, which is 6 over 4 of 12 ms. */
static void a_batch_beyond_its_limit_is_said(void **state DL_UNUSED)
{
    const made m = {"4000000", 0, 1, 4,
                    "workers = 4\n[sync]\nmode = allreduce\n[workload]\nbatch = 8"};
    DL_SCOPED(dl_advice) advice = advise(&m, NULL);
    assert_int_equal(best_of(&advice)->row.point.batch, 8);
    assert_true(advice.beyond_count >= 1);
    const dl_advised *beyond = &advice.points[advice.beyond[0]];
    assert_int_equal(beyond->out, DL_OUT_BATCH);
    assert_int_equal(beyond->row.point.batch, 16);
    assert_near(dl_advice_compare(&advice, beyond, best_of(&advice)).ratio, 1.5, 0.01);
}

/* 16 samples on 4 GPUs take 4 + 4 ms, 32 would be a third faster (4 + 8 ms), but their 0.8 GB on each
 * fit only without the allocator's reserve of 30 %. */
static void a_batch_that_hardly_fits_is_not_said(void **state DL_UNUSED)
{
    const made m = {"4000000", 0, 1, 4,
                    "workers = 4\n[sync]\nmode = allreduce\n[workload]\nbatch = 16"};
    DL_SCOPED(dl_advice) advice = advise(&m, NULL);
    assert_int_equal(best_of(&advice)->row.point.batch, 16);
    assert_true(left_out(&advice, DL_OUT_RESERVE) >= 1);
    for (size_t i = 0; i < advice.beyond_count; i++)
        assert_int_equal(advice.points[advice.beyond[i]].row.point.batch, 16);
}

/* With a fixed part of f ms, 16 instead of 8 samples on 4 GPUs are 2 (2 + f) / (4 + f) times as
 * fast: 1.010 with f = 0.04, which is not reported, and 1.032 with f = 0.13. */
static void what_gains_little_beyond_a_limit_is_not_said(void **state DL_UNUSED)
{
    static const char *const fixed_ns[] = {"40000", "130000"};
    for (int large = 0; large < 2; large++) {
        const made m = {fixed_ns[large], 0, 1, 4,
                        "workers = 4\n[sync]\nmode = allreduce\n[workload]\nbatch = 8"};
        DL_SCOPED(dl_advice) advice = advise(&m, NULL);
        int said = 0;
        for (size_t i = 0; i < advice.beyond_count; i++)
            said += advice.points[advice.beyond[i]].out == DL_OUT_BATCH;
        assert_int_equal(said, large);
    }
}

/* Nodes are free: the training per dollar is infinite and cannot rank the points. */
static void what_has_no_score_is_not_advised(void **state DL_UNUSED)
{
    const made m = {"4000000", 0, 4, 1,
                    "workers = 4\n[sync]\nmode = allreduce\n[workload]\nbatch = 16"};
    dl_advice_config config = unlimited();
    config.samples = 6e6;
    config.goal = DL_GOAL_COST;
    price = "price_usd_per_hour = 0\n";
    DL_SCOPED(dl_advice) advice = advise(&m, &config);
    price = "price_usd_per_hour = 1\n";
    assert_true(advice.point_count > 0);
    assert_int_equal(advice.best_count, 0);
}

static char *table_of(const dl_advice *advice)
{
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_advice_write(TABLE, advice, NULL), DL_OK);
    assert_int_equal(dl_file_read(TABLE, &text, &bytes, NULL), DL_OK);
    remove(TABLE);
    return text;
}

/* Draws of the fixed part affect 4 and 5 GPUs equally, so that both keep their order. */
static void the_same_seed_gives_the_same_advice(void **state DL_UNUSED)
{
    const made m = {"4000000 +- 800000, n = 5, fitted", 0, 1, 5,
                    "workers = 5\n[sync]\nmode = allreduce\n[workload]\nbatch = 20"};
    dl_advice_config config = unlimited();
    DL_SCOPED(dl_advice) one = advise(&m, &config);
    config.threads = 3;
    DL_SCOPED(dl_advice) other = advise(&m, &config);
    DL_AUTOFREE char *first = table_of(&one), *second = table_of(&other);
    assert_string_equal(first, second);
    assert_true(one.varies && one.draws >= 10);
    assert_true(best_of(&one)->row.low_per_s < best_of(&one)->row.high_per_s);
    size_t four = 0;
    for (size_t i = 1; i < one.best_count; i++)
        if (one.points[one.best[i]].row.point.workers == 4) four = one.best[i];
    assert_int_equal(best_of(&one)->row.point.workers, 5);
    assert_true(four > 0);
    const dl_advice_pair pair = dl_advice_compare(&one, best_of(&one), &one.points[four]);
    assert_int_equal(pair.wins, pair.draws);
    assert_true(pair.differ);
}

/* Rates over equal draws: always double; alternately 2 and 1/2; equal. */
static void points_are_compared_draw_by_draw(void **state DL_UNUSED)
{
    double twice[20], turns[20], same[20];
    for (int i = 0; i < 20; i++) {
        same[i] = 100 + i;
        twice[i] = 2 * same[i];
        turns[i] = i % 2 == 0 ? 2 * same[i] : same[i] / 2;
    }
    dl_advice advice = {.config = unlimited(), .varies = true};
    const dl_advised a = {.row = {.rates = same, .rate_count = 20}, .factor = 1, .score = 100},
                     b = {.row = {.rates = twice, .rate_count = 20}, .factor = 1, .score = 200},
                     c = {.row = {.rates = turns, .rate_count = 20}, .factor = 1, .score = 100};
    dl_advice_pair pair = dl_advice_compare(&advice, &b, &a);
    assert_true(pair.differ && pair.wins == 20 && pair.ties == 0);
    assert_near(pair.ratio, 2, 1e-12);
    assert_near(pair.low, 2, 1e-9);
    assert_near(pair.high, 2, 1e-9);
    pair = dl_advice_compare(&advice, &c, &a);
    assert_true(!pair.differ && pair.wins == 10 && pair.draws == 20);
    assert_near(pair.low, 0.5, 1e-9);
    assert_near(pair.high, 2, 1e-9);
    pair = dl_advice_compare(&advice, &a, &a);
    assert_true(!pair.differ && pair.ties == 20);
    pair = dl_advice_compare(&advice, &a, &b);
    assert_true(pair.differ && pair.wins == 0);
}

static void what_cannot_be_searched_is_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *scenario, *text;
    } cases[] = {
        {"gpus = 0, 1\nworkers = 2\n[workload]\nbatch = 8", "not with [machine] gpus"},
        {"workers = 2\n[scenario]\nseed = 1, 2\n[workload]\nbatch = 8",
         "[scenario] seed has a list"},
    };
    dl_advice_config config = unlimited();
    dl_advice advice = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error err = {0};
        const made m = {"0", 0, 1, 4, cases[i].scenario};
        assert_int_equal(try_advice(&advice, &m, &config, &err), DL_ERR_USAGE);
        assert_contains(err.text, cases[i].text);
    }
    dl_error err = {0};
    config.deadline_h = 1;
    assert_int_equal(try_advice(&advice, &host_bound, &config, &err), DL_ERR_USAGE);
    assert_contains(err.text, "--deadline needs the length of the training");
    config = unlimited();
    config.goal = DL_GOAL_DEADLINE;
    assert_int_equal(try_advice(&advice, &host_bound, &config, &err), DL_ERR_USAGE);
    assert_contains(err.text, "--for deadline needs --deadline");
}

/* A scenario with fewer steps than the search still has final points. */
static void few_steps_are_enough(void **state DL_UNUSED)
{
    steps = 12;
    DL_SCOPED(dl_advice) advice = advise(&host_bound, NULL);
    steps = 60;
    assert_int_equal(best_of(&advice)->row.point.workers, 4);
}

/* A search that ends early reports this, and advises the best of its points. */
static void the_number_of_points_has_a_limit(void **state DL_UNUSED)
{
    dl_advice_config config = unlimited();
    config.max_points = 5;
    DL_SCOPED(dl_advice) advice = advise(&host_bound, &config);
    assert_true(advice.stopped);
    DL_AUTOFREE char *text = printed(&advice);
    assert_contains(text, "stopped there by --max-points");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gains_are_without_what_is_left_out),
        cmocka_unit_test(the_best_number_of_gpus_is_inside),
        cmocka_unit_test(a_micro_batch_is_kept),
        cmocka_unit_test(a_batch_suits_the_layout_of_its_point),
        cmocka_unit_test(what_does_not_fit_is_out),
        cmocka_unit_test(without_reserve_if_nothing_else_fits),
        cmocka_unit_test(a_server_is_not_ahead_by_what_is_assumed),
        cmocka_unit_test(copies_through_host_memory_go_alike),
        cmocka_unit_test(the_usual_one_is_advised_of_two_alike),
        cmocka_unit_test(other_modes_are_listed_beside_fewer_gpus),
        cmocka_unit_test(modes_of_the_scenario_are_tried),
        cmocka_unit_test(the_largest_batch_that_fits_is_said),
        cmocka_unit_test(a_large_model_is_sharded),
        cmocka_unit_test(staleness_has_a_limit),
        cmocka_unit_test(limits_of_staleness_have_two_decimals),
        cmocka_unit_test(price_and_time_have_limits),
        cmocka_unit_test(efficiency_has_a_limit),
        cmocka_unit_test(a_batch_beyond_its_limit_is_said),
        cmocka_unit_test(a_batch_that_hardly_fits_is_not_said),
        cmocka_unit_test(what_gains_little_beyond_a_limit_is_not_said),
        cmocka_unit_test(what_has_no_score_is_not_advised),
        cmocka_unit_test(the_same_seed_gives_the_same_advice),
        cmocka_unit_test(points_are_compared_draw_by_draw),
        cmocka_unit_test(what_cannot_be_searched_is_refused),
        cmocka_unit_test(few_steps_are_enough),
        cmocka_unit_test(the_number_of_points_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
