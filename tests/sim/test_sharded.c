/* Optimizer state, gradients and parameters sharded among workers, compared with recursions over
 * the collectives of a step. Two GPUs on one switch: gathering or reduce-scattering a vector takes
 * 200 ns and half of its bytes at 10 GB/s, an all-reduce twice that. */
#include "tests/gpu_fixture.h"

#include "sim/island/memory.h"

#define FORWARD_NS 400e3
#define BACKWARD_NS 600e3
#define UPDATE_NS 100e3
#define BUCKETS_MAX 64

/* Further lines of the update's section. */
static const char *of_update = "";

static dl_run_result run(double parameters, double bucket, const char *sharded, int workers,
                         const char *more)
{
    char text[1024], path[64];
    snprintf(text, sizeof text,
             "[costs]\nschema = 1\nparameter_bytes = %.0f\n" FIXTURE_PASSES FIXTURE_UPDATE
             "%s[overlap]\nslowdown = 1\n" FIXTURE_FREE_DISPATCH,
             parameters, of_update);
    snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    DL_SCOPED(dl_costs) costs = fixture_costs(text);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = 20\n[machine]\nfile = %s\nworkers = %d\n[workload]\ncosts = c.ini\n"
        "batch_per_worker = 6\n[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n"
        "bucket_bytes = %.0f\nsharded = %s\n%s",
        path, workers, bucket, sharded, more);
    unlink(path);
    return fixture_run(&costs, &scenario);
}

static double step_ns(double parameters, double bucket, const char *sharded, const char *more)
{
    DL_SCOPED(dl_run_result) r = run(parameters, bucket, sharded, 2, more);
    return 1e9 * r.step_p50_s;
}

static double half_ns(double bytes)
{
    return 200 + bytes / 20;
}

/* Sums overlap the backward pass like all-reduces; each GPU updates half; then all parameters are
 * gathered. */
static void optimizers_gather_after_the_update(void **state DL_UNUSED)
{
    static const double parameters[] = {80e3, 4e6, 80e6};
    static const double parts[] = {1, 2, 3.7, 10};
    for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++) {
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            const double all = parameters[p], bucket = floor(all / parts[k]);
            double beside_ns = 0, after_ns = FORWARD_NS + BACKWARD_NS, summed_ns = after_ns;
            for (double done = 0; done < all; done += bucket) {
                const double bytes = fmin(bucket, all - done);
                const double ready_ns = FORWARD_NS + BACKWARD_NS * (done + bytes) / all;
                beside_ns = fmax(ready_ns, beside_ns) + half_ns(bytes);
                after_ns += half_ns(bytes);
                summed_ns += 2 * half_ns(bytes);
            }
            const double rest_ns = UPDATE_NS / 2 + half_ns(all);
            assert_near(step_ns(all, bucket, "optimizer", "overlap = yes\n"), beside_ns + rest_ns,
                        1e-4);
            assert_near(step_ns(all, bucket, "optimizer", "overlap = no\n"), after_ns + rest_ns,
                        1e-4);
            /* Among the workers of each node, sums are all-reduces. */
            assert_near(step_ns(all, bucket, "optimizer", "overlap = no\nsharded_among = node\n"),
                        summed_ns + rest_ns, 1e-4);
            assert_near(step_ns(all, bucket, "gradients", "overlap = yes\n"), beside_ns + rest_ns,
                        1e-4);
            /* Sharded gradients are summed after each micro-batch. */
            assert_near(
                step_ns(all, bucket, "gradients", "overlap = yes\n[sync]\naccumulate = 3\n"),
                3 * beside_ns + rest_ns, 1e-4);
            assert_near(step_ns(all, bucket, "gradients", "overlap = no\n[sync]\naccumulate = 3\n"),
                        3 * after_ns + rest_ns, 1e-4);
            assert_near(step_ns(all, bucket, "optimizer", "overlap = no\n[sync]\naccumulate = 3\n"),
                        2 * (FORWARD_NS + BACKWARD_NS) + after_ns + rest_ns, 1e-4);
        }
    }
}

