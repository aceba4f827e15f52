#include "calibrate/links/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/links/links_internal.h"
#include "calibrate/links/probe.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/scenario/known_gpus.h"
#include "sim/scenario/machine_catalogue.h"

#define SAME_FRAC 0.01

#define LEAST_SHARED 1e8 /* search range of the rate, bytes per second */
#define MOST_SHARED 1e12

/* --- a comparison under construction ---------------------------------------------------------- */

/* A judged part with its probe. */
typedef struct judged {
    size_t item; /* index into the comparisons */
    int part;
    dl_link_probe probe;
    dl_collective_config config; /* configuration of the probe; owns its ranks */
    double machine_ns;
    bool leaves_node;
} judged;

typedef struct state {
    dl_link_comparisons *to;
    const char *machine_name;
    dl_machine machine;
    dl_links links;
    judged *judged; /* [judged_count] */
    size_t judged_count;
} state;

static dl_link_part *part_of(const state *s, const judged *of)
{
    return &s->to->items[of->item].parts[of->part];
}

static dl_status open_machine(state *s, dl_error *err)
{
    s->machine = (dl_machine){0};
    const dl_status status = dl_machine_open(&s->machine, s->machine_name, err);
    if (status == DL_OK) dl_links_init(&s->links, &s->machine);
    return status;
}

/* Extends the machine to at least `nodes` nodes; returns false with a reason if it cannot have
 * them. */
static bool grow(state *s, int nodes, dl_error *err)
{
    if (nodes <= s->machine.nodes) return true;
    if (dl_machine_fewest_nics(&s->machine) == 0) {
        (void)dl_error_set(err, DL_ERR_DATA, "the machine's nodes are not connected");
        return false;
    }
    dl_links_free(&s->links);
    const int before = s->machine.nodes;
    s->machine.nodes = nodes;
    const bool fits = dl_machine_check_gpus(&s->machine, err) == DL_OK &&
                      dl_machine_check_fabric(&s->machine, err) == DL_OK;
    if (!fits) s->machine.nodes = before;
    dl_links_init(&s->links, &s->machine);
    return fits;
}

/* --- explanations of deviations -------------------------------------------------------------- */

/* Ratio of the part's median on the changed machine; NaN: the change has no effect. */
static double changed_ratio(const state *s, const dl_link_change *what, const judged *of)
{
    if (what->between_nodes && !of->leaves_node) return (double)NAN;
    return part_of(s, of)->ratio.median *
           dl_link_changed_ns(s->machine_name, s->machine.nodes, what, &of->probe) / of->machine_ns;
}

bool dl_link_is_expected(const dl_link_part *part, double ratio)
{
    return fabs(ratio - 1) <= part->bound;
}

/* Finds the rate of the change at which the part's time equals the measured one; NaN if there is
 * none. The time decreases as the rate increases. */
static double rate_for(const state *s, dl_link_change what, const judged *of)
{
    double low = LEAST_SHARED, high = MOST_SHARED;
    what.rate = low;
    if (!(changed_ratio(s, &what, of) > 1)) return (double)NAN;
    what.rate = high;
    if (!(changed_ratio(s, &what, of) < 1)) return (double)NAN;
    while (high > low * (1 + SAME_FRAC / 10)) {
        what.rate = sqrt(low * high);
        if (changed_ratio(s, &what, of) > 1) {
            low = what.rate;
        } else {
            high = what.rate;
        }
    }
    return sqrt(low * high);
}

/* Returns whether another judged part refutes the change: with it, that part ceases to be as
 * expected, or deviates more. Sets *all if all parts are as expected with the change. */
