#include "tests/check.h"

#include "trace/dlt/codec.h"

static const dl_record compute = {.kind = DL_RECORD_COMPUTE,
                                  .phase = DL_PHASE_FORWARD,
                                  .worker = 1,
                                  .name = 3,
                                  .step = 7,
                                  .samples = 64,
                                  .staleness = DL_NO_STALENESS,
                                  .start_ns = 1000,
                                  .duration_ns = 200};
static const dl_dlt_previous same = {.worker = 1, .step = 7, .samples = 64, .end_ns = 1000};

/* Decodes bytes against `same`; returns whether all of them are one valid record. */
static int decodes(const uint8_t *bytes, size_t count)
{
    dl_dlt_previous previous = same;
    dl_record record;
    return dl_dlt_decode(bytes, bytes + count, &record, &previous) == bytes + count;
}

/* A layer directly after the previous one: head, mask, name and the duration 200 = 0x48 + 1 x
 * 0x80. */
static void test_bytes_of_a_layer(void **state DL_UNUSED)
{
    const uint8_t expected[] = {DL_RECORD_COMPUTE | DL_PHASE_FORWARD << 4, 0x08, 3, 0xC8, 1};
    uint8_t coded[DL_DLT_RECORD_BYTES_MAX];
    dl_dlt_previous previous = same;
    uint8_t *end = dl_dlt_encode(coded, &compute, &previous);
    assert_int_equal(end - coded, sizeof expected);
    assert_memory_equal(coded, expected, sizeof expected);
    assert_int_equal(previous.end_ns, 1200);
    assert_true(decodes(expected, sizeof expected));
}

/* All fields at both ends of their ranges, after a record at the other end, decode unchanged and
 * fit into DL_DLT_RECORD_BYTES_MAX. */
static void test_extremes(void **state DL_UNUSED)
{
    const dl_record low = {.kind = DL_RECORD_STEP, .staleness = DL_NO_STALENESS};
    const dl_record high = {.kind = DL_RECORD_BENCH,
                            .phase = DL_PHASE_PULL,
                            .worker = DL_WORKER_LIMIT - 1,
                            .name = UINT32_MAX,
                            .step = UINT32_MAX,
                            .samples = UINT32_MAX,
                            .vectors = UINT32_MAX,
                            .threads = UINT32_MAX,
                            .bytes = UINT64_MAX,
                            .staleness = INT64_MAX,
                            .start_ns = INT64_MAX};
    const dl_record longest = {.kind = DL_RECORD_STEP, .duration_ns = INT64_MAX};
    const dl_record *const records[] = {&low, &high, &low, &longest, &high, &longest};
    dl_dlt_previous coding = {0}, decoding = {0};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        uint8_t coded[DL_DLT_RECORD_BYTES_MAX];
        dl_record back;
        const uint8_t *end = dl_dlt_encode(coded, records[i], &coding);
        assert_in_range(end - coded, DL_DLT_RECORD_BYTES_MIN, DL_DLT_RECORD_BYTES_MAX);
        assert_ptr_equal(dl_dlt_decode(coded, end, &back, &decoding), end);
        assert_memory_equal(&back, records[i], sizeof back);
    }
}

static void test_validity(void **state DL_UNUSED)
{
    assert_true(dl_dlt_valid(&compute));
    dl_record r = compute;
    r.kind = (dl_record_kind)0;
    assert_false(dl_dlt_valid(&r));
    r.kind = (dl_record_kind)(DL_RECORD_BENCH + 1);
    assert_false(dl_dlt_valid(&r));
    r = compute, r.phase = (dl_phase)(DL_PHASE_PULL + 1);
    assert_false(dl_dlt_valid(&r));
    r = compute, r.worker = DL_WORKER_LIMIT;
    assert_false(dl_dlt_valid(&r));
    r = compute, r.staleness = -2;
    assert_false(dl_dlt_valid(&r));
    r = compute, r.start_ns = -1;
    assert_false(dl_dlt_valid(&r));
    r = compute, r.duration_ns = -1;
    assert_false(dl_dlt_valid(&r));
    r = compute, r.start_ns = INT64_MAX - 199; /* ends 1 ns too late */
    assert_false(dl_dlt_valid(&r));
}

