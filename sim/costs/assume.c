#include "sim/costs/assume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"

/* Inputs of the rules. */
typedef struct basis {
    const dl_costs *costs;
    const dl_machine *machine; /* NULL: workers run on cores */
    int64_t cores;             /* cores that the workers share; 0: unknown */
} basis;

/* A value and its source. */
typedef struct guess {
    double value;
    bool is_exact; /* the value is not varied */
    double factor; /* F of assume.h, instead of the rule's; 0: the rule's */
    unsigned cause;
    char *source; /* [DL_ASSUMPTION_SOURCE_BYTES] */
} guess;

/* Causes shared by several values. */
enum { CAUSE_NONE, CAUSE_CORE_RATE, CAUSE_UPDATE, CAUSE_WAKING, CAUSE_COMPRESSING, CAUSES };

#define SAY(g, ...) snprintf((g)->source, DL_ASSUMPTION_SOURCE_BYTES, __VA_ARGS__)

/* --- the rules' values ----------------------------------------------------------------------- */

/* Largest size of parameters of which two vectors fit into a core's caches. */
#define IN_CACHE_BYTES 4e6

static bool fits_cache(const basis *b)
{
    return b->machine == NULL && b->costs->parameter_bytes >= 0 &&
           (double)b->costs->parameter_bytes <= IN_CACHE_BYTES;
}

/* Guesses a rate of one core: `in_cache`, measured for parameters of 0.4 and 1.7 MB, or the rate of
 * a stream from memory. */
static bool core_rate(const basis *b, double in_cache, guess *g)
{
    g->cause = CAUSE_CORE_RATE;
    if (fits_cache(b)) {
        g->value = in_cache;
        SAY(g, "parameters fit into the caches: as measured for 0.4 and 1.7 MB "
               "(scenarios/accuracy)");
        return true;
    }
    g->value = 10e9;
    const dl_quantity *memory =
        b->machine != NULL ? &dl_machine_node(b->machine, 0)->memory_bytes_per_s : NULL;
    if (memory != NULL && memory->known && memory->value < g->value) {
        g->value = memory->value;
        SAY(g, "the machine file's memory rate of the host");
    } else {
        SAY(g, "one core streaming from memory, typical of servers");
    }
    return true;
}

static bool copy_rate(const basis *b, guess *g)
{
    return core_rate(b, 55e9, g);
}

static bool average_rate(const basis *b, guess *g)
{
    return core_rate(b, 80e9, g);
}

/* On cores the server's update takes as long as a worker's, if that is known: bytes (1 / read + 1 /
 * write), with equal rates. */
static bool update_rate(const basis *b, double in_cache, guess *g)
{
    const double update_ns = dl_costs_step_ns(b->costs, 1, "update");
    if (b->machine != NULL || !(update_ns > 0) || b->costs->parameter_bytes <= 0)
        return core_rate(b, in_cache, g);
    g->cause = CAUSE_UPDATE;
    g->value = 2 * (double)b->costs->parameter_bytes / (update_ns * 1e-9);
    SAY(g, "the server updates as fast as a worker does by itself, in %s", DL_NS_TEXT(update_ns));
    return true;
}

static bool update_read_rate(const basis *b, guess *g)
{
    return update_rate(b, 50e9, g);
}

static bool update_write_rate(const basis *b, guess *g)
{
    return update_rate(b, 8e9, g);
}

static bool exchange_latency(const basis *b, guess *g)
{
    g->cause = CAUSE_WAKING;
    g->value = b->machine != NULL ? 5000 : 500;
    SAY(g, "%s",
        b->machine != NULL ? "waking a server's thread and a few calls"
                           : "a call; 0 to 1 us was measured (scenarios/accuracy)");
    return true;
}

/* Half of the rate of the first GPU's PCIe link to the host. */
static bool pageable_rate(const basis *b, guess *g)
{
    if (b->machine == NULL) return false;
    const dl_link_class *link = &b->machine->classes[dl_machine_node(b->machine, 0)->gpus[0].link];
    g->value = link->bytes_per_s.value / 2;
    SAY(g, "half of the rate of the GPU's link %s; traces of PCIe 3 x16 have 3.7 to 8.3 GB/s",
        link->name);
    return true;
}

static bool memory_rate(const basis *b, guess *g)
{
    const double cores = b->cores > 0 ? (double)b->cores : 1;
    g->value = fits_cache(b) ? 60e9 * cores : fmax(20e9, 10e9 * cores);
    SAY(g, fits_cache(b) ? "60 GB/s a core: in the caches, as measured on 2 cores "
                           "(scenarios/accuracy)"
                         : "10 GB/s a core, 20 GB/s at least: typical of servers");
    return true;
}