/* Two GPUs that share an update, 40 % of which are starts of kernels, each take all starts and half
 * of the rest: 20 % of the update more than without starts, whatever is sharded, also by a layout.
 * Without sharding each GPU takes the whole update in any case. */
static void starts_of_an_update_are_not_divided(void **state DL_UNUSED)
{
    static const struct {
        const char *sharded, *more;
        double more_ns;
    } cases[] = {{"optimizer", "", 0.2 * UPDATE_NS},
                 {"parameters", "", 0.2 * UPDATE_NS},
                 {"none", "", 0},
                 {"none", "[machine]\nlayout = fsdp=2\n", 0.2 * UPDATE_NS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double before_ns = step_ns(4e6, 4e6, cases[i].sharded, cases[i].more);
        of_update = "starts_frac = 0.4\n";
        const double ns = step_ns(4e6, 4e6, cases[i].sharded, cases[i].more);
        of_update = "";
        assert_near(ns - before_ns, cases[i].more_ns, 1e-9);
    }
}

/* With a lag the sums, each GPU's update of its half and the gather overlap the next step, which
 * also includes the work of that update: the step takes the longer of the two. */
static void an_exchange_of_parts_may_lag(void **state DL_UNUSED)
{
    static const char *const sharded[] = {"optimizer", "gradients"};
    static const double parameters[] = {80e3, 4e6, 20e6, 80e6};
    const double computing_ns = FORWARD_NS + BACKWARD_NS + UPDATE_NS / 2;
    for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++) {
        for (int k = 1; k <= 4; k++) {
            const double all = parameters[p], bucket = all / k;
            const double exchange_ns = k * half_ns(bucket) + UPDATE_NS / 2 + half_ns(all);
            assert_near(step_ns(all, bucket, sharded[k % 2], "[sync]\nlag = 1\n"),
                        fmax(computing_ns, exchange_ns), 1e-4);
        }
    }
}

/* A step as launched by FSDP: on one stream gathers for the forward pass, then for the backward
 * pass one gather more than sums. Each gather is launched when the previous use starts to compute,
 * each sum when its bucket's backward pass has ended. */
typedef struct sharded_step {
    int buckets;
    double bytes[BUCKETS_MAX], all;
    double stream_ns; /* end of the stream's last collective */
    double computed_ns;
    double used_ns[2 * BUCKETS_MAX], gathered_ns[2 * BUCKETS_MAX], ended_ns[2 * BUCKETS_MAX];
} sharded_step;

static int bucket_of(const sharded_step *s, int use)
{
    return use < s->buckets ? s->buckets - 1 - use : use - s->buckets;
}

static void gather(sharded_step *s, int use)
{
    const double launched_ns = use > 0 ? s->used_ns[use - 1] : 0;
    s->stream_ns = fmax(s->stream_ns, launched_ns) + half_ns(s->bytes[bucket_of(s, use)]);
    s->gathered_ns[use] = s->stream_ns;
}

static void compute(sharded_step *s, int use)
{
    const double pass_ns = use < s->buckets ? FORWARD_NS : BACKWARD_NS;
    s->used_ns[use] = fmax(s->computed_ns, s->gathered_ns[use]);
    s->computed_ns = s->ended_ns[use] =
        s->used_ns[use] + pass_ns * s->bytes[bucket_of(s, use)] / s->all;
}

static void sum(sharded_step *s, int bucket)
{
    s->stream_ns = fmax(s->stream_ns, s->ended_ns[s->buckets + bucket]) + half_ns(s->bytes[bucket]);
}

/* Time in ns of a step with `passes` passes in sequence; `kept`: gathered only for the forward
 * pass. */
static double sharded_step_ns(double all, double bucket, bool kept, int passes)
{
    sharded_step s = {.all = all};
    for (double done = 0; done < all; done += bucket)
        s.bytes[s.buckets++] = fmin(bucket, all - done);
    const int gathers = (kept ? 1 : 2) * s.buckets;
    gather(&s, 0);
    for (int use = 0; use < 2 * s.buckets; use++) {
        if (use >= gathers) s.gathered_ns[use] = 0;
        compute(&s, use);
        if (use + 1 < gathers) gather(&s, use + 1);
        if (use >= s.buckets) sum(&s, use - s.buckets);
    }
    return passes * s.stream_ns + UPDATE_NS / 2;
}

