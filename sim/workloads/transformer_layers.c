/* The layers of a transformer: an embedding, equal blocks of attention and feed-forward, and a
 * head. */
#include <math.h>

#include "common/alloc.h"
#include "sim/workloads/transformer.h"

static dl_layer_part *last_part(dl_layer_pass *pass)
{
    return &pass->parts[pass->count - 1];
}

void dl_layer_add_moves(dl_layer_pass *pass, dl_moves m)
{
    dl_layer_part *part = dl_pass_add(pass, 0, m.narrow + m.wide, 0, m.kernels);
    part->wide = m.wide;
    part->casts = m.casts;
    part->kernels_in_half = m.kernels_in_half;
}

static void add_wide(dl_layer_pass *pass, double numbers, double casts)
{
    dl_layer_part *part = dl_pass_add(pass, 0, numbers, 0, 1);
    part->wide = numbers;
    part->casts = casts;
}

void dl_layer_add_stream(dl_layer_pass *pass, const dl_transformer *s, double numbers, double casts,
                         double weights)
{
    dl_layer_part *part = dl_pass_add(pass, 0, numbers, weights, 1);
    if (s->halves) return;
    part->wide = numbers;
    part->casts = casts;
}

/* Number of products that read the result of the block's first norm. */
static int projections(const dl_transformer *s)
{
    return s->joined ? 1 : 3;
}

/* Adds tensors as trained parameters or, with adapters, as frozen ones. */
static void add_tensors(dl_architecture_layer *layer, const dl_transformer *s, int count,
                        double parameters)
{
    if (s->rank > 0) {
        layer->frozen_parameters += (int64_t)parameters * count;
    } else {
        dl_layer_add_tensors(layer, count, parameters);
    }
}

/* Adds a norm as in plain PyTorch under autocast. x is the stream in 32 bits, n its size, k the
 * number of products that read the result; each converts it, and its gradient back:
 *
 *   layer norm   one kernel (2 n); backward two, which read both inputs (5 n)
 *   RMS norm     x.pow(2), its mean, + epsilon, rsqrt, x times that, times the weight: 2 + 1 + 2 +
 *                2 n. Backward: the two products take 2 + 2 n for inputs, 3 + 1 and 3 + 1 n for the
 *                summed operands (a product, its sum); rsqrt three small kernels; the mean 1 n; the
 *                power three kernels (a copy, times 2, times the gradient: 2 + 2 + 3 n); and the
 *                sum of both paths to x 3 n
 *
 * plus the sum of k gradients, 3 n each except the first (huggingface/transformers at 5dd4a635,
 * models/llama/modeling_llama.py, LlamaRMSNorm; PyTorch, tools/autograd/derivatives.yaml). A frozen
 * weight has neither its product nor its sum. */
static void add_plain_norm(dl_architecture_layer *layer, const dl_transformer *s, int k)
{
    const bool frozen = s->rank > 0;
    const double n = s->own_tokens * s->width, forward = s->rms ? 7 : 2;
    const double backward = s->rms ? 23 - 4 * frozen : 5 - 2 * frozen;
    dl_layer_add_moves(&layer->forward, (dl_moves){.wide = forward * n,
                                                   .casts = k * n,
                                                   .kernels = s->rms ? 6 : 1,
                                                   .kernels_in_half = k});
    dl_layer_add_moves(&layer->backward,
                       (dl_moves){.wide = (backward + 3 * (k - 1)) * n,
                                  .casts = k * n,
                                  .kernels = (s->rms ? 14 - 2 * frozen : 2 - frozen) + k - 1,
                                  .kernels_in_half = k});
    dl_layer_part *norm = last_part(&layer->forward), *gradients = last_part(&layer->backward);
    norm->weights = gradients->weights = s->norm_parameters;
    norm->kind = gradients->kind = s->rms ? DL_MOVE_PLAIN : DL_MOVE_NORM;
    layer->kept_numbers += (s->rms ? 3 : 2) * n;
    layer->kept_wide += (s->rms ? 2 : 1) * n;
    layer->kept_in_half += (k - 1) * n;
}

/* Adds a norm as in plain PyTorch with a stream of 16 bits. Layer norm is one kernel. RMS norm
 * converts the stream, and the result before its product with the weight, whose passes are narrow
 * (LlamaRMSNorm, as above); so is the sum of gradients. */
static void add_half_norm(dl_architecture_layer *layer, const dl_transformer *s, double n, int k)
{
    const bool frozen = s->rank > 0;
    const double sums = 3 * (k - 1) * n;
    if (s->rms) {
        dl_layer_add_moves(&layer->forward, (dl_moves){.narrow = 2 * n,
                                                       .wide = 5 * n,
                                                       .casts = 2 * n,
                                                       .kernels = 6,
                                                       .kernels_in_half = 2});
        dl_layer_add_moves(&layer->backward, (dl_moves){.narrow = (frozen ? 2 : 6) * n + sums,
                                                        .wide = 17 * n,
                                                        .casts = 2 * n,
                                                        .kernels = 14 - 2 * frozen + k - 1,
                                                        .kernels_in_half = 2});
    } else {
        dl_layer_add_moves(&layer->forward, (dl_moves){.narrow = 2 * n, .kernels = 1});
        dl_layer_add_moves(&layer->backward, (dl_moves){.narrow = (5 - 2 * frozen) * n + sums,
                                                        .kernels = 2 - frozen + k - 1});
        last_part(&layer->forward)->kind = last_part(&layer->backward)->kind = DL_MOVE_NORM;
    }
    layer->kept_numbers += (s->rms ? 3 : 2) * n;
    layer->kept_wide += s->rms ? n : 0;
}

/* Adds a norm of a copy of the stream in 32 bits, whose result has 16: the copy (1 number of 16 bits
 * read, 1 of 32 written) and the norm; backward the norm's kernel and its result's copy in 16 bits.
 * The copy is kept, or made again with the norm. */