static bool barrier_time(const basis *b, guess *g)
{
    g->value = b->machine != NULL ? 5000 : 110;
    SAY(g, "%s",
        b->machine != NULL ? "threads of a host that wait for one another"
                           : "measured on 2 cores (scenarios/accuracy)");
    return true;
}

static bool lock_time(const basis *b, guess *g)
{
    g->value = b->machine != NULL ? 1000 : 95;
    SAY(g, "%s",
        b->machine != NULL ? "hand-over between threads of a host"
                           : "measured on 2 cores (scenarios/accuracy)");
    return true;
}

static bool sharing_factor(const basis *b, guess *g)
{
    if (b->machine != NULL) {
        g->value = 1;
        g->factor = 2; /* lower bound 1 / 2: two workers that do not disturb each other */
        SAY(g, "workers that share a GPU take turns on it; short kernels run side by side, up to "
               "four times as many in all (Robroek et al. 2022, arXiv 2209.06018)");
        return true;
    }
    g->value = 1.03;
    SAY(g, "1.016 and 1.035 were measured on 2 cores (scenarios/accuracy); the same for more "
           "workers");
    return true;
}

/* Lowers the assumed time of launches if it exceeds the limit set by a measured step: to the
 * geometric mean of that limit and the lower bound. */
static void permit_launches(const basis *b, guess *g)
{
    const double least_ns = g->value / DL_LAUNCH_FACTOR, most_ns = b->costs->dispatch.most_ns;
    if (!(most_ns >= least_ns && most_ns < g->value)) return;
    const size_t said = strlen(g->source);
    g->value = sqrt(least_ns * most_ns);
    g->factor = sqrt(most_ns / least_ns);
    snprintf(g->source + said, DL_ASSUMPTION_SOURCE_BYTES - said,
             "; less here, as the measured step is shorter than such launches");
}

/* Guesses the host's dispatch time from the kernels of a step, else as half of one worker's step at
 * the largest measured batch or at 32 samples, at most 5 ms, without copies to and from buckets. */
static bool launch_time(const basis *b, guess *g)
{
    const double most_ns = 5e6;
    const double batch = b->costs->batch_max > 0 ? (double)b->costs->batch_max : 32;
    const double half_ns = 0.5 * (dl_costs_step_ns(b->costs, batch, NULL) -
                                  dl_costs_step_ns(b->costs, batch, "bucket"));
    const double kernels = b->costs->dispatch.kernels, least_ns = b->costs->dispatch.least_ns;
    if (kernels > 0 && least_ns > (b->costs->dispatch.few ? DL_LAUNCH_FUSED_NS : DL_LAUNCH_NS)) {
        g->value = kernels * least_ns;
        SAY(g, "%.0f kernels, %.3g us each, as a program in C takes on this host", kernels,
            least_ns * 1e-3);
        return true;
    }
    const double plain = b->costs->dispatch.plain, plain_ns = fmax(DL_LAUNCH_NS, least_ns);
    if (plain > 0 && plain * plain_ns < kernels * DL_LAUNCH_FUSED_NS) {
        g->value = plain * plain_ns;
        SAY(g, "as long as plain PyTorch's %.0f kernels, %.3g us each, in place of %.0f", plain,
            plain_ns * 1e-3, kernels);
        return true;
    }
    if (kernels > 0 && b->costs->dispatch.few) {
        g->value = kernels * DL_LAUNCH_FUSED_NS;
        SAY(g, "%.0f kernels, 77 us each, as in Megatron's profiles of GPT; fused=compiled: 30",
            kernels);
        return true;
    }
    if (kernels > 0) {
        g->value = kernels * DL_LAUNCH_NS;
        SAY(g, "%.0f kernels, 30 us each: 10 in lean programs, 46 to 85 in PyTorch's", kernels);
        return true;
    }
    g->value = fmin(most_ns, fmax(half_ns, 0));
    SAY(g,
        half_ns < most_ns ? "half of a step at batch %.0f"
                          : "500 kernels, 10 us each; at most half of a step at batch %.0f",
        batch);
    return true;
}

static void add_singles(const basis *b, guess *g)
{
    const double singles = b->costs->dispatch.singles;
    if (singles == 0) return;
    const size_t said = strlen(g->source);
    g->value += singles * DL_LAUNCH_SINGLE_NS;
    snprintf(g->source + said, DL_ASSUMPTION_SOURCE_BYTES - said,
             "; %.0f products of single experts, 33 us each", singles);
}

