/* A layer of experts: router, moves of the tokens, and the experts' feed-forward. */
#include "common/random.h"
#include "sim/workloads/transformer.h"

/* Adds the router: a product for the scores of all experts, whose weights are not divided, their
 * softmax and the choice of the best. With fused kernels the choice is one kernel, which writes
 * probabilities and a mask of bytes, and three make a table of the tokens' new places, two 4-byte
 * numbers per score (TransformerEngine, fused_topk_with_score_function; common/triton/
 * permutation.py, row_id_map). Plain PyTorch's softmax is in 32 bits; the choice is encoded as
 * `active` vectors of 8-byte numbers per token, written twice, and read once in a sum and twice by
 * each expert's torch.where (huggingface/transformers at 00d4b3d2, models/mixtral/
 * modeling_mixtral.py, MixtralSparseMoeBlock). The loss that balances the experts' loads is not
 * counted. */
static void add_router(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double scores = s->own_tokens * s->experts, hot = 2 * s->active * scores;
    dl_layer_add_product(layer, s, s->own_tokens, s->width, s->experts, 1, false);
    if (s->fused) {
        dl_layer_add_moves(&layer->forward,
                           (dl_moves){.narrow = scores, .wide = 3.75 * scores, .kernels = 4});
        dl_layer_add_moves(&layer->backward,
                           (dl_moves){.narrow = scores, .wide = 2 * scores, .kernels = 1});
        layer->kept_numbers += 3.25 * scores;
        layer->kept_wide += 3.25 * scores;
        return;
    }
    dl_layer_add_moves(&layer->forward, (dl_moves){.narrow = scores,
                                                   .wide = 2 * scores + 5 * hot,
                                                   .kernels = 11 + 4 * (int)s->experts});
    dl_layer_add_moves(&layer->backward,
                       (dl_moves){.narrow = scores, .wide = 5 * scores, .kernels = 8});
    layer->kept_numbers += scores + hot;
    layer->kept_wide += scores + hot;
}

/* Adds the moves before and after the experts with fused kernels: one kernel copies the tokens to
 * `rows` rows in the order of their experts, the other sums the results, which the activation has
 * already multiplied by the probabilities (Megatron-LM, moe_utils.permute and unpermute,
 * weighted_bias_swiglu_impl). Each backward pass moves as much. Tokens that are sent once are
 * copied by the GPUs that receive them (_DeepepManager.get_permuted_hidden_states_by_experts). */
static void add_permutation(dl_architecture_layer *layer, const dl_transformer *s, double rows)
{
    const double ranks = s->sends_once ? s->expert_ranks : 1;
    const double tokens =
        s->tokens * ranks * dl_chance_of_some(s->experts, s->experts / ranks, s->active);
    const double n = (tokens + rows) * s->width;
    dl_layer_add_elementwise(layer, n, n, 1);
}

/* Adds the operations of plain PyTorch around each expert: it gathers its tokens, which each
 * product converts, multiplies the results by their weights, and adds them to the tokens' sums
 * (2 + 1 + 3 wide numbers, 1 narrow). Backward: gathers the gradient (2), multiplies it by the
 * weight (2) and converts it, and by the result (3 and 1 narrow), sums the gradients of the
 * products' inputs, which are converted, and adds them to zeros as large as all tokens' vectors
 * (3); all experts' are summed: 1 + 3 numbers of every token for every expert (add_router's
 * source; PyTorch, tools/autograd/derivatives.yaml, index and index_add). */
static void add_gathers(dl_architecture_layer *layer, const dl_transformer *s, double rows)
{
    const int gates = s->gated ? 2 : 1, experts = (int)s->experts;
    const double n = rows * s->width, all = s->tokens * s->width;
    dl_layer_add_moves(&layer->forward, (dl_moves){.narrow = n,
                                                   .wide = 6 * n + all,
                                                   .casts = gates * n,
                                                   .kernels = 1 + 4 * experts,
                                                   .kernels_in_half = gates * experts});
    dl_layer_add_moves(&layer->backward,
                       (dl_moves){.narrow = n,
                                  .wide = (10 + 3 * (gates - 1)) * n + 4 * experts * all,
                                  .casts = (1 + gates) * n,
                                  .kernels = (11 + gates) * experts,
                                  .kernels_in_half = (1 + gates) * experts});
    layer->kept_numbers += 2 * n;
    layer->kept_in_half += (gates - 1) * n;
}

/* Adds the moves that sort tokens from other GPUs. The all-to-all delivers them grouped by sender:
 * one kernel sorts them by expert before the products, and another restores their order after the
 * products (Megatron-LM, token_dispatcher.py, MoEAlltoAllTokenDispatcher, sort_chunks_by_idxs;
 * torchtitan, models/moe/utils.py, _permute and _unpermute). Each kernel, and that of its gradient,
 * reads and writes all tokens once. With one expert per GPU, nothing has to be sorted. */
static void add_sorting(dl_architecture_layer *layer, const dl_transformer *s, double rows)
{
    const double n = 2 * rows * s->width;
    if (s->expert_ranks > 1 && s->experts > s->expert_ranks && !s->sends_once)
        dl_layer_add_elementwise(layer, n, n, 1);
}

void dl_layer_add_experts(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double rows = s->active * s->tokens, stream = s->own_tokens * s->width;
    const int gates = s->gated ? 2 : 1;
    dl_transformer each = *s;
    each.tokens = rows;
    each.inside = s->expert_inside;
    each.copies = s->experts / s->expert_ranks;
    add_router(layer, s);
    if (s->fused) {
        add_permutation(layer, s, rows);
        layer->kept_numbers += rows * s->width;
    } else {
        add_gathers(layer, s, rows);
    }
    add_sorting(layer, s, rows);
    const int64_t before = dl_layer_parameters(layer);
    dl_layer_add_feed_forward(layer, &each, rows * s->width);
    if (s->expert_ranks > 1) {
        layer->expert_parameters = dl_layer_parameters(layer) - before;
        layer->expert_numbers = rows * s->width;
        layer->expert_forward = layer->expert_backward = 2;
        layer->expert_copies = s->sends_once ? s->active : 0;
    }
    add_sorting(layer, s, rows);
    if (s->fused) add_permutation(layer, s, rows);
    /* The norm's result has a second reader, and a third with a shared expert. */
    if (s->fused) dl_layer_add_stream(&layer->backward, s, 3 * stream, 0, 0);
    layer->idle_parameters =
        (int64_t)((each.copies - s->active) * (gates + 1) * s->expert_inside * s->width);
    if (s->shared_inside == 0) return;
    each = *s;
    each.inside = s->shared_inside;
    dl_layer_add_feed_forward(layer, &each, stream);
    dl_layer_add_stream(&layer->forward, s, 3 * stream, 0, 0);
    dl_layer_add_stream(&layer->backward, s, 3 * stream, 0, 0);
}
