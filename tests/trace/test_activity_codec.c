#include "tests/check.h"

#include "trace/dlt/codec.h"

static const dl_activity kernel = {.kind = DL_ACTIVITY_KERNEL,
                                   .name = 3,
                                   .detail = 4,
                                   .stream = 7,
                                   .correlation = 1001,
                                   .start_ns = 5000,
                                   .duration_ns = 200};

/* State after a kernel and a call before `kernel`. */
static dl_activity_previous before_kernel(void)
{
    dl_activity_previous previous = {0};
    previous.classes[1].end_ns = 4999;
    previous.classes[1].correlation = 1000;
    previous.classes[1].object = 16;
    previous.classes[0].end_ns = 3000;
    previous.kinds[DL_ACTIVITY_KERNEL].stream = 7;
    return previous;
}

/* Compares field by field, ignoring padding. */
static int equal(const dl_activity *a, const dl_activity *b)
{
    return a->kind == b->kind && a->copy == b->copy && a->memory == b->memory &&
           a->name == b->name && a->detail == b->detail && a->device == b->device &&
           a->stream == b->stream && a->thread == b->thread && a->correlation == b->correlation &&
           a->peer == b->peer && a->count == b->count && a->bytes == b->bytes &&
           a->object == b->object && a->start_ns == b->start_ns && a->duration_ns == b->duration_ns;
}

/* A kernel 1 ns after the previous one: head, mask (name, detail, correlation, start), the two ids,
 * +1 twice (zigzag 2), and the duration 200 = 0x48 + 1 x 0x80. */
static void test_bytes_of_a_kernel(void **state DL_UNUSED)
{
    const uint8_t expected[] = {DL_ACTIVITY_KERNEL, 0x87, 3, 4, 2, 2, 0xC8, 1};
    uint8_t coded[DL_ACTIVITY_BYTES_MAX];
    dl_activity_previous coding = before_kernel(), decoding = before_kernel();
    uint8_t *end = dl_activity_encode(coded, &kernel, &coding);
    assert_int_equal(end - coded, sizeof expected);
    assert_memory_equal(coded, expected, sizeof expected);
    assert_int_equal(coding.classes[1].end_ns, 5200);
    assert_int_equal(coding.classes[0].end_ns, 3000);
    dl_activity back;
    assert_ptr_equal(dl_activity_decode(coded, end, &back, &decoding), end);
    assert_true(equal(&back, &kernel));
}

/* The first copy after kernels, 1 MiB from device 1 to 2, with all fields of the second mask
 * byte. */
static void test_bytes_of_a_copy(void **state DL_UNUSED)
{
    const dl_activity copy = {.kind = DL_ACTIVITY_MEMCPY,
                              .copy = DL_COPY_PEER,
                              .memory = DL_MEMORY_PINNED,
                              .device = 1,
                              .peer = 2,
                              .count = 3,
                              .bytes = 1 << 20,
                              .object = 15,
                              .start_ns = 4999};
    const uint8_t expected[] = {DL_ACTIVITY_MEMCPY | DL_COPY_PEER << 4 | 0x80,
                                0x60,
                                0x0F,
                                1, /* object 15 after 16 */
                                0x80,
                                0x80,
                                0x40,
                                2,
                                DL_MEMORY_PINNED,
                                2,
                                3,
                                0};
    uint8_t coded[DL_ACTIVITY_BYTES_MAX];
    dl_activity_previous coding = before_kernel(), decoding = before_kernel();
    uint8_t *end = dl_activity_encode(coded, &copy, &coding);
    assert_int_equal(end - coded, sizeof expected);
    assert_memory_equal(coded, expected, sizeof expected);
    dl_activity back;
    assert_ptr_equal(dl_activity_decode(coded, end, &back, &decoding), end);
    assert_true(equal(&back, &copy));
}

/* A kernel, its launch, the next kernel: intermediate activities of the other class cost no
 * bytes. */