static bool dispatch_time(const basis *b, guess *g)
{
    if (b->costs->dispatch.graphs) {
        g->value = DL_LAUNCH_GRAPH_NS;
        SAY(g, "a CUDA graph, as Inductor launches it on a GB200");
    } else {
        if (!launch_time(b, g)) return false;
        add_singles(b, g);
    }
    permit_launches(b, g);
    return true;
}

/* Assumes that times follow the operations' lines. Time of a step over that predicted from half the
 * batch, 5 us of each kernel being fixed, as in costs from one trace: measured on one T4
 * (petuum/adaptdl, artifact of OSDI '21): ResNet-50 with 40 to 200 images 0.85 to 0.92, ResNet-18
 * on CIFAR-10 with 129 to 1024 images 0.92 to 1.0, BERT with 4 to 12 sequences 0.78 to 0.82. From
 * 64 to 256 images of ResNet-50 on an H200 it is 0.99 (docs/studies/one_gpu.md). */
static bool batch_factor(const basis *b, guess *g)
{
    const bool is_traced = b->machine != NULL && b->costs->trace_count > 0;
    g->value = 1;
    SAY(g,
        "times at other batches follow fixed_ns%s and per_sample_ns; from traces of a T4, twice "
        "the "
        "batch takes 0.78 to 1.0 times as long as that",
        is_traced ? " (5 us of each kernel)" : "");
    return true;
}

/* Sum of the layers' parameter bytes; 0 if a layer lacks them. */
static double layers_bytes(const dl_costs *costs)
{
    double sum = 0;
    for (size_t l = 0; l < costs->layer_count; l++) {
        if (!costs->layers[l].parameter_bytes.known) return 0;
        sum += costs->layers[l].parameter_bytes.value;
    }
    return sum;
}

/* SGD with momentum reads three vectors and writes two. Updates in traces of ResNet on V100, A100,
 * RTX 2080 Ti and MI300X take 1.2 to 14 times as long as streaming these vectors at the memory
 * rate, 3 times in the geometric mean: many kernels are too short to reach that rate. */
#define UPDATE_VECTORS 5
#define UPDATE_SLOWER 3

static bool parameter_bytes(const basis *b, guess *g)
{
    g->value = floor(layers_bytes(b->costs));
    if (g->value > 0) {
        g->is_exact = true;
        SAY(g, "the sum of the [layer] sections");
        return true;
    }
    const double update_ns = dl_costs_step_ns(b->costs, 1, "update");
    const double bytes_per_s =
        b->machine != NULL ? dl_machine_model(b->machine, 0, 0)->memory_bytes_per_s.value : 10e9;
    g->value = floor(update_ns * 1e-9 * bytes_per_s / (UPDATE_VECTORS * UPDATE_SLOWER));
    if (!(g->value >= 1) || !(g->value < 1e15)) return false;
    SAY(g, "from the update's %s: momentum moves 5 vectors, at a third of the memory's rate",
        DL_NS_TEXT(update_ns));
    return true;
}

static bool state_bytes(const basis *b, guess *g)
{
    if (b->costs->parameter_bytes < 0) return false;
    g->value = (double)b->costs->parameter_bytes;
    SAY(g, "momentum: one vector as large as the parameters (Adam has two)");
    return true;
}

/* --- the rules ------------------------------------------------------------------------------- */

#define BENCH "dlprof bench --model MODEL --batch N -o bench.dlt, with dlcal fit"
#define BENCH_OF \
    "dlprof bench --of PROGRAM ..., then dlcal costs TRACE --batch N --copies BENCH.dlt"
#define EXCHANGE \
    "bench_gloo.py --ranks N -o CSV, then dlcal links CSV --costs FILE (docs/traces.md)"
#define TRACE \
    "dlcal costs TRACE --batch N, of a trace with launches (PyTorch's profiler, dlprof run)"
#define TABLE "dlcal table MEASURED.csv --scenario SCENARIO, from rows of several workers"

/* Rates measured with 0.4 and 1.7 MB of parameters on a core of a busy Intel Xeon with AVX-512,
 * 2026-11-25 (dlprof bench), geometric mean of both; scripts/quantise_rates.sh repeats the
 * measurement on any machine. */
