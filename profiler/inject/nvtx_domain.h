/* NVTX domains, the strings registered in them and the payload schemas. All functions may be called
 * by any thread. Nothing is ever freed before the process ends, since a program may use a handle
 * after it has destroyed the domain; a domain created again under its name takes the destroyed
 * one's place. */
#ifndef DL_PROFILER_INJECT_NVTX_DOMAIN_H
#define DL_PROFILER_INJECT_NVTX_DOMAIN_H

#include "profiler/inject/nccl_ranges.h"
#include "profiler/inject/nvtx_payload.h"

#define DL_NVTX_SCHEMAS_MAX 4096 /* of a domain; later ones stay unknown */

typedef struct dl_nvtx_domain dl_nvtx_domain;

/* A registered schema or enumeration (with an empty layout). */
typedef struct dl_nvtx_schema {
    uint64_t id;
    dl_payload_layout layout;
    dl_nccl_fields nccl;
    int message;   /* entry with the event's text, or -1 */
    uint32_t name; /* id of the schema's name; 0 = none */
    struct dl_nvtx_schema *next;
} dl_nvtx_schema;

/* A new domain, or NULL if memory is short; NULL stands for the default domain everywhere. */
dl_nvtx_domain *dl_nvtx_domain_create(const char *name);
void dl_nvtx_domain_destroy(dl_nvtx_domain *domain);

/* Id of its name; 0 for the default domain. Whether it is NCCL's. */
uint32_t dl_nvtx_domain_name(const dl_nvtx_domain *domain);
bool dl_nvtx_domain_is_nccl(const dl_nvtx_domain *domain);

/* A text as ranges use it. */
typedef struct dl_nvtx_message {
    uint32_t id;       /* of the text in the trace */
    uint32_t function; /* dl_nccl_function of it, in NCCL's domain; else 0 */
} dl_nvtx_message;

/* The handle of a registered string holds the message itself: there is nothing to look up. */
nvtxStringHandle_t dl_nvtx_string_handle(dl_nvtx_message message);
dl_nvtx_message dl_nvtx_string_message(nvtxStringHandle_t handle);

/* Registers; returns the id (the program's own, or a new one), 0 if it cannot be used. The latest
 * one of an id counts. */
uint64_t dl_nvtx_schema_add(dl_nvtx_domain *domain, const nvtxPayloadSchemaAttr_t *attr);
uint64_t dl_nvtx_enum_add(dl_nvtx_domain *domain, const nvtxPayloadEnumAttr_t *attr);

/* The schema `id` of the domain, or NULL. */
const dl_nvtx_schema *dl_nvtx_schema_find(const dl_nvtx_domain *domain, uint64_t id);

#endif
