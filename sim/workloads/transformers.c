/* Transformers by name: their keys, and the sizes derived from them. */
#include <math.h>

#include "sim/workloads/transformer.h"

enum {
    LAYERS,
    WIDTH,
    HEADS,
    HEAD_WIDTH,
    KV_HEADS,
    QUERY_RANK,
    LATENT_RANK,
    ROTATED_WIDTH,
    VALUE_WIDTH,
    FEED_FORWARD,
    EXPERTS,
    ACTIVE,
    EXPERT_WIDTH,
    SHARED_WIDTH,
    DENSE_BLOCKS,
    SEQUENCE,
    WINDOW,
    FULL_EVERY,
    VOCABULARY,
    POSITIONS,
    SEGMENTS,
    KIND,
    ATTENTION,
    GATED,
    NORM,
    NORM_COPIES,
    POST_NORMS,
    QK_NORM,
    PARALLEL,
    BIAS,
    TIED,
    SOFTCAP,
    FUSE,
    AUTOCAST,
    DROPOUT,
    TENSOR,
    CONTEXT,
    EXPERT_RANKS,
    CONTEXT_WAY,
    DISPATCH,
    GROUPED,
    GRAPHS,
    SEQUENCE_PARALLEL,
    RECOMPUTE,
    SUMS,
    LOSS,
    METRICS,
    LORA,
    LORA_TARGETS,
    FROZEN_BITS,
    DOUBLE_QUANT,
    FP8_ACTIVATION,
    KEYS
};
_Static_assert(KEYS <= DL_NETWORK_KEYS_MAX, "values of a network have room for all keys");
enum { NO, YES, COMPILED };
enum { DECODER, ENCODER };
enum { FUSED, PLAIN, CUDNN, CUDNN_FP8, TRITON, FLASH2 };
enum { LAYER_NORM, RMS_NORM };
static const char *const no_yes[] = {"no", "yes", NULL};
static const char *const fusions[] = {"no", "yes", "compiled", NULL};
static const char *const biases[] = {"no", "yes", "qkv", "attention", "feed_forward", NULL};
enum { QKV_BIASES = 2 }; /* index of "qkv" in `biases` */
static const int products_with_biases[] = {0, DL_BIAS_QKV | DL_BIAS_OUT | DL_BIAS_FEED_FORWARD,
                                           DL_BIAS_QKV, DL_BIAS_QKV | DL_BIAS_OUT,
                                           DL_BIAS_FEED_FORWARD};
static const char *const yes_no[] = {"yes", "no", NULL};
static const char *const kinds[] = {"decoder", "encoder", NULL};
static const char *const attentions[] = {"fused",  "plain",  "cudnn", "cudnn_fp8",
                                         "triton", "flash2", NULL};
static const char *const sums[] = {"apart", "within", NULL};
static const char *const context_ways[] = {"p2p", "all_gather", "a2a", NULL};
static const char *const dispatchers[] = {"alltoall", "deepep", NULL};
static const char *const head_norms[] = {"no", "heads", "all", NULL};
static const char *const norm_copies[] = {"no", "yes", "again", NULL};
static const char *const norms[] = {"layer", "rms", NULL};
static const char *const losses[] = {"plain", "megatron", "fused", NULL};
static const char *const recomputed[] = {"none", "selective", "full", "products", NULL};

static const char *const targets[] = {"q_proj",    "k_proj",     "v_proj",  "linear_qkv",
                                      "o_proj",    "gate_proj",  "up_proj", "linear_fc1",
                                      "down_proj", "all-linear", NULL};