/* One invalid record each; the first byte is COMPUTE, forward unless noted otherwise. */
static void test_refused(void **state DL_UNUSED)
{
    enum { HEAD = DL_RECORD_COMPUTE | DL_PHASE_FORWARD << 4 };
    static const struct {
        const char *what;
        size_t count;
        uint8_t bytes[16];
    } wrong[] = {
        {"kind 0", 3, {0x10, 0, 5}},
        {"kind 9", 3, {0x19, 0, 5}},
        {"phase 6", 3, {0x62, 0, 5}},
        {"high bit of the head", 3, {0x92, 0, 5}},
        {"too short", 2, {HEAD, 0}},
        {"cut in the duration", 3, {HEAD, 0, 0x85}},
        {"no duration", 3, {HEAD, 0x08, 5}},
        {"duration with a leading zero", 4, {HEAD, 0, 0x85, 0}},
        {"duration over 2^63-1",
         12,
         {HEAD, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}},
        {"varint over 2^64-1",
         12,
         {HEAD, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2}},
        {"varint of 11 bytes",
         13,
         {HEAD, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x81, 1}},
        {"end over 2^63-1", 11, {HEAD, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F}},
        {"worker that differs by 0", 4, {HEAD, 0x01, 0, 5}},
        {"worker below 0", 4, {HEAD, 0x01, 3, 5}},           /* zigzag 3 = -2, after 1 */
        {"worker 65536", 6, {HEAD, 0x01, 0xFE, 0xFF, 7, 5}}, /* zigzag = +65535 */
        {"step below 0", 4, {HEAD, 0x02, 15, 5}},            /* -8, after 7 */
        {"samples below 0", 5, {HEAD, 0x04, 0x81, 1, 5}},    /* -65, after 64 */
        {"step over 2^32-1", 8, {HEAD, 0x02, 0xFE, 0xFF, 0xFF, 0xFF, 0x1F, 5}},
        {"name 0", 4, {HEAD, 0x08, 0, 5}},
        {"name over 2^32-1", 8, {HEAD, 0x08, 0x80, 0x80, 0x80, 0x80, 0x10, 5}},
        {"0 bytes", 4, {HEAD, 0x10, 0, 5}},
        {"0 vectors, 0 threads", 5, {HEAD, 0x20, 0, 0, 5}},
        {"no staleness", 4, {HEAD, 0x40, 0, 5}},
        {"staleness over 2^63-1",
         13,
         {HEAD, 0x40, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 5}},
        {"start at the end before", 4, {HEAD, 0x80, 0, 5}},
        {"start below 0", 5, {HEAD, 0x80, 0xD1, 0x0F, 5}}, /* -1001, after 1000 */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (decodes(wrong[i].bytes, wrong[i].count)) fail_msg("accepted: %s", wrong[i].what);
    }
    /* Neighbours of the limits above are accepted. */
    assert_true(decodes((const uint8_t[]){HEAD, 0, 5}, 3));
    assert_true(decodes((const uint8_t[]){HEAD, 0x01, 1, 5}, 4));             /* worker 0 */
    assert_true(decodes((const uint8_t[]){HEAD, 0x01, 0xFC, 0xFF, 7, 5}, 6)); /* 65535 */
    assert_true(decodes((const uint8_t[]){HEAD, 0x02, 13, 5}, 4));            /* step 0 */
    assert_true(decodes((const uint8_t[]){HEAD, 0x80, 0xCF, 0x0F, 5}, 5));    /* start 0 */
    assert_true(decodes((const uint8_t[]){HEAD, 0x40, 1, 5}, 4));             /* fresh */
}

/* Standard CRC-32 of type, length and payload: the check value of "123456789" is 0xCBF43926, with
 * "12345678" in type and length and "9" in the payload. */
static void test_chunk_checksum(void **state DL_UNUSED)
{
    uint8_t chunk[DL_DLT_CHUNK_HEADER_BYTES + 1];
    memcpy(chunk, "12345678....9", sizeof chunk);
    assert_int_equal(dl_dlt_chunk_crc(chunk, 1), 0xCBF43926);
    dl_dlt_chunk_seal(chunk, DL_DLT_META, 1);
    const uint8_t head[8] = {DL_DLT_META, 0, 0, 0, 1, 0, 0, 0};
    assert_memory_equal(chunk, head, sizeof head);
    assert_int_equal(dl_dlt_get_u32(chunk + 8), dl_dlt_chunk_crc(chunk, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_a_layer), cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_validity),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_chunk_checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
