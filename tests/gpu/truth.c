/* A program with known activities, to test recorders: truth ENDING [LAUNCHES] does a known amount
 * of work of each kind on its GPUs, prints the amounts as one line of JSON, and ends.
 *
 *   exit   returns 3
 *   _exit  by _exit(4)
 *   kill   by SIGKILL
 *   fork   a forked child ends by _exit(5), without CUDA; then as many launches again; returns 3
 *   exec   a child executes `truth exit 100`; then as with fork
 *
 * The work: LAUNCHES (10,000) kernels on 3 streams; copies of each direction and kind of host
 * memory; memsets; a graph of 10 kernels, launched 100 times; kernels launched by the driver;
 * kernels of 2 ms between events of CUDA. On a second GPU that the first one reaches: kernels, and
 * copies between the two. Every kernel runs once before, so that no module is loaded later. */
#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/truth.h"

#define LAUNCHES 10000
#define STREAMS 3
#define SPIN_NS 2000
#define COPIES 20
#define COPY_BYTES (1u << 20)
#define MEMSETS 10
#define NODES 10
#define GRAPH_LAUNCHES 100
#define DRIVER_LAUNCHES 50
#define LONG_KERNELS 20
#define LONG_NS 2000000
#define AHEAD_NS 200000 /* for a kernel before, so that the host is ahead of the device */
#define PEER_LAUNCHES 30
#define WORKS_MAX 32
#define QUEUED_MAX 500 /* launches in flight before a wait */

/* Work done, divided as in a summary of a trace. */
typedef struct done {
    const char *kind, *what, *memory;
    int device;
    unsigned long count, bytes;
} done;

static done works[WORKS_MAX];
static size_t work_count;
static double long_ns;

static void note(const char *kind, const char *what, const char *memory, int device, size_t bytes)
{
    size_t i = 0;
    while (i < work_count &&
           (strcmp(works[i].kind, kind) != 0 || strcmp(works[i].what, what) != 0 ||
            strcmp(works[i].memory, memory) != 0 || works[i].device != device))
        i++;
    if (i == work_count) works[work_count++] = (done){kind, what, memory, device, 0, 0};
    works[i].count++;
    works[i].bytes += bytes;
}

static void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return;
    fprintf(stderr, "truth: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}
#define CHECK(call) check(call, #call)

static void launch(truth_kernel kernel, cudaStream_t stream, int device, unsigned long long ns)
{
    static const char *const names[] = {"truth_spin", "truth_long", "truth_node", "truth_driver"};
    CHECK(truth_launch(kernel, stream, ns));
    note("kernel", names[kernel], "", device, 0);
}

static void launch_many(cudaStream_t *streams, int launches)
{
    for (int i = 0; i < launches; i++) {
        launch(TRUTH_SPIN, streams[i % STREAMS], 0, SPIN_NS);
        if (i % QUEUED_MAX == QUEUED_MAX - 1) CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaDeviceSynchronize());
}

static void copy_all(cudaStream_t stream)
{
    void *near_memory, *other, *pinned, *pageable = malloc(COPY_BYTES);
    CHECK(cudaMalloc(&near_memory, COPY_BYTES));
    CHECK(cudaMalloc(&other, COPY_BYTES));
    CHECK(cudaMallocHost(&pinned, COPY_BYTES));
    if (pageable == NULL) abort();
    memset(pageable, 1, COPY_BYTES);
    memset(pinned, 2, COPY_BYTES);
    const struct {
        const char *direction, *memory;
        void *to, *from;
        enum cudaMemcpyKind kind;
    } copies[] = {
        {"h2d", "pinned", near_memory, pinned, cudaMemcpyHostToDevice},
        {"h2d", "pageable", near_memory, pageable, cudaMemcpyHostToDevice},
        {"d2h", "pinned", pinned, near_memory, cudaMemcpyDeviceToHost},
        {"d2h", "pageable", pageable, near_memory, cudaMemcpyDeviceToHost},
        {"d2d", "unknown", other, near_memory, cudaMemcpyDeviceToDevice},
    };
    for (size_t c = 0; c < sizeof copies / sizeof copies[0]; c++) {
        for (size_t i = 0; i < COPIES; i++) {
            const size_t bytes = COPY_BYTES - 1024 * (i + c);
            CHECK(cudaMemcpyAsync(copies[c].to, copies[c].from, bytes, copies[c].kind, stream));
            note("memcpy", copies[c].direction, copies[c].memory, 0, bytes);
        }
    }
    for (size_t i = 1; i <= MEMSETS; i++) {
        CHECK(cudaMemsetAsync(near_memory, 0, 4096 * i, stream));
        note("memset", "", "", 0, 4096 * i);
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(near_memory));
    CHECK(cudaFree(other));
    CHECK(cudaFreeHost(pinned));
    free(pageable);
}

static void launch_graph(cudaStream_t stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int node = 0; node < NODES; node++)
        CHECK(truth_launch(TRUTH_NODE, stream, SPIN_NS));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    for (int i = 0; i < GRAPH_LAUNCHES; i++) {
        CHECK(cudaGraphLaunch(made, stream));
        for (int node = 0; node < NODES; node++)
            note("kernel", "truth_node", "", 0, 0);
        note("graph", "", "", 0, 0);
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(made));
    CHECK(cudaGraphDestroy(graph));
}

