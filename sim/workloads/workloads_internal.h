/* Shared by the kinds of networks (convnets.c, transformers.c), networks.c and architecture.c. */
#ifndef DL_SIM_WORKLOADS_INTERNAL_H
#define DL_SIM_WORKLOADS_INTERNAL_H

#include "common/names.h"
#include "sim/workloads/architecture.h"

/* A key after the colon. "yes" and "no" have the values 1 and 0. */
typedef struct dl_network_key {
    const char *name;
    const char *const *choices; /* NULL: a whole number */
    int64_t low, high; /* 0 and 1 with choices; a bit set if several choices may be joined by '+' */
    const char *help;
    const char
        *only; /* "KEY=CHOICE", or several joined by " or ", of which one is required for values
                * other than the first to have an effect; NULL: none */
} dl_network_key;

#define DL_NETWORK_KEYS_MAX 56

/* A named network, with a value for each key of its kind. */
typedef struct dl_named_network {
    const char *name, *help;
    int64_t values[DL_NETWORK_KEYS_MAX];
    int shape; /* for convnets: number of the shape, which selects the layers */
} dl_named_network;

typedef struct dl_network_kind {
    const char *title;
    dl_model_class class;
    const dl_network_key *keys;
    size_t key_count;
    const dl_named_network *networks;
    size_t network_count;
    const dl_word *network_words, *key_words; /* words of other programs; NULL: none */
    /* Adds the layers of a network with these values of the keys. */
    dl_status (*build)(dl_architecture *architecture, const dl_named_network *network,
                       const int64_t *values, dl_error *err);
} dl_network_kind;

extern const dl_network_kind dl_convnets, dl_transformers;

/* Reads the values of the transformers' keys from a model's config.json, as written by Hugging
 * Face's transformers. DL_ERR_NAME for a kind of model that is not simulated, DL_ERR_DATA for a
 * missing size, DL_ERR_PARSE, DL_ERR_IO; errors contain the file's name. */
dl_status dl_config_read(const dl_network_kind *transformers, const char *path, int64_t *values,
                         dl_error *err);

/* Appends a layer without parts; the layer takes ownership of `name`. The result is borrowed, and
 * valid until the next layer is added. */
dl_architecture_layer *dl_architecture_add(dl_architecture *architecture, char *name);

/* Appends a part with these kernels to a pass. The result is borrowed. */
dl_layer_part *dl_pass_add(dl_layer_pass *pass, double flop, double numbers, double weights,
                           int kernels);

/* Appends `count` tensors of `parameters` each, whose gradients are computed by the last part of
 * the backward pass so far. */
void dl_layer_add_tensors(dl_architecture_layer *layer, int count, double parameters);

#endif