static void add_copied_norm(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double n = s->own_tokens * s->width;
    const bool again = s->norm_copies == NORM_COPIES_AGAIN && s->recompute != RECOMPUTE_FULL;
    const dl_moves one = {.narrow = n, .wide = n, .kernels = 1};
    dl_layer_pass *passes[] = {&layer->forward, &layer->backward};
    for (int i = 0; i < 1 + again; i++) {
        dl_layer_add_moves(passes[i], one);
        dl_layer_add_moves(passes[i], one);
        last_part(passes[i])->weights = s->norm_parameters;
        last_part(passes[i])->kind = DL_MOVE_NORM;
    }
    dl_layer_add_moves(&layer->backward, (dl_moves){.narrow = (s->rank > 0 ? 1 : 2) * n,
                                                    .wide = (s->rank > 0 ? 2 : 3) * n,
                                                    .kernels = 1});
    last_part(&layer->backward)->weights = s->norm_parameters;
    last_part(&layer->backward)->kind = DL_MOVE_NORM;
    dl_layer_add_moves(&layer->backward, one);
    layer->kept_numbers += 2 * n;
    layer->kept_wide += again ? 0 : n;
}

/* Adds a norm; with fused kernels, one kernel in each pass. The backward kernel reads both inputs
 * for the input's gradient and, unless frozen, again for the parameters'. */
static void add_norm(dl_architecture_layer *layer, const dl_transformer *s, int readers)
{
    const double stream = s->own_tokens * s->width;
    if (s->fused && s->norm_copies != NORM_COPIES_NO) {
        add_copied_norm(layer, s);
    } else if (s->fused) {
        dl_layer_add_stream(&layer->forward, s, 2 * stream, stream, s->norm_parameters);
        dl_layer_add_stream(&layer->backward, s, (s->rank > 0 ? 3 : 5) * stream, stream,
                            s->norm_parameters);
        last_part(&layer->forward)->kind = last_part(&layer->backward)->kind = DL_MOVE_NORM;
        layer->kept_numbers += 2 * stream;
    } else if (s->halves) {
        add_half_norm(layer, s, stream, readers);
        last_part(&layer->forward)->weights = last_part(&layer->backward)->weights =
            s->norm_parameters;
    } else {
        add_plain_norm(layer, s, readers);
    }
    add_tensors(layer, s, s->norm_parameters > s->width ? 2 : 1, s->width);
}

/* Adds one of the norms of queries and keys, RMS norms that read and write 16 bits even under autocast
 * (huggingface/transformers at 00d4b3d2, models/qwen3/modeling_qwen3.py, Qwen3Attention;
 * models/olmo2/modeling_olmo2.py, Olmo2Attention), where their results and rotation in 32 bits are
 * not counted. Products save queries and keys in any case, norms also their input. */
static void add_inner_norm(dl_architecture_layer *layer, const dl_transformer *s, double size,
                           double weights)
{
    const double n = s->tokens * size;
    if (s->fused) {
        dl_pass_add(&layer->forward, 0, 2 * n, weights, 1)->kind = DL_MOVE_NORM;
        dl_pass_add(&layer->backward, 0, (s->rank > 0 ? 3 : 5) * n, weights, 1)->kind =
            DL_MOVE_NORM;
        layer->kept_numbers += n;
    } else {
        add_half_norm(layer, s, n, 1);
        layer->kept_numbers -= n; /* the result, which rotation does not save */
        last_part(&layer->forward)->weights = last_part(&layer->backward)->weights = weights;
    }
    add_tensors(layer, s, 1, weights);
}

static void add_head_norms(dl_architecture_layer *layer, const dl_transformer *s)
{
    const bool all = s->head_norms == DL_NORMS_ALL;
    const double head = s->query_width / s->heads;
    add_inner_norm(layer, s, s->query_width, all ? s->query_width : head);
    add_inner_norm(layer, s, s->kv_width, all ? s->kv_width : head);
}

/* Returns the outputs of matrix `number` of `matrices`: three are those of queries, keys and
 * values. */
static double part_of(const dl_transformer *s, double outputs, int matrices, int number)
{
    if (matrices != 3) return outputs / matrices;
    return number == 0 ? s->query_width : s->kv_width;
}

void dl_layer_add_product(dl_architecture_layer *layer, const dl_transformer *s, double rows,
                          double inputs, double outputs, int matrices, bool bias)
{
    const double flop = 2 * rows * inputs * outputs;
    const double weights = s->copies * outputs * (inputs + bias);
    const int products = s->fused || matrices == 0 ? 1 : matrices;
    const int copies = (int)s->copies, separate = s->fused ? 1 : copies;
    const int singly = s->fused && s->singly && copies > 1 ? copies : 0;
    const int kernels = products * (singly > 0 ? singly : separate);
    const double numbers = rows * (products * inputs + outputs);
    const bool frozen = s->rank > 0;
    const int ways = frozen ? 1 : 2; /* number of gradients */
    dl_layer_part *forward = dl_pass_add(&layer->forward, flop, numbers, weights, kernels);
    dl_layer_part *backward =
        dl_pass_add(&layer->backward, ways * flop, ways * numbers, ways * weights, ways * kernels);
    forward->narrow = backward->narrow =
        fmin(inputs, outputs) < DL_NARROW || (copies > 1 && rows < copies * DL_NARROW);
    forward->product = (dl_layer_product){.rows = rows / copies,
                                          .inputs = inputs,
                                          .matrices = products,
                                          .experts = copies,
                                          .singly = singly};
    for (int m = 0; m < products; m++)
        forward->product.outputs[m] = products > 1 ? part_of(s, outputs, matrices, m) : outputs;
    backward->product = forward->product;
    backward->product.gradients = ways;
    if (frozen) {
        layer->frozen_flop += flop;
        forward->half_weights = backward->half_weights = 0;
    } else if (s->halves) {
        forward->half_weights = 0;
        backward->half_weights = s->within ? 0 : DL_SUMMED_WEIGHTS * weights;
        forward->expert_weights = backward->expert_weights = copies > 1 ? weights : 0;
        backward->expert_sums = s->within;
    } else {
        forward->kernels_in_half = backward->kernels_in_half = kernels * (1 + bias);
    }
    for (int m = 0; m < matrices; m++)
        add_tensors(layer, s, separate,
                    copies / separate * inputs * part_of(s, outputs, matrices, m));
    if (bias) { /* gradient of the bias */
        if (!frozen) dl_pass_add(&layer->backward, 0, rows * outputs, 0, kernels);
        for (int m = 0; m < matrices; m++)
            add_tensors(layer, s, separate, copies / separate * part_of(s, outputs, matrices, m));
    }
}

