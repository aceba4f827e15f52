#include "tests/check.h"

#include <stdio.h>

#include "tests/hand_trace.h"
#include "trace/activity/export.h"

/* Formats the args as "key=value, ..."; arrays as [1 2 3]. */
static const char *args_text(const dl_activity_label *label)
{
    static char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < label->arg_count; i++) {
        const dl_chrome_arg *arg = &label->args[i];
        const char *comma = i > 0 ? ", " : "";
        if (arg->text != NULL) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%s", comma, arg->key,
                                     arg->text);
        } else if (arg->numbers != NULL) {
            assert_int_equal(arg->number_count, 3);
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=[%u %u %u]", comma,
                                     arg->key, arg->numbers[0], arg->numbers[1], arg->numbers[2]);
        } else {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%g", comma, arg->key,
                                     arg->number);
        }
    }
    return text;
}

static void assert_label(const dl_trace *trace, dl_activity activity, const char *category,
                         const char *title, const char *args)
{
    dl_activity_label label;
    dl_activity_label_init(&label, &activity, trace, "short");
    assert_string_equal(label.category, category);
    assert_string_equal(label.title, title);
    assert_string_equal(args_text(&label), args);
}

static void test_kernels(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    uint32_t symbol = hand_name(&trace, "_Z5shorti"), plain = hand_name(&trace, "short");
    uint32_t shape = hand_name(&trace, "grid 64x2x1 block 256x1x1 shared 48 regs 32");
    uint32_t other = hand_name(&trace, "persistent");
    dl_activity kernel = {.kind = DL_ACTIVITY_KERNEL,
                          .name = symbol,
                          .detail = shape,
                          .device = 1,
                          .stream = 7,
                          .correlation = 9,
                          .object = 3ull << 32 | 5};
    assert_label(&trace, kernel, "kernel", "short",
                 "device=1, stream=7, correlation=9, graph id=3, graph node id=5, grid=[64 2 1], "
                 "block=[256 1 1], shared memory=48, registers per thread=32, symbol=_Z5shorti");
    kernel = (dl_activity){.kind = DL_ACTIVITY_KERNEL, .name = plain, .detail = other};
    assert_label(&trace, kernel, "kernel", "short", "device=0, stream=0, launch shape=persistent");
    kernel.detail = 0;
    assert_label(&trace, kernel, "kernel", "short", "device=0, stream=0");
}

static void test_copies(void **state DL_UNUSED)
{
    static const struct {
        dl_copy_direction copy;
        dl_host_memory memory;
        const char *title;
    } cases[] = {
        {DL_COPY_H2D, DL_MEMORY_PINNED, "Memcpy HtoD (Pinned -> Device)"},
        {DL_COPY_D2H, DL_MEMORY_PAGEABLE, "Memcpy DtoH (Device -> Pageable)"},
        {DL_COPY_D2D, DL_MEMORY_UNKNOWN, "Memcpy DtoD (Device -> Device)"},
        {DL_COPY_H2H, DL_MEMORY_MANAGED, "Memcpy HtoH (Managed -> Managed)"},
        {DL_COPY_H2D, DL_MEMORY_UNKNOWN, "Memcpy HtoD (Host -> Device)"},
        {DL_COPY_UNKNOWN, DL_MEMORY_PINNED, "Memcpy"},
    };
    DL_SCOPED(dl_trace) trace = hand_trace();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const dl_activity copy = {.kind = DL_ACTIVITY_MEMCPY,
                                  .copy = (uint8_t)cases[i].copy,
                                  .memory = (uint8_t)cases[i].memory,
                                  .bytes = 3000,
                                  .duration_ns = 2000};
        assert_label(&trace, copy, "gpu_memcpy", cases[i].title,
                     "device=0, stream=0, bytes=3000, memory bandwidth (GB/s)=1.5");
    }
    const dl_activity peer = {.kind = DL_ACTIVITY_MEMCPY, .copy = DL_COPY_PEER, .peer = 3};
    assert_label(&trace, peer, "gpu_memcpy", "Memcpy PtoP (Device -> Device)",
                 "device=0, stream=0, bytes=0, peer device=3");
    const dl_activity set = {.kind = DL_ACTIVITY_MEMSET, .bytes = 8, .stream = 7};
    assert_label(&trace, set, "gpu_memset", "Memset (Device)", "device=0, stream=7, bytes=8");
    const dl_activity graph = {.kind = DL_ACTIVITY_GRAPH, .object = 12ull << 32};
    assert_label(&trace, graph, "gpu_graph", "graph 12", "device=0, stream=0, graph id=12");
}

static void test_host(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    dl_activity call = {.kind = DL_ACTIVITY_CALL, .correlation = 5};
    call.name = hand_name(&trace, "cudaLaunchKernel");
    assert_label(&trace, call, "cuda_runtime", "cudaLaunchKernel", "correlation=5");
    call.name = hand_name(&trace, "cuLaunchKernel");
    assert_label(&trace, call, "cuda_driver", "cuLaunchKernel", "correlation=5");
    call.name = 0;
    assert_label(&trace, call, "cuda_runtime", "call", "correlation=5");

    static const char *const waits[][2] = {{"event", "Event Sync"},
                                           {"stream", "Stream Sync"},
                                           {"context", "Context Sync"},
                                           {"stream wait", "Stream Wait Event"},
                                           {"fence", "fence"}};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        const dl_activity sync = {.kind = DL_ACTIVITY_SYNC,
                                  .name = hand_name(&trace, waits[i][0]),
                                  .stream = 7,
                                  .correlation = 8,
                                  .object = UINT64_MAX};
        assert_label(&trace, sync, "cuda_sync", waits[i][1],
                     "stream=7, correlation=8, wait_on_cuda_event_id=0xffffffffffffffff");
    }
    dl_activity range = {.kind = DL_ACTIVITY_RANGE, .name = hand_name(&trace, "forward")};
    assert_label(&trace, range, "user_annotation", "forward", "");
    range.kind = DL_ACTIVITY_MARK;
    range.detail = hand_name(&trace, "train");
    assert_label(&trace, range, "user_annotation", "forward", "domain=train");
    const dl_activity collective = {.kind = DL_ACTIVITY_COLLECTIVE,
                                    .name = hand_name(&trace, "Broadcast"),
                                    .bytes = 4000,
                                    .peer = 2,
                                    .object = 0xabc};
    assert_label(&trace, collective, "collective_comm", "Broadcast",
                 "bytes=4000, communicator=0xabc, peer=2");
    const dl_activity overhead = {.kind = DL_ACTIVITY_OVERHEAD, .name = hand_name(&trace, "flush")};
    assert_label(&trace, overhead, "overhead", "flush", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
