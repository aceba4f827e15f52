/* Defaults for costs that a file lacks: values calculated from the rules, their intervals, and
 * their effect on results. */
#include "tests/pipeline_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "sim/costs/assume.h"
#include "sim/report/notes.h"
#include "sim/sweep.h"
#include "tests/machine_fixture.h"

#define OPS                                                        \
    "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"       \
    "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 100000\n" \
    "[op a.update]\nfixed_ns = 1500000\nper_sample_ns = 0\n"
#define COSTS "[costs]\nschema = 1\nbatch_max = 8\n" OPS

static const dl_assumption *find(const dl_assumptions *made, const char *section, const char *key)
{
    for (size_t i = 0; i < made->count; i++) {
        const dl_assumption *a = &made->items[i];
        if (strcmp(a->key->section, section) == 0 && strcmp(dl_assumption_name(a), key) == 0) {
            return a;
        }
    }
    fail_msg("[%s] %s was not assumed", section, key);
    return NULL;
}

static void assert_assumed(const dl_assumptions *made, const char *section, const char *key,
                           double value, double low, double high)
{
    const dl_assumption *a = find(made, section, key);
    assert_near(a->value, value, 1e-9);
    assert_near(a->low, low, 1e-9);
    assert_near(a->high, high, 1e-9);
    assert_true(a->source[0] != '\0' && a->measure[0] != '\0');
}

/* 1.5 ms of updates at 100 GB/s with five vectors, at a third of that rate: 1.5e8 / 15 = 1e7 bytes.
 * A step of 8 samples takes 0.4 + 0.6 + 0.8 + 1.5 ms, the host half of it. The pageable rate is
 * half of the link's 10 GB/s. The slowdown's interval is 1 + 0.06 / 4 to 1 + 0.06 x 4. */
static void on_gpus_the_machine_file_counts(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
    DL_SCOPED(dl_machine) machine = fixture_machine(FIXTURE_GPUS);
    DL_SCOPED(dl_assumptions) made = {0};
    dl_costs_assume(&costs,
                    DL_NEED_OPS | DL_NEED_PARAMETERS | DL_NEED_STATE | DL_NEED_DISPATCH |
                        DL_NEED_OVERLAP | DL_NEED_PAGEABLE | DL_NEED_AVERAGE | DL_NEED_BARRIER |
                        DL_NEED_INPUT,
                    &machine, 0, &made);
    assert_assumed(&made, "costs", "parameter_bytes", 1e7, 2.5e6, 4e7);
    assert_int_equal(costs.parameter_bytes, 10000000);
    assert_assumed(&made, "costs", "state_bytes", 1e7, 5e6, 2e7);
    assert_assumed(&made, "dispatch", "per_worker_ns", 1.65e6, 0.55e6, 4.95e6);
    assert_assumed(&made, "dispatch", "serial_ns", 0, 0, 0);
    assert_assumed(&made, "copy", "pageable_bytes_per_s", 5e9, 1e3 + (5e9 - 1e3) / 2,
                   1e3 + (5e9 - 1e3) * 2);
    assert_assumed(&made, "overlap", "slowdown", 1.06, 1.015, 1.24);
    assert_assumed(&made, "sync", "barrier_ns", 5000, 1000, 25000);
    assert_int_equal(costs.overlap_slowdown.origin, DL_ORIGIN_ASSUMED);
    /* Includes three values of averages; no input, as no operation makes it. */
    assert_int_equal(made.count, 10);
}

/* Copies to and from buckets are part only of steps that overlap their exchange. */
static void bucket_copies_are_not_issued(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs("[costs]\nschema = 1\n[op a.forward]\nfixed_ns = 4e6\n"
                                   "per_sample_ns = 0\n[op a.bucket]\nfixed_ns = 2e6\n"
                                   "per_sample_ns = 0\n");
    DL_SCOPED(dl_machine) machine = fixture_machine(FIXTURE_GPUS);
    DL_SCOPED(dl_assumptions) made = {0};
    dl_costs_assume(&costs, DL_NEED_DISPATCH, &machine, 0, &made);
    assert_near(find(&made, "dispatch", "per_worker_ns")->value, 2e6, 1e-12);
    dl_costs_free(&costs);
}

/* If half of a step is longer, the host takes 5 ms for 500 kernels. */
static void long_steps_are_issued_in_5_ms(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs("[costs]\nschema = 1\n[op a.forward]\nfixed_ns = 0\n"
                                              "per_sample_ns = 1e6\n");
    DL_SCOPED(dl_machine) machine = fixture_machine(FIXTURE_GPUS);
    DL_SCOPED(dl_assumptions) made = {0};
    dl_costs_assume(&costs, DL_NEED_DISPATCH | DL_NEED_PARAMETERS, &machine, 0, &made);
    assert_near(find(&made, "dispatch", "per_worker_ns")->value, 5e6, 1e-12);
    assert_int_equal(made.count, 2); /* without updates and layers parameters are not assumed */
    DL_AUTOFREE char *missing = dl_costs_missing(&costs, DL_NEED_PARAMETERS);
    assert_string_equal(missing, "[costs] parameter_bytes");
}

/* 1 MB of parameters is copied in the caches, 100 MB through memory at 10 GB/s. The server updates
 * like a worker, 1 MB in 1.5 ms: read and written at 2 MB / 1.5 ms each. */
