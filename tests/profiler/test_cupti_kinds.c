/* The kinds and calls requested from CUPTI, and their order. */
#include "profiler/inject/cupti_decode.h"
#include "tests/check.h"

#define CALLS_MAX 1024

/* Requests made of CUPTI. */
static struct {
    bool runtime;            /* the kind was enabled */
    bool off[CALLS_MAX];     /* calls of the kind that were disabled */
    bool off_before_runtime; /* a call was disabled too early: enabling the kind undoes it */
    bool driver[CALLS_MAX];  /* calls that were enabled */
    int driver_calls;
} asked;

static CUptiResult CUPTIAPI enable_kind(CUpti_ActivityKind kind)
{
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME) asked.runtime = true;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI enable_runtime_call(CUpti_CallbackId call, uint8_t enable)
{
    assert_true(call < CALLS_MAX);
    asked.off[call] = !enable;
    if (!asked.runtime) asked.off_before_runtime = true;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI enable_driver_call(CUpti_CallbackId call, uint8_t enable)
{
    assert_true(call < CALLS_MAX);
    asked.driver[call] = enable;
    asked.driver_calls += enable;
    return CUPTI_SUCCESS;
}

static void ask(dl_capture_preset preset)
{
    const dl_cupti_api api = {.ActivityEnable = enable_kind,
                              .ActivityEnableRuntimeApi = enable_runtime_call,
                              .ActivityEnableDriverApi = enable_driver_call};
    dl_capture_settings settings = dl_capture_settings_default();
    char refused[DL_REFUSED_BYTES];
    settings.preset = (int)preset;
    memset(&asked, 0, sizeof asked);
    assert_true(dl_cupti_kinds_enable(&api, &settings, refused));
    assert_string_equal(refused, "");
}

/* Programs that poll make thousands of these calls per step; launches and waits are still
 * recorded. */
static void polled_calls_are_not_recorded(void **state DL_UNUSED)
{
    static const CUpti_CallbackId polled[] = {CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020,
                                              CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_v3020,
                                              CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_ptsz_v7000,
                                              CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020};
    static const CUpti_CallbackId told[] = {
        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
        CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020,
        CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020,
    };
    ask(DL_CAPTURE_DEFAULT);
    assert_true(asked.runtime);
    assert_false(asked.off_before_runtime);
    for (size_t i = 0; i < sizeof polled / sizeof polled[0]; i++)
        assert_true(asked.off[polled[i]]);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        assert_false(asked.off[told[i]]);
}

/* NCCL launches by cuLaunchKernelEx, Triton by cuLaunchKernel; copies and waits by the driver are
 * recorded only in the largest preset. */
static void launches_by_the_driver_are_recorded(void **state DL_UNUSED)
{
    ask(DL_CAPTURE_LIGHT);
    assert_int_equal(asked.driver_calls, 0);
    ask(DL_CAPTURE_DEFAULT);
    assert_int_equal(asked.driver_calls, 9);
    assert_true(asked.driver[CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel]);
    assert_true(asked.driver[CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz]);
    assert_true(asked.driver[CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch]);
    assert_false(asked.driver[CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync]);
    ask(DL_CAPTURE_FULL);
    assert_true(asked.driver[CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel]);
    assert_true(asked.driver[CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync]);
}

static void presets_hold_more_and_more(void **state DL_UNUSED)
{
    ask(DL_CAPTURE_LIGHT);
    assert_false(asked.runtime);
    ask(DL_CAPTURE_FULL);
    assert_true(asked.runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polled_calls_are_not_recorded),
        cmocka_unit_test(launches_by_the_driver_are_recorded),
        cmocka_unit_test(presets_hold_more_and_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
