#include "trace/activity/collectives.h"

#include "tests/check.h"
#include "trace/activity/kernel_class.h"

enum { ALL_REDUCE = 1, REDUCE_KERNEL, OTHER_KERNEL, TEXTS };
static char texts[TEXTS][40] = {"", "AllReduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "gemm"};
static const uint8_t classes[TEXTS] = {[REDUCE_KERNEL] = DL_KERNEL_COLLECTIVE};

static dl_activity call(uint64_t bytes, int64_t at_ns)
{
    return (dl_activity){.kind = DL_ACTIVITY_COLLECTIVE,
                         .name = ALL_REDUCE,
                         .thread = 1,
                         .bytes = bytes,
                         .object = 7,
                         .start_ns = at_ns};
}

static dl_activity launch(uint32_t correlation, int64_t at_ns)
{
    return (dl_activity){
        .kind = DL_ACTIVITY_CALL, .thread = 1, .correlation = correlation, .start_ns = at_ns};
}

static dl_activity kernel(uint32_t name, uint32_t correlation, int64_t at_ns)
{
    return (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                         .name = name,
                         .correlation = correlation,
                         .start_ns = at_ns,
                         .duration_ns = 10};
}

static dl_collective_kernels find(const dl_activity *activities, size_t count)
{
    char *strings[TEXTS];
    for (int i = 0; i < TEXTS; i++)
        strings[i] = texts[i];
    DL_SCOPED(dl_launches) launches = {0};
    dl_collective_kernels list = {0};
    dl_launches_init(&launches, activities, count);
    dl_collective_kernels_find(&list, activities, count, strings, classes, &launches);
    return list;
}

/* Launched in the order 1, 2; on the device 2 begins first: the list has that order, and each
 * kernel has the size of its call. Other kernels are not listed; a kernel without a launch has only
 * its name. */
static void kernels_have_their_calls(void **state DL_UNUSED)
{
    const dl_activity activities[] = {
        {.kind = DL_ACTIVITY_COMM, .object = 7, .count = 4},
        call(1000, 10),
        launch(1, 20),
        call(2000, 30),
        launch(2, 40),
        launch(3, 50),
        kernel(REDUCE_KERNEL, 1, 500),
        kernel(REDUCE_KERNEL, 2, 400),
        kernel(OTHER_KERNEL, 3, 450),
        kernel(REDUCE_KERNEL, 0, 600),
    };
    dl_collective_kernels list = find(activities, sizeof activities / sizeof *activities);
    assert_int_equal(list.count, 3);
    assert_true(list.kernels[0].activity == 7 && list.kernels[0].bytes == 2000);
    assert_true(list.kernels[1].activity == 6 && list.kernels[1].bytes == 1000);
    assert_true(list.kernels[2].activity == 9 && list.kernels[2].bytes == 0);
    assert_true(list.kernels[0].ranks == 4 && list.kernels[2].ranks == 0);
    assert_true(list.kernels[0].calls == 1 && list.kernels[2].calls == 0);
    assert_string_equal(list.kernels[2].name, "AllReduce");
    dl_collective_kernels_free(&list);
}

static void no_collectives_make_an_empty_list(void **state DL_UNUSED)
{
    const dl_activity activities[] = {call(1000, 10), launch(3, 50), kernel(OTHER_KERNEL, 3, 450)};
    DL_SCOPED(dl_collective_kernels) list = find(activities, 3);
    assert_true(list.count == 0 && list.kernels == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_have_their_calls),
        cmocka_unit_test(no_collectives_make_an_empty_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