static bool is_refuted(const state *s, const dl_link_change *what, const judged *of, bool *all)
{
    *all = true;
    for (size_t i = 0; i < s->judged_count; i++) {
        const judged *other = &s->judged[i];
        const dl_link_part *part = part_of(s, other);
        double ratio = changed_ratio(s, what, other);
        if (isnan(ratio)) ratio = part->ratio.median;
        if (dl_link_is_expected(part, ratio)) continue;
        *all = false;
        if (other == of) continue;
        const bool was_expected = dl_link_is_expected(part, part->ratio.median);
        if (was_expected || fabs(log(ratio)) > fabs(log(part->ratio.median)) * (1 + SAME_FRAC))
            return true;
    }
    return false;
}

/* A change that explains a part. */
typedef struct reason {
    char *text;
    bool all; /* also explains all other judged parts */
} reason;

/* Adds the change if it brings the part within its bound and much nearer to 1, is not refuted, and
 * gives a different ratio from the previous change, *before. */
static void try_change(const state *s, const dl_link_change *what, const judged *of, double *before,
                       reason *reasons, size_t *count)
{
    const dl_link_part *part = part_of(s, of);
    const double ratio = changed_ratio(s, what, of);
    const bool fits = dl_link_is_expected(part, ratio) &&
                      fabs(log(ratio)) + log1p(part->bound) < fabs(log(part->ratio.median));
    bool all = false;
    if (fits && !(fabs(ratio / *before - 1) < SAME_FRAC) && !is_refuted(s, what, of, &all)) {
        DL_AUTOFREE char *text = isnan(what->rate)
                                     ? dl_strdup(what->text)
                                     : dl_format("%s %s/s", what->text, DL_BYTES_TEXT(what->rate));
        reasons[(*count)++] = (reason){dl_format("%s (then %.2f)", text, ratio), all};
    }
    if (!isnan(ratio)) *before = ratio;
}

/* Adds the change to the rate that explains the part, if there is one. */
static void try_rate(const state *s, dl_link_change (*to_rate)(double rate), const judged *of,
                     reason *reasons, size_t *count)
{
    const dl_link_change what = to_rate(rate_for(s, to_rate(LEAST_SHARED), of));
    double before = part_of(s, of)->ratio.median;
    if (!isnan(what.rate)) try_change(s, &what, of, &before, reasons, count);
}

/* Returns the changes that bring the part within its bound, joined by semicolons: "NVLink is not
 * used (then 1.04)"; NULL if there are none. Omits changes with the same effect as the previous one
 * and changes that another judged part refutes. If some changes explain all parts, only these are
 * named. A rate through host memory has a rate of the ports as its alternative between nodes. */
static char *find_reasons(const state *s, const judged *of)
{
    reason reasons[DL_LINK_CHANGES + 2];
    size_t count = 0, of_ports = 0;
    bool any = false;
    char *text = NULL;
    const double ratio = part_of(s, of)->ratio.median;
    double before = ratio;
    for (size_t c = 0; c < DL_LINK_CHANGES && ratio < 1; c++) {
        const size_t found = count;
        try_change(s, &dl_link_changes[c], of, &before, reasons, &count);
        if (dl_link_changes[c].links == DL_LINK_NIC_PORTS) of_ports += count - found;
    }
    const size_t of_others = count;
    try_rate(s, dl_link_shared_memory, of, reasons, &count);
    if (count > of_others && of_ports == 0 && ratio < 1)
        try_rate(s, dl_link_ports, of, reasons, &count);
    for (size_t i = 0; i < count; i++)
        any |= reasons[i].all;
    for (size_t i = 0; i < count; i++) {
        if (reasons[i].all || !any) dl_join(&text, "; ", reasons[i].text);
        free(reasons[i].text);
    }
    return text;
}

#define ALIKE_FRAC 0.1

/* Returns the common rate of all parts that depend on an assumed [shm] value; NaN if they disagree,
 * no change explains one of them, or there is none. Sets *or_ports if all are between nodes. */