#define COMPRESSES(key, need, gb_per_s)                                                    \
    key, need, NULL, 3,                                                                    \
        .measure = BENCH, .value = (gb_per_s)*1e9,                                         \
        .source = "measured for 0.4 and 1.7 MB on a core of an Intel Xeon (dlprof bench)", \
        .cause = CAUSE_COMPRESSING
#define QUANTISE_RULES(name, kind, encode, decode)                                             \
    {"quantise " name, COMPRESSES("encode_bytes_per_s", DL_NEED_QUANTISE << (kind), encode)},  \
    {                                                                                          \
        "quantise " name, COMPRESSES("decode_bytes_per_s", DL_NEED_QUANTISE << (kind), decode) \
    }

/* Exchange among processes: lines (dl_costs_draw_processes) fitted by least squares of the
 * logarithms to all rows of tests/clients/traces/mlp_gloo.csv, from bench_gloo.py: all-reduces of 2
 * and 4 processes, and calls of a server by 1, 2 and 4, with 64 kB to 4 MB. The residuals' standard
 * deviation is a factor of 1.5 (gloo) and 1.6 (RPC). Single rows of gloo are 0.38 to 1.9 times the
 * line, those of RPC 0.52 to 1.5 except one of 0.11. In traces of another machine, a busy Intel
 * Xeon (transformer_ddp2, mlp_localsgd2), medians of all-reduces, including waits for the other
 * process, are 2.1 to 2.4 times the line, the shortest call half of it. The rules' factor for a
 * latency, 5, is gloo's largest factor on one machine, 2.6, times 2 for other machines. */
#define GLOO_MACHINE "2 virtual cores of an AMD EPYC, 2026-11-24 (bench_gloo.py)"

