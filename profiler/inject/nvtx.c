#include "profiler/inject/nvtx.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "profiler/inject/capture.h"
#include "profiler/inject/nvtx_open.h"

#define DL_NVTX_SCHEMAS_MAX 4096 /* per domain; later ones stay unknown */

/* A registered schema or enumeration (with an empty layout). */
typedef struct dl_nvtx_schema {
    uint64_t id;
    dl_payload_layout layout;
    dl_nccl_fields nccl;
    int message;   /* entry with the event's text, or -1 */
    uint32_t name; /* id of the schema's name; 0 = none */
    struct dl_nvtx_schema *next;
} dl_nvtx_schema;

/* A text in the form that ranges store. */
typedef struct dl_nvtx_message {
    uint32_t id;       /* id of the text in the trace */
    uint32_t function; /* dl_nccl_function of the text, in NCCL's domain; else 0 */
} dl_nvtx_message;

#define DL_NVTX_WIDE_TEXT_BYTES 4096 /* in UTF-8, with the NUL; longer wide texts are cut */

/* Payloads of one event. */
typedef struct dl_nvtx_payloads {
    const nvtxPayloadData_t *data; /* the program's payloads; NULL if there are none */
    size_t count;
} dl_nvtx_payloads;

#define BUCKETS 32 /* buckets of schemas by id; NCCL registers about 20 */

struct dl_nvtx_domain {
    char *name;
    uint32_t name_id;
    bool is_nccl;
    bool destroyed; /* guarded by domains_lock */
    _Atomic unsigned schema_count;
    /* Lists grow only at their heads, so that readers need no lock. */
    _Atomic(dl_nvtx_schema *) schemas[BUCKETS];
    dl_nvtx_domain *next; /* in the list `domains` */
};

static pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;
static dl_nvtx_domain *domains; /* all but the default domain */
static dl_nvtx_domain default_domain;

/* Revives a destroyed domain of this name; NULL if there is none. */
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

/* Creates a domain; NULL if memory is short. NULL also means the default domain everywhere. */
static dl_nvtx_domain *nvtx_domain_create(const char *name)
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

static void nvtx_domain_destroy(dl_nvtx_domain *domain)
{
    if (domain == NULL) return;
    pthread_mutex_lock(&domains_lock);
    domain->destroyed = true;
    pthread_mutex_unlock(&domains_lock);
}

static bool nvtx_domain_is_nccl(const dl_nvtx_domain *domain)
{
    return domain != NULL && domain->is_nccl;
}

/* Bit 62 distinguishes a handle from NULL; the function lies above the id. */
#define HANDLE_MARK ((uintptr_t)1 << 62)

_Static_assert(sizeof(uintptr_t) == 8, "a handle holds an id and a function");

/* The handle of a registered string contains the message itself, so that no lookup is needed. */
static nvtxStringHandle_t nvtx_string_handle(dl_nvtx_message message)
{
    return (nvtxStringHandle_t)(HANDLE_MARK | (uintptr_t)message.function << 32 | message.id);
}

static dl_nvtx_message nvtx_string_message(nvtxStringHandle_t handle)
{
    const uintptr_t bits = (uintptr_t)handle;
    if ((bits & HANDLE_MARK) == 0) return (dl_nvtx_message){0};
    return (dl_nvtx_message){(uint32_t)bits, (uint32_t)(bits >> 32) & (DL_NCCL_FUNCTION_LIMIT - 1)};
}

/* Returns the domain's schema `id`, or NULL. */
static const dl_nvtx_schema *nvtx_schema_find(const dl_nvtx_domain *domain, uint64_t id)
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
    const dl_nvtx_schema *schema = nvtx_schema_find(user, id);
    if (schema == NULL) return false;
    *type = schema->layout.as_type;
    return true;
}

/* Publishes `made` and returns its id, chosen here if made->id is 0. Frees `made` if the domain is
 * full. */
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

/* Registers a schema; returns its id (the program's, or a new one), 0 if the schema cannot be used.
 * A schema with the id of an earlier one replaces it. */