static const dl_network_key keys[KEYS] = {
    [LAYERS] = {"layers", NULL, 1, 1000, "number of blocks", NULL},
    [WIDTH] = {"width", NULL, 1, 1 << 20, "size of the vectors between blocks", NULL},
    [HEADS] = {"heads", NULL, 1, 1 << 16, "number of attention heads; must divide the width", NULL},
    [HEAD_WIDTH] = {"head_width", NULL, 0, 1 << 16, "size of a head; 0: width / heads", NULL},
    [KV_HEADS] = {"kv_heads", NULL, 0, 1 << 16,
                  "number of heads of keys and values; 0: as many "
                  "as heads",
                  NULL},
    [QUERY_RANK] = {"query_rank", NULL, 0, 1 << 20,
                    "size of the latent vector from which queries are made; 0: none", NULL},
    [LATENT_RANK] = {"kv_rank", NULL, 0, 1 << 20,
                     "size of the latent vector from which keys and values are made (multi-head "
                     "latent attention, DeepSeek V2 and V3); 0: none",
                     NULL},
    [ROTATED_WIDTH] = {"rope_width", NULL, 0, 1 << 16,
                       "with kv_rank: further numbers of a head's queries and keys, with rotary "
                       "embedding",
                       NULL},
    [VALUE_WIDTH] = {"value_width", NULL, 0, 1 << 16, "with kv_rank: size of a head's values",
                     NULL},
    [FEED_FORWARD] = {"feed_forward", NULL, 0, 1 << 22,
                      "inner size of the feed-forward layer; "
                      "0: 4 x width",
                      NULL},
    [EXPERTS] = {"experts", NULL, 0, 4096,
                 "number of experts in a block, in place of its "
                 "feed-forward layer; 0: none",
                 NULL},
    [ACTIVE] = {"active", NULL, 0, 4096, "number of experts that each token uses", NULL},
    [EXPERT_WIDTH] = {"expert_width", NULL, 0, 1 << 22, "inner size of an expert; 0: feed_forward",
                      NULL},
    [SHARED_WIDTH] = {"shared_width", NULL, 0, 1 << 22,
                      "inner size of all experts together that every token uses; 0: none", NULL},
    [DENSE_BLOCKS] = {"dense_blocks", NULL, 0, 1000, "number of first blocks without experts",
                      NULL},
    [SEQUENCE] = {"sequence", NULL, 1, 1 << 24, "number of tokens in a sample", NULL},
    [WINDOW] =
        {"window", NULL, 0, 1 << 24,
         "number of tokens, itself included, to which a token attends in fused attention; 0: all "
         "before it",
         NULL},
    [FULL_EVERY] = {"full_every", NULL, 0, 1000,
                    "with a window: every nth block attends to all tokens; 0: none", NULL},
    [VOCABULARY] = {"vocabulary", NULL, 1, 1 << 24, "number of different tokens", NULL},
    [POSITIONS] = {"positions", NULL, 0, 1 << 24,
                   "number of learned positions; 0: rotary "
                   "embedding",
                   NULL},
    [SEGMENTS] = {"segments", NULL, 0, 1 << 10, "number of learned segments", NULL},
    [KIND] = {"kind", kinds, 0, 0,
              "decoder: causal, predicts every token; encoder: bidirectional, with one dense "
              "layer on the first token",
              NULL},
    [ATTENTION] =
        {"attention", attentions, 0, 0,
         "fused: FlashAttention-2, on Blackwell cuDNN's; plain: the scores are written to "
         "memory; flash2: FlashAttention-2 on Blackwell too; cudnn: kernels for Hopper and later, "
         "as FlashAttention-3, on MI300X aiter's, which MI350X always has; cudnn_fp8: with "
         "products in fp8 (Transformer Engine's fp8_dpa); triton: FlashAttention's first kernel in "
         "Triton, on GPUs of compute capability 8.x (MPT's attn_impl: triton)",
         NULL},
    [GATED] = {"gated", no_yes, 0, 0, "the feed-forward layer has a third matrix (SwiGLU)", NULL},
    [NORM] = {"norm", norms, 0, 0, "layer norm, or RMS norm, which has no shift", NULL},
    [POST_NORMS] = {"post_norms", no_yes, 0, 0,
                    "also norms of the results of attention and feed-forward (Gemma 2)", NULL},
    [QK_NORM] = {"qk_norm", head_norms, 0, 0,
                 "RMS norms of queries and keys: no, heads: of each head (Qwen3, Gemma 3), all: of "
                 "all heads together (OLMo 2)",
                 NULL},
    [PARALLEL] = {"parallel", no_yes, 0, 0,
                  "attention and feed-forward have one norm and the same input (GPT-J, Falcon, "
                  "Phi-2, Command R)",
                  NULL},
    [BIAS] = {"bias", biases, 0, 0,
              "matrix products with biases: no, yes: all of a block, qkv: those of queries, keys "
              "and values, attention: also that of its result, feed_forward: those of the "
              "feed-forward layer",
              NULL},
    [TIED] = {"tied", no_yes, 0, 0, "the head has the embedding's weights", NULL},
    [SOFTCAP] = {"softcap", no_yes, 0, 0, "the head's scores pass a tanh (Gemma 2)", NULL},
    [FUSE] =
        {"fused", fusions, 0, 0,
         "yes: norms, rotation and gates are one kernel each, as in Megatron; compiled: the "
         "same, weights in 16 bits too, by torch.compile, which pads odd vocabularies, and whose "
         "launches take the host less time; no: they are plain PyTorch's operations",
         NULL},
    [AUTOCAST] = {"autocast", yes_no, 0, 0,
                  "in 16 bits: yes: torch.autocast, with the vectors between blocks in fp32; no: "
                  "these and gathered weights have 16 bits (FSDP's MixedPrecision)",
                  .only = "fused=no"},
    /* In fused attention: 1.25 forward and 1.5 backward on a GB200, with heads of 64 and 128
     * (Dao-AILab/flash-attention pull request 2597), 1.14 in all with heads of 64 and 1.02 with 128
     * on a GB10 (2439). */
    [DROPOUT] = {"dropout", no_yes, 0, 0,
                 "dropout on the scores of plain attention, and with fused=no after attention and "
                 "feed-forward; not counted: inside fused attention, which then takes up to 1.5 "
                 "times as long",
                 .only = "attention=plain or fused=no"},
    [TENSOR] = {"tp", NULL, 1, 1 << 10,
                "number of GPUs that divide heads, feed-forward and vocabulary (padded to 128 tp)",
                NULL},
    [CONTEXT] = {"cp", NULL, 0, 1 << 10,
                 "number of GPUs that divide each sequence, with fused attention; 0: none", NULL},
    [CONTEXT_WAY] = {"cp_comm_type", context_ways, 0, 0,
                     "with cp > 1, as in Megatron-LM. p2p: keys and values circulate during "
                     "attention; all_gather: they are gathered before it (Llama 3); a2a: GPUs "
                     "exchange their tokens for heads (DeepSpeed-Ulysses)",
                     NULL},
    [EXPERT_RANKS] = {"ep", NULL, 0, 4096,
                      "number of GPUs that divide the experts, with fused kernels; 0: none", NULL},
    [DISPATCH] = {"dispatch", dispatchers, 0, 0,
                  "with ep > 1: how tokens get to their experts. alltoall: a copy for each expert; "
                  "deepep: one for each GPU, and between nodes one for each node (also HybridEP)",
                  NULL},
    [GROUPED] =
        {"grouped", yes_no, 0, 0,
         "a product for all experts of a GPU is one kernel (torch._grouped_mm); no: one for each "
         "expert, which takes the host longer (Transformer Engine's GroupedLinear)",
         .only = "fused=yes or fused=compiled"},
    [GRAPHS] = {"graphs", no_yes, 0, 0,
                "CUDA graphs replay each micro-batch, which takes the host 43 us in all", NULL},
    [SEQUENCE_PARALLEL] = {"sequence_parallel", no_yes, 0, 0,
                           "with tp > 1: norms and sums are divided by tokens; no: each GPU "
                           "computes all of them",
                           NULL},
    [NORM_COPIES] = {"norm_copies", norm_copies, 0, 0,
                     "norms read a copy of the stream in 32 bits. again: the backward pass makes "
                     "it and the norm again, and the sum before it, unless it repeats whole blocks "
                     "(InternEvo: norm1(residual.float()), dropout_selective_checkpoint)",
                     .only = "fused=yes"},
    [SUMS] = {"sums", sums, 0, 0,
              "32-bit sums of gradients are updated apart, or within the products (Megatron-LM's "
              "gradient accumulation fusion)",
              .only = "fused=yes"},
    [RECOMPUTE] =
        {"recompute", recomputed, 0, 0,
         "activations that the backward pass computes again. selective: the core of attention; "
         "full: whole blocks, which keep their input only; products: all but attention and every "
         "second product (torchtitan's selective)",
         NULL},
    [LOSS] = {"loss", losses, 0, 0,
              "kind of the loss, by its bytes in memory per 16-bit score: plain 14, megatron 6 "
              "(its fused cross-entropy), fused 4 (FlashAttention's, Transformer Engine's, or "
              "compiled); only fused takes less time",
              NULL},
    [METRICS] = {"metrics", NULL, 0, 16,
                 "number of metrics that compute the loss of all tokens again, in fp32 and without "
                 "gradients, after each micro-batch (llm-foundry: 2)",
                 NULL},
    [LORA] = {"lora", NULL, 0, 1 << 16,
              "rank of adapters that are trained in place of all weights; 0: none", NULL},
    [LORA_TARGETS] =
        {"lora_targets", targets, 0, 1,
         "matrices with adapters, joined by +: q_proj, k_proj and v_proj, or linear_qkv for all "
         "three; o_proj; gate_proj and up_proj, or linear_fc1; down_proj; all-linear; "
         "default q_proj+v_proj",
         NULL},
    [FROZEN_BITS] =
        {"frozen_bits", NULL, 0, 32,
         "bits of a frozen weight in memory: 4 (NF4) or 8 in the linear layers of blocks, with "
         "16 in others, as by bitsandbytes; 16; 32; 4 is converted before each product; 0: 16, "
         "in fp32 and tf32 32",
         NULL},
    [DOUBLE_QUANT] = {"double_quant", no_yes, 0, 0,
                      "with frozen_bits = 4: the maximum of 64 weights has 8 bits, and that of "
                      "256 of these has 32 (0.127 per weight); no: 32 bits (0.5 per weight)",
                      NULL},
    [FP8_ACTIVATION] = {"fp8_activation", no_yes, 0, 0,
                        "with fp8: inputs of the activation are kept in 8 bits, too "
                        "(Megatron-LM's activation_func_fp8_input_store)",
                        NULL},
};