/* Rules in order of application, as later rules use earlier results. */
static const struct {
    const char *section, *key;
    dl_cost_need need;
    /* Derives the value; returns false if it cannot. NULL: it is always `value`. */
    bool (*guess)(const basis *b, guess *g);
    double factor;                      /* F of assume.h; 1: the value is not varied */
    const char *measure, *measure_gpus; /* measure_gpus: for workers on GPUs; NULL: `measure` */
    double value;
    const char *source; /* source of `value` */
    unsigned cause;     /* shared cause of `value` */
} rules[] = {
    {"costs", "parameter_bytes", DL_NEED_PARAMETERS, parameter_bytes, 4,
     .measure = "--parameter-bytes BYTES or --parameters COUNT, as the framework counts them"},
    {"costs", "state_bytes", DL_NEED_STATE, state_bytes, 2,
     .measure = "[costs] state_bytes of the cost file: 0 for plain SGD, twice the parameters for "
                "Adam"},
    {"copy", "latency_ns", DL_NEED_COPY, exchange_latency, 5, .measure = BENCH},
    {"copy", "bandwidth_bytes_per_s", DL_NEED_COPY, copy_rate, 3, .measure = BENCH},
    {"copy", "pageable_bytes_per_s", DL_NEED_PAGEABLE, pageable_rate, 2,
     .measure = "dlcal costs TRACE --batch N, of a trace with copies of input"},
    {"average", "latency_ns", DL_NEED_AVERAGE, exchange_latency, 5, .measure = BENCH,
     .measure_gpus = TABLE},
    {"average", "read_bytes_per_s", DL_NEED_AVERAGE, average_rate, 3, .measure = BENCH,
     .measure_gpus = TABLE},
    {"average", "write_bytes_per_s", DL_NEED_AVERAGE, average_rate, 3, .measure = BENCH,
     .measure_gpus = TABLE},
    {"update", "latency_ns", DL_NEED_UPDATE, exchange_latency, 5, .measure = BENCH,
     .measure_gpus = TABLE},
    {"update", "read_bytes_per_s", DL_NEED_UPDATE, update_read_rate, 3, .measure = BENCH,
     .measure_gpus = TABLE},
    {"update", "write_bytes_per_s", DL_NEED_UPDATE, update_write_rate, 3, .measure = BENCH,
     .measure_gpus = TABLE},
    QUANTISE_RULES("fp16", DL_COMPRESS_FP16, 7.8, 10.4),
    QUANTISE_RULES("1bit", DL_COMPRESS_1BIT, 9.3, 25),
    QUANTISE_RULES("topk", DL_COMPRESS_TOPK, 1.1, 27),
    QUANTISE_RULES("int8", DL_COMPRESS_INT8, 21, 10),
    QUANTISE_RULES("fp4", DL_COMPRESS_FP4, 8.4, 12.7),
    {"quantise", COMPRESSES("learned_bytes_per_s", DL_NEED_LEARNED, 9.5)},
    {"memory", "total_bytes_per_s", DL_NEED_MEMORY, memory_rate, 2.5, .measure = BENCH},
    {"sync", "barrier_ns", DL_NEED_BARRIER, barrier_time, 5, .measure = BENCH,
     .measure_gpus = TABLE},
    {"sync", "wakeup_ns", DL_NEED_WAKEUP, NULL, 3, .measure = BENCH, .value = 26000,
     .source = "24 and 28 us were measured on Linux 6 (scenarios/accuracy)"},
    {"sync", "lock_ns", DL_NEED_LOCK, lock_time, 5, .measure = BENCH, .measure_gpus = TABLE},
    {"sync", "slice_ns", DL_NEED_SLICE, NULL, 1.5, .measure = BENCH, .value = 4e6,
     .source = "measured on Linux 6, a tick of 4 ms (scenarios/accuracy)"},
    {"sharing", "copies_2", DL_NEED_SHARING, sharing_factor, 1.06, .measure = BENCH,
     .measure_gpus =
         "dlprof bench --device cuda --model MODEL --batch N -o bench.dlt, with dlcal fit"},
    {"dispatch", "serial_ns", DL_NEED_DISPATCH, NULL, 1, .measure = TABLE, .value = 0,
     .source = "the host's time is taken to be each GPU's own"},
    {"dispatch", "per_worker_ns", DL_NEED_DISPATCH, dispatch_time, DL_LAUNCH_FACTOR,
     .measure = TRACE},
    {"overlap", "slowdown", DL_NEED_OVERLAP, NULL, 4,
     .measure = "dlcal costs TRACE --batch N --overlap-trace OTHER, of a trace of this sort of GPU "
                "with collectives",
     .value = 1.06,
     .source = "1.055 +- 0.016 and 1.043 +- 0.023 in traces of V100 and A100; fitted: 1.05 to 1.07 "
               "on V100, under 1.01 on A100"},
    {"gloo", "latency_ns", DL_NEED_GLOO, NULL, 5, .measure = EXCHANGE, .value = 1.2e6,
     .source = "gloo between 2 and 4 processes on " GLOO_MACHINE
               "; 2 (N - 1) of it make an all-reduce; less with idle cores for its threads"},
    {"gloo", "bytes_per_s", DL_NEED_GLOO, NULL, 3, .measure = EXCHANGE, .value = 3.4e9,
     .source = "gloo between 2 and 4 processes on " GLOO_MACHINE ", 64 kB to 4 MB"},
    /* Ratio of the time concurrent with compute to the time by gloo's fitted line: 0.53, the
     * geometric mean over the benchmark's sizes and numbers of processes. */
    {"gloo", "beside_frac", DL_NEED_GLOO, NULL, 2, .measure = EXCHANGE, .value = 0.5,
     .source = "0.37 to 0.72 on " GLOO_MACHINE},
    /* Factor on times scaled from another number of processes. In mlp_gloo.csv times of four
     * processes are 0.49 to 1.9 times those scaled from two (all-reduces: alone, in pairs, and
     * concurrent with compute), 1.0 in the geometric mean; RPC calls are 0.85 to 1.2 times. */
    {"gloo", "ranks_factor", DL_NEED_OTHER_RANKS, NULL, 2, .measure = EXCHANGE, .value = 1,
     .source = "times of other numbers of processes grow with gloo's 2 (N - 1) messages, calls "
               "with N; from 2 to 4, 0.49 to 1.9 times as much on " GLOO_MACHINE},
    {"batch", "per_doubling", DL_NEED_OTHER_BATCH, batch_factor, 1.25,
     .measure =
         "dlprof train at two batch sizes, with dlcal fit, or dlcal costs TRACE OTHER --batch N,M",
     .measure_gpus = "dlcal costs TRACE OTHER --batch N,M, or dlcal table of measured rows, at two "
                     "batch sizes"},
    {"rpc", "latency_ns", DL_NEED_RPC, NULL, 5, .measure = EXCHANGE, .value = 2.3e6,
     .source = "RPC of 1 to 4 processes on " GLOO_MACHINE "; N processes wait N times as long"},
    {"rpc", "bytes_per_s", DL_NEED_RPC, NULL, 3, .measure = EXCHANGE, .value = 2.4e9,
     .source = "RPC of 1 to 4 processes on " GLOO_MACHINE ", 64 kB to 4 MB"},
    {"input", "bytes_per_sample", DL_NEED_INPUT, NULL, 8,
     .measure = "dlcal costs TRACE --batch N, of a trace with copies of input",
     .value = 3.0 * 224 * 224 * 4, .source = "an image of 3 x 224 x 224 floats"},
};
#define RULES DL_LENGTH(rules)

