package machine

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/go-json-experiment/json"
)

// DigestOfJSON returns the sha256 of a value's canonical JSON (RFC 8785) in hexadecimal, or "" if JSON cannot represent
// the value.
func DigestOfJSON(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return ""
	}
	canonical := jsontext.Value(text)
	if canonical.Canonicalize() != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}