static void on_cores_the_size_counts(void **state DL_UNUSED)
{
    const unsigned needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_MEMORY | DL_NEED_SHARING |
                           DL_NEED_SLICE | DL_NEED_WAKEUP | DL_NEED_LOCK;
    dl_assumptions made = {0};
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 1MB\ncores = 4\n" OPS);
    dl_costs_assume(&costs, needs, NULL, 0, &made);
    assert_near(find(&made, "copy", "bandwidth_bytes_per_s")->value, 55e9, 1e-12);
    assert_near(find(&made, "update", "read_bytes_per_s")->value, 2e6 / 1.5e-3, 1e-9);
    assert_near(find(&made, "update", "write_bytes_per_s")->value, 2e6 / 1.5e-3, 1e-9);
    assert_near(find(&made, "memory", "total_bytes_per_s")->value, 240e9, 1e-12);
    assert_assumed(&made, "sharing", "copies_2", 1.03, 1.03 / 1.06, 1.03 * 1.06);
    assert_near(costs.sharing[2].value, 1.03, 1e-12);
    assert_near(find(&made, "sync", "lock_ns")->value, 95, 1e-12);
    dl_costs_free(&costs);
    costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 100MB\ncores = 4\n" OPS);
    dl_assumptions_free(&made);
    dl_costs_assume(&costs, needs, NULL, 0, &made);
    assert_near(find(&made, "copy", "bandwidth_bytes_per_s")->value, 10e9, 1e-12);
    assert_near(find(&made, "memory", "total_bytes_per_s")->value, 40e9, 1e-12);
    costs.memory_total_bytes_per_s = (dl_value){0};
    dl_assumptions_free(&made);
    dl_costs_assume(&costs, needs, NULL, 16, &made); /* the scenario's cores, not the measured
                                                      * ones */
    assert_near(find(&made, "memory", "total_bytes_per_s")->value, 160e9, 1e-12);
    dl_costs_free(&costs);
    costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 1MB\n");
    dl_assumptions_free(&made);
    dl_costs_assume(&costs, DL_NEED_UPDATE, NULL, 4, &made);
    assert_near(find(&made, "update", "write_bytes_per_s")->value, 8e9, 1e-12);
    dl_assumptions_free(&made);
    dl_costs_free(&costs);
}

/* Only lines of costs from traces of GPUs have 5 us of each kernel as fixed. */
static void other_batches_follow_the_lines(void **state DL_UNUSED)
{
    static const struct {
        const char *costs;
        bool on_gpus, has_kernels;
        const char *measure;
    } cases[] = {
        {COSTS, false, false, "dlprof train"},
        {COSTS, true, false, "dlcal table"},
        {COSTS "[trace 1]\nfile = t\nbatch = 8\nstep_ns = 1e6\n", true, true,
         "dlcal costs TRACE OTHER"},
    };
    DL_SCOPED(dl_machine) machine = fixture_machine(FIXTURE_GPUS);
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        DL_SCOPED(dl_costs) costs = fixture_costs(cases[i].costs);
        DL_SCOPED(dl_assumptions) made = {0};
        dl_costs_assume(&costs, DL_NEED_OTHER_BATCH, cases[i].on_gpus ? &machine : NULL, 0, &made);
        assert_assumed(&made, "batch", "per_doubling", 1, 0.8, 1.25);
        const dl_assumption *a = find(&made, "batch", "per_doubling");
        assert_true((strstr(a->source, "5 us of each kernel") != NULL) == cases[i].has_kernels);
        assert_non_null(strstr(a->measure, cases[i].measure));
    }
}

/* The slowdown by concurrent copies of a program is measured with the program itself: with dlprof
 * train's networks or, if the costs are of a whole step of another program, with that program. */
static void copies_of_the_program_itself_are_timed(void **state DL_UNUSED)
{
    dl_assumptions made = {0};
    dl_costs costs = fixture_costs("[costs]\nschema = 1\ncores = 4\n" OPS);
    dl_costs_assume(&costs, DL_NEED_SHARING, NULL, 0, &made);
    assert_non_null(strstr(find(&made, "sharing", "copies_2")->measure, "dlprof bench --model"));
    dl_costs_free(&costs);
    costs = fixture_costs("[costs]\nschema = 1\ncores = 4\n[op step.forward]\nfixed_ns = 1e6\n"
                          "per_sample_ns = 0\n");
    dl_assumptions_free(&made);
    dl_costs_assume(&costs, DL_NEED_SHARING | DL_NEED_LOCK, NULL, 0, &made);
    assert_non_null(strstr(find(&made, "sharing", "copies_2")->measure, "dlprof bench --of"));
    assert_null(strstr(find(&made, "sync", "lock_ns")->measure, "--of"));
    dl_assumptions_free(&made);
    dl_costs_free(&costs);
}

/* Exchanges of processes of a program that was traced alone: a message takes between 1.2 ms / 5 and
 * 1.2 ms x 5, and so does a call of a server; an all-reduce concurrent with compute adds at most
 * its own time. */
