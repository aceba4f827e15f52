/* Times that follow from the links of the machines in scenarios/machines, beside measured ones: a
 * table, and exit code 1 for a machine whose measured figures, none of which is in its file, are
 * all more than 10 % off. Figures of a similar box are of the same kind of link elsewhere; the last
 * row of a machine without published figures says so.
 *
 *   host-gpu   one GPU and its socket's memory; all GPUs at once, each with its own socket's: sum
 *   gpu-gpu    GPU 0 to another one, and both ways at once: sum
 *   mxnet      MXNet tools/bandwidth: GB/s a GPU, 2 (n-1)/n S over the time of all pushes and then
 *              all pulls of a model of S bytes. `device`: keys are spread over the GPUs, which sum
 *              them, so that each sends S/n to each other one, and that again for the pulls;
 *              `local`: the host's memory sums
 *   NAME n     collective on n GPUs of each of some nodes; bus bandwidth as in nccl-tests */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/collective/collective.h"

#define FLOWS_MAX 512
#define BOUND 0.1

typedef enum figure_kind { HOST_GPU, GPU_GPU, MXNET_DEVICE, MXNET_LOCAL, COLLECTIVE } figure_kind;
typedef enum direction { TO_GPU, FROM_GPU, BOTH_WAYS } direction;

/* How a measured value stands to the machine file. */
typedef enum use { NONE, TYPED_IN, LIKE_BOX, INDEPENDENT } use;

typedef struct figure {
    const char *machine;
    figure_kind kind;
    int nodes, gpus; /* of gpu-gpu: the number of the other GPU, plus 1 */
    direction way;
    dl_collective_kind collective;
    double bytes;       /* of a collective */
    double measured_gb; /* GB/s; 0 = not measured */
    use use;
    const char *source;
} figure;

#define MXNET "MXNet tools/bandwidth README, ResNet-200, mean of 5"
#define A100_COPY "superbenchmark tests/data, gpu_copy_bw.log, by DMA"
#define A100_NCCL "superbenchmark tests/data, nccl-tests, 8 GiB"
#define H100_NCCL "xxrjun/nccl-tests-cluster, 16 GiB"
#define POLLUX "petuum/adaptdl Pollux placements, largest sync_time"
#define DELL "Dell EMC, Ready Solutions, C4130 with V100-SXM2, two lanes"
#define V100_COPY "superbenchmark tests/data, cuda_memory_d2h_bw.log, V100-PCIE"
#define P100_COPY "mpicbg-scicomp/gearshifft, pull 82, P100-PCIE, two Xeon E5"
#define T4_COPY "GPGPUCourse/GPGPUTasks2025, pull 68, T4 in a cloud, mean of 3"
#define GIB 1073741824.0
#define BERT_BYTES 440e6 /* 110 M parameters */
#define RESNET50_BYTES 102.2e6