static uint64_t nvtx_schema_add(dl_nvtx_domain *domain, const nvtxPayloadSchemaAttr_t *attr)
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

static uint64_t nvtx_enum_add(dl_nvtx_domain *domain, const nvtxPayloadEnumAttr_t *attr)
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

#define PAYLOADS_MAX 16 /* per event; later ones are ignored */

/* Appends the UTF-8 bytes of a code point; U+FFFD if it is invalid. */
static size_t put_utf8(char *to, uint32_t code)
{
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    to[0] = (char)(0xff << (7 - more) | code >> 6 * more);
    for (int i = 1; i <= more; i++)
        to[i] = (char)(0x80 | (code >> 6 * (more - i) & 0x3f));
    return (size_t)more + 1;
}

/* Converts the wide text to UTF-8 in `buffer` and returns it; "" for NULL. */
static const char *nvtx_narrow(const wchar_t *text, char buffer[DL_NVTX_WIDE_TEXT_BYTES])
{
    size_t bytes = 0;
    while (text != NULL && *text != 0 && bytes + 5 <= DL_NVTX_WIDE_TEXT_BYTES)
        bytes += put_utf8(buffer + bytes, (uint32_t)*text++);
    buffer[bytes] = '\0';
    return buffer;
}

/* Converts the text of an event in `domain`, in one of NVTX's forms, to an id. */
static dl_nvtx_message nvtx_message_text(const dl_nvtx_domain *domain, const char *text)
{
    const bool nccl = text != NULL && nvtx_domain_is_nccl(domain);
    return (dl_nvtx_message){dl_nvtx_text_id(text), nccl ? dl_nccl_function(text) : 0};
}

static dl_nvtx_message nvtx_message_wide(const dl_nvtx_domain *domain, const wchar_t *text)
{
    char buffer[DL_NVTX_WIDE_TEXT_BYTES];
    return nvtx_message_text(domain, nvtx_narrow(text, buffer));
}

static dl_nvtx_message nvtx_message_attributes(const dl_nvtx_domain *domain,
                                               const nvtxEventAttributes_t *attributes)
{
    switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII: return nvtx_message_text(domain, attributes->message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE: return nvtx_message_wide(domain, attributes->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED: return nvtx_string_message(attributes->message.registered);
    default: return (dl_nvtx_message){0};
    }
}

static dl_nvtx_payloads nvtx_payloads_make(const nvtxPayloadData_t *data, size_t count)
{
    return (dl_nvtx_payloads){data, data == NULL ? 0 : count < PAYLOADS_MAX ? count : PAYLOADS_MAX};
}

static dl_nvtx_payloads nvtx_payloads_attributes(const nvtxEventAttributes_t *attributes)
{
    if (attributes->payloadType != NVTX_PAYLOAD_TYPE_EXT || attributes->reserved0 <= 0)
        return (dl_nvtx_payloads){0};
    return nvtx_payloads_make((const void *)(uintptr_t)attributes->payload.ullValue,
                              (size_t)attributes->reserved0);
}

static dl_activity activity_of(dl_activity_kind kind, const dl_nvtx_domain *domain,
                               dl_nvtx_message message)
{
    return (dl_activity){.kind = (uint8_t)kind,
                         .name = message.id,
                         .detail = domain == NULL ? 0 : domain->name_id,
                         .thread = dl_capture_thread(),
                         .start_ns = dl_capture_now()};
}

static void nvtx_event_mark(const dl_nvtx_domain *domain, dl_nvtx_message message)
{
    const dl_activity activity = activity_of(DL_ACTIVITY_MARK, domain, message);
    dl_capture_append(&activity);
}

/* Callbacks of NVTX, named after its functions. A domain's handle is a pointer to
 * dl_nvtx_domain. */
#define DOMAIN(handle) ((dl_nvtx_domain *)(void *)(handle))

static const dl_nvtx_payloads none;

static void on_domain_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    if (!dl_capture_active() || attributes == NULL) return;
    nvtx_event_mark(DOMAIN(domain), nvtx_message_attributes(DOMAIN(domain), attributes));
}

