/* Reads a model's config.json, as written by Hugging Face's transformers. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/units.h"
#include "sim/workloads/workloads_internal.h"

/* Upper limit on the default number of tokens per sample, which otherwise is the model's number of
 * positions, often 131,072. */
#define SAMPLE_TOKENS_MAX 8192
#define NUMBER_MAX (INT64_MAX / 2) /* sums do not overflow; ranges are checked at the end */
#define PIXELS_MAX 65536           /* of a side of an image, and of its channels: nor do products */

/* Callback for a member of the outermost object: its name and its value as text, strings without
 * quotes. */
typedef void (*member_fn)(void *user, const char *name, const char *value);

static const char *skip_string(const char *at)
{
    for (at++; *at != '"' && *at != '\0'; at++)
        if (*at == '\\' && at[1] != '\0') at++;
    return *at == '"' ? at + 1 : NULL;
}

/* Returns the end of a value of any kind; NULL: unterminated. */
static const char *skip_value(const char *at)
{
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            if (at == NULL) return NULL;
            if (depth == 0) return at;
            continue;
        }
        if (strchr("{[", *at) != NULL && *at != '\0') depth++;
        if (*at == '\0' || (depth == 0 && strchr(",}]", *at) != NULL))
            return depth == 0 ? at : NULL;
        if (strchr("}]", *at) != NULL && --depth == 0) return at + 1;
        at++;
    } while (true);
}

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static bool each_member(const char *text, member_fn visit, void *user)
{
    const char *at = skip_space(text);
    if (*at != '{') return false;
    at = skip_space(at + 1);
    while (*at == '"') {
        const char *name = at + 1, *name_end = skip_string(at);
        if (name_end == NULL) return false;
        const char *value = skip_space(name_end);
        if (*value != ':') return false;
        value = skip_space(value + 1);
        const char *end = skip_value(value);
        if (end == NULL || end == value) return false;
        size_t bytes = (size_t)(end - value);
        while (strchr(" \t\r\n", value[bytes - 1]) != NULL)
            bytes--;
        DL_AUTOFREE char *called = dl_strndup(name, (size_t)(name_end - 1 - name));
        DL_AUTOFREE char *says =
            *value == '"' ? dl_strndup(value + 1, bytes - 2) : dl_strndup(value, bytes);
        visit(user, called, says);
        at = skip_space(end);
        if (*at != ',') break;
        at = skip_space(at + 1);
    }
    return *at == '}';
}

enum {
    PAIR,
    WINDOWS,
    ATTENTION_BIAS,
    MLP_BIAS,
    ALL_BIASES,
    QKV_BIAS,
    ONE_KV_HEAD,
    PARALLEL,
    PARALLEL_TOO,
    TWO_NORMS,
    HEAD_NORMS,
    HEAD_NORMS_TOO
};
static const char *const flags[] = {
    [PAIR] = "is_encoder_decoder",
    [WINDOWS] = "use_sliding_window",
    [ATTENTION_BIAS] = "attention_bias",
    [MLP_BIAS] = "mlp_bias",
    [ALL_BIASES] = "bias",
    [QKV_BIAS] = "use_qkv_bias",
    [ONE_KV_HEAD] = "multi_query",
    [PARALLEL] = "parallel_attn",
    [PARALLEL_TOO] = "use_parallel_residual",
    [TWO_NORMS] = "new_decoder_architecture",
    [HEAD_NORMS] = "qk_layernorm",
    [HEAD_NORMS_TOO] = "use_qk_norm",
};

typedef struct config {
    const dl_network_kind *kind; /* the kind of transformers */
    int64_t values[DL_NETWORK_KEYS_MAX];
    bool given[DL_NETWORK_KEYS_MAX];
    int64_t positions, image, patch, channels, projected, unrotated, shared;
    bool rms, tied, tells_tied, experts, mixed, softcap, nested;
    unsigned true_flags; /* bit set of `flags` */
    int64_t pattern;     /* layers of a period, the last of which has no window; 0: not given */
    char *type;
} config;

static int key_called(const config *c, const char *name)
{
    size_t k = 0;
    while (strcmp(c->kind->keys[k].name, name) != 0)
        k++;
    return (int)k;
}