/* --- values of the costs --------------------------------------------------------------------- */

static bool is_sharing(const dl_key *key)
{
    return strcmp(key->section, "sharing") == 0;
}

/* Returns the key's value; NULL for the two byte counts in [costs]. */
static dl_value *value_of(const dl_key *key, dl_costs *costs)
{
    return is_sharing(key) ? &costs->sharing[2] : dl_cost_single(costs, key);
}

static bool is_parameters(const dl_key *key)
{
    return strcmp(key->name, "parameter_bytes") == 0;
}

static bool is_known(const dl_key *key, dl_costs *costs)
{
    if (is_sharing(key)) {
        for (int k = 2; k <= DL_SHARING_MAX; k++)
            if (costs->sharing[k].known) return true;
        return false;
    }
    const dl_value *value = value_of(key, costs);
    if (value != NULL) return value->known;
    return (is_parameters(key) ? costs->parameter_bytes : costs->state_bytes) >= 0;
}

static void put(const dl_key *key, dl_costs *costs, double number, double error)
{
    dl_value *value = value_of(key, costs);
    if (value != NULL) {
        *value =
            (dl_value){.known = true, .value = number, .error = error, .origin = DL_ORIGIN_ASSUMED};
    } else if (is_parameters(key)) {
        costs->parameter_bytes = llround(number);
        costs->parameter_error_bytes = error;
    } else {
        costs->state_bytes = llround(number);
        costs->state_error_bytes = error;
    }
}

/* Standard deviation of a log-normal variable with median 1 whose 95 % interval is 1/F to F: with s
 * = log F / 1.96, sqrt(x (x - 1)), x = exp(s^2). */
static double error_of(double factor)
{
    const double x = exp(pow(log(factor) / 1.959964, 2));
    return sqrt(x * (x - 1));
}

static const char *how_to_measure(size_t rule, const dl_key *key, const basis *b)
{
    const char *on_gpus = rules[rule].measure_gpus, *how = rules[rule].measure;
    if (b->machine != NULL && on_gpus != NULL) how = on_gpus;
    if (dl_costs_of_other_program(b->costs)) {
        if (is_sharing(key)) return BENCH_OF;
        if (strcmp(rules[rule].measure, BENCH) == 0) how = EXCHANGE;
    }
    return how;
}

void dl_costs_assume_value(dl_costs *costs, const char *section, const char *key, double value,
                           double factor, unsigned cause, dl_cost_need need, const char *source,
                           const char *measure, dl_assumptions *made)
{
    const dl_key *of = dl_keys_find(&dl_cost_keys, section, key);
    dl_assumption *a = &DL_APPEND(made->items, made->count, "assumptions");
    *a = (dl_assumption){.of = DL_ASSUMED_COST,
                         .key = of,
                         .need = need,
                         .cause = cause,
                         .value = value,
                         .low = value / factor,
                         .high = value * factor,
                         .measure = measure};
    snprintf(a->source, sizeof a->source, "%s", source);
    put(of, costs, value, value * error_of(factor));
    value_of(of, costs)->cause = cause;
}

static void assume(size_t rule, const basis *b, dl_costs *costs, dl_assumptions *made)
{
    const dl_key *key = dl_keys_find(&dl_cost_keys, rules[rule].section, rules[rule].key);
    dl_assumption a = {.of = DL_ASSUMED_COST, .key = key, .need = rules[rule].need};
    guess g = {.value = rules[rule].value, .cause = rules[rule].cause, .source = a.source};
    if (rules[rule].guess == NULL) SAY(&g, "%s", rules[rule].source);
    if (is_known(key, costs) || (rules[rule].guess != NULL && !rules[rule].guess(b, &g))) return;
    /* Limits of a ratio of times only exclude typing errors. */
    const bool is_ratio = is_sharing(key) || strcmp(key->section, "batch") == 0;
    const double least = is_ratio ? 0 : fmax(key->low, 0), above = g.value - least;
    const double factor = g.is_exact ? 1 : g.factor > 0 ? g.factor : rules[rule].factor;
    a.cause = g.cause;
    a.value = g.value;
    a.low = least + above / factor;
    a.high = least + above * factor;
    a.measure = how_to_measure(rule, key, b);
    put(key, costs, g.value, above * error_of(factor));
    if (value_of(key, costs) != NULL) value_of(key, costs)->cause = g.cause;
    DL_APPEND(made->items, made->count, "assumptions") = a;
}

