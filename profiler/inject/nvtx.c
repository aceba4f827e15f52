#include "profiler/inject/nvtx.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "profiler/inject/capture.h"
#include "profiler/inject/nvtx_event.h"
#include "profiler/inject/nvtx_open.h"

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

static void name_thread(uint32_t thread, const char *name)
{
    if (!dl_capture_active() || name == NULL) return;
    char key[32];
    snprintf(key, sizeof key, "thread.%" PRIu32, thread);
    dl_capture_meta(key, name);
}

/* The functions that NVTX calls, named as there. A domain's handle is our dl_nvtx_domain. */
#define DOMAIN(handle) ((dl_nvtx_domain *)(void *)(handle))
static const dl_nvtx_payloads none;

static void on_domain_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    if (!dl_capture_active() || attributes == NULL) return;
    dl_nvtx_event_mark(DOMAIN(domain), dl_nvtx_message_attributes(DOMAIN(domain), attributes));
}

static int on_domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    if (!dl_capture_active() || attributes == NULL) return NVTX_NO_PUSH_POP_TRACKING;
    return dl_nvtx_event_push(DOMAIN(domain),
                              dl_nvtx_message_attributes(DOMAIN(domain), attributes),
                              dl_nvtx_payloads_attributes(attributes));
}

static nvtxRangeId_t on_domain_start(nvtxDomainHandle_t domain,
                                     const nvtxEventAttributes_t *attributes)
{
    if (!dl_capture_active() || attributes == NULL) return 0;
    return dl_nvtx_event_start(DOMAIN(domain),
                               dl_nvtx_message_attributes(DOMAIN(domain), attributes),
                               dl_nvtx_payloads_attributes(attributes));
}

static int on_domain_pop(nvtxDomainHandle_t domain)
{
    return dl_nvtx_event_pop(DOMAIN(domain), none);
}

static void on_domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
    (void)domain; /* an id is unique in the process */
    dl_nvtx_event_end(id, none);
}

static void on_mark(const nvtxEventAttributes_t *attributes)
{
    on_domain_mark(NULL, attributes);
}

static void on_mark_a(const char *text)
{
    if (dl_capture_active()) dl_nvtx_event_mark(NULL, dl_nvtx_message_text(NULL, text));
}

static void on_mark_w(const wchar_t *text)
{
    if (dl_capture_active()) dl_nvtx_event_mark(NULL, dl_nvtx_message_wide(NULL, text));
}

static int on_push(const nvtxEventAttributes_t *attributes)
{
    return on_domain_push(NULL, attributes);
}

static int on_push_a(const char *text)
{
    if (!dl_capture_active()) return NVTX_NO_PUSH_POP_TRACKING;
    return dl_nvtx_event_push(NULL, dl_nvtx_message_text(NULL, text), none);
}

static int on_push_w(const wchar_t *text)
{
    if (!dl_capture_active()) return NVTX_NO_PUSH_POP_TRACKING;
    return dl_nvtx_event_push(NULL, dl_nvtx_message_wide(NULL, text), none);
}

static int on_pop(void)
{
    return dl_nvtx_event_pop(NULL, none);
}

static nvtxRangeId_t on_start(const nvtxEventAttributes_t *attributes)
{
    return on_domain_start(NULL, attributes);
}

static nvtxRangeId_t on_start_a(const char *text)
{
    return dl_capture_active() ? dl_nvtx_event_start(NULL, dl_nvtx_message_text(NULL, text), none)
                               : 0;
}

static nvtxRangeId_t on_start_w(const wchar_t *text)
{
    return dl_capture_active() ? dl_nvtx_event_start(NULL, dl_nvtx_message_wide(NULL, text), none)
                               : 0;
}

static void on_end(nvtxRangeId_t id)
{
    dl_nvtx_event_end(id, none);
}

static void on_name_thread_w(uint32_t thread, const wchar_t *name)
{
    char buffer[DL_NVTX_WIDE_TEXT_BYTES];
    name_thread(thread, dl_nvtx_narrow(name, buffer));
}