static void test_classes_do_not_disturb_each_other(void **state DL_UNUSED)
{
    dl_activity_previous previous = before_kernel();
    uint8_t coded[DL_ACTIVITY_BYTES_MAX];
    dl_activity_encode(coded, &kernel, &previous);
    const dl_activity call = {.kind = DL_ACTIVITY_CALL,
                              .name = 9,
                              .thread = 123456,
                              .correlation = 2000,
                              .start_ns = INT64_MAX - 10,
                              .duration_ns = 10};
    dl_activity_encode(coded, &call, &previous);
    dl_activity next = kernel;
    next.correlation++;
    next.start_ns = 5201;
    assert_int_equal(dl_activity_encode(coded, &next, &previous) - coded, 8);
}

/* All fields at both ends of their ranges, after an activity at the other end, decode unchanged;
 * the longest encoding has DL_ACTIVITY_BYTES_MAX bytes. */
static void test_extremes(void **state DL_UNUSED)
{
    const dl_activity low = {.kind = DL_ACTIVITY_KERNEL};
    const dl_activity high = {.kind = DL_ACTIVITY_KERNEL,
                              .copy = DL_COPY_DIRECTION_END - 1,
                              .memory = DL_HOST_MEMORY_END - 1,
                              .name = UINT32_MAX,
                              .detail = UINT32_MAX,
                              .device = UINT32_MAX,
                              .stream = UINT32_MAX,
                              .thread = UINT32_MAX,
                              .correlation = 1u << 31,
                              .peer = UINT32_MAX,
                              .count = UINT32_MAX,
                              .bytes = UINT64_MAX,
                              .object = 1ull << 63,
                              .start_ns = INT64_MAX};
    dl_activity wrapped = high, longest = low;
    wrapped.correlation = UINT32_MAX;
    wrapped.object = UINT64_MAX;
    wrapped.start_ns = 0;
    wrapped.duration_ns = INT64_MAX;
    longest.kind = DL_ACTIVITY_CLOCK;
    longest.duration_ns = INT64_MAX;
    longest.correlation = 1;
    longest.object = 1;
    const dl_activity *const activities[] = {&low,     &high, &low,     &wrapped, &high,
                                             &longest, &low,  &wrapped, &low};
    dl_activity_previous coding = {0}, decoding = {0};
    for (size_t i = 0; i < sizeof activities / sizeof activities[0]; i++) {
        uint8_t coded[DL_ACTIVITY_BYTES_MAX];
        dl_activity back;
        const uint8_t *end = dl_activity_encode(coded, activities[i], &coding);
        assert_in_range(end - coded, DL_ACTIVITY_BYTES_MIN, DL_ACTIVITY_BYTES_MAX);
        assert_ptr_equal(dl_activity_decode(coded, end, &back, &decoding), end);
        assert_true(equal(&back, activities[i]));
    }
    uint8_t coded[DL_ACTIVITY_BYTES_MAX];
    dl_activity_previous previous = {0};
    previous.classes[1].end_ns = INT64_MAX;
    wrapped.correlation = 1u << 31; /* the two values farthest from 0 */
    wrapped.object = 1ull << 63;
    assert_int_equal(dl_activity_encode(coded, &wrapped, &previous) - coded, DL_ACTIVITY_BYTES_MAX);
}

/* Head byte of a kernel, without and with a second mask. */
enum { HEAD = DL_ACTIVITY_KERNEL, MORE = DL_ACTIVITY_KERNEL | 0x80 };

/* An encoding of one activity after before_kernel. */
typedef struct coding {
    const char *what;
    size_t count;
    uint8_t bytes[16];
} coding;

/* Fails unless all of codings[count] are accepted (`taken`) or rejected. */
static void check_codings(const coding *codings, size_t count, bool taken)
{
    for (size_t i = 0; i < count; i++) {
        dl_activity_previous previous = before_kernel();
        dl_activity activity;
        const uint8_t *end = codings[i].bytes + codings[i].count;
        const uint8_t *found = dl_activity_decode(codings[i].bytes, end, &activity, &previous);
        if (found != (taken ? end : NULL))
            fail_msg("%s: %s", found == NULL ? "refused" : "accepted", codings[i].what);
    }
}

