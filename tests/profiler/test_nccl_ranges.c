#include "tests/check.h"

#include "profiler/inject/nccl.h"
#include "tests/doubles/nvtx_capture.h"

static bool find_none(void *user DL_UNUSED, uint64_t id DL_UNUSED, dl_payload_type *type DL_UNUSED)
{
    return false;
}

static const nvtxPayloadSchemaEntry_t reduce_entries[] = {
    {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID"},
    {.type = NVTX_PAYLOAD_ENTRY_TYPE_SIZE, .name = "Message size [bytes]"},
    {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "Root"},
    {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "Reduction operation"},
};
static const struct reduce {
    uint64_t comm;
    size_t bytes;
    int root, operation;
} reduce = {0xabcdef0123456789, 4096, 3, 1};

static const struct created {
    uint64_t comm;
    int ranks, rank, device;
} created = {0xfeed, 8, 5, 1};

static dl_nccl_values read_fixed(int id, const void *data, size_t size)
{
    const nvtxPayloadData_t payload = {.schemaId =
                                           NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + (uint64_t)id,
                                       .size = size,
                                       .payload = data};
    dl_nccl_values values = {0};
    dl_nccl_read(&values, NULL, NULL, &payload);
    return values;
}

/* Fields are found by the names of the entries, in any order. */
static void test_by_name(void **state DL_UNUSED)
{
    const nvtxPayloadSchemaAttr_t attr = {.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                                                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES,
                                          .entries = reduce_entries,
                                          .numEntries = 4};
    DL_SCOPED(dl_payload_layout) layout;
    assert_true(dl_payload_layout_make(&layout, &attr, find_none, NULL));
    const dl_nccl_fields fields = dl_nccl_fields_find(&layout);
    const nvtxPayloadData_t payload = {.size = sizeof reduce, .payload = &reduce};
    dl_nccl_values values = {0};
    dl_nccl_read(&values, &layout, &fields, &payload);
    assert_true(values.value[DL_NCCL_COMM] == reduce.comm);
    assert_int_equal(values.value[DL_NCCL_BYTES], 4096);
    assert_int_equal(values.value[DL_NCCL_PEER], 3);
    assert_false(values.has[DL_NCCL_RANK]);
}

/* Fields are found by NCCL's fixed ids where the schema is unknown; AllReduce (5) has no root after
 * the bytes. */
static void test_by_id(void **state DL_UNUSED)
{
    dl_nccl_values values = read_fixed(8, &reduce, sizeof reduce);
    assert_true(values.value[DL_NCCL_COMM] == reduce.comm);
    assert_int_equal(values.value[DL_NCCL_PEER], 3);
    values = read_fixed(5, &reduce, sizeof reduce);
    assert_int_equal(values.value[DL_NCCL_BYTES], 4096);
    assert_false(values.has[DL_NCCL_PEER]);
    values = read_fixed(5, &reduce, 8);
    assert_true(values.has[DL_NCCL_COMM]);
    assert_false(values.has[DL_NCCL_BYTES]);
    values = read_fixed(200, &reduce, sizeof reduce);
    assert_false(values.has[DL_NCCL_COMM]);
    values = read_fixed(0, &created, sizeof created);
    assert_int_equal(values.value[DL_NCCL_RANKS], 8);
    assert_int_equal(values.value[DL_NCCL_RANK], 5);
    assert_int_equal(values.value[DL_NCCL_DEVICE], 1);
}

static void test_collective(void **state DL_UNUSED)
{
    const dl_nccl_values values = read_fixed(8, &reduce, sizeof reduce);
    dl_activity range = {
        .kind = DL_ACTIVITY_RANGE, .name = 9, .detail = 9, .thread = 7, .start_ns = 100};
    dl_nccl_begin(&range, dl_nccl_function("ncclReduce"), &values);
    assert_int_equal(range.kind, DL_ACTIVITY_COLLECTIVE);
    assert_string_equal(seen_text(range.name), "Reduce");
    assert_int_equal(range.detail, 0);
    assert_int_equal(range.bytes, 4096);
    assert_true(range.object == reduce.comm);
    assert_int_equal(range.peer, 3);
    assert_int_equal(range.thread, 7);
    assert_int_equal(range.start_ns, 100);

    dl_activity other = {.kind = DL_ACTIVITY_RANGE, .name = 9};
    dl_nccl_begin(&other, dl_nccl_function("ncclGroupEnd"), &values);
    assert_int_equal(other.kind, DL_ACTIVITY_RANGE);
    assert_int_equal(other.name, 9);
}

static void test_communicator(void **state DL_UNUSED)
{
    const dl_activity range = {.kind = DL_ACTIVITY_RANGE, .thread = 7, .start_ns = 100};
    dl_nccl_values values = read_fixed(0, &created, sizeof created);
    seen_clear();
    dl_nccl_end(&range, dl_nccl_function("ncclCommInitRank"), &values, 160);
    dl_nccl_end(&range, dl_nccl_function("ncclCommInitRank"), &values, 170); /* already reported */
    assert_int_equal(seen_count(), 1);
    const dl_activity comm = seen_at(0);
    assert_int_equal(comm.kind, DL_ACTIVITY_COMM);
    assert_int_equal(comm.object, 0xfeed);
    assert_int_equal(comm.peer, 5);
    assert_int_equal(comm.count, 8);
    assert_int_equal(comm.device, 1);
    assert_int_equal(comm.thread, 7);
    assert_int_equal(comm.start_ns, 160);
    assert_int_equal(comm.duration_ns, 0);

    /* No COMM by other functions, if the call failed, or without a rank. */
    seen_clear();
    dl_nccl_end(&range, dl_nccl_function("ncclCommDestroy"), &values, 160);
    dl_nccl_end(&range, dl_nccl_function("ncclAllReduce"), &values, 160);
    values.value[DL_NCCL_COMM] = 0;
    dl_nccl_end(&range, dl_nccl_function("ncclCommInitRank"), &values, 160);
    values = read_fixed(0, &created, 12);
    dl_nccl_end(&range, dl_nccl_function("ncclCommInitRank"), &values, 160);
    assert_int_equal(seen_count(), 0);

    /* NCCL before 2.26 reports rank and size without a hash. */
    values = read_fixed(0, &created, sizeof created);
    values.has[DL_NCCL_COMM] = false;
    values.value[DL_NCCL_COMM] = 0;
    dl_nccl_end(&range, dl_nccl_function("ncclCommInitRank"), &values, 160);
    assert_int_equal(seen_count(), 1);
}

static void test_functions(void **state DL_UNUSED)
{
    assert_int_equal(dl_nccl_function("ncclGroupStart"), 0);
    assert_int_equal(dl_nccl_function(""), 0);
    assert_true(dl_nccl_function("ncclSend") != dl_nccl_function("ncclRecv"));
    assert_true(dl_nccl_function("ncclCommShrink") < DL_NCCL_FUNCTION_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_name),    cmocka_unit_test(test_by_id),
        cmocka_unit_test(test_collective), cmocka_unit_test(test_communicator),
        cmocka_unit_test(test_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
