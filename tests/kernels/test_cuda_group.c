/* Groups of GPUs that reduce together, with doubles of CUDA's and NCCL's calls: what happens if one
 * GPU lacks memory, fails, or waits for a lost process. A stream is done when all members have
 * launched as many reductions as it. */
#include <stdlib.h>

#include "kernels/cuda/cuda_internal.h"
#include "tests/check.h"

#define GPUS 8

struct ncclComm {
    int gpu, launched, aborted, destroyed;
};

static struct {
    struct ncclComm comms[GPUS];
    int members;         /* of the communicators made last */
    int grouped, groups; /* reductions since ncclGroupStart; groups that had any */
    int full;            /* GPU without free memory; -1: none */
    int current;
    bool refuses, in_progress; /* makes no communicator; makes none ready */
} cuda;

cudaError_t cudaSetDevice(int device)
{
    cuda.current = device;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    if (cuda.current == cuda.full) return cudaErrorMemoryAllocation;
    *memory = malloc(bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "another error";
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    const struct ncclComm *own = (const struct ncclComm *)(void *)stream;
    for (int i = 0; i < cuda.members; i++)
        if (cuda.comms[i].launched < own->launched) return cudaErrorNotReady;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (cudaStreamQuery(stream) == cudaErrorNotReady) fail_msg("%s", "the host waits for ever");
    return cudaSuccess;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "an error";
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "success" : "an error";
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSystemError ? "system error" : "remote error";
}

const char *ncclGetLastError(ncclComm_t comm DL_UNUSED)
{
    return "no space in /dev/shm";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 1, sizeof *id);
    return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *gpus)
{
    if (cuda.refuses) return ncclSystemError;
    for (int i = 0; i < count; i++) {
        cuda.comms[i] = (struct ncclComm){.gpu = gpus[i]};
        comms[i] = &cuda.comms[i];
    }
    cuda.members = count;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int count, ncclUniqueId id DL_UNUSED,
                                    int rank, ncclConfig_t *config)
{
    assert_int_equal(config->blocking, 0);
    assert_true(rank < count);
    cuda.comms[rank] = (struct ncclComm){.gpu = rank};
    *comm = &cuda.comms[rank];
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    assert_int_equal(comm->aborted + comm->destroyed, 0);
    *result = cuda.in_progress ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    assert_int_equal(comm->aborted + comm->destroyed, 0);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    comm->destroyed++;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->aborted++;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void); /* NCCL's header declares both without prototype */
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    cuda.grouped = 0;
    return ncclSuccess;
}

/* The first reduction connects all members. */
ncclResult_t ncclGroupEnd(void)
{
    if (cuda.grouped == 0) return cuda.in_progress ? ncclInProgress : ncclSuccess;
    if (cuda.groups++ == 0 && cuda.grouped != cuda.members)
        fail_msg("%d of %d GPUs wait for ever in NCCL", cuda.grouped, cuda.members);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    assert_true(from == to && count > 0 && type == ncclFloat && operation == ncclAvg);
    assert_ptr_equal(stream, comm);
    comm->launched++;
    cuda.grouped++;
    return ncclSuccess;
}

static struct dl_device slots[GPUS];
static dl_device *devices[GPUS];

static int set_up(void **state DL_UNUSED)
{
    memset(&cuda, 0, sizeof cuda);
    memset(slots, 0, sizeof slots);
    cuda.full = -1;
    unsetenv("NCCL_RUNTIME_CONNECT");
    for (int i = 0; i < GPUS; i++) {
        slots[i].number = i;
        slots[i].stream = (cudaStream_t)(void *)&cuda.comms[i];
        devices[i] = &slots[i];
    }
    return 0;
}

/* Leaves the group; the members' communicators must have been aborted, or destroyed, once. */
static void leave(int count, bool aborted)
{
    for (int i = 0; i < count; i++) {
        dl_cuda_group_leave(devices[i]);
        free(slots[i].scratch);
        assert_int_equal(cuda.comms[i].aborted, aborted);
        assert_int_equal(cuda.comms[i].destroyed, !aborted);
    }
}

