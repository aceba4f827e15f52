/* Walking JSON with simdjson: what json_events.cpp and json_walk.cpp share, for these two only.
 *
 * simdjson wants a text that is closed, well encoded and padded; traces are cut, hold control
 * characters and come in windows. So a text lies in a padded_text and is closed by hand. */
#ifndef DL_TRACE_READERS_JSON_WALK_HPP
#define DL_TRACE_READERS_JSON_WALK_HPP

#include <cstddef>
#include <cstdint>
#include <simdjson.h>
#include <vector>

extern "C" {
#include "trace/readers/json_events.h"
}

namespace dl_json
{

namespace ondemand = simdjson::ondemand;

/* Room after a text for what closes it. */
constexpr size_t CLOSING_BYTES = 8;
constexpr size_t PADDING_BYTES = CLOSING_BYTES + simdjson::SIMDJSON_PADDING;

inline bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* A token of simdjson lasts up to the next one. */
inline dl_json_text trimmed(const char *at, size_t bytes)
{
    while (bytes > 0 && is_blank(at[bytes - 1]))
        bytes--;
    return {at, bytes};
}

/* A text with room after it for closing marks and simdjson's padding. */
struct padded_text {
    std::vector<char> bytes;
    size_t used = 0;

    explicit padded_text(size_t room) : bytes(room + PADDING_BYTES, ' ') {}
    padded_text(const char *from, const char *to) : bytes(from, to), used(bytes.size())
    {
        bytes.resize(used + PADDING_BYTES, ' ');
    }
    size_t room() const { return bytes.size() - PADDING_BYTES; }
    char *begin() { return bytes.data(); }
};

/* The raw text of a value, which is walked over by that. */
inline simdjson::error_code raw_value(ondemand::value value, dl_json_text *raw)
{
    ondemand::json_type type;
    if (auto error = value.type().get(type)) return error;
    std::string_view text;
    if (type == ondemand::json_type::array || type == ondemand::json_type::object) {
        ondemand::array array;
        ondemand::object object;
        simdjson::error_code error;
        if (type == ondemand::json_type::array) {
            error = value.get_array().get(array);
            if (error == simdjson::SUCCESS) error = array.raw_json().get(text);
        } else {
            error = value.get_object().get(object);
            if (error == simdjson::SUCCESS) error = object.raw_json().get(text);
        }
        if (error) return error;
    } else {
        text = value.raw_json_token();
    }
    *raw = trimmed(text.data(), text.size());
    return simdjson::SUCCESS;
}

/* A key's raw text, without quotes: up to the first quote, so one with an escaped quote is cut. */
inline dl_json_text raw_key(ondemand::raw_json_string key)
{
    const char *end = key.raw();
    while (*end != '"')
        end++;
    return {key.raw(), static_cast<size_t>(end - key.raw())};
}

/* Position just after what was walked, or the end of the text. */
inline const char *position(ondemand::document &document, const padded_text &text)
{
    const char *at = nullptr;
    if (document.current_location().get(at) != simdjson::SUCCESS)
        return text.bytes.data() + text.used;
    return at;
}

using visitor = void (*)(void *, dl_json_text, dl_json_text);

/* Makes `text` ready to be walked: closes an open string, then adds `close`. What simdjson finds
 * forbidden is replaced, and counted in *replaced. */
simdjson::error_code start(ondemand::parser &parser, padded_text &text, char close,
                           uint64_t *replaced, ondemand::document &document);

/* Visits the members of the object in `text`, which may be cut: only whole ones are delivered.
 * False if it is cut or malformed. */
bool visit_members(ondemand::parser &parser, padded_text &text, uint64_t *replaced, visitor visit,
                   void *context);

/* The end of the bracket that opens at at[0], or NULL if it does not close before `end`. With
 * `key`, stops at depth 1 after such a key, whose start is *key_begin then. */
const char *scan(const char *at, const char *end, const char *key, const char **key_begin);

} // namespace dl_json

#endif