static void exchanges_of_processes_are_assumed(void **state DL_UNUSED)
{
    DL_SCOPED(dl_assumptions) made = {0};
    dl_costs costs = fixture_costs("[costs]\nschema = 1\n[op step.forward]\nfixed_ns = 1e6\n"
                                   "per_sample_ns = 0\n");
    assert_true(dl_costs_exchange_by_messages(&costs));
    dl_costs_assume(&costs, DL_NEED_GLOO | DL_NEED_RPC, NULL, 2, &made);
    assert_int_equal(made.count, 5);
    assert_assumed(&made, "gloo", "latency_ns", 1.2e6, 0.24e6, 6e6);
    assert_assumed(&made, "gloo", "beside_frac", 0.5, 0.25, 1);
    assert_assumed(&made, "rpc", "latency_ns", 2.3e6, 0.46e6, 11.5e6);
    assert_non_null(strstr(find(&made, "gloo", "bytes_per_s")->measure, "dlcal links"));
    assert_int_equal(costs.gloo.latency_ns.origin, DL_ORIGIN_ASSUMED);
    dl_costs_free(&costs);
    costs = fixture_costs(COSTS);
    assert_false(dl_costs_exchange_by_messages(&costs));
    dl_costs_free(&costs);
}

/* Given values stay, values that no point needs are not assumed, and layers add up exactly. */
static void only_what_is_needed_and_unknown(void **state DL_UNUSED)
{
    dl_assumptions made = {0};
    dl_costs costs = fixture_costs(FIXTURE_COSTS);
    dl_costs_assume(&costs, DL_NEED_NOISE - 1, NULL, 0, &made);
    assert_int_equal(made.count, 0);
    dl_costs_free(&costs);
    costs = fixture_costs(COSTS "[layer a]\nparameter_bytes = 3000\n");
    dl_assumptions_free(&made);
    dl_costs_assume(&costs, DL_NEED_PARAMETERS, NULL, 0, &made);
    assert_int_equal(made.count, 1);
    assert_assumed(&made, "costs", "parameter_bytes", 3000, 3000, 3000);
    assert_int_equal(costs.parameter_error_bytes, 0);
    assert_false(costs.overlap_slowdown.known);
    assert_true(dl_assumption_holds(&made.items[0], &costs));
    dl_assumption_set(&made.items[0], &costs, 5000);
    assert_int_equal(costs.parameter_bytes, 5000);
    assert_false(dl_assumption_holds(&made.items[0], &costs));
    dl_assumptions_free(&made);
    dl_costs_free(&costs);
}

/* Draws have the interval: 95 % of 4000 are inside. Four standard errors are 1.4 %. */
static void draws_have_the_interval(void **state DL_UNUSED)
{
    enum { DRAWS = 4000 };
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
    DL_SCOPED(dl_machine) machine = fixture_machine(FIXTURE_GPUS);
    DL_SCOPED(dl_assumptions) made = {0};
    dl_costs_assume(&costs, DL_NEED_PARAMETERS | DL_NEED_OVERLAP, &machine, 0, &made);
    const dl_assumption *bytes = find(&made, "costs", "parameter_bytes");
    const dl_assumption *slowdown = find(&made, "overlap", "slowdown");
    int inside[2] = {0};
    dl_random stream = {0};
    dl_random_init(&stream, 1, 2, 3, 4);
    assert_true(dl_costs_have_errors(&costs));
    for (int i = 0; i < DRAWS; i++) {
        DL_AUTO(dl_costs_draw_free) dl_costs drawn;
        dl_costs_draw(&costs, &stream, &drawn);
        const double p = (double)drawn.parameter_bytes, s = drawn.overlap_slowdown.value;
        inside[0] += p >= bytes->low && p <= bytes->high;
        inside[1] += s >= slowdown->low && s <= slowdown->high;
    }
    for (int i = 0; i < 2; i++)
        assert_near(inside[i], 0.95 * DRAWS, 0.0145);
}

/* All rates are streams of one core: all draws have the same factor over the smallest rate, 1 kB/s.
 * Latencies have another cause. */
static void one_cause_is_one_draw(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 100000000\n" OPS);
    DL_SCOPED(dl_machine) machine = fixture_machine(FIXTURE_GPUS);
    DL_SCOPED(dl_assumptions) made = {0};
    dl_costs_assume(&costs, DL_NEED_AVERAGE | DL_NEED_COPY, &machine, 0, &made);
    dl_random stream = {0};
    dl_random_init(&stream, 1, 2, 3, 4);
    for (int i = 0; i < 10; i++) {
        DL_AUTO(dl_costs_draw_free) dl_costs drawn;
        dl_costs_draw(&costs, &stream, &drawn);
        const double rate = drawn.average.read_bytes_per_s.value;
        assert_near(drawn.average.write_bytes_per_s.value, rate, 1e-12);
        assert_near(drawn.copy.bandwidth_bytes_per_s.value, rate, 1e-12);
        assert_true(rate != 10e9);
        assert_true(fabs(drawn.average.latency_ns.value / 5000 - rate / 10e9) > 1e-6);
        assert_near(drawn.copy.latency_ns.value, drawn.average.latency_ns.value, 1e-12);
    }
    dl_costs_free(&costs);
}

/* FIXTURE_GPUS with a slower, less certain x16 link; the caller frees the text. */
static char *with_bounds(void)
{
    const char *rate = strstr(FIXTURE_GPUS, "[link x16]\nbytes_per_s = 10GB/s\nlatency_ns = 100\n");
    assert_non_null(rate);
    return dl_format("%.*s[link x16]\nbytes_per_s = 1GB/s (0.5GB/s to 4GB/s)\n"
                     "duplex_bytes_per_s = 1.5GB/s (0.75GB/s to 3GB/s)\n"
                     "latency_ns = 100\nsource = a thread\n%s",
                     (int)(rate - FIXTURE_GPUS), FIXTURE_GPUS,
                     strchr(strstr(rate, "latency"), '\n'));
}