static dl_status not_divided(dl_error *err, const char *by, int64_t number, const char *what,
                             int64_t all)
{
    return dl_error_set(err, DL_ERR_RANGE, "%s = %lld does not divide %s = %lld", by,
                        (long long)number, what, (long long)all);
}

/* Fraction of the scores of all pairs of tokens that is not masked, from the areas of the masked
 * triangles. */
static double seen_part(const int64_t *values)
{
    const double window = (double)values[WINDOW] / (double)values[SEQUENCE];
    if (values[KIND] == ENCODER) return 1;
    return values[WINDOW] > 0 && window < 1 ? window * (1 - window / 2) : 0.5;
}

/* Number of tokens in a sequence, or in the window if that is shorter. */
static double keys_of(const int64_t *values)
{
    const bool windowed = values[WINDOW] > 0 && values[WINDOW] < values[SEQUENCE];
    return (double)values[windowed ? WINDOW : SEQUENCE];
}

/* Implementation of fused attention, which plain attention does not use. */
static dl_attention attention_of(const int64_t *values)
{
    switch (values[ATTENTION]) {
    case CUDNN: return DL_ATTENTION_CUDNN;
    case CUDNN_FP8: return DL_ATTENTION_CUDNN_FP8;
    case TRITON: return DL_ATTENTION_TRITON;
    case FLASH2: return DL_ATTENTION_FLASH2;
    default: return DL_ATTENTION_FUSED;
    }
}

/* Checks the keys of experts, whose sizes tensor parallelism divides as it does feed_forward. */
static dl_status check_experts(const int64_t *values, dl_error *err)
{
    static const int own[] = {ACTIVE, EXPERT_WIDTH, SHARED_WIDTH, DENSE_BLOCKS};
    const int64_t experts = values[EXPERTS], active = values[ACTIVE], tensor = values[TENSOR];
    if (values[EXPERT_RANKS] > 1 && experts == 0)
        return dl_error_set(err, DL_ERR_RANGE,
                            "ep = %lld divides experts, and this network has none",
                            (long long)values[EXPERT_RANKS]);
    for (size_t k = 0; k < sizeof own / sizeof *own && experts == 0; k++)
        if (values[own[k]] > 0)
            return dl_error_set(err, DL_ERR_RANGE, "%s = %lld: this needs experts",
                                keys[own[k]].name, (long long)values[own[k]]);
    if (experts == 0) return DL_OK;
    if (active < 1 || active > experts)
        return dl_error_set(err, DL_ERR_RANGE, "active = %lld: 1 to experts = %lld",
                            (long long)active, (long long)experts);
    if (values[DENSE_BLOCKS] >= values[LAYERS])
        return dl_error_set(err, DL_ERR_RANGE,
                            "dense_blocks = %lld: fewer than layers = %lld, or experts = 0",
                            (long long)values[DENSE_BLOCKS], (long long)values[LAYERS]);
    if (values[EXPERT_RANKS] > 1 && experts % values[EXPERT_RANKS] != 0)
        return not_divided(err, "ep", values[EXPERT_RANKS], "experts", experts);
    if (values[EXPERT_RANKS] > 1 && values[FUSE] == NO)
        return dl_error_set(
            err, DL_ERR_RANGE,
            "ep = %lld: only with fused = yes or compiled, as with no each GPU has all "
            "experts",
            (long long)values[EXPERT_RANKS]);
    if (values[EXPERT_WIDTH] % tensor != 0)
        return not_divided(err, "tp", tensor, "expert_width", values[EXPERT_WIDTH]);
    if (values[SHARED_WIDTH] % tensor != 0)
        return not_divided(err, "tp", tensor, "shared_width", values[SHARED_WIDTH]);
    if (values[AUTOCAST] != 0)
        return dl_error_set(err, DL_ERR_RANGE, "autocast = no: not with experts");
    if (values[LORA] > 0 || values[RECOMPUTE] == RECOMPUTE_PRODUCTS)
        return dl_error_set(err, DL_ERR_RANGE, "experts = %lld: %s", (long long)experts,
                            values[LORA] > 0 ? "not with lora"
                                             : "recompute = none, selective, full");
    return DL_OK;
}

/* Checks the keys of latent attention. */
static dl_status check_latent(const int64_t *values, int64_t context, dl_error *err)
{
    static const int own[] = {QUERY_RANK, ROTATED_WIDTH, VALUE_WIDTH};
    for (size_t k = 0; k < sizeof own / sizeof *own && values[LATENT_RANK] == 0; k++)
        if (values[own[k]] > 0)
            return dl_error_set(err, DL_ERR_RANGE, "%s = %lld: this needs kv_rank",
                                keys[own[k]].name, (long long)values[own[k]]);
    if (values[LATENT_RANK] == 0) return DL_OK;
    if (values[VALUE_WIDTH] == 0)
        return dl_error_set(err, DL_ERR_RANGE, "kv_rank = %lld: this needs value_width",
                            (long long)values[LATENT_RANK]);
    if (values[TENSOR] > 1 || context > 1 || values[LORA] > 0 || values[BIAS] != 0 ||
        values[RECOMPUTE] == RECOMPUTE_PRODUCTS || values[QK_NORM] != 0)
        return dl_error_set(err, DL_ERR_RANGE,
                            "kv_rank = %lld: not with tp, cp, lora, bias, qk_norm or recompute = "
                            "products",
                            (long long)values[LATENT_RANK]);
    return DL_OK;
}