void dl_costs_assume(dl_costs *costs, unsigned needs, const dl_machine *machine, int64_t cores,
                     dl_assumptions *made)
{
    const basis b = {costs, machine, cores > 0 ? cores : costs->cores};
    if (!dl_costs_have_input(costs)) needs &= ~(unsigned)DL_NEED_INPUT;
    for (size_t i = 0; i < RULES; i++)
        if (needs & rules[i].need) assume(i, &b, costs, made);
}

/* --- numbers of the machine ------------------------------------------------------------------ */

/* How to measure values of the machine file. `section` is the prefix of a section's name, `key` one
 * of its keys; NULL: all keys. */
static const struct {
    const char *section, *key, *measure;
} measured_by[] = {
    {"host", "server_bytes_per_s",
     "a server and workers that push and fetch without computing; bytes a second of the process, "
     "both ways, into [exchange] server_bytes_per_s"},
    {"host", NULL,
     "nvbandwidth or bandwidthTest, host to device on all GPUs at once, into the machine "
     "file"},
    {"overlap", NULL,
     "a trace of two ranks on these GPUs, beside one of one: dlcal costs TRACE --batch N "
     "--overlap-trace OTHER; its [overlap] slowdown is that of a machine file"},
    {"gpu_model", NULL,
     "nvidia-smi --query-gpu=clocks.sm during a run, over the boost clock; nvbandwidth, "
     "device to device; into the machine file"},
    {"", NULL,
     "nccl-tests on these GPUs, then dlcal links LOG -o FILE, and dlsim with --costs FILE"},
};

static const char *how_to_measure_machine(const char *section, const dl_key *key)
{
    size_t i = 0;
    while (strncmp(section, measured_by[i].section, strlen(measured_by[i].section)) != 0 ||
           (measured_by[i].key != NULL && strcmp(key->name, measured_by[i].key) != 0))
        i++;
    return measured_by[i].measure;
}

/* Returns the cause of a section's values: one cause for all its rates and one for all its times,
 * except that each value of a host has its own. Its number is above the CAUSE_* of costs. */
static unsigned cause_of(const char *section, const dl_key *key)
{
    const bool is_host = strncmp(section, "host", strlen("host")) == 0;
    const uint64_t hash = dl_hash_text(section) ^ (is_host ? dl_hash_text(key->name) : 0);
    const unsigned even = (unsigned)hash | CAUSES << 1;
    return (even | 1) - (key->dimension == DL_DIMENSION_NS);
}

typedef struct machine_basis {
    const dl_machine *machine;
    dl_costs *costs;
    dl_assumptions *made;
} machine_basis;

static void assume_of_machine(void *user, const char *section, const dl_key *key,
                              dl_quantity *quantity)
{
    const machine_basis *b = user;
    if (!quantity->known || !(quantity->low < quantity->high)) return;
    if (strcmp(key->name, "clock_frac") == 0 && !dl_costs_are_estimated(b->costs)) return;
    const dl_machine_value *given = dl_costs_machine_value(b->costs, section, key);
    if (given != NULL && given->value.known) return;
    const size_t number =
        dl_costs_assume_machine_value(b->costs, section, key, quantity, cause_of(section, key));
    const char *source = dl_machine_source_of(b->machine, section);
    dl_assumption a = {.of = DL_ASSUMED_MACHINE,
                       .key = key,
                       .cause = b->costs->machine_values[number].value.cause,
                       .measure = how_to_measure_machine(section, key),
                       .value = quantity->value,
                       .low = quantity->low,
                       .high = quantity->high,
                       .number = number,
                       .section = b->costs->machine_values[number].section};
    if (source != NULL) {
        snprintf(a.source, sizeof a.source, "%s", source);
    } else {
        snprintf(a.source, sizeof a.source, "bounds of the machine file %s", b->machine->path);
    }
    DL_APPEND(b->made->items, b->made->count, "assumptions") = a;
}

void dl_machine_assume(dl_costs *costs, dl_machine *machine, dl_assumptions *made)
{
    dl_machine_each(machine, assume_of_machine, &(machine_basis){machine, costs, made});
}

/* --- settings -------------------------------------------------------------------------------- */

dl_assumption *dl_setting_assume(const dl_key *key, const char *chosen, const char *source,
                                 const char *measure, dl_assumptions *made)
{
    dl_assumption *a = &DL_APPEND(made->items, made->count, "assumptions");
    *a = (dl_assumption){.of = DL_ASSUMED_SETTING, .key = key, .measure = measure};
    snprintf(a->chosen, sizeof a->chosen, "%s", chosen);
    snprintf(a->source, sizeof a->source, "%s", source);
    return a;
}

