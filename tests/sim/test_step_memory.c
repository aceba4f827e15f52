/* Memory of a GPU during a step: what layers keep, the permanent content, and the moment of the
 * peak. */
#include "tests/gpu_fixture.h"

#include <stdlib.h>

#include "sim/island/memory.h"
#include "tests/network.h"

/* Bytes of the layer's numbers in 16 bits, of which `wide` have 32. */
static double half_bytes(double numbers, double wide)
{
    return 2 * (numbers - wide) + 4 * wide;
}

/* Korthikanti et al. 2022: a layer keeps s b h (34 + 5 a s / h) bytes, of which 2 s b h are masks
 * of dropout outside of attention, and 3 a s^2 b are its mask and result inside; programs with
 * their own kernels have neither, but keep the scores of plain attention before and after the
 * softmax, without dropout only after it. Flash attention keeps no scores; each of t GPUs with sequence parallelism has 1 / t. s =
 * 32, h = 64, a = 4. */
static void a_layer_keeps_what_the_formula_says(void **state DL_UNUSED)
{
    static const char shape[] = "transformer:layers=1,width=64,heads=4,sequence=32,vocabulary=10,"
                                "positions=32,fused=yes";
    const double sh = 32 * 64, scores = 4 * 32 * 32;
    static const struct {
        const char *more;
        double scores;
        int parts;
    } cases[] = {{"", 0, 1},
                 {",attention=plain", 4, 1},
                 {",attention=plain,dropout=no", 2, 1},
                 {",tp=4", 0, 4},
                 {",attention=plain,tp=4", 4, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        DL_AUTOFREE char *text = dl_format("%s%s", shape, cases[c].more);
        DL_SCOPED(dl_architecture) a = network_of(text);
        const dl_architecture_layer *block = &a.layers[1];
        assert_near(half_bytes(block->kept_numbers, block->kept_wide),
                    ((34 - 2) * sh + cases[c].scores * scores) / cases[c].parts, 1e-12);
    }
}

/* Llama 3 70B on two GPUs: (12 h + 4 kv + 6 f) bytes per token, h = 8192, kv = 1024, f = 28672.
 * Recomputed blocks keep 2 h, and have the rest in their backward pass; with every second product
 * recomputed they keep input, queries, values, attention's result, one of the gate's two inputs and
 * the output: 2 (4 h + kv + f). */
static void what_is_recomputed_is_not_kept(void **state DL_UNUSED)
{
    static const struct {
        const char *name;
        double kept;
    } cases[] = {{"none", 12 * 8192 + 4 * 1024 + 6 * 28672},
                 {"full", 2 * 8192},
                 {"products", 2 * (4 * 8192 + 1024 + 28672)}};
    double all = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char *text = dl_format("llama3_70b:layers=1,sequence=4096,fused=yes,tp=2,recompute=%s",
                               cases[c].name);
        DL_SCOPED(dl_architecture) a = network_of(text);
        const dl_architecture_layer *block = &a.layers[1];
        const double kept = half_bytes(block->kept_numbers, block->kept_wide);
        const double working = half_bytes(block->working_numbers, block->working_wide);
        assert_near(kept, 4096 / 2.0 * cases[c].kept, 1e-12);
        if (c == 0) all = kept + working;
        assert_near(kept + working, all, 1e-12);
        free(text);
    }
}

/* Bytes per score: plain: 2 in 16 bits, and 12 in 32 bits for the score, its log-softmax and a
 * gradient; megatron: softmax 4 and gradients 2; fused: scores and gradients 2 each. 8 tokens of 10
 * words. */
static void the_loss_has_its_copies(void **state DL_UNUSED)
{
    static const struct {
        const char *loss;
        double bytes, kept;
    } cases[] = {{"plain", 14, 4}, {"megatron", 6, 4}, {"fused", 4, 2}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char *text = dl_format("llama:layers=1,width=16,heads=2,feed_forward=16,sequence=8,"
                               "vocabulary=10,fused=yes,loss=%s",
                               cases[c].loss);
        DL_SCOPED(dl_architecture) a = network_of(text);
        const dl_architecture_layer *head = &a.layers[2];
        const double norm = 2 * 2 * 8 * 16; /* its input and result */
        const double kept = half_bytes(head->kept_numbers, head->kept_wide) - norm;
        assert_near(kept, cases[c].kept * 80, 1e-12);
        assert_near(kept + half_bytes(head->working_numbers, head->working_wide),
                    cases[c].bytes * 80, 1e-12);
        free(text);
    }
}

