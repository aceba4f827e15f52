/* Networks by their definition: parameters against published counts, the rest against hand
 * calculations. */
#include <stdlib.h>

#include "tests/near.h"
#include "tests/network.h"

static double forward_flop(const dl_architecture *architecture)
{
    double sum = 0;
    for (size_t l = 0; l < architecture->layer_count; l++)
        sum += dl_pass_flop(&architecture->layers[l].forward);
    return sum;
}

static double backward_flop(const dl_architecture *architecture)
{
    double sum = 0;
    for (size_t l = 0; l < architecture->layer_count; l++)
        sum += dl_pass_flop(&architecture->layers[l].backward);
    return sum;
}

/* Sources: torchvision's documentation of its models; transformers' of bert-base-uncased and
 * bert-large-uncased (with pooler) and of GPT-2's four sizes; the checkpoints of Llama 2 7B, Llama
 * 3 8B, Llama 3.2, Qwen2.5 and 3, Gemma 2 and 3 (of text), OLMo 2, Phi-4, Mistral, DeepSeek (of V3
 * without corrections of scores and the module for further tokens), and gpt-oss, without its sinks
 * and biases of routers. */
static void parameters_are_the_published_ones(void **state DL_UNUSED)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } cases[] = {
        {"vgg16", 138357544},
        {"vgg19", 143667240},
        {"vgg19_bn_imagenet", 143678248},
        {"resnet18", 11689512},
        {"resnet34", 21797672},
        {"resnet50", 25557032},
        {"resnet101", 44549160},
        {"resnet152", 60192808},
        {"bert_base", 109482240},
        {"bert_large", 335141888},
        {"distilbert_base", 66362880 + 768 * 768 + 768},
        {"roberta_base", 124645632},
        {"roberta_large", 355359744},
        {"tinyllama_1.1b", 1100048384},
        {"smollm2_135m", 134515008},
        {"smollm2_360m", 361821120},
        {"smollm2_1.7b", 1711376384},
        {"phi3_mini", 3821079552},
        {"gpt2", 124439808},
        {"gpt2_medium", 354823168},
        {"gpt2_large", 774030080},
        {"gpt2_xl", 1557611200},
        {"llama", 6738415616},
        {"llama3_405b", 405853388800},
        {"mistral_7b", 7241732096},
        {"llama3_8b", 8030261248},
        {"vgg19_bn", 20040522},
        {"transformer", 124439808},
        {"llama3.2_1b", 1235814400},
        {"llama3.2_3b", 3212749824},
        {"qwen2.5_0.5b", 494032768},
        {"qwen2.5_1.5b", 1543714304},
        {"qwen2.5_3b", 3085938688},
        {"qwen2.5_7b", 7615616512},
        {"qwen3_0.6b", 596049920},
        {"qwen3_8b", 8190735360},
        {"gemma2_2b", 2614341888},
        {"gemma2_9b", 9241705984},
        {"gemma2_27b", 27227128320},
        {"gemma3_4b", 3880263168},
        {"gemma3_12b", 11766034176},
        {"gemma3_27b", 27009346304},
        {"olmo2_7b", 7298617344},
        {"olmo2_13b", 13716198400},
        {"phi4", 14659507200},
        {"mistral_nemo_12b", 12247782400},
        {"mistral_small_24b", 23572403200},
        {"deepseek_v2_lite", 15706484224},
        {"deepseek_v2", 235741434880},
        {"deepseek_v3", 671026404352},
        {"gpt_oss_20b", 20914757184 - 24 * (64 + 32)},
        {"gpt_oss_120b", 116829156672 - 36 * (64 + 128)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_SCOPED(dl_architecture) a = network_of(cases[i].name);
        if (dl_architecture_parameters(&a) != cases[i].parameters) {
            fail_msg("%s: %lld parameters", cases[i].name,
                     (long long)dl_architecture_parameters(&a));
        }
    }
}

