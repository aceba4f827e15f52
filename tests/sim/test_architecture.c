/* Networks by their definition: parameters against published counts, the rest against hand
 * calculations. */
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/workloads/architecture.h"
#include "tests/check.h"
#include "tests/near.h"

static dl_architecture make(const char *text)
{
    dl_architecture architecture = {0};
    dl_error error = {0};
    if (dl_architecture_make(&architecture, text, &error)) fail_msg("%s: %s", text, error.text);
    return architecture;
}

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
 * bert-large-uncased (with pooler) and of GPT-2's four sizes; the checkpoints of Llama 2 7B, Llama 3
 * 8B, Llama 3.2 and Qwen2.5. */
static void parameters_are_the_published_ones(void **state)
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
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_architecture a = make(cases[i].name);
        if (dl_architecture_parameters(&a) != cases[i].parameters) {
            fail_msg("%s: %lld parameters", cases[i].name,
                     (long long)dl_architecture_parameters(&a));
        }
        dl_architecture_free(&a);
    }
}

/* Names as people type them, and as on Hugging Face. */
static void networks_have_many_names(void **state)
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
        {"mistralai/Mistral-7B-v0.1", "mistral_7b"},
        {"google-bert/bert-base-uncased", "bert_base"},
        {"google/vit-base-patch16-224", "vit_b"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_architecture a = make(cases[i].name), b = make(cases[i].same);
        assert_int_equal(dl_architecture_parameters(&a), dl_architecture_parameters(&b));
        dl_architecture_free(&a);
        dl_architecture_free(&b);
    }
}

/* Source: len(list(model.parameters())) of torchvision's and transformers' models. ResNets have one
 * tensor of weights and two of normalization for each convolution, and two for the classes; GPT-2
 * has queries, keys and values in one matrix, the others in three. */
static void tensors_are_counted(void **state)
{
    static const struct {
        const char *name;
        int tensors;
    } cases[] = {{"vgg16", 32},       {"vgg19_bn", 66},   {"resnet18", 62},
                 {"resnet50", 161},   {"resnet101", 314}, {"bert_base", 199},
                 {"bert_large", 391}, {"gpt2", 148},      {"llama", 291}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_architecture a = make(cases[i].name);
        if (dl_architecture_tensors(&a) != cases[i].tensors)
            fail_msg("%s: %d tensors", cases[i].name, dl_architecture_tensors(&a));
        dl_architecture_free(&a);
    }
}

/* A block of width 4 with one head over 3 words, inner width 8, no bias: matrices 4x12, 4x4, 4x8
 * and 8x4, norms of 2x4 each: 48 + 16 + 32 + 32 + 16 = 144 parameters. Forward the products take 2
 * x 3 x 128 = 768 flop, plain attention 4 x 3 x 3 x 4 = 144; backward twice both. Fused causal
 * attention computes half, 72, and 2.5 times that backward. */
