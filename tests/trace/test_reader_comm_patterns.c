#include "tests/refused.h"

#include "trace/readers/reader.h"

static void ranges_and_names_tell_collectives(void **state)
{
    static const struct {
        const char *range, *collective;
    } cases[] = {
        {"nccl:all_reduce", "AllReduce"},
        {"nccl:_all_gather_base", "AllGather"},
        {"nccl:_reduce_scatter_base", "ReduceScatter"},
        {"rccl:all_to_all", "AlltoAll"},
        {"nccl:send 0->1", "Send"},
        {"nccl:recv 0<-1", "Recv"},
        {"nccl:reduce", "Reduce"},
        {"nccl:coalesced", NULL},
        {"aten::all_reduce", NULL},
        {"c10d::allreduce_", NULL}, /* encloses nccl:all_reduce */
    };
    const dl_comm_patterns none = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *found = dl_comm_of_range(&none, cases[i].range);
        if (cases[i].collective == NULL) {
            assert_null(found);
        } else {
            assert_string_equal(found, cases[i].collective);
        }
    }
    assert_string_equal(dl_comm_of_name("reduce_scatter_tensor_coalesced"), "ReduceScatter");
    assert_string_equal(dl_comm_of_name("all_to_allv"), "AlltoAll");
    assert_string_equal(dl_comm_of_name("barrier"), "AllReduce");
    assert_null(dl_comm_of_name("wait"));
}

static void own_patterns_go_first(void **state)
{
    dl_comm_patterns patterns = {0};
    dl_error err = {0};
    (void)state;
    assert_int_equal(dl_comm_patterns_add(&patterns, "my-Exchange=AlltoAll", &err), DL_OK);
    assert_int_equal(dl_comm_patterns_add(&patterns, "nccl:all_reduce=Broadcast", &err), DL_OK);
    assert_string_equal(dl_comm_of_range(&patterns, "step/my_exchange 3"), "AlltoAll");
    assert_string_equal(dl_comm_of_range(&patterns, "nccl:all_reduce"), "Broadcast");
    assert_int_equal(dl_comm_patterns_add(&patterns, "text", &err), DL_ERR_PARSE);
    assert_int_equal(dl_comm_patterns_add(&patterns, "=AllReduce", &err), DL_ERR_PARSE);
    assert_int_equal(dl_comm_patterns_add(&patterns, "_=AllReduce", &err), DL_ERR_PARSE);
    assert_int_equal(dl_comm_patterns_add(&patterns, "text=AllReduc", &err), DL_ERR_NAME);
    assert_contains(err.text, "did you mean 'AllReduce'?");
    dl_comm_patterns_free(&patterns);
}

/* 8 ranks; 4096 bytes in and 512 out, or vice versa. */
static void bytes_are_those_of_one_rank(void **state)
{
    (void)state;
    assert_int_equal(dl_comm_rank_bytes("AllReduce", 4096, 4096, 8), 4096);
    assert_int_equal(dl_comm_rank_bytes("AllGather", 512, 4096, 8), 512);
    assert_int_equal(dl_comm_rank_bytes("ReduceScatter", 4096, 512, 8), 512);
    assert_int_equal(dl_comm_rank_bytes("ReduceScatter", 4096, 0, 8), 512);
    assert_int_equal(dl_comm_rank_bytes("ReduceScatter", 4096, 0, 0), 0);
    assert_int_equal(dl_comm_rank_bytes("AlltoAll", 4096, 4096, 8), 512);
    assert_int_equal(dl_comm_rank_bytes("AlltoAll", 4096, 4096, 0), 0);
    assert_int_equal(dl_comm_rank_bytes("Recv", 0, 64, 2), 64);
}

static void types_have_sizes(void **state)
{
    (void)state;
    assert_int_equal(dl_comm_type_bytes("Float"), 4);
    assert_int_equal(dl_comm_type_bytes("c10::BFloat16"), 2);
    assert_int_equal(dl_comm_type_bytes("long int"), 8);
    assert_int_equal(dl_comm_type_bytes("signed char"), 1);
    assert_int_equal(dl_comm_type_bytes("TensorList"), 0);
    assert_int_equal(dl_comm_type_bytes(""), 0);
}

#define RULE "[pattern tokens]\ntext = my_lib::exchange|^token_*_a2a\n"

static dl_status read_text(dl_comm_patterns *patterns, const char *text, dl_error *err)
{
    return dl_comm_patterns_read_text(patterns, "p.ini", text, strlen(text), err);
}

static void files_of_patterns_are_read(void **state)
{
    dl_comm_patterns patterns = {0};
    dl_error err = {0};
    (void)state;
    assert_int_equal(read_text(&patterns,
                               RULE "collective = AlltoAll\nalgorithm = direct\n"
                                    "[pattern other]\ntext = nccl:all_reduce\ncollective = "
                                    "Broadcast\n",
                               &err),
                     DL_OK);
    assert_int_equal(patterns.rule_count, 2);
    assert_string_equal(patterns.rules[0].algorithm, "direct");
    assert_string_equal(patterns.rules[1].algorithm, "");
    assert_string_equal(dl_comm_of_range(&patterns, "void my_lib::exchange<4>"), "AlltoAll");
    assert_string_equal(dl_comm_of_range(&patterns, "token_f32_a2a"), "AlltoAll");
    assert_null(dl_comm_of_range(&patterns, "my token_f32_a2a"));
    assert_string_equal(dl_comm_of_range(&patterns, "nccl:all_reduce"), "Broadcast");
    dl_comm_patterns_free(&patterns);
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    dl_comm_patterns patterns = {0};
    const dl_status status = read_text(&patterns, text, err);
    dl_comm_patterns_free(&patterns);
    return status;
}

static void faults_of_pattern_files_are_named(void **state)
{
    static const refused_text cases[] = {
        {RULE "collective = AlltoAl\n", DL_ERR_NAME, 3, "did you mean 'AlltoAll'?"},
        {RULE "collective = AlltoAll\nalgorithm = rong\n", DL_ERR_NAME, 4, "did you mean 'ring'?"},
        {RULE "colective = AlltoAll\n", DL_ERR_NAME, 3, "did you mean 'collective'?"},
        {"[patern x]\ntext = a\n", DL_ERR_NAME, 1, "did you mean"},
        {RULE, DL_ERR_DATA, 1, "collective"},
        {"[pattern x]\ncollective = AlltoAll\n", DL_ERR_DATA, 1, "text"},
        {"[pattern x]\ntext = a|*\ncollective = AlltoAll\n", DL_ERR_PARSE, 2, "matches every name"},
        {"", DL_ERR_DATA, 0, "no [pattern NAME]"},
    };
    (void)state;
    assert_all_refused(cases, "p.ini", read_wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_and_names_tell_collectives),
        cmocka_unit_test(own_patterns_go_first),
        cmocka_unit_test(bytes_are_those_of_one_rank),
        cmocka_unit_test(types_have_sizes),
        cmocka_unit_test(files_of_patterns_are_read),
        cmocka_unit_test(faults_of_pattern_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