static void on_mark(const nvtxEventAttributes_t *attributes)
{
    on_domain_mark(NULL, attributes);
}

static void on_mark_a(const char *text)
{
    if (dl_capture_active()) nvtx_event_mark(NULL, nvtx_message_text(NULL, text));
}

static void on_mark_w(const wchar_t *text)
{
    if (dl_capture_active()) nvtx_event_mark(NULL, nvtx_message_wide(NULL, text));
}

static dl_nccl_values nccl_values(const dl_nvtx_domain *domain, dl_nvtx_payloads payloads)
{
    dl_nccl_values values = {0};
    for (size_t i = 0; i < payloads.count; i++) {
        const dl_nvtx_schema *schema = nvtx_schema_find(domain, payloads.data[i].schemaId);
        dl_nccl_read(&values, schema != NULL ? &schema->layout : NULL,
                     schema != NULL ? &schema->nccl : NULL, &payloads.data[i]);
    }
    return values;
}

static dl_nvtx_open begin_range(const dl_nvtx_domain *domain, dl_nvtx_message message,
                                dl_nvtx_payloads payloads)
{
    dl_nvtx_open open = {.activity = activity_of(DL_ACTIVITY_RANGE, domain, message),
                         .domain = domain,
                         .function = message.function};
    if (nvtx_domain_is_nccl(domain)) {
        const dl_nccl_values values = nccl_values(domain, payloads);
        dl_nccl_begin(&open.activity, open.function, &values);
    }
    return open;
}

/* Starts a range that any thread may end; returns its id, 0 if it could not be kept. */
static nvtxRangeId_t nvtx_event_start(const dl_nvtx_domain *domain, dl_nvtx_message message,
                                      dl_nvtx_payloads payloads)
{
    const dl_nvtx_open open = begin_range(domain, message, payloads);
    return dl_nvtx_start(&open);
}

static nvtxRangeId_t on_domain_start(nvtxDomainHandle_t domain,
                                     const nvtxEventAttributes_t *attributes)
{
    if (!dl_capture_active() || attributes == NULL) return 0;
    return nvtx_event_start(DOMAIN(domain), nvtx_message_attributes(DOMAIN(domain), attributes),
                            nvtx_payloads_attributes(attributes));
}

static nvtxRangeId_t on_start(const nvtxEventAttributes_t *attributes)
{
    return on_domain_start(NULL, attributes);
}

static nvtxRangeId_t on_start_a(const char *text)
{
    return dl_capture_active() ? nvtx_event_start(NULL, nvtx_message_text(NULL, text), none) : 0;
}

static nvtxRangeId_t on_start_w(const wchar_t *text)
{
    return dl_capture_active() ? nvtx_event_start(NULL, nvtx_message_wide(NULL, text), none) : 0;
}

static void end_range(dl_nvtx_open *open, dl_nvtx_payloads payloads, int64_t now_ns)
{
    /* The clock may have been set back. */
    if (now_ns > open->activity.start_ns)
        open->activity.duration_ns = now_ns - open->activity.start_ns;
    dl_capture_append(&open->activity);
    if (payloads.count == 0 || !nvtx_domain_is_nccl(open->domain)) return;
    const dl_nccl_values values = nccl_values(open->domain, payloads);
    dl_nccl_end(&open->activity, open->function, &values,
                open->activity.start_ns + open->activity.duration_ns);
}

static void nvtx_event_end(nvtxRangeId_t id, dl_nvtx_payloads payloads)
{
    if (!dl_capture_active()) return;
    const int64_t now_ns = dl_capture_now();
    dl_nvtx_open open;
    if (dl_nvtx_end(id, &open)) end_range(&open, payloads, now_ns);
}

static void on_end(nvtxRangeId_t id)
{
    nvtx_event_end(id, none);
}

/* Push starts a range of the calling thread and returns its level; pop ends the domain's innermost
 * one and returns its level, or NVTX_NO_PUSH_POP_TRACKING if none is open. */