static void parameters_are_gathered_for_both_passes(void **state DL_UNUSED)
{
    static const double parameters[] = {80e3, 4e6, 8e6, 80e6};
    static const double parts[] = {1, 2, 3, 3.7, 10, 40};
    for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++) {
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            const double bucket = floor(parameters[p] / parts[k]);
            assert_near(step_ns(parameters[p], bucket, "parameters", "overlap = yes\n"),
                        sharded_step_ns(parameters[p], bucket, false, 1), 1e-4);
            assert_near(step_ns(parameters[p], bucket, "parameters",
                                "overlap = yes\nreshard_after_forward = no\n"),
                        sharded_step_ns(parameters[p], bucket, true, 1), 1e-4);
        }
    }
}

/* Three micro-batches gather and sum in sequence; there is one update. */
static void micro_batches_exchange_each(void **state DL_UNUSED)
{
    static const double parts[] = {1, 3.7, 10};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        const double bucket = floor(8e6 / parts[k]);
        assert_near(step_ns(8e6, bucket, "parameters", "overlap = yes\n[sync]\naccumulate = 3\n"),
                    sharded_step_ns(8e6, bucket, false, 3), 1e-4);
        assert_near(step_ns(8e6, bucket, "parameters",
                            "overlap = yes\nreshard_after_forward = no\n[sync]\naccumulate = 3\n"),
                    sharded_step_ns(8e6, bucket, true, 3), 1e-4);
    }
}

/* The slower of two GPUs delays the gathers as well as the sums. */
static void all_wait_for_the_slowest(void **state DL_UNUSED)
{
    const double one = step_ns(8e3, 8e3, "parameters", "overlap = yes\n[noise]\nslow = 1:2\n");
    assert_near(one, half_ns(8e3) + 2 * FORWARD_NS + 2 * BACKWARD_NS + half_ns(8e3) + UPDATE_NS / 2,
                1e-4);
}

