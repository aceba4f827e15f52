#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/file.h"
#include "sim/costs/costs.h"
#include "tests/sim_fixture.h"

static const char full[] = "[costs]\nschema = 1\nworkload = lenet\ndevice = some CPU, 2 cores\n"
                           "parameter_bytes = 1724320\nstate_bytes = 0\nbatch_min = 32\n"
                           "batch_max = 128\ncores = 2\n"
                           "[op input]\nfixed_ns = 100\nper_sample_ns = 5\n"
                           "[op conv1.forward]\nfixed_ns = 1200 +- 14, n = 900, fitted\n"
                           "per_sample_ns = 18230\n"
                           "[op conv1.backward]\nfixed_ns = -50\nper_sample_ns = 30000, measured\n"
                           "[copy]\nlatency_ns = 150\nbandwidth_bytes_per_s = 8e9, catalogue\n"
                           "[sync]\nbarrier_ns = 0, fitted\n"
                           "[sharing]\ncopies_1 = 1\ncopies_4 = 1.3\n"
                           "[noise 8]\nfactors_1_1_1 = 1.5, 0.1\nfactors_1_1_2 = 1.0123456\n";

static void a_file_is_read(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs(full);
    assert_string_equal(costs.device, "some CPU, 2 cores");
    assert_int_equal(costs.parameter_bytes, 1724320);
    assert_int_equal(costs.state_bytes, 0);
    assert_int_equal(costs.op_count, 3);
    assert_string_equal(costs.ops[1].name, "conv1.forward");
    assert_true(costs.ops[1].fixed_ns.error == 14);
    assert_true(costs.copy.bandwidth_bytes_per_s.value == 8e9);
    assert_true(costs.barrier_ns.known && !costs.lock_ns.known);
    assert_true(costs.sharing[4].value == 1.3 && !costs.sharing[2].known);
    assert_int_equal(costs.noise_count, 1);
    dl_costs_free(&costs);
    dl_costs_free(&costs);
}

/* Units are those of machine files; an error without a unit has the unit of its value. */
static void units_are_read(void **state DL_UNUSED)
{
    dl_costs costs =
        fixture_costs("[costs]\nschema = 1\nparameter_bytes = 2MiB\n"
                      "[op a.forward]\nfixed_ns = 1.2ms +- 14us, n = 9, fitted\n"
                      "per_sample_ns = 18.5 +- 0.25 us\n"
                      "[copy]\nlatency_ns = 5us\nbandwidth_bytes_per_s = 8GB/s, catalogue\n"
                      "[collective allreduce 8]\nbytes_0 = 35us\nbytes_1000 = 1ms, measured\n");
    assert_int_equal(costs.parameter_bytes, 2 << 20);
    assert_true(costs.ops[0].fixed_ns.value == 1.2e6 && costs.ops[0].fixed_ns.error == 14e3);
    assert_true(costs.ops[0].per_sample_ns.value == 18500);
    assert_true(costs.ops[0].per_sample_ns.error == 250);
    assert_true(costs.copy.latency_ns.value == 5000);
    assert_true(costs.copy.bandwidth_bytes_per_s.value == 8e9);
    assert_int_equal(costs.copy.bandwidth_bytes_per_s.origin, DL_ORIGIN_CATALOGUE);
    assert_true(costs.collectives[0].times[1].time_ns.value == 1e6);
    dl_costs_free(&costs);
}

/* 10 samples: input 100 + 50; forward 1200 + 182300; backward -50 + 300000. */
static void step_time_sums_over_operations(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(full);
    assert_true(dl_costs_step_ns(&costs, 10, "input") == 150);
    assert_true(dl_costs_step_ns(&costs, 10, "forward") == 183500);
    assert_true(dl_costs_step_ns(&costs, 10, "backward") == 299950);
    assert_true(dl_costs_step_ns(&costs, 10, "update") == 0);
    assert_true(dl_costs_step_ns(&costs, 10, NULL) == 483600);
}

/* 32 samples take 10 + 32 x 10 = 330 ns. Beyond that the line, which holds for batch 4 and 128 at
 * 50 and 1290 ns, is multiplied by 1.2 for each of 3 halvings and 2 doublings. The update is
 * independent of the batch. */
