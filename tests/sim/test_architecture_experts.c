/* Networks with experts: parameters against published counts, the rest against hand
 * calculations. */
#include <stdlib.h>

#include "tests/near.h"
#include "tests/network.h"

/* Sources: the checkpoints of Mixtral 8x7B v0.1 and 8x22B v0.3 and of Qwen3 (model.safetensors);
 * active: 12.9 and 39 billion (Mistral AI), 3.3
 * and 22 billion (Qwen3's model cards). Qwen2-57B-A14B: 57.41 and 14.2 billion (its model card),
 * here without biases and the shared expert's gate. */
static void experts_have_the_published_parameters(void **state DL_UNUSED)
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
        {"qwen3_30b_a3b", 30532122624, 0, 3.3e9, 0.02},
        {"qwen3_235b_a22b", 235093634560, 0, 22e9, 0.02},
        {qwen2, 57.41e9, 0.001, 14.2e9, 0.01},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        DL_SCOPED(dl_architecture) a = network_of(cases[i].name);
        const double all = (double)dl_architecture_parameters(&a);
        const double active = (double)dl_architecture_active(&a);
        if (!near_scaled(all, cases[i].parameters, 0, cases[i].near) ||
            !near_scaled(active, cases[i].active, 0, cases[i].active_near))
            fail_msg("%s: %.0f parameters, %.0f active", cases[i].name, all, active);
    }
}

/* Asserts the forward products out of the 6 numbers inside an expert, in a step of 2 samples. */
static void assert_expert_products(const dl_architecture *architecture, int64_t rows, int64_t count)
{
    DL_AUTOFREE dl_step_product *products = NULL;
    const size_t kinds = dl_architecture_products(architecture, 2, &products);
    bool found = false;
    for (size_t i = 0; i < kinds; i++) {
        if (products[i].inputs != 6 || products[i].pass != DL_PRODUCT_FORWARD) continue;
        assert_int_equal(products[i].rows, rows);
        assert_int_equal(products[i].count, count);
        found = true;
    }
    assert_true(found);
}

/* 3 tokens of 4 numbers, of which each uses 2 of 4 experts with 3 matrices of 4 x 6: products for
 * queries, keys, values 288 flop, behind attention (72) 96, router 96, experts 3 x 2 x 6 x 24, and
 * an expert of 3 matrices of 4 x 8 for all tokens. The head: 120. Each expert gets half of the rows
 * of a sample; 1.5 of them. On two GPUs each has half of every expert, the whole router, and the
 * same number of collectives, of which only those of attention and of the shared expert overlap. */