/* n GPUs send (n - 1) S to sum or gather a vector of S bytes. */
static void bytes_are_those_of_the_collectives(void **state DL_UNUSED)
{
    static const struct {
        const char *sharded, *more;
        double vectors;
    } cases[] = {
        {"none", "", 2},
        {"optimizer", "", 2},
        {"gradients", "", 2},
        {"parameters", "", 3},
        {"parameters", "reshard_after_forward = no\n", 2},
        {"optimizer", "param_dtype = bf16\n", 1.5},
        {"gradients", "reduce_dtype = bf16\n", 1.5},
        {"parameters", "param_dtype = bf16\nreduce_dtype = bf16\n", 1.5},
        {"parameters", "param_dtype = bf16\nreduce_dtype = fp32\n", 2},
        {"parameters", "[sync]\naccumulate = 2\n", 6},
        {"gradients", "[sync]\naccumulate = 2\n", 3},
        {"optimizer", "[sync]\naccumulate = 2\n", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[200];
        snprintf(more, sizeof more, "overlap = yes\n%s", cases[i].more);
        DL_SCOPED(dl_run_result) r = run(4e6, 1e6, cases[i].sharded, 4, more);
        assert_near(r.usage.traffic_bytes, 20 * cases[i].vectors * 3 * 4e6, 1e-9);
    }
}

/* A single GPU has nothing to shard. */
static void one_worker_is_not_sharded(void **state DL_UNUSED)
{
    static const char *const names[] = {"optimizer", "gradients", "parameters"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        DL_SCOPED(dl_run_result) r = run(4e6, 1e6, names[i], 1, "overlap = yes\n");
        assert_near(1e9 * r.step_p50_s, FORWARD_NS + BACKWARD_NS + UPDATE_NS, 1e-9);
    }
}

static double own_bytes(const dl_costs *costs, double batch, const dl_gpu_options *options,
                        int workers)
{
    const dl_memory_rank rank = {.costs = costs,
                                 .options = options,
                                 .split = {.stages = 1,
                                           .shards = 1,
                                           .context = 1,
                                           .experts = 1,
                                           .chunks = 1,
                                           .micro_batches = 2,
                                           .samples = batch},
                                 .plan = dl_exchange_plan_among(options, false, workers),
                                 .parameter_bytes = (double)costs->parameter_bytes,
                                 .state_bytes = (double)costs->state_bytes};
    const dl_gpu_content content = dl_memory_of_rank(&rank, NULL);
    return dl_gpu_content_bytes(&content);
}

/* 80 kB of parameters and of gradients, 160 kB of state, 2 kB per sample and 1 kB; buckets of 10
 * kB; four workers. With sharded parameters two buckets of parameters are gathered, one bucket of
 * gradients exists and one is reduced. */
static void memory_is_divided(void **state DL_UNUSED)
{
    static const double expected[] = {80e3 + 80e3 + 160e3, 80e3 + 80e3 + 40e3, 80e3 + 30e3 + 40e3,
                                      40e3 + 40e3 + 40e3};
    dl_costs costs =
        fixture_costs("[costs]\nschema = 1\nparameter_bytes = 80000\nstate_bytes = 160000\n"
                      "[gpu_memory]\nactivation_bytes_per_sample = 2000\nworkspace_bytes = 1000\n");
    /* In bf16: whole parameters take 40 kB in addition to fp32 parts of 20 kB; buckets of gradients
     * take 10 kB and 5 kB, or twice that. */
    static const double halved[] = {320e3, 60e3 + 40e3 + 40e3, 60e3 + 25e3 + 40e3,
                                    30e3 + 30e3 + 40e3};
    for (int s = DL_SHARDED_NONE; s <= DL_SHARDED_PARAMETERS; s++) {
        dl_gpu_options options = {.sharded = (dl_sharded)s, .bucket_bytes = 10000};
        assert_near(own_bytes(&costs, 8, &options, 4), expected[s] + 17e3, 1e-12);
        assert_near(own_bytes(&costs, 8, &options, 1), expected[0] + 17e3, 1e-12);
        options.param_dtype = options.reduce_dtype = DL_DTYPE_BF16;
        assert_near(own_bytes(&costs, 8, &options, 4), halved[s] + 17e3, 1e-12);
        options.param_dtype = options.reduce_dtype = DL_DTYPE_FP32;
        options.keeps_parameters = true; /* and each GPU's part */
        assert_near(own_bytes(&costs, 8, &options, 4),
                    expected[s] + (s == DL_SHARDED_PARAMETERS ? 60e3 : 0) + 17e3, 1e-12);
        options.keeps_parameters = false;
        options.bucket_bytes = 0; /* a single bucket: gradients and parameters exist as a whole */
        assert_near(own_bytes(&costs, 8, &options, 4),
                    160e3 + (s == DL_SHARDED_NONE ? 160e3 : 40e3) + 17e3 +
                        (s == DL_SHARDED_PARAMETERS ? 2 * 20e3 : 0),
                    1e-12);
    }
    dl_costs_free(&costs);
}

static void what_cannot_be_sharded_is_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *lines, *says;
    } cases[] = {
        {"[sync]\nmode = average\n[exchange]\nsharded = optimizer\n", "only with mode allreduce"},
        {"[sync]\nmode = allreduce\nlag = 1\n[exchange]\nsharded = parameters\n",
         "each pass gathers those of the last update"},
        {"[sync]\nmode = allreduce\n[exchange]\nsharded = gradients\ncompress = topk\n"
         "topk_frac = 0.1\n",
         "not with compress = topk"},
        {"[sync]\nmode = allreduce\n[exchange]\nsharded = gradients\ncompress = fp16\n"
         "reduce_dtype = bf16\n",
         "give only one"},
        {"[sync]\nmode = allreduce\n[exchange]\nsharded = gradients\nreshard_after_forward = no\n",
         "sharded = parameters"},
        {"[sync]\nmode = allreduce\nlag = 1\naccumulate = 2\n[exchange]\nsharded = gradients\n",
         "not with [sync] lag and several micro-batches"},
        {"[machine]\nlayout = tp=2\n[sync]\nmode = allreduce\naccumulate = 2\n[exchange]\n"
         "sharded = gradients\n",
         "each micro-batch would be exchanged"},
        {"[sync]\nmode = allreduce\n[exchange]\nsharded = gradients\nsharded_among = node\n",
         "sharded = optimizer"},
        {"[sync]\nmode = allreduce\n[exchange]\nparam_dtype = bf16\n",
         "sharded = optimizer, gradients, parameters"},
        {"[sync]\nmode = allreduce\n[exchange]\nsharded = parameters\noverlap = no\n",
         "not with overlap = no"},
        {"[sync]\nmode = allreduce\n[exchange]\nsharded = parameter\n",
         "did you mean 'parameters'"},
    };
    char path[64];
    snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        dl_scenario scenario = {0};
        dl_error err = {0};
        snprintf(text, sizeof text,
                 "[machine]\nfile = %s\nworkers = 2\n[workload]\ncosts = c.ini\n"
                 "batch_per_worker = 2\n%s",
                 path, cases[i].lines);
        assert_int_not_equal(dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), &err),
                             DL_OK);
        assert_contains(err.text, cases[i].says);
    }
    unlink(path);
}