static void a_block_by_hand(void **state)
{
    (void)state;
    dl_architecture plain = make("transformer:layers=1,width=4,heads=1,feed_forward=8,sequence=3,"
                                 "vocabulary=5,positions=0,bias=no,attention=plain,fused=yes");
    dl_architecture fused = make("transformer:layers=1,width=4,heads=1,feed_forward=8,sequence=3,"
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
    dl_architecture one = make("transformer:layers=1,width=4,heads=1,feed_forward=8,sequence=3,"
                               "vocabulary=5,positions=0,bias=no,fused=yes,loss=fused");
    const dl_layer_pass *loss[] = {&one.layers[2].forward, &one.layers[2].backward};
    for (int p = 0; p < 2; p++) {
        assert_int_equal(loss[p]->count, 3);
        assert_true(near_scaled(loss[p]->parts[2].numbers, 15 * (p + 1), 0, 0));
        assert_true(near_scaled(loss[p]->parts[2].wide + loss[p]->parts[2].casts, 0, 0, 0));
    }
    /* Each metric converts the scores, and moves 3 x 4 bytes of each. The converted ones and their
     * log-softmax lie beside the scores behind the embedding's backward pass. */
    dl_architecture two = make("transformer:layers=1,width=4,heads=1,feed_forward=8,sequence=3,"
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

/* Fewer heads of keys and values, a gate, and a head with its own weights. Width 8, 4 heads, 2 of
 * keys: q 64, k and v 8 x 4 each, o 64, three matrices of 8 x 16; norms of 8. */
static void llama_like_blocks(void **state)
{
    (void)state;
    dl_architecture a = make("llama:layers=2,width=8,heads=4,kv_heads=2,feed_forward=16,"
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

/* Operations that PyTorch 2.15 dispatched for one block (TorchDispatchMode, tensors without data;
 * linear, matmul and attention converted to 16 bits, and pow, rsqrt, softmax, layer_norm to 32, by
 * autocast's lists), in bytes per number of the stream, 16 numbers, without the products, their
 * weights, and operations with one number per token. Llama, inner layer four times as wide, as many
 * keys as queries: forward 218 in 33 kernels; backward 474, plus 4, in 69 kernels, as the gradient
 * of half a tensor takes two kernels, zeros and a copy. Saved: x and x / its norm in 32 bits, k
 * copies in 16 bits, of each norm (2 + 3); queries, keys, values, and attention's result; four
 * times the inner layer. */
static void a_llama_block_as_pytorch_runs_it(void **state)
{
    (void)state;
    dl_architecture a = make("llama:layers=1,width=8,heads=2,feed_forward=32,sequence=2");
    dl_architecture fused = make("llama:layers=1,width=8,heads=2,feed_forward=32,sequence=2,"
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
    /* Recorded the same way with weights of 16 bits and without autocast: forward 164 in 30 kernels,
     * without the seven conversions of weights and five of inputs; backward 350, plus 4, in 60, and
     * nine that add gradients to sums. Saved in 32 bits: x of each norm. */
    dl_architecture halves = make("llama:layers=1,width=8,heads=2,feed_forward=32,sequence=2,"
                                  "autocast=no");
    const dl_architecture_layer *half = &halves.layers[1];
    assert_true(near_scaled(moved_bytes(&half->forward, &kernels), 164 * 16, 0, 1e-12));
    assert_int_equal(kernels, 30);
    assert_true(near_scaled(moved_bytes(&half->backward, &kernels), 354 * 16, 0, 1e-12));
    assert_int_equal(kernels, 60 + 9);
    assert_true(near_scaled(half->kept_wide, 16 * 2, 0, 1e-12));
    assert_true(near_scaled(half->kept_numbers, 16 * (3 + 3 + 4 + 16), 0, 1e-12));
    assert_true(near_scaled(half->kept_in_half, 0, 0, 0));
    assert_int_equal(dl_architecture_kernels(&halves, true, false) -
                         dl_architecture_kernels(&halves, false, false),
                     2 * (2 + 2) + 2 + 2);
    /* Layer norms and sums of scores, 8 of 2 heads: per number of the stream forward 2 x 2 for
     * norms, 2 x 3 for sums, 4 x 2 for the activation, 8 for layouts, and per score 7. */
    dl_architecture plain = make("gpt2:layers=1,width=8,heads=2,sequence=2,dropout=no,bias=no,"
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
static void a_bert_block_as_pytorch_runs_it(void **state)
{
    (void)state;
    dl_architecture a = make("bert_base:layers=1,width=8,heads=4,feed_forward=32,sequence=12,"
                             "attention=plain");
    dl_architecture none = make("bert_base:layers=1,width=8,heads=4,feed_forward=32,sequence=12,"
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
static void resnet50_sums(void **state)
{
    (void)state;
    dl_architecture a = make("resnet50"), large = make("resnet50:image=448");
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
    dl_architecture_free(&a);
    dl_architecture_free(&large);
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
static void a_convolution_by_hand(void **state)
{
    (void)state;
    dl_architecture a = make("vgg19_bn");
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
    dl_architecture_free(&a);
}

/* With nchw each of the three products reads and writes its 2 x 65536 numbers again for the
 * conversion, and batch norm is slow in fp16. */
static void images_in_the_default_order_are_converted(void **state)
{
    (void)state;
    dl_architecture a = make("vgg19_bn:layout=nchw"), last = make("vgg19_bn:layout=nhwc");
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
    dl_architecture_free(&a);
    dl_architecture_free(&last);
}

static void other_programs_words_mean_the_same(void **state)
{
    static const char *const same[][2] = {
        {"Llama2-7B", "llama"},
        {"llama3_8b:hidden_size=512,num_hidden_layers=2,num_attention_heads=8",
         "llama3_8b:width=512,layers=2,heads=8"},
    };
    (void)state;
    for (size_t i = 0; i < DL_LENGTH(same); i++) {
        dl_architecture theirs = {0}, ours = {0};
        assert_int_equal(dl_architecture_make(&theirs, same[i][0], NULL), DL_OK);
        assert_int_equal(dl_architecture_make(&ours, same[i][1], NULL), DL_OK);
        assert_int_equal(dl_architecture_parameters(&theirs), dl_architecture_parameters(&ours));
        assert_int_equal(theirs.layer_count, ours.layer_count);
        dl_architecture_free(&theirs);
        dl_architecture_free(&ours);
    }
}

/* Each of four GPUs has a quarter of all flop, saved and moved numbers, except for attention: it
 * reads and writes 2 q + 2 k numbers of its part in each of four steps, and adds four results to
 * each other, 3 q each; backward 4 q + 4 k per step, and three times the gradients of queries, keys
 * and values, 3 (q + 2 k). Keys and values of 2 heads of 64 circulate. All GPUs have all
 * parameters. */
static void a_quarter_of_each_sequence(void **state)
{
    (void)state;
    dl_architecture one = {0}, four = {0}, full = {0};
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
    dl_architecture_free(&one);
    dl_architecture_free(&four);
    dl_architecture_free(&full);
}

/* The block of a_block_by_hand with two heads of width 2 on two GPUs: each has half of the four
 * matrices, 64, and all of the norms, 16; half of all flop. With sequence parallelism it saves 2 x
 * 12 / 2 numbers for each norm, and half of queries, keys, values, attention's result (4 x 12 / 2),
 * and of the activation (2 x 24 / 2); without it all 2 x 12 of both norms. Recomputing whole blocks
 * repeats the forward pass and saves half of the 12 input numbers. */
static void a_block_on_two_gpus(void **state)
{
    static const char shape[] = "transformer:layers=1,width=4,heads=2,feed_forward=8,sequence=3,"
                                "vocabulary=5,positions=0,bias=no,fused=yes";
    (void)state;
    char *half_text = dl_format("%s,tp=2", shape);
    char *all_text = dl_format("%s,tp=2,sequence_parallel=no", shape);
    char *full_text = dl_format("%s,tp=2,recompute=full", shape);
    char *whole_text = dl_format("%s,recompute=none", shape);
    dl_architecture half = make(half_text), all = make(all_text), full = make(full_text);
    dl_architecture whole = make(whole_text);
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
    dl_architecture_free(&half);
    dl_architecture_free(&all);
    dl_architecture_free(&full);
    dl_architecture_free(&whole);
    free(half_text);
    free(all_text);
    free(full_text);
    free(whole_text);
}

/* With selective recomputation plain attention saves no scores: 2 x 18 fewer for 2 heads over 3
 * words; its two products and the operations between them are repeated. */
static void attention_is_recomputed(void **state)
{
    static const char none[] = "gpt2:layers=1,width=4,heads=2,sequence=3,vocabulary=5,fused=yes,"
                               "attention=plain";
    char *text = dl_format("%s,recompute=selective", none);
    (void)state;
    dl_architecture kept = make(none), again = make(text);
    assert_true(near_scaled(kept.layers[1].kept_numbers - again.layers[1].kept_numbers, 36, 0, 0));
    assert_true(near_scaled(dl_pass_flop(&again.layers[1].backward) -
                                dl_pass_flop(&kept.layers[1].backward),
                            4 * 3 * 3 * 4, 0, 0));
    assert_int_equal(dl_architecture_kernels(&again, false, false) -
                         dl_architecture_kernels(&kept, false, false),
                     1 + 3 + 1);
    dl_architecture_free(&kept);
    dl_architecture_free(&again);
    free(text);
}

/* Every second product is repeated: that behind attention, 2 x 3 x 4 x 4 flop, and the last one, 2 x
 * 3 x 16 x 4. Plain attention, 4 x 3 x 3 x 4, is repeated as a whole; fused attention is saved. */
static void every_second_product_is_recomputed(void **state)
{
    (void)state;
    const struct {
        const char *attention;
        double again;
    } cases[] = {{"plain", 96 + 384 + 144}, {"fused", 96 + 384}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *none = dl_format("gpt2:layers=1,width=4,heads=2,sequence=3,vocabulary=5,fused=yes,"
                               "attention=%s",
                               cases[i].attention);
        char *text = dl_format("%s,recompute=products", none);
        dl_architecture kept = make(none), again = make(text);
        assert_true(near_scaled(dl_pass_flop(&again.layers[1].backward) -
                                    dl_pass_flop(&kept.layers[1].backward),
                                cases[i].again, 0, 0));
        dl_architecture_free(&kept);
        dl_architecture_free(&again);
        free(none);
        free(text);
    }
}

/* Heads wider than width / heads, as in Qwen3: 2 heads of 8 make queries of 16 from 4: three
 * matrices 4 x 16 and one of 16 x 4. */
static void heads_have_a_width_of_their_own(void **state)
{
    (void)state;
    dl_architecture wide = make("llama:layers=1,width=4,heads=2,head_width=8,feed_forward=8,"
                                "sequence=3,vocabulary=5");
    assert_int_equal(dl_layer_parameters(&wide.layers[1]), 4 * 64 + 3 * 32 + 2 * 4);
    dl_architecture_free(&wide);
}

static void write_config(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static double attention_flop(const dl_architecture *a)
{
    const dl_layer_pass *pass = &a->layers[1].forward;
    for (int p = 0; p < pass->count; p++)
        if (pass->parts[p].attention != DL_ATTENTION_NOT) return pass->parts[p].flop;
    return 0;
}

/* With a window of a quarter of the tokens, all but the first quarter attend to that quarter: 1 / 4
 * - 1 / 32 of the scores of all pairs, not 1 / 2. Mistral's layers have it, Llama's and, without
 * use_sliding_window, Qwen's do not. */
static void windows_limit_attention(void **state)
{
    static const struct {
        const char *type, *text;
        double seen;
    } cases[] = {{"mistral", "sliding_window\": 4096", 7.0 / 32},
                 {"mistral", "sliding_window\": null", 0.5},
                 {"mistral", "sliding_window\": 32768", 0.5},
                 {"phi3", "sliding_window\": 4096", 7.0 / 32},
                 {"llama", "sliding_window\": 4096", 0.5},
                 {"qwen2", "use_sliding_window\": false, \"sliding_window\": 4096", 0.5}};
    char path[] = "test_architecture_window.json";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *config = dl_format("{\"model_type\": \"%s\", \"hidden_size\": 4096, "
                                 "\"num_attention_heads\": 32, \"num_hidden_layers\": 2, "
                                 "\"vocab_size\": 32000, \"%s}",
                                 cases[i].type, cases[i].text);
        char *text = dl_format("%s:sequence=16384", path);
        write_config(path, config);
        dl_architecture a = make(text);
        assert_true(
            near_scaled(attention_flop(&a), 4 * 16384.0 * 16384 * 4096 * cases[i].seen, 0, 1e-12));
        dl_architecture_free(&a);
        free(config);
        free(text);
    }
    remove(path);
}

static const char *const llama_file =
    "{\"architectures\": [\"LlamaForCausalLM\", \"}\"], \"hidden_size\": 4096, "
    "\"intermediate_size\": 14336, \"max_position_embeddings\": 131072, \"model_type\": "
    "\"llama\", \"num_attention_heads\": 32, \"num_hidden_layers\": 32, "
    "\"num_key_value_heads\": "
    "8, \"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"hidden_size\": 7}, "
    "\"tie_word_embeddings\": false, \"vocab_size\": 128256}\n";
static const char *const gpt2_file =
    "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_inner\": "
    "null, \"n_positions\": 1024, \"vocab_size\": 50257}";
static const char *const experts_file =
    "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048, \"intermediate_size\": 6144, "
    "\"moe_intermediate_size\": 768, \"num_hidden_layers\": 48, \"num_attention_heads\": 32, "
    "\"num_key_value_heads\": 4, \"head_dim\": 128, \"num_experts\": 128, "
    "\"num_experts_per_tok\": 8, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [], "
    "\"max_position_embeddings\": 40960, \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": "
    "false, \"use_sliding_window\": false, \"vocab_size\": 151936}";

/* Files of Llama 3 8B, GPT-2 and Qwen3-30B-A3B. */
static void config_json_is_a_network(void **state)
{
    static const char *const broken[][2] = {
        {"{\"model_type\": \"gpt_oss\", \"rms_norm_eps\": 1e-5, \"num_local_experts\": 32}",
         "gpt_oss: types with experts that are simulated are mixtral, olmoe, qwen2_moe and"},
        {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"mlp_only_layers\": [0]}",
         "with and without experts in turn"},
        {"{\"model_type\": \"qwen2_moe\", \"num_experts\": 8, \"decoder_sparse_step\": 2}",
         "with and without experts in turn"},
        {"{\"model_type\": \"mixtral\", \"hidden_size\": 8, \"num_attention_heads\": 2, "
         "\"num_hidden_layers\": 2, \"vocab_size\": 8}",
         "the number of experts is missing"},
        {"{\"model_type\": \"t5\", \"is_encoder_decoder\": true}", "t5: encoders with decoders"},
        {"{\"model_type\": \"rwkv\"}", "rwkv: the known types are llama, mistral"},
        {"{\"model_type\": \"gemma3\", \"text_config\": {\"head_dim\": 256}}", "text and images"},
        {"{\"model_type\": \"llama4\", \"text_config\": {}}", "text and images are not simulated"},
        {"{\"model_type\": \"deepseek_v3\", \"n_routed_experts\": 256}",
         "deepseek_v3: types with experts that are simulated are mixtral"},
        {"{\"model_type\": \"falcon\", \"multi_query\": true}", "falcon: the known types are"},
        {"{\"model_type\": \"opt\", \"ffn_dim\": 3072}", "opt: the known types are"},
        {"{\"model_type\": \"qwen2\", \"use_sliding_window\": true}", "in some of the layers"},
        {"{\"rms_norm_eps\": 1e-5, \"hidden_size\": 8}", "the number of layers is missing"},
        {"{\"rms_norm_eps\": [1", "this is no JSON object"},
    };
    char path[] = "test_architecture_config.json";
    (void)state;
    write_config(path, llama_file);
    char *text = dl_format("%s:sequence=2048", path);
    dl_architecture a = make(path), b = make(text);
    assert_int_equal(dl_architecture_parameters(&a), 8030261248);
    assert_int_equal(a.sequence, 8192);
    assert_int_equal(b.sequence, 2048);
    assert_int_equal(dl_architecture_class(text), DL_MODEL_TRANSFORMER);
    write_config(path, gpt2_file);
    dl_architecture c = make(path);
    assert_int_equal(dl_architecture_parameters(&c), 124439808);
    write_config(path, experts_file);
    dl_architecture d = make(path);
    assert_int_equal(dl_architecture_parameters(&d), 30532110336);
    assert_int_equal(d.experts, 128);
    assert_int_equal(d.active, 8);
    dl_architecture_free(&d);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        dl_architecture none = {0};
        dl_error error = {0};
        write_config(path, broken[i][0]);
        assert_int_not_equal(dl_architecture_make(&none, path, &error), DL_OK);
        if (strstr(error.text, broken[i][1]) == NULL || strstr(error.text, path) == NULL)
            fail_msg("%s", error.text);
    }
    remove(path);
    free(text);
    dl_architecture_free(&a);
    dl_architecture_free(&b);
    dl_architecture_free(&c);
}

/* The numbers are those of the parameters in the models' published weights. Norms of heads are not
 * counted: 0.01 % at most. Llama 3.2, Gemma and SmolLM3 share the embedding's weights, the last two
 * by default; heads of Mistral Nemo, Qwen3 of 0.6 B and Gemma are not width / heads wide. */
static void configs_have_the_published_parameters(void **state)
{
    static const struct {
        const char *type;
        int width, inside, layers, heads, kv, head, words;
        const char *more;
        double parameters;
    } models[] = {
        {"llama", 2048, 8192, 16, 32, 8, 64, 128256, ", \"tie_word_embeddings\": true", 1235814400},
        {"llama", 3072, 8192, 28, 24, 8, 128, 128256, ", \"tie_word_embeddings\": true",
         3212749824},
        {"mistral", 5120, 14336, 40, 32, 8, 128, 131072, "", 12247782400},
        {"mistral", 5120, 32768, 40, 32, 8, 128, 131072, "", 23572403200},
        {"phi3", 3072, 8192, 32, 32, 32, 96, 32064, ", \"sliding_window\": 2047", 3821079552},
        {"phi3", 5120, 17920, 40, 40, 10, 128, 100352, "", 14659507200},
        {"qwen2", 3584, 18944, 28, 28, 4, 128, 152064, "", 7615616512},
        {"qwen3", 1024, 3072, 28, 16, 8, 128, 151936, ", \"tie_word_embeddings\": true", 596049920},
        {"smollm3", 2048, 11008, 36, 16, 4, 128, 128256, "", 3075098624},
        {"olmo2", 4096, 11008, 32, 32, 32, 128, 100352, "", 7298617344},
        {"gemma2", 2304, 9216, 26, 8, 4, 256, 256000, ", \"sliding_window\": 4096", 2614341888},
        {"gemma2", 3584, 14336, 42, 16, 8, 256, 256000, ", \"sliding_window\": 4096", 9241705984},
        {"gemma3_text", 1152, 6912, 26, 4, 1, 256, 262144, ", \"sliding_window\": 512", 999885952},
    };
    char path[] = "test_architecture_published.json";
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char *config = dl_format(
            "{\"model_type\": \"%s\", \"hidden_size\": %d, \"intermediate_size\": %d, "
            "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
            "\"num_key_value_heads\": %d, \"head_dim\": %d, \"vocab_size\": %d%s}",
            models[m].type, models[m].width, models[m].inside, models[m].layers, models[m].heads,
            models[m].kv, models[m].head, models[m].words, models[m].more);
        write_config(path, config);
        dl_architecture a = make(path);
        assert_true(
            near_scaled((double)dl_architecture_parameters(&a), models[m].parameters, 0, 1e-4));
        dl_architecture_free(&a);
        free(config);
    }
    remove(path);
}

/* Llama 3 8B with attention_bias has 4096 + 2 x 1024 + 4096 more parameters in each of 32 blocks,
 * with mlp_bias 2 x 14336 + 4096; a type without them has the same number in any case. Qwen2 7B has
 * biases of queries, keys and values (3584 + 2 x 512 in each of 28 blocks): all of the published
 * number. Tensors: nine per block, without biases, and the biases. */
static void biases_of_a_config_are_counted(void **state)
{
    static const struct {
        const char *type, *more;
        int64_t parameters;
        int tensors;
    } cases[] = {
        {"llama", "", 8030261248, 9},
        {"llama", ", \"attention_bias\": true", 8030261248 + 32 * 10240, 9 + 4},
        {"llama", ", \"mlp_bias\": true", 8030261248 + 32 * 32768, 9 + 3},
        {"granite", ", \"attention_bias\": true, \"mlp_bias\": true",
         8030261248 + 32 * (10240 + 32768), 9 + 7},
        {"qwen3", ", \"attention_bias\": true, \"mlp_bias\": true", 8030261248 + 32 * 10240, 9 + 4},
        {"mistral", ", \"attention_bias\": true", 8030261248, 9},
    };
    char path[] = "test_architecture_bias.json";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *config = dl_format(
            "{\"model_type\": \"%s\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
            "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
            "\"vocab_size\": 128256, \"tie_word_embeddings\": false%s}",
            cases[i].type, cases[i].more);
        write_config(path, config);
        dl_architecture a = make(path);
        assert_int_equal(dl_architecture_parameters(&a), cases[i].parameters);
        assert_int_equal(dl_layer_tensors(&a.layers[1]), cases[i].tensors);
        dl_architecture_free(&a);
        free(config);
    }
    write_config(path, "{\"model_type\": \"qwen2\", \"hidden_size\": 3584, "
                       "\"intermediate_size\": 18944, \"num_hidden_layers\": 28, "
                       "\"num_attention_heads\": 28, \"num_key_value_heads\": 4, "
                       "\"vocab_size\": 152064}");
    dl_architecture qwen = make(path);
    assert_int_equal(dl_architecture_parameters(&qwen), 7615616512);
    dl_architecture_free(&qwen);
    remove(path);
}

/* Gemma 2 has a window in every second layer, Gemma 3 in five of six: with a quarter of the tokens
 * 7 / 32 of the scores, not half. Norms of results are two more with 2 numbers read and written
 * each. A tanh on the scores of words reads and writes them, and saves its result. */
static void gemma_has_windows_in_some_layers(void **state)
{
    static const char *const texts[] = {
        "{\"model_type\": \"gemma2\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
        "\"num_hidden_layers\": 6, \"vocab_size\": 100, \"sliding_window\": 256, "
        "\"final_logit_softcapping\": 30.0}",
        "{\"model_type\": \"gemma3_text\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
        "\"num_hidden_layers\": 6, \"vocab_size\": 100, \"sliding_window\": 256, "
        "\"final_logit_softcapping\": null}"};
    char path[] = "test_architecture_gemma_windows.json";
    (void)state;
    for (int g = 0; g < 2; g++) {
        write_config(path, texts[g]);
        dl_architecture a = make("test_architecture_gemma_windows.json:sequence=1024,fused=yes");
        dl_architecture plain = make("llama:width=64,heads=4,kv_heads=4,feed_forward=256,layers=1,"
                                     "vocabulary=100,sequence=1024,fused=yes,tied=yes");
        for (int b = 1; b <= 6; b++) {
            const dl_layer_pass *pass = &a.layers[b].forward;
            int p = 0;
            while (pass->parts[p].attention == DL_ATTENTION_NOT)
                p++;
            const bool full = b % (g == 0 ? 2 : 6) == 0;
            assert_true(near_scaled(pass->parts[p].flop,
                                    4 * 1024.0 * 1024 * 64 * (full ? 0.5 : 7.0 / 32), 0, 1e-12));
            assert_true(near_scaled(pass->parts[p].keys, full ? 1024 : 256, 0, 0));
        }
        assert_int_equal(a.layers[1].forward.count, plain.layers[1].forward.count + 2);
        assert_int_equal(dl_layer_parameters(&a.layers[1]),
                         dl_layer_parameters(&plain.layers[1]) + 2 * 64);
        assert_true(near_scaled(a.layers[7].kept_numbers - plain.layers[2].kept_numbers,
                                g == 0 ? 1024 * 100 : 0, 0, 0));
        dl_architecture_free(&a);
        dl_architecture_free(&plain);
    }
    remove(path);
    dl_architecture none = {0};
    dl_error error = {0};
    assert_int_equal(dl_architecture_make(&none, "llama:full_every=2", &error), DL_ERR_RANGE);
    assert_non_null(strstr(error.text, "full_every = 2: this needs a window"));
}

/* OLMoE-1B-7B-0924: 6,919,161,856 parameters in its checkpoint, of which we do not count the norms
 * of queries and keys, 2 x 2048 in each block; 1.3 billion are active (Muennighoff et al. 2024,
 * arXiv 2409.02060). Its intermediate_size is that of an expert. */
static void olmoe_has_its_parameters(void **state)
{
    char path[] = "test_architecture_olmoe.json";
    (void)state;
    write_config(path, "{\"model_type\": \"olmoe\", \"hidden_size\": 2048, \"intermediate_size\": "
                       "1024, \"num_hidden_layers\": 16, \"num_attention_heads\": 16, "
                       "\"num_key_value_heads\": 16, \"num_experts\": 64, "
                       "\"num_experts_per_tok\": 8, \"max_position_embeddings\": 4096, "
                       "\"tie_word_embeddings\": false, \"vocab_size\": 50304}");
    dl_architecture a = make(path);
    assert_int_equal(dl_architecture_parameters(&a), 6919161856 - 16 * 2 * 2048);
    assert_true(near_scaled((double)dl_architecture_active(&a), 1.3e9, 0, 0.02));
    dl_architecture_free(&a);
    remove(path);
}

/* Gemma's heads are wider than width / heads (7B), and its head has the embedding's weights without
 * saying so. The numbers are those of KerasHub's presets gemma_2b_en and gemma_7b_en. */
static void gemma_has_its_parameters(void **state)
{
    static const struct {
        int layers, width, heads, kv_heads, inside;
        int64_t parameters;
    } cases[] = {{18, 2048, 8, 1, 16384, 2506172416}, {28, 3072, 16, 16, 24576, 8537680896}};
    char path[] = "test_architecture_gemma.json";
    (void)state;
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        char *config = dl_format(
            "{\"model_type\": \"gemma\", \"head_dim\": 256, \"hidden_act\": \"gelu\", "
            "\"hidden_size\": %d, \"intermediate_size\": %d, \"max_position_embeddings\": 8192, "
            "\"num_attention_heads\": %d, \"num_hidden_layers\": %d, \"num_key_value_heads\": %d, "
            "\"rms_norm_eps\": 1e-06, \"vocab_size\": 256000}",
            cases[i].width, cases[i].inside, cases[i].heads, cases[i].layers, cases[i].kv_heads);
        write_config(path, config);
        dl_architecture a = make(path);
        assert_int_equal(dl_architecture_parameters(&a), cases[i].parameters);
        dl_architecture_free(&a);
        free(config);
    }
    remove(path);
}

static void errors_name_what_is_near(void **state)
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
        {"gpt2:cp=2,window=64", DL_ERR_RANGE, "window = 64: not with cp"},
        {"mixtral_8x7b:autocast=no", DL_ERR_RANGE, "autocast = no: not with experts"},
        {"bert_base:metrics=1", DL_ERR_RANGE, "metrics = 1: an encoder has no scores of words"},
        {"bert_base:window=64", DL_ERR_RANGE, "window = 64: not with kind = encoder"},
        {"gpt2:kv_heads=5", DL_ERR_RANGE, "kv_heads = 5 does not divide heads = 12"},
        {"gpt2:sequence=2048", DL_ERR_RANGE, "sequence = 2048: only 1024 positions"},
        {"resnet50:image=8", DL_ERR_RANGE, "image = 8: resnet50 needs 32 at least"},
        {"mistralai/Mistral-7B-v0.3", DL_ERR_NAME,
         "no network is called 'mistralai/Mistral-7B-v0.3'; did you mean 'mistral_7b'?"},
        {"", DL_ERR_NAME, "no network is called ''"},
    };
    (void)state;
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
static void adapters_have_the_published_parameters(void **state)
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
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = dl_format("%s:%s", cases[i].base, cases[i].adapters);
        dl_architecture all = make(cases[i].base), a = make(text);
        if (dl_architecture_parameters(&a) != cases[i].parameters)
            fail_msg("%s: %lld parameters", text, (long long)dl_architecture_parameters(&a));
        assert_int_equal(dl_architecture_frozen(&a), dl_architecture_parameters(&all));
        dl_architecture_free(&a);
        dl_architecture_free(&all);
        free(text);
    }
}

/* Sources: the checkpoints of Mixtral 8x7B v0.1 and 8x22B v0.3 and of Qwen3 (model.safetensors),
 * without Qwen3's 2 x 128 norms of heads per block; active: 12.9 and 39 billion (Mistral AI), 3.3 and
 * 22 billion (Qwen3's model cards). Qwen2-57B-A14B: 57.41 and 14.2 billion (its model card), here
 * without biases and the shared expert's gate. */
static void experts_have_the_published_parameters(void **state)
{
    static const char qwen2[] =
        "transformer:layers=28,width=3584,heads=28,kv_heads=4,feed_forward=18944,num_experts=64,"
        "num_experts_per_tok=8,moe_intermediate_size=2560,shared_expert_intermediate_size=20480,"
        "vocabulary=151936,positions=0,sequence=4096,bias=no,gated=yes,norm=rms,tied=no,dropout=no";
    static const struct {
        const char *name;
        double parameters, near;
        double active, active_near;
    } cases[] = {
        {"mixtral", 46702792704, 0, 12.9e9, 0.005},
        {"mixtral_8x22b", 140630071296, 0, 39e9, 0.005},
        {"qwen3_30b_a3b", 30532122624 - 48 * 256, 0, 3.3e9, 0.02},
        {"qwen3_235b_a22b", 235093634560 - 94 * 256, 0, 22e9, 0.02},
        {qwen2, 57.41e9, 0.001, 14.2e9, 0.01},
    };
    (void)state;
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        dl_architecture a = make(cases[i].name);
        const double all = (double)dl_architecture_parameters(&a);
        const double active = (double)dl_architecture_active(&a);
        if (!near_scaled(all, cases[i].parameters, 0, cases[i].near) ||
            !near_scaled(active, cases[i].active, 0, cases[i].active_near))
            fail_msg("%s: %.0f parameters, %.0f active", cases[i].name, all, active);
        dl_architecture_free(&a);
    }
}

/* Asserts the forward products out of the 6 numbers inside an expert, in a step of 2 samples. */
static void assert_expert_products(const dl_architecture *architecture, int64_t rows, int64_t count)
{
    dl_step_product *products = NULL;
    const size_t kinds = dl_architecture_products(architecture, 2, &products);
    bool found = false;
    for (size_t i = 0; i < kinds; i++) {
        if (products[i].inputs != 6 || products[i].pass != DL_PRODUCT_FORWARD) continue;
        assert_int_equal(products[i].rows, rows);
        assert_int_equal(products[i].count, count);
        found = true;
    }
    assert_true(found);
    free(products);
}

/* 3 tokens of 4 numbers, of which each uses 2 of 4 experts with 3 matrices of 4 x 6: products for
 * queries, keys, values 288 flop, behind attention (72) 96, router 96, experts 3 x 2 x 6 x 24, and
 * an expert of 3 matrices of 4 x 8 for all tokens. The head: 120. Each expert gets half of the rows
 * of a sample; 1.5 of them. On two GPUs each has half of every expert, the whole router, and the
 * same number of collectives, of which only those of attention and of the shared expert overlap. */
static void experts_by_hand(void **state)
{
    static const char base[] = "transformer:layers=1,width=4,heads=2,feed_forward=8,sequence=3,"
                               "vocabulary=5,positions=0,bias=no,fused=yes,gated=yes,experts=4,"
                               "active=2,expert_width=6";
    char *two_text = dl_format("%s,tp=2", base),
         *shared_text = dl_format("%s,shared_width=8", base);
    char *shared_two_text = dl_format("%s,tp=2", shared_text);
    char *dense_text = dl_format("%s,layers=2,dense_blocks=1", base);
    char *plain_text = dl_format("%s,fused=no", base);
    dl_architecture a = make(base), two = make(two_text), shared = make(shared_text),
                    shared_two = make(shared_two_text), dense = make(dense_text),
                    plain = make(plain_text);
    const dl_architecture_layer *block = &a.layers[1], *half = &two.layers[1];
    const double forward = 288 + 96 + 96 + 864, more = 3 * 2 * 3 * 32;
    (void)state;
    assert_true(near_scaled(dl_pass_flop(&block->forward), forward + 72, 0, 1e-12));
    assert_true(near_scaled(dl_pass_flop(&block->backward), 2 * forward + 2.5 * 72, 0, 1e-12));
    assert_int_equal(dl_layer_parameters(block), 48 + 16 + 16 + 4 * 4 + 4 * 72);
    assert_int_equal(block->idle_parameters, 2 * 72);
    assert_int_equal(dl_layer_parameters(half), 32 + 16 + 4 * 4 + 4 * 36);
    assert_true(
        near_scaled(dl_pass_flop(&shared.layers[1].forward), forward + 72 + more, 0, 1e-12));
    assert_int_equal(dl_layer_parameters(&shared.layers[1]), dl_layer_parameters(block) + 3 * 32);
    assert_int_equal(dl_layer_parameters(&dense.layers[1]), 48 + 16 + 16 + 3 * 32);
    assert_int_equal(dl_layer_parameters(&dense.layers[2]), dl_layer_parameters(block));
    /* Saved in addition to the dense block's: 6 rows in the order of the experts, 24 numbers; their
     * 3 x 36 inside instead of the 3 tokens' 3 x 24; 12 scores of 4 bytes, their mask and table. */
    assert_true(near_scaled(block->kept_numbers - dense.layers[1].kept_numbers,
                            24 + 108 - 72 + 3.25 * 12, 0, 1e-12));
    assert_true(near_scaled(half->tensor_forward, 2, 0, 0));
    assert_true(near_scaled(half->tensor_backward, 1.5, 0, 0));
    assert_true(near_scaled(half->tensor_beside, 1, 0, 0));
    assert_true(near_scaled(half->beside_flop, 2 * 2 * 3 * 4 * 6, 0, 1e-12));
    assert_true(near_scaled(shared_two.layers[1].tensor_forward, 3, 0, 0));
    assert_true(near_scaled(shared_two.layers[1].tensor_backward, 2, 0, 0));
    assert_true(near_scaled(shared_two.layers[1].beside_flop, 2 * 2 * 3 * 4 * (6 + 8), 0, 1e-12));
    /* Experts are tensors and products of their own in plain PyTorch: 4 x 3 more products forward,
     * twice as many backward. */
    assert_int_equal(dl_layer_tensors(&plain.layers[1]) - dl_layer_tensors(block), 3 * (4 - 1));
    assert_expert_products(&a, 3, 4);
    dl_architecture_free(&a);
    dl_architecture_free(&two);
    dl_architecture_free(&shared);
    dl_architecture_free(&shared_two);
    dl_architecture_free(&dense);
    dl_architecture_free(&plain);
    free(two_text);
    free(shared_text);
    free(shared_two_text);
    free(dense_text);
    free(plain_text);
}

static dl_layer_part sum_of(const dl_layer_pass *pass)
{
    dl_layer_part sum = {0};
    for (int p = 0; p < pass->count; p++) {
        sum.flop += pass->parts[p].flop;
        sum.numbers += pass->parts[p].numbers;
        sum.wide += pass->parts[p].wide;
        sum.kernels += pass->parts[p].kernels;
    }
    return sum;
}

/* The block of experts_by_hand on two GPUs with two experts each: a GPU gets as many rows as it sends,
 * 6 of 4 numbers, in two all-to-alls per pass, and does the same floating-point operations; each of its
 * experts gets twice as many rows. Two more kernels per pass order the rows, each of which is read and
 * written; with one expert per GPU they are in order. The backward pass of a recomputed block repeats
 * the exchanges of the forward pass. Sent once, 3 x 2 x 5/6 tokens come in place of the GPU's 3, as 5
 * of the 6 pairs of experts contain one of the GPU's 2, and no
 * kernel orders the rows. */
static void experts_of_two_gpus_by_hand(void **state)
{
    static const char base[] = "transformer:layers=1,width=4,heads=2,feed_forward=8,sequence=3,"
                               "vocabulary=5,positions=0,bias=no,fused=yes,gated=yes,experts=4,"
                               "active=2,expert_width=6,ep=1";
    char *two_text = dl_format("%s,ep=2", base), *four_text = dl_format("%s,ep=4", base);
    char *full_text = dl_format("%s,recompute=full", two_text),
         *once_text = dl_format("%s,dispatch=deepep", two_text);
    dl_architecture a = make(base), two = make(two_text), four = make(four_text),
                    full = make(full_text), once = make(once_text);
    const dl_architecture_layer *one = &a.layers[1], *half = &two.layers[1];
    (void)state;
    assert_int_equal(two.expert_ranks, 2);
    assert_int_equal(dl_layer_parameters(one) - dl_layer_parameters(half), 2 * 72);
    assert_int_equal(half->expert_parameters, 2 * 72);
    assert_int_equal(four.layers[1].expert_parameters, 72);
    assert_int_equal(dl_architecture_whole(&two), dl_architecture_parameters(&a));
    assert_int_equal(dl_architecture_whole(&four), dl_architecture_parameters(&a));
    assert_int_equal(dl_architecture_active(&two), dl_architecture_active(&a));
    assert_int_equal(dl_architecture_active(&four), dl_architecture_active(&a));
    assert_true(half->expert_numbers == 6 * 4 && one->expert_numbers == 0);
    assert_true(half->expert_forward == 2 && half->expert_backward == 2);
    assert_true(full.layers[1].expert_forward == 2 && full.layers[1].expert_backward == 4);
    assert_true(half->kept_numbers == one->kept_numbers);
    assert_true(half->expert_copies == 0 && once.layers[1].expert_copies == 2);
    assert_true(once.layers[1].expert_numbers == 6 * 4);
    for (int way = 0; way < 2; way++) {
        const dl_layer_part all = sum_of(way ? &one->backward : &one->forward),
                            single =
                                sum_of(way ? &once.layers[1].backward : &once.layers[1].forward),
                            part = sum_of(way ? &half->backward : &half->forward),
                            quarter =
                                sum_of(way ? &four.layers[1].backward : &four.layers[1].forward);
        assert_true(near_scaled(part.flop, all.flop, 0, 1e-12));
        assert_true(near_scaled(part.numbers, all.numbers + 2 * 2 * 24, 0, 1e-12));
        assert_true(near_scaled(quarter.numbers, all.numbers, 0, 1e-12));
        assert_int_equal(part.kernels, all.kernels + 2);
        assert_true(near_scaled(single.numbers, all.numbers + 2 * 2 * 4, 0, 1e-12));
        assert_int_equal(single.kernels, all.kernels);
    }
    assert_expert_products(&two, 6, 2);
    dl_architecture_free(&a);
    dl_architecture_free(&two);
    dl_architecture_free(&four);
    dl_architecture_free(&full);
    dl_architecture_free(&once);
    free(two_text);
    free(four_text);
    free(full_text);
    free(once_text);
}

/* The experts of experts_by_hand, one after the other in plain PyTorch, next to a dense block of the
 * same network: 6 rows of 24 numbers, 3 tokens of 12, 12 scores, and 2 vectors of 12 numbers of 8
 * bytes to tell who gets which. Wide numbers forward: 2 x 12 of the scores, 5 x 48 of those vectors,
 * 6 x 24 and 12 of the gathers. Backward: 5 x 12, 13 x 24, for every expert 4 x 12; a dense block's
 * norm has two readers, whose gradients' sum takes 3 x 12. Kernels forward: router 1 + 27, gathers
 * 17, products and activation of 4 experts for those of one, 9 + 6; backward 2 + 8, 52, 18 + 9, and
 * no sum behind the norm. */
static void experts_one_after_the_other_by_hand(void **state)
{
    dl_architecture a = make("transformer:layers=2,width=4,heads=2,feed_forward=8,sequence=3,"
                             "vocabulary=5,positions=0,bias=no,dropout=no,gated=yes,experts=4,"
                             "active=2,expert_width=6,dense_blocks=1");
    const dl_layer_part dense[] = {sum_of(&a.layers[1].forward), sum_of(&a.layers[1].backward)},
                        block[] = {sum_of(&a.layers[2].forward), sum_of(&a.layers[2].backward)};
    (void)state;
    assert_true(near_scaled(block[0].wide - dense[0].wide, 24 + 240 + 144 + 12, 0, 1e-12));
    assert_true(near_scaled(block[1].wide - dense[1].wide, 60 + 312 + 4 * 48 - 36, 0, 1e-12));
    assert_int_equal(block[0].kernels - dense[0].kernels, 1 + 27 + 17 + 9 + 6);
    assert_int_equal(block[1].kernels - dense[1].kernels, 2 + 8 + 52 + 18 + 9 - 1);
    dl_architecture_free(&a);
}

/* The block of a_block_on_two_gpus on one GPU: products of 768 flop, attention 72, scores 120;
 * adapters of rank 1 beside queries, 2 x 3 tokens x (4 + 4), and beside the last product, 2 x 3 (8
 * + 4). Backward products have one gradient, attention 2.5 times, adapters two; nothing before the
 * first block. The inputs of the first product (12 numbers) and of the last (24) are saved, but not
 * those between them, nor the head's; each adapter saves 3 numbers. On two GPUs each has half of
 * all adapters, and no collective overlaps. */
static void adapters_by_hand(void **state)
{
    static const char base[] = "transformer:layers=1,width=4,heads=2,feed_forward=8,sequence=3,"
                               "vocabulary=5,positions=0,bias=no,fused=yes";
    char *text = dl_format("%s,lora=1,lora_targets=q_proj+down_proj", base);
    char *half_text = dl_format("%s,tp=2", text), *four_text = dl_format("%s,frozen_bits=4", text);
    (void)state;
    dl_architecture all = make(base), a = make(text), half = make(half_text),
                    four = make(four_text);
    const dl_architecture_layer *block = &a.layers[1], *whole = &all.layers[1];
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
    dl_architecture_free(&all);
    dl_architecture_free(&a);
    dl_architecture_free(&half);
    dl_architecture_free(&four);
    free(text);
    free(half_text);
    free(four_text);
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

/* GPT-2 with two blocks of width 64 and 3 sequences of 32 tokens: 96 rows. Queries, keys and values
 * are one product, and the head's has no bias; their flop are all except those of attention, twice
 * 4 x 32 x 32 x 64 / 2 per sequence. Llama's three products are separate, and gate and up are
 * equal. */
static void products_of_a_step_are_listed(void **state)
{
    (void)state;
    dl_step_product *products = NULL;
    dl_architecture a =
        make("transformer:layers=2,width=64,heads=4,sequence=32,vocabulary=100,positions=32");
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
    a = make(
        "llama:layers=1,width=64,heads=4,kv_heads=2,feed_forward=96,sequence=32,vocabulary=100");
    count = dl_architecture_products(&a, 1, &products);
    assert_int_equal(count_of(products, count, DL_PRODUCT_FORWARD, 64, 64),
                     2); /* queries and output */
    assert_int_equal(count_of(products, count, DL_PRODUCT_FORWARD, 64, 32), 2);
    assert_int_equal(count_of(products, count, DL_PRODUCT_WEIGHT, 64, 96), 2);
    free(products);
    dl_architecture_free(&a);
    /* Frozen weights have no gradient; recomputed products count as forward ones. */
    a = make("llama:layers=1,width=64,heads=4,feed_forward=96,sequence=32,vocabulary=100,"
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
        cmocka_unit_test(a_block_by_hand),
        cmocka_unit_test(a_block_on_two_gpus),
        cmocka_unit_test(a_quarter_of_each_sequence),
        cmocka_unit_test(attention_is_recomputed),
        cmocka_unit_test(every_second_product_is_recomputed),
        cmocka_unit_test(heads_have_a_width_of_their_own),
        cmocka_unit_test(llama_like_blocks),
        cmocka_unit_test(a_llama_block_as_pytorch_runs_it),
        cmocka_unit_test(a_bert_block_as_pytorch_runs_it),
        cmocka_unit_test(products_of_a_step_are_listed),
        cmocka_unit_test(resnet50_sums),
        cmocka_unit_test(a_convolution_by_hand),
        cmocka_unit_test(images_in_the_default_order_are_converted),
        cmocka_unit_test(adapters_have_the_published_parameters),
        cmocka_unit_test(adapters_by_hand),
        cmocka_unit_test(experts_have_the_published_parameters),
        cmocka_unit_test(experts_by_hand),
        cmocka_unit_test(experts_of_two_gpus_by_hand),
        cmocka_unit_test(experts_one_after_the_other_by_hand),
        cmocka_unit_test(other_programs_words_mean_the_same),
        cmocka_unit_test(config_json_is_a_network),
        cmocka_unit_test(biases_of_a_config_are_counted),
        cmocka_unit_test(configs_have_the_published_parameters),
        cmocka_unit_test(gemma_has_windows_in_some_layers),
        cmocka_unit_test(olmoe_has_its_parameters),
        cmocka_unit_test(gemma_has_its_parameters),
        cmocka_unit_test(windows_limit_attention),
        cmocka_unit_test(errors_name_what_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