static void test_refused(void **state DL_UNUSED)
{
    static const coding wrong[] = {
        {"kind 0", 3, {0, 0, 5}},
        {"kind 14", 3, {DL_ACTIVITY_KIND_END, 0, 5}},
        {"copy direction 6", 3, {HEAD | DL_COPY_DIRECTION_END << 4, 0, 5}},
        {"too short", 2, {HEAD, 0}},
        {"cut in the duration", 3, {HEAD, 0, 0x85}},
        {"no duration", 3, {HEAD, 0x01, 5}},
        {"no duration behind a second mask", 3, {MORE, 0, 0x04}},
        {"duration with a leading zero", 4, {HEAD, 0, 0x85, 0}},
        {"end over 2^63-1", 11, {HEAD, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F}},
        {"second mask of 0", 4, {MORE, 0, 0, 5}},
        {"unknown bit of the second mask", 5, {MORE, 0, 0x10, 1, 5}},
        {"name 0", 4, {HEAD, 0x01, 0, 5}},
        {"name over 2^32-1", 8, {HEAD, 0x01, 0x80, 0x80, 0x80, 0x80, 0x10, 5}},
        {"detail 0", 4, {HEAD, 0x02, 0, 5}},
        {"correlation 0", 5, {HEAD, 0x04, 0xCF, 0x0F, 5}}, /* -1000 */
        {"correlation +2^31", 8, {HEAD, 0x04, 0x80, 0x80, 0x80, 0x80, 0x10, 5}},
        {"correlation -2^31-1", 8, {HEAD, 0x04, 0x81, 0x80, 0x80, 0x80, 0x10, 5}},
        {"thread that differs by 0", 4, {HEAD, 0x08, 0, 5}},
        {"thread below 0", 4, {HEAD, 0x08, 1, 5}},
        {"stream that differs by 0", 4, {HEAD, 0x10, 0, 5}},
        {"stream below 0", 4, {HEAD, 0x10, 15, 5}}, /* -8, after 7 */
        {"stream over 2^32-1", 8, {HEAD, 0x10, 0xF2, 0xFF, 0xFF, 0xFF, 0x1F, 5}},
        {"object 0", 4, {HEAD, 0x20, 31, 5}}, /* -16 */
        {"0 bytes", 4, {HEAD, 0x40, 0, 5}},
        {"start at the end before", 4, {HEAD, 0x80, 0, 5}},
        {"start below 0", 5, {HEAD, 0x80, 0x8F, 0x4E, 5}}, /* -5000, after 4999 */
        {"device that differs by 0", 5, {MORE, 0, 0x01, 0, 5}},
        {"device below 0", 5, {MORE, 0, 0x01, 1, 5}},
        {"memory 0", 5, {MORE, 0, 0x02, 0, 5}},
        {"memory 4", 5, {MORE, 0, 0x02, DL_HOST_MEMORY_END, 5}},
        {"memory 257", 6, {MORE, 0, 0x02, 0x81, 0x02, 5}},
        {"peer 0", 5, {MORE, 0, 0x04, 0, 5}},
        {"count 0", 5, {MORE, 0, 0x08, 0, 5}},
    };
    check_codings(wrong, sizeof wrong / sizeof *wrong, false);
}

/* Neighbours of the limits above. */
static void test_limits_are_accepted(void **state DL_UNUSED)
{
    static const coding right[] = {
        {"duration alone", 3, {HEAD, 0, 5}},
        {"last kind", 3, {DL_ACTIVITY_CLOCK, 0, 5}},
        {"last copy direction", 3, {HEAD | DL_COPY_H2H << 4, 0, 5}},
        {"correlation 1", 5, {HEAD, 0x04, 0xCD, 0x0F, 5}},
        {"correlation -2^31", 8, {HEAD, 0x04, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 5}},
        {"one launch of many kernels", 4, {HEAD, 0x04, 0, 5}},
        {"stream 0", 4, {HEAD, 0x10, 13, 5}},
        {"stream 2^32-1", 8, {HEAD, 0x10, 0xF0, 0xFF, 0xFF, 0xFF, 0x1F, 5}},
        {"object 1", 4, {HEAD, 0x20, 29, 5}},
        {"start 0", 5, {HEAD, 0x80, 0x8D, 0x4E, 5}},
        {"last memory", 5, {MORE, 0, 0x02, DL_MEMORY_MANAGED, 5}},
    };
    check_codings(right, sizeof right / sizeof *right, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_a_kernel),
        cmocka_unit_test(test_bytes_of_a_copy),
        cmocka_unit_test(test_classes_do_not_disturb_each_other),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