static void take_member(void *user, const char *name, const char *value)
{
    config *c = user;
    int64_t number = 0;
    const bool is_number = dl_parse_int(value, 0, NUMBER_MAX, &number, NULL) == DL_OK;
    const dl_word *word = dl_word_find(c->kind->key_words, name);
    if (word != NULL && word->here != NULL && is_number) {
        const int key = key_called(c, word->here);
        c->values[key] = number;
        c->given[key] = true;
    }
    c->experts |= is_number && number > 0 && strstr(name, "experts") != NULL;
    c->mixed |= (strcmp(name, "decoder_sparse_step") == 0 && number != 1) ||
                (strcmp(name, "moe_layer_freq") == 0 && number != 1) ||
                (strcmp(name, "mlp_only_layers") == 0 && strpbrk(value, "0123456789") != NULL);
    c->rms |= strcmp(name, "rms_norm_eps") == 0;
    c->nested |= strcmp(name, "text_config") == 0;
    for (size_t f = 0; f < DL_LENGTH(flags); f++)
        if (strcmp(name, flags[f]) == 0 && strcmp(value, "true") == 0) c->true_flags |= 1U << f;
    if (strcmp(name, "final_logit_softcapping") == 0) c->softcap = strcmp(value, "null") != 0;
    if (strcmp(name, "sliding_window_pattern") == 0) c->pattern = number;
    if (strcmp(name, "max_position_embeddings") == 0 || strcmp(name, "n_positions") == 0)
        c->positions = number;
    if (strcmp(name, "qk_nope_head_dim") == 0) c->unrotated = number;
    if (strcmp(name, "n_shared_experts") == 0) c->shared = number;
    if (strcmp(name, "image_size") == 0) c->image = number;
    if (strcmp(name, "patch_size") == 0) c->patch = number;
    if (strcmp(name, "num_channels") == 0) c->channels = number;
    if (strcmp(name, "word_embed_proj_dim") == 0) c->projected = number;
    if (strcmp(name, "tie_word_embeddings") == 0) {
        c->tells_tied = true;
        c->tied = strcmp(value, "true") == 0;
    }
    if (strcmp(name, "model_type") == 0) {
        free(c->type);
        c->type = dl_strdup(value);
    }
}

static bool is_true(const config *c, int flag)
{
    return c->true_flags >> flag & 1;
}

static bool is_type(const config *c, const char *type)
{
    return c->type != NULL && strcmp(c->type, type) == 0;
}

/* Whether models of this type have experts, all of them in every block. */
static bool has_experts(const config *c)
{
    static const char *const types[] = {"mixtral",     "olmoe",       "qwen2_moe", "qwen3_moe",
                                        "deepseek_v2", "deepseek_v3", "gpt_oss"};
    for (size_t t = 0; t < DL_LENGTH(types) && c->type != NULL; t++)
        if (strcmp(c->type, types[t]) == 0) return true;
    return false;
}

/* Returns the named network from which the model differs only in sizes; NULL: none is known. Many
 * other types have rms_norm_eps too, but other norms, gates, towers, or no attention. */
static const char *like(const config *c)
{
    static const char *const types[][2] = {
        {"llama", "llama"},    {"mistral", "llama"},     {"qwen2", "llama"},
        {"qwen3", "llama"},    {"phi3", "llama"},        {"granite", "llama"},
        {"gemma", "llama"},    {"gemma2", "llama"},      {"gemma3_text", "llama"},
        {"olmo2", "llama"},    {"smollm3", "llama"},     {"gpt2", "gpt2"},
        {"olmo3", "llama"},    {"glm4", "llama"},        {"stablelm", "llama"},
        {"cohere", "llama"},   {"falcon", "gpt2"},       {"phi", "gpt2"},
        {"bloom", "gpt2"},     {"gptj", "gpt2"},         {"gpt_bigcode", "gpt2"},
        {"gpt_neox", "gpt2"},  {"opt", "gpt2"},          {"starcoder2", "gpt2"},
        {"bert", "bert_base"}, {"roberta", "bert_base"}, {"vit", "vit_b"},
    };
    if (has_experts(c)) return "llama";
    if (c->type == NULL) return c->rms ? "llama" : NULL;
    for (size_t t = 0; t < DL_LENGTH(types); t++)
        if (strcmp(c->type, types[t][0]) == 0) return types[t][1];
    return NULL;
}

