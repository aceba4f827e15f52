/* [trace NUMBER] and [notes] of cost files. */
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/sim_fixture.h"

#define HEAD "[costs]\nschema = 1\n"
#define FIRST "[trace 1]\nbatch = 32\n"

static void a_trace_is_read(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(
        HEAD "[trace 1]\nfile = a.json.gz\nranks = 8\nrank = 3\nbatch = 1024\nallreduces = yes\n"
             "step_ns = 76.8 ms +- 0.5 ms, n = 5, measured\nrecording_ns = 9 ms\n"
             "collective_1 = AlltoAll, 7, 8e7, 2.1e7, 8\n"
             "collective_2 = Broadcast, 0.2, 0, 1000, 0\n[trace 2]\nbatch = 64\n"
             "[notes]\nnote_1 = first\nnote_2 = second; with more\n");
    assert_int_equal(costs.trace_count, 2);
    const dl_cost_trace *t = &costs.traces[0];
    assert_string_equal(t->file, "a.json.gz");
    assert_true(t->ranks == 8 && t->rank == 3 && t->batch == 1024 && t->allreduces);
    assert_true(t->step_ns.value == 76.8e6 && t->step_ns.error == 0.5e6 && t->step_ns.count == 5);
    assert_true(t->recording_ns.value == 9e6);
    assert_int_equal(t->collective_count, 2);
    const dl_traced_collective *c = t->collectives;
    assert_string_equal(c[0].name, "AlltoAll");
    assert_true(c[0].calls == 7 && c[0].bytes == 8e7 && c[0].ns == 2.1e7 && c[0].ranks == 8);
    assert_true(c[1].calls == 0.2 && c[1].bytes == 0 && c[1].ranks == 0);
    t = &costs.traces[1];
    assert_null(t->file);
    assert_true(t->ranks == 0 && t->rank == -1 && !t->allreduces && !t->step_ns.known);
    assert_int_equal(costs.note_count, 2);
    assert_string_equal(costs.notes[1], "second; with more");
}

static void what_is_wrong_is_refused_with_its_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {HEAD "[trace 2]\nbatch = 1\n", DL_ERR_NAME, 4, "[trace 1], [trace 2]"},
        {HEAD "[trace first]\nbatch = 1\n", DL_ERR_NAME, 4, "[trace 1], [trace 2]"},
        {HEAD FIRST "[trace 3]\nbatch = 1\n", DL_ERR_NAME, 6, "in turn"},
        {HEAD "[trace 1]\nranks = 8\n", DL_ERR_DATA, 3, "batch"},
        {HEAD FIRST "ranks = 0\n", DL_ERR_RANGE, 5, "ranks"},
        {HEAD FIRST "ranks = 6\nstages = 4\n", DL_ERR_RANGE, 5, "tensor_ranks = 4"},
        /* 2^10 x 2^19 x 2^3 */
        {HEAD "tensor_ranks = 8\n" FIRST "stages = 1024\nshards = 524288\nranks = 8\n",
         DL_ERR_RANGE, 8, "tensor_ranks = 4294967296"},
        {HEAD FIRST "step_ns = -1\n", DL_ERR_RANGE, 5, "step_ns"},
        {HEAD FIRST "collective_2 = A, 1, 1, 1, 1\n", DL_ERR_NAME, 5, "collective_1"},
        {HEAD FIRST "collective_1 = A, 1, 1\n", DL_ERR_PARSE, 5, "calls, bytes, ns and ranks"},
        {HEAD FIRST "collective_1 = A, 1, 1, x, 1\n", DL_ERR_PARSE, 5, "'x'"},
        {HEAD "[notes]\nnote_2 = a\n", DL_ERR_NAME, 4, "note_1"},
    };
    assert_all_refused(cases, "costs.ini", fixture_refused_costs);
}

/* Names with a comma and notes with text that would start a comment: the words are kept. */
static void what_is_written_reads_back(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(
        HEAD "[trace 1]\nfile = a.json\nranks = 2\nrank = 0\nbatch = 8\nallreduces = yes\n"
             "step_ns = 2e6 +- 1000, n = 3, measured\nrecording_ns = 1000, assumed\n"
             "collective_1 = AllGather, 4, 1.5e6, 12345, 2\n[notes]\nnote_1 = one\nnote_2 = two\n");
    DL_SCOPED(dl_costs) back = {0};
    dl_error err = {0};
    free(costs.notes[1]);
    costs.notes[1] = dl_strdup("; two ; three");
    free(costs.traces[0].collectives[0].name);
    costs.traces[0].collectives[0].name = dl_strdup("All,Gather");
    assert_int_equal(dl_costs_write(&costs, "test_costs_traces.ini", NULL, &err), DL_OK);
    if (dl_costs_read(&back, "test_costs_traces.ini", &err) != DL_OK) fail_msg("%s", err.text);
    remove("test_costs_traces.ini");
    assert_int_equal(back.trace_count, 1);
    const dl_cost_trace *a = &costs.traces[0], *b = &back.traces[0];
    assert_string_equal(b->file, "a.json");
    assert_true(b->ranks == 2 && b->rank == 0 && b->batch == 8 && b->allreduces);
    assert_true(b->step_ns.value == a->step_ns.value && b->step_ns.error == a->step_ns.error);
    assert_true(b->recording_ns.value == 1000);
    assert_int_equal(b->collective_count, 1);
    assert_string_equal(b->collectives[0].name, "All Gather");
    assert_true(b->collectives[0].bytes == 1.5e6 && b->collectives[0].ns == 12345);
    assert_int_equal(back.note_count, 2);
    assert_string_equal(back.notes[0], "one");
    assert_string_equal(back.notes[1], ", two , three");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_read),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
