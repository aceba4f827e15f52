/* Groups of GPUs that reduce together, through NCCL.
 *
 * A member whose GPU fails issues nothing more, so that the kernels of the others would wait for it
 * for ever. It therefore marks the group as failed; the others see that while they wait for their
 * GPUs, and abort their communicators, each in the thread that uses it. Connections are made when
 * the group is: afterwards no call of NCCL waits on the host for another member's. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "kernels/backend_cuda.h"

/* Numbers of the reductions that have NCCL connect: a few, and as many as make it take its ways for
 * large ones. */
static const size_t rehearsals[] = {16, (size_t)1 << 22};
enum { REHEARSALS = sizeof rehearsals / sizeof rehearsals[0] };

struct dl_cuda_group {
    atomic_int users;
    atomic_bool failed;
};

void dl_cuda_group_fail(dl_device *device)
{
    if (device->group != NULL) atomic_store(&device->group->failed, true);
}

void dl_cuda_group_leave(dl_device *device)
{
    if (device->communicator != NULL) {
        const bool failed = atomic_load(&device->group->failed);
        (void)(failed ? ncclCommAbort(device->communicator)
                      : ncclCommDestroy(device->communicator));
        device->communicator = NULL;
    }
    if (device->group != NULL && atomic_fetch_sub(&device->group->users, 1) == 1) {
        free(device->group);
    }
    device->group = NULL;
}

void dl_cuda_group_wait(dl_device *device)
{
    while (device->communicator != NULL && dl_cuda_works(device)) {
        const cudaError_t done = cudaStreamQuery(device->stream);
        if (done != cudaErrorNotReady) {
            dl_cuda_good(device, done, "the GPU's work");
            break;
        }
        ncclResult_t state = ncclSuccess;
        dl_cuda_good_nccl(device, ncclCommGetAsyncError(device->communicator, &state),
                          "ncclCommGetAsyncError");
        dl_cuda_good_nccl(device, state, "a reduction");
        if (dl_cuda_works(device) && atomic_load(&device->group->failed)) {
            dl_cuda_good_nccl(device, ncclRemoteError, "another member of the group has failed");
        }
        (void)sched_yield();
    }
    if (device->communicator == NULL || dl_cuda_works(device)) return;
    dl_cuda_group_fail(device);
    (void)ncclCommAbort(device->communicator);
    device->communicator = NULL;
}

static dl_status nccl_error(ncclResult_t result, int count, dl_error *err)
{
    return dl_error_set(err, DL_ERR_SYSTEM, "NCCL cannot join %d GPUs: %.200s", count,
                        ncclGetErrorString(result));
}

/* One reduction of all members, issued by this thread. */
static dl_status rehearse(dl_device *const *devices, int count, size_t numbers, dl_error *err)
{
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; result == ncclSuccess && i < count; i++) {
        dl_cuda_use(devices[i]);
        dl_cuda_good(devices[i], cudaSetDevice(devices[i]->number), "cudaSetDevice");
        void *values = dl_cuda_scratch(devices[i], numbers * sizeof(float));
        if (values == NULL) continue;
        result = ncclAllReduce(values, values, numbers, ncclFloat, ncclAvg,
                               devices[i]->communicator, devices[i]->stream);
    }
    const ncclResult_t ended = ncclGroupEnd();
    if (result == ncclSuccess) result = ended;
    if (result != ncclSuccess) return nccl_error(result, count, err);
    dl_status status = DL_OK;
    for (int i = 0; i < count; i++) {
        dl_cuda_use(devices[i]);
        const dl_status waited = dl_backend_cuda.wait(status == DL_OK ? err : NULL);
        if (status == DL_OK) status = waited;
    }
    return status;
}

static dl_status make_group(dl_device *const *devices, int count, const int *numbers,
                            ncclComm_t *communicators, dl_error *err)
{
    const ncclResult_t result = ncclCommInitAll(communicators, count, numbers);
    if (result != ncclSuccess) return nccl_error(result, count, err);
    dl_cuda_group *group = dl_calloc(1, sizeof *group, "group");
    atomic_init(&group->users, count);
    atomic_init(&group->failed, false);
    for (int i = 0; i < count; i++) {
        devices[i]->group = group;
        devices[i]->communicator = communicators[i];
    }
    dl_status status = DL_OK;
    for (int r = 0; status == DL_OK && r < REHEARSALS; r++)
        status = rehearse(devices, count, rehearsals[r], err);
    return status;
}

dl_status dl_cuda_join(dl_device *const *devices, int count, dl_error *err)
{
    int *numbers = dl_calloc((size_t)count, sizeof *numbers, "numbers of devices");
    ncclComm_t *communicators = dl_calloc((size_t)count, sizeof *communicators, "communicators");
    dl_status status = DL_OK;
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
    if (status == DL_OK) status = make_group(devices, count, numbers, communicators, err);
    free(communicators);
    free(numbers);
    return status;
}

void dl_cuda_all_reduce(void *values, size_t count)
{
    dl_device *device = dl_cuda_device();
    DL_ASSERT(device->group != NULL, "GPU %d is in no group", device->number);
    if (!dl_cuda_works(device) || device->communicator == NULL) return;
    dl_cuda_good_nccl(device,
                      ncclAllReduce(values, values, count, ncclFloat, ncclAvg, device->communicator,
                                    device->stream),
                      "ncclAllReduce");
}

void dl_cuda_group_calls(bool begin)
{
    dl_device *device = dl_cuda_device();
    dl_cuda_good_nccl(device, begin ? ncclGroupStart() : ncclGroupEnd(),
                      begin ? "ncclGroupStart" : "ncclGroupEnd");
}