static dl_status refuse(const config *c, const char *path, dl_error *err)
{
    const char *type = c->type != NULL ? c->type : "no model_type";
    if (c->nested) {
        return dl_error_set(err, DL_ERR_NAME,
                            "%s: %s: models of text and images are not simulated; give what is in "
                            "text_config as a file",
                            path, type);
    }
    if (c->experts && !has_experts(c)) {
        return dl_error_set(err, DL_ERR_NAME,
                            "%s: %s: types with experts that are simulated are mixtral, olmoe, "
                            "qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3 and gpt_oss; others "
                            "have other attention, routers or blocks",
                            path, type);
    }
    if (c->experts && c->mixed) {
        return dl_error_set(err, DL_ERR_NAME,
                            "%s: %s: blocks with and without experts in turn (decoder_sparse_step, "
                            "moe_layer_freq, mlp_only_layers) are not simulated",
                            path, type);
    }
    if (is_true(c, PAIR)) {
        return dl_error_set(err, DL_ERR_NAME, "%s: %s: encoders with decoders are not simulated",
                            path, type);
    }
    if (is_true(c, WINDOWS)) {
        return dl_error_set(
            err, DL_ERR_NAME,
            "%s: %s: sliding windows in some of the layers are not simulated; "
            "write use_sliding_window false for none, transformer:window=.. for all",
            path, type);
    }
    if (is_type(c, "opt") && c->projected > 0 &&
        c->projected != c->values[key_called(c, "width")]) {
        return dl_error_set(
            err, DL_ERR_NAME,
            "%s: %s: words of another width (word_embed_proj_dim) than that between "
            "blocks are not simulated",
            path, type);
    }
    if (is_type(c, "vit") && c->image > 0 &&
        (c->patch > c->image || c->image > PIXELS_MAX || c->channels > PIXELS_MAX)) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%s: %s: expected patches (patch_size) within images (image_size) of "
                            "at most %d pixels a side and num_channels",
                            path, type, PIXELS_MAX);
    }
    if (like(c) == NULL) {
        return dl_error_set(
            err, DL_ERR_NAME,
            "%s: %s: the known types are llama, mistral, qwen2, qwen3, phi, phi3, granite, gemma, "
            "gemma2, gemma3_text, olmo2, olmo3, smollm3, stablelm, cohere, glm4, gpt2, gpt_neox, "
            "gptj, gpt_bigcode, falcon, bloom, opt, starcoder2, bert, roberta and vit; write "
            "transformer:layers=..,width=..",
            path, type);
    }
    return DL_OK;
}

/* Whether all or, of Gemma, some layers of this type of model use sliding_window. Other types
 * ignore it or, with use_sliding_window, use it in some of their layers. */
static bool has_window(const config *c)
{
    return c->type == NULL || is_type(c, "mistral") || is_type(c, "phi3") || is_type(c, "gemma2") ||
           is_type(c, "gemma3_text") || is_type(c, "olmo3") || is_type(c, "gpt_oss") ||
           is_type(c, "starcoder2");
}

/* Which matrix products have biases, as a word of the key. Qwen2 has those of queries, keys and
 * values in any case; other types with Llama's attention follow attention_bias, and those with its
 * feed-forward mlp_bias (transformers' modeling_llama.py, modular_qwen2.py, modular_qwen3.py,
 * modular_olmo2.py, modular_granite.py, modular_smollm3.py). */
static const char *bias_of(const config *c)
{
    static const char *const without[] = {"mistral", "mixtral", "phi3"};
    if (is_type(c, "qwen2") || is_type(c, "qwen2_moe")) return "qkv";
    if (is_type(c, "gpt_oss")) return "yes";
    if (is_type(c, "glm4")) return is_true(c, ATTENTION_BIAS) ? "qkv" : "no";
    if (is_type(c, "stablelm")) return is_true(c, QKV_BIAS) ? "qkv" : "no";
    if (is_type(c, "falcon")) return is_true(c, ALL_BIASES) ? "yes" : "no";
    if (is_type(c, "gptj")) return "feed_forward";
    for (size_t t = 0; t < DL_LENGTH(without); t++)
        if (is_type(c, without[t])) return "no";
    const bool inside = is_true(c, MLP_BIAS) && (c->type == NULL || is_type(c, "llama") ||
                                                 is_type(c, "granite") || is_type(c, "smollm3"));
    return is_true(c, ATTENTION_BIAS) ? inside ? "yes" : "attention"
           : inside                   ? "feed_forward"
                                      : "no";
}