void dl_layer_add_elementwise(dl_architecture_layer *layer, double forward, double backward,
                              int kernels)
{
    dl_pass_add(&layer->forward, 0, forward, 0, kernels);
    dl_pass_add(&layer->backward, 0, backward, 0, kernels);
}

/* Packs the frozen weights of `layer`'s last linear layer, `count` numbers, whose products are
 * `forward` and `backward`. Below 8 bits a kernel before each product converts them: it reads
 * packed_bits and writes 16 bits per weight. */
static void pack(dl_architecture_layer *layer, const dl_transformer *s, double count,
                 dl_layer_part *forward, dl_layer_part *backward)
{
    layer->packed_parameters += (int64_t)count;
    if (s->packed_bits >= 8) return;
    forward->half_weights = backward->half_weights = count * (s->packed_bits + 16) / 16;
    forward->kernels_in_half = backward->kernels_in_half = forward->kernels;
}

/* Adds an adapter beside a frozen matrix (Hu et al. 2021, arXiv 2106.09685): two products, from
 * `inputs` to `rank` to `outputs` numbers per token. The result is scaled and added, its gradient
 * is scaled, and the gradient of the input is added; in programs with fused kernels that are not
 * compiled the products do this (unslothai/unsloth, kernels/fast_lora.py; Transformer Engine's
 * ForwardLinearBiasAdd and BackwardLinearAdd), and as many kernels are counted, since the host
 * needs their time all the same (Unsloth on an H100, docs/studies/transformer_layouts.md). The
 * `tensor` GPUs divide the matrix with `inputs` if the layer is divided by inputs, else the one
 * with `outputs`; the `rank` numbers per token that they exchange for it are not counted. */
static void add_adapter(dl_architecture_layer *layer, const dl_transformer *s, double inputs,
                        double outputs, bool divides_inputs)
{
    const double down = s->rank * inputs / (divides_inputs ? 1 : s->tensor);
    const double up = s->rank * outputs / (divides_inputs ? s->tensor : 1);
    const double in = s->tokens * inputs, between = s->tokens * s->rank, out = s->tokens * outputs;
    const double flop = 2 * s->tokens * (down + up), numbers = in + 2 * between + out;
    const bool adds = s->fused && !s->compiled;
    dl_pass_add(&layer->forward, flop, numbers + adds * out, down + up, 2)->narrow = true;
    dl_layer_part *backward =
        dl_pass_add(&layer->backward, 2 * flop, 2 * numbers + adds * in, 2 * (down + up), 4);
    backward->narrow = true;
    backward->product.gradients = 2;
    dl_layer_add_elementwise(layer, adds ? 0 : (s->fused ? 3 : 5) * out,
                             adds ? 0 : 2 * out + 3 * in, 2);
    layer->kept_numbers += between;
    dl_layer_add_tensors(layer, 1, down);
    dl_layer_add_tensors(layer, 1, up);
}

/* Adds a linear layer of a block, which runs in fp8 or nvfp4 if selected. Its input is converted
 * before the forward pass, the gradient of its output before the backward pass, and products read
 * each once or twice; results have 16 bits (Transformer Engine, "Using FP8 with Transformer
 * Engine"). For the weights' gradient the converted input is saved: instead of the `kept` numbers
 * or, if `kept` is 0, in addition, as attention saves its result (TransformerEngine at 0004dbd,
 * transformer_engine/pytorch/module/linear.py, saved_inputmat; layernorm_linear.py, ln_out). With
 * frozen weights each operand is read once and therefore converted to one layout: in fp8 3 bytes
 * moved instead of 4.
 *
 * The layer's matrices are the targets `first` to `last`; if there are several, `last` is the
 * joined one. If none has an adapter, the input is not saved: `kept` numbers, of which each product
 * of plain PyTorch in fp16 has a copy. */
static void add_linear(dl_architecture_layer *layer, const dl_transformer *s, double inputs,
                       double outputs, int matrices, int first, int last, double kept)
{
    const int forward = layer->forward.count, backward = layer->backward.count;
    const int biases = first == O_PROJ      ? DL_BIAS_OUT
                       : last == LINEAR_QKV ? DL_BIAS_QKV
                                            : DL_BIAS_FEED_FORWARD;
    dl_layer_add_product(layer, s, s->tokens, inputs, outputs, matrices, (s->biases & biases) != 0);
    const int products = layer->forward.parts[forward].product.matrices;
    const int casts = products * (s->fused && !s->singly ? 1 : (int)s->copies);
    const double in = s->tokens * products * inputs, out = s->tokens * outputs;
    const bool frozen = s->rank > 0;
    const int layouts = frozen ? 1 : 2;
    layer->forward.parts[forward].low = (dl_low_bits){in, in, layouts, casts};
    layer->backward.parts[backward].low =
        (dl_low_bits){out, frozen ? out : in + 2 * out, layouts, casts};
    if (!frozen) {
        layer->kept_low_instead += kept > 0 ? products * kept : 0;
        layer->kept_low_more += kept > 0 ? 0 : in;
        return;
    }
    if (s->packed_bits > 0)
        pack(layer, s, inputs * outputs, &layer->forward.parts[forward],
             &layer->backward.parts[backward]);
    int adapted = 0;
    for (int t = first; t <= last; t++) {
        const bool joined = t == LINEAR_QKV || t == LINEAR_FC1;
        if (!(s->targets >> t & 1)) continue;
        add_adapter(layer, s, inputs, joined ? outputs : part_of(s, outputs, matrices, t - first),
                    t == O_PROJ || t == DOWN_PROJ);
        adapted += joined ? products : 1;
    }
    if (adapted == 0) layer->kept_numbers -= kept;
    layer->kept_in_half -= (products - fmin(fmax(1, adapted), products)) * kept;
}