/* Of 4000 draws of 1 (0.5 to 4), 2.5 % are below 0.5, half are below 1 and 2.5 % above 4. The
 * duplex rate is off by the same number of standard errors: 1.5 (0.75 to 3) is 0.75 where the other
 * is 0.5, and 3 where it is 4. */
static void bounds_of_the_machine_are_drawn(void **state DL_UNUSED)
{
    enum { DRAWS = 4000 };
    DL_AUTOFREE char *text = with_bounds();
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
    DL_SCOPED(dl_machine) machine = fixture_machine(text);
    DL_SCOPED(dl_assumptions) made = {0};
    dl_machine_assume(&costs, &machine, &made);
    assert_int_equal(made.count, 2);
    const dl_assumption *a = &made.items[0];
    assert_string_equal(dl_assumption_section(a), "link x16");
    assert_string_equal(dl_assumption_name(a), "bytes_per_s");
    assert_string_equal(a->source, "a thread");
    assert_true(dl_costs_have_errors(&costs));
    int below[3] = {0};
    dl_random stream = {0};
    dl_random_init(&stream, 1, 2, 3, 4);
    for (int i = 0; i < DRAWS; i++) {
        DL_AUTO(dl_costs_draw_free) dl_costs drawn;
        dl_costs_draw(&costs, &stream, &drawn);
        const double one = drawn.machine_values[0].value.value,
                     both = drawn.machine_values[1].value.value;
        below[0] += one < 0.5e9;
        below[1] += one < 1e9;
        below[2] += one > 4e9;
        const double z = one < 1e9 ? log(1e9 / one) / log(2) : log(one / 1e9) / log(4);
        assert_near(both, 1.5e9 * pow(2, one < 1e9 ? -z : z), 1e-9);
    }
    assert_near(below[0], 0.025 * DRAWS, 0.4); /* four standard errors */
    assert_near(below[1], 0.5 * DRAWS, 0.064);
    assert_near(below[2], 0.025 * DRAWS, 0.4);
}

/* A clock factor is assumed for estimated times; it never exceeds that of the peak rates. */
static void a_clock_is_assumed_of_estimates(void **state DL_UNUSED)
{
    const char *rate = strstr(FIXTURE_GPUS, "fp32_flop_per_s");
    char *text = dl_format("%.*sclock_frac = 1 (0.4 to 1)\n%s", (int)(rate - FIXTURE_GPUS),
                           FIXTURE_GPUS, rate);
    DL_SCOPED(dl_machine) machine = fixture_machine(text);
    DL_SCOPED(dl_costs) measured = fixture_costs(COSTS);
    DL_SCOPED(dl_costs) estimated = fixture_costs(COSTS "[spread]\ncompute_frac = 0.1\n");
    DL_SCOPED(dl_assumptions) none = {0}, made = {0};
    dl_machine_assume(&measured, &machine, &none);
    assert_int_equal(none.count, 0);
    dl_machine_assume(&estimated, &machine, &made);
    assert_int_equal(made.count, 1);
    assert_string_equal(dl_assumption_name(&made.items[0]), "clock_frac");
    dl_random stream = {0};
    dl_random_init(&stream, 1, 2, 3, 4);
    int lower = 0;
    for (int i = 0; i < 1000; i++) {
        DL_AUTO(dl_costs_draw_free) dl_costs drawn;
        dl_costs_draw(&estimated, &stream, &drawn);
        const double clock = drawn.machine_values[0].value.value;
        assert_true(clock <= 1);
        lower += clock < 1;
    }
    assert_near(lower, 500, 0.13); /* four standard errors */
    free(text);
}

/* 60 MiB: buckets of 1, 25, 25 and 9, each ready after its share of the backward pass. */
static void buckets_are_those_of_ddp(void **state DL_UNUSED)
{
    static const double ready[] = {1, 26, 51, 60};
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 62914560\n" OPS);
    dl_costs_assume_buckets(&costs);
    assert_int_equal(costs.gradient_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_near(costs.gradients[i].bytes, ready[i] * 0x1p20, 1e-12);
        assert_near(costs.gradients[i].share, ready[i] / 60, 1e-12);
    }
    assert_true(costs.overlap);
    dl_costs_free(&costs);
}

/* The largest value of the key gives the largest number of buckets. */
static void buckets_are_not_too_many(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 1000TB\n" OPS);
    dl_costs_assume_buckets(&costs);
    assert_int_equal(costs.gradient_count, 4096);
    assert_near(costs.gradients[0].bytes, 0x1p20, 1e-12);
    assert_near(costs.gradients[4095].bytes, 1e15, 1e-12);
    dl_costs_free(&costs);
}

/* Gradients of 0.5, 0, 2, 20, 0, 10 and 3 MiB: the third fills the bucket of 1 MiB, the sixth that
 * of 25; the last bucket has the rest. */
static void buckets_are_filled_with_gradients(void **state DL_UNUSED)
{
    static const double mib[] = {0.5, 0, 2, 20, 0, 10, 3};
    static const size_t last[] = {2, 5, 6};
    dl_gradients_ready ready[7];
    double bytes = 0;
    for (int i = 0; i < 7; i++) {
        bytes += mib[i] * 0x1p20;
        ready[i] = (dl_gradients_ready){(i + 1) / 7.0, bytes};
    }
    DL_SCOPED(dl_costs) costs = fixture_costs("[costs]\nschema = 1\n" OPS);
    dl_costs_fill_buckets(&costs, ready, 7);
    assert_int_equal(costs.gradient_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_float_equal(costs.gradients[i].bytes, ready[last[i]].bytes, 0);
        assert_float_equal(costs.gradients[i].share, ready[last[i]].share, 0);
    }
    assert_true(costs.overlap);
}