static double shared_rate(const state *s, bool *or_ports)
{
    double low = INFINITY, high = 0;
    *or_ports = true;
    for (size_t i = 0; i < s->judged_count; i++) {
        const dl_link_part *part = part_of(s, &s->judged[i]);
        if (part->assumed == NULL || strstr(part->assumed, "[shm") == NULL) continue;
        const double rate = rate_for(s, dl_link_shared_memory(LEAST_SHARED), &s->judged[i]);
        const bool expected = dl_link_is_expected(part, part->ratio.median);
        if (isnan(rate) || (!expected && part->reasons == NULL)) return (double)NAN;
        *or_ports &= s->judged[i].leaves_node;
        low = fmin(low, rate);
        high = fmax(high, rate);
    }
    return high > 0 && high <= low * (1 + ALIKE_FRAC) ? sqrt(low * high) : (double)NAN;
}

static void explain(state *s)
{
    for (size_t i = 0; i < s->judged_count; i++) {
        dl_link_part *part = part_of(s, &s->judged[i]);
        if (!dl_link_is_expected(part, part->ratio.median))
            part->reasons = find_reasons(s, &s->judged[i]);
    }
    s->to->shared_bytes_per_s = shared_rate(s, &s->to->shared_or_ports);
}

/* --- collectives ------------------------------------------------------------------------------ */

/* Largest known errors at single sizes, compared with nccl-tests (docs/studies/collectives.md):
 * within one node, by kind, of 8 A100 (small sizes without the host's time), 4 H100 and 8 H100; on
 * several nodes, of 16 to 64 H100. For copies: the tolerance of tests/sim/machine_figures.c. For
 * assumed rates: the errors of all-reduces between T4 (docs/accuracy.md). */
#define KNOWN_NODES 0.24
#define KNOWN_COPY 0.1
#define KNOWN_ASSUMED 0.4

static double known_error(dl_collective_kind kind, int nodes, int part)
{
    static const double one_node[DL_LINK_PARTS][DL_COLLECTIVE_KINDS] = {
        [DL_LINK_SMALL] = {[DL_ALLREDUCE] = 0.1,
                           [DL_REDUCE] = 0.1,
                           [DL_BROADCAST] = 0.1,
                           [DL_ALLGATHER] = 0.36,
                           [DL_REDUCE_SCATTER] = 0.36,
                           [DL_ALLTOALL] = 0.36},
        [DL_LINK_LARGE] = {[DL_ALLREDUCE] = 0.1,
                           [DL_REDUCE] = 0.1,
                           [DL_BROADCAST] = 0.1,
                           [DL_ALLGATHER] = 0.27,
                           [DL_REDUCE_SCATTER] = 0.27,
                           [DL_ALLTOALL] = 0.27},
    };
    return nodes > 1 ? KNOWN_NODES : one_node[part][kind];
}

double dl_link_ratio(const dl_link_compared *size)
{
    return size->machine_ns / size->point->time_ns;
}

dl_link_range dl_link_ratios(const dl_link_compared *sizes, size_t n)
{
    DL_AUTOFREE double *ratios = dl_calloc(n, sizeof *ratios, "ratios");
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (!sizes[i].outlier) ratios[count++] = dl_link_ratio(&sizes[i]);
    return dl_link_range_of(ratios, count);
}

/* Returns whether the machine has a GPU that matches the log's device name, or the log names
 * none. */
static bool has_device(const dl_machine *m, const char *device)
{
    bool found = device == NULL;
    for (int i = 0; i < m->model_count && !found; i++)
        found = dl_machine_has_model(m, i) && dl_device_is_gpu(device, m->models[i].name);
    return found;
}

/* Judges part `number` of the last comparison; the probe gives the part's machine time. The
 * standard error of a median of n times is sqrt(pi / (2 n)) times their standard deviation (for
 * many normal values); differences between starts do not average out. */
