/* Networks from config.json files: parameters against published counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/near.h"
#include "tests/network.h"

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
static void windows_limit_attention(void **state DL_UNUSED)
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_AUTOFREE char *config =
            dl_format("{\"model_type\": \"%s\", \"hidden_size\": 4096, "
                      "\"num_attention_heads\": 32, \"num_hidden_layers\": 2, "
                      "\"vocab_size\": 32000, \"%s}",
                      cases[i].type, cases[i].text);
        DL_AUTOFREE char *text = dl_format("%s:sequence=16384", path);
        write_config(path, config);
        DL_SCOPED(dl_architecture) a = network_of(text);
        assert_true(
            near_scaled(attention_flop(&a), 4 * 16384.0 * 16384 * 4096 * cases[i].seen, 0, 1e-12));
    }
    remove(path);
}

/* Hugging Face's files have a member per line, in alphabetical order. */
static const char *const llama_file =
    "{\n  \"architectures\": [\"LlamaForCausalLM\", \"}\"], \"hidden_size\": 4096, "
    "\"intermediate_size\": 14336, \"max_position_embeddings\": 131072, \"model_type\": "
    "\"llama\", \"num_attention_heads\": 32, \"num_hidden_layers\": 32, "
    "\"num_key_value_heads\": "
    "8, \"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"hidden_size\": 7}, "
    "\"tie_word_embeddings\": false,\n  \"vocab_size\": 128256\r\n}\n";
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
static void config_json_is_a_network(void **state DL_UNUSED)
{
    char path[] = "test_architecture_config.json";
    write_config(path, llama_file);
    DL_AUTOFREE char *text = dl_format("%s:sequence=2048", path);
    DL_SCOPED(dl_architecture) a = network_of(path), b = network_of(text);
    assert_int_equal(dl_architecture_parameters(&a), 8030261248);
    assert_int_equal(a.sequence, 8192);
    assert_int_equal(b.sequence, 2048);
    assert_int_equal(dl_architecture_class(text), DL_MODEL_TRANSFORMER);
    write_config(path, gpt2_file);
    DL_SCOPED(dl_architecture) c = network_of(path);
    assert_int_equal(dl_architecture_parameters(&c), 124439808);
    write_config(path, experts_file);
    DL_SCOPED(dl_architecture) d = network_of(path);
    assert_int_equal(dl_architecture_parameters(&d), 30532122624);
    assert_int_equal(d.experts, 128);
    assert_int_equal(d.active, 8);
    remove(path);
}

/* Files of other networks, and faulty ones, are refused with the file's name and the reason. */
static void other_configs_are_refused(void **state DL_UNUSED)
{
    static const char *const broken[][2] = {
        {"{\"model_type\": \"dbrx\", \"num_local_experts\": 32}",
         "dbrx: types with experts that are simulated are mixtral, olmoe, qwen2_moe,"},
        {"{\"model_type\": \"deepseek_v2\", \"n_routed_experts\": 8, \"moe_layer_freq\": 2}",
         "with and without experts in turn"},
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
        {"{\"model_type\": \"mamba\", \"state_size\": 16}", "mamba: the known types are"},
        {"{\"model_type\": \"opt\", \"hidden_size\": 1024, \"word_embed_proj_dim\": 512}",
         "opt: words of another width"},
        {"{\"model_type\": \"qwen2\", \"use_sliding_window\": true}", "in some of the layers"},
        {"{\"rms_norm_eps\": 1e-5, \"hidden_size\": 8}", "the number of layers is missing"},
        {"{\"rms_norm_eps\": [1", "this is no JSON object"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 0, \"n_layer\": 12, "
         "\"vocab_size\": 50257}",
         "heads = 0: expected 1 to 65536"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 1000000000, "
         "\"vocab_size\": 50257}",
         "layers = 1000000000: expected 1 to 1000"},
        {"{\"model_type\": \"opt\", \"hidden_size\": 768, \"num_attention_heads\": 12, "
         "\"num_hidden_layers\": 12, \"vocab_size\": 50272, "
         "\"max_position_embeddings\": 4000000000000000000}",
         "positions = 4000000000000000002: expected 0 to"},
        {"{\"model_type\": \"roberta\", \"hidden_size\": 768, \"num_attention_heads\": 12, "
         "\"num_hidden_layers\": 12, \"vocab_size\": 50265, \"max_position_embeddings\": 2}",
         "sequence = 0: expected 1 to"},
        {"{\"model_type\": \"vit\", \"image_size\": 16, \"patch_size\": 32}",
         "vit: expected patches (patch_size) within images"},
        {"{\"model_type\": \"vit\", \"image_size\": 4000000000, \"patch_size\": 1}",
         "at most 65536 pixels a side"},
    };
    char path[] = "test_architecture_refused.json";
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        dl_architecture none = {0};
        dl_error error = {0};
        write_config(path, broken[i][0]);
        assert_int_not_equal(dl_architecture_make(&none, path, &error), DL_OK);
        if (strstr(error.text, broken[i][1]) == NULL || strstr(error.text, path) == NULL)
            fail_msg("%s", error.text);
    }
    remove(path);
}