/* 250 samples/s are 4 ms per sample, 4/3 forward and 8/3 backward; the host takes half of a step
 * with 1 sample, and 5 ms of a step with 8. */
static void one_number_makes_costs(void **state DL_UNUSED)
{
    dl_costs costs;
    DL_SCOPED(dl_machine) machine = fixture_machine(FIXTURE_GPUS);
    dl_assumptions made = {0};
    dl_costs_of_throughput(&costs, 250, "V100", 1);
    assert_near(dl_costs_step_ns(&costs, 1, "forward"), 4e6 / 3, 1e-12);
    assert_near(dl_costs_step_ns(&costs, 3, "backward"), 8e6, 1e-12);
    assert_near(dl_costs_step_ns(&costs, 1, NULL), 4e6, 1e-12);
    assert_int_equal(dl_costs_worst_origin(&costs, DL_NEED_OPS), DL_ORIGIN_ASSUMED);
    assert_null(dl_costs_missing(&costs, DL_NEED_OPS));
    dl_costs_assume(&costs, DL_NEED_DISPATCH | DL_NEED_PARAMETERS, &machine, 0, &made);
    assert_near(find(&made, "dispatch", "per_worker_ns")->value, 2e6, 1e-12);
    assert_int_equal(costs.parameter_bytes, -1);
    dl_costs_free(&costs);
    dl_costs_of_throughput(&costs, 250, NULL, 8);
    dl_assumptions_free(&made);
    dl_costs_assume(&costs, DL_NEED_DISPATCH, &machine, 0, &made);
    assert_near(find(&made, "dispatch", "per_worker_ns")->value, 5e6, 1e-12);
    dl_assumptions_free(&made);
    dl_costs_free(&costs);
}

/* costs: the text of a cost file; NULL: the workload has the source of times. */
static dl_study study_on(const char *machine, const char *costs, const char *workload,
                         const char *mode)
{
    dl_study study = {0};
    dl_error err = {0};
    char text[1024];
    fixture_write("assume_costs.ini", costs != NULL ? costs : "");
    fixture_write("assume_node.ini", machine);
    snprintf(text, sizeof text,
             "[scenario]\nsteps = 40\n[machine]\nfile = assume_node.ini\nworkers = 1, "
             "2\n[workload]\n%sbatch_per_worker = 1\n%s[sync]\nmode = %s\n",
             costs != NULL ? "costs = assume_costs.ini\n" : "", workload, mode);
    if (dl_study_read_text(&study, "s.ini", text, strlen(text), &err) != DL_OK ||
        dl_study_read_costs(&study, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    remove("assume_costs.ini");
    remove("assume_node.ini");
    return study;
}

static dl_study study_of(const char *costs, const char *workload, const char *mode)
{
    return study_on(FIXTURE_GPUS, costs, workload, mode);
}

/* A step of 1.1 ms is issued in half of it, 0.55 ms, or within 0.18 to 1.65 ms: at the upper bound
 * the host limits the step, and the throughput changes by 1.1 / 1.65 - 1 = -33 %. At 0.18 ms
 * nothing changes. */
static void the_influence_is_that_of_the_interval(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) study = study_of(FIXTURE_GPU_COSTS, "", "none");
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 1};
    assert_int_equal(study.variants[0].assumed.count, 2);
    if (dl_sweep_run(&sweep, &study, &config, &err) != DL_OK) fail_msg("%s", err.text);
    assert_int_equal(sweep.influence_count, 1);
    const dl_influence *i = &sweep.influences[0];
    assert_string_equal(dl_assumption_name(i->assumption), "per_worker_ns");
    assert_int_equal(sweep.rows[i->row].point.workers, 2);
    assert_near(i->at_low, 0.01, 1); /* within 0 .. 2 %: the issue of the first step */
    assert_near(i->at_high, -1.0 / 3, 0.03);
    assert_int_equal(sweep.rows[0].origin, DL_ORIGIN_ASSUMED);
    assert_near(sweep.rows[1].low_per_s, (1 + i->at_high) * sweep.rows[1].mean.throughput_per_s,
                1e-9);
}

#define OVERLAPS "[costs]\nschema = 1\nparameter_bytes = 80000\noverlap = yes\n" OPS
#define READY "[gradients]\nready_1 = 0.5, 40000\nready_2 = 1, 80000\n"

/* The two GPUs of a step of 2.5 ms exchange 80 MB by x16 at 1 GB/s, 1.5 GB/s for both directions
 * together, so exchange is nearly all of the step, and the throughput follows that of the link:
 * half of it to twice as much. Values given by the costs instead of the machine are not assumed. */