/* Whether attention and feed-forward of this type of model read the result of one norm. */
static bool is_parallel(const config *c)
{
    if (is_type(c, "falcon")) return is_true(c, PARALLEL) && !is_true(c, TWO_NORMS);
    if (is_type(c, "stablelm")) return is_true(c, PARALLEL_TOO);
    return is_type(c, "phi") || is_type(c, "gptj") || is_type(c, "cohere");
}

/* Norms of queries and keys of this type of model, as a word of the key. Those of each head have
 * their own weights in Command R. */
static const char *head_norms_of(const config *c)
{
    if (is_type(c, "qwen3") || is_type(c, "qwen3_moe") || is_type(c, "gemma3_text")) return "heads";
    if (is_type(c, "olmo2") || is_type(c, "olmo3") || is_type(c, "olmoe")) return "all";
    return is_true(c, HEAD_NORMS) || is_true(c, HEAD_NORMS_TOO) ? "all" : "no";
}

static void set_word(const config *c, int64_t *values, const char *key, const char *word)
{
    const int k = key_called(c, key);
    values[k] = 0;
    while (strcmp(c->kind->keys[k].choices[values[k]], word) != 0)
        values[k]++;
}

/* Sets the values in which types like GPT-2, BERT and Llama differ from these (transformers'
 * configuration_TYPE.py and modeling_TYPE.py): rotary embeddings, tied heads, no dropout; one head
 * of keys and values; two unused positions; patches; layer norms. ALiBi is counted as a rotary
 * embedding, for Bloom with plain attention. Norms behind Bloom's embedding and biases of the head
 * (GPT-J, Phi) are not counted. */
static void take_type(const config *c, int64_t *values)
{
    static const char *const rotary[][2] = {{"gpt_neox", "no"}, {"starcoder2", "yes"},
                                            {"falcon", "yes"},  {"phi", "no"},
                                            {"bloom", "yes"},   {"gptj", "no"}};
    int64_t *positions = &values[key_called(c, "positions")];
    int64_t *sequence = &values[key_called(c, "sequence")];
    for (size_t r = 0; r < DL_LENGTH(rotary); r++) {
        if (!is_type(c, rotary[r][0])) continue;
        *positions = values[key_called(c, "dropout")] = 0;
        if (!c->tells_tied) set_word(c, values, "tied", rotary[r][1]);
    }
    if (is_type(c, "bloom")) set_word(c, values, "attention", "plain");
    if (is_type(c, "stablelm")) set_word(c, values, "norm", "layer");
    if (is_type(c, "glm4")) set_word(c, values, "post_norms", "yes");
    if (is_parallel(c)) set_word(c, values, "parallel", "yes");
    set_word(c, values, "qk_norm", head_norms_of(c));
    if (is_true(c, ONE_KV_HEAD) && !is_true(c, TWO_NORMS)) values[key_called(c, "kv_heads")] = 1;
    if (is_type(c, "falcon") && c->positions == 0) *sequence = 2048;
    if (c->unrotated > 0) values[key_called(c, "head_width")] = c->unrotated;
    if (has_experts(c) && c->shared > 0) { /* limited, so that the product does not overflow */
        const int64_t each = values[key_called(c, "expert_width")];
        values[key_called(c, "shared_width")] =
            (c->shared < PIXELS_MAX ? c->shared : PIXELS_MAX) * (each < 1 << 30 ? each : 1 << 30);
    }
    if (is_type(c, "opt")) *positions += 2;
    if (is_type(c, "roberta")) *sequence -= 2;
    if (is_type(c, "vit") && c->image > 0 && c->patch > 0) {
        const int64_t side = c->image / c->patch;
        *sequence = *positions = side * side + 1;
        values[key_called(c, "vocabulary")] =
            (c->channels > 0 ? c->channels : 3) * c->patch * c->patch + 1;
    }
}

/* Sets the values that Gemma 3's files omit because they equal the defaults of transformers'
 * Gemma3TextConfig: heads, vocabulary and positions, in the file of the 4B model. */
static void complete(config *c)
{
    static const struct {
        const char *key;
        int64_t value;
    } usual[] = {{"heads", 8},
                 {"kv_heads", 4},
                 {"head_width", 256},
                 {"vocabulary", 262208},
                 {"window", 4096}};
    for (size_t u = 0; u < DL_LENGTH(usual) && is_type(c, "gemma3_text"); u++) {
        const int key = key_called(c, usual[u].key);
        if (!c->given[key]) c->values[key] = usual[u].value;
        c->given[key] = true;
    }
    if (is_type(c, "gemma3_text") && c->positions == 0) c->positions = 131072;
}

