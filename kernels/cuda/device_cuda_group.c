/* Groups of GPUs that reduce together, through NCCL.
 *
 * A member whose GPU fails launches nothing more, so the kernels of the others would wait for it
 * forever. It therefore marks the group as failed; the others see the mark while they wait for
 * their GPUs, and abort their communicators, each in its own thread. NCCL connects the members when
 * the group is made; afterwards none of its calls waits on the host for another member.
 *
 * Members in other processes cannot set this mark. With several processes NCCL's calls do not block
 * (they are polled until complete); a waiting thread also polls whether a process is lost, and
 * waits no longer than the limit. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/cuda/cuda_internal.h"

/* Sizes of the reductions that make NCCL connect: a few numbers, and enough for its algorithms for
 * large vectors. */
static const size_t warm_ups[] = {16, (size_t)1 << 22};

enum { WARM_UPS = sizeof warm_ups / sizeof warm_ups[0] };

/* Interval between polls for a lost process, which are system calls. */
#define ASK_NS 1000000

_Static_assert(sizeof(ncclUniqueId) == DL_DEVICE_ID_BYTES, "NCCL's name for a group");

struct dl_cuda_group {
    atomic_int users;
    atomic_bool failed;
    dl_device_ranks ranks; /* count 0: all members are in this process */
    dl_device **members;   /* [member_count] members in this process */
    int member_count;
    bool ending;            /* its communicators are being finalized */
    bool launched_together; /* one thread is between its two calls of dl_cuda_group_calls */
};

/* State of a wait for members of other processes: its start, and the last check for a lost
 * process. */
typedef struct watch {
    int64_t since_ns, asked_ns;
} watch;

static watch begin_watch(void)
{
    const int64_t now_ns = dl_clock_ns();
    return (watch){.since_ns = now_ns, .asked_ns = now_ns};
}

/* Returns the reason why waiting is pointless; NULL: it is not. */
static const char *no_point(dl_cuda_group *group, watch *w)
{
    const dl_device_ranks *ranks = &group->ranks;
    if (atomic_load(&group->failed)) return "another member of the group has failed";
    const int64_t now_ns = dl_clock_ns();
    if (ranks->count == 0 || now_ns - w->asked_ns < ASK_NS) return NULL;
    w->asked_ns = now_ns;
    if (ranks->lost(ranks->user)) return "another rank is lost";
    const bool late = dl_ns_to_s((double)(now_ns - w->since_ns)) > ranks->limit_s;
    return late ? "another rank has kept it waiting for longer than the limit" : NULL;
}

/* Waits for the outcome of an NCCL call that returned `result` and may still be in progress. */
static bool came_good(dl_device *device, ncclResult_t result, const char *what)
{
    watch w = begin_watch();
    while (result == ncclInProgress && device->communicator != NULL) {
        const char *reason = no_point(device->group, &w);
        if (reason != NULL) return dl_cuda_good_nccl(device, ncclRemoteError, reason);
        (void)sched_yield();
        const ncclResult_t asked = ncclCommGetAsyncError(device->communicator, &result);
        if (asked != ncclSuccess) result = asked;
    }
    return dl_cuda_good_nccl(device, result, what);
}

void dl_cuda_group_fail(dl_device *device)
{
    if (device->group != NULL) atomic_store(&device->group->failed, true);
}

/* Starts to finalize all communicators of this process together, since one may wait for another. */
static void begin_end(dl_cuda_group *group)
{
    if (group->ending) return;
    group->ending = true;
    for (int i = 0; i < group->member_count; i++) {
        dl_device *member = group->members[i];
        const ncclResult_t result =
            member->communicator != NULL ? ncclCommFinalize(member->communicator) : ncclSuccess;
        if (result != ncclInProgress) (void)dl_cuda_good_nccl(member, result, "ncclCommFinalize");
    }
}

void dl_cuda_group_leave(dl_device *device)
{
    if (device->communicator != NULL) {
        bool good = !atomic_load(&device->group->failed);
        if (good && device->group->ranks.count > 0) {
            begin_end(device->group);
            good = came_good(device, ncclInProgress, "ncclCommFinalize");
        }
        (void)(good ? ncclCommDestroy(device->communicator) : ncclCommAbort(device->communicator));
        device->communicator = NULL;
    }
    if (device->group != NULL && atomic_fetch_sub(&device->group->users, 1) == 1) {
        free(device->group->members);
        free(device->group);
    }
    device->group = NULL;
}