static void bounds_of_the_machine_are_tried(void **state DL_UNUSED)
{
    static const char costs[] = "[costs]\nschema = 1\nparameter_bytes = 80000000\n" OPS
                                "[dispatch]\nserial_ns = 0\nper_worker_ns = 1\n";
    DL_AUTOFREE char *text = with_bounds();
    dl_study study = study_on(text, costs, "", "allreduce");
    const dl_assumptions *made = &study.variants[0].assumed;
    assert_int_equal(made->count, 2);
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 1};
    if (dl_sweep_run(&sweep, &study, &config, &err) != DL_OK) fail_msg("%s", err.text);
    assert_int_equal(sweep.influence_count, 1); /* all have one cause */
    assert_ptr_equal(sweep.influences[0].assumption, &made->items[0]);
    assert_near(sweep.influences[0].at_low, -0.5, 0.05);
    assert_near(sweep.influences[0].at_high, 1, 0.1);
    const dl_row *row = &sweep.rows[1];
    assert_near(row->low_per_s / row->mean.throughput_per_s, 1 + sweep.influences[0].at_low, 1e-9);
    assert_near(row->speedup_high / row->speedup, 1 + sweep.influences[0].at_high, 1e-9);
    assert_true(isnan(sweep.rows[0].low_per_s)); /* one GPU exchanges nothing */
    dl_study_free(&study);
    DL_AUTOFREE char *given = dl_format("%s[machine link x16]\nbytes_per_s = 1GB/s\n", costs);
    study = study_on(text, given, "", "allreduce");
    assert_int_equal(study.variants[0].assumed.count, 1);
    assert_string_equal(dl_assumption_name(&study.variants[0].assumed.items[0]),
                        "duplex_bytes_per_s");
    dl_study_free(&study);
}

static dl_sweep sweep_of(const dl_study *study)
{
    dl_sweep sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 1};
    if (dl_sweep_run(&sweep, study, &config, &err) != DL_OK) fail_msg("%s", err.text);
    return sweep;
}

/* With the link alone, whose lower bound is half its rate, the interval starts at half: ln 2 below.
 * With minutes of compute the link is negligible, and the interval is that of compute: 2 x 0.35. If
 * both are equal, each has half the effect. */
static void causes_add_as_squares(void **state DL_UNUSED)
{
    static const char costs[] = "[costs]\nschema = 1\nparameter_bytes = 80000000\n" OPS
                                "[dispatch]\nserial_ns = 0\nper_worker_ns = 1\n";
    DL_AUTOFREE char *text = with_bounds();
    double below[3];
    char *runs = dl_format("%s[spread]\nrun_frac = 0.1\n", costs);
    DL_SCOPED(dl_study) differ = study_on(text, runs, "", "allreduce");
    DL_SCOPED(dl_sweep) of_runs = sweep_of(&differ);
    free(runs);
    for (int c = 0; c < 3; c++) {
        char *spread = dl_format("%s%s%s", costs, c > 0 ? "[spread]\ncompute_frac = 0.35\n" : "",
                                 c == 1   ? "[op b.forward]\nfixed_ns = 3.4e11\nper_sample_ns = 0\n"
                                 : c == 2 ? "[op b.forward]\nfixed_ns = 1.6e8\n"
                                            "per_sample_ns = 0\n"
                                          : "");
        DL_SCOPED(dl_study) study = study_on(text, spread, "", "allreduce");
        DL_SCOPED(dl_sweep) sweep = sweep_of(&study);
        below[c] = log(sweep.rows[1].mean.throughput_per_s / sweep.rows[1].low_per_s);
        double squares = 0;
        for (size_t i = 0; i < sweep.influence_count; i++)
            squares += pow(log1p(fmin(sweep.influences[i].at_low, sweep.influences[i].at_high)), 2);
        assert_int_equal(sweep.influence_count, c > 0 ? 2 : 1);
        assert_near(below[c], sqrt(squares), 1e-9);
        free(spread);
    }
    assert_near(below[0], log(2), 0.05);
    assert_near(below[1], 0.7, 0.01);
    assert_true(below[2] < 0.7);
    /* Runs that differ by 0.1 add 0.196, and for a ratio of two runs sqrt(2) times that. */
    const dl_row *row = &of_runs.rows[1];
    assert_near(log(row->mean.throughput_per_s / row->low_per_s), hypot(below[0], 0.195996), 1e-6);
    assert_near(log(row->speedup / row->speedup_low), hypot(below[0], sqrt(2) * 0.195996), 1e-6);
}

static bool has_note(const dl_study *study, const char *text)
{
    DL_SCOPED(dl_notes) notes = {0};
    bool found = false;
    dl_study_notes(&notes, study, DL_NOTES_ALL);
    for (size_t i = 0; i < notes.count; i++)
        found |= strstr(notes.lines[i], text) != NULL;
    return found;
}

/* Buffers are broadcast before each step; a note reports points without the broadcast. */
static void a_broadcast_without_effect_is_noted(void **state DL_UNUSED)
{
    static const char costs[] =
        "[costs]\nschema = 1\nparameter_bytes = 80000\n" OPS "[broadcast]\nbytes = 5000\n";
    dl_study study = study_of(costs, "", "allreduce");
    assert_false(has_note(&study, "has no effect"));
    dl_study_free(&study);
    study = study_of(costs, "", "average\nlag = 1\ninterval = 4");
    assert_false(has_note(&study, "has no effect"));
    dl_study_free(&study);
    study = study_of(costs, "", "allreduce\nlag = 1");
    assert_true(has_note(&study, "[broadcast] of assume_costs.ini has no effect with [sync] lag"));
    dl_study_free(&study);
    study = study_of(FIXTURE_PIPELINE_COSTS "[broadcast]\nbytes = 5000\n", "",
                     "allreduce\n[pipeline]\nstages = 2\n");
    assert_true(has_note(&study, "has no effect where stages split the model"));
    dl_study_free(&study);
}