/* Adds the sum of a block's output and the stream; the gradient goes to both. */
static void add_sum(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double stream = s->own_tokens * s->width;
    if (s->dropout && !s->fused) {
        const dl_moves one = {.narrow = 2 * stream, .wide = stream / 4, .kernels = 1};
        dl_layer_add_moves(&layer->forward, one);
        dl_layer_add_moves(&layer->backward, one);
        layer->kept_numbers += stream / 4;
        layer->kept_wide += stream / 4;
    }
    dl_pass_add(&layer->forward, 0, 3 * stream, 0, 1)->wide = s->halves ? 0 : 2 * stream;
    dl_layer_add_stream(&layer->backward, s, 3 * stream, stream, 0);
    if (!s->halves) layer->backward.parts[layer->backward.count - 1].kernels_in_half = 1;
}

/* Adds the activation. Plain PyTorch's gate moves 2 numbers for its activation and 3 for its
 * product with the other half, backward 3 for the activation and 3 for each factor; a fused gate 3
 * and 5; an activation without a gate 2 and 3. */
static void add_activation(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double inside = s->tokens * s->inside;
    const int separate = s->fused ? 1 : (int)s->copies;
    if (s->eight_inside) layer->kept_eight_bytes -= (s->gated ? 2 : 1) * inside;
    if (s->fused || !s->gated) {
        dl_layer_add_elementwise(layer, (s->gated ? 3 : 2) * inside, (s->gated ? 5 : 3) * inside,
                                 separate);
        last_part(&layer->forward)->kind = last_part(&layer->backward)->kind = DL_MOVE_ACTIVATION;
        layer->kept_numbers += (s->gated ? 3 : 2) * inside;
        return;
    }
    dl_layer_add_moves(&layer->forward, (dl_moves){.narrow = 5 * inside, .kernels = 2 * separate});
    dl_layer_add_moves(&layer->backward, (dl_moves){.narrow = 9 * inside, .kernels = 3 * separate});
    layer->kept_numbers += 4 * inside;
}

/* Adds the rotary embedding x cos + (-x2, x1) sin of queries and keys. cos and sin have 32 bits,
 * and so does the result, which attention converts. Forward: the two products read 1 + 1 narrow
 * numbers and write wide ones; a sum reads and writes the same number; -x2 and joining the halves
 * move 1 + 2 narrow ones. Backward: two products (2 + 2 wide), each converted; -x2 1; each half's
 * gradient in a tensor of zeros (1 + 1), the sum of the two, the sum of this and the other product
 * (3 + 3), and a copy in the layout of the previous product (2) (modeling_llama.py,
 * apply_rotary_pos_emb). Without autocast cos, sin and all else have 16 bits. */
static void add_rotation(dl_architecture_layer *layer, const dl_transformer *s, double numbers)
{
    const double n = s->tokens * numbers;
    if (s->fused) {
        dl_layer_add_elementwise(layer, 2 * n, 2 * n, 2);
        return;
    }
    if (s->halves) {
        dl_layer_add_moves(&layer->forward, (dl_moves){.narrow = 10 * n, .kernels = 2 * 5});
        dl_layer_add_moves(&layer->backward, (dl_moves){.narrow = 17 * n, .kernels = 2 * 10});
        return;
    }
    dl_layer_add_moves(&layer->forward, (dl_moves){.narrow = 5 * n,
                                                   .wide = 5 * n,
                                                   .casts = n,
                                                   .kernels = 2 * 5,
                                                   .kernels_in_half = 2 * 1});
    dl_layer_add_moves(&layer->backward, (dl_moves){.narrow = 13 * n,
                                                    .wide = 4 * n,
                                                    .casts = 3 * n,
                                                    .kernels = 2 * 10,
                                                    .kernels_in_half = 2 * 3});
}

/* Adds plain PyTorch's operations on the scores between the two products, under autocast:
 * multiplication by a factor (2 narrow), addition of a mask (1 narrow, 1 wide), softmax (2 wide),
 * dropout (2 wide and its mask), conversion for the product. The backward pass has the same
 * operations in reverse order; softmax reads both its result and the gradient; the mask's sum only
 * converts. Queries, keys, values, the result and their gradients are converted to another layout
 * (models/bert/modeling_bert.py, eager_attention_forward). Without autocast all but the dropout's
 * mask is narrow. */
static void add_plain_scores(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double n = s->heads * s->tokens * s->tokens, dropout = s->dropout ? 2.25 : 0;
    const double orders = 2 * s->tokens * (2 * s->query_width + 2 * s->kv_width);
    if (s->halves) {
        const double mask = s->dropout ? n / 4 : 0, more = s->dropout ? 2 * n : 0;
        dl_layer_add_moves(&layer->forward, (dl_moves){.narrow = 7 * n + more + orders,
                                                       .wide = mask,
                                                       .kernels = 3 + s->dropout + 4});
        dl_layer_add_moves(&layer->backward, (dl_moves){.narrow = 5 * n + more + orders,
                                                        .wide = mask,
                                                        .kernels = 2 + s->dropout + 4});
        layer->kept_numbers += n + more / 2 + mask;
        layer->kept_wide += mask;
        return;
    }
    dl_layer_add_moves(&layer->forward, (dl_moves){.narrow = 3 * n + orders,
                                                   .wide = (3 + dropout) * n,
                                                   .casts = n,
                                                   .kernels = 3 + s->dropout + 4,
                                                   .kernels_in_half = 1});
    dl_layer_add_moves(&layer->backward, (dl_moves){.narrow = 2 * n + orders,
                                                    .wide = (3 + dropout) * n,
                                                    .casts = 2 * n,
                                                    .kernels = 2 + s->dropout + 4,
                                                    .kernels_in_half = 2});
    layer->kept_numbers += s->dropout ? 2.25 * n : n;
    layer->kept_wide += s->dropout ? 1.25 * n : n;
    layer->kept_in_half += s->dropout ? 0 : n;
}