/* Rejects sizes beyond the range of their key, other than those of the named network. */
static dl_status check_sizes(const config *c, const char *path, const int64_t *values,
                             const int64_t *usual, dl_error *err)
{
    for (size_t k = 0; k < c->kind->key_count; k++) {
        const dl_network_key *key = &c->kind->keys[k];
        if (key->choices != NULL || values[k] == usual[k] ||
            (values[k] >= key->low && values[k] <= key->high))
            continue;
        return dl_error_set(err, DL_ERR_RANGE, "%s: %s = %lld: expected %lld to %lld", path,
                            key->name, (long long)values[k], (long long)key->low,
                            (long long)key->high);
    }
    return DL_OK;
}

static dl_status take_sizes(const config *c, const char *path, int64_t *values, dl_error *err)
{
    static const char *const needed[] = {"layers",     "width",   "heads",
                                         "vocabulary", "experts", "active"};
    const int sequence = key_called(c, "sequence"), positions = key_called(c, "positions");
    for (size_t n = 0; n < DL_LENGTH(needed); n++) {
        const bool of_experts = n >= 4; /* the last two */
        if (c->given[key_called(c, needed[n])] || (of_experts && !has_experts(c))) continue;
        if (is_type(c, "vit") && n == 3) continue; /* no vocabulary */
        return dl_error_set(err, DL_ERR_DATA, "%s: the number of %s is missing", path, needed[n]);
    }
    values[key_called(c, "kv_heads")] = values[key_called(c, "feed_forward")] = 0;
    for (size_t k = 0; k < c->kind->key_count; k++)
        if (c->given[k]) values[k] = c->values[k];
    if (!has_window(c)) values[key_called(c, "window")] = 0;
    if (c->positions > 0) {
        values[sequence] = c->positions < SAMPLE_TOKENS_MAX ? c->positions : SAMPLE_TOKENS_MAX;
        if (values[positions] > 0) values[positions] = c->positions;
    }
    take_type(c, values);
    /* These types tie them unless told otherwise. */
    const bool ties = (c->type != NULL && strncmp(c->type, "gemma", 5) == 0) ||
                      is_type(c, "smollm3") || is_type(c, "cohere");
    if (c->tells_tied || ties) values[key_called(c, "tied")] = !c->tells_tied || c->tied;
    if (strcmp(like(c), "llama") == 0 || is_type(c, "falcon") || is_type(c, "gptj"))
        set_word(c, values, "bias", bias_of(c));
    if (is_type(c, "olmo3") && values[key_called(c, "window")] > 0)
        values[key_called(c, "full_every")] = 4; /* Olmo3Config */
    if (is_type(c, "gpt_oss") && values[key_called(c, "window")] > 0)
        values[key_called(c, "full_every")] = 2; /* GptOssConfig */
    if (is_type(c, "gemma2") || is_type(c, "gemma3_text")) {
        const int64_t usual = is_type(c, "gemma2") ? 2 : 6; /* Gemma2Config, Gemma3TextConfig */
        values[key_called(c, "post_norms")] = 1;
        values[key_called(c, "softcap")] = c->softcap;
        if (values[key_called(c, "window")] > 0)
            values[key_called(c, "full_every")] = c->pattern > 0 ? c->pattern : usual;
    }
    return DL_OK;
}

dl_status dl_config_read(const dl_network_kind *transformers, const char *path, int64_t *values,
                         dl_error *err)
{
    config c = {.kind = transformers};
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    if (!each_member(text, take_member, &c))
        status =
            dl_error_set(err, DL_ERR_PARSE, "%s: this is no JSON object, as config.json", path);
    if (status == DL_OK) status = refuse(&c, path, err);
    complete(&c);
    for (size_t n = 0; n < transformers->network_count && status == DL_OK; n++) {
        const dl_named_network *network = &transformers->networks[n];
        if (strcmp(network->name, like(&c)) != 0) continue;
        memcpy(values, network->values, sizeof network->values);
        status = take_sizes(&c, path, values, err);
        if (status == DL_OK) status = check_sizes(&c, path, values, network->values, err);
        break;
    }
    free(c.type);
    return status;
}
