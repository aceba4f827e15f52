#include "profiler/inject/nvtx_domain.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/inject/capture.h"

#define BUCKETS 32 /* of schemas by id; NCCL registers about 20 */

struct dl_nvtx_domain {
    char *name;
    uint32_t name_id;
    bool is_nccl;
    bool destroyed; /* guarded by domains_lock */
    _Atomic unsigned schema_count;
    /* Only ever grows at its heads, so that readers need no lock. */
    _Atomic(dl_nvtx_schema *) schemas[BUCKETS];
    dl_nvtx_domain *next; /* in domains */
};

static pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;
static dl_nvtx_domain *domains; /* all but the default one */
static dl_nvtx_domain default_domain;

/* A destroyed domain of this name, alive again, or NULL. */
static dl_nvtx_domain *revive(const char *name)
{
    for (dl_nvtx_domain *domain = domains; domain != NULL; domain = domain->next) {
        if (!domain->destroyed || strcmp(domain->name, name) != 0) continue;
        domain->destroyed = false;
        return domain;
    }
    return NULL;
}

static dl_nvtx_domain *make(const char *name, uint32_t name_id)
{
    dl_nvtx_domain *domain = calloc(1, sizeof *domain);
    char *copy = strdup(name);
    if (domain == NULL || copy == NULL) {
        free(domain);
        free(copy);
        return NULL;
    }
    domain->name = copy;
    domain->name_id = name_id;
    domain->is_nccl = strcmp(name, DL_NCCL_DOMAIN) == 0;
    return domain;
}

dl_nvtx_domain *dl_nvtx_domain_create(const char *name)
{
    const uint32_t name_id = dl_capture_intern(name);
    pthread_mutex_lock(&domains_lock);
    dl_nvtx_domain *domain = revive(name);
    if (domain == NULL) {
        domain = make(name, name_id);
        if (domain != NULL) {
            domain->next = domains;
            domains = domain;
        }
    }
    pthread_mutex_unlock(&domains_lock);
    return domain;
}

void dl_nvtx_domain_destroy(dl_nvtx_domain *domain)
{
    if (domain == NULL) return;
    pthread_mutex_lock(&domains_lock);
    domain->destroyed = true;
    pthread_mutex_unlock(&domains_lock);
}

uint32_t dl_nvtx_domain_name(const dl_nvtx_domain *domain)
{
    return domain == NULL ? 0 : domain->name_id;
}

bool dl_nvtx_domain_is_nccl(const dl_nvtx_domain *domain)
{
    return domain != NULL && domain->is_nccl;
}

/* Bit 62 tells a handle from NULL; the function lies above the id. */
#define HANDLE_MARK ((uintptr_t)1 << 62)
_Static_assert(sizeof(uintptr_t) == 8, "a handle holds an id and a function");

nvtxStringHandle_t dl_nvtx_string_handle(dl_nvtx_message message)
{
    return (nvtxStringHandle_t)(HANDLE_MARK | (uintptr_t)message.function << 32 | message.id);
}

dl_nvtx_message dl_nvtx_string_message(nvtxStringHandle_t handle)
{
    const uintptr_t bits = (uintptr_t)handle;
    if ((bits & HANDLE_MARK) == 0) return (dl_nvtx_message){0};
    return (dl_nvtx_message){(uint32_t)bits, (uint32_t)(bits >> 32) & (DL_NCCL_FUNCTION_LIMIT - 1)};
}

const dl_nvtx_schema *dl_nvtx_schema_find(const dl_nvtx_domain *domain, uint64_t id)
{
    if (domain == NULL) domain = &default_domain;
    const dl_nvtx_schema *schema =
        atomic_load_explicit(&domain->schemas[id % BUCKETS], memory_order_acquire);
    while (schema != NULL && schema->id != id)
        schema = schema->next;
    return schema;
}

static bool find_type(void *user, uint64_t id, dl_payload_type *type)
{
    const dl_nvtx_schema *schema = dl_nvtx_schema_find(user, id);
    if (schema == NULL) return false;
    *type = schema->layout.as_type;
    return true;
}

/* Publishes `made`, whose id is 0 if the program left the choice. Frees it if the domain is full.
 */
static uint64_t add(dl_nvtx_domain *domain, dl_nvtx_schema *made)
{
    static _Atomic uint64_t next_id = NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START;
    if (domain == NULL) domain = &default_domain;
    if (atomic_fetch_add(&domain->schema_count, 1) >= DL_NVTX_SCHEMAS_MAX) {
        atomic_fetch_sub(&domain->schema_count, 1);
        dl_payload_layout_free(&made->layout);
        free(made);
        return 0;
    }
    if (made->id == 0) made->id = atomic_fetch_add(&next_id, 1);
    const uint64_t id = made->id;
    _Atomic(dl_nvtx_schema *) *head = &domain->schemas[id % BUCKETS];
    made->next = atomic_load(head);
    while (!atomic_compare_exchange_weak(head, &made->next, made))
        ;
    return id;
}

uint64_t dl_nvtx_schema_add(dl_nvtx_domain *domain, const nvtxPayloadSchemaAttr_t *attr)
{
    dl_nvtx_schema *made = attr != NULL ? calloc(1, sizeof *made) : NULL;
    if (made == NULL) return 0;
    if (!dl_payload_layout_make(&made->layout, attr, find_type, domain)) {
        free(made);
        return 0;
    }
    made->nccl = dl_nccl_fields_find(&made->layout);
    made->message = dl_payload_find_message(&made->layout);
    if ((attr->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID) != 0)
        made->id = attr->schemaId;
    if ((attr->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME) != 0)
        made->name = dl_capture_intern(attr->name);
    return add(domain, made);
}

uint64_t dl_nvtx_enum_add(dl_nvtx_domain *domain, const nvtxPayloadEnumAttr_t *attr)
{
    dl_payload_type type;
    if (attr == NULL || !dl_payload_enum_type(&type, attr)) return 0;
    dl_nvtx_schema *made = calloc(1, sizeof *made);
    if (made == NULL) return 0;
    made->layout.as_type = type;
    made->nccl = dl_nccl_fields_find(&made->layout);
    made->message = -1;
    if ((attr->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID) != 0) made->id = attr->schemaId;
    return add(domain, made);
}