/* The numbers are those of the parameters in the models' published weights. Biases of heads (GPT-J,
 * Phi-2) and the norm behind Bloom's embedding are not counted: 0.002 % at most. Llama 3.2, Gemma,
 * SmolLM3, Command R and Falcon share the embedding's weights, all but the first by default; heads
 * of Mistral Nemo, Qwen3 of 0.6 B and Gemma are not width / heads wide. StarCoder and Falcon 7B
 * (whose checkpoint has the head's words once more) have one head of keys and values. */
static void configs_have_the_published_parameters(void **state DL_UNUSED)
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
        {"glm4", 4096, 13696, 40, 32, 2, 128, 151552, ", \"attention_bias\": true", 9400279040},
        {"stablelm", 2560, 6912, 32, 32, 32, 80, 50304, "", 2795443200},
        {"stablelm", 2048, 5632, 24, 32, 32, 64, 100352, ", \"use_qkv_bias\": true", 1644515328},
        {"cohere", 8192, 22528, 40, 64, 64, 128, 256000, "", 34980831232},
        {"phi", 2560, 10240, 32, 32, 32, 80, 51200, "", 2779683840},
        {"gptj", 4096, 16384, 28, 16, 16, 256, 50400, "", 6050882784},
        {"falcon", 4544, 18176, 32, 71, 71, 64, 65024,
         ", \"multi_query\": true, \"parallel_attn\": true, \"bias\": false",
         7217189760 - 65024 * 4544.0},
        {"falcon", 8192, 32768, 60, 128, 8, 64, 65024,
         ", \"multi_query\": true, \"new_decoder_architecture\": true, \"bias\": false",
         41303293952},
        {"bloom", 4096, 16384, 30, 32, 32, 128, 250880, "", 7069016064},
        {"gpt_bigcode", 6144, 24576, 40, 48, 48, 128, 49152,
         ", \"multi_query\": true, \"n_positions\": 8192", 15517456384},
        {"gpt_neox", 6144, 24576, 44, 64, 64, 96, 50432, "", 20554567680},
        {"opt", 4096, 1, 32, 32, 32, 128, 50272,
         ", \"ffn_dim\": 16384, \"max_position_embeddings\": 2048", 6658473984},
        {"starcoder2", 4608, 18432, 32, 36, 4, 128, 49152, ", \"sliding_window\": 4096",
         7173923840},
        {"roberta", 768, 3072, 12, 12, 12, 64, 50265,
         ", \"max_position_embeddings\": 514, \"type_vocab_size\": 1", 124645632},
        {"vit", 768, 3072, 12, 12, 12, 64, 1, ", \"image_size\": 224, \"patch_size\": 16",
         86389248},
    };
    char path[] = "test_architecture_published.json";
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        DL_AUTOFREE char *config = dl_format(
            "{\"model_type\": \"%s\", \"hidden_size\": %d, \"intermediate_size\": %d, "
            "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
            "\"num_key_value_heads\": %d, \"head_dim\": %d, \"vocab_size\": %d%s}",
            models[m].type, models[m].width, models[m].inside, models[m].layers, models[m].heads,
            models[m].kv, models[m].head, models[m].words, models[m].more);
        write_config(path, config);
        DL_SCOPED(dl_architecture) a = network_of(path);
        const double parameters = (double)dl_architecture_parameters(&a);
        if (!near_scaled(parameters, models[m].parameters, 0, 1e-4))
            fail_msg("%s: %.0f, not %.0f", models[m].type, parameters, models[m].parameters);
    }
    /* The text_config of Gemma 3 4B: the words and 34 blocks, of products and norms. */
    write_config(path, "{\"hidden_size\": 2560, \"intermediate_size\": 10240, "
                       "\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 34, "
                       "\"sliding_window\": 1024}");
    DL_SCOPED(dl_architecture) gemma = network_of(path);
    assert_true(near_scaled((double)dl_architecture_parameters(&gemma), 3880263168.0, 0, 1e-4));
    assert_int_equal(gemma.sequence, 8192);
    remove(path);
}

