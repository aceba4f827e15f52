/* Rates of a machine's links and memories from the copies and averages of a GPU bench. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "profiler/machine/machine_box.h"
#include "trace/distribution.h"

/* Concurrent transfers limit one another if they run slower than this fraction of their rate
 * alone. */
#define FREE_FRAC 0.95

/* Selects samples: their name, the GPU, how many GPUs copied concurrently, and the other GPU of a
 * copy or the number of vectors. */
typedef struct kind {
    const char *name;
    uint32_t worker, threads, vectors;
} kind;

static bool is_of(const dl_trace *trace, const dl_record *r, const kind *of)
{
    return r->kind == DL_RECORD_BENCH && r->worker == of->worker && r->threads == of->threads &&
           r->vectors == of->vectors && r->duration_ns > 0 &&
           strcmp(dl_trace_name(trace, r), of->name) == 0;
}

/* Returns bytes per second at the largest size, by the median time; 0: not measured. */
static double rate_of(const dl_trace *trace, kind of)
{
    uint64_t bytes = 0;
    size_t count = 0;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *r = &trace->records[i];
        if (is_of(trace, r, &of) && r->bytes > bytes) bytes = r->bytes;
    }
    if (bytes == 0) return 0;
    DL_AUTOFREE double *times = dl_calloc(trace->record_count, sizeof *times, "copies");
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *r = &trace->records[i];
        if (is_of(trace, r, &of) && r->bytes == bytes) times[count++] = (double)r->duration_ns;
    }
    const double median_ns = dl_distribution_of(times, count).p50;
    return (double)bytes / median_ns * 1e9;
}

/* Returns the highest rate of an average, which reads n vectors and writes one. */
static double average_rate(const dl_trace *trace, uint32_t device)
{
    double most = 0;
    for (uint32_t n = 2; n <= 8; n *= 2) {
        const double vectors =
            rate_of(trace, (kind){"gpu_average", device, .threads = 1, .vectors = n});
        most = fmax(most, (n + 1) * vectors);
    }
    return most;
}

static bool same_link(const dl_pci_link *a, const dl_pci_link *b)
{
    char name_a[DL_LINK_NAME_BYTES], name_b[DL_LINK_NAME_BYTES];
    dl_pci_link_name(name_a, a);
    dl_pci_link_name(name_b, b);
    return strcmp(name_a, name_b) == 0;
}

/* Takes the rates measured on the link of `gpu`, device 0, for all GPUs with an equal link. */
static void take_link(dl_box *box, const dl_trace *trace, int gpu)
{
    const double to = rate_of(trace, (kind){"h2d", 0, .threads = 1});
    const double from = rate_of(trace, (kind){"d2h", 0, .threads = 1});
    const double beside = rate_of(trace, (kind){"h2d_with_d2h", 0, .threads = 1});
    if (!(to > 0) || !(from > 0)) return;
    for (int g = 0; g < box->gpu_count; g++) {
        if (!same_link(&box->gpus[g].link, &box->gpus[gpu].link)) continue;
        box->gpus[g].to_bytes_per_s = to;
        box->gpus[g].from_bytes_per_s = from;
        /* Assumes that each direction keeps the same fraction of its rate. */
        if (beside > 0 && beside < FREE_FRAC * to)
            box->gpus[g].both_bytes_per_s = (to + from) * beside / to;
    }
}

/* Takes the rate of concurrent copies to all GPUs, if these share only the socket's links. */
static void take_root(dl_box *box, const dl_trace *trace, const int *devices)
{
    const int count = box->gpu_count;
    double sum = 0, alone = 0;
    if (count < 2) return;
    for (int g = 0; g < count; g++) {
        if (devices[g] < 0) return;
        if (dl_box_socket(box, box->gpus[g].parent) != dl_box_socket(box, box->gpus[0].parent))
            return;
        for (int h = 0; h < g; h++)
            if (dl_box_share_switch(box, box->gpus[g].parent, box->gpus[h].parent)) return;
        sum += rate_of(trace, (kind){"h2d", (uint32_t)devices[g], .threads = (uint32_t)count});
        alone += box->gpus[g].to_bytes_per_s;
    }
    if (sum > 0 && sum < FREE_FRAC * alone) box->root_bytes_per_s = sum;
}

static int lanes_between(const dl_box *box, int a, int b)
{
    for (int i = 0; i < box->nvlink_count; i++) {
        const dl_box_nvlink *link = &box->nvlinks[i];
        if ((link->a == a && link->b == b) || (link->a == b && link->b == a)) return link->lanes;
    }
    return 0;
}

/* Takes mean rates over all pairs that are joined by lanes, or by a switch. */
static void take_nvlinks(dl_box *box, const dl_trace *trace, const int *devices)
{
    double lane = 0, crossbar = 0;
    int lane_pairs = 0, crossbar_pairs = 0;
    for (int to = 0; to < box->gpu_count; to++) {
        for (int from = 0; from < box->gpu_count; from++) {
            const int lanes = lanes_between(box, to, from);
            if (to == from || devices[to] < 0 || devices[from] < 0) continue;
            const double rate = rate_of(trace, (kind){"p2p", (uint32_t)devices[to], .threads = 1,
                                                      .vectors = (uint32_t)devices[from]});
            if (!(rate > 0)) continue;
            if (lanes > 0) {
                lane += rate / lanes;
                lane_pairs++;
            } else if (box->nvswitch_lanes > 0) {
                crossbar += rate;
                crossbar_pairs++;
            }
        }
    }
    if (lane_pairs > 0) box->nvlink_copy_bytes_per_s = lane / lane_pairs;
    if (crossbar_pairs > 0) box->nvswitch_copy_bytes_per_s = crossbar / crossbar_pairs;
}

void dl_box_take_copies(dl_box *box, const dl_trace *trace, const int *devices)
{
    for (int g = 0; g < box->gpu_count; g++) {
        if (devices[g] == 0) take_link(box, trace, g);
        if (devices[g] >= 0)
            box->gpus[g].average_bytes_per_s = average_rate(trace, (uint32_t)devices[g]);
    }
    take_root(box, trace, devices);
    take_nvlinks(box, trace, devices);
}

int dl_box_find_gpu(const dl_box *box, const char *bus_id)
{
    for (int g = 0; g < box->gpu_count; g++)
        if (strcasecmp(box->gpus[g].bus_id, bus_id) == 0) return g;
    return -1;
}