static void wait_for_group(dl_device *device)
{
    watch w = begin_watch();
    while (device->communicator != NULL && dl_cuda_works(device)) {
        const cudaError_t done = cudaStreamQuery(device->stream);
        if (done != cudaErrorNotReady) {
            dl_cuda_good(device, done, "the GPU's work");
            break;
        }
        ncclResult_t state = ncclSuccess;
        dl_cuda_good_nccl(device, ncclCommGetAsyncError(device->communicator, &state),
                          "ncclCommGetAsyncError");
        if (state != ncclInProgress) dl_cuda_good_nccl(device, state, "a reduction");
        const char *reason = dl_cuda_works(device) ? no_point(device->group, &w) : NULL;
        if (reason != NULL) dl_cuda_good_nccl(device, ncclRemoteError, reason);
        (void)sched_yield();
    }
    if (device->communicator == NULL || dl_cuda_works(device)) return;
    dl_cuda_group_fail(device);
    (void)ncclCommAbort(device->communicator);
    device->communicator = NULL;
}

dl_status dl_cuda_wait(dl_error *err)
{
    dl_device *device = dl_cuda_device();
    wait_for_group(device);
    if (dl_cuda_works(device)) {
        dl_cuda_good(device, cudaStreamSynchronize(device->stream), "the GPU's work");
    }
    if (dl_cuda_works(device)) return DL_OK;
    if (err != NULL) *err = device->failure;
    return device->failure.code;
}

static dl_status nccl_error(ncclResult_t result, int count, dl_error *err)
{
    return dl_error_set(err, DL_ERR_SYSTEM, "NCCL cannot join %d GPUs: %.150s: %.250s", count,
                        ncclGetErrorString(result), ncclGetLastError(NULL));
}

/* Launches one reduction of all members from this thread. The memory comes first: were one member
 * without it, the others would wait in NCCL for its connections. */
static dl_status warm_up(dl_device *const *devices, int count, size_t numbers, dl_error *err)
{
    for (int i = 0; i < count; i++) {
        dl_cuda_good(devices[i], cudaSetDevice(devices[i]->number), "cudaSetDevice");
        if (dl_cuda_scratch(devices[i], numbers * sizeof(float)) != NULL) continue;
        if (err != NULL) *err = devices[i]->failure;
        return devices[i]->failure.code;
    }
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; (result == ncclSuccess || result == ncclInProgress) && i < count; i++) {
        dl_cuda_good(devices[i], cudaSetDevice(devices[i]->number), "cudaSetDevice");
        void *values = devices[i]->scratch;
        result = ncclAllReduce(values, values, numbers, ncclFloat, ncclAvg,
                               devices[i]->communicator, devices[i]->stream);
    }
    const ncclResult_t ended = ncclGroupEnd();
    if (result == ncclSuccess || result == ncclInProgress) result = ended;
    if (result != ncclSuccess && result != ncclInProgress) return nccl_error(result, count, err);
    dl_status status = DL_OK;
    for (int i = 0; i < count; i++) {
        (void)came_good(devices[i], result, "the first reduction");
        dl_cuda_use(devices[i]);
        const dl_status waited = dl_cuda_wait(status == DL_OK ? err : NULL);
        if (status == DL_OK) status = waited;
    }
    return status;
}

static dl_status warm_up_all(dl_device *const *devices, int count, dl_error *err)
{
    dl_status status = DL_OK;
    for (int r = 0; status == DL_OK && r < WARM_UPS; r++)
        status = warm_up(devices, count, warm_ups[r], err);
    return status;
}

/* Gives the slots their shared state; `ranks` is NULL if all members are in this process. */
static void share_group(dl_device *const *devices, int count, const dl_device_ranks *ranks,
                        const ncclComm_t *communicators)
{
    dl_cuda_group *group = dl_calloc(1, sizeof *group, "group");
    atomic_init(&group->users, count);
    atomic_init(&group->failed, false);
    if (ranks != NULL) group->ranks = *ranks;
    group->members = dl_calloc((size_t)count, sizeof *group->members, "members of a group");
    group->member_count = count;
    for (int i = 0; i < count; i++) {
        group->members[i] = devices[i];
        devices[i]->group = group;
        devices[i]->communicator = communicators[i];
    }
}

static dl_status make_group(dl_device *const *devices, int count, const int *numbers,
                            ncclComm_t *communicators, dl_error *err)
{
    const ncclResult_t result = ncclCommInitAll(communicators, count, numbers);
    if (result != ncclSuccess) return nccl_error(result, count, err);
    share_group(devices, count, NULL, communicators);
    return warm_up_all(devices, count, err);
}