#define LAYER(name, parameters, kept, working)                                         \
    "[op " name ".forward]\nfixed_ns = 1\nper_sample_ns = 1\n[op " name ".backward]\n" \
    "fixed_ns = 1\nper_sample_ns = 1\n[layer " name "]\noutput_bytes_per_sample = 1\n" \
    "parameter_bytes = " parameters "\nactivation_bytes_per_sample = " kept            \
    "\nworking_bytes_per_sample = " working "\n"
#define HEAD "[costs]\nschema = 1\nparameter_bytes = 6000\nstate_bytes = 12000\n"
#define WORKSPACE "[gpu_memory]\nactivation_bytes_per_sample = 1000\nworkspace_bytes = 7\n"

typedef struct ranks {
    dl_costs costs;
    dl_gpu_options options;
    dl_memory_rank rank;
} ranks;

/* Opens a rank with two samples in each of two micro-batches, whose gradients are views of buckets,
 * which stay. */
static void open_rank(ranks *r, const char *text)
{
    *r = (ranks){.costs = fixture_costs(text), .options = {.overlap = true, .bucket_views = true}};
    r->rank = (dl_memory_rank){
        .costs = &r->costs,
        .options = &r->options,
        .split = {.stages = 1,
                  .shards = 1,
                  .context = 1,
                  .experts = 1,
                  .chunks = 1,
                  .micro_batches = 2,
                  .samples = 2},
        .plan = dl_exchange_plan_among(&r->options, false, 1),
        .parameter_bytes = 6000,
        .state_bytes = 12000,
    };
}

static void assert_peak(const ranks *r, double bytes, const char *when)
{
    const dl_gpu_content most = dl_memory_of_rank(&r->rank, NULL);
    DL_AUTOFREE char *text = dl_memory_when(&r->rank, &most.at);
    assert_near(dl_gpu_content_bytes(&most), bytes, 1e-12);
    assert_string_equal(text, when);
}

/* Layers keep 100, 200, 300 bytes per sample; their working memory is 50, 60 or 900, and 400 with
 * the loss. */
static void the_most_is_at_a_moment(void **state DL_UNUSED)
{
    const double base = 2 * 6000 + 12000 + 7;
    ranks r;
    open_rank(&r, HEAD LAYER("a", "1000", "100", "50") LAYER("b", "2000", "200", "60")
                      LAYER("c", "3000", "300", "400") WORKSPACE);
    assert_peak(&r, base + 2 * (600 + 400), "in the loss of micro-batch 0");
    const dl_gpu_content most = dl_memory_of_rank(&r.rank, NULL);
    assert_near(most.logits, 2 * 700, 1e-12);
    assert_near(most.activations, 2 * 300, 1e-12);
    dl_memory_pass passes[4];
    dl_memory_of_rank(&r.rank, passes);
    assert_near(passes[0].after_bytes, base + 2 * 600, 1e-12);
    assert_near(passes[1].most_bytes, base + 2 * 1000, 1e-12);
    assert_near(passes[3].after_bytes, base, 1e-12);
    /* Three layers in two forward and two backward passes; the peak of both directions is c's
     * loss. */
    size_t count = 0;
    DL_AUTOFREE dl_gpu_content *course = dl_memory_course(&r.rank, &count);
    assert_int_equal(count, 12);
    assert_near(course[0].activations, 2 * 100, 1e-12);
    assert_near(course[1].activations, 2 * 300, 1e-12);
    assert_near(dl_gpu_content_bytes(&course[2]), base + 2 * 1000, 1e-12);
    assert_near(dl_gpu_content_bytes(&course[3]), base + 2 * 1000, 1e-12); /* backward */
    assert_near(course[5].working, 2 * 50, 1e-12);
    assert_false(course[5].at.forward);
    assert_true(course[6].at.forward);
    assert_int_equal(course[6].at.micro_batch, 1);
    dl_costs_free(&r.costs);
    open_rank(&r, HEAD LAYER("a", "1000", "100", "50") LAYER("b", "2000", "200", "900")
                      LAYER("c", "3000", "300", "400") WORKSPACE);
    assert_peak(&r, base + 2 * (300 + 900), "in the backward pass of b, micro-batch 0");
    dl_costs_free(&r.costs);
    open_rank(&r, HEAD WORKSPACE); /* unknown layers */
    assert_peak(&r, base + 2 * 1000, "at the end of the forward pass of micro-batch 0");
    dl_costs_free(&r.costs);
}

