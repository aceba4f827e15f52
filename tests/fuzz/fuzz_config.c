/* A model's config.json: a network made from it must have layers and parameters; other files must
 * be refused with a reason. */
#include "sim/workloads/architecture.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/fuzz/fuzz_file.h"

static const char llama[] =
    "{\"architectures\": [\"LlamaForCausalLM\", \"}\"], \"hidden_size\": 64, "
    "\"intermediate_size\": 128, \"max_position_embeddings\": 512, \"model_type\": \"llama\", "
    "\"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"num_key_value_heads\": 2, "
    "\"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"factor\": [1, {\"a\": 2}]}, "
    "\"tie_word_embeddings\": false, \"vocab_size\": 1000}\n";
static const char gpt2[] = "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 12, "
                           "\"n_layer\": 12, \"n_inner\": null, "
                           "\"n_positions\": 1024, \"vocab_size\": 50257}";
static const char bert[] =
    "{\r\n \"model_type\" : \"bert\",\r\n\t\"hidden_size\" :768 , \"num_attention_heads\":12,"
    "\"num_hidden_layers\":12,\"vocab_size\":30522,\"note\":\"a \\\"quoted\\\\\" } ,\"}";
static const char experts[] = "{\"model_type\": \"mixtral\", \"num_local_experts\": 8}";
static const char open[] = "{\"rms_norm_eps\": [1, \"";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {{llama, sizeof llama - 1},
                                       {gpt2, sizeof gpt2 - 1},
                                       {bert, sizeof bert - 1},
                                       {experts, sizeof experts - 1},
                                       {open, sizeof open - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char path[] = "fuzz_config.json";
    DL_SCOPED(dl_architecture) made = {0};
    dl_error err = {0};
    fuzz_file(path, data, bytes);
    if (dl_architecture_make(&made, path, &err) == DL_OK) {
        DL_ASSERT(made.layer_count > 0 && dl_architecture_parameters(&made) > 0,
                  "%zu layers, %lld parameters", made.layer_count,
                  (long long)dl_architecture_parameters(&made));
    } else {
        DL_ASSERT(err.text[0] != '\0', "an error without text");
    }
    return 0;
}
