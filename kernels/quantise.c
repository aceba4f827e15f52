#include "kernels/quantise.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "kernels/vector_internal.h"

const char *const dl_quantise_names[] = {[DL_QUANTISE_NONE] = "none",
                                         [DL_QUANTISE_FP16] = "fp16",
                                         [DL_QUANTISE_INT8] = "int8",
                                         [DL_QUANTISE_1BIT] = "1bit",
                                         [DL_QUANTISE_COUNT] = NULL};

void dl_quantise_plan_init(dl_quantise_plan *plan, dl_quantise kind)
{
    DL_ASSERT(kind > DL_QUANTISE_NONE && kind < DL_QUANTISE_COUNT, "kind %d", (int)kind);
    *plan = (dl_quantise_plan){.kind = kind};
}

void dl_quantise_plan_add(dl_quantise_plan *plan, size_t count)
{
    const size_t added = (count + DL_QUANTISE_BLOCK - 1) / DL_QUANTISE_BLOCK;
    if (added == 0) return;
    plan->blocks = dl_realloc(plan->blocks, plan->block_count + added, sizeof *plan->blocks,
                              "blocks of a message");
    for (size_t done = 0; done < count; done += DL_QUANTISE_BLOCK) {
        const size_t rest = count - done;
        plan->blocks[plan->block_count++] =
            (dl_quantise_block){.first = plan->count + done,
                                .count = rest < DL_QUANTISE_BLOCK ? rest : DL_QUANTISE_BLOCK};
    }
    plan->count += count;
    switch (plan->kind) {
    case DL_QUANTISE_FP16: plan->message_bytes = plan->count * sizeof(uint16_t); break;
    case DL_QUANTISE_INT8:
        plan->message_bytes = plan->block_count * sizeof(dl_quantise_bytes);
        break;
    default: plan->message_bytes = plan->block_count * sizeof(dl_quantise_bits); break;
    }
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
    default:
        (single ? dl_quantise_unsign_float : dl_quantise_unsign_double)(values, plan->blocks,
                                                                        plan->block_count, message);
        break;
    }
}