/* --- costs from one number -------------------------------------------------------------------- */

static void add_pass(dl_costs *costs, const char *name, double per_sample_ns)
{
    DL_APPEND(costs->ops, costs->op_count, "operations") = (dl_op_cost){
        .name = dl_strdup(name),
        .fixed_ns = {.known = true},
        .per_sample_ns = {.known = true, .value = per_sample_ns},
    };
}

void dl_costs_of_throughput(dl_costs *costs, double samples_per_s, const char *device,
                            int64_t batch)
{
    *costs = (dl_costs){.path = dl_strdup("[workload] samples_per_s"),
                        .device = device != NULL ? dl_strdup(device) : NULL,
                        .parameter_bytes = -1,
                        .state_bytes = -1,
                        .batch_min = batch,
                        .batch_max = batch};
    add_pass(costs, "network.forward", 1e9 / samples_per_s / 3);
    add_pass(costs, "network.backward", 2e9 / samples_per_s / 3);
}

/* Maximum number of buckets. Above 107 GB, more than most GPUs' memories, buckets become larger, as
 * each bucket costs events. */
#define BUCKETS_MOST 4096

void dl_costs_assume_buckets(dl_costs *costs)
{
    const double all = (double)costs->parameter_bytes;
    const double other = fmax(DL_BUCKET_BYTES, all / (BUCKETS_MOST - 1));
    for (double ready = 0; ready < all;) {
        ready = fmin(all, ready + (ready > 0 ? other : DL_FIRST_BUCKET_BYTES));
        DL_APPEND(costs->gradients, costs->gradient_count, "gradients") =
            (dl_gradients_ready){ready / all, ready};
    }
    costs->overlap = true;
}

void dl_costs_fill_buckets(dl_costs *costs, const dl_gradients_ready *ready, size_t count)
{
    double start = 0; /* cumulative bytes of the previous buckets */
    for (size_t i = 0; i < count; i++) {
        const double bytes = ready[i].bytes - start;
        const double full = costs->gradient_count > 0 ? DL_BUCKET_BYTES : DL_FIRST_BUCKET_BYTES;
        if (bytes == 0 || (bytes < full && i + 1 < count)) continue;
        DL_APPEND(costs->gradients, costs->gradient_count, "gradients") = ready[i];
        start = ready[i].bytes;
    }
    costs->overlap = true;
}

bool dl_assumption_holds(const dl_assumption *assumption, const dl_costs *costs)
{
    if (assumption->of == DL_ASSUMED_SETTING) return true;
    if (assumption->of == DL_ASSUMED_MACHINE)
        return costs->machine_values[assumption->number].of_machine > 0;
    dl_costs looked_at = *costs;
    const dl_value *value = value_of(assumption->key, &looked_at);
    if (value != NULL) {
        return value->value == assumption->value && value->origin == DL_ORIGIN_ASSUMED;
    }
    return (double)(is_parameters(assumption->key) ? costs->parameter_bytes : costs->state_bytes) ==
           assumption->value;
}

bool dl_assumption_same(const dl_assumption *a, const dl_assumption *b)
{
    return a->key == b->key && a->value == b->value && strcmp(a->chosen, b->chosen) == 0 &&
           strcmp(dl_assumption_section(a), dl_assumption_section(b)) == 0;
}

void dl_assumption_set(const dl_assumption *assumption, dl_costs *costs, double value)
{
    DL_ASSERT(assumption->of != DL_ASSUMED_SETTING, "a setting has no number");
    if (assumption->of == DL_ASSUMED_MACHINE) {
        costs->machine_values[assumption->number].value.value = value;
    } else {
        put(assumption->key, costs, value, 0);
    }
}

const char *dl_assumption_name(const dl_assumption *assumption)
{
    return is_sharing(assumption->key) ? "copies_2" : assumption->key->name;
}

const char *dl_assumption_section(const dl_assumption *assumption)
{
    return assumption->section != NULL ? assumption->section : assumption->key->section;
}

void dl_assumptions_free(dl_assumptions *made)
{
    for (size_t i = 0; i < made->count; i++) {
        DL_AUTOFREE dl_costs *costs = made->items[i].costs;
        if (costs != NULL) dl_costs_free(costs);
    }
    free(made->items);
    *made = (dl_assumptions){0};
}