static void other_batches_take_a_factor(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nbatch_min = 32\nbatch_max = 32\n"
                                   "[op a.forward]\nfixed_ns = 10\nper_sample_ns = 10\n"
                                   "[op a.update]\nfixed_ns = 7\nper_sample_ns = 0\n"
                                   "[batch]\nper_doubling = 1.2\n");
    assert_true(dl_costs_step_ns(&costs, 32, NULL) == 337);
    assert_near(dl_costs_step_ns(&costs, 128, NULL), 1290 * 1.2 * 1.2 + 7, 1e-9);
    assert_near(dl_costs_step_ns(&costs, 4, NULL), 50 * 1.2 * 1.2 * 1.2 + 7, 1e-9);
    costs.per_doubling.known = false;
    assert_true(dl_costs_step_ns(&costs, 128, NULL) == 1297);
    dl_costs_free(&costs);
}

static void what_is_missing_is_listed(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs("[costs]\nschema = 1\n[op a.forward]\nfixed_ns = 1\n"
                                   "[copy]\nlatency_ns = 1\n[sharing]\ncopies_1 = 1\n");
    const unsigned others =
        ((1u << DL_COMPRESS_KINDS) - 2 - (1u << DL_COMPRESS_FP16)) * DL_NEED_QUANTISE;
    char *missing = dl_costs_missing(&costs, ~(others | DL_NEED_LEARNED));
    assert_string_equal(
        missing, "[costs] parameter_bytes, [costs] state_bytes, "
                 "[op a.forward] per_sample_ns, [copy] bandwidth_bytes_per_s, "
                 "[copy] pageable_bytes_per_s, "
                 "[average] latency_ns, [average] read_bytes_per_s, "
                 "[average] write_bytes_per_s, [update] latency_ns, "
                 "[update] read_bytes_per_s, [update] write_bytes_per_s, "
                 "[quantise fp16] encode_bytes_per_s, [quantise fp16] decode_bytes_per_s, "
                 "[memory] total_bytes_per_s, [sync] barrier_ns, "
                 "[sync] wakeup_ns, [sync] lock_ns, [sync] slice_ns, "
                 "[dispatch] serial_ns, [dispatch] per_worker_ns, [overlap] slowdown, "
                 "[generator] token_ns, [generator] request_token_ns, [trainer] fixed_frac, "
                 "[gloo] latency_ns, [gloo] bytes_per_s, [gloo] beside_frac, [gloo] ranks_factor, "
                 "[rpc] latency_ns, [rpc] bytes_per_s, "
                 "[gpu_memory] activation_bytes_per_sample, [gpu_memory] workspace_bytes, "
                 "[batch] per_doubling, [sharing] copies_2, [noise] factors_1_1_1");
    free(missing);
    missing = dl_costs_missing(&costs, DL_NEED_LOCK);
    assert_string_equal(missing, "[sync] lock_ns");
    free(missing);
    dl_costs_free(&costs);
    costs = fixture_costs(FIXTURE_COSTS);
    assert_null(dl_costs_missing(&costs, DL_NEED_NOISE - 1));
    dl_costs_free(&costs);
    costs = fixture_costs("[costs]\nschema = 1\n");
    missing = dl_costs_missing(&costs, DL_NEED_OPS);
    assert_string_equal(missing, "[op NAME]");
    free(missing);
    dl_costs_free(&costs);
}