static dl_status check(const int64_t *values, int64_t kv_heads, int64_t inside, int64_t context,
                       dl_error *err)
{
    const int64_t heads = values[HEADS], tensor = values[TENSOR];
    if (context > 1 && values[ATTENTION] == PLAIN) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "cp = %lld: attention = plain has all scores in one GPU's memory; "
                            "fused or cudnn",
                            (long long)context);
    }
    if (values[FULL_EVERY] > 0 && values[WINDOW] == 0) {
        return dl_error_set(err, DL_ERR_RANGE, "full_every = %lld: this needs a window",
                            (long long)values[FULL_EVERY]);
    }
    if (values[WINDOW] > 0 && (context > 1 || values[KIND] == ENCODER)) {
        return dl_error_set(err, DL_ERR_RANGE, "window = %lld: not with %s",
                            (long long)values[WINDOW], context > 1 ? "cp" : "kind = encoder");
    }
    if (values[METRICS] > 0 && values[KIND] == ENCODER)
        return dl_error_set(err, DL_ERR_RANGE,
                            "metrics = %lld: an encoder has no scores of words; kind = decoder",
                            (long long)values[METRICS]);
    if (context > 1 && values[SEQUENCE] % (2 * context) != 0)
        return not_divided(err, "2 cp", 2 * context, "sequence", values[SEQUENCE]);
    if (context > 1 && values[CONTEXT_WAY] == DL_CONTEXT_ALLTOALL &&
        kv_heads % (tensor * context) != 0)
        return not_divided(err, "cp_comm_type = a2a: tp cp", tensor * context, "kv_heads",
                           kv_heads);
    if (values[HEAD_WIDTH] == 0 && values[WIDTH] % heads != 0)
        return not_divided(err, "heads", heads, "width", values[WIDTH]);
    if (heads % kv_heads != 0) return not_divided(err, "kv_heads", kv_heads, "heads", heads);
    if (heads % tensor != 0) return not_divided(err, "tp", tensor, "heads", heads);
    if (kv_heads % tensor != 0 && tensor % kv_heads != 0)
        return not_divided(err, "tp", tensor, "kv_heads", kv_heads);
    if (inside % tensor != 0) return not_divided(err, "tp", tensor, "feed_forward", inside);
    if (values[LORA] > 0 && values[RECOMPUTE] == RECOMPUTE_PRODUCTS)
        return dl_error_set(err, DL_ERR_RANGE,
                            "recompute = products: with lora none, selective, full");
    if (values[POSITIONS] > 0 && values[SEQUENCE] > values[POSITIONS]) {
        return dl_error_set(err, DL_ERR_RANGE, "sequence = %lld: only %lld positions are learned",
                            (long long)values[SEQUENCE], (long long)values[POSITIONS]);
    }
    const dl_status status = check_latent(values, context, err);
    return status != DL_OK ? status : check_experts(values, err);
}

/* Sets the size of frozen weights in memory. 4-bit weights come in blocks of 64 with a 32-bit
 * maximum each, or with an 8-bit maximum and one 32-bit value per 256 of these (Dettmers et al.
 * 2023, QLoRA, arXiv 2305.14314, section 3). bitsandbytes packs torch.nn.Linear except the head
 * (transformers, get_keys_to_not_convert), Transformer Engine its own linear layers
 * (fp8_model_init). */
static dl_status take_bits(const int64_t *values, dl_architecture *architecture, dl_transformer *s,
                           dl_error *err)
{
    const int64_t bits = values[FROZEN_BITS];
    const bool twice = values[DOUBLE_QUANT] == YES;
    if (bits != 0 && bits != 4 && bits != 8 && bits != 16 && bits != 32)
        return dl_error_set(err, DL_ERR_RANGE,
                            "frozen_bits = %lld: 4 (bitsandbytes' NF4), 8 (its int8, Transformer "
                            "Engine's fp8), 16 or 32",
                            (long long)bits);
    if (twice && bits != 4)
        return dl_error_set(err, DL_ERR_RANGE, "double_quant = yes: this needs frozen_bits = 4");
    const double maximum = twice ? 8 / 64.0 + 32 / (64.0 * 256) : 32 / 64.0;
    s->packed_bits = bits == 4 ? 4 + maximum : bits == 8 ? 8 : 0;
    architecture->packed_bits = s->packed_bits;
    architecture->frozen_bits = s->packed_bits > 0 ? 16 : (int)bits;
    return DL_OK;
}

/* Sets and checks the matrices with adapters; the default is PEFT's for Llama and GPT-2. */
static dl_status take_targets(const int64_t *values, dl_transformer *s, dl_error *err)
{
    const bool joined = s->joined;
    const int64_t query_value = joined ? 1 << LINEAR_QKV : 1 << Q_PROJ | 1 << V_PROJ;
    const int64_t all = query_value | !joined << K_PROJ | 1 << O_PROJ | s->gated << GATE_PROJ |
                        1 << UP_PROJ | 1 << DOWN_PROJ;
    const int64_t lacks =
        joined << Q_PROJ | joined << K_PROJ | joined << V_PROJ | !s->gated << GATE_PROJ;
    s->targets = values[LORA_TARGETS];
    if (s->rank == 0 && (s->targets > 0 || values[FROZEN_BITS] > 0))
        return dl_error_set(err, DL_ERR_RANGE, "%s: this needs lora, the rank",
                            s->targets > 0 ? "lora_targets" : "frozen_bits");
    if (s->targets == 0) s->targets = query_value;
    if (s->targets == 1 << ALL_LINEAR) s->targets = all;
    for (int t = Q_PROJ; t <= GATE_PROJ; t++) {
        if (!(s->targets & lacks & 1 << t)) continue;
        return dl_error_set(err, DL_ERR_RANGE, "lora_targets = %s: blocks have %s", targets[t],
                            t == GATE_PROJ ? "no gate: up_proj" : "one matrix: linear_qkv");
    }
    return DL_OK;
}

