#include "kernels/quantise.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "kernels/vector_internal.h"

const char *const dl_quantise_names[] = {
    [DL_QUANTISE_NONE] = "none", [DL_QUANTISE_FP16] = "fp16", [DL_QUANTISE_INT8] = "int8",
    [DL_QUANTISE_1BIT] = "1bit", [DL_QUANTISE_TOPK] = "topk", [DL_QUANTISE_FP4] = "fp4",
    [DL_QUANTISE_COUNT] = NULL};

void dl_quantise_plan_init(dl_quantise_plan *plan, dl_quantise kind)
{
    DL_ASSERT(kind > DL_QUANTISE_NONE && kind < DL_QUANTISE_COUNT, "kind %d", (int)kind);
    *plan = (dl_quantise_plan){.kind = kind, .kept_frac = 1};
}

bool dl_quantise_feeds_back(dl_quantise kind)
{
    return kind == DL_QUANTISE_1BIT || kind == DL_QUANTISE_TOPK;
}

static size_t message_bytes(const dl_quantise_plan *plan)
{
    size_t bytes = 0;
    switch (plan->kind) {
    case DL_QUANTISE_FP16: return plan->count * sizeof(uint16_t);
    case DL_QUANTISE_INT8: return plan->block_count * sizeof(dl_quantise_bytes);
    case DL_QUANTISE_FP4: return plan->block_count * sizeof(dl_quantise_nibbles);
    case DL_QUANTISE_TOPK:
        for (size_t b = 0; b < plan->block_count; b++)
            bytes += dl_quantise_kept(plan->kept_frac, plan->blocks[b].count) *
                     sizeof(dl_quantise_entry);
        return bytes;
    default: return plan->block_count * sizeof(dl_quantise_bits);
    }
}

void dl_quantise_plan_add(dl_quantise_plan *plan, size_t count)
{
    if (count == 0) return;
    const size_t most = plan->kind == DL_QUANTISE_TOPK ? count : DL_QUANTISE_BLOCK;
    const size_t added = (count + most - 1) / most;
    plan->blocks = dl_realloc(plan->blocks, plan->block_count + added, sizeof *plan->blocks,
                              "blocks of a message");
    for (size_t done = 0; done < count; done += most) {
        const size_t rest = count - done;
        plan->blocks[plan->block_count++] =
            (dl_quantise_block){.first = plan->count + done, .count = rest < most ? rest : most};
    }
    plan->count += count;
    DL_ASSERT(plan->kind != DL_QUANTISE_TOPK || plan->count <= UINT32_MAX, "%zu numbers",
              plan->count);
    plan->message_bytes = message_bytes(plan);
}

void dl_quantise_plan_free(dl_quantise_plan *plan)
{
    free(plan->blocks);
    *plan = (dl_quantise_plan){0};
}

void dl_quantise_encode(const dl_quantise_plan *plan, const void *values, void *residual,
                        void *message, dl_precision precision)
{
    const bool single = precision == DL_FLOAT;
    switch (plan->kind) {
    case DL_QUANTISE_FP16:
        (single ? dl_quantise_halve_float : dl_quantise_halve_double)(message, values, plan->count);
        break;
    case DL_QUANTISE_INT8:
        (single ? dl_quantise_round_float : dl_quantise_round_double)(message, plan->blocks,
                                                                      plan->block_count, values);
        break;
    case DL_QUANTISE_TOPK:
        (single ? dl_quantise_select_float : dl_quantise_select_double)(message, plan, values,
                                                                        residual);
        break;
    case DL_QUANTISE_FP4:
        (single ? dl_quantise_nibble_float : dl_quantise_nibble_double)(message, plan->blocks,
                                                                        plan->block_count, values);
        break;
    default:
        (single ? dl_quantise_sign_float : dl_quantise_sign_double)(
            message, plan->blocks, plan->block_count, values, residual);
        break;
    }
}

void dl_quantise_decode(const dl_quantise_plan *plan, const void *message, void *values,
                        dl_precision precision)
{
    const bool single = precision == DL_FLOAT;
    switch (plan->kind) {
    case DL_QUANTISE_FP16:
        (single ? dl_quantise_widen_float : dl_quantise_widen_double)(values, message, plan->count);
        break;
    case DL_QUANTISE_INT8:
        (single ? dl_quantise_unround_float
                : dl_quantise_unround_double)(values, plan->blocks, plan->block_count, message);
        break;
    case DL_QUANTISE_TOPK:
        (single ? dl_quantise_unselect_float : dl_quantise_unselect_double)(
            values, plan->count, message, plan->message_bytes / sizeof(dl_quantise_entry));
        break;
    case DL_QUANTISE_FP4:
        (single ? dl_quantise_unnibble_float
                : dl_quantise_unnibble_double)(values, plan->blocks, plan->block_count, message);
        break;
    default:
        (single ? dl_quantise_unsign_float : dl_quantise_unsign_double)(values, plan->blocks,
                                                                        plan->block_count, message);
        break;
    }
}
