#include "tests/check.h"

#include <stdlib.h>

#include "trace/readers/reader.h"

static void ranges_and_names_tell_collectives(void **state DL_UNUSED)
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
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *found = dl_comm_of_range(cases[i].range);
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

static void rules_of_the_user_go_first(void **state DL_UNUSED)
{
    static const char *const texts[] = {"my_lib::exchange|^token_*_a2a=AlltoAll",
                                        "nccl:all_reduce=Broadcast"};
    dl_kernel_rule rules[2];
    dl_error err = {0};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(dl_comm_rule_parse(texts[i], &rules[i], &err), DL_OK);
    dl_kernel_use_rules(rules, 2);
    assert_string_equal(dl_comm_of_range("void my_lib::exchange<4>"), "AlltoAll");
    assert_string_equal(dl_comm_of_range("token_f32_a2a"), "AlltoAll");
    assert_null(dl_comm_of_range("my token_f32_a2a"));
    assert_string_equal(dl_comm_of_range("nccl:all_reduce"), "Broadcast");
    dl_kernel_use_rules(NULL, 0);
    assert_string_equal(dl_comm_of_range("nccl:all_reduce"), "AllReduce");
    for (size_t i = 0; i < 2; i++)
        free((char *)(uintptr_t)rules[i].patterns);
}

static void faults_of_rules_are_named(void **state DL_UNUSED)
{
    static const struct {
        const char *rule;
        dl_status status;
        const char *text;
    } cases[] = {
        {"text", DL_ERR_PARSE, "expected TEXT=COLLECTIVE"},
        {"=AllReduce", DL_ERR_PARSE, "matches every name"},
        {"a|*=AllReduce", DL_ERR_PARSE, "matches every name"},
        {"text=AllReduc", DL_ERR_NAME, "did you mean 'AllReduce'?"},
    };
    dl_kernel_rule rule;
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        dl_error err = {0};
        assert_int_equal(dl_comm_rule_parse(cases[i].rule, &rule, &err), cases[i].status);
        assert_contains(err.text, cases[i].text);
    }
}

/* 8 ranks; 4096 bytes in and 512 out, or vice versa. */
static void bytes_are_those_of_one_rank(void **state DL_UNUSED)
{
    assert_int_equal(dl_comm_rank_bytes("AllReduce", 4096, 4096, 8), 4096);
    assert_int_equal(dl_comm_rank_bytes("AllGather", 512, 4096, 8), 512);
    assert_int_equal(dl_comm_rank_bytes("ReduceScatter", 4096, 512, 8), 512);
    assert_int_equal(dl_comm_rank_bytes("ReduceScatter", 4096, 0, 8), 512);
    assert_int_equal(dl_comm_rank_bytes("ReduceScatter", 4096, 0, 0), 0);
    assert_int_equal(dl_comm_rank_bytes("AlltoAll", 4096, 4096, 8), 512);
    assert_int_equal(dl_comm_rank_bytes("AlltoAll", 4096, 4096, 0), 0);
    assert_int_equal(dl_comm_rank_bytes("Recv", 0, 64, 2), 64);
}

static void types_have_sizes(void **state DL_UNUSED)
{
    assert_int_equal(dl_comm_type_bytes("Float"), 4);
    assert_int_equal(dl_comm_type_bytes("c10::BFloat16"), 2);
    assert_int_equal(dl_comm_type_bytes("long int"), 8);
    assert_int_equal(dl_comm_type_bytes("signed char"), 1);
    assert_int_equal(dl_comm_type_bytes("TensorList"), 0);
    assert_int_equal(dl_comm_type_bytes(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_and_names_tell_collectives),
        cmocka_unit_test(rules_of_the_user_go_first),
        cmocka_unit_test(faults_of_rules_are_named),
        cmocka_unit_test(bytes_are_those_of_one_rank),
        cmocka_unit_test(types_have_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