static void experts_by_hand(void **state DL_UNUSED)
{
    static const char base[] = "transformer:layers=1,width=4,heads=2,feed_forward=8,sequence=3,"
                               "vocabulary=5,positions=0,bias=no,fused=yes,gated=yes,experts=4,"
                               "active=2,expert_width=6";
    DL_AUTOFREE char *two_text = dl_format("%s,tp=2", base),
                     *shared_text = dl_format("%s,shared_width=8", base);
    DL_AUTOFREE char *shared_two_text = dl_format("%s,tp=2", shared_text);
    DL_AUTOFREE char *dense_text = dl_format("%s,layers=2,dense_blocks=1", base);
    DL_AUTOFREE char *plain_text = dl_format("%s,fused=no", base);
    DL_SCOPED(dl_architecture) a = network_of(base), two = network_of(two_text),
                               shared = network_of(shared_text),
                               shared_two = network_of(shared_two_text),
                               dense = network_of(dense_text), plain = network_of(plain_text);
    const dl_architecture_layer *block = &a.layers[1], *half = &two.layers[1];
    const double forward = 288 + 96 + 96 + 864, more = 3 * 2 * 3 * 32;
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

/* The block of experts_by_hand on two GPUs with two experts each: a GPU gets as many rows as it
 * sends, 6 of 4 numbers, in two all-to-alls per pass, and does the same floating-point operations;
 * each of its experts gets twice as many rows. Two more kernels per pass order the rows, each of
 * which is read and written; with one expert per GPU they are in order. The backward pass of a
 * recomputed block repeats the exchanges of the forward pass. Sent once, 3 x 2 x 5/6 tokens come in
 * place of the GPU's 3, as 5 of the 6 pairs of experts contain one of the GPU's 2, and no kernel
 * orders the rows. */
static void experts_of_two_gpus_by_hand(void **state DL_UNUSED)
{
    static const char base[] = "transformer:layers=1,width=4,heads=2,feed_forward=8,sequence=3,"
                               "vocabulary=5,positions=0,bias=no,fused=yes,gated=yes,experts=4,"
                               "active=2,expert_width=6,ep=1";
    DL_AUTOFREE char *two_text = dl_format("%s,ep=2", base),
                     *four_text = dl_format("%s,ep=4", base);
    DL_AUTOFREE char *full_text = dl_format("%s,recompute=full", two_text),
                     *once_text = dl_format("%s,dispatch=deepep", two_text),
                     *one_by_one_text = dl_format("%s,grouped=no", two_text);
    DL_SCOPED(dl_architecture) a = network_of(base), two = network_of(two_text),
                               four = network_of(four_text), full = network_of(full_text),
                               once = network_of(once_text),
                               one_by_one = network_of(one_by_one_text);
    const dl_architecture_layer *one = &a.layers[1], *half = &two.layers[1];
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
    /* One by one: the three products of two experts are kernels of their own, each with two
     * gradients, but calls that the host makes are as many. */
    assert_int_equal(dl_architecture_singles(&two), 0);
    assert_int_equal(dl_architecture_singles(&one_by_one), 2 * (2 + 4));
    assert_int_equal(sum_of(&one_by_one.layers[1].forward).kernels,
                     sum_of(&half->forward).kernels + 2);
    for (int low = 0; low < 2; low++)
        assert_int_equal(dl_architecture_kernels(&one_by_one, true, low == 1),
                         dl_architecture_kernels(&two, true, low == 1));
    assert_int_equal(dl_layer_tensors(&one_by_one.layers[1]), dl_layer_tensors(half));
    assert_expert_products(&two, 6, 2);
}

/* The experts of experts_by_hand, one after the other in plain PyTorch, next to a dense block of
 * the same network: 6 rows of 24 numbers, 3 tokens of 12, 12 scores, and 2 vectors of 12 numbers of
 * 8 bytes to tell who gets which. Wide numbers forward: 2 x 12 of the scores, 5 x 48 of those
 * vectors, 6 x 24 and 12 of the gathers. Backward: 5 x 12, 13 x 24, for every expert 4 x 12; a
 * dense block's norm has two readers, whose gradients' sum takes 3 x 12. Kernels forward: router 1
 * + 27, gathers 17, products and activation of 4 experts for those of one, 9 + 6; backward 2 + 8,
 * 52, 18 + 9, and no sum behind the norm. */
static void experts_one_after_the_other_by_hand(void **state DL_UNUSED)
{
    dl_architecture a =
        network_of("transformer:layers=2,width=4,heads=2,feed_forward=8,sequence=3,"
                   "vocabulary=5,positions=0,bias=no,dropout=no,gated=yes,experts=4,"
                   "active=2,expert_width=6,dense_blocks=1");
    const dl_layer_part dense[] = {sum_of(&a.layers[1].forward), sum_of(&a.layers[1].backward)},
                        block[] = {sum_of(&a.layers[2].forward), sum_of(&a.layers[2].backward)};
    assert_true(near_scaled(block[0].wide - dense[0].wide, 24 + 240 + 144 + 12, 0, 1e-12));
    assert_true(near_scaled(block[1].wide - dense[1].wide, 60 + 312 + 4 * 48 - 36, 0, 1e-12));
    assert_int_equal(block[0].kernels - dense[0].kernels, 1 + 27 + 17 + 9 + 6);
    assert_int_equal(block[1].kernels - dense[1].kernels, 2 + 8 + 52 + 18 + 9 - 1);
    dl_architecture_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_have_the_published_parameters),
        cmocka_unit_test(experts_by_hand),
        cmocka_unit_test(experts_of_two_gpus_by_hand),
        cmocka_unit_test(experts_one_after_the_other_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
