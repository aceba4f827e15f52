#include "profiler/inject/cupti_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* Slots of each cache; a power of two, larger than the number of kernels of most programs. */
#define SLOTS 4096
#define SLOT_BITS 12
#define CALLS_MAX 2048 /* callback ids of one domain; CUDA 13.0 has about 800 */
#define CALL_NAME_BYTES 128

/* Of a text at an address that CUPTI gave. */
typedef struct name_slot {
    char *text; /* own copy; NULL = free */
    uint32_t id;
} name_slot;

typedef struct shape_slot {
    dl_launch_shape shape;
    uint32_t id; /* 0 = free */
} shape_slot;

struct dl_cupti_names {
    const dl_cupti_api *api;
    dl_activity_sink sink;
    name_slot names[SLOTS];
    shape_slot shapes[SLOTS];
    uint32_t runtime_calls[CALLS_MAX], driver_calls[CALLS_MAX]; /* by callback id; 0 = unknown */
};

dl_cupti_names *dl_cupti_names_new(const dl_cupti_api *api, dl_activity_sink sink)
{
    dl_cupti_names *names = dl_calloc(1, sizeof *names, "names of records");
    names->api = api;
    names->sink = sink;
    return names;
}

void dl_cupti_names_free(dl_cupti_names *names)
{
    for (size_t i = 0; i < SLOTS; i++)
        free(names->names[i].text);
    free(names);
}

/* Multiplicative hash (Knuth): the highest bits of the product with 2^64 over the golden ratio. */
static size_t slot_of(uint64_t key)
{
    return (key * 0x9e3779b97f4a7c15u) >> (64 - SLOT_BITS);
}

uint32_t dl_cupti_name_kernel(dl_cupti_names *names, const char *name)
{
    if (name == NULL) return 0;
    name_slot *slot = &names->names[slot_of((uintptr_t)name)];
    if (slot->text != NULL && strcmp(slot->text, name) == 0) return slot->id;
    free(slot->text);
    slot->text = dl_strdup(name);
    slot->id = names->sink.intern(names->sink.user, name);
    return slot->id;
}

uint32_t dl_cupti_name_shape(dl_cupti_names *names, const dl_launch_shape *shape)
{
    uint64_t key = 0;
    for (int i = 0; i < 3; i++)
        key = key * 1000003 + (uint32_t)shape->grid[i] * 31u + (uint32_t)shape->block[i];
    key = (key * 1000003 + shape->shared_bytes) * 1000003 + shape->registers;
    shape_slot *slot = &names->shapes[slot_of(key)];
    if (slot->id != 0 && memcmp(&slot->shape, shape, sizeof *shape) == 0) return slot->id;
    char text[192];
    snprintf(text, sizeof text, "grid %dx%dx%d block %dx%dx%d shared %u regs %u", shape->grid[0],
             shape->grid[1], shape->grid[2], shape->block[0], shape->block[1], shape->block[2],
             shape->shared_bytes, shape->registers);
    slot->shape = *shape;
    slot->id = names->sink.intern(names->sink.user, text);
    return slot->id;
}

/* Cuts "_v" and 4 or 5 digits off the end: CUDA's version in which CUPTI first knew the call. */
static void cut_version(char *name)
{
    char *at = strrchr(name, '_');
    if (at == NULL || at[1] != 'v') return;
    const size_t digits = strspn(at + 2, "0123456789");
    if (digits >= 4 && at[2 + digits] == '\0') *at = '\0';
}

void dl_cupti_cut_call_name(char *name)
{
    cut_version(name);
    char *at = strrchr(name, '_');
    if (at != NULL && (strcmp(at, "_ptsz") == 0 || strcmp(at, "_ptds") == 0)) *at = '\0';
}

uint32_t dl_cupti_name_call(dl_cupti_names *names, CUpti_CallbackDomain domain,
                            CUpti_CallbackId call)
{
    uint32_t *ids =
        domain == CUPTI_CB_DOMAIN_RUNTIME_API ? names->runtime_calls : names->driver_calls;
    if (call >= CALLS_MAX) return 0;
    if (ids[call] != 0) return ids[call];
    const char *found = NULL;
    char name[CALL_NAME_BYTES];
    if (names->api->GetCallbackName(domain, call, &found) == CUPTI_SUCCESS && found != NULL) {
        snprintf(name, sizeof name, "%s", found);
        dl_cupti_cut_call_name(name);
    } else {
        snprintf(name, sizeof name, "%s call %u",
                 domain == CUPTI_CB_DOMAIN_RUNTIME_API ? "runtime" : "driver", call);
    }
    return ids[call] = names->sink.intern(names->sink.user, name);
}
