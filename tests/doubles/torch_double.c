/* Replaces tests/gpu/torch_cases.py: torch_double CASE [STEPS] makes with the doubles of the driver
 * and its runtime the calls that PyTorch makes with CUDA in that case, and prints the known
 * amounts.
 *
 *   eager       kernels by the runtime
 *   compile     most kernels by the driver, as Triton launches them
 *   graphs      one graph per step, after steps on another stream
 *   loaders     as eager, with two forked processes that load batches and never use CUDA
 *   profiler    as eager, after another profiler in the process has set CUPTI's buffers
 *   ddp         two ranks, each with NCCL's ranges and kernels, which the driver launches
 *   step, copy  only the printed line
 *
 * TORCH_DOUBLE=silent: does nothing. TORCH_DOUBLE=hangs: does nothing and does not end. */
#include "profiler/inject/cupti_headers.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/doubles/driver_double.h"

#define WORK_NS 20000
#define BATCH_BYTES (256 * 512 * 4)
#define WARM_STEPS 5
#define RANKS 2
#define BUCKETS 2
#define BUCKET_BYTES 1000000
#define ALLREDUCE_SCHEMA (NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5)
#define COMM_SCHEMA (NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 0)
#define MLP_PARAMETERS 109386 /* 785 x 128 + 129 x 64 + 65 x 10 */

static const driver_call runtime_launch = {0, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000};
static const driver_call driver_launch = {1, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel};
static const driver_call nccl_launch = {1, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx};

static void *batch, *on_device;
static cudaStream_t stream;

static void launch(driver_call call, const char *name, unsigned on_stream)
{
    driver_double_call(
        call,
        &(driver_work){
            .kind = DRIVER_KERNEL, .name = name, .stream = on_stream, .duration_ns = WORK_NS},
        1);
}

static const char *const forward[] = {"ampere_sgemm_128x64_tn", "at::native::relu_kernel",
                                      "ampere_sgemm_64x64_tn", "at::native::gelu_kernel",
                                      "softmax_warp_forward"};
static const char *const backward[] = {"softmax_warp_backward", "ampere_sgemm_128x64_nn",
                                       "at::native::gelu_backward_kernel", "ampere_sgemm_64x64_nt",
                                       "at::native::relu_backward_kernel"};
static const char *const compiled[] = {"triton_poi_fused_relu_0", "triton_red_fused_gelu_1",
                                       "triton_poi_fused_backward_2"};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void bring_batch(void)
{
    if (cudaMemcpyAsync(on_device, batch, BATCH_BYTES, cudaMemcpyHostToDevice, stream) !=
        cudaSuccess)
        abort();
}

static void one_step(int with_compiler)
{
    for (size_t i = 0; i < COUNT(forward); i++)
        launch(runtime_launch, forward[i], 7);
    for (size_t i = 0; with_compiler && i < COUNT(compiled); i++)
        launch(driver_launch, compiled[i], 7);
    for (size_t i = 0; i < COUNT(backward); i++)
        launch(runtime_launch, backward[i], 7);
    launch(runtime_launch, "multi_tensor_apply_kernel", 7);
}

static void train(int steps, int with_compiler)
{
    for (int step = 0; step < steps; step++) {
        bring_batch();
        one_step(with_compiler);
    }
    cudaDeviceSynchronize();
    printf("{\"steps\": %d, \"ranks\": 1, \"kernels\": %d}\n", steps, steps);
}

static void train_graphs(int steps)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    for (int step = 0; step < WARM_STEPS; step++)
        one_step(0);
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) != cudaSuccess) abort();
    void *function = (void *)(uintptr_t)forward[0];
    unsigned long long ns = WORK_NS;
    void *arguments[] = {&ns};
    for (size_t i = 0; i < COUNT(forward) + COUNT(backward); i++)
        cuLaunchKernel((CUfunction)function, 1, 1, 1, 32, 1, 1, 0, (CUstream)stream, arguments,
                       NULL);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&made, graph, 0);
    for (int step = 0; step < steps; step++) {
        bring_batch();
        cudaGraphLaunch(made, stream);
    }
    cudaDeviceSynchronize();
    printf("{\"steps\": %d, \"ranks\": 1, \"kernels\": %d}\n", steps, steps);
    cudaGraphDestroy(graph);
}

static void with_loaders(int steps)
{
    pid_t loaders[2];
    for (int i = 0; i < 2; i++) {
        loaders[i] = fork();
        if (loaders[i] == 0) _exit(0);
    }
    train(steps, 0);
    for (int i = 0; i < 2; i++)
        waitpid(loaders[i], NULL, 0);
}

/* Acts like a profiler that sets its buffers without subscribing. Buffers that come back may belong
 * to the previous tool. */
static uint8_t *lent;

static void CUPTIAPI lend(uint8_t **data, size_t *bytes, size_t *records)
{
    *bytes = 1u << 20;
    *data = lent = aligned_alloc(64, *bytes);
    if (*data != NULL) memset(*data, 0, *bytes);
    *records = 0;
}