/* DistributedDataParallel's buckets are as large as the gradients, which grow beside them in the
 * first backward pass: with one micro-batch, a's moment has all of both, 6 kB more, and 2 (100 +
 * 50); with two, so has the second loss. Views have no copy, nor have Megatron-LM's 16-bit weights.
 */
static void gradients_lie_beside_their_buckets(void **state DL_UNUSED)
{
    const double base = 2 * 6000 + 12000 + 7;
    ranks r;
    open_rank(&r, HEAD LAYER("a", "1000", "100", "50") LAYER("b", "2000", "200", "60")
                      LAYER("c", "3000", "300", "400") WORKSPACE);
    r.options.bucket_views = false;
    r.rank.plan = dl_exchange_plan_among(&r.options, false, 1);
    assert_peak(&r, base + 6000 + 2 * (600 + 400), "in the loss of micro-batch 1");
    r.rank.split.micro_batches = 1;
    assert_peak(&r, base + 6000 + 2 * (100 + 50), "in the backward pass of a");
    r.costs.half_weights = true;
    assert_near(dl_memory_of_rank(&r.rank, NULL).gradients, 6000 + 1000, 1e-12);
    r.costs.half_weights = false;
    r.options.bucket_views = true;
    r.rank.plan = dl_exchange_plan_among(&r.options, false, 1);
    assert_peak(&r, base + 2 * (600 + 400), "in the loss");
    dl_costs_free(&r.costs);
}

/* Without buckets the optimizer frees gradients, 6 kB: with one micro-batch they are not there in the
 * loss, c's are there in b's moment, and all in a's, before whose pass 2 x 100 are kept; with two
 * micro-batches they are there in the second loss. */
static void gradients_grow_where_they_are_freed(void **state DL_UNUSED)
{
    const double others = 6000 + 12000 + 7;
    ranks r;
    open_rank(&r, HEAD LAYER("a", "1000", "100", "50") LAYER("b", "2000", "200", "60")
                      LAYER("c", "3000", "300", "4000") WORKSPACE);
    r.options.overlap = false;
    r.rank.plan = dl_exchange_plan_among(&r.options, false, 1);
    assert_peak(&r, others + 6000 + 2 * (600 + 4000), "in the loss of micro-batch 1");
    r.rank.split.micro_batches = 1;
    assert_peak(&r, others + 2 * (600 + 4000), "in the loss");
    size_t count = 0;
    DL_AUTOFREE dl_gpu_content *course = dl_memory_course(&r.rank, &count);
    assert_int_equal(count, 6);
    assert_near(course[4].gradients, 3000 + 2000, 1e-12); /* backward pass of b */
    assert_near(course[5].gradients, 6000, 1e-12);
    dl_memory_pass passes[2];
    dl_memory_of_rank(&r.rank, passes);
    assert_near(passes[0].after_bytes, others + 2 * 600, 1e-12);
    assert_near(passes[1].after_bytes, others + 6000, 1e-12);
    dl_costs_free(&r.costs);
}

/* Copies of weights, 500 bytes of a and 1000 of b, are made in the forward pass, and freed in the
 * backward pass, whatever the samples. If b is recomputed, its copies are there until the end of the
 * forward pass, and again in its own backward pass. Two micro-batches in flight (GPipe) keep two
 * copies. Messages in bf16 of a divided optimizer are those of 16-bit weights, without copies. */