static void the_worst_origin_is_of_what_is_needed(void **state DL_UNUSED)
{
    dl_costs costs =
        fixture_costs("[costs]\nschema = 1\n"
                      "[op a.forward]\nfixed_ns = 1, fitted\nper_sample_ns = 1, measured\n"
                      "[copy]\nlatency_ns = 1, catalogue\nbandwidth_bytes_per_s = 1e9\n"
                      "[sync]\nlock_ns = 1, measured\n");
    assert_int_equal(dl_costs_worst_origin(&costs, DL_NEED_OPS), DL_ORIGIN_FITTED);
    assert_int_equal(dl_costs_worst_origin(&costs, DL_NEED_LOCK), DL_ORIGIN_MEASURED);
    assert_int_equal(dl_costs_worst_origin(&costs, DL_NEED_OPS | DL_NEED_COPY), DL_ORIGIN_ASSUMED);
    assert_int_equal(dl_costs_worst_origin(&costs, DL_NEED_BARRIER), DL_ORIGIN_ASSUMED);
    /* Times of another GPU are assumed if they are scaled. */
    double factor = 2;
    dl_model_costs models[] = {{0}, {.factors = &factor}};
    costs.models = models;
    costs.model_count = 1;
    assert_int_equal(dl_costs_worst_origin(&costs, DL_NEED_OPS), DL_ORIGIN_FITTED);
    costs.model_count = 2;
    assert_int_equal(dl_costs_worst_origin(&costs, DL_NEED_OPS), DL_ORIGIN_ASSUMED);
    costs.models = NULL;
    costs.model_count = 0;
    dl_costs_free(&costs);
}

static void what_is_wrong_is_refused_with_its_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {"[costs]\nworkload = x\n", DL_ERR_DATA, 0, "schema"},
        {"[costs]\nschema = 2\n", DL_ERR_RANGE, 2, "schema"},
        {"[costs]\nschema = 1\nworklod = x\n", DL_ERR_NAME, 3, "workload"},
        {"[costs]\nschema = 1\nparameter_bytes = -1\n", DL_ERR_RANGE, 3, "parameter_bytes"},
        {"[costs]\nschema = 1\nbatch_min = 9\nbatch_max = 8\n", DL_ERR_RANGE, 3, "batch_max"},
        {"[costs]\nschema = 1\n[coppy]\nlatency_ns = 1\n", DL_ERR_NAME, 3, "copy"},
        {"[costs]\nschema = 1\n[copy]\nbandwidth = 1\n", DL_ERR_NAME, 4, "bandwidth_bytes_per_s"},
        {"[costs]\nschema = 1\n[copy]\nbandwidth_bytes_per_s = 0\n", DL_ERR_RANGE, 4,
         "0 B/s is not within 1 kB/s"},
        {"[costs]\nschema = 1\n[sync]\nlock_ns = -1\n", DL_ERR_RANGE, 4,
         "-1 ns is not within 0 ns to 10 s"},
        {"[costs]\nschema = 1\n[overlap]\nslowdown = 0.9\n", DL_ERR_RANGE, 4,
         "0.9 is not within 1 to 100"},
        {"[costs]\nschema = 1\n[sync]\nlock_ns = 1, gues\n", DL_ERR_NAME, 4, "unknown origin"},
        {"[costs]\nschema = 1\n[op conv1]\nfixed_ns = 1\n", DL_ERR_NAME, 4, ".bucket"},
        {"[costs]\nschema = 1\n[op .update]\nfixed_ns = 1\n", DL_ERR_NAME, 4, ".update"},
        {"[costs]\nschema = 1\n[op a.update]\nns = 1\n", DL_ERR_NAME, 4, "fixed_ns"},
        {"[costs]\nschema = 1\n[op a.update]\nfixed_ns = x\n", DL_ERR_PARSE, 4, "fixed_ns"},
        {"[costs]\nschema = 1\n[sharing]\ncopies_0 = 1\n", DL_ERR_NAME, 4, "copies_1 to copies_64"},
        {"[costs]\nschema = 1\n[sharing]\ncopies_65 = 1\n", DL_ERR_NAME, 4, "copies_64"},
        {"[costs]\nschema = 1\n[sharing]\ncopies_2 = 0\n", DL_ERR_RANGE, 4, "0.001"},
        {"[costs]\nschema = 1\n[memory]\ntotal_bytes_per_s = 12.4\n", DL_ERR_RANGE, 4,
         "did you forget the unit: 12.4GB/s?"},
        {"[costs]\nschema = 1\n[op a.update]\nfixed_ns = 1e300\n", DL_ERR_RANGE, 4, "3600 s"},
        {"[costs]\nschema = 1\n[op a.forward]\nper_sample_ns = -96100\n", DL_ERR_RANGE, 4,
         "[op a.forward] per_sample_ns = -96100: -96.1 us is not within 0 ns to 3600 s"},
        {"[costs]\nschema = 1\nbatch_max = 32\n[op a.forward]\nfixed_ns = -5000\n"
         "per_sample_ns = 100\n",
         DL_ERR_RANGE, 5, "takes less than no time at batch 32"},
        {"[costs]\nschema = 1\n[sync]\nlock_ns = 1us +- 2\n", DL_ERR_PARSE, 4, "2us"},
        {"[costs]\nschema = 1\n[batch]\nper_doubling = 0\n", DL_ERR_RANGE, 4,
         "0 is not within 0.1 to 10"},
        {"[costs]\nschema = 1\n[spread]\ngpu_frac = 2\n", DL_ERR_RANGE, 4,
         "2 is not within 0 to 1"},
    };
    assert_all_refused(cases, "costs.ini", fixture_refused_costs);
}