/* Adds ring attention. Each GPU that divides the sequence has two of 2 `context` pieces, the first
 * and the last, the second and the second to last, ..., so that all have equal work under a causal
 * mask: in each of `context` steps they attend to the keys and values of another GPU, of which half
 * is masked or half is computed. The results of a step are added to the previous ones, and in the
 * backward pass so are the gradients of queries, and of keys and values, which circulate with
 * these: three numbers moved for each (TransformerEngine, AttnFuncWithCPAndKVP2P in
 * transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py). Counted for the
 * GPU with the last piece, which attends with all queries in each step. */
static void add_ring(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double query = s->tokens * s->query_width, both = 2 * s->tokens * s->kv_width;
    const double steps = s->context, more = steps - 1;
    layer->context_numbers = both;
    dl_layer_part *forward = &layer->forward.parts[layer->forward.count - 1],
                  *backward = &layer->backward.parts[layer->backward.count - 1];
    forward->numbers *= steps;
    forward->kernels *= (int)steps;
    backward->numbers *= steps;
    backward->kernels *= (int)steps;
    dl_pass_add(&layer->forward, 0, 3 * steps * query, 0, (int)steps);
    dl_pass_add(&layer->backward, 0, 3 * more * (query + both), 0, 2 * (int)more);
}

/* Adds what gathering keys and values before attention takes. Each GPU has two of 2 `context` pieces
 * of the queries, and attends with each to all keys and values up to it. The gathered ones are
 * reordered; in the backward pass their gradients are set to zero, added up and reordered
 * (TransformerEngine, AttnFuncWithCPAndKVAllGather). */
static void add_gathered(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double both = 2 * s->tokens * s->kv_width, all = s->context * both;
    layer->context_numbers = both;
    for (int i = 0; i < 2; i++) {
        dl_layer_pass *pass = i == 0 ? &layer->forward : &layer->backward;
        dl_layer_part *own = &pass->parts[pass->count - 1];
        own->numbers += (i == 0 ? 1 : 2) * (all - both);
        own->kernels *= 2;
        dl_pass_add(pass, 0, (i == 0 ? 2 : 8) * all, 0, i == 0 ? 2 : 12);
    }
    layer->working_numbers += 2 * all;
}

/* Adds what exchanging tokens for heads takes: three copies of queries, keys, values and results,
 * or of their gradients, which reorder them before and after an all-to-all (TransformerEngine,
 * flash_attn_a2a_communicate). */
static void add_turned(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double exchanged = 2 * s->tokens * (s->query_width + s->kv_width);
    layer->context_numbers = exchanged / DL_CONTEXT_ALLTOALLS;
    dl_pass_add(&layer->forward, 0, 6 * exchanged, 0, 3 * DL_CONTEXT_ALLTOALLS);
    dl_pass_add(&layer->backward, 0, 6 * exchanged, 0, 3 * DL_CONTEXT_ALLTOALLS);
}

static void divide_sequence(dl_architecture_layer *layer, const dl_transformer *s)
{
    if (s->context_way == DL_CONTEXT_RING) add_ring(layer, s);
    if (s->context_way == DL_CONTEXT_ALLGATHER) add_gathered(layer, s);
    if (s->context_way == DL_CONTEXT_ALLTOALL) add_turned(layer, s);
}

/* Adds the operations on the scores of programs with fused kernels. With dropout each is a kernel,
 * as in NVIDIA's BERT. Without it factor, mask and softmax are one kernel, compiled or that of
 * Megatron-LM (megatron/core/fusions/fused_softmax.py), whose result is kept; its gradient is
 * another. */
static void add_fused_scores(dl_architecture_layer *layer, double scores, bool dropout)
{
    if (dropout)
        dl_layer_add_elementwise(layer, 6 * scores, 7 * scores, 3);
    else
        dl_layer_add_elementwise(layer, 2 * scores, 3 * scores, 1);
    layer->kept_numbers += dropout ? 2 * scores : scores;
}

/* Adds scores, their softmax, and the weighted sum of the values; they are recomputed entirely or
 * not at all. In fp8 queries, keys and values are converted (2 bytes read, 1 written), and saved in
 * 8 bits; in the backward pass so is the gradient of the result (TransformerEngine,
 * transformer_engine/pytorch/attention/dot_product_attention/backends.py, FusedAttnFunc). */
static void add_attention(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double flop = 4 * s->tokens * s->tokens * s->context * s->query_width; /* sum of both
                                                                                  * products */
    const double scores = s->heads * s->tokens * s->tokens;
    const double query = s->tokens * s->query_width, key = s->tokens * s->kv_width;
    if (!s->plain) {
        const double seen = flop * s->seen;
        const bool eight = s->attention == DL_ATTENTION_CUDNN_FP8;
        if (eight) dl_layer_add_elementwise(layer, 1.5 * (query + 2 * key), 1.5 * query, 1);
        dl_layer_part *forward = dl_pass_add(&layer->forward, seen, 2 * query + 2 * key, 0, 1);
        dl_layer_part *backward =
            dl_pass_add(&layer->backward, 2.5 * seen, 4 * query + 4 * key, 0, 2);
        forward->attention = backward->attention = s->attention;
        forward->keys = backward->keys = s->keys;
        backward->reverse = true;
        if (s->seen == 0.5 && s->context == 1 && !eight) {
            forward->heads = backward->heads = s->heads;
            forward->head_size = backward->head_size = s->query_width / s->heads;
        }
        if (eight) layer->kept_eight_bytes -= query + 2 * key;
        if (s->context > 1) divide_sequence(layer, s);
        return;
    }
    dl_pass_add(&layer->forward, flop / 2, query + key + scores, 0, 1);
    if (s->fused) {
        add_fused_scores(layer, scores, s->dropout);
    } else {
        add_plain_scores(layer, s);
    }
    dl_pass_add(&layer->forward, flop / 2, query + key + scores, 0, 1);
    dl_pass_add(&layer->backward, 2 * flop, 4 * (query + key + scores), 0, 4)->product.gradients =
        2;
}