static void judge(state *s, int number, double known, const dl_link_result *result,
                  const dl_link_probe *p, bool leaves_node)
{
    dl_link_part *part = &s->to->items[s->to->count - 1].parts[number];
    const double machine_ns = dl_link_probe_ns(&s->links, p);
    double error = 0;
    if (result != NULL) {
        error = hypot(result->fit.noise_frac * sqrt(M_PI / 2 / (double)part->count),
                      result->series->start_error_frac);
    }
    part->assumed = dl_link_find_assumed(&s->machine, p, machine_ns);
    if (part->assumed != NULL) known = fmax(known, KNOWN_ASSUMED);
    part->bound = hypot(known, 2 * error);
    if (isnan(part->ratio.median)) return;
    judged *of = &DL_APPEND(s->judged, s->judged_count, "verdicts");
    *of = (judged){s->to->count - 1, number, *p, {0}, machine_ns, leaves_node};
    if (p->config == NULL) return;
    of->config = *p->config;
    const size_t ranks = (size_t)p->config->rank_count;
    dl_place *own = dl_calloc(ranks, sizeof *own, "ranks");
    memcpy(own, p->config->ranks, ranks * sizeof *own);
    of->config.ranks = own;
}

/* Places the ranks on the lowest-numbered GPUs of each node. */
static dl_place *place_ranks(const dl_machine *m, int ranks, int nodes)
{
    dl_place *places = dl_calloc((size_t)ranks, sizeof *places, "ranks");
    for (int r = 0, node = 0, index = 0; r < ranks; r++) {
        places[r] = (dl_place){DL_PLACE_GPU, node, index++};
        if (index < ranks / nodes && index < dl_machine_node(m, node)->gpu_count) continue;
        node++;
        index = 0;
    }
    return places;
}

/* Returns the series' number of nodes; 0, with a note, if the machine cannot have it. */
static int find_nodes(state *s, const dl_link_series *series, const char *name)
{
    dl_error err = {0};
    const int per_node = dl_machine_node(&s->machine, 0)->gpu_count;
    int nodes = series->nodes;
    if (nodes == 0) nodes = (series->ranks + per_node - 1) / per_node;
    if (series->ranks % nodes != 0) {
        dl_notes_add(&s->to->notes, "%s: %d nodes have different numbers of ranks", name, nodes);
        return 0;
    }
    if (!grow(s, nodes, &err)) {
        dl_notes_add(&s->to->notes, "%s on %d nodes: %s", name, nodes, err.text);
        return 0;
    }
    for (int node = 0; node < nodes; node++) {
        const int gpus = dl_machine_node(&s->machine, node)->gpu_count;
        if (series->ranks / nodes <= gpus) continue;
        dl_notes_add(&s->to->notes,
                     "%s on %d node%s: the machine has %d GPUs per node (a table of several nodes "
                     "has a column nodes)",
                     name, nodes, nodes > 1 ? "s" : "", gpus);
        return 0;
    }
    return nodes;
}

/* The marginal time per byte is computed from this size up, or from the largest measured size
 * up. */
#define LARGE_BYTES 268435456.0

static double slope_of(const dl_links *links, const dl_collective_config *config, double bytes)
{
    dl_link_probe p = {.config = config, .bytes = fmax(bytes, LARGE_BYTES)};
    const double from_ns = dl_link_probe_ns(links, &p);
    p.bytes *= 2;
    return (dl_link_probe_ns(links, &p) - from_ns) / (p.bytes / 2);
}

/* Computes the machine's times for all sizes, and finds the boundary between small and large sizes,
 * where transfer takes half of the time. */