static void averages_that_costs_place_on_a_server_are_noted(void **state DL_UNUSED)
{
    static const char averages[] = "[costs]\nschema = 1\nparameter_bytes = 80000\n" OPS
                                   "[average]\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n";
    static const struct {
        const char *mode;
        bool noted;
    } cases[] = {{"average", true}, {"average\nwhere = cpu", false}, {"allreduce", false}};
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        DL_SCOPED(dl_study) study = study_of(averages, "", cases[i].mode);
        assert_int_equal(has_note(&study, "averages are made in host memory, as [average] of"),
                         cases[i].noted);
    }
}

static void external_waits_are_noted(void **state DL_UNUSED)
{
    static const char costs[] = "[costs]\nschema = 1\nparameter_bytes = 80000\n" OPS
                                "[dispatch]\nserial_ns = 0\nper_worker_ns = 1e5\n";
    dl_study study = study_of(costs, "", "allreduce");
    assert_false(has_note(&study, "external"));
    dl_study_free(&study);
    DL_AUTOFREE char *with = dl_format("%sexternal_ns = 3e6\n", costs);
    study = study_of(with, "", "allreduce");
    assert_true(
        has_note(&study, "3.00 ms of each step, for any number of GPUs, are external waits"));
    dl_study_free(&study);
}

/* Exchange overlaps if the cost file says so and the scenario does not contradict; then the
 * slowdown is needed too. */
static void overlap_is_that_of_the_program(void **state DL_UNUSED)
{
    dl_study study = study_of(OVERLAPS READY, "", "allreduce");
    assert_true(study.variants[0].scenario.gpu->overlap);
    assert_true(dl_variant_overlaps_by_costs(&study.variants[0]));
    assert_true(study.variants[0].costs.overlap_slowdown.known);
    assert_true(has_note(&study, "overlap the backward pass: [costs] overlap = yes"));
    dl_study_free(&study);
    study = study_of(OVERLAPS READY, "[exchange]\noverlap = no\n", "allreduce");
    assert_false(study.variants[0].scenario.gpu->overlap);
    assert_false(has_note(&study, "overlap the backward pass"));
    dl_study_free(&study);
    study = study_of(OVERLAPS READY, "", "allreduce\nlag = 1");
    assert_false(study.variants[0].scenario.gpu->overlap);
    dl_study_free(&study);
}

#define NUMBER "samples_per_s = 1000\nparameter_bytes = 4MB\n"

static const dl_influence *of_overlap(const dl_sweep *sweep)
{
    for (size_t i = 0; i < sweep->influence_count; i++)
        if (sweep->influences[i].kind == DL_INFLUENCE_ASSUMPTION &&
            sweep->influences[i].assumption->of == DL_ASSUMED_SETTING)
            return &sweep->influences[i];
    return NULL;
}

/* Buckets of 1 MiB and the rest, as sent by DistributedDataParallel. Their gain is the loss of the
 * same run with overlap = no; nothing is assumed if the scenario sets overlap. */
static void one_number_assumes_overlap(void **state DL_UNUSED)
{
    dl_study study = study_of(NULL, NUMBER, "allreduce");
    assert_true(dl_variant_assumes_overlap(&study.variants[0]));
    assert_int_equal(study.variants[0].costs.gradient_count, 2);
    assert_false(has_note(&study, "overlap the backward pass"));
    DL_SCOPED(dl_study) after = study_of(NULL, NUMBER "[exchange]\noverlap = no\n", "allreduce");
    assert_false(dl_variant_assumes_overlap(&after.variants[0]));
    dl_sweep with = sweep_of(&study), without = sweep_of(&after);
    const dl_influence *i = of_overlap(&with);
    assert_non_null(i);
    const double ratio = without.rows[1].mean.throughput_per_s / with.rows[1].mean.throughput_per_s;
    assert_true(ratio < 0.95);
    assert_near(1 + i->at_low, ratio, 1e-9);
    assert_near(1 + i->at_high, 1, 1e-12);
    assert_null(of_overlap(&without));
    dl_sweep_free(&with);
    dl_sweep_free(&without);
    dl_study_free(&study);
    study = study_of(OVERLAPS READY, "", "allreduce");
    assert_false(dl_variant_assumes_overlap(&study.variants[0]));
    dl_study_free(&study);
}

/* The scenario's parameters replace those of the costs; nothing is assumed for them. */
static void parameters_may_be_the_scenarios(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) study = study_of(COSTS, "parameter_bytes = 5MB\n", "allreduce");
    assert_int_equal(study.variants[0].costs.parameter_bytes, 5000000);
    for (size_t i = 0; i < study.variants[0].assumed.count; i++) {
        assert_string_not_equal(dl_assumption_name(&study.variants[0].assumed.items[i]),
                                "parameter_bytes");
    }
}

static void a_scenario_may_refuse(void **state DL_UNUSED)
{
    const char *path = NULL;
    dl_study study = study_of(FIXTURE_GPU_COSTS, "missing = refuse\n", "ps");
    char *missing = dl_study_missing(&study, &path);
    assert_string_equal(missing, "[dispatch] serial_ns, [dispatch] per_worker_ns");
    free(missing);
    dl_study_free(&study);
    study = study_of(FIXTURE_GPU_COSTS, "missing = assume\n", "ps");
    assert_null(dl_study_missing(&study, &path));
    dl_study_free(&study);
}

/* 2000 kernels take the host 60 ms, 30 us each, with an interval from a third to three times of
 * that. */
