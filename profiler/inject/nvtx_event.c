#include "profiler/inject/nvtx_event.h"

#include "profiler/inject/capture.h"
#include "profiler/inject/nvtx_open.h"

#define PAYLOADS_MAX 16 /* of one event; later ones are not looked at */

/* Appends the UTF-8 bytes of a code point; U+FFFD for what is none. */
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

const char *dl_nvtx_narrow(const wchar_t *text, char buffer[DL_NVTX_WIDE_TEXT_BYTES])
{
    size_t bytes = 0;
    while (text != NULL && *text != 0 && bytes + 5 <= DL_NVTX_WIDE_TEXT_BYTES)
        bytes += put_utf8(buffer + bytes, (uint32_t)*text++);
    buffer[bytes] = '\0';
    return buffer;
}

dl_nvtx_message dl_nvtx_message_text(const dl_nvtx_domain *domain, const char *text)
{
    const bool nccl = text != NULL && dl_nvtx_domain_is_nccl(domain);
    return (dl_nvtx_message){dl_nvtx_text_id(text), nccl ? dl_nccl_function(text) : 0};
}

dl_nvtx_message dl_nvtx_message_wide(const dl_nvtx_domain *domain, const wchar_t *text)
{
    char buffer[DL_NVTX_WIDE_TEXT_BYTES];
    return dl_nvtx_message_text(domain, dl_nvtx_narrow(text, buffer));
}

dl_nvtx_message dl_nvtx_message_attributes(const dl_nvtx_domain *domain,
                                           const nvtxEventAttributes_t *attributes)
{
    switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII: return dl_nvtx_message_text(domain, attributes->message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
        return dl_nvtx_message_wide(domain, attributes->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED:
        return dl_nvtx_string_message(attributes->message.registered);
    default: return (dl_nvtx_message){0};
    }
}

dl_nvtx_payloads dl_nvtx_payloads_make(const nvtxPayloadData_t *data, size_t count)
{
    return (dl_nvtx_payloads){data, data == NULL ? 0 : count < PAYLOADS_MAX ? count : PAYLOADS_MAX};
}

dl_nvtx_payloads dl_nvtx_payloads_attributes(const nvtxEventAttributes_t *attributes)
{
    if (attributes->payloadType != NVTX_PAYLOAD_TYPE_EXT || attributes->reserved0 <= 0)
        return (dl_nvtx_payloads){0};
    return dl_nvtx_payloads_make((const void *)(uintptr_t)attributes->payload.ullValue,
                                 (size_t)attributes->reserved0);
}

/* The text of an event that has no attributes: that of an entry marked so, else its schema's name.
 */
dl_nvtx_message dl_nvtx_message_payloads(const dl_nvtx_domain *domain, dl_nvtx_payloads payloads)
{
    dl_nvtx_message message = {0};
    for (size_t i = 0; i < payloads.count; i++) {
        const dl_nvtx_schema *schema = dl_nvtx_schema_find(domain, payloads.data[i].schemaId);
        if (schema == NULL) continue;
        if (message.id == 0) message.id = schema->name;
        uint64_t address;
        if (!dl_payload_read(&schema->layout, schema->message, &payloads.data[i], &address))
            continue;
        const dl_payload_entry *entry = &schema->layout.entries[schema->message];
        if (entry->type == NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE)
            return dl_nvtx_string_message((nvtxStringHandle_t)(uintptr_t)address);
        if (entry->form == DL_PAYLOAD_TEXT)
            return dl_nvtx_message_text(domain, (const char *)(uintptr_t)address);
    }
    return message;
}

static dl_nccl_values nccl_values(const dl_nvtx_domain *domain, dl_nvtx_payloads payloads)
{
    dl_nccl_values values = {0};
    for (size_t i = 0; i < payloads.count; i++) {
        const dl_nvtx_schema *schema = dl_nvtx_schema_find(domain, payloads.data[i].schemaId);
        dl_nccl_read(&values, schema != NULL ? &schema->layout : NULL,
                     schema != NULL ? &schema->nccl : NULL, &payloads.data[i]);
    }
    return values;
}

static dl_activity activity_of(dl_activity_kind kind, const dl_nvtx_domain *domain,
                               dl_nvtx_message message)
{
    return (dl_activity){.kind = (uint8_t)kind,
                         .name = message.id,
                         .detail = dl_nvtx_domain_name(domain),
                         .thread = dl_capture_thread(),
                         .start_ns = dl_capture_now()};
}

static dl_nvtx_open begin_range(const dl_nvtx_domain *domain, dl_nvtx_message message,
                                dl_nvtx_payloads payloads)
{
    dl_nvtx_open open = {.activity = activity_of(DL_ACTIVITY_RANGE, domain, message),
                         .domain = domain,
                         .function = message.function};
    if (dl_nvtx_domain_is_nccl(domain)) {
        const dl_nccl_values values = nccl_values(domain, payloads);
        dl_nccl_begin(&open.activity, open.function, &values);
    }
    return open;
}

static void end_range(dl_nvtx_open *open, dl_nvtx_payloads payloads, int64_t now_ns)
{
    /* The clock may have been set back. */
    if (now_ns > open->activity.start_ns)
        open->activity.duration_ns = now_ns - open->activity.start_ns;
    dl_capture_append(&open->activity);
    if (payloads.count == 0 || !dl_nvtx_domain_is_nccl(open->domain)) return;
    const dl_nccl_values values = nccl_values(open->domain, payloads);
    dl_nccl_end(&open->activity, open->function, &values,
                open->activity.start_ns + open->activity.duration_ns);
}

void dl_nvtx_event_mark(const dl_nvtx_domain *domain, dl_nvtx_message message)
{
    const dl_activity activity = activity_of(DL_ACTIVITY_MARK, domain, message);
    dl_capture_append(&activity);
}

int dl_nvtx_event_push(const dl_nvtx_domain *domain, dl_nvtx_message message,
                       dl_nvtx_payloads payloads)
{
    const dl_nvtx_open open = begin_range(domain, message, payloads);
    return dl_nvtx_push(&open);
}

nvtxRangeId_t dl_nvtx_event_start(const dl_nvtx_domain *domain, dl_nvtx_message message,
                                  dl_nvtx_payloads payloads)
{
    const dl_nvtx_open open = begin_range(domain, message, payloads);
    return dl_nvtx_start(&open);
}

int dl_nvtx_event_pop(const dl_nvtx_domain *domain, dl_nvtx_payloads payloads)
{
    if (!dl_capture_active()) return NVTX_NO_PUSH_POP_TRACKING;
    const int64_t now_ns = dl_capture_now();
    dl_nvtx_open open;
    if (!dl_nvtx_pop(domain, &open)) return NVTX_NO_PUSH_POP_TRACKING;
    const int level = open.level;
    end_range(&open, payloads, now_ns);
    return level;
}

void dl_nvtx_event_end(nvtxRangeId_t id, dl_nvtx_payloads payloads)
{
    if (!dl_capture_active()) return;
    const int64_t now_ns = dl_capture_now();
    dl_nvtx_open open;
    if (dl_nvtx_end(id, &open)) end_range(&open, payloads, now_ns);
}