static void assert_same_value(const dl_value *a, const dl_value *b)
{
    assert_int_equal(a->known, b->known);
    assert_true(a->value == b->value && a->error == b->error);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->origin, b->origin);
}

typedef struct values {
    dl_value all[256];
    size_t count;
} values;

static void collect(void *user, dl_value *value, double low, double high)
{
    assert_true(!value->known || (value->value >= low && value->value <= high));
    values *v = user;
    v->all[v->count++] = *value;
}

static void what_is_written_reads_back(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(full), back = {0};
    char long_line[400];
    memset(long_line, 'x', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = '\0';
    dl_error err = {0};
    assert_int_equal(dl_costs_write(&costs, "test_costs.ini", long_line, &err), DL_OK);
    if (dl_costs_read(&back, "test_costs.ini", &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    remove("test_costs.ini");
    values before = {.count = 0}, after = {.count = 0};
    dl_costs_each(&costs, collect, &before);
    dl_costs_each(&back, collect, &after);
    assert_int_equal(before.count, after.count);
    for (size_t i = 0; i < before.count; i++)
        assert_same_value(&before.all[i], &after.all[i]);
    assert_string_equal(back.workload, "lenet");
    assert_string_equal(back.device, costs.device);
    assert_string_equal(back.ops[2].name, "conv1.backward");
    assert_int_equal(back.state_bytes, 0);
    assert_int_equal(back.batch_max, 128);
    assert_int_equal(back.noise_count, 1);
}

/* Values of one part of the machine are one section. */
static void a_part_of_the_machine_is_one_section(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(
        "[costs]\nschema = 1\n[machine link x16]\nbytes_per_s = 1GB/s\nlatency_ns = 100\n");
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_costs_write(&costs, "test_costs.ini", NULL, NULL), DL_OK);
    assert_int_equal(dl_file_read("test_costs.ini", &text, &bytes, NULL), DL_OK);
    remove("test_costs.ini");
    assert_contains(
        text, "[machine link x16]\nbytes_per_s = 1000000000, assumed\nlatency_ns = 100, assumed\n");
}

static void what_cannot_be_written_is_refused(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(full);
    dl_error err = {0};
    assert_int_equal(dl_costs_write(&costs, "no/such/folder/c.ini", NULL, &err), DL_ERR_IO);
    assert_int_equal(dl_costs_write(&costs, "/dev/full", NULL, &err), DL_ERR_IO);
    costs.device[4] = ';';
    assert_int_equal(dl_costs_write(&costs, "test_costs_bad.ini", NULL, &err), DL_ERR_DATA);
    assert_int_equal(dl_costs_read(&costs, "no/such/file.ini", &err), DL_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(units_are_read),
        cmocka_unit_test(step_time_sums_over_operations),
        cmocka_unit_test(other_batches_take_a_factor),
        cmocka_unit_test(what_is_missing_is_listed),
        cmocka_unit_test(the_worst_origin_is_of_what_is_needed),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(a_part_of_the_machine_is_one_section),
        cmocka_unit_test(what_cannot_be_written_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