static dl_status time_sizes(state *s, dl_link_comparison *c, dl_collective_config *config,
                            dl_error *err)
{
    const dl_link_series *series = c->result->series;
    const double ns_per_byte = slope_of(&s->links, config, series->points[series->count - 1].bytes);
    size_t small = 0;
    dl_status status = DL_OK;
    c->sizes = dl_calloc(series->count, sizeof *c->sizes, "sizes");
    for (size_t i = 0; i < series->count && status == DL_OK; i++) {
        const dl_link_point *point = &series->points[i];
        dl_link_compared *size = &c->sizes[c->count];
        if (point->bytes < 1) continue;
        *size = (dl_link_compared){.point = point, .outlier = c->result->fit.outlier[i]};
        config->bytes = point->bytes;
        status = dl_collective_idle_ns(&s->links, config, &size->machine_ns, err);
        const char *protocol = NULL;
        if (status == DL_OK) {
            status = dl_collective_choice(&s->links, config, &size->algorithm, &protocol, err);
        }
        if (protocol != NULL) size->protocol = dl_strdup(protocol);
        c->count++;
        if (point->bytes * ns_per_byte < size->machine_ns / 2) small = c->count;
    }
    c->parts[DL_LINK_SMALL].count = small;
    c->parts[DL_LINK_LARGE].first = small;
    c->parts[DL_LINK_LARGE].count = c->count - small;
    return status;
}