/* Peak number of temporary values in a block's backward pass with fused kernels (without: 0). It is
 * the larger of two: at the activation, the gradients of its inputs and of the block's input and
 * output; in plain attention, the gradients of the scores and of their softmax. */
static double working_of(const dl_transformer *s, int gates)
{
    const double inside = s->experts > 0
                              ? s->active * s->tokens * (gates * s->expert_inside + 2 * s->width)
                              : s->tokens * (gates * s->inside + 2 * s->width);
    const double scores = s->plain ? 2 * s->heads * s->tokens * s->tokens : 0;
    return s->fused ? fmax(inside, scores) : 0;
}

/* Repeats forward parts [first, last) at the start of the backward pass. */
static void add_again(dl_architecture_layer *layer, int first, int last)
{
    for (int p = first; p < last; p++)
        *dl_pass_add(&layer->backward, 0, 0, 0, 0) = layer->forward.parts[p];
}

/* Limits the saved numbers to these; the rest is recomputed in the backward pass. */
static void keep_only(dl_architecture_layer *layer, double numbers, double wide, double half)
{
    layer->working_numbers += layer->kept_numbers - numbers + layer->kept_in_half - half;
    layer->working_wide += layer->kept_wide - wide;
    layer->kept_numbers = numbers;
    layer->kept_wide = wide;
    layer->kept_in_half = half;
}

/* Recomputes as torchtitan's policy "op", which saves the first, third, ... of consecutive
 * products, and fused attention (torchtitan/distributed/activation_checkpoint.py), and recomputes
 * everything else, including the batched products of plain attention. Attention is forward parts
 * [core, behind). */
static void recompute_products(dl_architecture_layer *layer, const dl_transformer *s, int core,
                               int behind)
{
    const bool apart = projections(s) == 3;
    const double stream = s->own_tokens * s->width, qkv = s->query_width + 2 * s->kv_width;
    const double again[] = {apart ? s->kv_width / qkv : 0, 1, s->gated ? 0.5 : 0, !s->gated};
    const int count = layer->forward.count;
    for (int p = 0, product = 0; p < count; p++) {
        const dl_layer_part *part = &layer->forward.parts[p];
        const bool inside = p >= core && p < behind;
        const double share = part->attention ? 0 : part->flop > 0 && !inside ? again[product++] : 1;
        if (share == 0) continue;
        dl_layer_part *copy = dl_pass_add(&layer->backward, 0, 0, 0, 0);
        *copy = *part;
        copy->flop *= share;
        copy->numbers *= share;
        if (share < 1) copy->product.rows = 0;
    }
    const double attended = s->plain ? 0 : s->query_width;
    keep_only(layer,
              s->tokens * (attended + (apart ? s->query_width + s->kv_width : qkv) + s->inside) +
                  (s->gated ? 2 : 1) * stream,
              s->halves ? 0 : stream, 0);
}

/* Sets the number of all-reduces of the stream, or of pairs of all-gather and reduce-scatter,
 * before a block's first products and after its last ones, forward and backward. */
static void set_collectives(dl_architecture_layer *layer, const dl_transformer *s, double forward,
                            double backward)
{
    if (s->tensor == 1) return;
    layer->tensor_numbers = s->tokens * s->width;
    layer->tensor_forward = forward;
    layer->tensor_backward = backward;
}

/* Adds the kernels that accumulate gradients. Programs without autocast keep sums of 16-bit
 * gradients in 32 bits, to which each micro-batch adds with one kernel per tensor. If the products
 * themselves add (`within`), the `matrices` weight matrices of the layer need no such kernel. The
 * bytes are counted with the weights. */
static void add_to_sums(dl_architecture_layer *layer, const dl_transformer *s, int matrices)
{
    const int apart = dl_layer_tensors(layer) - (s->within && s->rank == 0 ? matrices : 0);
    if (s->halves) layer->backward.parts[0].kernels_in_half += apart;
}

/* Adds collectives of the backward pass that run concurrently with products. The gradients of the
 * inputs of a block's two products divided by `outputs` are reduced during the products for
 * gradients of their weights. With sequence parallelism these inputs are also gathered again,
 * during the products for gradients of inputs, while the gradients of the block's two results are
 * gathered without overlap (Korthikanti et al. 2022, Megatron-LM's
 * LinearWithGradAccumulationAndAsyncCommunication). Those around experts do not overlap
 * (set_collectives): `products` are the others. */
static void add_beside(dl_architecture_layer *layer, const dl_transformer *s, int products,
                       double outputs)
{
    layer->tensor_beside = products;
    layer->beside_flop = (s->by_tokens ? 2 : 1) * 2 * s->tokens * s->width * outputs;
}

void dl_layer_add_feed_forward(dl_architecture_layer *layer, const dl_transformer *s, double kept)
{
    const int gates = s->gated ? 2 : 1;
    add_linear(layer, s, s->width, s->inside * gates, gates, s->gated ? GATE_PROJ : UP_PROJ,
               LINEAR_FC1, kept);
    add_activation(layer, s);
    add_linear(layer, s, s->inside, s->width, 1, DOWN_PROJ, DOWN_PROJ, s->tokens * s->inside);
}

/* Adds the products before latent attention (DeepSeek-AI 2024, DeepSeek-V2, arXiv 2405.04434,
 * section 2.1): queries by way of a latent vector or at once; latent keys and values, with the part
 * of the keys that is rotated and the same for all heads, and from them all heads' keys and values;
 * norms of both latent vectors. Rotated parts are joined to the others: queries and keys, and with
 * fused kernels the values, are read and written once (huggingface/transformers,
 * models/deepseek_v3/modeling_deepseek_v3.py, DeepseekV3Attention). Returns the number of weight
 * matrices. */
