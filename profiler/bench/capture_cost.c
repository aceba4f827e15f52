#include "profiler/bench/capture_cost.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "profiler/bench/measuring_child.h"
#include "profiler/bench/overhead.h"
#include "profiler/inject/settings.h"
#include "trace/distribution.h"

const char *const dl_capture_case_names[DL_CAPTURE_COST_COUNT] = {
    "range, pushed and popped", "range with a registered text", "range, started and ended", "mark"};

#ifdef DL_NVTX
#include <nvtx3/nvToolsExt.h>

/* ns a call, by case and round. */
typedef struct cost_samples {
    double ns[DL_CAPTURE_COST_COUNT][DL_CAPTURE_COST_ROUNDS];
} cost_samples;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void call_often(dl_capture_case which, nvtxDomainHandle_t domain,
                       const nvtxEventAttributes_t *registered)
{
    for (int i = 0; i < DL_CAPTURE_COST_CALLS; i++) {
        switch (which) {
        case DL_CAPTURE_COST_PUSH:
            nvtxRangePushA("forward of layer 12");
            nvtxRangePop();
            break;
        case DL_CAPTURE_COST_REGISTERED:
            nvtxDomainRangePushEx(domain, registered);
            nvtxDomainRangePop(domain);
            break;
        case DL_CAPTURE_COST_START: nvtxRangeEnd(nvtxRangeStartA("forward of layer 12")); break;
        case DL_CAPTURE_COST_MARK: nvtxMarkA("forward of layer 12"); break;
        case DL_CAPTURE_COST_COUNT: break;
        }
    }
}

/* All cases, round by round, so that a drift of the machine touches all alike. One round more in
 * front, which is not counted, makes buffers and caches ready. */
static void time_calls(cost_samples *samples)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("dlprof bench");
    nvtxEventAttributes_t registered = {.version = NVTX_VERSION,
                                        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                        .messageType = NVTX_MESSAGE_TYPE_REGISTERED};
    registered.message.registered = nvtxDomainRegisterStringA(domain, "forward of layer 12");
    for (int round = -1; round < DL_CAPTURE_COST_ROUNDS; round++) {
        for (int which = 0; which < DL_CAPTURE_COST_COUNT; which++) {
            const double start_ns = now_ns();
            call_often((dl_capture_case)which, domain, &registered);
            if (round < 0) continue;
            samples->ns[which][round] = (now_ns() - start_ns) / DL_CAPTURE_COST_CALLS;
        }
    }
    nvtxDomainDestroy(domain);
}

/* The child's work. */
typedef struct cost_case {
    const char *library; /* NULL = without one */
    const dl_capture_settings *settings;
} cost_case;

static void work_in_child(void *user, void *result)
{
    const cost_case *chosen = user;
    dl_child_inject(chosen->settings, chosen->library, false);
    time_calls(result);
}

/* Times the calls in a child; library NULL = without one. */
static dl_status time_in_child(const char *library, const dl_capture_settings *settings,
                               cost_samples *samples, dl_error *err)
{
    cost_case chosen = {library, settings};
    const dl_child_work work = {.work = work_in_child, .user = &chosen};
    return dl_child_measure(&work, samples, sizeof *samples, err);
}

/* Whether the trace holds as many ranges and marks as were called: nothing was cheap because it was
 * lost. */
static dl_status check_trace(const char *folder, dl_error *err)
{
    dl_child_recording recording;
    const dl_status status = dl_child_recording_count(folder, &recording, err);
    if (status != DL_OK) return status;
    if (!recording.found) return dl_error_set(err, DL_ERR_DATA, "nothing was recorded");
    const size_t calls = (size_t)DL_CAPTURE_COST_CALLS * (DL_CAPTURE_COST_ROUNDS + 1);
    const size_t ranges = recording.of_kind[DL_ACTIVITY_RANGE];
    const size_t marks = recording.of_kind[DL_ACTIVITY_MARK];
    if (ranges == 3 * calls && marks == calls) return DL_OK;
    return dl_error_set(err, DL_ERR_DATA,
                        "recorded %zu ranges and %zu marks instead of %zu and %zu", ranges, marks,
                        3 * calls, calls);
}

static dl_capture_cost cost_of(double *with_ns, double *without_ns)
{
    const size_t count = DL_CAPTURE_COST_ROUNDS;
    const double base_ns = dl_distribution_of(without_ns, count).p50;
    const double median_ns = dl_distribution_of(with_ns, count).p50; /* and sorts them */
    const size_t low = dl_overhead_median_interval(count, DL_OVERHEAD_CONFIDENCE);
    return (dl_capture_cost){median_ns - base_ns, with_ns[low] - base_ns,
                             with_ns[count - 1 - low] - base_ns};
}

static dl_status measure_into(const char *library, const char *folder, cost_samples *with,
                              cost_samples *without, dl_error *err)
{
    dl_capture_settings settings = dl_capture_settings_default();
    dl_status status = dl_capture_set_path(settings.output, folder, err);
    if (status == DL_OK) status = time_in_child(NULL, &settings, without, err);
    if (status == DL_OK) status = time_in_child(library, &settings, with, err);
    return status == DL_OK ? check_trace(folder, err) : status;
}

dl_status dl_capture_cost_measure(const char *library, const char *folder,
                                  dl_capture_cost costs[DL_CAPTURE_COST_COUNT], dl_error *err)
{
    char *own = NULL;
    dl_status status = dl_child_folder_make(folder, &own, err);
    if (status != DL_OK) return status;
    cost_samples *with = dl_calloc(2, sizeof *with, "cost of the capture"), *without = with + 1;
    status = measure_into(library, own, with, without, err);
    for (int which = 0; status == DL_OK && which < DL_CAPTURE_COST_COUNT; which++)
        costs[which] = cost_of(with->ns[which], without->ns[which]);
    free(with);
    dl_child_folder_remove(own);
    return status;
}

#else

dl_status dl_capture_cost_measure(const char *library, const char *folder,
                                  dl_capture_cost costs[DL_CAPTURE_COST_COUNT], dl_error *err)
{
    (void)library;
    (void)folder;
    (void)costs;
    return dl_error_set(err, DL_ERR_UNSUPPORTED, "this build has no NVTX");
}

#endif