/* Columns of a GPU's part of the vocabulary, padded like Megatron-LM's if tp > 1. */
static double part_of_vocabulary(int64_t vocabulary, int64_t tensor)
{
    const int64_t multiple = tensor > 1 ? 128 * tensor : 1;
    return (double)((vocabulary + multiple - 1) / multiple * multiple / tensor);
}

/* Sets the members of the architecture that describe the whole network. */
static void describe(dl_architecture *architecture, const dl_transformer *s, const int64_t *values)
{
    architecture->sequence = values[SEQUENCE];
    architecture->unfused = !s->fused;
    architecture->compiled = values[FUSE] == COMPILED;
    architecture->graphs = values[GRAPHS] != NO;
    architecture->attention = s->plain ? DL_ATTENTION_NOT : s->attention;
    architecture->experts = (int)values[EXPERTS];
    architecture->active = (int)values[ACTIVE];
    architecture->blocks = s->blocks;
    architecture->kv_heads = (int)(values[KV_HEADS] > 0 ? values[KV_HEADS] : values[HEADS]);
    architecture->by_tokens = values[SEQUENCE_PARALLEL] == YES;
    architecture->tensor = (int)values[TENSOR];
    architecture->context = values[CONTEXT] > 0 ? (int)values[CONTEXT] : 1;
    architecture->context_way = s->context_way;
    architecture->expert_ranks = values[EXPERT_RANKS] > 0 ? (int)values[EXPERT_RANKS] : 1;
    architecture->tensor_calls = s->tensor > 1 ? 1 + s->by_tokens : 0;
    const double cached = s->latent_rank > 0 ? s->latent_rank + s->rotated_width : 2 * s->kv_width;
    architecture->cache_numbers = !s->causal ? 0 : cached * (double)values[LAYERS];
}

/* Counts the kernels of the same network in plain PyTorch under autocast. */
static void count_plain(dl_architecture *architecture, dl_transformer s)
{
    dl_architecture plain = {0};
    s.fused = s.halves = false;
    dl_transformer_add(&plain, &s);
    for (int h = 0; h < 2; h++)
        architecture->plain_kernels[h] = dl_architecture_kernels(&plain, h == 1, false);
    dl_architecture_free(&plain);
}

/* Sets which kernels compute the network. */
static void take_kernels(const int64_t *values, dl_transformer *s)
{
    s->plain = values[ATTENTION] == PLAIN;
    s->attention = attention_of(values);
    s->keys = keys_of(values);
    s->fused = values[FUSE] != NO;
    s->compiled = values[FUSE] == COMPILED;
    s->halves = s->fused || values[AUTOCAST] != 0;
    s->within = values[SUMS] == 1;
    s->singly = values[GROUPED] != 0;
    s->eight_inside = values[FP8_ACTIVATION] == YES;
}

/* Takes the widths of latent attention with heads of `head` numbers. */
static void take_latent(const int64_t *values, double head, dl_transformer *s)
{
    s->query_rank = (double)values[QUERY_RANK];
    s->latent_rank = (double)values[LATENT_RANK];
    s->rotated_width = (double)values[ROTATED_WIDTH];
    s->value_width = (double)values[VALUE_WIDTH];
    s->head_width = head;
    s->query_width = s->kv_width = s->heads * (head + s->rotated_width + s->value_width) / 2;
}

static dl_status build(dl_architecture *architecture, const dl_named_network *network DL_UNUSED,
                       const int64_t *values, dl_error *err)
{
    const int64_t kv_heads = values[KV_HEADS] > 0 ? values[KV_HEADS] : values[HEADS];
    const int64_t inside = values[FEED_FORWARD] > 0 ? values[FEED_FORWARD] : 4 * values[WIDTH];
    const bool encoder = values[KIND] == ENCODER;
    const int64_t context = values[CONTEXT] > 0 ? values[CONTEXT] : 1;
    dl_status status = check(values, kv_heads, inside, context, err);
    if (status != DL_OK) return status;
    const double width = (double)values[WIDTH], tensor = (double)values[TENSOR];
    const double heads = (double)values[HEADS] / tensor;
    const double head = values[HEAD_WIDTH] > 0 ? (double)values[HEAD_WIDTH] : width / values[HEADS];
    const bool by_tokens = tensor > 1 && values[SEQUENCE_PARALLEL] == YES;
    const double tokens = (double)(values[SEQUENCE] / context);
    dl_transformer s = {
        .tokens = tokens,
        .positions = (double)values[POSITIONS],
        .segments = (double)values[SEGMENTS],
        .context = (double)context,
        .context_way = (dl_context_way)values[CONTEXT_WAY],
        .seen = seen_part(values),
        .own_tokens = tokens / (by_tokens ? tensor : 1),
        .width = width,
        .query_width = head * heads,
        .kv_width = head * fmax(1, (double)kv_heads / tensor),
        .inside = (double)inside / tensor,
        .experts = (double)values[EXPERTS],
        .active = (double)values[ACTIVE],
        .expert_ranks = values[EXPERT_RANKS] > 0 ? (double)values[EXPERT_RANKS] : 1,
        .sends_once = values[EXPERT_RANKS] > 1 && values[DISPATCH] == 1,
        .expert_inside = (values[EXPERT_WIDTH] > 0 ? values[EXPERT_WIDTH] : inside) / tensor,
        .shared_inside = (double)values[SHARED_WIDTH] / tensor,
        .dense_blocks = (int)values[DENSE_BLOCKS],
        .copies = 1,
        .vocabulary = part_of_vocabulary(values[VOCABULARY], values[TENSOR]),
        .heads = heads,
        .norm_parameters = values[NORM] == RMS_NORM ? width : 2 * width,
        .tensor = tensor,
        .rank = (double)values[LORA],
        .recompute = (int)values[RECOMPUTE],
        .loss = (int)values[LOSS],
        .metrics = (int)values[METRICS],
        .norm_copies = (int)values[NORM_COPIES],
        .blocks = (int)values[LAYERS],
        .joined = !encoder && values[BIAS] == YES && values[GATED] != YES,
        .biases = products_with_biases[values[BIAS]],
        .gated = values[GATED] == YES,
        .post_norms = values[POST_NORMS] == YES,
        .head_norms = (int)values[QK_NORM],
        .parallel = values[PARALLEL] == YES,
        .softcap = values[SOFTCAP] == YES,
        .full_every = (int)values[FULL_EVERY],
        .causal = !encoder,
        .tied = values[TIED] == YES,
        .rms = values[NORM] == RMS_NORM,
        .dropout = values[DROPOUT] == YES,
        .by_tokens = by_tokens,
    };
    take_kernels(values, &s);
    if (values[LATENT_RANK] > 0) take_latent(values, head, &s);
    status = take_targets(values, &s, err);
    if (status == DL_OK) status = take_bits(values, architecture, &s, err);
    if (status != DL_OK) return status;
    describe(architecture, &s, values);
    dl_transformer_add(architecture, &s);
    if (values[FUSE] == YES && !s.within && s.rank == 0) count_plain(architecture, s);
    return DL_OK;
}