static void autocast_keeps_copies_of_weights(void **state DL_UNUSED)
{
#define CASTS(more)                                                                           \
    HEAD LAYER("a", "1000", "100", "50") "cast_bytes = 500\n" LAYER(                          \
        "b", "2000", "200", "60") "cast_bytes = 1000\n" more LAYER("c", "3000", "300", "400") \
        WORKSPACE
    static const struct {
        const char *text;
        double casts[6], after; /* at the moments of both passes, and between these */
    } cases[] = {{CASTS(""), {500, 1500, 1500, 1500, 1500, 500}, 1500},
                 {CASTS("recast_bytes = 1000\n"), {500, 1500, 1500, 500, 1500, 500}, 500}};
    ranks r;
    for (int c = 0; c < 2; c++) {
        open_rank(&r, cases[c].text);
        r.rank.split.micro_batches = 1;
        size_t count = 0;
        DL_AUTOFREE dl_gpu_content *course = dl_memory_course(&r.rank, &count);
        assert_int_equal(count, 6);
        for (int i = 0; i < 6; i++)
            assert_near(course[i].parameters, 6000 + cases[c].casts[i], 1e-12);
        dl_memory_pass passes[2];
        dl_memory_of_rank(&r.rank, passes);
        assert_near(passes[0].after_bytes - passes[1].after_bytes, 2 * 600 + cases[c].after, 1e-12);
        dl_costs_free(&r.costs);
    }
    open_rank(&r, cases[0].text);
    const int first[] = {0, 3, 3};
    r.rank.first = first;
    r.rank.schedule = DL_SCHEDULE_GPIPE;
    r.rank.split.stages = 2;
    assert_near(dl_memory_of_rank(&r.rank, NULL).parameters, 6000 + 2 * 1500, 1e-12);
    r.rank.first = NULL;
    r.rank.split.stages = 1;
    r.options = (dl_gpu_options){.sharded = DL_SHARDED_OPTIMIZER, .param_dtype = DL_DTYPE_BF16};
    r.rank.plan = dl_exchange_plan_among(&r.options, false, 2);
    assert_near(dl_memory_of_rank(&r.rank, NULL).parameters, 3000 + 3000, 1e-12);
    dl_costs_free(&r.costs);
}

/* Weights of 2 bytes, their copy, gradients of 4, and those of block b with 2 instead of 4 bytes
 * each; with the optimizer sharded over three GPUs, a third of its 8 and of the copy's 4 bytes. */
static void half_weights_have_a_copy(void **state DL_UNUSED)
{
    ranks r;
    open_rank(&r, HEAD "half_weights = yes\n" LAYER("a", "1000", "0", "0")
                      LAYER("b", "2000", "0", "0") LAYER("c", "3000", "0", "0") WORKSPACE);
    const dl_gpu_content whole = dl_memory_of_rank(&r.rank, NULL);
    assert_near(whole.parameters, 3000, 1e-12);
    assert_near(whole.gradients, 6000 + 1000, 1e-12);
    assert_near(whole.optimizer, 12000 + 6000, 1e-12);
    r.options.sharded = DL_SHARDED_OPTIMIZER;
    r.rank.plan = dl_exchange_plan_among(&r.options, false, 3);
    const dl_gpu_content part = dl_memory_of_rank(&r.rank, NULL);
    assert_near(part.parameters, 3000, 1e-12);
    assert_near(part.gradients, 7000, 1e-12);
    assert_near(part.optimizer, 18000 / 3.0, 1e-12);
    r.options.reduce_dtype = DL_DTYPE_BF16; /* Megatron-LM's sums then also have that type */
    r.rank.plan = dl_exchange_plan_among(&r.options, false, 3);
    assert_near(dl_memory_of_rank(&r.rank, NULL).gradients, 3000 + 1000, 1e-12);
    dl_costs_free(&r.costs);
}

/* FSDP over two GPUs in bf16, one unit per layer, which keep 100 bytes per sample each and have 0,
 * 5000, 0 of working memory. Backward at b: half of 6 kB of parameters and 12 kB of state; gathered
 * b and a, 1.5 kB; gradients of b in bf16, and of c while they are reduced, 2.5 kB; 2 (200 + 5000)
 * of activations. In the first micro-batch the GPU has its part of c's gradients, 1.5 kB, in the
 * second all 3 kB. */