static int nvtx_event_push(const dl_nvtx_domain *domain, dl_nvtx_message message,
                           dl_nvtx_payloads payloads)
{
    const dl_nvtx_open open = begin_range(domain, message, payloads);
    return dl_nvtx_push(&open);
}

static int on_domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    if (!dl_capture_active() || attributes == NULL) return NVTX_NO_PUSH_POP_TRACKING;
    return nvtx_event_push(DOMAIN(domain), nvtx_message_attributes(DOMAIN(domain), attributes),
                           nvtx_payloads_attributes(attributes));
}

static int on_push(const nvtxEventAttributes_t *attributes)
{
    return on_domain_push(NULL, attributes);
}

static int on_push_a(const char *text)
{
    if (!dl_capture_active()) return NVTX_NO_PUSH_POP_TRACKING;
    return nvtx_event_push(NULL, nvtx_message_text(NULL, text), none);
}

static int on_push_w(const wchar_t *text)
{
    if (!dl_capture_active()) return NVTX_NO_PUSH_POP_TRACKING;
    return nvtx_event_push(NULL, nvtx_message_wide(NULL, text), none);
}

static int nvtx_event_pop(const dl_nvtx_domain *domain, dl_nvtx_payloads payloads)
{
    if (!dl_capture_active()) return NVTX_NO_PUSH_POP_TRACKING;
    const int64_t now_ns = dl_capture_now();
    dl_nvtx_open open;
    if (!dl_nvtx_pop(domain, &open)) return NVTX_NO_PUSH_POP_TRACKING;
    const int level = open.level;
    end_range(&open, payloads, now_ns);
    return level;
}

static int on_pop(void)
{
    return nvtx_event_pop(NULL, none);
}

static void name_thread(uint32_t thread, const char *name)
{
    if (!dl_capture_active() || name == NULL) return;
    char key[32];
    snprintf(key, sizeof key, "thread.%" PRIu32, thread);
    dl_capture_meta(key, name);
}

static void on_name_thread_w(uint32_t thread, const wchar_t *name)
{
    char buffer[DL_NVTX_WIDE_TEXT_BYTES];
    name_thread(thread, nvtx_narrow(name, buffer));
}

static void on_domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
    (void)domain; /* ids are unique in the process */
    nvtx_event_end(id, none);
}

static int on_domain_pop(nvtxDomainHandle_t domain)
{
    return nvtx_event_pop(DOMAIN(domain), none);
}

static nvtxStringHandle_t on_register(nvtxDomainHandle_t domain, const char *text)
{
    return nvtx_string_handle(nvtx_message_text(DOMAIN(domain), text));
}

static nvtxStringHandle_t on_register_w(nvtxDomainHandle_t domain, const wchar_t *text)
{
    return nvtx_string_handle(nvtx_message_wide(DOMAIN(domain), text));
}

static nvtxDomainHandle_t on_domain_create(const char *name)
{
    if (!dl_capture_active() || name == NULL) return NULL;
    return (nvtxDomainHandle_t)(void *)nvtx_domain_create(name);
}

static nvtxDomainHandle_t on_domain_create_w(const wchar_t *name)
{
    char buffer[DL_NVTX_WIDE_TEXT_BYTES];
    return on_domain_create(nvtx_narrow(name, buffer));
}

static void on_domain_destroy(nvtxDomainHandle_t domain)
{
    if (dl_capture_active()) nvtx_domain_destroy(DOMAIN(domain));
}

/* Callbacks of the payload extension. */
static uint64_t on_schema(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t *attributes)
{
    return dl_capture_active() ? nvtx_schema_add(DOMAIN(domain), attributes) : 0;
}

static uint64_t on_enum(nvtxDomainHandle_t domain, const nvtxPayloadEnumAttr_t *attributes)
{
    return dl_capture_active() ? nvtx_enum_add(DOMAIN(domain), attributes) : 0;
}

/* Returns the text of an event that has only payloads: of the entry marked as its message, else the
 * schema's name. */
