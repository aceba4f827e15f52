/* The functions of CUDA's runtime and of the driver that tests/gpu/truth.c uses, on the driver's
 * double. Time on a stream is computed: work starts when it is launched or when the previous work
 * ends. DOUBLE_GPUS is the number of GPUs, default 1. */
#include "profiler/inject/cupti_headers.h"
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/driver_double.h"
#include "tests/gpu/truth.h"

#define NODES_MAX 16
#define GPUS_MAX 8
#define COPY_NS 5000

struct CUgraph_st {
    unsigned id, count;
    driver_work nodes[NODES_MAX];
};

struct CUstream_st {
    unsigned device, number;
    uint64_t end_ns; /* end of the last work */
    cudaGraph_t captured;
    cudaEvent_t waiting; /* events recorded since the last work */
};

struct CUevent_st {
    uint64_t at_ns;
    cudaStream_t stream;
    cudaEvent_t next;
};

static __thread unsigned current;
static atomic_bool has_context[GPUS_MAX];
static atomic_uint streams, graphs;

#define RUNTIME(name) ((driver_call){0, CUPTI_RUNTIME_TRACE_CBID_##name})

static void use_context(void)
{
    static atomic_bool started;
    if (!atomic_exchange(&started, 1)) cuInit(0);
    if (!atomic_exchange(&has_context[current], 1)) driver_double_create_context(current);
}

/* Returns the start of a work; events recorded before it get that time. */
static uint64_t begin_work(cudaStream_t stream)
{
    const uint64_t now_ns = driver_double_now_ns();
    const uint64_t start_ns = stream->end_ns > now_ns ? stream->end_ns : now_ns;
    for (; stream->waiting != NULL; stream->waiting = stream->waiting->next)
        stream->waiting->at_ns = start_ns;
    return start_ns;
}

static void issue(cudaStream_t stream, driver_call call, driver_work work)
{
    work.device = stream->device;
    work.stream = stream->number;
    if (stream->captured != NULL) {
        cudaGraph_t graph = stream->captured;
        if (graph->count == NODES_MAX) abort();
        work.graph = graph->id;
        work.node = graph->count;
        graph->nodes[graph->count++] = work;
        return;
    }
    work.start_ns = begin_work(stream);
    stream->end_ns = work.start_ns + work.duration_ns;
    driver_double_call(call, &work, 1);
}

static const char *const names[] = {"truth_spin", "truth_long", "truth_node", "truth_driver"};

cudaError_t truth_launch(truth_kernel kernel, cudaStream_t stream, unsigned long long ns)
{
    issue(stream, RUNTIME(cudaLaunchKernel_v7000),
          (driver_work){.kind = DRIVER_KERNEL, .name = names[kernel], .duration_ns = ns});
    return cudaSuccess;
}

cudaError_t truth_function(truth_kernel kernel, void **function)
{
    *function = (void *)(uintptr_t)names[kernel];
    return cudaSuccess;
}

void truth_wait_for_recorder(void)
{
    driver_double_await_flushes(2);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void **arguments, void **extra)
{
    (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared, (void)extra;
    issue(stream, (driver_call){1, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel},
          (driver_work){.kind = DRIVER_KERNEL,
                        .name = (const char *)function,
                        .duration_ns = *(unsigned long long *)arguments[0]});
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    const char *gpus = getenv("DOUBLE_GPUS");
    *count = gpus != NULL ? atoi(gpus) : 1;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) return error;
    if (device >= count || device >= GPUS_MAX) return cudaErrorInvalidDevice;
    current = (unsigned)device;
    use_context();
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer, (void)flags;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    driver_double_wait();
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error of the double";
}

/* Marks addresses of the device and of page-locked memory in the lowest bit or the next one. */
static cudaError_t allocate(void **memory, size_t bytes, uintptr_t mark)
{
    char *made = malloc(bytes + 16);
    *memory = made != NULL ? made + mark : NULL;
    return made != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t release(void *memory, uintptr_t mark)
{
    if (memory != NULL) free((char *)memory - mark);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return allocate(memory, bytes, 1);
}

cudaError_t cudaFree(void *memory)
{
    return release(memory, 1);
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return allocate(memory, bytes, 2);
}

cudaError_t cudaFreeHost(void *memory)
{
    return release(memory, 2);
}

static driver_memory memory_of(const void *address)
{
    const uintptr_t mark = (uintptr_t)address & 3;
    return mark == 1 ? DRIVER_DEVICE : mark == 2 ? DRIVER_PINNED : DRIVER_PAGEABLE;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind;
    issue(stream, RUNTIME(cudaMemcpyAsync_v3020),
          (driver_work){.kind = DRIVER_COPY,
                        .from = memory_of(from),
                        .to = memory_of(to),
                        .bytes = bytes,
                        .duration_ns = COPY_NS});
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream)
{
    (void)to, (void)from, (void)from_device;
    issue(stream, RUNTIME(cudaMemcpyPeerAsync_v4000),
          (driver_work){.kind = DRIVER_PEER_COPY,
                        .peer = (unsigned)to_device,
                        .bytes = bytes,
                        .duration_ns = COPY_NS});
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)memory, (void)value;
    issue(stream, RUNTIME(cudaMemsetAsync_v3020),
          (driver_work){.kind = DRIVER_MEMSET, .bytes = bytes, .duration_ns = COPY_NS});
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    use_context();
    *stream = calloc(1, sizeof **stream);
    if (*stream == NULL) return cudaErrorMemoryAllocation;
    (*stream)->device = current;
    (*stream)->number = 13 + atomic_fetch_add(&streams, 1);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    driver_double_call(RUNTIME(cudaStreamSynchronize_v3020), NULL, 0);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = calloc(1, sizeof **event);
    return *event != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->at_ns = stream->end_ns > 0 ? stream->end_ns : driver_double_now_ns();
    event->stream = stream;
    event->next = stream->waiting;
    stream->waiting = event;
    driver_double_record();
    return cudaSuccess;
}

/* The event's time does not change any more. */
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    event->stream->waiting = NULL;
    driver_double_call(RUNTIME(cudaEventSynchronize_v3020), NULL, 0);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    *ms = (float)(1e-6 * (double)(end->at_ns - begin->at_ns));
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    stream->captured = calloc(1, sizeof *stream->captured);
    if (stream->captured == NULL) return cudaErrorMemoryAllocation;
    stream->captured->id = atomic_fetch_add(&graphs, 1) + 1;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = stream->captured;
    stream->captured = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    *made = (cudaGraphExec_t)graph;
    return cudaSuccess;
}

/* Reports the whole graph, then its nodes one after another. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream)
{
    const struct CUgraph_st *graph = (const struct CUgraph_st *)made;
    driver_work works[NODES_MAX + 1];
    const uint64_t start_ns = begin_work(stream);
    uint64_t end_ns = start_ns;
    for (unsigned n = 0; n < graph->count; n++) {
        works[n + 1] = graph->nodes[n];
        works[n + 1].stream = stream->number;
        works[n + 1].start_ns = end_ns;
        end_ns += works[n + 1].duration_ns;
    }
    works[0] = (driver_work){.kind = DRIVER_GRAPH,
                             .device = stream->device,
                             .stream = stream->number,
                             .graph = graph->id,
                             .start_ns = start_ns,
                             .duration_ns = end_ns - start_ns};
    stream->end_ns = end_ns;
    driver_double_call(RUNTIME(cudaGraphLaunch_v10000), works, graph->count + 1);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made)
{
    (void)made;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free(graph);
    return cudaSuccess;
}