/* Llama 3 8B with attention_bias has 4096 + 2 x 1024 + 4096 more parameters in each of 32 blocks,
 * with mlp_bias 2 x 14336 + 4096; a type without them has the same number in any case. Qwen2 7B has
 * biases of queries, keys and values (3584 + 2 x 512 in each of 28 blocks): all of the published
 * number. Tensors: nine per block, without biases, and the biases. */
static void biases_of_a_config_are_counted(void **state DL_UNUSED)
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
        {"qwen3", ", \"attention_bias\": true, \"mlp_bias\": true", 8030261248 + 32 * (10240 + 256),
         11 + 4},
        {"mistral", ", \"attention_bias\": true", 8030261248, 9},
    };
    char path[] = "test_architecture_bias.json";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_AUTOFREE char *config = dl_format(
            "{\"model_type\": \"%s\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
            "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
            "\"vocab_size\": 128256, \"tie_word_embeddings\": false%s}",
            cases[i].type, cases[i].more);
        write_config(path, config);
        DL_SCOPED(dl_architecture) a = network_of(path);
        assert_int_equal(dl_architecture_parameters(&a), cases[i].parameters);
        assert_int_equal(dl_layer_tensors(&a.layers[1]), cases[i].tensors);
    }
    write_config(path, "{\"model_type\": \"qwen2\", \"hidden_size\": 3584, "
                       "\"intermediate_size\": 18944, \"num_hidden_layers\": 28, "
                       "\"num_attention_heads\": 28, \"num_key_value_heads\": 4, "
                       "\"vocab_size\": 152064}");
    DL_SCOPED(dl_architecture) qwen = network_of(path);
    assert_int_equal(dl_architecture_parameters(&qwen), 7615616512);
    remove(path);
}

/* Gemma 2 has a window in every second layer, Gemma 3 in five of six: with a quarter of the tokens
 * 7 / 32 of the scores, not half. Norms of results are two more with 2 numbers read and written
 * each, and Gemma 3 has two of the queries and keys of each head. A tanh on the scores of words
 * reads and writes them, and saves its result. */