static void shards_gather_layer_by_layer(void **state DL_UNUSED)
{
    ranks r;
    open_rank(&r, HEAD LAYER("a", "1000", "100", "0") LAYER("b", "2000", "100", "5000")
                      LAYER("c", "3000", "100", "0") WORKSPACE
              "[gradients]\nready_1 = 0.3, 3000\nready_2 = 0.6, 5000\nready_3 = 1, 6000\n");
    r.options = (dl_gpu_options){.sharded = DL_SHARDED_PARAMETERS,
                                 .own_buckets = true,
                                 .param_dtype = DL_DTYPE_BF16,
                                 .reduce_dtype = DL_DTYPE_BF16};
    r.rank.plan = dl_exchange_plan_among(&r.options, false, 2);
    const double others = 3000 + 6000 + 1500 + 2500 + 2 * (200 + 5000) + 7;
    assert_peak(&r, others + 3000, "in the backward pass of b, micro-batch 1");
    r.rank.split.micro_batches = 1;
    assert_peak(&r, others + 1500, "in the backward pass of b");
    static const double parameters[] = {3000, 5000, 3000, 5000, 3000, 1000},
                        gradients[] = {0, 0, 0, 3000, 2000 + 3000, 1000 + 2000};
    static const int layers[] = {0, 1, -1, 2, 1, 0}; /* -1: the end of the forward pass */
    size_t count = 0;
    DL_AUTOFREE dl_gpu_content *course = dl_memory_course(&r.rank, &count);
    assert_int_equal(count, 6);
    for (int i = 0; i < 6; i++) {
        assert_near(course[i].gathered, (parameters[i] + gradients[i]) / 2, 1e-12);
        assert_int_equal(course[i].at.layer, layers[i]);
    }
    dl_costs_free(&r.costs);
}

/* Shards of buckets that are no layers: a GPU has two gathered buckets and the gradients of two, of
 * the size given (here 1000 bytes of fp32), else as large as the largest of the costs' (2500
 * bytes). Stages gather all of theirs for the whole step, for parameters and for gradients. */
static void shards_gather_buckets_or_stages(void **state DL_UNUSED)
{
    static const char text[] = HEAD LAYER("a", "3000", "0", "0") LAYER("b", "3000", "0", "0")
        WORKSPACE "[gradients]\nready_1 = 0.3, 2500\nready_2 = 0.6, 4500\nready_3 = 1, 6000\n";
    ranks r;
    open_rank(&r, text);
    r.options = (dl_gpu_options){.sharded = DL_SHARDED_PARAMETERS, .bucket_bytes = 1000};
    r.rank.plan = dl_exchange_plan_among(&r.options, false, 2);
    assert_near(dl_memory_of_rank(&r.rank, NULL).gathered, 4 * 1000, 1e-12);
    r.options.bucket_bytes = 0;
    r.options.own_buckets = true;
    assert_near(dl_memory_of_rank(&r.rank, NULL).gathered, 4 * 2500, 1e-12);
    const int first[] = {0, 1, 2};
    r.rank.first = first;
    r.rank.split.stages = 2;
    r.rank.parameter_bytes = 3000;
    assert_near(dl_memory_of_rank(&r.rank, NULL).gathered, 3000 + 3000, 1e-12);
    dl_costs_free(&r.costs);
}

/* 30 kB of frozen parameters are added, five times the trained ones: each GPU has all of them, or
 * half, and gathers them with the others, 5.5 bytes per parameter of b and a; they have neither
 * gradients nor state. */
static void frozen_parameters_are_only_there(void **state DL_UNUSED)
{
    ranks r;
    open_rank(&r, HEAD "frozen_bytes = 30000\n" LAYER("a", "1000", "100", "0")
                      LAYER("b", "2000", "100", "50000") LAYER("c", "3000", "100", "0") WORKSPACE
              "[gradients]\nready_1 = 0.3, 3000\nready_2 = 0.6, 5000\nready_3 = 1, 6000\n");
    const dl_gpu_content whole = dl_memory_of_rank(&r.rank, NULL);
    assert_near(whole.parameters, 6000 + 30000, 1e-12);
    assert_near(whole.gradients, 6000, 1e-12);
    assert_near(whole.optimizer, 12000, 1e-12);
    r.options = (dl_gpu_options){.sharded = DL_SHARDED_PARAMETERS,
                                 .own_buckets = true,
                                 .param_dtype = DL_DTYPE_BF16,
                                 .reduce_dtype = DL_DTYPE_BF16,
                                 .frozen_frac = 5};
    r.rank.plan = dl_exchange_plan_among(&r.options, false, 2);
    assert_near(r.rank.plan.gather_frac, 5.5, 1e-12);
    assert_near(r.rank.plan.sum_frac, 0.5, 1e-12);
    const dl_gpu_content part = dl_memory_of_rank(&r.rank, NULL);
    assert_near(part.parameters, 3000 + 15000, 1e-12);
    assert_near(part.gathered, 5.5 * (1000 + 2000) + 0.5 * (2000 + 3000), 1e-12);
    r.options.sharded = DL_SHARDED_OPTIMIZER; /* gathers the updated parameters */
    assert_near(dl_exchange_plan_among(&r.options, false, 2).gather_frac, 0.5, 1e-12);
    dl_costs_free(&r.costs);
}