static const figure measured[] = {
    {"dgx_a100", HOST_GPU, 1, 1, TO_GPU, 0, 0, 26.24, TYPED_IN, A100_COPY},
    {"dgx_a100", HOST_GPU, 1, 1, BOTH_WAYS, 0, 0, 49.46, TYPED_IN, A100_COPY},
    {"dgx_a100", HOST_GPU, 1, 1, FROM_GPU, 0, 0, 25.85, INDEPENDENT, A100_COPY},
    {"dgx_a100", GPU_GPU, 1, 2, TO_GPU, 0, 0, 279.29, TYPED_IN, A100_COPY},
    {"dgx_a100", GPU_GPU, 1, 2, BOTH_WAYS, 0, 0, 531.24, TYPED_IN, A100_COPY},
    {"dgx_a100", COLLECTIVE, 1, 8, 0, DL_ALLGATHER, 8 * GIB, 223.39, INDEPENDENT, A100_NCCL},
    {"dgx_a100", COLLECTIVE, 1, 8, 0, DL_REDUCE_SCATTER, 8 * GIB, 231.52, INDEPENDENT, A100_NCCL},
    {"dgx_a100", COLLECTIVE, 1, 8, 0, DL_BROADCAST, 8 * GIB, 232.81, INDEPENDENT, A100_NCCL},
    {"dgx_h100", HOST_GPU, 1, 1, FROM_GPU, 0, 0, 52.77, TYPED_IN, "NVIDIA/nvbandwidth, thread 24"},
    {"dgx_h100", GPU_GPU, 1, 2, TO_GPU, 0, 0, 376.6, TYPED_IN, "NVIDIA/nccl, thread 1264"},
    {"dgx_h100", GPU_GPU, 1, 2, BOTH_WAYS, 0, 0, 783, INDEPENDENT, "NVIDIA/nccl, thread 1264"},
    {"dgx_h100", COLLECTIVE, 1, 4, 0, DL_ALLREDUCE, 16 * GIB, 367.46, TYPED_IN, H100_NCCL},
    {"dgx_h100", COLLECTIVE, 1, 8, 0, DL_ALLREDUCE, 16 * GIB, 482.27, INDEPENDENT, H100_NCCL},
    {"dgx_h100", COLLECTIVE, 1, 8, 0, DL_ALLGATHER, 16 * GIB, 361.86, INDEPENDENT, H100_NCCL},
    {"dgx_h100", COLLECTIVE, 1, 8, 0, DL_ALLTOALL, 16 * GIB, 348.03, INDEPENDENT, H100_NCCL},
    {"p2.8xlarge", MXNET_DEVICE, 1, 2, 0, 0, 0, 11.13, TYPED_IN, MXNET},
    {"p2.8xlarge", MXNET_DEVICE, 1, 8, 0, 0, 0, 4.51, INDEPENDENT, MXNET},
    {"p2.8xlarge", MXNET_LOCAL, 1, 8, 0, 0, 0, 1.546, INDEPENDENT, MXNET},
    {"p2.16xlarge", MXNET_DEVICE, 1, 2, 0, 0, 0, 11.13, TYPED_IN, MXNET},
    {"p2.16xlarge", MXNET_DEVICE, 1, 8, 0, 0, 0, 4.51, INDEPENDENT, MXNET},
    {"p2.16xlarge", MXNET_LOCAL, 1, 8, 0, 0, 0, 1.546, INDEPENDENT, MXNET},
    {"dgx1_p100", COLLECTIVE, 4, 8, 0, DL_ALLREDUCE, GIB, 40, INDEPENDENT,
     "GTC 2017 S7155, about, by NVIDIA/nccl-tests, thread 29"},
    {"dgx1_v100", GPU_GPU, 1, 4, TO_GPU, 0, 0, 47.9, TYPED_IN, DELL},
    {"dgx1_v100", GPU_GPU, 1, 4, BOTH_WAYS, 0, 0, 95.8, LIKE_BOX, DELL ": twice"},
    {"dgx1_v100", HOST_GPU, 1, 1, FROM_GPU, 0, 0, 13.1, LIKE_BOX, V100_COPY},
    {"z10pe_2x1080ti", HOST_GPU, 1, 1, TO_GPU, 0, 0, 12.15, LIKE_BOX, P100_COPY},
    {"z10pe_2x1080ti", HOST_GPU, 1, 1, FROM_GPU, 0, 0, 12.89, LIKE_BOX, P100_COPY},
    {"t4_4x4_ethernet", HOST_GPU, 1, 1, TO_GPU, 0, 0, 5.954, LIKE_BOX, T4_COPY},
    {"t4_4x4_ethernet", HOST_GPU, 1, 1, FROM_GPU, 0, 0, 6.393, LIKE_BOX, T4_COPY},
    {"t4_4x4_ethernet", COLLECTIVE, 4, 4, 0, DL_ALLREDUCE, RESNET50_BYTES, 0.742, TYPED_IN, POLLUX},
    {"t4_4x4_ethernet", COLLECTIVE, 4, 2, 0, DL_ALLREDUCE, RESNET50_BYTES, 0.691, INDEPENDENT,
     POLLUX},
    {"t4_4x4_ethernet", COLLECTIVE, 4, 1, 0, DL_ALLREDUCE, RESNET50_BYTES, 0.846, INDEPENDENT,
     POLLUX},
    {"t4_4x4_ethernet", COLLECTIVE, 4, 4, 0, DL_ALLREDUCE, BERT_BYTES, 0.593, INDEPENDENT, POLLUX},
    {"t4_4x4_ethernet", COLLECTIVE, 4, 2, 0, DL_ALLREDUCE, BERT_BYTES, 0.759, INDEPENDENT, POLLUX},
    {"t4_4x4_ethernet", COLLECTIVE, 4, 1, 0, DL_ALLREDUCE, BERT_BYTES, 0.838, INDEPENDENT, POLLUX},
};

static const char *const machines[] = {
    "azure_nc24",  "dgx1_p100",  "dgx1_v100",       "dgx_a100",       "dgx_h100",      "gce_k80_8",
    "p2.16xlarge", "p2.8xlarge", "t4_4x4_ethernet", "z10pe_2x1080ti", "z10pe_8x1080ti"};