static int add_latent_products(dl_architecture_layer *layer, const dl_transformer *s)
{
    const double heads = s->heads, stream = s->own_tokens * s->width;
    const double whole = heads * (s->head_width + s->rotated_width);
    const double inside = heads * (s->head_width + s->value_width);
    if (s->query_rank > 0) {
        add_linear(layer, s, s->width, s->query_rank, 1, Q_PROJ, Q_PROJ, stream);
        add_inner_norm(layer, s, s->query_rank, s->query_rank);
        add_linear(layer, s, s->query_rank, whole, 1, Q_PROJ, Q_PROJ, s->tokens * s->query_rank);
    } else {
        add_linear(layer, s, s->width, whole, 1, Q_PROJ, Q_PROJ, stream);
    }
    add_linear(layer, s, s->width, s->latent_rank + s->rotated_width, 1, K_PROJ, K_PROJ, 0);
    add_inner_norm(layer, s, s->latent_rank, s->latent_rank);
    add_linear(layer, s, s->latent_rank, inside, 1, V_PROJ, V_PROJ, s->tokens * s->latent_rank);
    layer->kept_numbers += s->tokens * (s->query_rank + s->latent_rank);
    add_rotation(layer, s, (heads + 1) * s->rotated_width);
    const double joined = s->tokens * (s->fused ? 2 * inside : 4 * whole);
    dl_layer_add_elementwise(layer, joined, joined, s->fused ? 1 : 2);
    return s->query_rank > 0 ? 4 : 3;
}

static void add_block(dl_architecture *architecture, const dl_transformer *s, char *name)
{
    dl_architecture_layer *layer = dl_architecture_add(architecture, name);
    const double stream = s->own_tokens * s->width, qkv = s->query_width + 2 * s->kv_width;
    const int gates = s->gated ? 2 : 1;
    const bool latent = s->latent_rank > 0;
    int apart = projections(s);
    add_norm(layer, s, (latent ? 2 : apart) + (s->parallel ? gates : 0));
    if (latent)
        apart = add_latent_products(layer, s);
    else
        add_linear(layer, s, s->width, qkv, apart, apart > 1 ? Q_PROJ : LINEAR_QKV, LINEAR_QKV,
                   stream);
    if (s->head_norms != DL_NORMS_NOT) add_head_norms(layer, s);
    if (s->positions == 0 && s->latent_rank == 0)
        add_rotation(layer, s, s->query_width + s->kv_width);
    const int core = layer->forward.count;
    const double numbers = layer->kept_numbers, wide = layer->kept_wide, half = layer->kept_in_half;
    add_attention(layer, s);
    const int behind = layer->forward.count;
    if (s->recompute == RECOMPUTE_SELECTIVE) keep_only(layer, numbers, wide, half);
    add_linear(layer, s, latent ? s->heads * s->value_width : s->query_width, s->width, 1, O_PROJ,
               O_PROJ, 0);
    if (s->post_norms) add_norm(layer, s, 1);
    add_sum(layer, s);
    const bool experts = s->experts > 0, shared = experts && s->shared_inside > 0;
    if (!s->parallel) add_norm(layer, s, experts ? 1 : gates);
    if (experts) {
        dl_layer_add_experts(layer, s);
    } else {
        dl_layer_add_feed_forward(layer, s, stream);
    }
    if (s->post_norms) add_norm(layer, s, 1);
    add_sum(layer, s);
    layer->output_numbers = s->tokens * s->width / s->tensor;
    /* Also saved: queries, keys and values, and attention's result. */
    layer->kept_numbers += s->tokens * (s->query_width + qkv);
    layer->working_numbers += working_of(s, gates);
    add_to_sums(layer, s, apart + 1 + (1 + shared) * (gates + 1));
    const bool full = s->recompute == RECOMPUTE_FULL;
    if (s->norm_copies == NORM_COPIES_AGAIN && !full && !s->parallel)
        dl_layer_add_stream(&layer->backward, s, 3 * stream, 0,
                            0); /* the sum before the second norm */
    if (full) {
        add_again(layer, 0, layer->forward.count);
        keep_only(layer, stream, s->halves ? 0 : stream, 0);
    } else if (s->recompute == RECOMPUTE_SELECTIVE) {
        add_again(layer, core, behind);
    } else if (s->recompute == RECOMPUTE_PRODUCTS) {
        recompute_products(layer, s, core, behind);
    }
    /* Recomputation keeps tensors of 16 bits: blocks' inputs, or torchao's inputs of products
     * (float8_linear.py, input_hp). */
    layer->recasts = full || s->recompute == RECOMPUTE_PRODUCTS;
    if (layer->recasts)
        layer->kept_low_instead = layer->kept_low_more = layer->kept_eight_bytes = 0;
    layer->rings_again = full || s->recompute == RECOMPUTE_SELECTIVE;
    if (full) layer->expert_backward += layer->expert_forward;
    /* With frozen weights no products for weights' gradients overlap the reduction of inputs'
     * gradients. */
    const double alone = s->by_tokens ? 0.5 : 0; /* half a pair: a result's gradient is only
                                                  * gathered */
    const double waits = s->rank > 0 ? 2 : experts ? 1 + alone + shared * alone : 2 * alone;
    set_collectives(layer, s, 2 + shared, waits + (full ? 2 + shared : 0));
    if (s->tensor > 1 && s->rank == 0)
        add_beside(layer, s, experts ? 1 + shared : 2,
                   qkv + gates * (!experts ? s->inside
                                  : shared ? s->shared_inside
                                           : 0));
}