static dl_nvtx_message nvtx_message_payloads(const dl_nvtx_domain *domain,
                                             dl_nvtx_payloads payloads)
{
    dl_nvtx_message message = {0};
    for (size_t i = 0; i < payloads.count; i++) {
        const dl_nvtx_schema *schema = nvtx_schema_find(domain, payloads.data[i].schemaId);
        if (schema == NULL) continue;
        if (message.id == 0) message.id = schema->name;
        uint64_t address;
        if (!dl_payload_read(&schema->layout, schema->message, &payloads.data[i], &address))
            continue;
        const dl_payload_entry *entry = &schema->layout.entries[schema->message];
        if (entry->type == NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE)
            return nvtx_string_message((nvtxStringHandle_t)(uintptr_t)address);
        if (entry->form == DL_PAYLOAD_TEXT)
            return nvtx_message_text(domain, (const char *)(uintptr_t)address);
    }
    return message;
}

static void on_mark_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *data, size_t count)
{
    if (!dl_capture_active()) return;
    nvtx_event_mark(DOMAIN(domain),
                    nvtx_message_payloads(DOMAIN(domain), nvtx_payloads_make(data, count)));
}

static int on_push_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *data, size_t count)
{
    if (!dl_capture_active()) return NVTX_NO_PUSH_POP_TRACKING;
    const dl_nvtx_payloads given = nvtx_payloads_make(data, count);
    return nvtx_event_push(DOMAIN(domain), nvtx_message_payloads(DOMAIN(domain), given), given);
}

static int on_pop_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *data, size_t count)
{
    return nvtx_event_pop(DOMAIN(domain), nvtx_payloads_make(data, count));
}

static nvtxRangeId_t on_start_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *data,
                                      size_t count)
{
    if (!dl_capture_active()) return 0;
    const dl_nvtx_payloads given = nvtx_payloads_make(data, count);
    return nvtx_event_start(DOMAIN(domain), nvtx_message_payloads(DOMAIN(domain), given), given);
}

static void on_end_payload(nvtxDomainHandle_t domain, nvtxRangeId_t id,
                           const nvtxPayloadData_t *data, size_t count)
{
    (void)domain;
    nvtx_event_end(id, nvtx_payloads_make(data, count));
}

static uint8_t on_is_enabled(nvtxDomainHandle_t domain)
{
    (void)domain;
    return dl_capture_active();
}

/* Entries of NVTX's function tables. Their type has no arguments; NVTX casts each to its own
 * type. */
typedef struct table_entry {
    unsigned id;
    NvtxFunctionPointer function;
} table_entry;

#define ENTRY(id, function)                 \
    {                                       \
        id, (NvtxFunctionPointer)(function) \
    }

