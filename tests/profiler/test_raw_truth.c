/* Decodes an H200's records of the program tests/gpu/truth.c: each kernel has the launches that the
 * program counted, each kind of copy also its bytes, and the long kernel the duration by CUDA's
 * events. Skipped if libcupti has another version than the one that wrote the records. */
#include <string.h>

#include "profiler/inject/cupti_raw.h"
#include "tests/check.h"
#include "tests/doubles/raw_replay.h"
#include "trace/activity/activity.h"

enum { NAMES_MAX = 32 };

static char names[NAMES_MAX][128]; /* indexed by id; [0] is "" */
static uint32_t name_count = 1;
static uint64_t kernels[NAMES_MAX], memsets, memset_bytes;
static int64_t kernel_ns[NAMES_MAX];
static uint64_t copies[DL_COPY_DIRECTION_END][DL_HOST_MEMORY_END];
static uint64_t copied_bytes[DL_COPY_DIRECTION_END][DL_HOST_MEMORY_END];

static uint32_t intern(const char *text)
{
    for (uint32_t i = 0; i < name_count; i++)
        if (strcmp(names[i], text) == 0) return i;
    if (name_count == NAMES_MAX) return 0; /* texts of calls and shapes are not needed */
    snprintf(names[name_count], sizeof names[0], "%s", text);
    return name_count++;
}

static void append(const dl_activity *activity)
{
    if (activity->kind == DL_ACTIVITY_KERNEL) {
        kernels[activity->name]++;
        kernel_ns[activity->name] += activity->duration_ns;
    } else if (activity->kind == DL_ACTIVITY_MEMCPY) {
        copies[activity->copy][activity->memory]++;
        copied_bytes[activity->copy][activity->memory] += activity->bytes;
    } else if (activity->kind == DL_ACTIVITY_MEMSET) {
        memsets++;
        memset_bytes += activity->bytes;
    }
}

static void meta(const char *key, const char *value)
{
    (void)key, (void)value;
}

static uint32_t kernel(const char *name, uint64_t expected)
{
    const uint32_t id = intern(name);
    if (kernels[id] != expected)
        fail_msg("%s: %llu of %llu", name, (unsigned long long)kernels[id],
                 (unsigned long long)expected);
    return id;
}

static void copy(dl_copy_direction direction, dl_host_memory memory, uint64_t bytes)
{
    assert_int_equal(copies[direction][memory], 20);
    assert_int_equal(copied_bytes[direction][memory], bytes);
}

static void test_truth(void **state DL_UNUSED)
{
    dl_error err = {0};
    dl_cupti_api api;
    const dl_cuda_api cuda = {0};
    const char *const long_kernel = "truth_long";
    /* Interned first, before texts that are not needed fill the table. */
    (void)intern("truth_spin"), (void)intern(long_kernel);
    (void)intern("truth_node"), (void)intern("truth_driver");
    if (dl_cupti_api_load(&api, "", 0, &err) != DL_OK) skip();
    dl_cupti_decoder *decoder =
        dl_cupti_decoder_new(&api, &cuda, (dl_activity_sink){append, intern, meta});
    const dl_status status = raw_replay(RAW_TRUTH, &api, decoder, &err);
    dl_cupti_decoder_free(decoder);
    if (status == DL_ERR_UNSUPPORTED) skip();
    if (status != DL_OK) fail_msg("%s", err.text);
    kernel("truth_spin", 221);
    kernel("truth_node", 1001);
    kernel("truth_driver", 51);
    const double mean_ns = (double)kernel_ns[kernel(long_kernel, 21)] / 21;
    assert_float_equal(mean_ns / 2002975.9, 1, 0.01);
    copy(DL_COPY_H2D, DL_MEMORY_PINNED, 20776960);
    copy(DL_COPY_H2D, DL_MEMORY_PAGEABLE, 20756480);
    copy(DL_COPY_D2H, DL_MEMORY_PINNED, 20736000);
    copy(DL_COPY_D2H, DL_MEMORY_PAGEABLE, 20715520);
    copy(DL_COPY_D2D, DL_MEMORY_UNKNOWN, 20695040);
    assert_int_equal(memsets, 10);
    assert_int_equal(memset_bytes, 225280);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_truth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