static void members_reduce(void **state DL_UNUSED)
{
    dl_error err = {0};
    float values[16] = {0};
    assert_int_equal(dl_cuda_join(devices, 4, NULL, &err), DL_OK);
    assert_non_null(getenv("NCCL_RUNTIME_CONNECT"));
    assert_string_equal(getenv("NCCL_RUNTIME_CONNECT"), "0"); /* connects all at once */
    dl_cuda_use(devices[0]);
    dl_cuda_group_calls(true);
    for (int i = 0; i < 4; i++) {
        dl_cuda_use(devices[i]);
        dl_cuda_all_reduce(values, 16);
    }
    dl_cuda_group_calls(false);
    for (int i = 0; i < 4; i++) {
        dl_cuda_use(devices[i]);
        assert_int_equal(dl_cuda_wait(&err), DL_OK);
    }
    leave(4, false);
}

/* No GPU may enter NCCL if one lacks memory. */
static void a_gpu_without_memory_is_named(void **state DL_UNUSED)
{
    dl_error err = {0};
    cuda.full = 3;
    assert_int_equal(dl_cuda_join(devices, GPUS, NULL, &err), DL_ERR_SYSTEM);
    assert_string_equal(err.text, "GPU 3: scratch memory: out of memory");
    assert_int_equal(cuda.groups, 0);
    leave(GPUS, true);
}

static void a_failure_ends_the_others_waits(void **state DL_UNUSED)
{
    dl_error err = {0};
    float values[16] = {0};
    assert_int_equal(dl_cuda_join(devices, 3, NULL, &err), DL_OK);
    for (int i = 0; i < 2; i++) {
        dl_cuda_use(devices[i]);
        dl_cuda_all_reduce(values, 16);
    }
    dl_cuda_good(devices[2], cudaErrorIllegalAddress, "a kernel");
    for (int i = 0; i < 3; i++) {
        dl_cuda_use(devices[i]);
        assert_int_equal(dl_cuda_wait(&err), DL_ERR_SYSTEM);
        assert_contains(err.text, i < 2 ? "another member of the group has failed" : "a kernel");
    }
    leave(3, true);
}

static void refusals_say_why(void **state DL_UNUSED)
{
    dl_error err = {0};
    cuda.refuses = true;
    assert_int_equal(dl_cuda_join(devices, 2, NULL, &err), DL_ERR_SYSTEM);
    assert_string_equal(err.text, "NCCL cannot join 2 GPUs: system error: no space in /dev/shm");
    slots[2].number = 1;
    assert_int_equal(dl_cuda_join(devices, 3, NULL, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "workers 1 and 2 share GPU 1");
}

static bool is_lost(void *user)
{
    return *(const bool *)user;
}

/* Two of four ranks are here; the others never come. */
static void absent_ranks_are_not_waited_for(void **state DL_UNUSED)
{
    for (int lost = 0; lost < 2; lost++) {
        bool gone = lost == 1;
        dl_error err = {0};
        const dl_device_ranks ranks = {
            .count = 4, .limit_s = lost ? 60 : 0.01, .lost = is_lost, .user = &gone};
        (void)set_up(NULL);
        cuda.in_progress = true;
        assert_int_equal(dl_cuda_join(devices, 2, &ranks, &err), DL_ERR_SYSTEM);
        assert_contains(err.text, lost ? "another rank is lost" : "longer than the limit");
        leave(2, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(members_reduce, set_up),
        cmocka_unit_test_setup(a_gpu_without_memory_is_named, set_up),
        cmocka_unit_test_setup(a_failure_ends_the_others_waits, set_up),
        cmocka_unit_test_setup(refusals_say_why, set_up),
        cmocka_unit_test_setup(absent_ranks_are_not_waited_for, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