dl_status dl_cuda_make_id(char id[DL_DEVICE_ID_BYTES], dl_error *err)
{
    ncclUniqueId made;
    const ncclResult_t result = ncclGetUniqueId(&made);
    if (result != ncclSuccess) {
        return dl_error_set(err, DL_ERR_SYSTEM, "NCCL cannot start a group of ranks: %.200s",
                            ncclGetErrorString(result));
    }
    memcpy(id, &made, sizeof made);
    return DL_OK;
}

/* Starts to make this process's communicators; they are still in progress on return. */
static ncclResult_t begin_communicators(dl_device *const *devices, int count,
                                        const dl_device_ranks *ranks, ncclComm_t *communicators)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    memcpy(&id, ranks->id, sizeof id);
    config.blocking = 0;
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; (result == ncclSuccess || result == ncclInProgress) && i < count; i++) {
        dl_cuda_use(devices[i]);
        dl_cuda_good(devices[i], cudaSetDevice(devices[i]->number), "cudaSetDevice");
        result =
            ncclCommInitRankConfig(&communicators[i], ranks->count, id, ranks->first + i, &config);
    }
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

static dl_status make_ranks_group(dl_device *const *devices, int count,
                                  const dl_device_ranks *ranks, ncclComm_t *communicators,
                                  dl_error *err)
{
    const ncclResult_t result = begin_communicators(devices, count, ranks, communicators);
    if (result != ncclSuccess && result != ncclInProgress) {
        for (int i = 0; i < count; i++)
            if (communicators[i] != NULL) (void)ncclCommAbort(communicators[i]);
        return nccl_error(result, ranks->count, err);
    }
    share_group(devices, count, ranks, communicators);
    for (int i = 0; i < count; i++) {
        if (came_good(devices[i], result, "joining the other ranks' GPUs")) continue;
        dl_cuda_group_fail(devices[i]);
        if (err != NULL) *err = devices[i]->failure;
        return devices[i]->failure.code;
    }
    return warm_up_all(devices, count, err);
}

dl_status dl_cuda_join(dl_device *const *devices, int count, const dl_device_ranks *ranks,
                       dl_error *err)
{
    DL_AUTOFREE int *numbers = dl_calloc((size_t)count, sizeof *numbers, "numbers of devices");
    DL_AUTOFREE ncclComm_t *communicators =
        dl_calloc((size_t)count, sizeof *communicators, "communicators");
    dl_status status = DL_OK;
    /* NCCL 2.22 and newer else connect each algorithm at its first use, waiting on the host. */
    (void)setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    for (int i = 0; status == DL_OK && i < count; i++) {
        numbers[i] = devices[i]->number;
        for (int j = 0; status == DL_OK && j < i; j++) {
            if (numbers[j] != numbers[i]) continue;
            status = dl_error_set(err, DL_ERR_UNSUPPORTED,
                                  "workers %d and %d share GPU %d, but NCCL reduces only between "
                                  "GPUs that differ",
                                  j, i, numbers[i]);
        }
    }
    if (status == DL_OK && ranks == NULL) {
        status = make_group(devices, count, numbers, communicators, err);
    } else if (status == DL_OK) {
        status = make_ranks_group(devices, count, ranks, communicators, err);
    }
    return status;
}

void dl_cuda_all_reduce(void *values, size_t count)
{
    dl_device *device = dl_cuda_device();
    DL_ASSERT(device->group != NULL, "GPU %d is in no group", device->number);
    if (!dl_cuda_works(device) || device->communicator == NULL) return;
    const ncclResult_t result = ncclAllReduce(values, values, count, ncclFloat, ncclAvg,
                                              device->communicator, device->stream);
    /* Inside of a group of calls, the end of the group is polled instead. */
    if (result == ncclInProgress && device->group->launched_together) return;
    (void)came_good(device, result, "ncclAllReduce");
}

void dl_cuda_group_calls(bool begin)
{
    dl_device *device = dl_cuda_device();
    dl_cuda_group *group = device->group;
    if (group != NULL) group->launched_together = begin;
    if (begin) {
        dl_cuda_good_nccl(device, ncclGroupStart(), "ncclGroupStart");
        return;
    }
    const ncclResult_t result = ncclGroupEnd();
    if (group == NULL || result != ncclInProgress) {
        dl_cuda_good_nccl(device, result, "ncclGroupEnd");
        return;
    }
    for (int i = 0; i < group->member_count; i++) {
        if (dl_cuda_works(group->members[i])) {
            (void)came_good(group->members[i], result, "ncclGroupEnd");
        }
    }
}