#define NETWORK(title, text, ...)                \
    {                                            \
        .name = title, .help = text, .values = { \
            [TENSOR] = 1,                        \
            [SEQUENCE_PARALLEL] = YES,           \
            __VA_ARGS__                          \
        }                                        \
    }
#define SIZE(deep, wide, count, length) \
    [LAYERS] = deep, [WIDTH] = wide, [HEADS] = count, [SEQUENCE] = length
#define BERT(title, deep, wide, count, words, places, parts, text)                                 \
    NETWORK(title, text, SIZE(deep, wide, count, 512), [VOCABULARY] = words, [POSITIONS] = places, \
            [SEGMENTS] = parts, [KIND] = ENCODER, [BIAS] = YES, [TIED] = YES, [DROPOUT] = YES)
#define GPT2(title, deep, wide, count, text)                                                      \
    NETWORK(title, text, SIZE(deep, wide, count, 1024), [VOCABULARY] = 50257, [POSITIONS] = 1024, \
            [BIAS] = YES, [TIED] = YES, [DROPOUT] = YES)
#define GATED_DECODER(title, deep, wide, count, per, kv, inner, all, each, own, length,        \
                      vocabulary_, biases, tie, text)                                          \
    NETWORK(title, text, SIZE(deep, wide, count, length), [HEAD_WIDTH] = per, [KV_HEADS] = kv, \
            [FEED_FORWARD] = inner, [EXPERTS] = all, [ACTIVE] = each, [EXPERT_WIDTH] = own,    \
            [VOCABULARY] = vocabulary_, [GATED] = YES, [NORM] = RMS_NORM, [BIAS] = biases,     \
            [TIED] = tie)
#define LLAMA(title, deep, wide, count, kv, inner, length, vocabulary_, tie, text)               \
    GATED_DECODER(title, deep, wide, count, 0, kv, inner, 0, 0, 0, length, vocabulary_, NO, tie, \
                  text)
#define QWEN2(title, deep, wide, count, kv, inner, vocabulary_, tie, text)                        \
    GATED_DECODER(title, deep, wide, count, 0, kv, inner, 0, 0, 0, 4096, vocabulary_, QKV_BIASES, \
                  tie, text)
#define QWEN3(title, deep, wide, count, kv, inner, all, each, own, tie, text)                   \
    NETWORK(title, text, SIZE(deep, wide, count, 4096), [HEAD_WIDTH] = 128, [KV_HEADS] = kv,    \
            [FEED_FORWARD] = inner, [EXPERTS] = all, [ACTIVE] = each, [EXPERT_WIDTH] = own,     \
            [VOCABULARY] = 151936, [GATED] = YES, [NORM] = RMS_NORM, [QK_NORM] = DL_NORMS_HEAD, \
            [TIED] = tie)
#define GEMMA(title, deep, wide, count, per, kv, inner, seen, words, ...)                   \
    NETWORK(title, "text, 4096 tokens", SIZE(deep, wide, count, 4096), [HEAD_WIDTH] = per,  \
            [KV_HEADS] = kv, [FEED_FORWARD] = inner, [WINDOW] = seen, [VOCABULARY] = words, \
            [GATED] = YES, [NORM] = RMS_NORM, [POST_NORMS] = YES, [TIED] = YES, __VA_ARGS__)
#define GEMMA2(title, deep, wide, count, per, kv, inner) \
    GEMMA(title, deep, wide, count, per, kv, inner, 4096, 256000, [SOFTCAP] = YES, [FULL_EVERY] = 2)
#define GEMMA3(title, deep, wide, count, per, kv, inner)  \
    GEMMA(title, deep, wide, count, per, kv, inner, 1024, \
          262208, [QK_NORM] = DL_NORMS_HEAD, [FULL_EVERY] = 6)
#define OLMO2(title, deep, wide, count, inner)                                           \
    NETWORK(title, "4096 tokens", SIZE(deep, wide, count, 4096), [FEED_FORWARD] = inner, \
            [VOCABULARY] = 100352, [GATED] = YES, [NORM] = RMS_NORM, [QK_NORM] = DL_NORMS_ALL)
#define GPT_OSS(title, deep, all, text)                                                           \
    NETWORK(title, text,                                                                          \
            SIZE(deep, 2880, 64, 4096), [HEAD_WIDTH] = 64, [KV_HEADS] = 8, [FEED_FORWARD] = 2880, \
            [EXPERTS] = all, [ACTIVE] = 4, [WINDOW] = 128, [FULL_EVERY] = 2,                      \
            [VOCABULARY] = 201088, [GATED] = YES, [NORM] = RMS_NORM, [BIAS] = YES)
#define DEEPSEEK(title, deep, wide, count, latent, inner, all, each, own, shared, first, words, \
                 text)                                                                          \
    NETWORK(                                                                                    \
        title, text, SIZE(deep, wide, count, 4096), [HEAD_WIDTH] = 128, [QUERY_RANK] = latent,  \
        [LATENT_RANK] = 512, [ROTATED_WIDTH] = 64, [VALUE_WIDTH] = 128, [FEED_FORWARD] = inner, \
        [EXPERTS] = all, [ACTIVE] = each, [EXPERT_WIDTH] = own, [SHARED_WIDTH] = shared,        \
        [DENSE_BLOCKS] = first, [VOCABULARY] = words, [GATED] = YES, [NORM] = RMS_NORM)

/* The patches' projection counts as a table with one row per input and one row for its bias. */
#define VIT(title, deep, wide, count, length, inputs, text)                      \
    NETWORK(title, text, SIZE(deep, wide, count, length), [VOCABULARY] = inputs, \
            [POSITIONS] = length, [KIND] = ENCODER, [BIAS] = YES)