static nvtxDomainHandle_t on_domain_create(const char *name)
{
    if (!dl_capture_active() || name == NULL) return NULL;
    return (nvtxDomainHandle_t)(void *)dl_nvtx_domain_create(name);
}

static nvtxDomainHandle_t on_domain_create_w(const wchar_t *name)
{
    char buffer[DL_NVTX_WIDE_TEXT_BYTES];
    return on_domain_create(dl_nvtx_narrow(name, buffer));
}

static void on_domain_destroy(nvtxDomainHandle_t domain)
{
    if (dl_capture_active()) dl_nvtx_domain_destroy(DOMAIN(domain));
}

static nvtxStringHandle_t on_register(nvtxDomainHandle_t domain, const char *text)
{
    return dl_nvtx_string_handle(dl_nvtx_message_text(DOMAIN(domain), text));
}

static nvtxStringHandle_t on_register_w(nvtxDomainHandle_t domain, const wchar_t *text)
{
    return dl_nvtx_string_handle(dl_nvtx_message_wide(DOMAIN(domain), text));
}

/* The payload extension. */
static uint64_t on_schema(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t *attributes)
{
    return dl_capture_active() ? dl_nvtx_schema_add(DOMAIN(domain), attributes) : 0;
}

static uint64_t on_enum(nvtxDomainHandle_t domain, const nvtxPayloadEnumAttr_t *attributes)
{
    return dl_capture_active() ? dl_nvtx_enum_add(DOMAIN(domain), attributes) : 0;
}

static void on_mark_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *data, size_t count)
{
    if (!dl_capture_active()) return;
    dl_nvtx_event_mark(DOMAIN(domain), dl_nvtx_message_payloads(
                                           DOMAIN(domain), dl_nvtx_payloads_make(data, count)));
}

static int on_push_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *data, size_t count)
{
    if (!dl_capture_active()) return NVTX_NO_PUSH_POP_TRACKING;
    const dl_nvtx_payloads given = dl_nvtx_payloads_make(data, count);
    return dl_nvtx_event_push(DOMAIN(domain), dl_nvtx_message_payloads(DOMAIN(domain), given),
                              given);
}

static int on_pop_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *data, size_t count)
{
    return dl_nvtx_event_pop(DOMAIN(domain), dl_nvtx_payloads_make(data, count));
}

static nvtxRangeId_t on_start_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *data,
                                      size_t count)
{
    if (!dl_capture_active()) return 0;
    const dl_nvtx_payloads given = dl_nvtx_payloads_make(data, count);
    return dl_nvtx_event_start(DOMAIN(domain), dl_nvtx_message_payloads(DOMAIN(domain), given),
                               given);
}

static void on_end_payload(nvtxDomainHandle_t domain, nvtxRangeId_t id,
                           const nvtxPayloadData_t *data, size_t count)
{
    (void)domain;
    dl_nvtx_event_end(id, dl_nvtx_payloads_make(data, count));
}

static uint8_t on_is_enabled(nvtxDomainHandle_t domain)
{
    (void)domain;
    return dl_capture_active();
}

/* Where each of our functions goes. The tables' types are not callable: NVTX casts them back. */
typedef struct entry {
    unsigned id;
    NvtxFunctionPointer function;
} entry;
#define ENTRY(id, function)                 \
    {                                       \
        id, (NvtxFunctionPointer)(function) \
    }

static const entry core_entries[] = {
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
static const entry core2_entries[] = {
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
static const entry payload_entries[] = {
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
                        const entry *entries, size_t count)
{
    NvtxFunctionTable table = NULL;
    unsigned int size = 0;
    if (!callbacks->GetModuleFunctionTable(module, &table, &size) || table == NULL) return false;
    for (size_t i = 0; i < count; i++)
        if (entries[i].id < size && table[entries[i].id] != NULL)
            *table[entries[i].id] = entries[i].function;
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

/* Versions of the payload extension whose structures are those of our headers: compatId of NCCL
 * 2.28's copy and of CUDA 13.0's. Later ones only add functions. */
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