static void launches_are_of_the_kernels_that_were_counted(void **state DL_UNUSED)
{
    const dl_machine machine = {0};
    dl_costs costs = {.parameter_bytes = -1, .state_bytes = -1, .dispatch.kernels = 2000};
    DL_SCOPED(dl_assumptions) made = {0};
    dl_costs_assume(&costs, DL_NEED_DISPATCH, &machine, 0, &made);
    assert_assumed(&made, "dispatch", "per_worker_ns", 60e6, 20e6, 180e6);
    assert_non_null(strstr(find(&made, "dispatch", "per_worker_ns")->source, "2000 kernels"));
    /* 154 ms, 77 us each, if each kernel replaces several of PyTorch's operations. */
    DL_SCOPED(dl_costs) fused = {
        .parameter_bytes = -1, .state_bytes = -1, .dispatch = {.kernels = 2000, .few = true}};
    DL_SCOPED(dl_assumptions) of_fused = {0};
    dl_costs_assume(&fused, DL_NEED_DISPATCH, &machine, 0, &of_fused);
    assert_near(fused.dispatch.per_worker_ns.value, 154e6, 1e-12);
    /* But no longer than the kernels that they replace: 5,000 take 150 ms, 6,000 180; where even C
     * takes 32 us a kernel, 4,500 take 144 ms, 5,000 160. */
    const double plain[] = {5000, 6000, 4500, 5000}, plain_ns[] = {150e6, 154e6, 144e6, 154e6};
    for (int i = 0; i < 4; i++) {
        DL_SCOPED(dl_assumptions) replaced = {0};
        fused.dispatch.per_worker_ns = (dl_value){0};
        fused.dispatch.plain = plain[i];
        fused.dispatch.least_ns = i < 2 ? 0 : 32e3;
        dl_costs_assume(&fused, DL_NEED_DISPATCH, &machine, 0, &replaced);
        assert_near(fused.dispatch.per_worker_ns.value, plain_ns[i], 1e-12);
    }
    fused.dispatch.least_ns = fused.dispatch.plain = 0;
    /* 100 products of single experts take 3.3 ms more. */
    DL_SCOPED(dl_assumptions) of_singles = {0};
    fused.dispatch.per_worker_ns = (dl_value){0};
    fused.dispatch.singles = 100;
    dl_costs_assume(&fused, DL_NEED_DISPATCH, &machine, 0, &of_singles);
    assert_near(fused.dispatch.per_worker_ns.value, 157.3e6, 1e-12);
    assert_non_null(strstr(find(&of_singles, "dispatch", "per_worker_ns")->source,
                           "100 products of single experts, 33 us each"));
    /* A CUDA graph takes 43 us, whatever is in it. */
    DL_SCOPED(dl_assumptions) of_graph = {0};
    fused.dispatch.per_worker_ns = (dl_value){0};
    fused.dispatch.graphs = true;
    dl_costs_assume(&fused, DL_NEED_DISPATCH, &machine, 0, &of_graph);
    assert_assumed(&of_graph, "dispatch", "per_worker_ns", 43e3, 43e3 / 3, 129e3);
    fused.dispatch.graphs = false;
    fused.dispatch.singles = 0;
    /* A measured step permits 100 ms, which leaves the interval from 51.3 ms, with the middle
     * sqrt(51.3 100) = 71.6 ms; 50 ms are below the interval, which then stays. */
    const double most_ns[] = {100e6, 50e6}, values_ns[] = {71.6473e6, 154e6};
    for (int i = 0; i < 2; i++) {
        DL_SCOPED(dl_assumptions) permitted = {0};
        fused.dispatch.per_worker_ns = (dl_value){0};
        fused.dispatch.most_ns = most_ns[i];
        dl_costs_assume(&fused, DL_NEED_DISPATCH, &machine, 0, &permitted);
        assert_near(fused.dispatch.per_worker_ns.value, values_ns[i], 1e-6);
        assert_near(find(&permitted, "dispatch", "per_worker_ns")->high, i == 0 ? 100e6 : 462e6,
                    1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_are_of_the_kernels_that_were_counted),
        cmocka_unit_test(on_gpus_the_machine_file_counts),
        cmocka_unit_test(bucket_copies_are_not_issued),
        cmocka_unit_test(long_steps_are_issued_in_5_ms),
        cmocka_unit_test(on_cores_the_size_counts),
        cmocka_unit_test(other_batches_follow_the_lines),
        cmocka_unit_test(copies_of_the_program_itself_are_timed),
        cmocka_unit_test(exchanges_of_processes_are_assumed),
        cmocka_unit_test(only_what_is_needed_and_unknown),
        cmocka_unit_test(draws_have_the_interval),
        cmocka_unit_test(the_influence_is_that_of_the_interval),
        cmocka_unit_test(one_cause_is_one_draw),
        cmocka_unit_test(bounds_of_the_machine_are_drawn),
        cmocka_unit_test(bounds_of_the_machine_are_tried),
        cmocka_unit_test(a_clock_is_assumed_of_estimates),
        cmocka_unit_test(causes_add_as_squares),
        cmocka_unit_test(buckets_are_those_of_ddp),
        cmocka_unit_test(buckets_are_not_too_many),
        cmocka_unit_test(buckets_are_filled_with_gradients),
        cmocka_unit_test(one_number_makes_costs),
        cmocka_unit_test(averages_that_costs_place_on_a_server_are_noted),
        cmocka_unit_test(external_waits_are_noted),
        cmocka_unit_test(a_broadcast_without_effect_is_noted),
        cmocka_unit_test(overlap_is_that_of_the_program),
        cmocka_unit_test(one_number_assumes_overlap),
        cmocka_unit_test(parameters_may_be_the_scenarios),
        cmocka_unit_test(a_scenario_may_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