/* Reduced gradients are sent in 16 bits. A GPU writes the messages, a read and half a write at 0.85
 * of its memory's 100 GB/s, and reads its half of them, at 0.43 of it; parameters are gathered as
 * they are. FSDP's messages take as long as those of reduce_dtype = bf16. */
static void shards_reduce_messages(void **state DL_UNUSED)
{
    static const double parameters[] = {80e3, 4e6, 80e6};
    for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++) {
        const double all = parameters[p];
        const double pack_ns = 1.5 * all / 0.85 / 100, unpack_ns = 1.5 * all / 2 / 0.43 / 100;
        assert_near(step_ns(all, all, "optimizer", "overlap = no\ncompress = fp16\n"),
                    FORWARD_NS + BACKWARD_NS + pack_ns + half_ns(all / 2) + unpack_ns +
                        UPDATE_NS / 2 + half_ns(all),
                    1e-5);
        /* A free host that reads the loss of the last pass changes nothing. */
        assert_near(step_ns(all, all / 4, "parameters",
                            "overlap = yes\n[machine]\nreads = forward\n[sync]\naccumulate = 2\n"),
                    step_ns(all, all / 4, "parameters", "overlap = yes\n[sync]\naccumulate = 2\n"),
                    1e-6);
        for (int accumulate = 1; accumulate <= 2; accumulate++) {
            const DL_AUTOFREE char *bf16 = dl_format(
                "overlap = yes\nreduce_dtype = bf16\n[sync]\naccumulate = %d\n", accumulate);
            const DL_AUTOFREE char *fp16 =
                dl_format("overlap = yes\ncompress = fp16\n[sync]\naccumulate = %d\n", accumulate);
            assert_near(step_ns(all, all, "parameters", fp16) -
                            step_ns(all, all, "parameters", bf16),
                        accumulate * (pack_ns + unpack_ns), 1e-3);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_gather_after_the_update),
        cmocka_unit_test(starts_of_an_update_are_not_divided),
        cmocka_unit_test(an_exchange_of_parts_may_lag),
        cmocka_unit_test(parameters_are_gathered_for_both_passes),
        cmocka_unit_test(micro_batches_exchange_each),
        cmocka_unit_test(all_wait_for_the_slowest),
        cmocka_unit_test(bytes_are_those_of_the_collectives),
        cmocka_unit_test(one_worker_is_not_sharded),
        cmocka_unit_test(memory_is_divided),
        cmocka_unit_test(what_cannot_be_sharded_is_refused),
        cmocka_unit_test(shards_reduce_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
