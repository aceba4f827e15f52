/* Layouts of NVTX payloads: a library's description of the binary data that it attaches to its
 * ranges (nvtxPayloadSchemaRegister), and reading of one field by the name of its entry.
 *
 * An entry's place follows the rules of nvToolsExtPayload.h: its own offset if one is given, else
 * after the entry before it with natural alignment, at most packAlign. An entry of unknown size (an
 * array of variable length, an unknown type) has no place, nor have the entries after it up to the
 * next one with a given offset.
 *
 * A layout never changes once it is made, so any thread may read through it. */
#ifndef DL_PROFILER_INJECT_NVTX_PAYLOAD_H
#define DL_PROFILER_INJECT_NVTX_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtPayload.h>

#define DL_PAYLOAD_ENTRIES_MAX 64 /* later entries are ignored */

/* How to read the bytes of an entry. */
typedef enum dl_payload_form {
    DL_PAYLOAD_OTHER = 0, /* not a scalar: array, nested schema, 128 bits, ... */
    DL_PAYLOAD_SIGNED,
    DL_PAYLOAD_UNSIGNED, /* also an address or handle */
    DL_PAYLOAD_TEXT      /* address of a NUL-terminated text */
} dl_payload_form;

/* A type's size in bytes (0 = unknown), alignment and form. */
typedef struct dl_payload_type {
    size_t bytes, align;
    dl_payload_form form;
} dl_payload_type;

typedef struct dl_payload_entry {
    char *name; /* "" if it has none */
    uint64_t type;
    size_t offset;
    uint32_t bytes; /* 0: unknown offset or size */
    uint8_t form;   /* dl_payload_form */
    bool message;   /* it holds the event's text */
} dl_payload_entry;

/* Owns its entries; release with dl_payload_layout_free. */
typedef struct dl_payload_layout {
    dl_payload_entry *entries;
    size_t count;
    dl_payload_type as_type; /* type of this layout as an entry of another schema; bytes 0 if not
                              * fixed */
} dl_payload_layout;

/* Finds the type `id` that the program has registered (a schema or an enumeration); false if there
 * is none. `user` is the caller's. */
typedef bool (*dl_payload_find_type)(void *user, uint64_t id, dl_payload_type *type);

/* Makes the layout of `attr`, whose texts are copied. False if it names no entries or memory is
 * short; *layout is untouched then. */
bool dl_payload_layout_make(dl_payload_layout *layout, const nvtxPayloadSchemaAttr_t *attr,
                            dl_payload_find_type find, void *user);
void dl_payload_layout_free(dl_payload_layout *layout);

/* Sets *type to the type of an enumeration's values. False unless they have 1, 2, 4 or 8 bytes. */
bool dl_payload_enum_type(dl_payload_type *type, const nvtxPayloadEnumAttr_t *attr);

/* Index of the first entry called `name`, or the first one that holds the event's text, or -1. */
int dl_payload_find(const dl_payload_layout *layout, const char *name);
int dl_payload_find_message(const dl_payload_layout *layout);

/* Reads the scalar entry `index` (-1 is allowed: false) of the payload; a negative value wraps
 * around. False, *value untouched, if the entry is no scalar or lies outside the payload. A payload
 * whose size is SIZE_MAX has the size of its layout. */
bool dl_payload_read(const dl_payload_layout *layout, int index, const nvtxPayloadData_t *payload,
                     uint64_t *value);

#endif