static void gemma_has_windows_in_some_layers(void **state DL_UNUSED)
{
    static const char *const texts[] = {
        "{\"model_type\": \"gemma2\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
        "\"num_hidden_layers\": 6, \"vocab_size\": 100, \"sliding_window\": 256, "
        "\"final_logit_softcapping\": 30.0}",
        "{\"model_type\": \"gemma3_text\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 4, \"head_dim\": 16, "
        "\"num_hidden_layers\": 6, \"vocab_size\": 100, \"sliding_window\": 256, "
        "\"final_logit_softcapping\": null}"};
    char path[] = "test_architecture_gemma_windows.json";
    for (int g = 0; g < 2; g++) {
        write_config(path, texts[g]);
        dl_architecture a =
            network_of("test_architecture_gemma_windows.json:sequence=1024,fused=yes");
        dl_architecture plain =
            network_of("llama:width=64,heads=4,kv_heads=4,feed_forward=256,layers=1,"
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
        const int of_heads = g == 0 ? 0 : 2;
        assert_int_equal(a.layers[1].forward.count, plain.layers[1].forward.count + 2 + of_heads);
        assert_int_equal(dl_layer_parameters(&a.layers[1]),
                         dl_layer_parameters(&plain.layers[1]) + 2 * 64 + of_heads * 16);
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

/* Numbers moved by a pass, and of the forward pass also wide ones and kernels. */
static void add_up(const dl_layer_pass *pass, double sign, double *numbers, double *wide,
                   int *kernels)
{
    for (int p = 0; p < pass->count; p++) {
        *numbers += sign * pass->parts[p].numbers;
        *wide += sign * pass->parts[p].wide;
        *kernels += (int)sign * pass->parts[p].kernels;
    }
}

/* Norms of queries and keys read and write 2 numbers of each of 3 x (8 + 4) forward, 5 backward,
 * and keep their input; in plain PyTorch 7 and 23 (add_half_norm), in 2 x 6 kernels. Their weights
 * are those of a head, 4 each, or of all heads. A parallel block has one norm fewer: of 3 x 8
 * numbers 2 are not moved forward, 5 backward. In plain PyTorch 7 forward, 23 backward, where 5
 * instead of 3 and 2 gradients are summed, 3 for each but the first. */
static void norms_of_heads_and_parallel_blocks_by_hand(void **state DL_UNUSED)
{
    static const struct {
        const char *fused, *more;
        double forward, wide, backward, kept; /* kept 0: not compared */
        int kernels, parameters;
    } cases[] = {
        {"yes", "qk_norm=heads", 2 * 36, 0, 5 * 36, 36, 2, 8},
        {"yes", "qk_norm=all", 2 * 36, 0, 5 * 36, 36, 2, 12},
        {"no", "qk_norm=heads", 7 * 36, 5 * 36, 23 * 36, 2 * 36, 12, 8},
        {"yes", "parallel=yes", -2 * 24, 0, -5 * 24, -2 * 24, -1, -8},
        {"no", "parallel=yes", -7 * 24, -7 * 24, (3 * 4 - 3 * 2 - 3 - 23) * 24, 0, -6, -8},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        DL_AUTOFREE char *before_text =
                             dl_format("llama:layers=1,width=8,heads=2,kv_heads=1,feed_forward=8,"
                                       "sequence=3,vocabulary=5,fused=%s",
                                       cases[i].fused),
                         *text = dl_format("%s,%s", before_text, cases[i].more);
        DL_SCOPED(dl_architecture) with = network_of(text), without = network_of(before_text);
        const dl_architecture_layer *block = &with.layers[1], *before = &without.layers[1];
        double forward = 0, wide = 0, backward = 0, ignored = 0;
        int kernels = 0, others = 0;
        add_up(&block->forward, 1, &forward, &wide, &kernels);
        add_up(&before->forward, -1, &forward, &wide, &kernels);
        add_up(&block->backward, 1, &backward, &ignored, &others);
        add_up(&before->backward, -1, &backward, &ignored, &others);
        const double kept = block->kept_numbers - before->kept_numbers;
        if (!near_scaled(forward, cases[i].forward, 0, 1e-12) ||
            !near_scaled(wide, cases[i].wide, 0, 1e-12) || kernels != cases[i].kernels ||
            !near_scaled(backward, cases[i].backward, 0, 1e-12) ||
            (cases[i].kept != 0 && !near_scaled(kept, cases[i].kept, 0, 1e-12)))
            fail_msg("%s: %g, %g wide, %d kernels, %g, kept %g", text, forward, wide, kernels,
                     backward, kept);
        assert_int_equal(dl_layer_parameters(block) - dl_layer_parameters(before),
                         cases[i].parameters);
    }
}

/* OLMoE-1B-7B-0924: 6,919,161,856 parameters in its checkpoint; 1.3 billion are active (Muennighoff
 * et al. 2024, arXiv 2409.02060). Its intermediate_size is that of an expert. */
static void olmoe_has_its_parameters(void **state DL_UNUSED)
{
    char path[] = "test_architecture_olmoe.json";
    write_config(path, "{\"model_type\": \"olmoe\", \"hidden_size\": 2048, \"intermediate_size\": "
                       "1024, \"num_hidden_layers\": 16, \"num_attention_heads\": 16, "
                       "\"num_key_value_heads\": 16, \"num_experts\": 64, "
                       "\"num_experts_per_tok\": 8, \"max_position_embeddings\": 4096, "
                       "\"tie_word_embeddings\": false, \"vocab_size\": 50304}");
    DL_SCOPED(dl_architecture) a = network_of(path);
    assert_int_equal(dl_architecture_parameters(&a), 6919161856);
    assert_true(near_scaled((double)dl_architecture_active(&a), 1.3e9, 0, 0.02));
    remove(path);
}

/* DeepSeek-V2-Lite, V3 without its module for further tokens, and gpt-oss-20b: parameters in their
 * checkpoints (of V3 less the 256 corrections of scores in each of 58 blocks), of which we do not
 * count gpt-oss' sinks, 64 in each of 24 blocks, and biases of routers, 32; active: 37 and 3.6
 * billion by their model cards, the latter without the embedding. */
static void latent_attention_and_biased_experts_have_their_parameters(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        int64_t parameters;
        double active;
    } cases[] = {
        {"{\"model_type\": \"deepseek_v2\", \"hidden_size\": 2048, \"intermediate_size\": 10944, "
         "\"num_hidden_layers\": 27, \"num_attention_heads\": 16, \"num_key_value_heads\": 16, "
         "\"q_lora_rank\": null, \"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, "
         "\"qk_nope_head_dim\": 128, \"v_head_dim\": 128, \"n_routed_experts\": 64, "
         "\"num_experts_per_tok\": 6, \"moe_intermediate_size\": 1408, \"n_shared_experts\": 2, "
         "\"first_k_dense_replace\": 1, \"moe_layer_freq\": 1, \"vocab_size\": 102400}",
         15706484224, 0},
        {"{\"model_type\": \"deepseek_v3\", \"hidden_size\": 7168, \"intermediate_size\": 18432, "
         "\"num_hidden_layers\": 61, \"num_attention_heads\": 128, \"num_key_value_heads\": 128, "
         "\"head_dim\": 64, \"q_lora_rank\": 1536, \"kv_lora_rank\": 512, "
         "\"qk_rope_head_dim\": 64, \"qk_nope_head_dim\": 128, \"v_head_dim\": 128, "
         "\"n_routed_experts\": 256, \"num_experts_per_tok\": 8, "
         "\"moe_intermediate_size\": 2048, \"n_shared_experts\": 1, "
         "\"first_k_dense_replace\": 3, \"vocab_size\": 129280}",
         671026419200 - 58 * 256, 37e9},
        {"{\"model_type\": \"gpt_oss\", \"hidden_size\": 2880, \"intermediate_size\": 2880, "
         "\"num_hidden_layers\": 24, \"num_attention_heads\": 64, \"num_key_value_heads\": 8, "
         "\"head_dim\": 64, \"num_local_experts\": 32, \"num_experts_per_tok\": 4, "
         "\"attention_bias\": true, \"sliding_window\": 128, \"vocab_size\": 201088}",
         20914757184 - 24 * (64 + 32), 3.6e9},
    };
    char path[] = "test_architecture_latent.json";
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        write_config(path, cases[i].text);
        DL_SCOPED(dl_architecture) a = network_of(path);
        assert_int_equal(dl_architecture_parameters(&a), cases[i].parameters);
        const double words = i == 2 ? 201088 * 2880.0 : 0;
        if (cases[i].active > 0)
            assert_true(
                near_scaled((double)dl_architecture_active(&a) - words, cases[i].active, 0, 0.02));
    }
    remove(path);
}

/* Blocks of the most tensors and parts. */
static void widest_blocks_have_room(void **state DL_UNUSED)
{
    static const char *const widest[] = {
        "deepseek_v3:post_norms=yes,norm=layer,recompute=full,fused=yes,norm_copies=again",
        "deepseek_v3:post_norms=yes,norm=layer,recompute=full,fused=no,dropout=yes,attention=plain",
        "gpt_oss_20b:shared_width=2880,post_norms=yes,norm=layer,bias=yes,qk_norm=all,fused=yes,"
        "recompute=full,norm_copies=again,grouped=no",
        "gpt_oss_20b:shared_width=2880,post_norms=yes,norm=layer,bias=yes,qk_norm=all,fused=no,"
        "recompute=selective,dropout=yes,attention=plain",
    };
    for (size_t i = 0; i < DL_LENGTH(widest); i++) {
        DL_SCOPED(dl_architecture) a = network_of(widest[i]);
        assert_true(a.layers[1].tensor_kinds > 12);
    }
}

/* Latent attention of 3 tokens of 4 numbers: 2 heads with 2 + 1 numbers of queries and keys and 3 of
 * values, latent queries of 5 numbers, keys and values of 2. Products: 4 x 5, 5 x 6, 4 x 3, 2 x 10
 * and 6 x 4; attention sees half of 2 x 9 x (6 + 6) flop. Norms of 4, 5, 2 and 4. Kept, beside the
 * block of equal heads of 3: the latent vectors before and after their norms; queries, keys, values
 * and results are as many, 6 each. Of one sequence 3 numbers a token are cached. */
static void latent_attention_by_hand(void **state DL_UNUSED)
{
    static const char base[] =
        "llama:layers=1,width=4,heads=2,kv_heads=2,feed_forward=8,sequence=3,"
        "vocabulary=5,fused=yes";
    char *latent_text = dl_format("%s,head_width=2,query_rank=5,kv_rank=2,rope_width=1,"
                                  "value_width=3",
                                  base),
         *plain_text = dl_format("%s,head_width=3", base);
    dl_architecture a = network_of(latent_text), plain = network_of(plain_text);
    const dl_architecture_layer *block = &a.layers[1], *of_heads = &plain.layers[1];
    const double products = 20 + 30 + 12 + 20 + 24, inside = 3 * 4 * 8;
    static const char *const refused[][2] = {
        {"llama:kv_rank=2", "kv_rank = 2: this needs value_width"},
        {"llama:rope_width=2", "rope_width = 2: this needs kv_rank"},
        {"llama:kv_rank=2,value_width=128,tp=2", "kv_rank = 2: not with tp, cp, lora"},
        {"deepseek_v3:bias=qkv", "not with tp, cp, lora, bias"},
    };
    assert_true(
        near_scaled(dl_pass_flop(&block->forward), 2 * 3 * (products + inside) + 108, 0, 1e-12));
    assert_true(near_scaled(dl_pass_flop(&block->backward), 4 * 3 * (products + inside) + 2.5 * 108,
                            0, 1e-12));
    assert_int_equal(dl_layer_parameters(block), products + inside + 4 + 5 + 2 + 4);
    assert_true(
        near_scaled(block->kept_numbers - of_heads->kept_numbers, 2 * 3 * (5 + 2), 0, 1e-12));
    assert_true(near_scaled(a.cache_numbers, 3, 0, 0));
    dl_architecture_free(&a);
    dl_architecture_free(&plain);
    free(latent_text);
    free(plain_text);
    for (size_t i = 0; i < DL_LENGTH(refused); i++) {
        dl_architecture none = {0};
        dl_error error = {0};
        assert_int_equal(dl_architecture_make(&none, refused[i][0], &error), DL_ERR_RANGE);
        if (strstr(error.text, refused[i][1]) == NULL) fail_msg("%s", error.text);
    }
}

/* Gemma's heads are wider than width / heads (7B), and its head has the embedding's weights without
 * saying so. The numbers are those of KerasHub's presets gemma_2b_en and gemma_7b_en. */
static void gemma_has_its_parameters(void **state DL_UNUSED)
{
    static const struct {
        int layers, width, heads, kv_heads, inside;
        int64_t parameters;
    } cases[] = {{18, 2048, 8, 1, 16384, 2506172416}, {28, 3072, 16, 16, 24576, 8537680896}};
    char path[] = "test_architecture_gemma.json";
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        DL_AUTOFREE char *config = dl_format(
            "{\"model_type\": \"gemma\", \"head_dim\": 256, \"hidden_act\": \"gelu\", "
            "\"hidden_size\": %d, \"intermediate_size\": %d, \"max_position_embeddings\": 8192, "
            "\"num_attention_heads\": %d, \"num_hidden_layers\": %d, \"num_key_value_heads\": %d, "
            "\"rms_norm_eps\": 1e-06, \"vocab_size\": 256000}",
            cases[i].width, cases[i].inside, cases[i].heads, cases[i].layers, cases[i].kv_heads);
        write_config(path, config);
        DL_SCOPED(dl_architecture) a = network_of(path);
        assert_int_equal(dl_architecture_parameters(&a), cases[i].parameters);
    }
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_json_is_a_network),
        cmocka_unit_test(other_configs_are_refused),
        cmocka_unit_test(biases_of_a_config_are_counted),
        cmocka_unit_test(configs_have_the_published_parameters),
        cmocka_unit_test(gemma_has_windows_in_some_layers),
        cmocka_unit_test(norms_of_heads_and_parallel_blocks_by_hand),
        cmocka_unit_test(latent_attention_and_biased_experts_have_their_parameters),
        cmocka_unit_test(latent_attention_by_hand),
        cmocka_unit_test(widest_blocks_have_room),
        cmocka_unit_test(olmoe_has_its_parameters),
        cmocka_unit_test(gemma_has_its_parameters),
        cmocka_unit_test(windows_limit_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