/* Names as people type them, and as on Hugging Face. */
static void networks_have_many_names(void **state DL_UNUSED)
{
    static const struct {
        const char *name, *same;
    } cases[] = {
        {"GPT2-XL", "gpt2_xl"},
        {"ResNet-50", "resnet50"},
        {"qwen3-30b-a3b", "qwen3_30b_a3b"},
        {"Qwen/Qwen3-30B-A3B-Base", "qwen3_30b_a3b"},
        {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5_7b"},
        {"meta-llama/Llama-2-7b-chat-hf", "llama"},
        {"meta-llama/Meta-Llama-3-8B", "llama3_8b"},
        {"meta-llama/Llama-3.1-8B-Instruct:sequence=4096", "llama3_8b:sequence=4096"},
        {"Qwen/Qwen2-1.5B-Instruct", "qwen2.5_1.5b"}, /* equal config.json */
        {"mistralai/Mistral-7B-v0.1", "mistral_7b"},
        {"google-bert/bert-base-uncased", "bert_base"},
        {"google/vit-base-patch16-224", "vit_b"},
        {"google/gemma-3-4b-it", "gemma3_4b"},
        {"allenai/OLMo-2-1124-7B", "olmo2_7b"},
        {"microsoft/phi-4", "phi4"},
        {"deepseek-ai/DeepSeek-V3-Base", "deepseek_v3"},
        {"openai/gpt-oss-20b", "gpt_oss_20b"},
        {"FacebookAI/roberta-base", "roberta_base"},
        {"distilbert/distilbert-base-uncased", "distilbert_base"},
        {"TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama_1.1b"},
        {"HuggingFaceTB/SmolLM2-360M-Instruct", "smollm2_360m"},
        {"microsoft/Phi-3-mini-4k-instruct", "phi3_mini"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_SCOPED(dl_architecture) a = network_of(cases[i].name), b = network_of(cases[i].same);
        assert_int_equal(dl_architecture_parameters(&a), dl_architecture_parameters(&b));
    }
}

/* Source: len(list(model.parameters())) of torchvision's and transformers' models. ResNets have one
 * tensor of weights and two of normalization for each convolution, and two for the classes; GPT-2
 * has queries, keys and values in one matrix, the others in three. */
static void tensors_are_counted(void **state DL_UNUSED)
{
    static const struct {
        const char *name;
        int tensors;
    } cases[] = {{"vgg16", 32},       {"vgg19_bn", 66},   {"resnet18", 62},
                 {"resnet50", 161},   {"resnet101", 314}, {"bert_base", 199},
                 {"bert_large", 391}, {"gpt2", 148},      {"llama", 291}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_SCOPED(dl_architecture) a = network_of(cases[i].name);
        if (dl_architecture_tensors(&a) != cases[i].tensors)
            fail_msg("%s: %d tensors", cases[i].name, dl_architecture_tensors(&a));
    }
}

/* Products with GPT-2's 50257 words have rows of no multiple of 16 bytes, unless torch.compile pads
 * them. */
static void compiled_networks_pad_their_vocabulary(void **state DL_UNUSED)
{
    static const struct {
        const char *network;
        int odd_columns;
    } cases[] = {{"gpt2", 50257}, {"gpt2:fused=yes", 50257}, {"gpt2:fused=compiled", 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        DL_SCOPED(dl_architecture) a = network_of(cases[c].network);
        int forward = 0, backward = 0;
        for (size_t l = 0; l < a.layer_count; l++) {
            for (int p = 0; p < a.layers[l].forward.count; p++)
                forward += a.layers[l].forward.parts[p].odd_columns;
            for (int p = 0; p < a.layers[l].backward.count; p++)
                backward += a.layers[l].backward.parts[p].odd_columns;
        }
        assert_int_equal(forward, cases[c].odd_columns);
        assert_int_equal(backward, cases[c].odd_columns);
    }
}

/* A block of width 4 with one head over 3 words, inner width 8, no bias: matrices 4x12, 4x4, 4x8
 * and 8x4, norms of 2x4 each: 48 + 16 + 32 + 32 + 16 = 144 parameters. Forward the products take 2
 * x 3 x 128 = 768 flop, plain attention 4 x 3 x 3 x 4 = 144; backward twice both. Fused causal
 * attention computes half, 72, and 2.5 times that backward. */
static void a_block_by_hand(void **state DL_UNUSED)
{
    dl_architecture plain =
        network_of("transformer:layers=1,width=4,heads=1,feed_forward=8,sequence=3,"
                   "vocabulary=5,positions=0,bias=no,attention=plain,fused=yes");
    dl_architecture fused =
        network_of("transformer:layers=1,width=4,heads=1,feed_forward=8,sequence=3,"
                   "vocabulary=5,positions=0,bias=no,fused=yes");
    const dl_architecture_layer *block = &plain.layers[1];
    assert_string_equal(block->name, "block1");
    assert_int_equal(dl_layer_parameters(block), 144);
    assert_true(near_scaled(dl_pass_flop(&block->forward), 768 + 144, 0, 0));
    assert_true(near_scaled(dl_pass_flop(&block->backward), 2 * (768 + 144), 0, 0));
    assert_true(near_scaled(dl_pass_flop(&fused.layers[1].forward), 768 + 72, 0, 0));
    assert_true(near_scaled(dl_pass_flop(&fused.layers[1].backward), 2 * 768 + 2.5 * 72, 0, 0));
    /* The embedding has 5 x 4 parameters, shared by the head, which has its norm of 8 and products
     * of 2 x 3 x 4 x 5 flop. */
    assert_int_equal(dl_layer_parameters(&plain.layers[0]), 20);
    assert_int_equal(dl_layer_parameters(&plain.layers[2]), 8);
    assert_true(near_scaled(dl_pass_flop(&plain.layers[2].forward), 120, 0, 0));
    /* The loss over 3 x 5 scores of 4 bytes: 3 times each forward, 4 times backward. The stream has
     * 16 bits. */
    assert_true(
        near_scaled(plain.layers[2].kept_wide + plain.layers[2].working_wide, 3 * 15, 0, 0));
    const dl_layer_pass *head[] = {&plain.layers[2].forward, &plain.layers[2].backward};
    const double wide[] = {3 * 15, 4 * 15};
    for (int p = 0; p < 2; p++) {
        double all = 0, casts = 0;
        for (int i = 0; i < head[p]->count; i++) {
            all += head[p]->parts[i].wide;
            casts += head[p]->parts[i].casts;
        }
        assert_true(near_scaled(all, wide[p], 0, 0));
        assert_true(near_scaled(casts, 15, 0, 0));
        assert_int_equal(head[p]->parts[1].odd_columns, 5);
    }
    /* A loss of one kernel reads the 15 scores, and reads and writes them backward. */
    dl_architecture one =
        network_of("transformer:layers=1,width=4,heads=1,feed_forward=8,sequence=3,"
                   "vocabulary=5,positions=0,bias=no,fused=yes,loss=fused");
    const dl_layer_pass *loss[] = {&one.layers[2].forward, &one.layers[2].backward};
    for (int p = 0; p < 2; p++) {
        assert_int_equal(loss[p]->count, 3);
        assert_true(near_scaled(loss[p]->parts[2].numbers, 15 * (p + 1), 0, 0));
        assert_true(near_scaled(loss[p]->parts[2].wide + loss[p]->parts[2].casts, 0, 0, 0));
    }
    /* Each metric converts the scores, and moves 3 x 4 bytes of each. The converted ones and their
     * log-softmax lie beside the scores behind the embedding's backward pass. */
    dl_architecture two =
        network_of("transformer:layers=1,width=4,heads=1,feed_forward=8,sequence=3,"
                   "vocabulary=5,positions=0,bias=no,fused=yes,loss=fused,metrics=2");
    const dl_layer_pass *measured = &two.layers[2].forward;
    assert_int_equal(measured->count, 3 + 2);
    for (int m = 3; m < 5; m++) {
        assert_true(near_scaled(measured->parts[m].wide, 3 * 15, 0, 0));
        assert_true(near_scaled(measured->parts[m].casts, 15, 0, 0));
    }
    assert_int_equal(two.layers[2].backward.count, 3);
    assert_true(near_scaled(one.layers[0].working_numbers, 0, 0, 0));
    assert_true(near_scaled(two.layers[0].working_numbers, 3 * 15, 0, 0));
    assert_true(near_scaled(two.layers[0].working_wide, 2 * 15, 0, 0));
    dl_architecture_free(&two);
    dl_architecture_free(&one);
    /* Stream 12 five times; queries, keys and values 36; inner 24 twice; scores 9 twice. */
    assert_true(near_scaled(block->kept_numbers, 60 + 36 + 48 + 18, 0, 0));
    assert_true(near_scaled(fused.layers[1].kept_numbers, 60 + 36 + 48, 0, 0));
    dl_architecture_free(&plain);
    dl_architecture_free(&fused);
}

/* Adds what a block's passes move, and what it keeps, over those of a network without copies, in
 * streams: numbers[3] and wide[3], forward, backward, kept. */
static void compare_blocks(const char *changed, const double *numbers, const double *wide)
{
    dl_architecture one = network_of("llama:layers=1,width=4,heads=1,feed_forward=8,sequence=3,"
                                     "vocabulary=5,fused=yes");
    DL_SCOPED(dl_architecture) two = network_of(changed);
    const dl_architecture_layer *blocks[] = {&one.layers[1], &two.layers[1]};
    double moved[2][3] = {{0}}, wider[2][3] = {{0}};
    for (int b = 0; b < 2; b++) {
        const dl_layer_pass *passes[] = {&blocks[b]->forward, &blocks[b]->backward};
        for (int p = 0; p < 2; p++) {
            for (int i = 0; i < passes[p]->count; i++) {
                moved[b][p] += passes[p]->parts[i].numbers;
                wider[b][p] += passes[p]->parts[i].wide;
            }
        }
        moved[b][2] = blocks[b]->kept_numbers;
        wider[b][2] = blocks[b]->kept_wide;
    }
    for (int p = 0; p < 3; p++) {
        if (!near_scaled(moved[1][p] - moved[0][p], 12 * numbers[p], 0, 0) ||
            !near_scaled(wider[1][p] - wider[0][p], 12 * wide[p], 0, 0))
            fail_msg("%s: %g, %g more in %d", changed, moved[1][p] - moved[0][p],
                     wider[1][p] - wider[0][p], p);
    }
    dl_architecture_free(&one);
}

/* Each of a block's two norms reads a copy in 32 bits: written and read forward, read twice and its
 * gradient written and read backward, and kept. Made again, it is not kept, but written and read
 * once more, as are the stream and the norm's result, and the sum before the second norm. Of a
 * block that is repeated the norms are not repeated twice. */
static void copies_for_norms_move_and_are_kept(void **state DL_UNUSED)
{
#define SMALL "llama:layers=1,width=4,heads=1,feed_forward=8,sequence=3,vocabulary=5,fused=yes"
    compare_blocks(SMALL ",norm_copies=yes", (const double[]){2 * 2, 2 * 2, 0},
                   (const double[]){2 * 2, 2 * 4, 2});
    compare_blocks(SMALL ",norm_copies=again", (const double[]){2 * 2, 2 * 6 + 3, 0},
                   (const double[]){2 * 2, 2 * 6, 0});
    DL_SCOPED(dl_architecture) yes = network_of(SMALL ",norm_copies=yes,recompute=full");
    DL_SCOPED(dl_architecture) again = network_of(SMALL ",norm_copies=again,recompute=full");
    assert_int_equal(yes.layers[1].backward.count, again.layers[1].backward.count);
}

/* Fewer heads of keys and values, a gate, and a head with its own weights. Width 8, 4 heads, 2 of
 * keys: q 64, k and v 8 x 4 each, o 64, three matrices of 8 x 16; norms of 8. */
static void llama_like_blocks(void **state DL_UNUSED)
{
    dl_architecture a = network_of("llama:layers=2,width=8,heads=4,kv_heads=2,feed_forward=16,"
                                   "sequence=2,vocabulary=10");
    assert_int_equal(a.layer_count, 4);
    assert_int_equal(dl_layer_parameters(&a.layers[1]), 64 + 32 + 32 + 64 + 3 * 128 + 16);
    assert_int_equal(dl_layer_parameters(&a.layers[2]), dl_layer_parameters(&a.layers[1]));
    assert_int_equal(dl_layer_parameters(&a.layers[0]), 80);
    assert_int_equal(dl_layer_parameters(&a.layers[3]), 80 + 8);
    dl_architecture_free(&a);
}

/* Bytes moved in fp16 by all kernels except products; sets their number. */
static double moved_bytes(const dl_layer_pass *pass, int *kernels)
{
    double bytes = 0;
    *kernels = 0;
    for (int i = 0; i < pass->count; i++) {
        const dl_layer_part *part = &pass->parts[i];
        if (part->flop > 0) continue;
        bytes += 2 * (part->numbers - part->wide) + 4 * part->wide + 6 * part->casts;
        *kernels += part->kernels + part->kernels_in_half;
    }
    return bytes;
}

/* Programs with fused kernels move 6 numbers for each score of plain attention forward and 7 back in
 * three kernels each, with dropout; 2 and 3 in one each without it. */
static void scores_without_dropout_are_one_kernel(void **state DL_UNUSED)
{
    static const char shape[] = "bert_base:layers=1,width=8,heads=4,feed_forward=32,sequence=12,"
                                "attention=plain,fused=yes,dropout=";
    const double scores = 4 * 12 * 12;
    double bytes[2][2];
    int kernels[2][2];
    for (int d = 0; d < 2; d++) {
        DL_AUTOFREE char *text = dl_format("%s%s", shape, d ? "yes" : "no");
        DL_SCOPED(dl_architecture) a = network_of(text);
        bytes[d][0] = moved_bytes(&a.layers[1].forward, &kernels[d][0]);
        bytes[d][1] = moved_bytes(&a.layers[1].backward, &kernels[d][1]);
    }
    for (int pass = 0; pass < 2; pass++) {
        assert_true(near_scaled(bytes[1][pass] - bytes[0][pass], 2 * (6 - 2) * scores, 0, 1e-12));
        assert_int_equal(kernels[1][pass] - kernels[0][pass], 3 - 1);
    }
}

/* Operations that PyTorch 2.15 dispatched for one block (TorchDispatchMode, tensors without data;
 * linear, matmul and attention converted to 16 bits, and pow, rsqrt, softmax, layer_norm to 32, by
 * autocast's lists), in bytes per number of the stream, 16 numbers, without the products, their
 * weights, and operations with one number per token. Llama, inner layer four times as wide, as many
 * keys as queries: forward 218 in 33 kernels; backward 474, plus 4, in 69 kernels, as the gradient
 * of half a tensor takes two kernels, zeros and a copy. Saved: x and x / its norm in 32 bits, k
 * copies in 16 bits, of each norm (2 + 3); queries, keys, values, and attention's result; four
 * times the inner layer. */
static void a_llama_block_as_pytorch_runs_it(void **state DL_UNUSED)
{
    dl_architecture a = network_of("llama:layers=1,width=8,heads=2,feed_forward=32,sequence=2");
    dl_architecture fused = network_of("llama:layers=1,width=8,heads=2,feed_forward=32,sequence=2,"
                                       "fused=yes");
    const dl_architecture_layer *block = &a.layers[1];
    int kernels = 0;
    assert_true(a.unfused);
    assert_false(fused.unfused);
    assert_true(near_scaled(moved_bytes(&block->forward, &kernels), 218 * 16, 0, 1e-12));
    assert_int_equal(kernels, 33);
    assert_true(near_scaled(moved_bytes(&block->backward, &kernels), 478 * 16, 0, 1e-12));
    assert_int_equal(kernels, 69);
    assert_true(near_scaled(block->kept_numbers, 16 * (3 + 3 + 4 + 16), 0, 1e-12));
    assert_true(near_scaled(block->kept_wide, 16 * 4, 0, 1e-12));
    assert_true(near_scaled(block->kept_in_half, 16 * (2 + 1), 0, 1e-12));
    /* Seven matrices: 7 and 14 products, and 7 conversions in each pass; attention takes 1 and 2
     * kernels. */
    assert_int_equal(dl_architecture_kernels(&a, true, false) -
                         dl_architecture_kernels(&a, false, false),
                     5 + 2 + 5 + 6 + 2 + 14 + 2 * (1 + 1));
    assert_true(
        near_scaled(dl_pass_flop(&block->forward), dl_pass_flop(&fused.layers[1].forward), 0, 0));
    assert_int_equal(dl_layer_tensors(block), dl_layer_tensors(&fused.layers[1]));
    /* Recorded the same way with weights of 16 bits and without autocast: forward 164 in 30
     * kernels, without the seven conversions of weights and five of inputs; backward 350, plus 4,
     * in 60, and nine that add gradients to sums. Saved in 32 bits: x of each norm. */
    dl_architecture halves = network_of("llama:layers=1,width=8,heads=2,feed_forward=32,sequence=2,"
                                        "autocast=no");
    const dl_architecture_layer *half = &halves.layers[1];
    assert_true(near_scaled(moved_bytes(&half->forward, &kernels), 164 * 16, 0, 1e-12));
    assert_int_equal(kernels, 30);
    assert_true(near_scaled(moved_bytes(&half->backward, &kernels), 354 * 16, 0, 1e-12));
    assert_int_equal(kernels, 60 + 9);
    assert_true(near_scaled(half->kept_wide, 16 * 2, 0, 1e-12));
    assert_true(near_scaled(half->kept_numbers, 16 * (3 + 3 + 4 + 16), 0, 1e-12));
    assert_true(near_scaled(half->kept_in_half, 0, 0, 0));
    /* Gradients of 32 bits need no such sums: nine of the block, two of the head. */
    assert_int_equal(dl_architecture_kernels(&halves, true, false) -
                         dl_architecture_kernels(&halves, false, false),
                     2 * (2 + 2) + 2 + 2 + 9 + 2);
    /* Layer norms and sums of scores, 8 of 2 heads: per number of the stream forward 2 x 2 for
     * norms, 2 x 3 for sums, 4 x 2 for the activation, 8 for layouts, and per score 7. */
    dl_architecture plain =
        network_of("gpt2:layers=1,width=8,heads=2,sequence=2,dropout=no,bias=no,"
                   "attention=plain,autocast=no");
    assert_true(near_scaled(moved_bytes(&plain.layers[1].forward, &kernels),
                            2 * (16 * (4 + 6 + 8 + 8) + 8 * 7), 0, 1e-12));
    assert_true(near_scaled(plain.layers[1].kept_wide, 0, 0, 0));
    dl_architecture_free(&plain);
    dl_architecture_free(&halves);
    assert_true(moved_bytes(&fused.layers[1].forward, &kernels) < 100 * 16);
    dl_architecture_free(&a);
    dl_architecture_free(&fused);
}

/* BERT with six scores per number of the stream, counted in the same way: forward 300 bytes in 20
 * kernels; backward 398 in 30, and for each of two layer norms 8 more in one more kernel, as its
 * gradient reads its inputs twice. */
static void a_bert_block_as_pytorch_runs_it(void **state DL_UNUSED)
{
    dl_architecture a = network_of("bert_base:layers=1,width=8,heads=4,feed_forward=32,sequence=12,"
                                   "attention=plain");
    dl_architecture none =
        network_of("bert_base:layers=1,width=8,heads=4,feed_forward=32,sequence=12,"
                   "attention=plain,dropout=no");
    const dl_architecture_layer *block = &a.layers[1];
    const double n = 12 * 8, scores = 6 * n;
    int kernels = 0;
    assert_true(near_scaled(moved_bytes(&block->forward, &kernels), 300 * n, 0, 1e-12));
    assert_int_equal(kernels, 20);
    assert_true(near_scaled(moved_bytes(&block->backward, &kernels), 414 * n, 0, 1e-12));
    assert_int_equal(kernels, 32);
    /* Dropout moves 9 bytes per score and 5 per number of each of two sums, and the same
     * backward. It saves one byte for each, and its result for the product, which replaces that
     * of softmax. */
    const double dropout = 9 * scores + 2 * 5 * n;
    assert_true(
        near_scaled(moved_bytes(&none.layers[1].forward, &kernels), 300 * n - dropout, 0, 1e-12));
    assert_true(
        near_scaled(moved_bytes(&none.layers[1].backward, &kernels), 414 * n - dropout, 0, 1e-12));
    assert_true(
        near_scaled(block->kept_wide - none.layers[1].kept_wide, (scores + 2 * n) / 4, 0, 1e-12));
    assert_true(near_scaled(none.layers[1].kept_in_half - block->kept_in_half, scores, 0, 1e-12));
    dl_architecture_free(&a);
    dl_architecture_free(&none);
}

/* Saved for the backward pass of ResNet-50: outputs of convolutions and of batch norms, each 11.1 M
 * (torchvision's activations at 224 pixels), and that of pooling. Each convolution has 3 products,
 * except the first. */
static void resnet50_sums(void **state DL_UNUSED)
{
    DL_SCOPED(dl_architecture) a = network_of("resnet50"), large = network_of("resnet50:image=448");
    /* 2 (4 087 136 256 + 2048 x 1000); backward without the first convolution's 2 x 118 013 952
     * once. */
    assert_true(near_scaled(forward_flop(&a), 2 * (4087136256.0 + 2048000), 0, 0));
    assert_true(near_scaled(backward_flop(&a), 2 * forward_flop(&a) - 2 * 118013952.0, 0, 0));
    double kept = 0;
    for (size_t l = 0; l < a.layer_count; l++)
        kept += a.layers[l].kept_numbers;
    assert_true(near_scaled(kept, 2 * 11113984 + 64 * 56 * 56 + 2048 + 1000, 0, 1e-9));
    assert_true(near_scaled(a.input_numbers, 3 * 224 * 224, 0, 0));
    assert_true(near_scaled(forward_flop(&large), 2 * (4087136256.0 * 4 + 2048000), 0, 1e-9));
    assert_int_equal(dl_architecture_parameters(&large), 25557032);
}

static double numbers_of(const dl_layer_pass *pass)
{
    double sum = 0;
    for (int p = 0; p < pass->count; p++)
        sum += pass->parts[p].numbers;
    return sum;
}

/* A 3x3 convolution with padding 1 on 32 x 32 x 64: each of three products reads and writes 2 x
 * 65536 numbers. */
static void a_convolution_by_hand(void **state DL_UNUSED)
{
    DL_SCOPED(dl_architecture) a = network_of("vgg19_bn");
    const dl_architecture_layer *conv = &a.layers[3], *norm = &a.layers[4], *relu = &a.layers[5];
    assert_string_equal(conv->name, "conv1_2");
    assert_int_equal(dl_layer_parameters(conv), 64 * (64 * 9 + 1));
    assert_true(near_scaled(numbers_of(&conv->forward), 2 * 65536, 0, 0));
    assert_true(near_scaled(numbers_of(&conv->backward), 4 * 65536, 0, 0));
    assert_true(conv->forward.parts[0].small_windows);
    assert_true(near_scaled(numbers_of(&norm->forward), 3 * 65536, 0, 0));
    assert_true(near_scaled(numbers_of(&norm->backward), 5 * 65536, 0, 0));
    assert_true(near_scaled(numbers_of(&relu->backward), 3 * 65536, 0, 0));
    assert_true(near_scaled(relu->kept_numbers, 0, 0, 0));
}

/* With nchw each of the three products reads and writes its 2 x 65536 numbers again for the
 * conversion, and batch norm is slow in fp16. */
static void images_in_the_default_order_are_converted(void **state DL_UNUSED)
{
    DL_SCOPED(dl_architecture) a = network_of("vgg19_bn:layout=nchw"),
                               last = network_of("vgg19_bn:layout=nhwc");
    const dl_architecture_layer *conv = &a.layers[3], *norm = &a.layers[4];
    assert_int_equal(conv->forward.count, 2);
    assert_int_equal(conv->backward.count, 4);
    assert_true(near_scaled(conv->forward.parts[1].turned, 4 * 65536, 0, 0));
    assert_true(near_scaled(numbers_of(&conv->forward), 2 * 65536, 0, 0));
    assert_true(near_scaled(norm->forward.parts[0].in_half, 1.5 * 3 * 65536, 0, 0));
    assert_true(near_scaled(norm->backward.parts[0].in_half, 1.5 * 5 * 65536, 0, 0));
    assert_int_equal(last.layers[3].forward.count, 1);
    assert_true(near_scaled(last.layers[4].forward.parts[0].in_half, 0, 0, 0));
    assert_int_equal(dl_architecture_kernels(&a, true, false),
                     dl_architecture_kernels(&last, true, false));
}

static void other_programs_words_mean_the_same(void **state DL_UNUSED)
{
    static const char *const same[][2] = {
        {"Llama2-7B", "llama"},
        {"llama3_8b:hidden_size=512,num_hidden_layers=2,num_attention_heads=8",
         "llama3_8b:width=512,layers=2,heads=8"},
    };
    for (size_t i = 0; i < DL_LENGTH(same); i++) {
        DL_SCOPED(dl_architecture) theirs = {0}, ours = {0};
        assert_int_equal(dl_architecture_make(&theirs, same[i][0], NULL), DL_OK);
        assert_int_equal(dl_architecture_make(&ours, same[i][1], NULL), DL_OK);
        assert_int_equal(dl_architecture_parameters(&theirs), dl_architecture_parameters(&ours));
        assert_int_equal(theirs.layer_count, ours.layer_count);
    }
}

/* Each of four GPUs has a quarter of all flop, saved and moved numbers, except for attention: it
 * reads and writes 2 q + 2 k numbers of its part in each of four steps, and adds four results to
 * each other, 3 q each; backward 4 q + 4 k per step, and three times the gradients of queries, keys
 * and values, 3 (q + 2 k). Keys and values of 2 heads of 64 circulate. All GPUs have all
 * parameters. */
static void a_quarter_of_each_sequence(void **state DL_UNUSED)
{
    DL_SCOPED(dl_architecture) one = {0}, four = {0}, full = {0};
    static const char shape[] = "llama3_8b:width=512,layers=1,heads=8,kv_heads=2,sequence=1024";
    char *four_text = dl_format("%s,cp=4", shape),
         *full_text = dl_format("%s,cp=4,recompute=full", shape);
    assert_int_equal(dl_architecture_make(&one, shape, NULL), DL_OK);
    assert_int_equal(dl_architecture_make(&four, four_text, NULL), DL_OK);
    assert_int_equal(dl_architecture_make(&full, full_text, NULL), DL_OK);
    free(four_text);
    free(full_text);
    const double q = 256 * 512, k = 256 * 128;
    for (size_t l = 0; l < one.layer_count; l++) {
        const dl_architecture_layer *all = &one.layers[l], *part = &four.layers[l];
        double numbers[2][2] = {{0}};
        assert_int_equal(dl_layer_parameters(part), dl_layer_parameters(all));
        assert_true(near_scaled(part->kept_numbers, all->kept_numbers / 4, 0, 1e-12));
        assert_true(near_scaled(part->output_numbers, all->output_numbers / 4, 0, 1e-12));
        for (int way = 0; way < 2; way++) {
            const dl_layer_pass *whole = way ? &all->backward : &all->forward;
            const dl_layer_pass *own = way ? &part->backward : &part->forward;
            assert_true(near_scaled(dl_pass_flop(own), dl_pass_flop(whole) / 4, 0, 1e-12));
            for (int p = 0; p < whole->count; p++)
                numbers[way][0] += whole->parts[p].numbers;
            for (int p = 0; p < own->count; p++)
                numbers[way][1] += own->parts[p].numbers;
        }
        const bool is_block = l == 1;
        assert_true(near_scaled(part->context_numbers, is_block ? 2 * k : 0, 0, 1e-12));
        assert_true(near_scaled(
            numbers[0][1], numbers[0][0] / 4 + (is_block ? 3 * (2 * q + 2 * k) + 4 * 3 * q : 0), 0,
            1e-12));
        const double back = is_block ? 3 * (4 * q + 4 * k) + 3 * 3 * (q + 2 * k) : 0;
        assert_true(near_scaled(numbers[1][1], numbers[1][0] / 4 + back, 0, 1e-12));
    }
    assert_true(four.layers[1].rings_again == 0 && full.layers[1].rings_again == 1);
}

/* Two GPUs with 512 tokens each, q = 512 x 512 numbers of queries and k = 512 x 128 of keys.
 * Gathered keys and values, 4 k, are read by attention (2 k more than its own; in the backward pass
 * twice) and reordered (2 for each); in the backward pass also their gradients, which are set to
 * zero before (1), and added to (3). Tokens exchanged for heads are copied three times, q, k, v and
 * the result in four all-to-alls. */
static void other_exchanges_of_half_a_sequence(void **state DL_UNUSED)
{
    static const char shape[] = "llama3_8b:width=512,layers=1,heads=8,kv_heads=2,sequence=1024";
    const double q = 512 * 512, k = 512 * 128;
    DL_SCOPED(dl_architecture) one = network_of(shape);
    const double whole[2] = {numbers_of(&one.layers[1].forward),
                             numbers_of(&one.layers[1].backward)};
    static const char *const ways[] = {"all_gather", "a2a"};
    const double exchanged[] = {2 * k, (2 * q + 2 * k) / 4};
    const double more[2][2] = {{2 * k + 2 * 4 * k, 2 * 2 * k + 8 * 4 * k},
                               {6 * (2 * q + 2 * k), 6 * (2 * q + 2 * k)}};
    for (int w = 0; w < 2; w++) {
        DL_AUTOFREE char *text = dl_format("%s,cp=2,cp_comm_type=%s", shape, ways[w]);
        DL_SCOPED(dl_architecture) half = network_of(text);
        const dl_architecture_layer *block = &half.layers[1];
        assert_true(near_scaled(block->context_numbers, exchanged[w], 0, 1e-12));
        assert_true(near_scaled(numbers_of(&block->forward), whole[0] / 2 + more[w][0], 0, 1e-12));
        assert_true(near_scaled(numbers_of(&block->backward), whole[1] / 2 + more[w][1], 0, 1e-12));
    }
}

/* The block of a_block_by_hand with two heads of width 2 on two GPUs: each has half of the four
 * matrices, 64, and all of the norms, 16; half of all flop. With sequence parallelism it saves 2 x
 * 12 / 2 numbers for each norm, and half of queries, keys, values, attention's result (4 x 12 / 2),
 * and of the activation (2 x 24 / 2); without it all 2 x 12 of both norms. Recomputing whole blocks
 * repeats the forward pass and saves half of the 12 input numbers. */
static void a_block_on_two_gpus(void **state DL_UNUSED)
{
    static const char shape[] = "transformer:layers=1,width=4,heads=2,feed_forward=8,sequence=3,"
                                "vocabulary=5,positions=0,bias=no,fused=yes";
    DL_AUTOFREE char *half_text = dl_format("%s,tp=2", shape);
    DL_AUTOFREE char *all_text = dl_format("%s,tp=2,sequence_parallel=no", shape);
    DL_AUTOFREE char *full_text = dl_format("%s,tp=2,recompute=full", shape);
    DL_AUTOFREE char *whole_text = dl_format("%s,recompute=none", shape);
    DL_SCOPED(dl_architecture) half = network_of(half_text), all = network_of(all_text),
                               full = network_of(full_text);
    DL_SCOPED(dl_architecture) whole = network_of(whole_text);
    const dl_architecture_layer *block = &half.layers[1], *again = &full.layers[1];
    const double flop = 768 + 72;
    assert_int_equal(half.tensor, 2);
    assert_int_equal(dl_layer_parameters(block), 64 + 16);
    assert_true(near_scaled(dl_pass_flop(&block->forward), flop / 2, 0, 0));
    assert_true(near_scaled(block->kept_numbers, 2 * 12 + 24 + 24, 0, 0));
    assert_true(near_scaled(all.layers[1].kept_numbers, 2 * 24 + 24 + 24, 0, 0));
    assert_true(near_scaled(block->output_numbers, 6, 0, 0));
    assert_true(near_scaled(dl_pass_flop(&again->backward),
                            dl_pass_flop(&block->backward) + flop / 2, 0, 0));
    assert_true(near_scaled(again->kept_numbers, 6, 0, 0));
    /* The vocabulary is padded to 256 words, of which each GPU has 128. */
    assert_int_equal(dl_layer_parameters(&half.layers[0]), 128 * 4);
    /* The first product, 4 x 6, moves no weights forward, and 12 bytes per gradient when it is
     * added to its sum. */
    assert_true(near_scaled(block->forward.parts[1].half_weights, 0, 0, 0));
    assert_true(near_scaled(block->backward.parts[1].half_weights, 6 * 24, 0, 0));
    assert_true(near_scaled(block->tensor_numbers, 12, 0, 0));
    assert_true(near_scaled(block->tensor_forward, 2, 0, 0));
    assert_true(near_scaled(block->tensor_backward, 1, 0, 0));
    /* Concurrent with the collectives, gradients of weights and inputs of 6 + 4 columns: 2 x 2 x 3
     * tokens x 4 x 10 flop. */
    assert_true(near_scaled(block->tensor_beside, 2, 0, 0));
    assert_true(near_scaled(block->beside_flop, 2 * 2 * 3 * 4 * 10, 0, 0));
    assert_true(near_scaled(all.layers[1].beside_flop, 2 * 3 * 4 * 10, 0, 0));
    assert_int_equal(half.tensor_calls, 2);
    assert_int_equal(all.tensor_calls, 1);
    assert_true(near_scaled(again->tensor_backward, 3, 0, 0));
    assert_true(near_scaled(all.layers[1].tensor_backward, 0, 0, 0));
    assert_true(near_scaled(all.layers[1].tensor_beside, 2, 0, 0));
    assert_true(near_scaled(whole.layers[1].tensor_forward, 0, 0, 0));
}

/* With selective recomputation plain attention saves no scores: 2 x 18 fewer for 2 heads over 3
 * words; its two products and the operations between them are repeated. */
static void attention_is_recomputed(void **state DL_UNUSED)
{
    static const char none[] = "gpt2:layers=1,width=4,heads=2,sequence=3,vocabulary=5,fused=yes,"
                               "attention=plain";
    DL_AUTOFREE char *text = dl_format("%s,recompute=selective", none);
    DL_SCOPED(dl_architecture) kept = network_of(none), again = network_of(text);
    assert_true(near_scaled(kept.layers[1].kept_numbers - again.layers[1].kept_numbers, 36, 0, 0));
    assert_true(near_scaled(dl_pass_flop(&again.layers[1].backward) -
                                dl_pass_flop(&kept.layers[1].backward),
                            4 * 3 * 3 * 4, 0, 0));
    assert_int_equal(dl_architecture_kernels(&again, false, false) -
                         dl_architecture_kernels(&kept, false, false),
                     1 + 3 + 1);
}

/* Every second product is repeated: that behind attention, 2 x 3 x 4 x 4 flop, and the last one, 2
 * x 3 x 16 x 4. Plain attention, 4 x 3 x 3 x 4, is repeated as a whole; fused attention is
 * saved. */
static void every_second_product_is_recomputed(void **state DL_UNUSED)
{
    const struct {
        const char *attention;
        double again;
    } cases[] = {{"plain", 96 + 384 + 144}, {"fused", 96 + 384}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *none = dl_format("gpt2:layers=1,width=4,heads=2,sequence=3,vocabulary=5,fused=yes,"
                               "attention=%s",
                               cases[i].attention);
        DL_AUTOFREE char *text = dl_format("%s,recompute=products", none);
        DL_SCOPED(dl_architecture) kept = network_of(none), again = network_of(text);
        assert_true(near_scaled(dl_pass_flop(&again.layers[1].backward) -
                                    dl_pass_flop(&kept.layers[1].backward),
                                cases[i].again, 0, 0));
        free(none);
    }
}

/* Heads wider than width / heads, as in Qwen3: 2 heads of 8 make queries of 16 from 4: three
 * matrices 4 x 16 and one of 16 x 4. */
static void heads_have_a_width_of_their_own(void **state DL_UNUSED)
{
    dl_architecture wide = network_of("llama:layers=1,width=4,heads=2,head_width=8,feed_forward=8,"
                                      "sequence=3,vocabulary=5");
    assert_int_equal(dl_layer_parameters(&wide.layers[1]), 4 * 64 + 3 * 32 + 2 * 4);
    dl_architecture_free(&wide);
}

static void errors_name_what_is_near(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        dl_status status;
        const char *says;
    } cases[] = {
        {"resnet5", DL_ERR_NAME, "no network is called 'resnet5'; did you mean 'resnet50'?"},
        {"gpt2:sequenc=3", DL_ERR_NAME,
         "transformers have no key 'sequenc'; did you mean "
         "'sequence'?"},
        {"gpt2:attention=flash", DL_ERR_NAME, "attention = flash: no such choice"},
        {"gpt2:layers", DL_ERR_PARSE, "'layers': expected key=value"},
        {"gpt2:layers=0", DL_ERR_RANGE, "layers = 0: "},
        {"gpt2:layers=x", DL_ERR_PARSE, "layers = x: "},
        {"gpt2:heads=7", DL_ERR_RANGE, "heads = 7 does not divide width = 768"},
        {"gpt2:tp=5", DL_ERR_RANGE, "tp = 5 does not divide heads = 12"},
        {"llama3_8b:kv_heads=4,tp=16,feed_forward=14344", DL_ERR_RANGE,
         "tp = 16 does not divide feed_forward = 14344"},
        {"gpt2:active=2", DL_ERR_RANGE, "active = 2: this needs experts"},
        {"mixtral:active=9", DL_ERR_RANGE, "active = 9: 1 to experts = 8"},
        {"mixtral:dense_blocks=32", DL_ERR_RANGE, "dense_blocks = 32: fewer than layers = 32"},
        {"qwen3_30b_a3b:expert_width=770,tp=4", DL_ERR_RANGE,
         "tp = 4 does not divide expert_width = 770"},
        {"mixtral:lora=8", DL_ERR_RANGE, "experts = 8: not with lora"},
        {"mixtral:recompute=products", DL_ERR_RANGE, "recompute = none, selective, full"},
        {"gpt2:ep=2", DL_ERR_RANGE, "ep = 2 divides experts, and this network has none"},
        {"mixtral:fused=yes,ep=3", DL_ERR_RANGE, "ep = 3 does not divide experts = 8"},
        {"mixtral:ep=2", DL_ERR_RANGE, "ep = 2: only with fused = yes"},
        {"gpt2:cp=3", DL_ERR_RANGE, "2 cp = 6 does not divide sequence = 1024"},
        {"gpt2:cp=2,attention=plain", DL_ERR_RANGE, "cp = 2: attention = plain has all scores"},
        {"llama3_8b:cp=16,cp_comm_type=a2a", DL_ERR_RANGE,
         "cp_comm_type = a2a: tp cp = 16 does not divide kv_heads = 8"},
        {"gpt2:cp=2,window=64", DL_ERR_RANGE, "window = 64: not with cp"},
        {"mixtral_8x7b:autocast=no", DL_ERR_RANGE, "autocast = no: not with experts"},
        {"bert_base:metrics=1", DL_ERR_RANGE, "metrics = 1: an encoder has no scores of words"},
        {"bert_base:window=64", DL_ERR_RANGE, "window = 64: not with kind = encoder"},
        {"gpt2:kv_heads=5", DL_ERR_RANGE, "kv_heads = 5 does not divide heads = 12"},
        {"gpt2:sequence=2048", DL_ERR_RANGE, "sequence = 2048: only 1024 positions"},
        {"resnet50:image=8", DL_ERR_RANGE, "image = 8: resnet50 needs 32 at least"},
        {"mistralai/Mistral-7B-v0.3", DL_ERR_NAME,
         "no network is called 'mistralai/Mistral-7B-v0.3'; did you mean 'mistral_7b'?"},
        {"./llama", DL_ERR_NAME, "no network is called './llama'; a model's file is FOLDER/"},
        {"/models/llama", DL_ERR_NAME, "a model's file is FOLDER/config.json"},
        {"checkpoints/new/gpt2", DL_ERR_NAME, "a model's file is FOLDER/config.json"},
        {"", DL_ERR_NAME, "no network is called ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_architecture a = {0};
        dl_error error = {0};
        const dl_status status = dl_architecture_make(&a, cases[i].text, &error);
        if (status != cases[i].status || strstr(error.text, cases[i].says) == NULL) {
            fail_msg("%s: %d, %s", cases[i].text, (int)status, error.text);
        }
    }
}

/* Sources: PEFT's print_trainable_parameters of GPT-2 with rank 8, and of Llama 2 7B with rank 8,
 * and with rank 16 on all linear layers. MLPerf's Llama 2 70B: rank 16 on queries, keys and values,
 * in one matrix for Megatron-LM, 16 (8192 + 10240), or in three, 3 x 16 x 8192 + 16 (8192 + 2 x
 * 1024), and on the projection, 16 (2 x 8192), in each of 80 blocks. All other parameters are
 * frozen. */
static void adapters_have_the_published_parameters(void **state DL_UNUSED)
{
    static const struct {
        const char *base, *adapters;
        int64_t parameters;
    } cases[] = {
        {"gpt2", "lora=8", 294912},
        {"gpt2", "lora=8,lora_targets=linear_qkv", 294912},
        {"llama", "lora=8", 4194304},
        {"llama", "lora=16,lora_targets=all-linear", 39976960},
        {"llama2_70b", "lora=16,lora_targets=linear_qkv+o_proj",
         80 * 16 * (8192 + 10240 + 2 * 8192)},
        {"llama2_70b", "lora_r=16,target_modules=q_proj+k_proj+v_proj+o_proj", 65536000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_AUTOFREE char *text = dl_format("%s:%s", cases[i].base, cases[i].adapters);
        DL_SCOPED(dl_architecture) all = network_of(cases[i].base), a = network_of(text);
        if (dl_architecture_parameters(&a) != cases[i].parameters)
            fail_msg("%s: %lld parameters", text, (long long)dl_architecture_parameters(&a));
        assert_int_equal(dl_architecture_frozen(&a), dl_architecture_parameters(&all));
    }
}

/* The block of a_block_on_two_gpus on one GPU: products of 768 flop, attention 72, scores 120;
 * adapters of rank 1 beside queries, 2 x 3 tokens x (4 + 4), and beside the last product, 2 x 3 (8
 * + 4). Backward products have one gradient, attention 2.5 times, adapters two; nothing before the
 * first block. The inputs of the first product (12 numbers) and of the last (24) are saved, but not
 * those between them, nor the head's; each adapter saves 3 numbers. On two GPUs each has half of
 * all adapters, and no collective overlaps.
 *
 * Results of 12 numbers each: compiled, a kernel moves 3 numbers for each one, and backward 2, and 3
 * for each of the 12 and 24 inputs. With fused=yes the products read the numbers that they add to:
 * 1 for each result, and backward 1 for each input. */
static void adapters_by_hand(void **state DL_UNUSED)
{
    static const char base[] = "transformer:layers=1,width=4,heads=2,feed_forward=8,sequence=3,"
                               "vocabulary=5,positions=0,bias=no,fused=yes";
    DL_AUTOFREE char *text = dl_format("%s,lora=1,lora_targets=q_proj+down_proj", base);
    DL_AUTOFREE char *half_text = dl_format("%s,tp=2", text),
                     *four_text = dl_format("%s,frozen_bits=4", text);
    DL_SCOPED(dl_architecture) all = network_of(base), a = network_of(text),
                               half = network_of(half_text), four = network_of(four_text);
    const dl_architecture_layer *block = &a.layers[1], *whole = &all.layers[1];
    DL_AUTOFREE char *apart_text = dl_format("%s,fused=compiled", text);
    DL_SCOPED(dl_architecture) apart = network_of(apart_text);
    assert_true(near_scaled(numbers_of(&apart.layers[1].forward) - numbers_of(&block->forward),
                            2 * 24, 0, 1e-12));
    assert_true(near_scaled(numbers_of(&apart.layers[1].backward) - numbers_of(&block->backward),
                            2 * 24 + 2 * 36, 0, 1e-12));
    const double adapters = 48 + 72;
    assert_int_equal(dl_architecture_parameters(&a), (4 + 4) + (8 + 4));
    assert_int_equal(dl_architecture_tensors(&a), 4);
    assert_true(near_scaled(forward_flop(&a), 768 + 72 + 120 + adapters, 0, 1e-12));
    assert_true(near_scaled(backward_flop(&a), 768 + 2.5 * 72 + 120 + 2 * adapters, 0, 1e-12));
    assert_true(near_scaled(block->frozen_flop, 768, 0, 1e-12));
    assert_int_equal(a.layers[0].backward.count, 0);
    assert_true(near_scaled(whole->kept_numbers - block->kept_numbers, 12 - 2 * 3, 0, 1e-12));
    assert_true(near_scaled(all.layers[2].kept_numbers - a.layers[2].kept_numbers, 12, 0, 1e-12));
    assert_true(near_scaled(block->backward.parts[1].half_weights, 0, 0, 0));
    /* The first product's 48 weights of 4.5 bits are read and written as 16 bits: equivalent to
     * 61.5 weights of 16 bits. The head's weights have 16 bits. */
    assert_true(near_scaled(four.layers[1].forward.parts[1].half_weights, 61.5, 0, 1e-12));
    assert_true(near_scaled(four.layers[1].backward.parts[1].half_weights, 61.5, 0, 1e-12));
    assert_true(near_scaled(four.layers[2].forward.parts[1].half_weights, 0, 0, 0));
    assert_int_equal(four.layers[2].packed_parameters, 0);
    assert_int_equal(dl_architecture_parameters(&half), ((4 + 4) + (8 + 4)) / 2);
    assert_true(near_scaled(dl_pass_flop(&half.layers[1].backward),
                            dl_pass_flop(&block->backward) / 2, 0, 1e-12));
    assert_true(near_scaled(half.layers[1].tensor_backward, 2, 0, 0));
    assert_true(near_scaled(half.layers[1].tensor_beside, 0, 0, 0));
}

static int64_t count_of(const dl_step_product *products, size_t count, dl_product_pass pass,
                        int64_t inputs, int64_t outputs)
{
    for (size_t i = 0; i < count; i++)
        if (products[i].pass == pass && products[i].inputs == inputs &&
            products[i].outputs == outputs)
            return products[i].count;
    return 0;
}

/* Programs with fused kernels launch no more than others, in fp32 either, which has no sums of
 * gradients in another precision: with one for each tensor ViT would have more. */
static void fused_networks_have_fewer_kernels(void **state DL_UNUSED)
{
    static const char *const names[] = {"gpt2",         "bert_base",    "vit_b",
                                        "llama",        "qwen2.5_0.5b", "qwen3_30b_a3b",
                                        "mixtral_8x7b", "llama:lora=8", "gpt2:attention=plain",
                                        "transformer"};
    for (size_t n = 0; n < DL_LENGTH(names); n++) {
        DL_AUTOFREE char *with =
            dl_format("%s%sfused=yes", names[n], strchr(names[n], ':') != NULL ? "," : ":");
        DL_SCOPED(dl_architecture) plain = network_of(names[n]);
        DL_SCOPED(dl_architecture) fused = network_of(with);
        for (int in_half = 0; in_half < 2; in_half++)
            assert_true(dl_architecture_kernels(&fused, in_half, false) <=
                        dl_architecture_kernels(&plain, in_half, false));
    }
}

/* GPT-2 with two blocks of width 64 and 3 sequences of 32 tokens: 96 rows. Queries, keys and values
 * are one product, and the head's has no bias; their flop are all except those of attention, twice
 * 4 x 32 x 32 x 64 / 2 per sequence. Llama's three products are separate, and gate and up are
 * equal. */
static void products_of_a_step_are_listed(void **state DL_UNUSED)
{
    dl_step_product *products = NULL;
    dl_architecture a =
        network_of("transformer:layers=2,width=64,heads=4,sequence=32,vocabulary=100,positions=32");
    size_t count = dl_architecture_products(&a, 3, &products);
    assert_int_equal(count, 3 * 5);
    double flop = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(products[i].rows, 96);
        if (products[i].pass == DL_PRODUCT_FORWARD)
            flop += 2.0 * 96 * (double)(products[i].inputs * products[i].outputs) *
                    (double)products[i].count;
    }
    assert_true(near_scaled(flop, 3 * (forward_flop(&a) - 2 * 4 * 32 * 32 * 64 / 2), 0, 1e-12));
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
        assert_int_equal(count_of(products, count, (dl_product_pass)pass, 64, 192), 2);
        assert_int_equal(count_of(products, count, (dl_product_pass)pass, 64, 64), 2);
        assert_int_equal(count_of(products, count, (dl_product_pass)pass, 64, 256), 2);
        assert_int_equal(count_of(products, count, (dl_product_pass)pass, 256, 64), 2);
        assert_int_equal(count_of(products, count, (dl_product_pass)pass, 64, 100), 1);
    }
    free(products);
    dl_architecture_free(&a);
    a = network_of(
        "llama:layers=1,width=64,heads=4,kv_heads=2,feed_forward=96,sequence=32,vocabulary=100");
    count = dl_architecture_products(&a, 1, &products);
    assert_int_equal(count_of(products, count, DL_PRODUCT_FORWARD, 64, 64),
                     2); /* queries and output */
    assert_int_equal(count_of(products, count, DL_PRODUCT_FORWARD, 64, 32), 2);
    assert_int_equal(count_of(products, count, DL_PRODUCT_WEIGHT, 64, 96), 2);
    free(products);
    dl_architecture_free(&a);
    /* Frozen weights have no gradient; recomputed products count as forward ones. */
    a = network_of("llama:layers=1,width=64,heads=4,feed_forward=96,sequence=32,vocabulary=100,"
                   "recompute=full,lora=8");
    count = dl_architecture_products(&a, 1, &products);
    assert_int_equal(count_of(products, count, DL_PRODUCT_FORWARD, 64, 96), 4);
    assert_int_equal(count_of(products, count, DL_PRODUCT_DATA, 64, 96), 2);
    assert_int_equal(count_of(products, count, DL_PRODUCT_WEIGHT, 64, 96), 0);
    free(products);
    dl_architecture_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_the_published_ones),
        cmocka_unit_test(networks_have_many_names),
        cmocka_unit_test(tensors_are_counted),
        cmocka_unit_test(scores_without_dropout_are_one_kernel),
        cmocka_unit_test(compiled_networks_pad_their_vocabulary),
        cmocka_unit_test(a_block_by_hand),
        cmocka_unit_test(a_block_on_two_gpus),
        cmocka_unit_test(a_quarter_of_each_sequence),
        cmocka_unit_test(other_exchanges_of_half_a_sequence),
        cmocka_unit_test(attention_is_recomputed),
        cmocka_unit_test(every_second_product_is_recomputed),
        cmocka_unit_test(heads_have_a_width_of_their_own),
        cmocka_unit_test(copies_for_norms_move_and_are_kept),
        cmocka_unit_test(llama_like_blocks),
        cmocka_unit_test(a_llama_block_as_pytorch_runs_it),
        cmocka_unit_test(a_bert_block_as_pytorch_runs_it),
        cmocka_unit_test(fused_networks_have_fewer_kernels),
        cmocka_unit_test(products_of_a_step_are_listed),
        cmocka_unit_test(resnet50_sums),
        cmocka_unit_test(a_convolution_by_hand),
        cmocka_unit_test(images_in_the_default_order_are_converted),
        cmocka_unit_test(adapters_have_the_published_parameters),
        cmocka_unit_test(adapters_by_hand),
        cmocka_unit_test(other_programs_words_mean_the_same),
        cmocka_unit_test(errors_name_what_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