static void launch_by_driver(cudaStream_t stream)
{
    __typeof__(cuLaunchKernel) *by_driver = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *function, *found;
    found = driver != NULL ? dlsym(driver, "cuLaunchKernel") : NULL;
    memcpy(&by_driver, &found, sizeof found);
    if (by_driver == NULL) abort();
    CHECK(truth_function(TRUTH_DRIVER, &function));
    unsigned long long ns = SPIN_NS;
    void *arguments[] = {&ns};
    for (int i = 0; i < DRIVER_LAUNCHES; i++) {
        if (by_driver((CUfunction)function, 1, 1, 1, 32, 1, 1, 0, (CUstream)stream, arguments,
                      NULL) != CUDA_SUCCESS)
            abort();
        note("kernel", "truth_driver", "", 0, 0);
    }
    CHECK(cudaStreamSynchronize(stream));
}

static int by_size(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

/* Sets long_ns to the median of the long kernels' times by CUDA's events. */
static void time_long(cudaStream_t stream)
{
    cudaEvent_t begin, end;
    float ms[LONG_KERNELS];
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int i = 0; i < LONG_KERNELS; i++) {
        launch(TRUTH_SPIN, stream, 0, AHEAD_NS);
        CHECK(cudaEventRecord(begin, stream));
        launch(TRUTH_LONG, stream, 0, LONG_NS);
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms[i], begin, end));
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    qsort(ms, LONG_KERNELS, sizeof *ms, by_size);
    long_ns = 1e6 * (ms[LONG_KERNELS / 2 - 1] + ms[LONG_KERNELS / 2]) / 2;
}

static void use_peer(cudaStream_t stream)
{
    int devices = 0, reached = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices > 1) CHECK(cudaDeviceCanAccessPeer(&reached, 0, 1));
    if (!reached) return;
    void *here, *there;
    CHECK(cudaMalloc(&here, COPY_BYTES));
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&there, COPY_BYTES));
    cudaStream_t other;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (int i = 0; i < PEER_LAUNCHES; i++)
        launch(TRUTH_SPIN, other, 1, SPIN_NS);
    CHECK(cudaStreamSynchronize(other));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaSetDevice(0));
    for (size_t i = 0; i < COPIES; i++) {
        const size_t bytes = COPY_BYTES - 2048 * i;
        CHECK(cudaMemcpyPeerAsync(there, 1, here, 0, bytes, stream));
        note("memcpy", "peer", "unknown", 0, bytes);
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(here));
    CHECK(cudaFree(there));
}

static void warm_up(cudaStream_t stream)
{
    for (int kernel = TRUTH_SPIN; kernel <= TRUTH_DRIVER; kernel++)
        launch((truth_kernel)kernel, stream, 0, kernel == TRUTH_LONG ? LONG_NS : SPIN_NS);
    CHECK(cudaDeviceSynchronize());
}

static void print_truth(void)
{
    printf("{\"long_ns\": %.1f, \"works\": [", long_ns);
    for (size_t i = 0; i < work_count; i++) {
        printf("%s{\"kind\": \"%s\", \"what\": \"%s\", \"memory\": \"%s\", \"device\": %d, "
               "\"count\": %lu, \"bytes\": %lu}",
               i > 0 ? ", " : "", works[i].kind, works[i].what, works[i].memory, works[i].device,
               works[i].count, works[i].bytes);
    }
    printf("]}\n");
    fflush(stdout);
}

static int run_child(const char *self, const char *ending)
{
    const pid_t child = fork();
    if (child == 0 && strcmp(ending, "exec") == 0) {
        execl(self, self, "exit", "100", (char *)NULL);
        _exit(127);
    }
    if (child == 0) _exit(5);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    const char *ending = argc > 1 ? argv[1] : "exit";
    const int launches = argc > 2 ? atoi(argv[2]) : LAUNCHES;
    const int child = strcmp(ending, "fork") == 0 ? 5 : strcmp(ending, "exec") == 0 ? 3 : 0;
    cudaStream_t streams[STREAMS];
    CHECK(cudaSetDevice(0));
    for (int i = 0; i < STREAMS; i++)
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    warm_up(streams[0]);
    launch_many(streams, launches);
    copy_all(streams[1]);
    launch_graph(streams[2]);
    launch_by_driver(streams[0]);
    time_long(streams[0]);
    use_peer(streams[0]);
    if (child != 0) {
        if (run_child(argv[0], ending) != child) return 1;
        launch_many(streams, launches);
    }
    print_truth();
    if (strcmp(ending, "_exit") == 0 || strcmp(ending, "kill") == 0) truth_wait_for_recorder();
    if (strcmp(ending, "_exit") == 0) _exit(4);
    if (strcmp(ending, "kill") == 0) raise(SIGKILL);
    for (int i = 0; i < STREAMS; i++)
        CHECK(cudaStreamDestroy(streams[i]));
    return 3;
}