static void add_embedding(dl_architecture *architecture, const dl_transformer *s)
{
    const double tables[] = {s->vocabulary, s->positions, s->segments};
    const double rows = tables[0] + tables[1] + tables[2];
    dl_architecture_layer *layer = dl_architecture_add(architecture, dl_strdup("embedding"));
    const double stream = s->own_tokens * s->width;
    dl_layer_add_stream(&layer->forward, s, 2 * stream, 0, 0);
    dl_layer_add_stream(&layer->backward, s, 2 * stream, 0, rows * s->width);
    if (s->positions > 0) {
        dl_layer_add_stream(&layer->forward, s, 3 * stream, 0, 0);
        dl_layer_add_stream(&layer->backward, s, stream, 0, 0);
    }
    if (s->dropout && !s->fused) {
        add_wide(&layer->forward, 2.25 * stream, 0);
        add_wide(&layer->backward, 2.25 * stream, 0);
        layer->kept_numbers += stream / 4;
        layer->kept_wide += stream / 4;
    }
    for (int t = 0; t < 3; t++)
        if (tables[t] > 0) add_tensors(layer, s, 1, tables[t] * s->width);
    layer->output_numbers = s->tokens * s->width / s->tensor;
    set_collectives(layer, s, s->by_tokens ? 0.5 : 1, s->by_tokens && s->rank == 0 ? 0.5 : 0);
    if (!s->causal) add_norm(layer, s, 1); /* its result is the first block's input */
    if (s->metrics > 0) { /* after the last backward pass: the scores in 16 bits, and twice in 32
                           * bits */
        layer->working_numbers = 3 * s->tokens * s->vocabulary;
        layer->working_wide = 2 * s->tokens * s->vocabulary;
    }
    if (s->rank > 0) {
        layer->backward.count = 0; /* no gradients are needed before the first adapter */
        layer->kept_numbers = layer->kept_wide = layer->kept_in_half = 0;
    }
}

/* Adds the last norm, the scores of all tokens, and the loss. Its log-softmax reads the scores for
 * the maximum and the sum, and again to write the result. The loss's gradient is set to zero except
 * one number per token, and then read with the log-softmax to write the gradient of the scores. At
 * that point two such gradients, the log-softmax, which the backward pass needs, and the 16-bit
 * scores are in memory. Megatron's fused cross-entropy saves the softmax and writes 16-bit
 * gradients (megatron/core/fusions/fused_cross_entropy.py); a single kernel saves only the scores:
 * it reads them for the loss, and again to write their gradient
 * (flash_attn/losses/cross_entropy.py; Transformer Engine's cross_entropy.py).
 *
 * Each metric converts the scores to 32 bits and computes their log-softmax, as
 * torch.nn.CrossEntropyLoss does under autocast (Composer, Trainer._eval_train_metrics,
 * composer/metrics/nlp.py, LanguageCrossEntropy; llm-foundry's MPT also has LanguagePerplexity).
 *
 * torch.compile pads a product's columns for tensor cores (shape_padding in
 * torch/_inductor/config.py); the copies that it may need are not counted. */
static void add_token_head(dl_architecture *architecture, const dl_transformer *s)
{
    dl_architecture_layer *layer = dl_architecture_add(architecture, dl_strdup("head"));
    const double scores = s->tokens * s->vocabulary;
    add_norm(layer, s, 1);
    dl_layer_add_product(layer, s, s->tokens, s->width, s->vocabulary, s->tied ? 0 : 1, false);
    if (!s->compiled) {
        layer->forward.parts[layer->forward.count - 1].odd_columns = (int)s->vocabulary;
        layer->backward.parts[layer->backward.count - 1].odd_columns = (int)s->vocabulary;
    }
    if (s->softcap) { /* a factor, tanh, a factor (modeling_gemma2.py); tanh saves its result */
        dl_layer_add_elementwise(layer, (s->fused ? 2 : 6) * scores, (s->fused ? 3 : 7) * scores,
                                 s->fused ? 1 : 3);
        layer->kept_numbers += scores;
    }
    if (s->loss == LOSS_FUSED) {
        dl_layer_add_elementwise(layer, scores, 2 * scores, 1);
    } else {
        add_wide(&layer->forward, 3 * scores, scores);
        add_wide(&layer->backward, 4 * scores, scores);
    }
    last_part(&layer->forward)->kind = last_part(&layer->backward)->kind = DL_MOVE_LOSS;
    for (int m = 0; m < s->metrics; m++) {
        add_wide(&layer->forward, 3 * scores, scores);
        last_part(&layer->forward)->kind = DL_MOVE_LOSS;
    }
    layer->output_numbers = scores;
    add_to_sums(layer, s, s->tied ? 0 : 1);
    set_collectives(layer, s, s->by_tokens ? 0.5 : 0, 1);
    layer->kept_numbers += scores - (s->rank > 0 ? s->own_tokens * s->width : 0);
    layer->kept_wide += s->loss == LOSS_FUSED ? 0 : scores;
    layer->working_numbers = s->loss == LOSS_PLAIN ? 3 * scores : scores;
    layer->working_wide = s->loss == LOSS_PLAIN ? 2 * scores : 0;
}

/* Adds a dense layer on the first token. */
static void add_pooler(dl_architecture *architecture, const dl_transformer *s)
{
    dl_architecture_layer *layer = dl_architecture_add(architecture, dl_strdup("head"));
    dl_layer_add_product(layer, s, 1, s->width, s->width, 1, s->biases != 0);
    dl_layer_add_elementwise(layer, 2 * s->width, 3 * s->width, 1);
    layer->output_numbers = s->width;
    layer->kept_numbers = 2 * s->width;
}

void dl_transformer_add(dl_architecture *architecture, const dl_transformer *s)
{
    add_embedding(architecture, s);
    for (int b = 1; b <= s->blocks; b++) {
        dl_transformer block = *s;
        if (s->full_every > 0 && b % s->full_every == 0) { /* without a window */
            block.seen = 0.5;
            block.keys = s->tokens * s->context;
        }
        if (b <= s->dense_blocks) block.experts = 0;
        add_block(architecture, &block, dl_format("block%d", b));
    }
    if (s->causal) {
        add_token_head(architecture, s);
    } else {
        add_pooler(architecture, s);
    }
}