static const dl_named_network networks[] = {
    BERT("bert_base", 12, 768, 12, 30522, 512, 2,
         "Devlin et al. 2019, with its pooler, 512 tokens"),
    BERT("bert_large", 24, 1024, 16, 30522, 512, 2, "the same"),
    BERT("distilbert_base", 6, 768, 12, 30522, 512, 0, "the same, a classifier's dense layer"),
    BERT("roberta_base", 12, 768, 12, 50265, 514, 1, "the same, with its pooler"),
    BERT("roberta_large", 24, 1024, 16, 50265, 514, 1, "the same"),
    GPT2("gpt2", 12, 768, 12, "Radford et al. 2019, 1024 tokens"),
    GPT2("gpt2_medium", 24, 1024, 16, "the same"),
    GPT2("gpt2_large", 36, 1280, 20, "the same"),
    GPT2("gpt2_xl", 48, 1600, 25, "the same"),
    LLAMA("llama", 32, 4096, 32, 0, 11008, 4096, 32000, NO, "Llama 2 of 7 B, 4096 tokens"),
    LLAMA("llama2_13b", 40, 5120, 40, 0, 13824, 4096, 32000, NO, "the same of 13 B"),
    LLAMA("llama2_70b", 80, 8192, 64, 8, 28672, 4096, 32000, NO, "the same of 70 B"),
    LLAMA("llama3_8b", 32, 4096, 32, 8, 14336, 8192, 128256, NO, "Llama 3 of 8 B, 8192 tokens"),
    LLAMA("llama3_70b", 80, 8192, 64, 8, 28672, 8192, 128256, NO, "the same of 70 B"),
    LLAMA("llama3_405b", 126, 16384, 128, 8, 53248, 8192, 128256, NO, "the same of 405 B"),
    LLAMA("llama3.2_1b", 16, 2048, 32, 8, 8192, 8192, 128256, YES, "Llama 3.2 of 1 B, 8192 tokens"),
    LLAMA("llama3.2_3b", 28, 3072, 24, 8, 8192, 8192, 128256, YES, "the same of 3 B"),
    LLAMA("tinyllama_1.1b", 22, 2048, 32, 4, 5632, 2048, 32000, NO, "2048 tokens"),
    LLAMA("smollm2_135m", 30, 576, 9, 3, 1536, 8192, 49152, YES, "8192 tokens"),
    LLAMA("smollm2_360m", 32, 960, 15, 5, 2560, 8192, 49152, YES, "the same"),
    LLAMA("smollm2_1.7b", 24, 2048, 32, 0, 8192, 8192, 49152, YES, "the same"),
    LLAMA("phi3_mini", 32, 3072, 32, 0, 8192, 4096, 32064, NO, "3.8 B, 4096 tokens"),
    LLAMA("mistral_7b", 32, 4096, 32, 8, 14336, 4096, 32000, NO, "Mistral 7B v0.1, 4096 tokens"),
    QWEN2("qwen2.5_0.5b", 24, 896, 14, 2, 4864, 151936, YES, "Qwen2.5, 4096 tokens"),
    QWEN2("qwen2.5_1.5b", 28, 1536, 12, 2, 8960, 151936, YES, "the same"),
    QWEN2("qwen2.5_3b", 36, 2048, 16, 2, 11008, 151936, YES, "the same"),
    QWEN2("qwen2.5_7b", 28, 3584, 28, 4, 18944, 152064, NO, "the same"),
    QWEN2("qwen2.5_14b", 48, 5120, 40, 8, 13824, 152064, NO, "the same"),
    QWEN2("qwen2.5_32b", 64, 5120, 40, 8, 27648, 152064, NO, "the same"),
    QWEN2("qwen2.5_72b", 80, 8192, 64, 8, 29568, 152064, NO, "the same"),
    QWEN3("qwen3_0.6b", 28, 1024, 16, 8, 3072, 0, 0, 0, YES, "Qwen3, 4096 tokens"),
    QWEN3("qwen3_1.7b", 28, 2048, 16, 8, 6144, 0, 0, 0, YES, "the same"),
    QWEN3("qwen3_4b", 36, 2560, 32, 8, 9728, 0, 0, 0, YES, "the same"),
    QWEN3("qwen3_8b", 36, 4096, 32, 8, 12288, 0, 0, 0, NO, "the same"),
    QWEN3("qwen3_14b", 40, 5120, 40, 8, 17408, 0, 0, 0, NO, "the same"),
    QWEN3("qwen3_32b", 64, 5120, 64, 8, 25600, 0, 0, 0, NO, "the same"),
    GEMMA2("gemma2_2b", 26, 2304, 8, 256, 4, 9216),
    GEMMA2("gemma2_9b", 42, 3584, 16, 256, 8, 14336),
    GEMMA2("gemma2_27b", 46, 4608, 32, 128, 16, 36864),
    GEMMA3("gemma3_4b", 34, 2560, 8, 256, 4, 10240),
    GEMMA3("gemma3_12b", 48, 3840, 16, 256, 8, 15360),
    GEMMA3("gemma3_27b", 62, 5376, 32, 128, 16, 21504),
    OLMO2("olmo2_7b", 32, 4096, 32, 11008),
    OLMO2("olmo2_13b", 40, 5120, 40, 13824),
    LLAMA("phi4", 40, 5120, 40, 10, 17920, 4096, 100352, NO, "4096 tokens"),
    GATED_DECODER("mistral_nemo_12b", 40, 5120, 32, 128, 8, 14336, 0, 0, 0, 4096, 131072, NO, NO,
                  "4096 tokens"),
    GATED_DECODER("mistral_small_24b", 40, 5120, 32, 128, 8, 32768, 0, 0, 0, 4096, 131072, NO, NO,
                  "Mistral Small 3, the same"),
    GATED_DECODER("mixtral_8x7b", 32, 4096, 32, 128, 8, 14336, 8, 2, 0, 4096, 32000, NO, NO,
                  "12.9 B active, 4096 tokens"),
    GATED_DECODER("mixtral_8x22b", 56, 6144, 48, 128, 8, 16384, 8, 2, 0, 4096, 32768, NO, NO,
                  "39 B active"),
    QWEN3("qwen3_30b_a3b", 48, 2048, 32, 4, 6144, 128, 8, 768, NO, "3.3 B active"),
    QWEN3("qwen3_235b_a22b", 94, 4096, 64, 4, 12288, 128, 8, 1536, NO, "22 B active"),
    DEEPSEEK("deepseek_v2_lite", 27, 2048, 16, 0, 10944, 64, 6, 1408, 2816, 1, 102400,
             "2.7 B active, 4096 tokens"),
    DEEPSEEK("deepseek_v2", 60, 5120, 128, 1536, 12288, 160, 6, 1536, 3072, 1, 102400,
             "21 B active"),
    DEEPSEEK("deepseek_v3", 61, 7168, 128, 1536, 18432, 256, 8, 2048, 2048, 3, 129280,
             "37 B active, without the module for further tokens"),
    GPT_OSS("gpt_oss_20b", 24, 32, "3.6 B active, 4096 tokens"),
    GPT_OSS("gpt_oss_120b", 36, 128, "5.1 B active"),
    VIT("vit_b", 12, 768, 12, 197, 769, "ViT-B/16, 224 x 224 pixels, without classes"),
    VIT("vit_l", 24, 1024, 16, 197, 769, "ViT-L/16, the same"),
    VIT("vit_h", 32, 1280, 16, 257, 589, "ViT-H/14, the same"),
    GPT2("transformer", 12, 768, 12, "any other, from its keys; without them as gpt2"),
};