/* Eight layers that keep 100 bytes per sample, over s stages of v chunks: activations of as many
 * micro-batches as the schedule has in flight. Interleaved, a stage keeps passes of 2 (s - 1) + (v
 * - 1) s + 1 of its chunks. Versions of weights: one per update in flight. */
static void schedules_keep_what_is_in_flight(void **state DL_UNUSED)
{
    static const struct {
        dl_schedule schedule;
        int stages, chunks, micro_batches, stage, versions;
        double kept; /* activations, in layers of one micro-batch */
    } cases[] = {
        {DL_SCHEDULE_GPIPE, 4, 1, 8, 3, 1, 8 * 2},
        {DL_SCHEDULE_1F1B, 4, 1, 8, 0, 1, 4 * 2},
        {DL_SCHEDULE_1F1B, 4, 1, 8, 3, 1, 1 * 2},
        {DL_SCHEDULE_1F1B, 4, 1, 2, 0, 1, 2 * 2},
        {DL_SCHEDULE_2BW, 4, 1, 2, 0, 2, 4 * 2},
        {DL_SCHEDULE_PIPEDREAM, 4, 1, 1, 1, 3, 3 * 2},
        {DL_SCHEDULE_INTERLEAVED, 2, 2, 8, 0, 1, (2 * 1 + 1 * 2 + 1) * 2},
        {DL_SCHEDULE_INTERLEAVED, 4, 2, 8, 0, 1, (2 * 3 + 1 * 4 + 1) * 1},
    };
#define KEEPS(name) LAYER(name, "1000", "100", "0")
    ranks r;
    open_rank(&r, "[costs]\nschema = 1\n" KEEPS("a") KEEPS("b") KEEPS("c") KEEPS("d") KEEPS("e")
                      KEEPS("f") KEEPS("g") KEEPS("h") WORKSPACE);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int pieces = cases[c].stages * cases[c].chunks;
        int first[9];
        for (int p = 0; p <= pieces; p++)
            first[p] = p * 8 / pieces;
        r.rank.first = first;
        r.rank.schedule = cases[c].schedule;
        r.rank.stage = cases[c].stage;
        r.rank.split = (dl_split){.stages = cases[c].stages,
                                  .shards = 1,
                                  .chunks = cases[c].chunks,
                                  .micro_batches = cases[c].micro_batches,
                                  .samples = 1};
        const dl_gpu_content most = dl_memory_of_rank(&r.rank, NULL);
        assert_near(most.activations, 100 * cases[c].kept, 1e-12);
        assert_near(most.parameters, 6000 * cases[c].versions, 1e-12);
    }
    dl_costs_free(&r.costs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_keeps_what_the_formula_says),
        cmocka_unit_test(what_is_recomputed_is_not_kept),
        cmocka_unit_test(the_loss_has_its_copies),
        cmocka_unit_test(the_most_is_at_a_moment),
        cmocka_unit_test(gradients_lie_beside_their_buckets),
        cmocka_unit_test(gradients_grow_where_they_are_freed),
        cmocka_unit_test(autocast_keeps_copies_of_weights),
        cmocka_unit_test(half_weights_have_a_copy),
        cmocka_unit_test(shards_gather_layer_by_layer),
        cmocka_unit_test(shards_gather_buckets_or_stages),
        cmocka_unit_test(frozen_parameters_are_only_there),
        cmocka_unit_test(schedules_keep_what_is_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