/* Copies that run at once. */
typedef struct copies {
    dl_place from[FLOWS_MAX], to[FLOWS_MAX];
    int count;
} copies;

static void add_copy(copies *c, dl_place from, dl_place to)
{
    DL_ASSERT(c->count < FLOWS_MAX, "%d copies", c->count);
    c->from[c->count] = from;
    c->to[c->count++] = to;
}

static void nobody(void *user DL_UNUSED, int index DL_UNUSED) {}

/* Seconds until all copies of `bytes` each have ended; none waits for latency. */
static double time_of(const dl_links *links, const copies *c, double bytes)
{
    DL_SCOPED(dl_engine) engine;
    DL_SCOPED(dl_network) network;
    dl_engine_init(&engine, 2 * c->count + 1);
    dl_network_init(&network, &engine, c->count);
    dl_network_add_links(&network, links);
    for (int i = 0; i < c->count; i++) {
        dl_route route;
        dl_links_route(links, c->from[i], c->to[i], &route);
        int class = dl_network_route_class(&network, &route);
        dl_network_start(&network, class, bytes, 0, nobody, NULL, 0);
    }
    dl_engine_run(&engine);
    return (double)engine.now_ns * 1e-9;
}

static dl_place gpu(int index)
{
    return (dl_place){DL_PLACE_GPU, 0, index};
}

static dl_place host_of(const dl_machine *m, int index)
{
    return (dl_place){DL_PLACE_HOST, 0,
                      dl_machine_socket(&m->kinds[0], m->kinds[0].gpus[index].parent)};
}

static void add_ways(copies *c, direction way, dl_place a, dl_place b)
{
    if (way != FROM_GPU) add_copy(c, a, b);
    if (way != TO_GPU) add_copy(c, b, a);
}

/* GB/s of all copies of the figure together. */
static double copy_rate(const dl_links *links, const figure *f)
{
    copies c = {.count = 0};
    for (int i = 0; f->kind == HOST_GPU && i < f->gpus; i++)
        add_ways(&c, f->way, host_of(links->machine, i), gpu(i));
    if (f->kind == GPU_GPU) add_ways(&c, f->way, gpu(0), gpu(f->gpus - 1));
    return c.count / time_of(links, &c, 1e9);
}

static double mxnet_rate(const dl_links *links, const figure *f)
{
    const double bytes = 257.991328e6;
    copies push = {.count = 0}, pull = {.count = 0};
    for (int i = 0; i < f->gpus; i++) {
        for (int j = 0; f->kind == MXNET_DEVICE && j < f->gpus; j++) {
            if (i == j) continue;
            add_copy(&push, gpu(i), gpu(j));
            add_copy(&pull, gpu(j), gpu(i));
        }
        if (f->kind == MXNET_DEVICE) continue;
        add_copy(&push, gpu(i), host_of(links->machine, i));
        add_copy(&pull, host_of(links->machine, i), gpu(i));
    }
    double each = f->kind == MXNET_DEVICE ? bytes / f->gpus : bytes;
    double seconds = time_of(links, &push, each) + time_of(links, &pull, each);
    return 2.0 * (f->gpus - 1) / f->gpus * bytes / seconds / 1e9;
}

static double collective_rate(const dl_links *links, const figure *f)
{
    dl_place ranks[FLOWS_MAX];
    int n = 0;
    for (int node = 0; node < f->nodes; node++) {
        for (int i = 0; i < f->gpus; i++)
            ranks[n++] = (dl_place){DL_PLACE_GPU, node, i};
    }
    const dl_collective_config config = {.kind = f->collective,
                                         .algorithm = "auto",
                                         .ranks = ranks,
                                         .rank_count = n,
                                         .bytes = f->bytes,
                                         .chunk_bytes = DL_CHUNK_BYTES};
    double time_ns = 0, factor = 1; /* nccl-tests, doc/PERFORMANCE.md */
    dl_error err = {0};
    if (dl_collective_idle_ns(links, &config, &time_ns, &err) != DL_OK) return NAN;
    if (f->collective == DL_ALLREDUCE) factor = 2.0 * (n - 1) / n;
    if (f->collective == DL_ALLGATHER || f->collective == DL_REDUCE_SCATTER ||
        f->collective == DL_ALLTOALL) {
        factor = (double)(n - 1) / n;
    }
    return factor * f->bytes / time_ns;
}