static dl_status compare_collective(state *s, const dl_link_result *result, dl_error *err)
{
    const dl_link_series *series = result->series;
    const int kind = dl_names_find(series->name, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
    const bool has_bytes = series->points[series->count - 1].bytes >= 1;
    if (kind < 0 || series->ranks < 2 || !has_bytes) {
        dl_notes_add(&s->to->notes, "%s: not compared, %s", series->name,
                     kind < 0     ? "the simulator has no such collective"
                     : !has_bytes ? "no call moved a byte"
                                  : "the log does not give the number of ranks");
        return DL_OK;
    }
    char name[128];
    const int nodes = find_nodes(s, series, dl_link_series_text(name, sizeof name, series));
    if (nodes == 0) return DL_OK;
    DL_AUTOFREE dl_place *ranks = place_ranks(&s->machine, series->ranks, nodes);
    dl_collective_config config = {.kind = (dl_collective_kind)kind,
                                   .algorithm = "auto",
                                   .ranks = ranks,
                                   .rank_count = series->ranks,
                                   .chunk_bytes = DL_CHUNK_BYTES,
                                   .transfers_max = DL_TRANSFERS_HELD_MAX};
    dl_link_comparison *c = &DL_APPEND(s->to->items, s->to->count, "comparisons");
    *c = (dl_link_comparison){.result = result,
                              .ranks = series->ranks,
                              .nodes = nodes,
                              .other_device = !has_device(&s->machine, series->device)};
    const dl_status status = time_sizes(s, c, &config, err);
    for (int k = 0; k < DL_LINK_PARTS && status == DL_OK; k++) {
        dl_link_part *part = &c->parts[k];
        if (part->count == 0) continue;
        /* Represents small sizes by the middle one, large sizes by the largest. */
        const size_t at = k == DL_LINK_SMALL ? part->first + part->count / 2 : c->count - 1;
        const dl_link_probe p = {.config = &config, .bytes = c->sizes[at].point->bytes};
        part->ratio = dl_link_ratios(&c->sizes[part->first], part->count);
        judge(s, k, known_error(config.kind, nodes, k), result, &p, nodes > 1);
    }
    return status;
}

/* --- copies ----------------------------------------------------------------------------------- */

static dl_place gpu_place(int index)
{
    return (dl_place){DL_PLACE_GPU, 0, index};
}

/* Memory of the GPU's socket. */
static dl_place host_of(const state *s, int gpu)
{
    return (dl_place){DL_PLACE_HOST, 0, dl_links_socket(&s->links, gpu_place(gpu))};
}

/* Compares "h2d" and "d2h" copies of pinned memory, for sizes whose time grows with the bytes;
 * smaller copies take the time of the host's call. */
static void compare_copies(state *s, const dl_link_result *result)
{
    const dl_link_series *series = result->series;
    const dl_link_regime *last = &result->fit.regimes[result->fit.regime_count - 1];
    const bool down = strcmp(series->name, "h2d") == 0;
    if ((!down && strcmp(series->name, "d2h") != 0) || series->ranks > 1) {
        dl_notes_add(&s->to->notes, "%s: not compared, as a machine file does not describe it",
                     series->name);
        return;
    }
    if (!last->bandwidth_determined) {
        dl_notes_add(&s->to->notes, "%s: not compared, its bandwidth is not determined",
                     series->name);
        return;
    }
    const dl_place host = host_of(s, 0), gpu = gpu_place(0);
    dl_link_probe p = {.copy = {down ? host : gpu, down ? gpu : host, false}};
    dl_link_comparison *c = &DL_APPEND(s->to->items, s->to->count, "comparisons");
    *c = (dl_link_comparison){.result = result,
                              .ranks = 1,
                              .nodes = 1,
                              .other_device = !has_device(&s->machine, series->device)};
    c->sizes = dl_calloc(series->count, sizeof *c->sizes, "sizes");
    for (size_t i = last->first; i < series->count; i++) {
        p.bytes = series->points[i].bytes;
        c->sizes[c->count++] = (dl_link_compared){.point = &series->points[i],
                                                  .machine_ns = dl_link_probe_ns(&s->links, &p),
                                                  .outlier = result->fit.outlier[i]};
    }
    dl_link_part *part = &c->parts[DL_LINK_LARGE];
    part->count = c->count;
    part->ratio = dl_link_ratios(c->sizes, c->count);
    judge(s, DL_LINK_LARGE, KNOWN_COPY, result, &p, false);
}

/* Tests of single copies by DMA. nvbandwidth gives a pair as "row column", gpu_copy_bw inside a
 * text. Other tests are not compared. */
typedef enum rate_kind { TO_GPU, FROM_GPU, HOST_BOTH_WAYS, GPU_TO_GPU, GPUS_BOTH_WAYS } rate_kind;

static const struct rate_test {
    const char *name;   /* name in dl_link_rate */
    const char *format; /* scanf format of the pair; NULL: "row column" */
    rate_kind kind;
    bool peers; /* GPUs that access each other's memory */
} rate_tests[] = {
    {"h2d", NULL, TO_GPU, false},
    {"d2h", NULL, FROM_GPU, false},
    {"GPU to GPU, P2P=Enabled", NULL, GPU_TO_GPU, true},
    {"GPU and GPU, P2P=Enabled", NULL, GPUS_BOTH_WAYS, true},
    {"host_to_device_memcpy_ce", NULL, TO_GPU, false},
    {"device_to_host_memcpy_ce", NULL, FROM_GPU, false},
    {"device_to_device_memcpy_read_ce", NULL, GPU_TO_GPU, false},
    {"device_to_device_memcpy_write_ce", NULL, GPU_TO_GPU, false},
    {"cpu_to_gpuN_by_dma_under_numaN", "cpu_to_gpu%d_by_dma_under_numa%d", TO_GPU, false},
    {"gpuN_to_cpu_by_dma_under_numaN", "gpu%d_to_cpu_by_dma_under_numa%d", FROM_GPU, false},
    {"cpu_and_gpuN_by_dma_under_numaN", "cpu_and_gpu%d_by_dma_under_numa%d", HOST_BOTH_WAYS, false},
    {"gpuN_to_gpuN_read_by_dma", "gpu%d_to_gpu%d_read_by_dma", GPU_TO_GPU, false},
    {"gpuN_to_gpuN_write_by_dma", "gpu%d_to_gpu%d_write_by_dma", GPU_TO_GPU, false},
    {"gpuN_and_gpuN_read_by_dma", "gpu%d_and_gpu%d_read_by_dma", GPUS_BOTH_WAYS, false},
    {"gpuN_and_gpuN_write_by_dma", "gpu%d_and_gpu%d_write_by_dma", GPUS_BOTH_WAYS, false},
};

static bool has_peers(const dl_machine *m)
{
    const dl_node_kind *node = dl_machine_node(m, 0);
    return node->peer != DL_PEER_NONE || node->nvlink_count > 0 || node->nvswitch_link >= 0;
}

/* Returns the test of the rate; NULL if it is not compared, such as copies by the driver through
 * host memory, which machine files do not describe. */
static const struct rate_test *find_test(const state *s, const dl_link_rate *rate)
{
    for (size_t t = 0; t < DL_LENGTH(rate_tests); t++) {
        if (strcmp(rate_tests[t].name, rate->name) != 0) continue;
        return rate_tests[t].peers && !has_peers(&s->machine) ? NULL : &rate_tests[t];
    }
    return NULL;
}

#define NUMBER_MAX 65535 /* largest number of a GPU or NUMA node */

/* Parses the pair's numbers, two GPUs or a GPU and a NUMA node; returns false if the text is not
 * such a pair. */
static bool parse_pair(const struct rate_test *test, const dl_link_rate *rate, int *gpu, int *other)
{
    const bool two = test->kind == GPU_TO_GPU || test->kind == GPUS_BOTH_WAYS;
    const char *format = test->format != NULL ? test->format : "%d %d";
    if (sscanf(rate->pair, format, gpu, other) != 2) return false;
    if (test->format == NULL && !two) *gpu = *other; /* the host is the row, the GPU the column */
    if (*gpu < 0 || *other < 0 || *gpu > NUMBER_MAX || *other > NUMBER_MAX) return false;
    return !(two && *gpu == *other);
}

static dl_link_copy copy_of(const state *s, const struct rate_test *test, int gpu, int other,
                            int numas)
{
    const int sockets = dl_machine_node(&s->machine, 0)->sockets;
    dl_place host = host_of(s, gpu);
    if (test->format != NULL && numas >= sockets) host.index = other * sockets / numas;
    switch (test->kind) {
    case TO_GPU: return (dl_link_copy){host, gpu_place(gpu), false};
    case FROM_GPU: return (dl_link_copy){gpu_place(gpu), host, false};
    case HOST_BOTH_WAYS: return (dl_link_copy){host, gpu_place(gpu), true};
    case GPU_TO_GPU: return (dl_link_copy){gpu_place(gpu), gpu_place(other), false};
    case GPUS_BOTH_WAYS: break;
    }
    return (dl_link_copy){gpu_place(gpu), gpu_place(other), true};
}

/* Compares and judges the medians of all rates of the test and file of rate `first`. */
static void compare_test(state *s, const dl_link_data *data, size_t first)
{
    const dl_link_rate *of = &data->rates[first];
    const struct rate_test *test = find_test(s, of);
    const int gpus = dl_machine_node(&s->machine, 0)->gpu_count;
    DL_AUTOFREE double *rates = dl_calloc(3 * data->rate_count, sizeof *rates, "rates");
    double *machine = rates + data->rate_count, *ratios = machine + data->rate_count;
    size_t n = 0, missing = 0;
    int gpu, other, numas = 0;
    dl_link_probe p = {.bytes = LARGE_BYTES};
    for (size_t i = first; i < data->rate_count; i++) {
        if (!dl_link_same_test(of, &data->rates[i])) continue;
        if (parse_pair(test, &data->rates[i], &gpu, &other) && other >= numas) numas = other + 1;
    }
    for (size_t i = first; i < data->rate_count; i++) {
        const dl_link_rate *rate = &data->rates[i];
        if (!dl_link_same_test(of, rate) || !parse_pair(test, rate, &gpu, &other)) continue;
        if (gpu >= gpus || (test->kind >= GPU_TO_GPU && other >= gpus)) {
            missing++;
            continue;
        }
        p.copy = copy_of(s, test, gpu, other, numas);
        rates[n] = rate->value;
        machine[n] =
            (p.copy.both_ways ? 2 : 1) * p.bytes / dl_link_probe_ns(&s->links, &p) * DL_NS_PER_S;
        ratios[n] = rates[n] / machine[n];
        n++;
    }
    if (missing > 0) {
        dl_notes_add(&s->to->notes, "%s: rates of GPUs that the machine lacks: %zu", of->name,
                     missing);
    }
    if (n > 0) {
        dl_link_comparison *c = &DL_APPEND(s->to->items, s->to->count, "comparisons");
        *c = (dl_link_comparison){.test = of->name, .path = of->path, .ranks = 1, .nodes = 1};
        dl_link_part *part = &c->parts[DL_LINK_LARGE];
        c->rate_count = part->count = n;
        c->rate_bytes_per_s = dl_link_range_of(rates, n).median;
        c->machine_rate = dl_link_range_of(machine, n).median;
        part->ratio = dl_link_range_of(ratios, n);
        judge(s, DL_LINK_LARGE, KNOWN_COPY, NULL, &p, false);
    }
}

static void compare_rates(state *s, const dl_link_data *data)
{
    size_t left_out = 0;
    for (size_t i = 0; i < data->rate_count; i++) {
        const bool compared = find_test(s, &data->rates[i]) != NULL;
        left_out += !compared;
        if (compared && dl_link_is_first(data, i)) compare_test(s, data, i);
    }
    if (left_out > 0) {
        dl_notes_add(&s->to->notes,
                     "%zu single rates: not compared, as a machine file does not describe copies "
                     "by kernels, of all GPUs at the same time, within a GPU, or by the driver "
                     "through host memory, nor latencies and networks",
                     left_out);
    }
}

/* --- comparison of all results ---------------------------------------------------------------- */

dl_status dl_link_compare(dl_link_comparisons *to, const dl_link_results *links,
                          dl_link_place place, const char *name, dl_error *err)
{
    state s = {.to = to, .machine_name = name};
    dl_status status = open_machine(&s, err);
    if (status != DL_OK) return status;
    *to = (dl_link_comparisons){.machine = dl_strdup(name),
                                .title = dl_strdup(s.machine.name),
                                .shared_bytes_per_s = (double)NAN};
    for (size_t i = 0; i < links->count && status == DL_OK; i++) {
        const dl_link_result *result = &links->results[i];
        if (!result->series->collective) {
            compare_copies(&s, result);
        } else if (dl_link_is_chosen(links, result->series, place)) {
            status = compare_collective(&s, result, err);
        }
    }
    if (status == DL_OK) compare_rates(&s, links->data);
    for (size_t i = 0; i < s.judged_count; i++) /* the array no longer moves */
        if (s.judged[i].probe.config != NULL) s.judged[i].probe.config = &s.judged[i].config;
    if (status == DL_OK) explain(&s);
    if (status == DL_OK && to->count == 0) {
        status = dl_error_set(err, DL_ERR_DATA, "%s: nothing in the logs is comparable%s%s", name,
                              to->notes.count > 0 ? ": " : "",
                              to->notes.count > 0 ? to->notes.lines[0] : "");
    }
    for (size_t i = 0; i < s.judged_count; i++)
        free((dl_place *)s.judged[i].config.ranks);
    free(s.judged);
    dl_links_free(&s.links);
    dl_machine_free(&s.machine);
    if (status != DL_OK) dl_link_comparisons_free(to);
    return status;
}

void dl_link_comparisons_free(dl_link_comparisons *comparisons)
{
    for (size_t i = 0; i < comparisons->count; i++) {
        for (int k = 0; k < DL_LINK_PARTS; k++) {
            free(comparisons->items[i].parts[k].assumed);
            free(comparisons->items[i].parts[k].reasons);
        }
        for (size_t k = 0; k < comparisons->items[i].count; k++)
            free(comparisons->items[i].sizes[k].protocol);
        free(comparisons->items[i].sizes);
    }
    free(comparisons->items);
    free(comparisons->machine);
    free(comparisons->title);
    dl_notes_free(&comparisons->notes);
    *comparisons = (dl_link_comparisons){0};
}
