package idem

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

const marked = "$base64"

// pack makes the text that jsonb stores for a value. jsonb has no U+0000 and no lone surrogate: a value with one is one marked member, its JSON text in base64.
func pack(value any) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("idem: the output is no value that JSON has: %w", err)
	}
	if _, isMarked := unmarked(text); !isMarked && !isRefused(text) {
		return text, nil
	}
	return json.Marshal(map[string]string{marked: base64.StdEncoding.EncodeToString(text)})
}

// unpack reads a stored value into a place. Nothing stored leaves the place as it is.
func unpack(stored json.RawMessage, place any) error {
	if stored == nil {
		return nil
	}
	if text, isMarked := unmarked(stored); isMarked {
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
			stored = plain
		}
	}
	return json.Unmarshal(stored, place)
}

func unmarked(text json.RawMessage) (string, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || len(members) != 1 || members[marked] == nil {
		return "", false
	}
	var value string
	err := json.Unmarshal(members[marked], &value)
	return value, err == nil
}

// isRefused: encoding/json writes U+0000 as an escape, and RawMessage may have lone surrogates as escapes.
func isRefused(text json.RawMessage) bool {
	high := -1 // where the escape after a high surrogate has to begin
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if text[i+1] != 'u' {
			i++
			continue
		}
		code, _ := strconv.ParseUint(string(text[i+2:i+6]), 16, 32)
		isLow := code >= 0xDC00 && code < 0xE000
		if code == 0 || isLow != (high == i) {
			return true
		}
		if high != -1 && high != i {
			return true
		}
		high = -1
		i += 5
		if code >= 0xD800 && code < 0xDC00 {
			high = i + 1
		}
	}
	return high != -1
}
