/* All-reduce in one node whose NVSwitch sums (NVLink SHARP; "NVLS" in NCCL). Each of n ranks owns a
 * part S / n of the bytes S. It reads the sum of its part from the switch, which takes the part of
 * every rank (multimem.ld_reduce), and writes it to the switch, which hands it to all
 * (multimem.st):
 *
 *                          out of a GPU             into a GPU
 *   sums                   S (all parts)            S / n (its own part, summed)
 *   handing out            S / n                    S
 *   together               S (1 + 1/n)              S (1 + 1/n)        a ring: 2 S (1 - 1/n)
 *
 * so that with many ranks half of a ring's bytes cross each link (NCCL's author gives the same
 * counts: github.com/NVIDIA/nccl, thread 1083, and algbw = busbw (n+1)/(n-1) in nccl-tests, thread
 * 212). Pieces of p bytes are pipelined, one in each of the two stages; all of it takes
 *
 *   2 a + S (1 + 1/n) / B + p (1 - 1/n) / B           a = latency and hop time from GPU to GPU
 *
 * The links' rate B is the machine's times sum_frac. */
#include <math.h>

#include "sim/collective/rings.h"

/* A piece is a chunk for each rank on each channel: NCCL_NVLS_CHUNKSIZE (default 128 KiB) and
 * NVLS_NCHANNELS_SM90 of NCCL's src/transport/nvls.cc. */
#define CHUNK_BYTES 131072.0
#define CHANNELS 16

static bool supports(const dl_collective_config *config)
{
    return config->kind == DL_ALLREDUCE &&
           dl_ranks_per_node(config->ranks, config->rank_count) == config->rank_count;
}

static bool available(const dl_links *links)
{
    return links->nvswitch != NULL && links->machine->nvswitch_sum_frac.known;
}

/* One of the two stages, or both of them together: what leaves each rank and what comes to it. */
static void add_stage(dl_plan *plan, const dl_collective_config *config, double out, double in,
                      int after, int join)
{
    const dl_links *links = plan->links;
    double scale = plan->costs.bandwidth_frac / links->machine->nvswitch_sum_frac.value;
    for (int r = 0; r < config->rank_count; r++) {
        const dl_place *rank = &config->ranks[r];
        const dl_edge *edge = &links->nvswitch[rank->index];
        int base = rank->node * links->per_node, both = edge->both >= 0 ? base + edge->both : -1;
        int up = dl_plan_add_link(plan, base + edge->up, both, out * scale);
        int down = dl_plan_add_link(plan, base + edge->down, both, in * scale);
        dl_plan_order(plan, after, up);
        dl_plan_order(plan, after, down);
        dl_plan_order(plan, up, join);
        dl_plan_order(plan, down, join);
    }
}

/* Time in which the first piece's sums are made, beyond its share of the steady flow. */
static double fill_ns(const dl_plan *plan, const dl_collective_config *config, double piece)
{
    const dl_edge *edge = &plan->links->nvswitch[config->ranks[0].index];
    double rate =
        dl_links_capacity(plan->links, edge->up) * plan->links->machine->nvswitch_sum_frac.value;
    return piece * (1 - 1.0 / config->rank_count) / rate * 1e9;
}

static void plan_as_phase(dl_plan *plan, const dl_collective_config *config, double piece,
                          double hop_ns)
{
    double all = config->bytes * (1 + 1.0 / config->rank_count);
    int start = dl_plan_wait(plan, 2 * hop_ns + fill_ns(plan, config, piece));
    int end = dl_plan_join(plan);
    add_stage(plan, config, all, all, start, end);
}

/* The sums of piece k follow those of piece k - 1; it is handed out a hop after that, when piece k
 * - 1 is out. */
static void plan_as_chunks(dl_plan *plan, const dl_collective_config *config, double piece,
                           int pieces, double hop_ns)
{
    double part = piece / config->rank_count;
    int summed = dl_plan_wait(plan, hop_ns), handed = -1;
    for (int k = 0; k < pieces; k++) {
        int sums = dl_plan_join(plan), hop = dl_plan_wait(plan, hop_ns), out = dl_plan_join(plan);
        add_stage(plan, config, piece, part, summed, sums);
        dl_plan_order(plan, sums, hop);
        int start = dl_plan_join(plan);
        dl_plan_order(plan, hop, start);
        dl_plan_order(plan, handed, start);
        add_stage(plan, config, part, piece, start, out);
        summed = sums;
        handed = out;
    }
}

static void plan_nvls(dl_plan *plan, const dl_collective_config *config)
{
    double largest = CHUNK_BYTES * CHANNELS * config->rank_count;
    double wanted = fmax(1, ceil(config->bytes / largest));
    int pieces = wanted > DL_CHUNKS_MAX ? DL_CHUNKS_MAX : (int)wanted;
    double hop_ns = dl_plan_hop_ns(plan, config->ranks[0], config->ranks[1]);
    double piece = config->bytes / pieces;
    if (config->fidelity == DL_FIDELITY_PHASE) {
        plan_as_phase(plan, config, piece, hop_ns);
    } else {
        plan_as_chunks(plan, config, piece, pieces, hop_ns);
    }
}

/* As in NCCL's model: with protocol Simple only. */
const dl_collective_algorithm dl_collective_nvls = {"nvls",    supports, plan_nvls,
                                                    available, NULL,     true};