static void print_row(const figure *f, double rate)
{
    static const char *const ways[] = {"to", "from", "both ways"};
    static const char *const kinds[] = {"host-gpu", "gpu-gpu", "mxnet device", "mxnet local"};
    static const char *const uses[] = {"", "typed in", "like box", "independent"};
    char name[64], value[48] = "               -", error[48] = "         -";
    if (f->kind == COLLECTIVE) {
        snprintf(name, sizeof name, "%s %dx%d, %.3g GB", dl_collective_kind_names[f->collective],
                 f->nodes, f->gpus, f->bytes / 1e9);
    } else if (f->kind == HOST_GPU) {
        snprintf(name, sizeof name, "host-gpu x%d %s", f->gpus, ways[f->way]);
    } else if (f->kind == GPU_GPU) {
        snprintf(name, sizeof name, "gpu-gpu 0-%d %s", f->gpus - 1,
                 f->way == TO_GPU ? "one way" : ways[f->way]);
    } else {
        snprintf(name, sizeof name, "%s, %d GPUs", kinds[f->kind], f->gpus);
    }
    if (f->use != NONE) {
        snprintf(value, sizeof value, "%16.4g", f->measured_gb);
        snprintf(error, sizeof error, "%10.1f", 100 * (rate / f->measured_gb - 1));
    }
    printf("%-16s %-30s %s %12.4g %s  %-11s %s\n", f->machine, name, value, rate, error,
           uses[f->use], f->use == NONE ? "not measured" : f->source);
}

/* A row that only tells what follows from the links, unless the figure is among the measured. */
static void print_plain(const dl_links *links, const figure *f)
{
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const figure *m = &measured[i];
        if (strcmp(m->machine, f->machine) == 0 && m->kind == f->kind && m->gpus == f->gpus &&
            m->way == f->way) {
            return;
        }
    }
    print_row(f, copy_rate(links, f));
}

static void print_copies(const dl_links *links, const char *machine)
{
    const int all = links->machine->kinds[0].gpu_count;
    for (direction way = TO_GPU; way <= BOTH_WAYS; way++) {
        for (int gpus = 1; gpus <= all; gpus += all - 1) {
            const figure f = {machine, HOST_GPU, 1, gpus, way, 0, 0, 0, NONE, ""};
            print_plain(links, &f);
        }
        if (way == FROM_GPU) continue;
        const figure f = {machine, GPU_GPU, 1, 2, way, 0, 0, 0, NONE, ""};
        print_plain(links, &f);
    }
}

static double rate_of(const dl_links *links, const figure *f)
{
    switch (f->kind) {
    case HOST_GPU:
    case GPU_GPU: return copy_rate(links, f);
    case MXNET_DEVICE:
    case MXNET_LOCAL: return mxnet_rate(links, f);
    case COLLECTIVE: break;
    }
    return collective_rate(links, f);
}

/* All rows of a machine; false if none of its independent figures, or where it has none of those of
 * like boxes, is within the bound. */
static bool print_machine(const dl_links *links, const char *machine)
{
    double least[INDEPENDENT + 1]; /* error, by use; NaN: no such figure */
    for (use u = NONE; u <= INDEPENDENT; u++)
        least[u] = (double)NAN;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const figure *f = &measured[i];
        if (strcmp(f->machine, machine) != 0) continue;
        double rate = rate_of(links, f);
        print_row(f, rate);
        least[f->use] = fmin(least[f->use], fabs(rate / f->measured_gb - 1));
    }
    print_copies(links, machine);
    const double judged = isnan(least[INDEPENDENT]) ? least[LIKE_BOX] : least[INDEPENDENT];
    if (isnan(judged)) {
        printf("%-16s no published figure was found that its file does not already hold\n",
               machine);
    }
    return !(judged > BOUND);
}

int main(void)
{
    int failed = 0;
    printf("%-16s %-30s %16s %12s %10s  %-11s %s\n", "machine", "figure", "measured, GB/s",
           "from links", "error, %", "", "source");
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        char path[512];
        dl_machine machine = {0};
        dl_links links;
        dl_error err = {0};
        snprintf(path, sizeof path, "%s/%s.ini", DL_MACHINES, machines[i]);
        if (dl_machine_read(&machine, path, &err) != DL_OK) {
            dl_error_print(&err, "machine_figures", stderr);
            return 1;
        }
        if (machine.kinds[0].nic_count > 0 && machine.nodes < 4)
            machine.nodes = 4; /* for figures of four */
        dl_links_init(&links, &machine);
        if (!print_machine(&links, machines[i])) {
            printf("%-16s no independent figure follows within %.0f %%\n", machines[i],
                   100 * BOUND);
            failed++;
        }
        dl_links_free(&links);
        dl_machine_free(&machine);
    }
    return failed > 0;
}