static void CUPTIAPI take_back(CUcontext context, uint32_t id, uint8_t *data, size_t bytes,
                               size_t used)
{
    (void)context, (void)id, (void)bytes, (void)used;
    if (data == lent) free(data);
}

static void profile(int steps)
{
    const char *path = getenv("DLPROF_CUPTI");
    void *cupti = path != NULL ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    __typeof__(cuptiActivityRegisterCallbacks) *set = NULL;
    void *found = cupti != NULL ? dlsym(cupti, "cuptiActivityRegisterCallbacks") : NULL;
    memcpy(&set, &found, sizeof found);
    if (set != NULL) set(lend, take_back);
    train(steps, 0);
}

typedef struct reduce_payload {
    uint64_t comm;
    size_t bytes;
} reduce_payload;

typedef struct comm_payload {
    uint64_t comm;
    int ranks, rank, device;
} comm_payload;

static void all_reduce(nvtxDomainHandle_t domain, size_t bytes)
{
    const reduce_payload reduce = {0xdd9, bytes};
    const nvtxPayloadData_t data = {ALLREDUCE_SCHEMA, sizeof reduce, &reduce};
    nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = "ncclAllReduce",
                                   .payloadType = NVTX_PAYLOAD_TYPE_EXT,
                                   .reserved0 = 1,
                                   .payload.ullValue = (uintptr_t)&data};
    nvtxDomainRangePushEx(domain, &event);
    launch(nccl_launch, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 21);
    nvtxDomainRangePop(domain);
}

static void train_rank(int steps)
{
    const char *rank = getenv("RANK");
    nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
    const comm_payload comm = {0xdd9, RANKS, rank != NULL ? atoi(rank) : 0, 0};
    const nvtxPayloadData_t made = {COMM_SCHEMA, sizeof comm, &comm};
    nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = "ncclCommInitRank"};
    nvtxDomainRangePushEx(domain, &event);
    nvtxRangePopPayload(domain, &made, 1);
    for (int step = 0; step < steps; step++) {
        bring_batch();
        for (size_t i = 0; i < COUNT(forward); i++)
            launch(runtime_launch, forward[i], 7);
        for (size_t i = 0; i < COUNT(backward); i++) {
            launch(runtime_launch, backward[i], 7);
            if (i % 2 == 1) all_reduce(domain, BUCKET_BYTES);
        }
        launch(runtime_launch, "multi_tensor_apply_kernel", 7);
    }
    cudaDeviceSynchronize();
}

static int start_ranks(const char *self, const char *steps)
{
    int failed = 0;
    pid_t ranks[RANKS];
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = fork();
        if (ranks[i] != 0) continue;
        char number[8];
        snprintf(number, sizeof number, "%d", i);
        setenv("RANK", number, 1);
        setenv("WORLD_SIZE", "2", 1);
        setenv("LOCAL_RANK", "0", 1);
        execl(self, self, "rank", steps, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < RANKS; i++) {
        int status = 1;
        waitpid(ranks[i], &status, 0);
        failed |= status;
    }
    printf("{\"steps\": %s, \"ranks\": %d, \"reduced_bytes\": %d}\n", steps, RANKS,
           BUCKETS * BUCKET_BYTES * atoi(steps));
    return failed != 0;
}

static void open_device(void)
{
    cudaSetDevice(0);
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaMallocHost(&batch, BATCH_BYTES) != cudaSuccess ||
        cudaMalloc(&on_device, BATCH_BYTES) != cudaSuccess)
        abort();
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "there";
    const char *count = argc > 2 ? argv[2] : "60";
    const char *word = getenv("TORCH_DOUBLE");
    const int steps = atoi(count);
    while (word != NULL && strcmp(word, "hangs") == 0)
        pause();
    if ((word != NULL && strcmp(word, "silent") == 0) || strcmp(which, "there") == 0) return 0;
    if (strcmp(which, "step") == 0) {
        for (int i = 2; i < argc; i++)
            if (strchr(argv[i], ':') != NULL)
                printf("{\"case\": \"%s\", \"step_ns\": 1e9, \"ahead_ns\": 1e9, "
                       "\"parameters\": %d}\n",
                       argv[i], MLP_PARAMETERS);
        return 0;
    }
    if (strcmp(which, "copy") == 0) {
        printf("{\"bytes_per_s\": 1e9}\n");
        return 0;
    }
    if (strcmp(which, "ddp") == 0) return start_ranks(argv[0], count);
    open_device();
    if (strcmp(which, "eager") == 0) train(steps, 0);
    if (strcmp(which, "compile") == 0) train(steps, 1);
    if (strcmp(which, "graphs") == 0) train_graphs(steps);
    if (strcmp(which, "loaders") == 0) with_loaders(steps);
    if (strcmp(which, "profiler") == 0) profile(steps);
    if (strcmp(which, "rank") == 0) train_rank(steps);
    cudaFree(on_device);
    cudaFreeHost(batch);
    return 0;
}