static const table_entry core_entries[] = {
    ENTRY(NVTX_CBID_CORE_MarkEx, on_mark),
    ENTRY(NVTX_CBID_CORE_MarkA, on_mark_a),
    ENTRY(NVTX_CBID_CORE_MarkW, on_mark_w),
    ENTRY(NVTX_CBID_CORE_RangeStartEx, on_start),
    ENTRY(NVTX_CBID_CORE_RangeStartA, on_start_a),
    ENTRY(NVTX_CBID_CORE_RangeStartW, on_start_w),
    ENTRY(NVTX_CBID_CORE_RangeEnd, on_end),
    ENTRY(NVTX_CBID_CORE_RangePushEx, on_push),
    ENTRY(NVTX_CBID_CORE_RangePushA, on_push_a),
    ENTRY(NVTX_CBID_CORE_RangePushW, on_push_w),
    ENTRY(NVTX_CBID_CORE_RangePop, on_pop),
    ENTRY(NVTX_CBID_CORE_NameOsThreadA, name_thread),
    ENTRY(NVTX_CBID_CORE_NameOsThreadW, on_name_thread_w),
};
static const table_entry core2_entries[] = {
    ENTRY(NVTX_CBID_CORE2_DomainMarkEx, on_domain_mark),
    ENTRY(NVTX_CBID_CORE2_DomainRangeStartEx, on_domain_start),
    ENTRY(NVTX_CBID_CORE2_DomainRangeEnd, on_domain_end),
    ENTRY(NVTX_CBID_CORE2_DomainRangePushEx, on_domain_push),
    ENTRY(NVTX_CBID_CORE2_DomainRangePop, on_domain_pop),
    ENTRY(NVTX_CBID_CORE2_DomainRegisterStringA, on_register),
    ENTRY(NVTX_CBID_CORE2_DomainRegisterStringW, on_register_w),
    ENTRY(NVTX_CBID_CORE2_DomainCreateA, on_domain_create),
    ENTRY(NVTX_CBID_CORE2_DomainCreateW, on_domain_create_w),
    ENTRY(NVTX_CBID_CORE2_DomainDestroy, on_domain_destroy),
};
static const table_entry payload_entries[] = {
    ENTRY(NVTX3EXT_CBID_nvtxPayloadSchemaRegister, on_schema),
    ENTRY(NVTX3EXT_CBID_nvtxPayloadEnumRegister, on_enum),
    ENTRY(NVTX3EXT_CBID_nvtxMarkPayload, on_mark_payload),
    ENTRY(NVTX3EXT_CBID_nvtxRangePushPayload, on_push_payload),
    ENTRY(NVTX3EXT_CBID_nvtxRangePopPayload, on_pop_payload),
    ENTRY(NVTX3EXT_CBID_nvtxRangeStartPayload, on_start_payload),
    ENTRY(NVTX3EXT_CBID_nvtxRangeEndPayload, on_end_payload),
    ENTRY(NVTX3EXT_CBID_nvtxDomainIsEnabled, on_is_enabled),
};

/* Fills one table of a copy of NVTX, which may be older and shorter than ours. */
static bool fill_module(const NvtxExportTableCallbacks *callbacks, NvtxCallbackModule module,
                        const table_entry *entries, size_t count)
{
    NvtxFunctionTable table = NULL;
    unsigned int size = 0;
    if (!callbacks->GetModuleFunctionTable(module, &table, &size) || table == NULL) return false;
    for (size_t i = 0; i < count; i++)
        if (entries[i].id < size && table[entries[i].id] != NULL)
            *table[entries[i].id] = entries[i].function;
    return true;
}

#define EXPORT __attribute__((visibility("default")))

static void at_end(void)
{
    dl_nvtx_open_end(dl_capture_now());
}

static void register_end(void)
{
    dl_capture_at_end(at_end);
}

static bool begin_recording(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!dl_capture_active()) return false;
    pthread_once(&once, register_end);
    return true;
}

#define COUNT(entries) (sizeof(entries) / sizeof(entries)[0])

EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table)
{
    if (!begin_recording()) return 0;
    const NvtxExportTableCallbacks *callbacks = get_export_table(NVTX_ETID_CALLBACKS);
    if (callbacks == NULL || callbacks->struct_size < sizeof *callbacks) return 0;
    return fill_module(callbacks, NVTX_CB_MODULE_CORE, core_entries, COUNT(core_entries)) &&
           fill_module(callbacks, NVTX_CB_MODULE_CORE2, core2_entries, COUNT(core2_entries));
}

/* Versions of the payload extension with the structures of our headers: compatId of NCCL 2.28's
 * copy and of CUDA 13.0's. Later ones only add functions. */
#define PAYLOAD_COMPATID_MIN 0x0103

EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module)
{
    if (!begin_recording() || module->moduleId != NVTX_EXT_PAYLOAD_MODULEID ||
        module->compatId < PAYLOAD_COMPATID_MIN || module->segmentsCount == 0)
        return 0;
    const nvtxExtModuleSegment_t *segment = &module->segments[0];
    for (size_t i = 0; i < COUNT(payload_entries); i++)
        if (payload_entries[i].id < segment->slotCount)
            segment->functionSlots[payload_entries[i].id] = (intptr_t)payload_entries[i].function;
    return 1;
}