static const char with_experts[] =
    "models with experts are mixtral_8x7b, mixtral_8x22b, qwen3_30b_a3b, qwen3_235b_a22b, "
    "deepseek_v2_lite, deepseek_v2, deepseek_v3, gpt_oss_20b, gpt_oss_120b, and others as "
    "transformer:experts=..,active=..";

static const dl_word network_words[] = {
    {"llama_7b", "llama", NULL},
    {"llama2_7b", "llama", NULL},
    {"llama_13b", "llama2_13b", NULL},
    {"gpt2_small", "gpt2", NULL},
    {"mixtral", "mixtral_8x7b", NULL},
    {"qwen2_0.5b", "qwen2.5_0.5b", NULL},
    {"qwen2_1.5b", "qwen2.5_1.5b", NULL},
    {"qwen2_7b", "qwen2.5_7b", NULL},
    {"qwen2_72b", "qwen2.5_72b", NULL},
    {"qwen3_30b", "qwen3_30b_a3b", NULL},
    {"qwen3_235b", "qwen3_235b_a22b", NULL},
    {"deepseek", NULL, with_experts},
    {"deepseek_r1", "deepseek_v3", NULL},
    {"gpt_oss", NULL, with_experts},
    {"olmo_2_1124_7b", "olmo2_7b", NULL},
    {"olmo_2_1124_13b", "olmo2_13b", NULL},
    {"mistral_nemo_base_2407", "mistral_nemo_12b", NULL},
    {"mistral_small_24b_base_2501", "mistral_small_24b", NULL},
    {"moe", NULL, with_experts},
    {"vit_b_16", "vit_b", NULL},
    {"vit_base", "vit_b", NULL},
    {"vit_base_patch16_224", "vit_b", NULL},
    {"vit_l_16", "vit_l", NULL},
    {"vit_large", "vit_l", NULL},
    {"vit_large_patch16_224", "vit_l", NULL},
    {"vit_huge", "vit_h", NULL},
    {"llama3.1_8b", "llama3_8b", NULL},
    {"llama3.1_70b", "llama3_70b", NULL},
    {"llama3.1_405b", "llama3_405b", NULL},
    {"mistral", "mistral_7b", NULL},
    {"bert", "bert_base", NULL},
    {"roberta", "roberta_base", NULL},
    {"distilbert", "distilbert_base", NULL},
    {"tinyllama", "tinyllama_1.1b", NULL},
    {"tinyllama_1.1b_chat_v1.0", "tinyllama_1.1b", NULL},
    {"tinyllama_v1.1", "tinyllama_1.1b", NULL},
    {"phi_3_mini_4k", "phi3_mini", NULL},
    {"phi_3.5_mini", "phi3_mini", NULL},
    {NULL, NULL, NULL},
};

/* Names in config.json of Hugging Face's transformers, and others. */
static const dl_word key_words[] = {
    {"compile", NULL, "write fused=compiled"},
    {"torch_compile", NULL, "write fused=compiled"},
    {"attn_implementation", "attention", NULL},
    {"attn", "attention", NULL},
    {"num_layers", "layers", NULL},
    {"n_layer", "layers", NULL},
    {"n_embd", "width", NULL},
    {"n_embed", "width", NULL},
    {"n_head", "heads", NULL},
    {"n_inner", "feed_forward", NULL},
    {"num_hidden_layers", "layers", NULL},
    {"hidden_size", "width", NULL},
    {"num_attention_heads", "heads", NULL},
    {"num_key_value_heads", "kv_heads", NULL},
    {"num_kv_heads", "kv_heads", NULL},
    {"q_lora_rank", "query_rank", NULL},
    {"kv_lora_rank", "kv_rank", NULL},
    {"qk_rope_head_dim", "rope_width", NULL},
    {"v_head_dim", "value_width", NULL},
    {"head_dim", "head_width", NULL},
    {"tensor", "tp", NULL},
    {"context", "cp", NULL},
    {"cp_comm", "cp_comm_type", NULL},
    {"intermediate_size", "feed_forward", NULL},
    {"ffn_dim", "feed_forward", NULL},
    {"ffn_hidden_size", "feed_forward", NULL},
    {"seq_len", "sequence", NULL},
    {"seq_length", "sequence", NULL},
    {"sliding_window", "window", NULL},
    {"vocab_size", "vocabulary", NULL},
    {"type_vocab_size", "segments", NULL},
    {"num_experts", "experts", NULL},
    {"num_local_experts", "experts", NULL},
    {"n_routed_experts", "experts", NULL},
    {"first_k_dense_replace", "dense_blocks", NULL},
    {"num_experts_per_tok", "active", NULL},
    {"top_k", "active", NULL},
    {"moe_intermediate_size", "expert_width", NULL},
    {"shared_expert_intermediate_size", "shared_width", NULL},
    {"checkpoint", "recompute", NULL},
    {"activation_checkpointing", "recompute", NULL},
    {"gradient_checkpointing", "recompute", NULL},
    {"activation_func_fp8_input_store", "fp8_activation", NULL},
    {"lora_rank", "lora", NULL},
    {"lora_r", "lora", NULL},
    {"target_modules", "lora_targets", NULL},
    {NULL, NULL, NULL},
};

const dl_network_kind dl_transformers = {.title = "transformers",
                                         .class = DL_MODEL_TRANSFORMER,
                                         .keys = keys,
                                         .key_count = KEYS,
                                         .networks = networks,
                                         .network_count = sizeof networks / sizeof *networks,
                                         .network_words = network_words,
                                         .key_words = key_words,
                                         .build = build};
